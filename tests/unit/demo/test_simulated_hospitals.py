from __future__ import annotations

import numpy as np
import pytest

from confrere.demo import ruijin_like
from confrere.demo.simulated_hospitals import RUIJIN_BRANCH_SIZES, RUIJIN_MAIN_SIZE

TABLE_3 = {"Glu0": 0.060, "Glu120": 0.055, "HDL": 0.045, "bmi": 0.043, "age": 0.018}


@pytest.fixture(scope="module")
def world():
    return ruijin_like(0)


@pytest.fixture(scope="module")
def centres(world):
    return {"main": world.main, **world.branches}


def test_sizes_are_the_published_ones(world):
    assert len(world.main) == RUIJIN_MAIN_SIZE
    assert tuple(map(len, world.branches.values())) == RUIJIN_BRANCH_SIZES


def test_it_says_that_it_is_simulated(world):
    assert world.simulated is True
    assert "simulated" in repr(world)
    assert "simulated" in world.schema.note.lower()
    assert all("simulated" in name for name in world.branches)


def test_importances_are_the_doctors(world):
    names = world.schema.columns
    importances = dict(zip(names, world.schema.importances(), strict=True))
    assert len(names) == len(set(names)) == 50
    assert {name: importances[name] for name in TABLE_3} == pytest.approx(TABLE_3)
    assert sum(importances.values()) == pytest.approx(1)
    assert max(importances, key=importances.get) == "Glu0"
    assert set(world.schema.signs()) == {-1, 1}


def test_the_same_seed_is_the_same_world(world):
    again, other = ruijin_like(0), ruijin_like(1)
    assert again.main.X.equals(world.main.X)
    np.testing.assert_array_equal(again.main.y, world.main.y)
    assert not other.main.X.equals(world.main.X)
