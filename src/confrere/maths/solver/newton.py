r"""Damped Newton: slower than it could be, but it always arrives.

The direction solves :math:`H p = -g` by preconditioned conjugate gradients, which yield a descent
direction wherever they are stopped. The full step is taken if it halves the smallest gradient
norm seen so far, which can happen only finitely often above a tolerance. Otherwise a step
:math:`a` is found with :math:`\varphi'(0)/2 \le \varphi'(a) \le 0` for the objective
:math:`\varphi` along the line. By convexity that is descent, and since the curvature lies between
:math:`L` and :math:`L + n q^2/4` it lowers the objective by at least a fixed multiple of
:math:`\|g\|^2`. So the gradient tends to zero from every start, also for the capped loss, whose
curvature jumps. Slopes are compared, never values: values lose all digits near a minimum.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from confrere.maths.solver.objective import Objective
from confrere.maths.solver.preconditioner import Preconditioner
from confrere.maths.solver.solver_rows import Floats

#: Relative residual at which a direction is good enough.
_FORCING = 0.01

#: Conjugate-gradient steps after which the direction is taken as it is.
_LONGEST_SOLVE = 2000

#: Bisections after which a slope is told apart from zero no more.
_LONGEST_SEARCH = 200


def newton(objective: Objective, W: Floats, tolerance: float) -> tuple[Floats, Floats]:
    """Return the minimiser of a single problem, and a gradient certified at ``tolerance``.

    ``W`` is the start, ``(1, size)``; so are both results.
    """
    smallest = math.inf
    G = objective.gradient(W)
    while not objective.certified(W, G, tolerance).all():
        smallest = min(smallest, float(np.linalg.norm(G)))
        step = _direction(objective.hessian(W[0]), G[0], objective.preconditioner(W))
        moved = W + step
        G = objective.gradient(moved)
        if not np.linalg.norm(G) <= smallest / 2:
            moved = W + _step_length(objective.slope(W[0], step)) * step
            G = objective.gradient(moved)
        W = moved
    return W, G


def _direction(
    hessian: Callable[[Floats], Floats], gradient: Floats, precondition: Preconditioner
) -> Floats:
    """Solve ``H p = -g`` by preconditioned conjugate gradients."""
    residual = -gradient
    step = np.zeros_like(gradient)
    target = _FORCING * float(np.linalg.norm(gradient))
    z = precondition(residual[None])[0]
    search, rho = z, float(residual @ z)
    for _ in range(_LONGEST_SOLVE):
        image = hessian(search)
        a = rho / float(search @ image)
        step = step + a * search
        residual = residual - a * image
        if np.linalg.norm(residual) <= target:
            break
        z = precondition(residual[None])[0]
        rho, previous = float(residual @ z), rho
        search = z + (rho / previous) * search
    return step


def _step_length(slope: Callable[[float], float]) -> float:
    """Return ``a`` where the slope is negative, but at most half as steep as at 0."""
    steep = slope(0.0) / 2
    low, high, a = 0.0, math.inf, 1.0
    for _ in range(_LONGEST_SEARCH):
        here = slope(a)
        if here > 0:
            high = a
        elif here < steep:
            low = a
        else:
            return a
        a = 2 * a if math.isinf(high) else (low + high) / 2
    return low or 1.0  # the slope at 0 is lost in rounding: one step is as good as another
