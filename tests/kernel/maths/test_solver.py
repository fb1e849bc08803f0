"""The solver finds the minimiser, whatever the data look like."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from confrere.kernel.losses import Logistic
from confrere.kernel.measurements import smallest_tolerance
from confrere.solver.descent import residual
from confrere_research.as_printed.minimiser import minimise


def rows_and_labels(n, d, seed=0, signal=10.0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * np.linspace(1, 0.2, d)
    X /= np.linalg.norm(X, axis=1).max()
    p = 1 / (1 + np.exp(-signal * (X @ rng.standard_normal(d))))
    return X, np.where(rng.random(n) < p, 1.0, -1.0)


def gradient(X, y, w, *, ridge, linear=0.0, centre=0.0, cap=1.0):
    return ridge * (w - centre) + linear - (y * residual(y * (X @ w), cap)) @ X


@pytest.mark.parametrize("shape", [(40, 3), (500, 30), (9000, 12), (30, 60)])
@pytest.mark.parametrize("alpha", [1e-1, 1e-2, 1e-4])
def test_it_agrees_with_scikit_learn(shape, alpha):
    X, y = rows_and_labels(*shape)
    ridge = alpha * len(X)
    w = minimise(X, y, ridge=ridge, tolerance=1e-8 * ridge)
    reference = LogisticRegression(
        C=1 / ridge, fit_intercept=False, solver="newton-cholesky", tol=1e-12, max_iter=200
    ).fit(X, y)
    assert np.abs(w - reference.coef_[0]).max() < 1e-8


@pytest.mark.parametrize("kind", ["one row", "one column", "zeros", "copies", "one class", "apart"])
@pytest.mark.parametrize("alpha", [1e-8, 1e-2, 1e8])
@pytest.mark.parametrize("noise", [0.0, 1.0, 1e6])
@pytest.mark.parametrize("cap", [1.0, 0.5])
def test_degenerate_data_are_solved(kind, alpha, noise, cap):
    rng = np.random.default_rng(5)
    n, d = {"one row": (1, 4), "one column": (60, 1)}.get(kind, (60, 4))
    X = rng.standard_normal((n, d))
    X /= np.linalg.norm(X, axis=1).max()
    y = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    if kind == "zeros":
        X[:] = 0.0
    elif kind == "copies":
        X[:] = X[0]
    elif kind == "one class":
        y[:] = 1.0
    elif kind == "apart":
        y = np.where(X[:, 0] > 0, 1.0, -1.0)
    ridge, b = alpha * n, noise * rng.standard_normal(d)
    tolerance = 1.01 * smallest_tolerance(n, d, ridge=ridge, linear_norm=np.linalg.norm(b))
    w = minimise(X, y, Logistic(cap), ridge=ridge, linear=b, tolerance=tolerance)
    assert np.linalg.norm(gradient(X, y, w, ridge=ridge, linear=b, cap=cap)) <= tolerance
