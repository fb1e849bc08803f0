"""From a starting point to a certified one: fast where the curvature is tame, safe elsewhere.

An objective is a sum over rows plus the penalty ``(L/2)||w - u||^2 + b.w``. It stands for ``m``
problems at once that share the rows and differ in ``u`` and ``b``: weights are ``(m, size)``.

The fast path is a limited-memory quasi-Newton method whose initial metric is one number where the
ridge outweighs the rows, and else a factored Hessian: of a subsample where there are many rows, of
all rows where there are few or where progress is slow. It takes full steps, one pass over the data
each, and certifies on every pass. Few rows are sooner done by full Newton steps. A problem that
stops improving is handed to :func:`newton`, which always arrives.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self, TypeAlias, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg.lapack import dposv, dtrtri
from scipy.special import expit

from confrere.arrays import Floats
from confrere.errors import InvalidData, InvalidParameter
from confrere.kernel.accountants import Logistic, Loss
from confrere.kernel.guarantee import check_bound, check_positive
from confrere.solver.certificate import Problem, gradient_bounds, smallest_tolerance
from confrere.solver.row_blocks import Block, Matrix, SolverRows, Sums, Work

#: The plain one, for two classes.
_LOGISTIC = Logistic()

#: Entries of all Gram matrices together beyond which only their diagonals are kept: 16 MB.
_GRAM_ENTRIES = 2**21


def sigmoid(t: ArrayLike) -> Floats:
    """Return ``1 / (1 + exp(-t))``, without overflow."""
    return np.asarray(expit(np.asarray(t, dtype=np.float64)), dtype=np.float64)


def residual(t: ArrayLike, cap: float = 1.0, *, out: Floats | None = None) -> Floats:
    """Return minus the slope of the logistic loss, ``min(sigmoid(-t), cap)``.

    ``out`` may be ``t`` itself: solvers call this on every block of rows.
    """
    p = np.negative(np.asarray(t, dtype=np.float64), out=out)
    p = np.asarray(expit(p, out=out), dtype=np.float64)
    return p if cap == 1.0 else np.minimum(p, cap, out=out)


def curvature(t: ArrayLike, cap: float = 1.0) -> Floats:
    """Return the second derivative of the logistic loss; 0 where the cap holds.

    Where it begins to hold, that of the curved side: with all margins zero, as solvers begin, and a
    cap of one half, the other one would say nothing.
    """
    t = np.asarray(t, dtype=np.float64)
    rare = sigmoid(-np.abs(t))  # the smaller of p and 1 - p, to full relative accuracy
    bend = rare * (1.0 - rare)
    return bend if cap == 1.0 else np.where(sigmoid(-t) <= cap, bend, 0.0)


#: A symmetric positive definite map that stands for the inverse of a Hessian, on every row of a
#: matrix: ``(m, size)`` to ``(m, size)``.
Preconditioner: TypeAlias = Callable[[Floats], Floats]


def blocks_inverse(hessians: Floats) -> Preconditioner:
    """One dense block of the Hessian per class, ``(K, d, d)``, factored."""
    factors = np.linalg.cholesky(hessians)
    roots = np.stack([dtrtri(factor, lower=1)[0] for factor in factors])
    K, d, _ = roots.shape

    def solve(G: Floats) -> Floats:
        parts = G.reshape(-1, K, d).swapaxes(0, 1)
        solved: Floats = parts @ roots.mT @ roots
        return solved.swapaxes(0, 1).reshape(G.shape)

    return solve


def diagonal_inverse(diagonal: Floats | float) -> Preconditioner:
    """Only the Hessian's diagonal, or one number: no row has to be read for that."""
    inverse = 1.0 / np.ravel(diagonal)
    return lambda G: G * inverse


def sum_zero(within: Preconditioner, n_classes: int, ridge: float) -> Preconditioner:
    """Another one on weights that sum to zero over the classes, ``1/L`` off them.

    The softmax does not see what is added to all classes alike: there the Hessian is ``L``.
    """

    def common(G: Floats) -> Floats:
        return np.tile(G.reshape(len(G), n_classes, -1).mean(axis=1), n_classes)

    def apart(G: Floats) -> Floats:
        shared = common(G)
        differs = within(G - shared)
        return differs - common(differs) + shared / ridge

    return apart


def precondition(
    rows: SolverRows,
    labels: Any,
    weigh: Callable[[Block, Any], Floats],  # To the curvatures ``c``, ``(n_classes, rows)``
    n_classes: int,  # How many blocks: 1 for a binary loss
    ridge: float,
) -> Preconditioner:
    """Build the inverse of ``X' diag(c_k) X + L I`` for every class ``k``."""
    if n_classes * rows.d**2 > _GRAM_ENTRIES:
        (squares,) = rows.sum(labels, lambda block, y: (block.squares(weigh(block, y)),))
        return diagonal_inverse(squares + ridge)
    (grams,) = rows.sum(labels, lambda block, y: (block.gram(weigh(block, y)),))
    diagonals = np.einsum("kii->ki", grams)  # a view
    diagonals += ridge
    try:
        return blocks_inverse(grams)
    except np.linalg.LinAlgError:  # the ridge drowns in the rounding of the sums
        return diagonal_inverse(diagonals)


#: Rows times columns squared up to which a Hessian costs about as much as a few calls.
_FEW = 2**20

#: Up to this ratio of largest curvature to ridge no curvature is measured: steps are one number.
_TAME = 5.0


@dataclass(frozen=True, kw_only=True)
class SmoothSum(ABC):
    """A strongly convex sum over rows, for one or several penalties, as a descent needs it."""

    problem: Problem
    scale: float = 1.0  #: Weight of the rows: above one for a subsample that stands for all

    @property
    def rows(self) -> SolverRows:
        """The data."""
        return cast(SolverRows, self.problem.rows)

    @property
    def labels(self) -> Any:
        """What the loss compares each row's margin with; read in slices."""
        return self.problem.labels

    @abstractmethod
    def _hessian_work(self, w: Floats, v: Floats) -> Work:
        """Return what makes the product of the sum's Hessian at ``w`` with ``v``."""

    @abstractmethod
    def _slope_work(self, w: Floats, step: Floats) -> Work:
        """Return what makes the sum's derivative at ``w`` in the direction ``step``."""

    @abstractmethod
    def preconditioner(self, W: Floats) -> Preconditioner:
        """Return an approximate inverse of the Hessian, averaged over the points in ``W``."""

    @property
    @abstractmethod
    def bend(self) -> float:
        """The largest curvature of a row's loss, for rows of length one."""

    def expansion(self) -> Callable[[Floats], tuple[Floats, Floats]] | None:
        """Return what makes gradient and Hessian of the only problem at a point.

        None unless rows are so few that a Hessian costs no more than calling for it.
        """
        return None

    @property
    def m(self) -> int:
        """How many problems share the rows."""
        return len(self.problem.linear)

    def gradient(self, W: Floats) -> Floats:
        """Return the gradient of every problem at its row of ``W``, in one pass over the data."""
        if self.scale == 1.0:
            return self.problem.gradient(W)
        return self.scale * self.problem.pull(W) + self._penalty(W)

    def _penalty(self, W: Floats) -> Floats:
        return self.problem.ridge * (W - self.problem.centre) + self.problem.linear

    def hessian(self, w: Floats) -> Callable[[Floats], Floats]:
        """Return the Hessian at one point, as a map on vectors."""

        def product(v: Floats) -> Floats:
            (total,) = self.rows.sum(self.labels, self._hessian_work(w, v))
            return np.asarray(self.scale * total + self.problem.ridge * v)

        return product

    def slope(self, w: Floats, step: Floats) -> Callable[[float], float]:
        """Return the derivative of the only problem along the line ``w + a step``."""
        constant = float(step @ self._penalty(w[None])[0])
        growth = self.problem.ridge * float(step @ step)

        def at(a: float) -> float:
            (total,) = self.rows.sum(self.labels, self._slope_work(w + a * step, step))
            return self.scale * float(total) + constant + a * growth

        return at

    @property
    def most_curvature(self) -> float:
        """No eigenvalue of the sum's Hessian is larger: a public number, like the ridge."""
        return self.scale * self.rows.n * self.rows.row_norm**2 * self.bend

    @property
    def conditioning(self) -> float:
        """The ratio of largest curvature to ridge: public.

        The trace of the sum's Hessian is no larger either, so in no more directions than this does
        the rows' curvature outweigh the ridge.
        """
        return self.most_curvature / self.problem.ridge

    def scalar_metric(self, worst: float = _TAME) -> Preconditioner | None:
        """Return the inverse of the Hessian's middle, if its condition number is small."""
        if self.conditioning > worst:
            return None
        return diagonal_inverse(self.problem.ridge + self.most_curvature / 2)

    @property
    def hessian_passes(self) -> float:
        """What a Hessian of all rows costs, in gradients of one problem; measured."""
        return 2 + self.rows.d / 16

    def rounding(self, W: Floats) -> Floats:
        """Bound the floating-point error of :meth:`gradient` at every row of ``W``."""
        return np.asarray(self.scale * self.problem.rounding(W))

    def certified(self, W: Floats, G: Floats, tolerance: float) -> NDArray[np.bool]:
        """Tell which problems' gradients are at most ``tolerance``, rounding included."""
        if np.all(np.vecdot(G, G) > tolerance**2):
            return np.zeros(len(G), dtype=np.bool)
        return np.asarray(gradient_bounds(G, self.rounding(W)) <= tolerance)

    def select(self, problems: NDArray[np.bool] | slice) -> Self:
        """Return the same objective for some of its problems."""
        return self._with(lambda A: A[problems])

    def mean(self) -> Self:
        """Return the one problem that is the mean of all."""
        return self._with(lambda A: A.mean(axis=0, keepdims=True))

    def _with(self, of: Callable[[Floats], Floats]) -> Self:
        problem = self.problem
        problem = replace(problem, linear=of(problem.linear), centre=of(problem.centre))
        return replace(self, problem=problem)

    def thinned(self) -> Self | None:
        """Return the objective of a subsample, or None if there are too few rows."""
        chosen = self.rows.subsample(min(self.rows.d, self.conditioning))
        if chosen is None:
            return None
        few = replace(self.problem, rows=self.rows.take(chosen), labels=self.labels[chosen])
        return replace(self, problem=few, scale=self.scale * self.rows.n / len(chosen))


@dataclass(frozen=True, kw_only=True)
class BinarySum(SmoothSum):
    """``sum_i l(y_i w.x_i)`` with labels -1 and +1, and its penalty."""

    @property
    def cap(self) -> float:
        """The bound on the slope."""
        return self.problem.loss.slope

    @property
    def bend(self) -> float:
        """The curvature of the logistic loss is at most a quarter."""
        return 0.25

    def _hessian_work(self, w: Floats, v: Floats) -> Work:
        both, cap = np.stack([w, v]), self.cap

        def work(block: Block, y: Any) -> Sums:
            t, rate = block.times(both)
            return (block.pull((curvature(y * t, cap) * rate)[None])[0],)

        return work

    def _slope_work(self, w: Floats, step: Floats) -> Work:
        both, cap = np.stack([w, step]), self.cap

        def work(block: Block, y: Any) -> Sums:
            t, rate = block.times(both) * y
            return (np.array(-(residual(t, cap) @ rate)),)

        return work

    def expansion(self) -> Callable[[Floats], tuple[Floats, Floats]] | None:
        """Return what makes gradient and Hessian of the only problem, where rows are few."""
        if self.m > 1 or self.rows.n * self.rows.d**2 > _FEW or self.rows.data.sparse:
            return None
        blocks = self.rows.written(self.labels)
        cap, d = self.cap, self.rows.d

        def at(W: Floats) -> tuple[Floats, Floats]:
            pull, hessian = np.zeros(d), np.zeros((d, d))
            for rows in blocks:
                p = residual(rows @ W[0])
                bend = p * (1.0 - p)
                if cap < 1.0:
                    bend *= p <= cap
                    np.minimum(p, cap, out=p)
                pull += p @ rows
                scaled = rows * np.sqrt(bend)[:, None]
                hessian += scaled.T @ scaled
            hessian *= self.scale
            hessian.flat[:: d + 1] += self.problem.ridge
            return self._penalty(W) - self.scale * pull, hessian

        return at

    def preconditioner(self, W: Floats) -> Preconditioner:
        """Return the inverse of the Hessian, with curvatures averaged over the rows of ``W``."""
        W = W[:: -(-len(W) // 8)]  # a few points show the average
        cap, scale = self.cap, self.scale

        def weigh(block: Block, y: Any) -> Floats:
            bend = curvature(y * block.times(W), cap)
            return np.asarray(scale * bend.mean(axis=0, keepdims=True))

        return precondition(self.rows, self.labels, weigh, 1, self.problem.ridge)


@dataclass(frozen=True, kw_only=True)
class SoftmaxSum(SmoothSum):
    """``sum_i [logsumexp(W x_i) - W_{c_i}.x_i]`` and its penalty; labels are class codes.

    The weights of a problem are ``W`` of shape ``(K, d)``, flattened.
    """

    @property
    def classes(self) -> int:
        """``K``."""
        return self.problem.loss.n_classes

    @property
    def bend(self) -> float:
        """The largest eigenvalue of ``diag(p) - p p'`` is at most a half."""
        return 0.5

    def _hessian_work(self, w: Floats, v: Floats) -> Work:
        at, along, K = self._stacked(w), self._stacked(v), self.classes

        def work(block: Block, _: Any) -> Sums:
            p = _softmax(block.times(at).reshape(1, K, -1))[0]
            tilt = p * block.times(along)
            tilt -= p * tilt.sum(axis=0)
            return (block.pull(tilt).ravel(),)

        return work

    def _slope_work(self, w: Floats, step: Floats) -> Work:
        at, along, K = self._stacked(w), self._stacked(step), self.classes
        loss = self.problem.loss

        def work(block: Block, codes: Any) -> Sums:
            errors = loss.residuals(block.times(at).reshape(1, K, -1), codes)
            return (np.array(np.vdot(errors, block.times(along))),)

        return work

    def _stacked(self, W: Floats) -> Floats:
        """Return the weights of all classes of all problems, one vector per row."""
        return W.reshape(-1, self.rows.d)

    def scalar_metric(self, worst: float = _TAME) -> Preconditioner | None:
        """Return one number on weights that sum to zero over the classes, if that is enough."""
        within = super().scalar_metric(worst)
        return None if within is None else sum_zero(within, self.classes, self.problem.ridge)

    def preconditioner(self, W: Floats) -> Preconditioner:
        """Return the inverse of the Hessian's diagonal blocks, one per class.

        A record's curvature ``diag(p) - p p'`` acts on weights that sum to zero over the classes;
        for equal ``p`` its diagonal is ``(K-1)/K`` of it there, so that much is given back.
        """
        stacked, m, K, scale = self._stacked(W), len(W), self.classes, self.scale

        def weigh(block: Block, _: Any) -> Floats:
            p = _softmax(block.times(stacked).reshape(m, K, -1)).mean(axis=0)
            return np.asarray(scale * K / (K - 1) * p * (1.0 - p))

        within = precondition(self.rows, self.labels, weigh, K, self.problem.ridge)
        return sum_zero(within, K, self.problem.ridge)


def _softmax(t: Floats) -> Floats:
    """Turn margins ``(m, K, rows)`` into probabilities of the classes, in place."""
    t -= t.max(axis=1, keepdims=True)
    np.exp(t, out=t)
    t /= t.sum(axis=1, keepdims=True)
    return t


#: Pairs of steps and gradient changes that the quasi-Newton method remembers.
_MEMORY = 4

#: Steps that a metric is given before it may be replaced.
_TRIALS = 3

#: Passes after which the fast path gives up.
_PATIENCE = 100

#: How far below its sampling error the minimiser of a subsample is sought.
_LOOSENESS = 0.03


def descend(objective: SmoothSum, W: Floats, tolerance: float) -> Floats:
    """Return points where gradients are certified to be at most ``tolerance``."""
    expand = objective.expansion()
    if expand is not None:
        W, arrived = _full_steps(objective, expand, W, tolerance)
        if arrived:
            return W
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
            W = descend(thin, W, loose)
        else:
            search = _QuasiNewton(thin, W, simple, worth=math.inf)
            W, _ = search.run(loose, math.ceil(thin.hessian_passes))
        metric = thin.preconditioner(W)
    return _settle(objective, W, metric, tolerance)


@np.errstate(all="ignore")
def _full_steps(
    objective: SmoothSum,
    expand: Callable[[Floats], tuple[Floats, Floats]],
    W: Floats,
    tolerance: float,
) -> tuple[Floats, bool]:
    """Take full Newton steps, one pass each, while the gradient shrinks; say if it is found."""
    G, hessian = expand(W)
    for _ in range(_PATIENCE):
        # What is computed here is rounded in another way than what is certified.
        if objective.certified(W, G, tolerance).all():
            return W, bool(objective.certified(W, objective.gradient(W), tolerance).all())
        _, step, failed = dposv(hessian, G[0])
        if failed:
            break
        moved = W - step
        gradient, hessian = expand(moved)
        if not np.vdot(gradient, gradient) < np.vdot(G, G):
            break
        W, G = moved, gradient
    return W, False


def _fan_out(objective: SmoothSum, W: Floats, tolerance: float) -> Floats:
    """Solve the mean of all problems, and start each of them one Newton step from there."""
    pull = objective.problem.linear - objective.problem.ridge * objective.problem.centre
    apart = pull - pull.mean(axis=0)
    looseness = max(tolerance, _LOOSENESS * float(np.linalg.norm(apart, axis=1).min()))
    middle = descend(objective.mean(), W.mean(axis=0, keepdims=True), looseness)
    metric = objective.preconditioner(middle)
    return _settle(objective, middle - metric(apart), metric, tolerance)


def _settle(objective: SmoothSum, W: Floats, metric: Preconditioner, tolerance: float) -> Floats:
    W, strays = _QuasiNewton(objective, W, metric).run(tolerance)
    for j in strays:
        one, start = objective.select(slice(j, j + 1)), W[j : j + 1]
        if objective.m == 1:
            return newton(one, start, tolerance)
        W[j] = _settle(one, start, one.preconditioner(start), tolerance)[0]
    return W


class _QuasiNewton:
    """Full quasi-Newton steps on many problems at once; those that are done leave the batch."""

    def __init__(
        self,
        objective: SmoothSum,
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
    def run(self, tolerance: float, steps: int = _PATIENCE) -> tuple[Floats, NDArray[np.intp]]:
        """Return points, and the numbers of problems not yet certified."""
        points = self.W.copy()
        strays: list[NDArray[np.intp]] = []
        for _ in range(steps):
            points[self.problems] = self.W
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
        return points, np.concatenate([*strays, self.problems])

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
        for step, change, bend in reversed(self.pairs):
            share = _dot(step, Q) / bend
            Q -= share * change
            shares.append(share)
        D = self.metric(Q)
        for (step, change, bend), share in zip(self.pairs, reversed(shares), strict=True):
            D += (share - _dot(change, D) / bend) * step
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


def newton(objective: SmoothSum, W: Floats, tolerance: float) -> Floats:
    r"""Return where the gradient of a single problem is certified at ``tolerance``, ``(1, size)``.

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
    return W


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


def smallest_for(problem: Problem) -> float:
    """Return the smallest tolerance that can be certified, from public quantities alone."""
    return smallest_tolerance(
        problem.rows.n,
        problem.rows.d,
        ridge=problem.ridge,
        row_norm=problem.rows.row_norm,
        linear_norm=float(np.linalg.norm(problem.linear, axis=1).max()),
        centre_norm=float(np.linalg.norm(problem.centre, axis=1).max()),
        n_classes=problem.loss.n_classes,
    )


def check_tolerance(tolerance: float, problem: Problem) -> float:
    """Refuse, before any record is read, a tolerance that rounding could hide."""
    smallest = smallest_for(problem)
    if not tolerance >= smallest:
        digits = 10.0 ** (math.floor(math.log10(smallest)) - 1)
        raise InvalidParameter(
            "tolerance is below what double precision can certify for this number of rows, ridge "
            f"and linear term: use at least {math.ceil(smallest / digits) * digits:.1e}."
        )
    return float(tolerance)


def minimise(
    X: Matrix,
    y: ArrayLike,  # As the loss takes them: labels -1 and +1, or codes
    loss: Loss = _LOGISTIC,
    *,
    ridge: float,  # ``L``, above zero
    # ``B`` and ``U``, zero by default: ``(d,)``, of more classes ``(K, d)``. With one axis more
    # ``B`` stands for as many problems, which share each pass over the rows, and ``U`` may too.
    linear: Floats | None = None,
    centre: Floats | None = None,
    tolerance: float = 1e-6,  # Bound on the norm of the gradient, to be certified
    # Public bound on the norms of the rows; their root mean square is checked against it.
    row_norm: float = 1.0,
) -> Floats:
    r"""Minimise :math:`\sum_i \ell(W x_i, y_i) + \frac{L}{2}\|W-U\|^2 + \langle B, W\rangle`.

    ``X`` is an array, CSR or BlockRows with one row per record, read in blocks and never copied
    whole. What is returned is within ``tolerance / ridge`` of the exact minimiser. If the columns
    of ``B`` and ``U`` sum to zero over the classes, so do those of ``W``.

    Raises
    ------
    InvalidParameter
        If ``tolerance`` is below :func:`smallest_tolerance` at the norms of ``linear`` and
        ``centre``. A very long ``linear`` moves the minimiser so far out that doubles no longer
        resolve it: a caller that draws it at random chooses a tolerance that suits all but a
        negligible share of draws. The refusal does not depend on the records.
    InvalidData
        If the labels or the rows are not as declared; a caller that clips never sees it.
    """
    rows, labels = SolverRows(X, check_positive(row_norm, "row_norm")), np.asarray(y)
    if labels.shape != (rows.n,):
        raise InvalidData("y must be one label per row of X.")
    loss.check_labels(labels)
    one = (rows.d,) if loss.n_scores == 1 else (loss.n_scores, rows.d)
    shape = one if linear is None or np.ndim(linear) <= len(one) else (len(linear), *one)
    if 0 in shape:
        raise InvalidParameter("linear needs at least one row.")
    problem = Problem(
        rows=rows,
        labels=rows.keep(labels),
        loss=loss,
        ridge=check_bound(ridge, "ridge"),
        linear=_weights(linear, "linear", shape).reshape(-1, math.prod(one)),
        centre=_weights(centre, "centre", shape, one).reshape(-1, math.prod(one)),
    )
    return solve(problem, tolerance).reshape(shape)


def objective_of(problem: Problem) -> SmoothSum:
    """Return a problem as the descent needs it."""
    return (BinarySum if problem.loss.n_scores == 1 else SoftmaxSum)(problem=problem)


def solve(problem: Problem, tolerance: float) -> Floats:
    """Return points where gradients are certified to be at most ``tolerance``."""
    tolerance = check_tolerance(tolerance, problem)
    return descend(objective_of(problem), problem.centre, tolerance)


def _weights(value: ArrayLike | None, name: str, *shapes: tuple[int, ...]) -> Floats:
    """Return ``value`` in the first shape; it may be given in any of them."""
    value = np.zeros(shapes[0]) if value is None else np.asarray(value, dtype=np.float64)
    if value.shape not in shapes or not np.all(np.isfinite(value)):
        raise InvalidParameter(f"{name} must be finite, with one number per column of X.")
    return np.broadcast_to(value, shapes[0])


@dataclass(frozen=True)
class Descent:
    """The solver that measurements are given."""

    def rows(self, X: Any, row_norm: float = 1.0) -> SolverRows:
        """Return rows no longer than this as they are added up."""
        return SolverRows(X, row_norm)

    def solve(self, problem: Problem, tolerance: float) -> Floats:
        """Return points where gradients are certified to be at most ``tolerance``."""
        return solve(problem, tolerance)
