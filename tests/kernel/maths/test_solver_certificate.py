"""What the solver certifies is true: checked in extended precision."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from confrere.errors import InvalidParameter
from confrere.kernel.accountants import Logistic, Softmax
from confrere.kernel.measurements import Problem, rounding_bound, smallest_tolerance
from confrere.solver.row_blocks import SolverRows
from confrere_research.as_printed.minimiser import minimise

EXTENDED = np.longdouble


def exact_gradient(X, y, w, *, ridge, linear=0.0, centre=0.0, cap=1.0):
    """The gradient in extended precision, as a double."""
    X, w = X.astype(EXTENDED), w.astype(EXTENDED)
    t = y * (X @ w)
    e = np.exp(-np.abs(t))
    p = np.minimum(np.where(t > 0, e, 1) / (1 + e), EXTENDED(cap))
    return EXTENDED(ridge) * (w - centre) + linear - (y * p) @ X


@settings(max_examples=60, deadline=None)
@given(
    n=st.integers(1, 300),
    d=st.integers(1, 12),
    alpha=st.floats(-8, 8),
    noise=st.floats(-3, 6),
    cap=st.sampled_from([1.0, 0.9, 0.5]),
    moved=st.booleans(),
    seed=st.integers(0, 2**32),
)
def test_the_certificate_is_true(n, d, alpha, noise, cap, moved, seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    X /= np.linalg.norm(X, axis=1).max()
    y = np.where(rng.random(n) < rng.random(), 1.0, -1.0)
    ridge = n * 10**alpha
    b = 10**noise * rng.standard_normal(d)
    u = 3.0 * moved * rng.standard_normal(d)
    sizes = {"linear_norm": np.linalg.norm(b), "centre_norm": np.linalg.norm(u)}
    smallest = smallest_tolerance(n, d, ridge=ridge, loss=Logistic(cap), **sizes)
    tolerance = max(1e-9, 1.001 * smallest)
    w = minimise(X, y, Logistic(cap), ridge=ridge, linear=b, centre=u, tolerance=tolerance)
    truth = exact_gradient(X, y, w, ridge=ridge, linear=b, centre=u, cap=cap)
    assert np.sqrt(truth @ truth) <= tolerance


def copies(rng):
    """Every rounding goes the same way."""
    return np.tile(rng.random(6) / 3, (20000, 1)), np.zeros(6)


def twelve_orders_of_magnitude(rng):
    X = rng.standard_normal((20000, 6)) * 10.0 ** rng.integers(-12, 1, (20000, 1))
    return X, np.ones(6)


def margins_that_cancel(rng):
    X = np.repeat(rng.standard_normal((20000, 3)), 2, axis=1) + 1e-9
    return X, 1e9 * np.tile([1.0, -1.0], 3) + rng.standard_normal(6)


def wide_rows(rng):
    return rng.standard_normal((50, 3000)), rng.standard_normal(3000)


@pytest.mark.parametrize(
    "adversary", [copies, twelve_orders_of_magnitude, margins_that_cancel, wide_rows]
)
@pytest.mark.parametrize("one_class", [True, False])
def test_rounding_stays_below_its_bound(adversary, one_class):
    rng = np.random.default_rng(0)
    X, w = adversary(rng)
    X /= np.linalg.norm(X, axis=1).max()
    y = np.where((rng.random(len(X)) < 0.5) | one_class, 1.0, -1.0)
    zero = np.zeros((1, X.shape[1]))
    facts = {"rows": SolverRows(X, 1.0), "labels": y, "loss": Logistic(), "ridge": 1e-300}
    objective = Problem(linear=zero, centre=zero, **facts)
    computed = objective.gradient(w[None])[0]
    error = np.linalg.norm((computed - exact_gradient(X, y, w, ridge=0.0)).astype(float))
    sizes = {"row_norm": 1.0, "weight_norm": float(np.linalg.norm(w))}
    bound = rounding_bound(*X.shape, **sizes, loss=Logistic())
    assert 0 < error <= bound
    assert objective.rounding(w[None])[0] >= bound


def test_rounding_of_the_softmax_stays_below_its_bound():
    rng = np.random.default_rng(1)
    n, d, K = 5000, 7, 5
    X = rng.standard_normal((n, d))
    X /= np.linalg.norm(X, axis=1).max()
    codes = rng.integers(K, size=n)
    for size in (1.0, 1e6):
        W = size * rng.standard_normal((K, d))
        zero = np.zeros((1, K * d))
        facts = {"rows": SolverRows(X, 1.0), "labels": codes, "loss": Softmax(K), "ridge": 1e-300}
        objective = Problem(linear=zero, centre=zero, **facts)
        computed = objective.gradient(W.reshape(1, -1)).reshape(K, d)
        t = W.astype(EXTENDED) @ X.T.astype(EXTENDED)
        e = np.exp(t - t.max(axis=0))
        truth = (e / e.sum(axis=0) - (codes == np.arange(K)[:, None])) @ X.astype(EXTENDED)
        error = np.linalg.norm((computed - truth).astype(float))
        sizes = {"row_norm": 1.0, "weight_norm": float(np.linalg.norm(W))}
        assert 0 < error <= rounding_bound(n, d, loss=Softmax(K), **sizes)


def test_what_rounding_could_hide_is_refused_before_the_rows_are_read():
    unread = np.full((50, 3), np.nan)
    y = np.ones(50)
    smallest = smallest_tolerance(50, 3, ridge=1.0, loss=Logistic())
    with pytest.raises(InvalidParameter, match="use at least"):
        minimise(unread, y, ridge=1.0, tolerance=0.99 * smallest)
    with pytest.raises(InvalidParameter, match="use at least"):
        minimise(unread, np.zeros(50, int), Softmax(4), ridge=1.0, tolerance=1e-16)
