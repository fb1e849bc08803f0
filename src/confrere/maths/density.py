"""The exact density of a perturbed minimiser, up to a constant that no data set changes.

The released ``w`` has density ``nu(b(w)) det A(w)`` with ``b(w) = -(grad of the rest)`` and
``A(w)`` the Hessian: the map from ``b`` to ``w`` is a bijection because the ridge is positive.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from confrere.maths.logistic import curvature, residual


def log_density(
    w: ArrayLike,
    X: NDArray[np.float64],
    y: NDArray[np.float64],
    *,
    rho: float,
    ridge: float,
    centre: NDArray[np.float64] | float = 0.0,
    cap: float = 1.0,
) -> float:
    """Return ``-rho ||b(w)|| + log det A(w)`` for labels in {-1, +1} and dense rows."""
    weights = np.asarray(w, dtype=np.float64)
    margins = y * (X @ weights)
    b = X.T @ (y * residual(margins, cap)) - ridge * (weights - centre)
    hessian = (X * curvature(margins, cap)[:, None]).T @ X + ridge * np.eye(len(weights))
    _, log_det = np.linalg.slogdet(hessian)
    return float(-rho * np.linalg.norm(b) + log_det)


def log_density_softmax(
    W: NDArray[np.float64],
    X: NDArray[np.float64],
    codes: NDArray[np.intp],
    basis: NDArray[np.float64],
    *,
    rho: float,
    ridge: float,
) -> float:
    """Return the multinomial log density at ``W = basis C`` of the sum-zero subspace.

    ``basis`` is ``(K, K-1)`` with orthonormal columns that sum to zero.
    """
    scores = X @ W.T
    scores -= scores.max(axis=1, keepdims=True)
    P = np.exp(scores)
    P /= P.sum(axis=1, keepdims=True)
    errors = P.copy()
    errors[np.arange(len(codes)), codes] -= 1
    b = -(errors.T @ X) - ridge * W
    reduced = P @ basis
    size = basis.shape[1] * X.shape[1]
    hessian = ridge * np.eye(size)
    for x, p, r in zip(X, P, reduced, strict=True):
        block = (basis.T * p) @ basis - np.outer(r, r)
        hessian += np.kron(block, np.outer(x, x))
    _, log_det = np.linalg.slogdet(hessian)
    return float(-rho * np.linalg.norm(b) + log_det)
