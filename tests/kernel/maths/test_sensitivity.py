"""Sensitivities: never exceeded, and reached by the worst cases where they are said to be."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import root
from scipy.special import expit, lambertw, softmax

from confrere.methods.votes import largest_norm, local_weights, soft_sensitivity

SWITCH = 0.1703697665712313  # W(1/e)/(1 + W(1/e))^2
ALPHAS = [1e-6, 1e-4, 1e-2, 0.1, SWITCH, 0.18, 0.5, 4.0]
ROUNDING = 1 + 1e-9


def solve(X, codes, alpha, n_classes=2):
    return local_weights(X[None], np.asarray(codes)[None], n_classes, alpha)[0]


def solve_soft(X, fractions, alpha):
    """Minimise the risk weighted by the fractions of +1."""

    def gradient(w):
        p = expit(X @ w)
        bend = (X.T * (p * (1 - p))) @ X / len(X) + alpha * np.eye(len(w))
        return (p - fractions) @ X / len(X) + alpha * w, bend

    return root(gradient, np.zeros(X.shape[1]), jac=True, method="lm", tol=1e-15).x


def in_ball(rng, n_rows, n_features):
    X = rng.standard_normal((n_rows, n_features))
    X /= np.linalg.norm(X, axis=1, keepdims=True) * (1 + 1e-14)
    return X * rng.choice([1.0, rng.random(), rng.random() ** 4], size=(n_rows, 1))


@pytest.mark.parametrize("n_classes", [2, 3, 6])
@pytest.mark.parametrize("alpha", ALPHAS)
def test_the_largest_norm_is_reached(alpha, n_classes):
    R, others = largest_norm(alpha, n_classes), n_classes - 1
    reach = 1.0 if n_classes == 2 else math.sqrt(n_classes / others)
    margin = 1 + lambertw(others / math.e).real
    X = np.full((2, 1), min(1.0, margin / (reach * R)))
    W = solve(X, [int(n_classes == 2)] * 2, alpha, n_classes)
    assert R * (1 - 1e-6) < np.linalg.norm(W) <= R * ROUNDING


@settings(max_examples=80, deadline=None)
@given(
    n_rows=st.integers(1, 12),
    n_features=st.integers(1, 5),
    n_classes=st.integers(3, 5),
    exponent=st.floats(-6, 1),
    seed=st.integers(0, 10**6),
)
def test_no_minimiser_is_longer(n_rows, n_features, n_classes, exponent, seed):
    rng = np.random.default_rng(seed)
    X, alpha = in_ball(rng, n_rows, n_features), 10.0**exponent
    codes = rng.integers(0, rng.integers(1, n_classes + 1), n_rows)
    W = solve(X, codes, alpha, n_classes)
    assert np.linalg.norm(W) <= largest_norm(alpha, n_classes) * ROUNDING
    w = solve(X, (codes > 0).astype(int), alpha)
    assert np.linalg.norm(w) <= largest_norm(alpha) * ROUNDING


def test_a_party_can_move_the_soft_vote_by_nearly_all_of_its_bound():
    # A few short rows keep w long in one direction. The others then are decided by a large margin,
    # bend nothing, and leave only the regulariser to resist across.
    alpha, n_parties = 1e-8, 10**8
    rows = np.zeros((100, 2))
    rows[0, 0] = 0.003
    rows[1:] = (0.06, math.sqrt(1 - 0.06**2))
    fractions = np.ones(100)
    moved = solve_soft(rows, fractions, alpha)
    fractions[1:] -= 1 / n_parties
    moved -= solve_soft(rows, fractions, alpha)
    limit = soft_sensitivity(alpha, n_parties)
    assert 0.95 * limit < np.linalg.norm(moved) <= limit


@pytest.mark.parametrize("n_classes", [2, 3, 9])
@pytest.mark.parametrize("n_rows", [1, 7, 40])
def test_a_party_is_solved_to_its_minimiser_and_alike_in_any_company(n_rows, n_classes):
    """Rows that coincide, or numbers of another that run away, change nothing."""
    rng, alpha = np.random.default_rng(n_rows), 1e-4
    X = rng.normal(size=(5, n_rows, 15))
    X /= np.linalg.norm(X, axis=2, keepdims=True)
    X[1, -1], X[2, 0, 1] = X[1, 0], np.nan
    codes = rng.integers(n_classes, size=(5, n_rows))
    together = local_weights(X, codes, n_classes, alpha)
    for k in (0, 1, 3, 4):
        W = np.atleast_2d(solve(X[k], codes[k], alpha, n_classes))
        assert np.array_equal(W, np.atleast_2d(together[k]))
        wanted = np.eye(n_classes)[codes[k]]
        scores = X[k] @ W.T
        off = expit(scores) - wanted[:, 1:] if n_classes == 2 else softmax(scores, axis=1) - wanted
        assert np.linalg.norm(off.T @ X[k] / n_rows + alpha * W) <= 1e-12
