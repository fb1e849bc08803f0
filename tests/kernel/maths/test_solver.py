"""The solver finds the minimiser, whatever the data look like."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import LogisticRegression

from confrere.errors import InvalidData
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


def test_sparse_rows_are_dense_rows():
    rng = np.random.default_rng(3)
    X = sparse.random_array((9000, 25), density=0.2, format="csr", rng=rng)
    X = sparse.csr_array(X / np.sqrt(X.power(2).sum(axis=1).max()))
    y = np.where(rng.random(9000) < 0.4, 1.0, -1.0)
    b = rng.standard_normal(25)
    for ridge in (1.0, 300.0):
        one = minimise(X, y, ridge=ridge, linear=b, tolerance=1e-8)
        two = minimise(X.toarray(), y, ridge=ridge, linear=b, tolerance=1e-8)
        assert np.abs(one - two).max() <= 2e-8 / ridge


def test_more_columns_than_a_hessian_has_room_for():
    rng = np.random.default_rng(4)
    X = sparse.random_array((600, 4000), density=0.005, format="csr", rng=rng)
    X = sparse.csr_array(X / np.sqrt(X.power(2).sum(axis=1).max()))
    y = np.where(rng.random(600) < 0.5, 1.0, -1.0)
    w = minimise(X, y, ridge=0.01, tolerance=1e-7)
    assert np.linalg.norm(gradient(X.toarray(), y, w, ridge=0.01)) < 1e-7


def test_a_hessian_that_cannot_be_factored_is_no_failure(monkeypatch):
    def refuse(matrix):
        raise np.linalg.LinAlgError

    X, y = rows_and_labels(9000, 6)
    expected = minimise(X, y, ridge=2.0, tolerance=1e-8)
    monkeypatch.setattr(np.linalg, "cholesky", refuse)
    assert np.abs(minimise(X, y, ridge=2.0, tolerance=1e-8) - expected).max() < 1e-8


@pytest.mark.parametrize("alpha", [1e-16, 1e-20])
def test_a_ridge_below_the_rounding_of_the_hessian_is_no_failure(alpha):
    n = 9000
    X = np.tile([[0.6, 0.3, 0.1]], (n, 1)) + 1e-9 * np.random.default_rng(6).random((n, 3))
    y = np.where(np.arange(n) % 3, 1.0, -1.0)
    tolerance = 1.01 * smallest_tolerance(n, 3, ridge=alpha * n)
    w = minimise(X, y, ridge=alpha * n, tolerance=tolerance)
    assert np.linalg.norm(gradient(X, y, w, ridge=alpha * n)) <= tolerance


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


def test_wrong_data_are_refused_without_being_printed():
    X, y = rows_and_labels(20, 3)
    bad_rows = X.copy()
    bad_rows[7, 1] = np.nan
    for data, labels, word in [
        (X * 1234.5, y, "row_norm"),
        (bad_rows, y, "finite"),
        (X[0], y[:1], "matrix"),
        (X[:0], y[:0], "at least one row"),
        (X, y[:-1], "label"),
        (X, (y + 1) / 2, "label"),
    ]:
        with pytest.raises(InvalidData, match=word) as refusal:
            minimise(data, labels, ridge=1.0)
        assert "1234" not in str(refusal.value)
    assert minimise(X * 1234.5, y, ridge=1e6, row_norm=1234.5, tolerance=1e-3).shape == (3,)


def test_entries_of_a_sparse_row_that_are_given_twice_are_added():
    X, y = rows_and_labels(30, 3)
    twice = sparse.csr_array(
        (np.repeat(X.ravel() / 2, 2), np.tile(np.repeat(np.arange(3), 2), 30), np.arange(31) * 6)
    )
    assert np.abs(minimise(twice, y, ridge=1.0) - minimise(X, y, ridge=1.0)).max() < 1e-6
    with pytest.raises(InvalidData, match="row_norm"):
        minimise(twice, y, ridge=1.0, row_norm=0.75 * np.sqrt(np.mean(X**2) * 3))
