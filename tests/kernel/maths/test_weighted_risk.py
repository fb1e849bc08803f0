"""The weighted risk from its statistic: the minimiser, its certificate, and the automatic ridge."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit, softmax

from confrere.methods.votes import (
    _statistic_rounding,
    minimise_weighted,
    vote_statistic,
    weighted_tolerance,
)
from tests.world import unit_rows


@settings(max_examples=60, deadline=None)
@given(
    shape=st.tuples(st.integers(1, 40), st.integers(1, 6)),
    n_classes=st.integers(2, 5),
    exponent=st.floats(-4, 1),
    seed=st.integers(0, 1000),
)
def test_it_is_minimised_to_the_tolerance(shape, n_classes, exponent, seed):
    X, alpha = unit_rows(*shape, seed), 10**exponent
    fractions = np.random.default_rng(seed).dirichlet(np.ones(n_classes), size=len(X))
    fractions = fractions[:, 1] if n_classes == 2 else fractions
    tolerance = max(1e-6, weighted_tolerance(*shape, alpha=alpha, n_classes=n_classes))
    W = minimise_weighted(X, vote_statistic(X, fractions), alpha=alpha, tolerance=tolerance)
    shares = expit(X @ W) if n_classes == 2 else softmax(X @ W.T, axis=1)
    gradient = (shares - fractions).T @ X + len(X) * alpha * W
    assert np.linalg.norm(gradient) <= 1.01 * tolerance
    assert n_classes == 2 or np.abs(W.sum(axis=0)).max() <= 1e-12


def test_rounding_of_a_statistic_is_below_its_bound():
    rng = np.random.default_rng(0)
    X = unit_rows(3000, 5).astype(np.longdouble)
    fractions = rng.uniform(size=3000)
    exact = fractions.astype(np.longdouble) @ X / 3000
    computed = vote_statistic(X.astype(np.float64), fractions)
    error = float(np.linalg.norm(np.asarray(computed - exact, dtype=np.float64)))
    assert error < _statistic_rounding(3000)
