r"""The logistic loss and its derivatives, with an optional cap on the slope.

With margin :math:`t = y\,w\cdot x` the loss is :math:`\ell(t) = \log(1 + e^{-t})`, its residual
:math:`p = -\ell'(t) = \sigma(-t)` and its curvature :math:`\ell''(t) = p(1 - p) \le 1/4`.

A cap :math:`\kappa < 1` bounds the residual by :math:`\min(p, \kappa)`: below
:math:`t_0 = \log((1 - \kappa)/\kappa)` the loss goes on linearly. It stays convex and once
differentiable; the curvature is 0 there. ``cap=1`` is the plain logistic loss.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from confrere.errors import InvalidParameter

Floats = NDArray[np.float64]


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
    """Return the second derivative of the loss; 0 where the cap holds."""
    t = np.asarray(t, dtype=np.float64)
    rare = sigmoid(-np.abs(t))  # the smaller of p and 1 - p, to full relative accuracy
    bend = rare * (1.0 - rare)
    return bend if cap == 1.0 else np.where(sigmoid(-t) < cap, bend, 0.0)


def check_cap(cap: float) -> float:
    """Return ``cap`` if it lies in (0, 1]."""
    if not 0.0 < cap <= 1.0:
        raise InvalidParameter("cap must lie in (0, 1]; 1 is the plain logistic loss.")
    return float(cap)
