"""From a starting point to a certified one: fast where the curvature is tame, safe elsewhere.

The fast path is a limited-memory quasi-Newton method whose initial metric is one number where the
ridge outweighs the rows, and else a factored Hessian: of a subsample where there are many rows, of
all rows where there are few or where progress is slow. It takes full steps, one pass over the data
each, and certifies on every pass. Few rows are sooner done by full Newton steps. A problem that
stops improving is handed to :func:`newton`, which always arrives.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dposv

from confrere.maths.solver.objective import Objective
from confrere.maths.solver.preconditioners import Preconditioner
from confrere.maths.solver.row_blocks import Floats

#: Pairs of steps and gradient changes that the quasi-Newton method remembers.
_MEMORY = 4

#: Steps that a metric is given before it may be replaced.
_TRIALS = 3

#: Passes after which the fast path gives up.
_PATIENCE = 100

#: How far below its sampling error the minimiser of a subsample is sought.
_LOOSENESS = 0.03


def descend(objective: Objective, W: Floats, tolerance: float) -> tuple[Floats, Floats]:
    """Return points, and gradients there that are certified to be at most ``tolerance``."""
    expand = objective.expansion()
    if expand is not None:
        W, G, arrived = _full_steps(objective, expand, W, tolerance)
        if arrived:
            return W, G
    tame = objective.scalar_metric()
    if tame is not None:
        return _settle(objective, W, tame, tolerance)
    if objective.m > 1:
        return _fan_out(objective, W, tolerance)
    thin = objective.thinned()
    if thin is None:
        metric = objective.preconditioner(W)
    else:
        sampling_error = objective.rows.row_norm * thin.scale * math.sqrt(thin.rows.n)
        # A subsample has fewer rows, each weighs more: so does its rounding.
        attainable = tolerance * objective.rows.n / thin.rows.n
        loose = max(attainable, _LOOSENESS * sampling_error)
        # A Hessian where the search begins is worth it if the search would be longer without.
        simple = thin.scalar_metric(thin.hessian_passes**2)
        if simple is None:
            W, _ = descend(thin, W, loose)
        else:
            search = _QuasiNewton(thin, W, simple, worth=math.inf)
            W, _, _ = search.run(loose, math.ceil(thin.hessian_passes))
        metric = thin.preconditioner(W)
    return _settle(objective, W, metric, tolerance)


@np.errstate(all="ignore")
def _full_steps(
    objective: Objective,
    expand: Callable[[Floats], tuple[Floats, Floats]],
    W: Floats,
    tolerance: float,
) -> tuple[Floats, Floats, bool]:
    """Take full Newton steps, one pass each, while the gradient shrinks; say if it is found."""
    G, hessian = expand(W)
    for _ in range(_PATIENCE):
        if objective.certified(W, G, tolerance).all():
            return W, G, True
        _, step, failed = dposv(hessian, G[0])
        if failed:
            break
        moved = W - step
        gradient, hessian = expand(moved)
        if not np.vdot(gradient, gradient) < np.vdot(G, G):
            break
        W, G = moved, gradient
    return W, G, False


def _fan_out(objective: Objective, W: Floats, tolerance: float) -> tuple[Floats, Floats]:
    """Solve the mean of all problems, and start each of them one Newton step from there."""
    pull = objective.linear - objective.ridge * objective.centre
    apart = pull - pull.mean(axis=0)
    looseness = max(tolerance, _LOOSENESS * float(np.linalg.norm(apart, axis=1).min()))
    middle, _ = descend(objective.mean(), W.mean(axis=0, keepdims=True), looseness)
    metric = objective.preconditioner(middle)
    return _settle(objective, middle - metric(apart), metric, tolerance)


def _settle(
    objective: Objective, W: Floats, metric: Preconditioner, tolerance: float
) -> tuple[Floats, Floats]:
    W, G, strays = _QuasiNewton(objective, W, metric).run(tolerance)
    for j in strays:
        one, start = objective.select(slice(j, j + 1)), W[j : j + 1]
        if objective.m == 1:
            W, G = newton(one, start, tolerance)
        else:
            W[j], G[j] = _settle(one, start, one.preconditioner(start), tolerance)
    return W, G


class _QuasiNewton:
    """Full quasi-Newton steps on many problems at once; those that are done leave the batch."""

    def __init__(
        self,
        objective: Objective,
        W: Floats,
        metric: Preconditioner,
        worth: float | None = None,
    ) -> None:
        self.objective = objective
        self.metric = metric
        self.problems = np.arange(len(W))
        self.W = W
        self.G = objective.gradient(W)
        self.size = self._size()
        self.pairs: list[tuple[Floats, Floats, Floats]] = []
        # After a Hessian of all rows about 4 steps are left: more than it costs are worth one.
        self._worth = 4 + objective.hessian_passes / objective.m if worth is None else worth

    # A problem that is exactly solved, or runs away, divides by zero and then leaves the batch.
    @np.errstate(all="ignore")
    def run(
        self, tolerance: float, steps: int = _PATIENCE
    ) -> tuple[Floats, Floats, NDArray[np.intp]]:
        """Return points, gradients there, and the numbers of problems not yet certified."""
        points, gradients = self.W.copy(), self.G.copy()
        strays: list[NDArray[np.intp]] = []
        for _ in range(steps):
            points[self.problems], gradients[self.problems] = self.W, self.G
            self._keep(~self.objective.certified(self.W, self.G, tolerance))
            if not len(self.problems):
                break
            progress = self._step()
            improved = progress < 1
            strays.append(self.problems[~improved])
            self._keep(improved)
            tried = len(self.pairs) >= _TRIALS
            if tried and self._steps_left(progress[improved], tolerance) > self._worth:
                self.metric = self.objective.preconditioner(self.W)
                self.size = self._size()
                self.pairs.clear()
        return points, gradients, np.concatenate([*strays, self.problems])

    def _steps_left(self, progress: Floats, tolerance: float) -> float:
        """Forecast how many steps the slowest problem still needs at its present pace."""
        distance = np.log(tolerance / np.linalg.norm(self.G, axis=1))
        return float(np.max(distance / np.log(progress), initial=0.0))

    def _step(self) -> Floats:
        """Take one step; return by which factor each gradient shrank, in the metric."""
        step = -self._direction()
        gradient = self.objective.gradient(self.W + step)
        change = gradient - self.G
        self.pairs = [*self.pairs[1 - _MEMORY :], (step, change, _dot(step, change))]
        before = self.size
        self.W, self.G = self.W + step, gradient
        self.size = self._size()
        return self.size / before

    def _size(self) -> Floats:
        return np.sqrt(_dot(self.G, self.metric(self.G))[:, 0])

    def _direction(self) -> Floats:
        """Apply the inverse Hessian, as known from the metric and the last pairs, to ``G``."""
        Q = self.G.copy()
        shares = []
        for step, change, curvature in reversed(self.pairs):
            share = _dot(step, Q) / curvature
            Q -= share * change
            shares.append(share)
        D = self.metric(Q)
        for (step, change, curvature), share in zip(self.pairs, reversed(shares), strict=True):
            D += (share - _dot(change, D) / curvature) * step
        return D

    def _keep(self, which: NDArray[np.bool]) -> None:
        if which.all():
            return
        self.problems = self.problems[which]
        self.objective = self.objective.select(which)
        self.W, self.G, self.size = self.W[which], self.G[which], self.size[which]
        self.pairs = [(s[which], c[which], sc[which]) for s, c, sc in self.pairs]


def _dot(A: Floats, B: Floats) -> Floats:
    """Return the inner products of the rows, as a column."""
    products: Floats = np.vecdot(A, B)
    return products[:, None]


#: Relative residual at which a direction is good enough.
_FORCING = 0.01

#: Conjugate-gradient steps after which the direction is taken as it is.
_LONGEST_SOLVE = 2000

#: Bisections after which a slope is told apart from zero no more.
_LONGEST_SEARCH = 200


def newton(objective: Objective, W: Floats, tolerance: float) -> tuple[Floats, Floats]:
    r"""Return the minimiser of a single problem, and a gradient certified at ``tolerance``.

    ``W`` is the start, ``(1, size)``; so are both results.

    Damped Newton: slower than it could be, but it always arrives. The direction solves
    :math:`H p = -g` by preconditioned conjugate gradients, which yield a descent direction
    wherever they are stopped. The full step is taken if it halves the smallest gradient norm seen
    so far, which can happen only finitely often above a tolerance. Otherwise a step :math:`a` is
    found with :math:`\varphi'(0)/2 \le \varphi'(a) \le 0` for the objective :math:`\varphi` along
    the line. By convexity that is descent, and since the curvature lies between :math:`L` and
    :math:`L + n q^2/4` it lowers the objective by at least a fixed multiple of :math:`\|g\|^2`. So
    the gradient tends to zero from every start, also for the capped loss, whose curvature jumps.
    Slopes are compared, never values: values lose all digits near a minimum.
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
