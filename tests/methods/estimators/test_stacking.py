"""Stacks over samples and over features: groups, combiners and reductions."""

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.metrics import roc_auc_score

from confrere import FeatureStackingClassifier, Ledger, SampleStackingClassifier
from confrere.estimators import designed
from confrere.release import load_release

X, Y = make_classification(
    n_samples=2000, n_features=12, n_informative=6, shuffle=False, random_state=3
)
IMPORTANCE = np.r_[np.full(6, 1.0), np.full(6, 0.1)]
SETTINGS = {"epsilon": 4.0, "data_norm": 6.0, "random_state": 0}


def auc(model):
    return roc_auc_score(Y, model.decision_function(X))


@pytest.mark.parametrize("clipping", ["joint", "separate"])
@pytest.mark.parametrize("combiner", ["stack", "vote", "weighted_vote"])
def test_every_combination_learns(clipping, combiner):
    model = designed(
        FeatureStackingClassifier(**SETTINGS, n_groups=3, importance=IMPORTANCE, combiner=combiner),
        clipping=clipping,
    ).fit(X, Y)
    assert auc(model) > 0.7
    probabilities = model.predict_proba(X)
    assert probabilities.min() >= 0
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    assert (model.high_level_ is None) == (combiner != "stack")


#: Of several classes, and with a delta: learned, released, refused.
_draw = np.random.default_rng(0)
ROWS = _draw.normal(size=(900, 4)) / 3
CODES = np.argmax(ROWS[:, :3] + 0.02 * _draw.normal(size=(900, 3)), axis=1)
NAMES = np.array(["ash", "elm", "oak"])
TREES = NAMES[CODES]

STACKS = {
    "samples": lambda **s: SampleStackingClassifier(n_groups=2, **s),
    "samples, vote": lambda **s: SampleStackingClassifier(n_groups=2, combiner="vote", **s),
    "features": lambda **s: FeatureStackingClassifier(groups=[[0, 1], [2, 3]], **s),
    "features, separate": lambda **s: designed(
        FeatureStackingClassifier(groups=[[0, 1], [2, 3]], **s), clipping="separate"
    ),
    "features, vote": lambda **s: FeatureStackingClassifier(
        groups=[[0, 1, 2], [3]], combiner="weighted_vote", importance=[1, 1, 1, 0.01], **s
    ),
    "features, alone": lambda **s: FeatureStackingClassifier(groups=[[0, 1, 2, 3]], **s),
}


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("name", STACKS)
def test_a_stack_learns_several_classes(name, delta, tmp_path):
    model = STACKS[name](
        epsilon=1e4, delta=delta, alpha=1e-3, classes=list(NAMES), budget=Ledger()
    ).fit(ROWS, TREES)
    assert model.score(ROWS, TREES) > 0.8
    assert (model.guarantee_.epsilon, model.guarantee_.delta) == (1e4, delta)
    shares = model.predict_proba(ROWS)
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    assert all(low.coef.shape == (3, len(low.features)) for low in model.low_level_)
    assert all(low.noise > 0 for low in model.low_level_)
    model.to_release().save(tmp_path / "release", allow_uncapped=True)
    read = load_release(tmp_path / "release", require_signature_from=None).model
    np.testing.assert_array_equal(read.predict(ROWS), model.predict(ROWS))
