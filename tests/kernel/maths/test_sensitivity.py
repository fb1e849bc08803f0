"""Sensitivities: never exceeded, and reached by the worst cases where they are said to be."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.special import expit, lambertw

from confrere.errors import InvalidData, InvalidParameter
from confrere.kernel.accountants import loss_of
from confrere.methods.votes import (
    PartyBudget,
    auxiliary_radius,
    largest_norm,
    local_weights,
    noised_votes,
    soft_sensitivity,
)

SWITCH = 0.1703697665712313  # W(1/e)/(1 + W(1/e))^2
ALPHAS = [1e-6, 1e-4, 1e-2, 0.1, SWITCH, 0.18, 0.5, 4.0]
ROUNDING = 1 + 1e-9


def solve(X, y, alpha):
    return local_weights(X, np.asarray(y), loss_of(2), alpha)


def solve_softmax(X, codes, n_classes, alpha):
    return local_weights(X, np.asarray(codes), loss_of(n_classes), alpha)


def solve_soft(X, fractions, alpha):
    """Minimise the risk weighted by the fractions of +1: Newton's method, damped."""
    w = np.zeros(X.shape[1])

    def gradient(w):
        return (expit(X @ w) - fractions) @ X / len(X) + alpha * w

    g = gradient(w)
    while np.linalg.norm(g) > 1e-13:
        p = expit(X @ w)
        step = np.linalg.solve((X.T * (p * (1 - p))) @ X / len(X) + alpha * np.eye(len(w)), g)
        while np.linalg.norm(gradient(w - step)) >= np.linalg.norm(g):
            step /= 2
            if np.linalg.norm(step) < 1e-14:
                return w
        w = w - step
        g = gradient(w)
    return w


def in_ball(rng, n_rows, n_features):
    X = rng.standard_normal((n_rows, n_features))
    X /= np.linalg.norm(X, axis=1, keepdims=True) * (1 + 1e-14)
    return X * rng.choice([1.0, rng.random(), rng.random() ** 4], size=(n_rows, 1))


# The largest norm


def test_the_formula_changes_where_its_branches_meet():
    peak = lambertw(1 / math.e).real
    assert pytest.approx(peak / (1 + peak) ** 2, rel=1e-14) == SWITCH
    assert largest_norm(SWITCH) == pytest.approx(1 + peak, rel=1e-9)
    below, above = largest_norm(SWITCH * (1 - 1e-7)), largest_norm(SWITCH * (1 + 1e-7))
    assert 0 < below - above < 1e-6
    for alpha in (0.2, 1.0, 50.0):
        root = brentq(lambda r, alpha=alpha: alpha * r - expit(-r), 0, 10, xtol=1e-15)
        assert largest_norm(alpha) == pytest.approx(root, rel=1e-12)
        assert largest_norm(alpha) < math.sqrt(peak / alpha)


@pytest.mark.parametrize("alpha", ALPHAS)
def test_two_classes_reach_the_largest_norm(alpha):
    R = largest_norm(alpha)
    margin = 1 + lambertw(1 / math.e).real
    X = np.zeros((3, 2))
    X[:, 0] = min(1.0, margin / R)
    w = solve(X, [1, 1, 1], alpha)
    assert R * (1 - 1e-6) < np.linalg.norm(w) <= R * ROUNDING


@pytest.mark.parametrize("n_classes", [3, 6])
@pytest.mark.parametrize("alpha", ALPHAS)
def test_many_classes_reach_the_largest_norm(alpha, n_classes):
    R = largest_norm(alpha, n_classes)
    margin = 1 + lambertw((n_classes - 1) / math.e).real
    reach = math.sqrt(n_classes / (n_classes - 1))
    X = np.full((2, 1), min(1.0, margin / (reach * R)))
    W = solve_softmax(X, [0, 0], n_classes, alpha)
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
    W = solve_softmax(X, codes, n_classes, alpha)
    assert np.linalg.norm(W) <= largest_norm(alpha, n_classes) * ROUNDING
    w = solve(X, np.where(codes > 0, 1, -1), alpha)
    assert np.linalg.norm(w) <= largest_norm(alpha) * ROUNDING


# Soft votes


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


# The statistic


def test_rows_of_mixed_length_reach_the_mean_norm():
    lengths = np.array([1.0, 0.5, 0.0, 0.25])
    X = np.outer(lengths, [0.6, 0.8])
    assert auxiliary_radius(X) == pytest.approx(lengths.mean())
    assert math.sqrt(np.linalg.eigvalsh(X.T @ X / 4)[-1]) > lengths.mean()


# Arguments


@pytest.mark.parametrize("X", [np.ones((2, 2)), np.full((1, 1), np.nan)])
def test_rows_outside_the_ball_are_refused(X):
    with pytest.raises(InvalidData):
        auxiliary_radius(X)


@pytest.mark.parametrize("wrong", [{"radius": 1.5}, {"radius": 0.5, "auxiliary_private": True}])
def test_a_radius_that_no_rows_have_or_that_looks_at_private_ones_is_refused(wrong):
    facts = {"n_auxiliary": 9, "n_features": 2, "alpha": 0.1}
    with pytest.raises(InvalidParameter):
        noised_votes(PartyBudget(epsilon=1.0, n_parties=5), **facts | wrong)
