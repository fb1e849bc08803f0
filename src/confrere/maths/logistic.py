r"""The logistic loss and its derivatives, with an optional cap on the slope.

With margin :math:`t = y\,w\cdot x` the loss is :math:`\ell(t) = \log(1 + e^{-t})`, its residual
:math:`p = -\ell'(t) = \sigma(-t)` and its curvature :math:`\ell''(t) = p(1 - p) \le 1/4`.

A cap :math:`\kappa < 1` bounds the residual by :math:`\min(p, \kappa)`: below
:math:`t_0 = \log((1 - \kappa)/\kappa)` the loss goes on linearly. It stays convex and once
differentiable; the curvature is 0 there. ``cap=1`` is the plain logistic loss.

A minimiser of a sum of such losses with a ridge and a random linear term :math:`b` has the
density :math:`\nu(b(w)) \det A(w)`, with :math:`b(w)` the negative gradient of the rest and
:math:`A(w)` the Hessian: the map from :math:`b` to :math:`w` is a bijection because the ridge is
positive.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from confrere.arrays import Floats
from confrere.errors import InvalidParameter


def sigmoid(t: ArrayLike) -> Floats:
    """Return ``1 / (1 + exp(-t))``, without overflow."""
    return np.asarray(expit(np.asarray(t, dtype=np.float64)), dtype=np.float64)


def loss(t: ArrayLike, cap: float = 1.0) -> Floats:
    """Return the loss at margins ``t``."""
    t = np.asarray(t, dtype=np.float64)
    t0 = -math.inf if check_cap(cap) == 1.0 else math.log((1.0 - cap) / cap)
    curved: Floats = np.logaddexp(0.0, -np.maximum(t, t0))
    return curved + cap * np.maximum(t0 - t, 0.0)


def residual(t: ArrayLike, cap: float = 1.0, *, out: Floats | None = None) -> Floats:
    """Return minus the slope of the loss, ``min(sigmoid(-t), cap)``.

    ``out`` may be ``t`` itself: solvers call this on every block of rows.
    """
    p = np.negative(np.asarray(t, dtype=np.float64), out=out)
    p = np.asarray(expit(p, out=out), dtype=np.float64)
    return p if cap == 1.0 else np.minimum(p, cap, out=out)


def curvature(t: ArrayLike, cap: float = 1.0) -> Floats:
    """Return the second derivative of the loss; 0 where the cap holds.

    Where it begins to hold, that of the curved side: with all margins zero, as solvers begin, and a
    cap of one half, the other one would say nothing.
    """
    t = np.asarray(t, dtype=np.float64)
    rare = sigmoid(-np.abs(t))  # the smaller of p and 1 - p, to full relative accuracy
    bend = rare * (1.0 - rare)
    return bend if cap == 1.0 else np.where(sigmoid(-t) <= cap, bend, 0.0)


def check_cap(cap: float) -> float:
    """Return ``cap`` if it lies in (0, 1]."""
    if not 0.0 < cap <= 1.0:
        raise InvalidParameter("cap must lie in (0, 1]; 1 is the plain logistic loss.")
    return float(cap)


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
