from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import cross_val_predict

from confrere.demo import ruijin_like
from confrere.demo.simulated_hospitals import RUIJIN_BRANCH_SIZES, RUIJIN_MAIN_SIZE
from confrere.schema.encoding import standardised_columns

TABLE_3 = {
    "mchild": 0.010,
    "weight": 0.012,
    "bone": 0.013,
    "eggw": 0.005,
    "Glu120": 0.055,
    "Glu0": 0.060,
    "age": 0.018,
    "bmi": 0.043,
    "HDL": 0.045,
}


@pytest.fixture(scope="module")
def world():
    return ruijin_like(0)


@pytest.fixture(scope="module")
def centres(world):
    return {"main": world.main, **world.branches}


def encode(world, rows) -> np.ndarray:
    return world.schema.encoder().fit_transform(rows.X)


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


def test_values_obey_the_public_facts(world, centres):
    for rows in centres.values():
        assert tuple(rows.X.columns) == world.schema.columns
        for feature in world.schema.features:
            low, high = getattr(feature, "bounds", (0, 1))
            assert rows.X[feature.column].between(low, high).all()
    # Centres differ, but the public means and deviations are about those of the whole.
    tables = [standardised_columns(world.schema, rows.X) for rows in centres.values()]
    everyone = np.hstack(tables)
    assert everyone.shape == (50, 92_007)
    assert np.abs(everyone.mean(axis=1)).max() < 0.25
    assert 0.8 < everyone.std(axis=1).min() < everyone.std(axis=1).max() < 1.25


def test_the_same_seed_is_the_same_world(world):
    again, other = ruijin_like(0), ruijin_like(1)
    assert again.main.X.equals(world.main.X)
    np.testing.assert_array_equal(again.main.y, world.main.y)
    assert not other.main.X.equals(world.main.X)


def test_centres_differ_in_patients_and_in_prevalence(world, centres):
    prevalences = [rows.y.mean() for rows in centres.values()]
    assert min(prevalences) > 0.065
    assert max(prevalences) < 0.165
    assert max(prevalences) - min(prevalences) > 0.03
    means = np.array([encode(world, rows).mean(axis=0) for rows in centres.values()])
    assert (means.std(axis=0) * world.schema.rms_norm).mean() > 0.1


def test_learning_beats_the_doctors_and_neither_is_perfect(world, centres):
    """Not private, each centre alone: about .75 to .80; the doctors' score: about .70 to .75."""
    learned, expert = [], []
    for rows in centres.values():
        model = LogisticRegression(C=3.0, max_iter=200)
        scores = cross_val_predict(
            model, encode(world, rows), rows.y, cv=4, method="decision_function"
        )
        learned.append(roc_auc_score(rows.y, scores))
        expert.append(roc_auc_score(rows.y, world.schema.expert_score(rows.X)))
    assert 0.76 < np.mean(learned) < 0.79
    assert 0.735 < min(learned) < max(learned) < 0.815
    assert 0.70 < np.mean(expert) < 0.75
    assert all(np.array(learned) > np.array(expert))
