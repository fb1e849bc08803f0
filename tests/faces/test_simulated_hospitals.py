import numpy as np
import pytest

from confrere.demo import ruijin_like
from confrere.demo.simulated_hospitals import RUIJIN_BRANCH_SIZES, RUIJIN_MAIN_SIZE


@pytest.fixture(scope="module")
def world():
    return ruijin_like(0)


def test_sizes_are_the_published_ones(world):
    assert len(world.main) == RUIJIN_MAIN_SIZE
    assert tuple(map(len, world.branches.values())) == RUIJIN_BRANCH_SIZES


def test_it_says_that_it_is_simulated(world):
    assert world.simulated is True
    assert "simulated" in repr(world)
    assert "simulated" in world.schema.note.lower()
    assert all("simulated" in name for name in world.branches)


def test_the_same_seed_is_the_same_world(world):
    again, other = ruijin_like(0), ruijin_like(1)
    assert again.main.X.equals(world.main.X)
    np.testing.assert_array_equal(again.main.y, world.main.y)
    assert not other.main.X.equals(world.main.X)
