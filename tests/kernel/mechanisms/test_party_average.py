"""The average of weights: nothing that is uploaded counts for more than the bound."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from confrere.kernel.losses import loss_of
from confrere.methods.votes import PartyBudget, largest_norm, local_weights, noised_average


def make(n_parties=4, d=3, alpha=0.01, epsilon=1.0, **kw):
    budget = PartyBudget(epsilon=epsilon, n_parties=n_parties, n_classes=kw.pop("n_classes", 2))
    return noised_average(budget, n_features=d, alpha=alpha, **kw)


def norms(uploads):
    return np.linalg.norm(uploads.reshape(len(uploads), -1), axis=1)


@settings(max_examples=40, deadline=None)
@given(
    scale=st.sampled_from([0.0, 1e-300, 1e-3, 1.0, 1e3, 1e200]),
    n_classes=st.integers(2, 4),
    seed=st.integers(0, 100),
)
def test_no_upload_is_longer_than_the_bound(scale, n_classes, seed):
    mechanism = make(n_classes=n_classes)
    uploads = scale * np.random.default_rng(seed).normal(size=(6, *mechanism.shape))
    clipped = np.array([mechanism.clipped(one) for one in uploads])
    assert np.all(norms(clipped) <= mechanism.reach)
    if n_classes > 2:
        uploads = uploads - uploads.mean(axis=1, keepdims=True)
    if scale <= 1:
        np.testing.assert_allclose(clipped, uploads, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("alpha", [1e-4, 1e-2, 1.0])
def test_honest_parties_are_not_clipped_and_reach_the_sensitivity(n_classes, alpha):
    mechanism = make(d=1, alpha=alpha, n_classes=n_classes, n_parties=10)
    reach = 1.0 if n_classes == 2 else np.sqrt(1.5)
    peak = 1 + (0.278465 if n_classes == 2 else 0.463056)
    rows = np.full((2, 1), min(1.0, peak / (reach * largest_norm(alpha, n_classes))))
    labels = np.array([1, -1] if n_classes == 2 else [0, 1])
    each = zip(rows, labels, strict=True)
    W = np.array([local_weights(x[None], y[None], loss_of(n_classes), alpha) for x, y in each])
    if n_classes == 2:
        assert norms(W[:1] - W[1:])[0] / 10 == pytest.approx(mechanism.sensitivity, rel=1e-4)
    clipped = [mechanism.clipped(one) for one in W]
    np.testing.assert_allclose(clipped, W, rtol=1e-5, atol=1e-9)
    assert norms(W).max() == pytest.approx(mechanism.reach, rel=1e-4)
