"""Stacks and transfer of more than two classes, and with a delta: learned, released, refused."""

import numpy as np
import pytest

from confrere import (
    FeatureStackingClassifier,
    Ledger,
    SampleStackingClassifier,
    TransferStackingClassifier,
)
from confrere.estimators import designed
from confrere.release import load_release

RNG = np.random.default_rng(0)
X = RNG.normal(size=(900, 4)) / 3
CODES = np.argmax(X[:, :3] + 0.02 * RNG.normal(size=(900, 3)), axis=1)
NAMES = np.array(["ash", "elm", "oak"])
Y = NAMES[CODES]

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
    ).fit(X, Y)
    assert model.score(X, Y) > 0.8
    assert (model.guarantee_.epsilon, model.guarantee_.delta) == (1e4, delta)
    shares = model.predict_proba(X)
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    assert all(low.coef.shape == (3, len(low.features)) for low in model.low_level_)
    assert all(low.noise > 0 for low in model.low_level_)
    model.to_release().save(tmp_path / "release", allow_uncapped=True)
    read = load_release(tmp_path / "release", require_signature_from=None).model
    np.testing.assert_array_equal(read.predict(X), model.predict(X))


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_a_stack_of_several_classes_is_checked_before_one_starts_from_it(delta):
    settings = {"classes": list(NAMES), "random_state": 0}
    main = STACKS["features"](epsilon=1e4, alpha=1e-3, **settings).fit(X, Y).to_release()
    near = TransferStackingClassifier(source=main, epsilon=1.0, delta=delta, **settings)
    near.fit(X, Y)
    assert near.model_.facts.prior.factor > 0.5
    assert (near.guarantee_.epsilon, near.guarantee_.delta) == (1.0, delta)
    near.fit(X, NAMES[(CODES + 1) % 3])
    assert near.model_.facts.prior.factor < 0.2
