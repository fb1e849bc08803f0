"""Stacks over samples and over features: groups, combiners, reductions and pictures."""

import matplotlib
import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.metrics import roc_auc_score

from confrere import (
    FeatureStackingClassifier,
    Ledger,
    PrivateLogisticRegression,
    SampleStackingClassifier,
)
from confrere.data.body import GroupRows
from confrere.kernel.guarantee import Promised
from confrere.methods import PublicFacts
from confrere.methods.stacks import allocate

matplotlib.use("Agg")

X, Y = make_classification(
    n_samples=2000, n_features=12, n_informative=6, shuffle=False, random_state=3
)
IMPORTANCE = np.r_[np.full(6, 1.0), np.full(6, 0.1)]
SETTINGS = {"epsilon": 4.0, "data_norm": 6.0, "random_state": 0}


def auc(model):
    return roc_auc_score(Y, model.decision_function(X))


@pytest.mark.parametrize("clipping", ["joint", "separate"])
@pytest.mark.parametrize("rows", ["clip", "unit"])
@pytest.mark.parametrize("combiner", ["stack", "vote", "weighted_vote"])
def test_every_combination_learns(clipping, rows, combiner):
    model = FeatureStackingClassifier(
        **SETTINGS,
        n_groups=3,
        importance=IMPORTANCE,
        clipping=clipping,
        rows=rows,
        combiner=combiner,
    ).fit(X, Y)
    assert auc(model) > 0.7
    probabilities = model.predict_proba(X)
    assert probabilities.min() >= 0
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    assert (model.high_level_ is None) == (combiner != "stack")


@pytest.mark.parametrize("clipping", ["joint", "separate"])
def test_one_important_group_is_plain_private_regression(clipping):
    """Remark 1 of the stacking paper: one group of nonzero importance is Algorithm 1 on it."""
    importance = np.r_[np.ones(4), np.zeros(8)]
    groups = [np.arange(4), np.arange(4, 12)]
    rows = X.copy()
    rows[:, 4:] = 0  # under joint clipping the other columns still count towards the norm
    stack = FeatureStackingClassifier(
        **SETTINGS, importance=importance, groups=groups, clipping=clipping, intercept_scale=0.4
    ).fit(rows, Y)
    plain = PrivateLogisticRegression(**SETTINGS, intercept_scale=0.4).fit(rows[:, :4], Y)
    assert len(stack.low_level_) == 1
    np.testing.assert_allclose(stack.low_level_[0].coef, plain.coef_[0], rtol=1e-12)
    np.testing.assert_allclose(
        stack.decision_function(rows), plain.decision_function(rows[:, :4]), rtol=1e-10
    )
    assert stack.guarantee_.epsilon == plain.guarantee_.epsilon


def test_one_part_of_samples_is_plain_private_regression():
    stack = SampleStackingClassifier(**SETTINGS, n_groups=1, split_seed=None).fit(X, Y)
    plain = PrivateLogisticRegression(**SETTINGS).fit(X, Y)
    np.testing.assert_allclose(stack.decision_function(X), plain.decision_function(X), rtol=1e-10)


def test_groups_by_importance_and_their_shares():
    model = FeatureStackingClassifier(**SETTINGS, n_groups=2, importance=IMPORTANCE).fit(X, Y)
    first, second = model.low_level_
    assert set(first.features) == set(range(6))
    assert first.importance == pytest.approx(6 / 6.6)
    assert first.epsilon > second.epsilon
    assert first.noise < second.noise


@pytest.mark.parametrize("stack", [FeatureStackingClassifier, SampleStackingClassifier])
@pytest.mark.parametrize("share", [0.15, 0.85])
def test_unbalanced_labels_do_not_turn_the_ranking_around(stack, share):
    rng = np.random.default_rng(0)
    n = 1500
    y = (rng.uniform(size=n) < share).astype(int)
    rows = rng.normal(size=(n, 8)) / 3
    rows[:, :4] += 0.4 * (2 * y[:, None] - 1)
    for seed in range(10):
        model = stack(epsilon=1.0, data_norm=2.0, n_groups=4, random_state=seed).fit(rows, y)
        assert roc_auc_score(y, model.decision_function(rows)) > 0.8


@pytest.mark.parametrize("stack", [FeatureStackingClassifier, SampleStackingClassifier])
def test_a_declared_base_rate_is_where_intercepts_start(stack):
    rng = np.random.default_rng(0)
    y = (rng.uniform(size=1000) < 0.1).astype(int)
    rows = rng.normal(size=(1000, 6)) / 5
    base = float(np.log(0.1 / 0.9))
    model = stack(
        epsilon=0.05, alpha=1e3, high_alpha=1e3, prior_intercept=base, random_state=0
    ).fit(rows, y)
    assert model.predict_proba(rows)[:, 1].mean() == pytest.approx(0.1, abs=0.05)


def test_one_ledger_entry_has_the_levels_apart():
    ledger = Ledger()
    model = FeatureStackingClassifier(epsilon=0.5, n_groups=3, ledger=ledger).fit(X, Y)
    (entry,) = ledger.entries()
    assert entry.guarantee.epsilon == 0.5
    assert entry.event.parts == (Promised(0.5), Promised(0.5))
    assert entry.event.split == "seeded permutation"
    assert "disjoint parts, split seeded permutation" in model.guarantee_.assumptions


def test_weights_of_groups_meet_their_constraints():
    importance = np.array([6.0, 3.0, 1.0])
    assert allocate(importance, clipping="separate").sum() == pytest.approx(1)
    np.testing.assert_allclose(allocate(importance, clipping="joint") ** 2, [0.6, 0.3, 0.1])


@pytest.mark.parametrize("clipping", ["joint", "separate"])
@pytest.mark.parametrize("rule", ["clip", "unit"])
def test_group_rows_are_bounded_and_invertible(clipping, rule):
    rng = np.random.default_rng(0)
    rows = GroupRows((np.arange(4), np.arange(4, 12)), (2.0, 2.0), rule, clipping, constant=0.4)
    parts = rows(rng.normal(size=(50, 12)) * 3)
    squares = np.array([np.sum(np.square(part), axis=1) for part in parts])
    longest = squares.sum(axis=0) if clipping == "joint" else squares
    assert longest.max() <= 1
    weights = rng.normal(size=5)
    np.testing.assert_allclose(rows.weights(*rows.coefficients(weights, 0), 0), weights)
    score = parts[1] @ rows.baseline(-1.5, 1)
    np.testing.assert_allclose(score, -1.5)


@pytest.mark.parametrize("kind", [SampleStackingClassifier, FeatureStackingClassifier])
def test_the_high_level_of_several_classes_has_few_rows(kind):
    """It learns one weight per group; public sizes alone say from how many rows."""

    def share(n_samples, n_classes, **settings):
        facts = PublicFacts(n_samples=n_samples, n_features=12, n_classes=n_classes)
        plan = kind(classes=range(n_classes), n_groups=2, **settings).plan(facts)
        return plan.division.records[-1] / n_samples

    assert share(1000, 2) == 0.5
    assert share(1000, 3) == share(1000, 10) == 0.05
    assert share(100, 3) == 0.2
    assert share(10, 3) == 0.5
    assert share(1000, 3, high_fraction=0.3) == share(1000, 2, high_fraction=0.3) == 0.3
