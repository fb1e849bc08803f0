"""Several classes at once."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from confrere.kernel.losses import Softmax
from confrere_research.as_printed.minimiser import minimise


def problem(n, d, K, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    X /= np.linalg.norm(X, axis=1).max()
    scores = 8 * X @ rng.standard_normal((d, K)) + rng.gumbel(size=(n, K)) + np.linspace(0, 2, K)
    B = rng.standard_normal((K, d))
    return X, scores.argmax(axis=1), B - B.mean(axis=0)


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
