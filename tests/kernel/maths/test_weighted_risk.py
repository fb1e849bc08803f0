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


@settings(max_examples=30, deadline=None)
@given(
    n_rows=st.integers(1, 40),
    n_features=st.integers(1, 6),
    exponent=st.floats(-5, 1),
    seed=st.integers(0, 1000),
)
def test_two_classes_are_minimised_to_the_tolerance(n_rows, n_features, exponent, seed):
    X = unit_rows(n_rows, n_features, seed)
    alpha = 10**exponent
    fractions = np.random.default_rng(seed).uniform(size=n_rows)
    tolerance = max(1e-6, weighted_tolerance(n_rows, n_features, alpha=alpha))
    w = minimise_weighted(X, vote_statistic(X, fractions), alpha=alpha, tolerance=tolerance)
    gradient = X.T @ (expit(X @ w) - fractions) + n_rows * alpha * w
    assert np.linalg.norm(gradient) <= 1.01 * tolerance


@settings(max_examples=30, deadline=None)
@given(n_classes=st.integers(3, 5), exponent=st.floats(-4, 1), seed=st.integers(0, 1000))
def test_many_classes_are_minimised_to_the_tolerance(n_classes, exponent, seed):
    X = unit_rows(25, 3, seed)
    alpha = 10**exponent
    fractions = np.random.default_rng(seed).dirichlet(np.ones(n_classes), size=25)
    tolerance = max(1e-6, weighted_tolerance(25, 3, alpha=alpha, n_classes=n_classes))
    W = minimise_weighted(X, vote_statistic(X, fractions), alpha=alpha, tolerance=tolerance)
    gradient = (softmax(X @ W.T, axis=1) - fractions).T @ X + 25 * alpha * W
    assert np.linalg.norm(gradient) <= 1.01 * tolerance
    np.testing.assert_allclose(W.sum(axis=0), 0, atol=1e-12)


def test_a_statistic_that_no_votes_have_is_still_minimised():
    X = unit_rows(50, 3)
    statistic = np.array([40.0, -3.0, 7.0])
    tolerance = 2 * weighted_tolerance(50, 3, alpha=0.1, statistic_norm=41.0)
    w = minimise_weighted(X, statistic, alpha=0.1, tolerance=max(tolerance, 1e-6))
    gradient = X.T @ expit(X @ w) - 50 * statistic + 5.0 * w
    assert np.linalg.norm(gradient) < 1e-5


def test_rounding_of_a_statistic_is_below_its_bound():
    rng = np.random.default_rng(0)
    X = unit_rows(3000, 5).astype(np.longdouble)
    fractions = rng.uniform(size=3000)
    exact = fractions.astype(np.longdouble) @ X / 3000
    computed = vote_statistic(X.astype(np.float64), fractions)
    error = float(np.linalg.norm(np.asarray(computed - exact, dtype=np.float64)))
    assert error < _statistic_rounding(3000)
