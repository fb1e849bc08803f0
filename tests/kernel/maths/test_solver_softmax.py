"""Several classes at once."""

import numpy as np
import pytest
from scipy import sparse
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression

from confrere.kernel.losses import Softmax
from confrere.kernel.measurements import smallest_tolerance
from confrere_research.as_printed.minimiser import minimise


def problem(n, d, K, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    X /= np.linalg.norm(X, axis=1).max()
    scores = 8 * X @ rng.standard_normal((d, K)) + rng.gumbel(size=(n, K)) + np.linspace(0, 2, K)
    B = rng.standard_normal((K, d))
    return X, scores.argmax(axis=1), B - B.mean(axis=0)


def gradient(X, codes, W, ridge, B):
    p = softmax(X @ W.T, axis=1)
    return (p - np.eye(len(W))[codes]).T @ X + ridge * W + B


@pytest.mark.parametrize(("n", "d", "K"), [(200, 4, 3), (3000, 12, 5), (12000, 6, 4), (40, 30, 3)])
@pytest.mark.parametrize("alpha", [1e-1, 1e-3])
def test_it_agrees_with_scikit_learn(n, d, K, alpha):
    X, codes, _ = problem(n, d, K)
    ridge = alpha * n
    W = minimise(X, codes, Softmax(K), ridge=ridge, tolerance=1e-8 * ridge)
    reference = LogisticRegression(
        C=1 / ridge, fit_intercept=False, solver="newton-cholesky", tol=1e-12, max_iter=200
    ).fit(X, codes)
    assert np.abs(W - reference.coef_).max() < 1e-8


@pytest.mark.parametrize("alpha", [1.0, 1e-2, 1e-5])
@pytest.mark.parametrize("noise", [0.0, 1.0, 100.0])
def test_the_gradient_vanishes_and_the_classes_sum_to_zero(alpha, noise):
    X, codes, B = problem(400, 6, 4)
    B *= noise
    ridge = alpha * 400
    tolerance = 2 * smallest_tolerance(
        400, 6, ridge=ridge, linear_norm=np.linalg.norm(B), loss=Softmax(4)
    )
    solution = minimise(X, codes, Softmax(4), ridge=ridge, linear=B, tolerance=tolerance)
    assert np.linalg.norm(gradient(X, codes, solution, ridge, B)) <= tolerance
    scale = max(1.0, np.abs(solution).max())
    assert np.abs(solution.sum(axis=0)).max() < 1e-11 * scale


def test_classes_without_rows_and_sparse_rows():
    X, codes, _ = problem(300, 4, 3)
    dense = minimise(X, codes, Softmax(6), ridge=2.0, tolerance=1e-8)
    assert dense.shape == (6, 4)
    assert np.abs(dense[3] - dense[5]).max() < 1e-8
    csr = minimise(sparse.csr_array(X), codes, Softmax(6), ridge=2.0, tolerance=1e-8)
    assert np.abs(csr - dense).max() < 1e-8
