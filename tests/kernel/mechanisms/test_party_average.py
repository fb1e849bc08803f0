"""The average of weights: nothing that is uploaded counts for more than the bound."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from confrere.methods.votes import PartyBudget, noised_average


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
