"""From a starting point to a certified one: fast where the curvature is tame, safe elsewhere.

An objective is a sum over rows plus the penalty ``(L/2)||w - u||^2 + b.w``. It stands for ``m``
problems at once that share the rows and differ in ``u`` and ``b``: weights are ``(m, size)``.

The fast path is a limited-memory quasi-Newton method whose initial metric is one number where the
ridge outweighs the rows, and else a factored Hessian: of a subsample where there are many rows, of
all rows where there are few or where progress is slow. Few rows are sooner done by full Newton
steps. A problem that stops improving is handed to :func:`newton`, which always arrives.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any, Self, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray
from scipy import special
from scipy.linalg.lapack import dposv, dtrtri
from scipy.sparse.linalg import LinearOperator, cg

from confrere.arrays import Floats
from confrere.kernel.accountants import Labels, Logistic, Loss, shares_of
from confrere.kernel.measurements import Problem, gradient_bounds, smallest_tolerance
from confrere.solver.row_blocks import Block, SolverRows, Sums

#: Entries of all Gram matrices together beyond which only their diagonals are kept: 16 MB. And rows
#: times columns squared up to which a Hessian costs about as much as a few calls.
_GRAM_ENTRIES, _FEW = 2**21, 2**20

#: Up to this ratio of largest curvature to ridge no curvature is measured: steps are one number.
_TAME = 5.0

#: A symmetric positive definite map that stands for the inverse of a Hessian, on every row of a
#: matrix: ``(m, size)`` to ``(m, size)``.
Preconditioner: TypeAlias = Callable[[Floats], Floats]


# --- how losses bend: what solvers and audits ask, and no guarantee rests on ----------------------


class Curved:
    """What is said of a loss's curvature: as it says itself, but for those of classes."""

    extreme_labels: Labels  #: Among which residuals go from end to end: what audits try

    def __init__(self, loss: Loss) -> None:
        self.loss = loss
        signs = loss.n_scores == 1
        self.extreme_labels = np.array([-1.0, 1.0]) if signs else np.arange(loss.n_classes)
        own = ("extreme_labels", "bends", "bent", "diagonals")
        vars(self).update({name: getattr(loss, name) for name in own if hasattr(loss, name)})

    def bends(self, scores: Floats, labels: Labels) -> Floats:
        """Return the curvatures of one score; where the cap begins, that of the curved side."""
        rare = special.expit(-np.abs(scores))  # the smaller of two shares, with all its digits
        return np.where(special.expit(-labels * scores) <= self.loss.slope, rare * (1 - rare), 0.0)

    def expanded(self, scores: Floats, labels: Labels) -> tuple[Floats, Floats]:
        """Return residuals and curvatures of one score, ``(n,)`` each."""
        if not isinstance(self.loss, Logistic):
            bends = self.bends(scores[None], labels)[0]
            return self.loss.residuals(scores[None, None], labels)[0, 0], bends
        p = special.expit(-labels * scores)
        bends = p * (1.0 - p) * (p <= self.loss.cap)
        return np.asarray(np.minimum(p, self.loss.cap, out=p) * -labels), bends

    def bent(self, scores: Floats, moved: Floats, labels: Labels) -> Floats:
        """Return curvature times a move of the scores, both ``(n_scores, n)``."""
        if self.loss.n_scores == 1:
            return self.bends(scores, labels) * moved
        p = shares_of(scores[None])[0]
        tilt: Floats = p * moved
        tilt -= p * tilt.sum(axis=0)
        return tilt

    def diagonals(self, scores: Floats, labels: Labels) -> Floats:
        """Return the curvature of each score, ``(n_scores, n)``, averaged over the ``m``."""
        if self.loss.n_scores == 1:
            return np.asarray(self.bends(scores[:, 0], labels).mean(axis=0, keepdims=True))
        # For equal shares a block per class is (K-1)/K of the Hessian: so much is given back.
        p, k = shares_of(scores).mean(axis=0), self.loss.n_classes
        return np.asarray(k / (k - 1) * p * (1.0 - p))


# --- objectives -----------------------------------------------------------------------------------


def _blocks_inverse(hessians: Floats) -> Preconditioner:
    """One dense block of the Hessian per class, ``(K, d, d)``, factored."""
    factors = np.linalg.cholesky(hessians)
    roots = np.stack([dtrtri(factor, lower=1)[0] for factor in factors])
    K, d, _ = roots.shape

    def solve(G: Floats) -> Floats:
        parts = G.reshape(-1, K, d).swapaxes(0, 1)
        solved: Floats = parts @ roots.mT @ roots
        return solved.swapaxes(0, 1).reshape(G.shape)

    return solve


def _diagonal_inverse(diagonal: Floats | float) -> Preconditioner:
    """Only the Hessian's diagonal, or one number: no row has to be read for that."""
    inverse = 1.0 / np.ravel(diagonal)
    return lambda G: G * inverse


@dataclass(frozen=True, kw_only=True)
class _Objective:
    """A strongly convex sum over rows, for one or several penalties, as a descent needs it."""

    problem: Problem
    scale: float = 1.0  #: Weight of the rows: above one for a subsample that stands for all

    @property
    def rows(self) -> SolverRows:
        return cast(SolverRows, self.problem.rows)

    @property
    def m(self) -> int:
        return len(self.problem.linear)

    @property
    def scores(self) -> int:
        return self.problem.loss.n_scores

    def gradient(self, W: Floats) -> Floats:
        """Return the gradient of every problem at its row of ``W``, in one pass over the data."""
        if self.scale == 1.0:
            return self.problem.gradient(W)
        return self.scale * self.problem.pull(W) + self.penalty(W)

    def penalty(self, W: Floats) -> Floats:
        return self.problem.ridge * (W - self.problem.centre) + self.problem.linear

    def hessian(self, w: Floats) -> Callable[[Floats], Floats]:
        K, loss = self.scores, self.problem.loss

        def product(v: Floats) -> Floats:
            both = loss.spread(np.stack([w, v]))

            def work(block: Block, y: Labels) -> Sums:
                t = block.times(both)
                return (loss.gathered(block.pull(Curved(loss).bent(t[:K], t[K:], y)))[0],)

            (total,) = self.rows.sum(self.problem.labels, work)
            return np.asarray(self.scale * total + self.problem.ridge * v)

        return product

    def small(self) -> list[tuple[Floats, Labels]] | None:
        """Return rows and labels of one small problem of one score, written down, or None."""
        if self.m * self.scores > 1 or self.rows.n * self.rows.d**2 > _FEW or self.rows.data.sparse:
            return None
        return self.rows.written(cast(Labels, self.problem.labels))

    @property
    def most_curvature(self) -> float:
        """No eigenvalue of the sum's Hessian, nor its trace, is larger: public, like the ridge."""
        return self.scale * self.rows.n * self.rows.row_norm**2 * self.problem.loss.stiffness

    @property
    def conditioning(self) -> float:
        """In no more directions than this does the rows' curvature outweigh the ridge."""
        return self.most_curvature / self.problem.ridge

    def scalar_metric(self, worst: float = _TAME) -> Preconditioner | None:
        """Return the inverse of the Hessian's middle, if its condition number is small."""
        if self.conditioning > worst:
            return None
        middle = self.problem.ridge + self.most_curvature / 2
        return self._within_classes(_diagonal_inverse(middle))

    def preconditioner(self, W: Floats) -> Preconditioner:
        """Return an approximate inverse of the Hessian, averaged over the points in ``W``."""
        W = W[:: -(-len(W) // 8)]  # a few points show the average
        K, rows, scale = self.scores, self.rows, self.scale
        loss = self.problem.loss
        stacked = loss.spread(W)

        def weigh(block: Block, y: Labels) -> Floats:
            t = block.times(stacked).reshape(len(W), K, -1)
            return np.asarray(scale * Curved(loss).diagonals(t, y))

        labels, ridge = self.problem.labels, self.problem.ridge
        if K * rows.d**2 > _GRAM_ENTRIES:
            (squares,) = rows.sum(labels, lambda block, y: (block.squares(weigh(block, y)),))
            return self._within_classes(_diagonal_inverse(loss.gathered(squares) + ridge))
        (grams,) = rows.sum(labels, lambda block, y: (block.gram(weigh(block, y)),))
        if loss.tied:
            tie = loss.spread(np.eye(W.shape[1])).reshape(-1, K, rows.d).swapaxes(0, 1)
            grams = (tie @ grams @ tie.mT).sum(axis=0, keepdims=True)
        diagonals = np.einsum("kii->ki", grams)  # a view
        diagonals += ridge
        try:
            return self._within_classes(_blocks_inverse(grams))
        except np.linalg.LinAlgError:  # the ridge drowns in the rounding of the sums
            return self._within_classes(_diagonal_inverse(diagonals))

    def _within_classes(self, within: Preconditioner) -> Preconditioner:
        """Return it on weights that sum to zero over classes; off them the Hessian is ``L``."""
        K, ridge = self.scores, self.problem.ridge

        def common(G: Floats) -> Floats:
            return np.tile(G.reshape(len(G), K, -1).mean(axis=1), K)

        def apart(G: Floats) -> Floats:
            shared = common(G)
            differs = within(G - shared)
            return differs - common(differs) + shared / ridge

        return within if K == 1 or self.problem.loss.tied else apart

    @property
    def hessian_passes(self) -> float:
        """What a Hessian of all rows costs, in gradients of one problem; measured."""
        return 2 + self.rows.d / 16

    def certified(self, W: Floats, G: Floats, tolerance: float) -> NDArray[np.bool]:
        """Tell which problems' gradients are at most ``tolerance``, rounding included."""
        if np.all(np.vecdot(G, G) > tolerance**2):
            return np.zeros(len(G), dtype=np.bool)
        bounds = gradient_bounds(G, np.asarray(self.scale * self.problem.rounding(W)))
        return np.asarray(bounds <= tolerance)

    def each(self, of: Callable[[Floats], Floats]) -> Self:
        problem = self.problem
        problem = replace(problem, linear=of(problem.linear), centre=of(problem.centre))
        return replace(self, problem=problem)

    def thinned(self) -> Self | None:
        """Return the objective of a subsample, or None if there are too few rows."""
        chosen = self.rows.subsample(min(self.rows.d, self.conditioning))
        if chosen is None:
            return None
        labels = cast(Labels, self.problem.labels)[chosen]
        few = replace(self.problem, rows=self.rows.take(chosen), labels=labels)
        return replace(self, problem=few, scale=self.scale * self.rows.n / len(chosen))


#: Pairs of steps and gradient changes that the quasi-Newton method remembers; steps that a metric
#: is given before it may be replaced; passes after which the fast path gives up.
_MEMORY, _TRIALS, _PATIENCE = 4, 3, 100

#: How far below its sampling error the minimiser of a subsample is sought.
_LOOSENESS = 0.03


def descend(objective: _Objective, W: Floats, tolerance: float) -> Floats:
    blocks = objective.small()
    if blocks is not None:
        W, arrived = _full_steps(objective, blocks, W, tolerance)
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
    objective: _Objective, blocks: list[tuple[Floats, Labels]], W: Floats, tolerance: float
) -> tuple[Floats, bool]:
    """Take full Newton steps, one pass each, while the gradient shrinks; say if it is found."""
    problem, d, smallest, moved = objective.problem, objective.rows.d, math.inf, W
    loss = Curved(problem.loss)
    for _ in range(_PATIENCE):
        pull, hessian = np.zeros(d), np.zeros((d, d))
        for rows, labels in blocks:
            errors, bends = loss.expanded(rows @ moved[0], labels)
            pull += errors @ rows
            scaled = rows * np.sqrt(bends)[:, None]
            hessian += scaled.T @ scaled
        hessian *= objective.scale
        hessian.flat[:: d + 1] += problem.ridge
        G = objective.penalty(moved) + objective.scale * pull
        size = float(np.vdot(G, G))
        if not size < smallest:
            break
        W, smallest = moved, size
        # What is computed here is rounded in another way than what is certified.
        near = size <= tolerance**2
        if near and gradient_bounds(G, objective.scale * problem.rounding(W)) <= tolerance:
            if objective.scale == 1.0:
                return W, bool(problem.proved(W, tolerance).all())
            return W, bool(objective.certified(W, objective.gradient(W), tolerance).all())
        _, step, failed = dposv(hessian, G[0])
        if failed:
            break
        moved = W - step
    return W, False


def _fan_out(objective: _Objective, W: Floats, tolerance: float) -> Floats:
    """Solve the mean of all problems, and start each of them one Newton step from there."""
    pull = objective.problem.linear - objective.problem.ridge * objective.problem.centre
    apart = pull - pull.mean(axis=0)
    looseness = max(tolerance, _LOOSENESS * float(np.linalg.norm(apart, axis=1).min()))

    def mean(A: Floats) -> Floats:
        return np.asarray(A.mean(axis=0, keepdims=True))

    middle = descend(objective.each(mean), mean(W), looseness)
    metric = objective.preconditioner(middle)
    return _settle(objective, middle - metric(apart), metric, tolerance)


def _settle(objective: _Objective, W: Floats, metric: Preconditioner, tolerance: float) -> Floats:
    W, strays = _QuasiNewton(objective, W, metric).run(tolerance)
    for j in strays:
        one, start = objective.each(itemgetter([j])), W[[j]]
        if objective.m == 1:
            return newton(one, start, tolerance)
        W[j] = _settle(one, start, one.preconditioner(start), tolerance)[0]
    return W


class _QuasiNewton:
    """Full quasi-Newton steps on many problems at once; those that are done leave the batch."""

    def __init__(
        self, objective: _Objective, W: Floats, metric: Preconditioner, worth: float | None = None
    ) -> None:
        self.objective, self.metric = objective, metric
        self.problems = np.arange(len(W))
        self.W, self.G = W, objective.gradient(W)
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
        self.objective = self.objective.each(itemgetter(which))
        self.W, self.G, self.size = self.W[which], self.G[which], self.size[which]
        self.pairs = [(s[which], c[which], sc[which]) for s, c, sc in self.pairs]


def _dot(A: Floats, B: Floats) -> Floats:
    products: Floats = np.vecdot(A, B)
    return products[:, None]


#: Relative residual at which a direction is good enough, and steps after which it is taken as it
#: is; bisections after which a slope is told apart from zero no more.
_FORCING, _LONGEST_SOLVE, _LONGEST_SEARCH = 0.01, 2000, 200


def newton(objective: _Objective, W: Floats, tolerance: float) -> Floats:
    """Return where the gradient of a single problem is certified at ``tolerance``, ``(1, size)``.

    Damped Newton, which always arrives: directions are of preconditioned conjugate gradients,
    descent wherever they are stopped. The full step is taken if it halves the smallest gradient
    norm so far, which happens finitely often. Otherwise a step along the line is found where the
    slope is negative, but at most half as steep, which lowers the objective by at least a fixed
    multiple of the squared gradient. Slopes are compared: values lose all digits near a minimum.
    """
    smallest = math.inf
    G = objective.gradient(W)
    while not objective.certified(W, G, tolerance).all():
        smallest = min(smallest, float(np.linalg.norm(G)))
        step = _direction(objective.hessian(W[0]), G[0], objective.preconditioner(W))
        moved = W + step
        G = objective.gradient(moved)
        if not np.linalg.norm(G) <= smallest / 2:
            moved = W + _step_length(objective, W, step) * step
            G = objective.gradient(moved)
        W = moved
    return W


def _direction(
    hessian: Callable[[Floats], Floats], gradient: Floats, precondition: Preconditioner
) -> Floats:
    shape = (len(gradient),) * 2
    within = LinearOperator(shape, matvec=lambda r: precondition(r[None])[0], dtype=np.float64)
    curved = LinearOperator(shape, matvec=hessian, dtype=np.float64)
    found, _ = cg(curved, -gradient, rtol=_FORCING, maxiter=_LONGEST_SOLVE, M=within)
    return np.asarray(found)


def _step_length(objective: _Objective, W: Floats, step: Floats) -> float:
    """Return ``a`` where the slope is negative, but at most half as steep as at 0."""

    def slope(a: float) -> float:
        return float(objective.gradient(W + a * step)[0] @ step)

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


#: Steps shorter than this share are lost in rounding.
_SHORTEST = 2.0**-20


@np.errstate(all="ignore")  # what runs away is no better, and not taken
def minimise_each(X: Floats, wanted: Floats, ridge: float, goal: float) -> Floats:
    """Return what minimises each of many small problems, ``(m, K, d)``; nothing certifies it.

    Rows are ``(m, n, d)``, and ``wanted`` the shares ``(m, n, K)`` that scores should make; of two
    classes the second's. Damped Newton from zero, the gradient's length falling, to the goal or as
    far as rounding goes. Every product and factorisation is of one problem's numbers alone: which
    others are solved with it changes no bit.
    """
    (m, _, d), k = X.shape, wanted.shape[2]
    W, step = np.zeros((2, m, k, d))
    live, length, smallest = np.arange(m), np.ones(m), np.full(m, np.inf)
    while len(live):
        trial = W[live] + length[live, None, None] * step[live]
        scores = X[live] @ trial.mT
        shares = special.expit(scores) if k == 1 else special.softmax(scores, axis=2)
        gradient = (shares - wanted[live]).mT @ X[live] + ridge * trial
        size = np.linalg.norm(gradient, axis=(1, 2))
        better = size <= (1 - length[live] / 4) * smallest[live]
        took = live[better]
        W[took], smallest[took] = trial[better], size[better]
        step[took] = _newton_step(X[took], shares[better], gradient[better], ridge)
        length[took], length[live[~better]] = 1.0, length[live[~better]] / 2
        live = live[(smallest[live] > goal) & (length[live] > _SHORTEST)]
    return W


def _newton_step(X: Floats, shares: Floats, gradient: Floats, ridge: float) -> Floats:
    (m, _, d), k = X.shape, shares.shape[2]
    bends = shares.mT[:, :, None] * (np.eye(k)[:, :, None] - shares.mT[:, None])
    hessian = (X.mT[:, None, None] * bends[:, :, :, None]) @ X[:, None, None]
    hessian = hessian.swapaxes(2, 3).reshape(m, k * d, k * d)
    # Above what rounding takes from the diagonal: no matrix is singular, whatever the rows are.
    trace = np.trace(hessian, axis1=1, axis2=2)
    hessian += (ridge + 1e-13 * trace)[:, None, None] * np.eye(k * d)
    solved = np.linalg.solve(hessian, gradient.reshape(m, k * d, 1))
    return np.asarray(-solved.reshape(gradient.shape), dtype=np.float64)


def minimise_quadratic(
    linear: Floats, quadratic: Floats, *, ridge: float, prior: Floats | None = None
) -> Floats:
    """Minimise ``v.w + w'Mw + (L/2)||w - u||^2`` with M's negative eigenvalues set to zero."""
    centre = np.zeros_like(linear) if prior is None else prior
    eigenvalues, vectors = np.linalg.eigh((quadratic + quadratic.T) / 2)
    curvature = 2 * np.maximum(eigenvalues, 0.0) + ridge
    return np.asarray((((ridge * centre - linear) @ vectors) / curvature) @ vectors.T)


@dataclass(frozen=True)
class Descent:
    curves = Curved  #: How a loss bends

    def rows(self, X: Any, row_norm: float = 1.0) -> SolverRows:
        return SolverRows(X, row_norm)

    def smallest(self, problem: Problem) -> float:
        return smallest_tolerance(
            problem.rows.n,
            problem.rows.d,
            ridge=problem.ridge,
            row_norm=problem.rows.row_norm,
            linear_norm=float(np.linalg.norm(problem.linear, axis=1).max()),
            centre_norm=float(np.linalg.norm(problem.centre, axis=1).max()),
            loss=problem.loss,
        )

    def solve(self, problem: Problem, tolerance: float) -> Floats:
        """Return points where gradients are certified to be at most ``tolerance``, if any are."""
        return descend(_Objective(problem=problem), problem.centre, float(tolerance))
