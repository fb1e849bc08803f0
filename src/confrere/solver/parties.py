"""Many parties with a few rows each: their small problems, solved together by Newton's method.

A party's problem has ``m`` outputs (one for two classes, ``K`` for a softmax over ``K``)::

    min_W  (1/n) sum_i loss(W x_i + s_i, c_i) + (alpha/2) ||W||_F^2,      W of shape (m, d)

with given shifts ``s_i``, and is solved in whichever space is smaller:

- *primal* (n >= d): in ``W`` itself, with the d-dimensional Hessian;
- *dual* (n < d): ``W = A X`` with ``A`` of shape (m, n), in the metric of ``G = X X'``.

The iterates are those of Newton's method either way. A step is halved until the norm of the
gradient falls, which converges from anywhere because the Hessian is never below ``alpha``; with a
capped slope the Hessian jumps, so that a party may be left unsolved, and its norm says so. Rows
that nearly coincide make ``G`` nearly singular: what the dual leaves unsolved is tried again in the
primal.

Only parties of one and the same number of rows are stacked, and every product and factorisation is
of one party's matrices: who else is in the stack changes no bit of a party's solution.

For a local classifier party i holds rows ``offsets[i]`` to ``offsets[i+1]`` of one stacked array
and minimises, on its rows alone, the mean logistic loss plus ``(alpha/2) ||w||^2``. Every solution
is certified: the norm of the gradient at the returned weights is measured afterwards, in weight
space, and is below the tolerance. Since the objective is ``alpha``-strongly convex, ``||w - w*|| <=
gradient norm / alpha``. A party whose problem cannot be solved that well gets weights of zero, and
a mark: its data never decide what happens to the others.

In a perturbed objective a linear term and a centre only move the origin: with ``w = u - b/L + v``,
party i minimises in ``v`` a plain ridge problem whose scores are shifted by ``x.(u - b/L)``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from confrere.arrays import Floats
from confrere.errors import InvalidData
from confrere.kernel.accountants import Logistic, Loss
from confrere.kernel.guarantee import check_positive
from confrere.solver.certificate import PARTY_ROOM, UNSOLVED, smallest_tolerance
from confrere.solver.descent import minimise

Codes = NDArray[np.int64]

#: The plain one, for two classes.
_LOGISTIC = Logistic()

#: Distance to the exact minimiser that is aimed at, beyond the tolerance that is promised.
_AIM = 1e-7
_MOST_TRIALS = 1000
_SMALLEST_SCALE = 2.0**-40

#: Numbers in a stack's largest array: few enough to stay near the processor.
_STACK = 1 << 19


@dataclass(frozen=True)
class _Batch:
    """The problems of parties with ``n`` rows each.

    ``features`` are the rows, (P, n, d), or in the dual their Gram matrices, (P, n, n); shifts are
    (P, m, n), and ``right`` marks every row's class, (P, m, n), by its sign if ``m`` is one.
    """

    features: Floats
    dual: bool
    shift: Floats
    right: Floats
    alpha: Floats
    tolerance: Floats
    cap: float

    def select(self, which: NDArray[np.bool_]) -> _Batch:
        return replace(
            self,
            **{
                name: getattr(self, name)[which]
                for name in ("features", "shift", "right", "alpha", "tolerance")
            },
        )

    def residuals(self, scores: Floats) -> tuple[Floats, Floats]:
        """Return the loss's derivative in every score, and the probabilities behind it.

        The residual of the right class is minus the sum of the others, never ``p - 1``: small ones
        keep their digits. The cap on the slope is for two classes.
        """
        if scores.shape[1] == 1:
            p = expit(-self.right * scores)
            return -self.right * np.minimum(p, self.cap), p
        e = np.exp(scores - scores.max(axis=1, keepdims=True))
        p = e / e.sum(axis=1, keepdims=True)
        wrong = p * (1 - self.right)
        return wrong - self.right * wrong.sum(axis=1, keepdims=True), p

    def curvature(self, p: Floats) -> Floats:
        """Return every row's Hessian in its scores, (P, m, m, n)."""
        if p.shape[1] == 1:
            return np.where(p <= self.cap, p * (1 - p), 0.0)[:, :, None]
        bend = -p[:, :, None] * p[:, None]
        every = np.arange(p.shape[1])
        bend[:, every, every] += p
        return bend

    def gradient(self, point: Floats) -> tuple[Floats, Floats, Floats]:
        """Return the gradient at a point, its norm in weight space, and the probabilities."""
        n = self.features.shape[1]
        residuals, p = self.residuals(self.scores(point) + self.shift)
        gradient = self.alpha[:, None, None] * point
        if self.dual:
            gradient += residuals / n
            squares = (gradient * self.scores(gradient)).sum(axis=(1, 2))
        else:
            gradient += residuals @ self.features / n
            squares = (gradient * gradient).sum(axis=(1, 2))
        return gradient, np.sqrt(np.maximum(squares, 0.0)), p

    def scores(self, point: Floats) -> Floats:
        """Return what a point or step adds to the scores, (P, m, n)."""
        return np.asarray(point @ self.features.transpose(0, 2, 1))

    def step(self, gradient: Floats, p: Floats) -> Floats:
        """Return Newton's step."""
        parties, m, width = gradient.shape
        n = self.features.shape[1]
        bend = self.curvature(p) / n
        if self.dual:
            # (alpha + D G) step = -gradient, with D the curvature of the rows.
            system = bend[..., None] * self.features[:, None, None]
        else:
            left = self.features.transpose(0, 2, 1)[:, None, None] * bend[..., None, :]
            system = left @ self.features[:, None, None]
        system = system.transpose(0, 1, 3, 2, 4).reshape(parties, m * width, m * width)
        every = np.arange(m * width)
        system[:, every, every] += self.alpha[:, None]
        return -_solved(system, gradient.reshape(parties, m * width, 1)).reshape(gradient.shape)

    def stretch(self, step: Floats) -> Floats:
        """Return a good length for the first step, from zero.

        Along the ray the objective's slope is ``penalty s - pull(s)``. Newton's method goes on
        ``log pull(s) - log(penalty s)``, almost straight where a few exponentials rule, as they do
        for small ``alpha``; it saves half of the steps to come.
        """
        n = self.features.shape[1]
        along = self.scores(step)
        metric = along if self.dual else step
        penalty = n * self.alpha * (step * metric).sum(axis=(1, 2))
        scale = np.ones(len(step))
        for _ in range(3):
            residuals, p = self.residuals(scale[:, None, None] * along)
            pull = -(residuals * along).sum(axis=(1, 2))
            moment = p * along
            bend = (moment * along).sum(axis=(1, 2))
            if along.shape[1] == 1:
                bend = (self.curvature(p)[:, :, 0] * along**2).sum(axis=(1, 2))
            else:
                bend -= (moment.sum(axis=1) ** 2).sum(axis=1)
            move = np.log(pull / (penalty * scale)) / (1 / scale + bend / pull)
            longer = np.clip(scale + move, scale / 4, scale * 4)
            scale = np.where((pull > 0) & np.isfinite(longer), longer, 1.0)
        return scale


def _solved(systems: Floats, right: Floats) -> Floats:
    try:
        return np.asarray(np.linalg.solve(systems, right), dtype=np.float64)
    except np.linalg.LinAlgError:
        # One party's matrix is singular to the last bit: the others are solved one by one.
        steps = np.zeros_like(right)
        for k, (system, b) in enumerate(zip(systems, right, strict=True)):
            try:
                steps[k] = np.linalg.solve(system, b)
            except np.linalg.LinAlgError:
                steps[k] = np.nan
        return steps


def _newton(stack: _Batch) -> Floats:
    """Return points from zero to the minimisers, or as near as floating point allows."""
    width = stack.features.shape[2]
    count, m = stack.shift.shape[:2]
    found = np.zeros((count, m, width))
    goal = np.minimum(stack.tolerance, _AIM * stack.alpha)
    places = np.arange(count)
    point = np.zeros((count, m, width))
    gradient, norm, p = stack.gradient(point)
    step = stack.step(gradient, p)
    scale = stack.stretch(step)
    for _ in range(_MOST_TRIALS):
        trial = point + scale[:, None, None] * step
        gradient, now, p = stack.gradient(trial)
        # Written so that NaN is no progress: no comparison with it is true.
        better = now <= (1 - np.minimum(scale, 1.0) / 4) * norm
        point = np.where(better[:, None, None], trial, point)
        norm = np.where(better, now, norm)
        # Below the tolerance only rounding is left to fight.
        stuck = ~better & ((norm <= stack.tolerance) | (scale < _SMALLEST_SCALE))
        done = stuck | (norm <= goal)
        scale = np.where(better, 1.0, scale / 2)
        if done.any():
            found[places[done]] = point[done]
            left = ~done
            if not left.any():
                return found
            stack, places, goal = stack.select(left), places[left], goal[left]
            point, norm, scale, step = point[left], norm[left], scale[left], step[left]
            gradient, p, better = gradient[left], p[left], better[left]
        if better.all():
            step = stack.step(gradient, p)
        elif better.any():
            step[better] = stack.select(better).step(gradient[better], p[better])
    found[places] = point
    return found


def solve_each(
    X: Floats,  # The parties' rows, one party after the other
    shift: Floats,  # Added to the scores
    codes: Codes,  # Classes; with one output, 1 stands for +1
    offsets: Codes,  # Where each party's rows begin
    # ``alpha``, ``tolerance``: every party's ridge on the mean loss, and the gradient's norm that
    # is good enough.
    alpha: Floats,
    cap: float,  # Largest slope of the loss of two classes
    tolerance: Floats,
    W: Floats,  # Where the solutions go
) -> Floats:
    """Solve every party's problem into ``W``, of shape (n_parties, m, d).

    Returns
    -------
    (n_parties,) array
        Norms of the gradients at the very ``W`` returned, measured in weight space; NaN where the
        numbers ran away.
    """
    n_parties, m, d = W.shape
    norms = np.empty(n_parties)
    sizes = np.diff(offsets)
    for n in np.unique(sizes).tolist():
        parties = np.flatnonzero(sizes == n)
        most = max(1, _STACK // (n * max(d, n, m * m * min(n, d))))
        for first in range(0, len(parties), most):
            some = parties[first : first + most]
            where = offsets[some][:, None] + np.arange(n)
            right = _marks(codes[where], m)
            primal = _Batch(
                X[where],
                False,
                np.ascontiguousarray(shift[where].transpose(0, 2, 1)),
                right,
                alpha[some],
                tolerance[some],
                cap,
            )
            W[some], norms[some] = _solve_stack(primal)
    return norms


# A party whose numbers run away is left where it was.
@np.errstate(all="ignore")
def _solve_stack(primal: _Batch) -> tuple[Floats, Floats]:
    rows = primal.features
    if rows.shape[1] >= rows.shape[2]:
        weights = _newton(primal)
        return weights, primal.gradient(weights)[1]
    dual = replace(primal, features=rows @ rows.transpose(0, 2, 1), dual=True)
    weights = _newton(dual) @ rows
    norms = primal.gradient(weights)[1]
    unsolved = ~(norms <= primal.tolerance)
    if unsolved.any():
        again = primal.select(unsolved)
        weights[unsolved] = _newton(again)
        norms[unsolved] = again.gradient(weights[unsolved])[1]
    return weights, norms


def _marks(codes: Codes, m: int) -> Floats:
    """Return every row's class as a mark, (P, m, n)."""
    if m == 1:
        return np.where(codes == 1, 1.0, -1.0)[:, None]
    return np.asarray(codes[:, None] == np.arange(m)[:, None], dtype=np.float64)


@dataclass(frozen=True, slots=True)
class PartySolutions:
    """Every party's minimiser and its certificate."""

    #: ``(n_parties, d)`` or ``(n_parties, K, d)``: each within its gradient norm over ``alpha`` of
    #: the exact one; zero for a party that is not solved.
    W: Floats
    gradient_norms: Floats  #: Each party's, at most the tolerance asked for if it is solved
    solved: NDArray[np.bool_]  #: Whose problem is solved


def solve_parties(
    X: ArrayLike,  # ``(n_rows, d)``: the parties' rows, one party after the other
    y: ArrayLike,  # As the loss takes them: labels -1 and +1, or codes; nobody need have all
    offsets: ArrayLike,  # ``(n_parties + 1,)``: where each's rows begin; the last is ``n_rows``
    loss: Loss = _LOGISTIC,
    *,
    alpha: float,  # Strength of the regulariser, on the mean loss
    tolerance: float = 1e-8,  # Largest gradient norm that counts as solved
    # Parties per call, which is what the copy in float64 of other number types is bounded by. It
    # does not change the result.
    block: int = 2048,
) -> PartySolutions:
    """Minimise ``(1/n_i) sum_i loss(W x_i) + (alpha/2) ||W||_F^2`` for every party.

    Parties with one class or one row have a minimiser too, and get it.
    """
    check_positive(alpha, "alpha")
    check_positive(tolerance, "tolerance")
    rows, labels = np.asarray(X), np.asarray(y)
    if rows.ndim != 2 or rows.shape[1] == 0 or not np.isrealobj(rows):
        raise InvalidData("X must be a two-dimensional array of real numbers.")
    if labels.shape != rows.shape[:1]:
        raise InvalidData("y must be one label per row of X.")
    loss.check_labels(labels)
    starts = _offsets(offsets, len(rows))
    codes, n_parties = labels > 0 if loss.n_scores == 1 else labels, starts.size - 1
    W = np.zeros((n_parties, loss.n_scores, rows.shape[1]))
    norms = np.empty(n_parties)
    for first in range(0, n_parties, block):
        last = min(first + block, n_parties)
        begin, end = int(starts[first]), int(starts[last])
        norms[first:last] = solve_each(
            np.ascontiguousarray(rows[begin:end], dtype=np.float64),
            np.zeros((end - begin, loss.n_scores)),
            codes[begin:end].astype(np.int64),
            (starts[first : last + 1] - begin).astype(np.int64),
            np.full(last - first, float(alpha)),
            1.0,
            np.full(last - first, float(tolerance)),
            W[first:last],
        )
    # Written so that NaN is not solved: no comparison with it is true.
    solved = norms <= tolerance
    W[~solved] = 0.0
    return PartySolutions(W[:, 0] if loss.n_scores == 1 else W, norms, solved)


def _offsets(offsets: ArrayLike, n_rows: int) -> Codes:
    starts = np.asarray(offsets)
    whole = starts.ndim == 1 and starts.size > 1 and np.issubdtype(starts.dtype, np.integer)
    if not whole or (starts[0], starts[-1]) != (0, n_rows) or np.any(np.diff(starts) < 1):
        raise InvalidData(
            "offsets must be whole numbers that rise from 0 to the number of rows, with at least "
            "one row for every party."
        )
    return starts


#: The part of the tolerance that the measured gradient may use, and rounding the rest.
_PART = 1 / 3
# Scores here are sums of two products, so their error is at most twice that of one: the two thirds
# that rounding may use hold twice its bound if the tolerance is PARTY_ROOM times the smallest,
# which is 1.5 times that bound.


def minimise_parties(
    X: Floats,  # Rows in the unit ball, one party after the other
    y: Floats,  # Labels -1 and +1
    offsets: NDArray[np.int64],  # Where each party's rows begin; the last number is ``n``
    *,
    # ``ridge``, ``tolerance``: every party's ``L``, and the bound on its gradient that is
    # certified.
    ridge: Floats,
    tolerance: Floats,
    linear: Floats | None = None,  # Every party's ``b``
    # ``u``, the same for all.
    centre: Floats | None = None,
    cap: float = 1.0,  # Largest slope of the loss
) -> Floats:
    r"""Minimise :math:`\sum_i \ell(y_i w \cdot x_i) + \frac{L}{2}\|w-u\|^2 + b \cdot w`, each.

    Returns
    -------
    (m, d) array
        What :func:`~confrere.solver.descent.minimise` would certify for every party. The few that
        the stacks do not certify are left to it; what it cannot solve is as without rows.
    """
    sizes = np.diff(offsets)
    origin = np.zeros((len(sizes), X.shape[1]))
    if linear is not None:
        origin -= linear / ridge[:, None]
    if centre is not None:
        origin += centre
    shift = np.einsum("ij,ij->i", X, np.repeat(origin, sizes, axis=0))
    moves = np.zeros((len(sizes), 1, X.shape[1]))
    norms = solve_each(
        np.ascontiguousarray(X),
        shift[:, None],
        (y > 0).astype(np.int64),
        offsets,
        ridge / sizes,
        cap,
        _PART * tolerance / sizes,
        moves,
    )
    points = origin + moves[:, 0]
    certified = norms * sizes <= _PART * tolerance
    centre_norm = 0.0 if centre is None else float(np.linalg.norm(centre))
    certified &= _roomy(sizes, ridge, tolerance, linear, centre_norm, X.shape[1])
    for party in np.flatnonzero(~certified):
        own = slice(offsets[party], offsets[party + 1])
        try:
            points[party] = minimise(
                X[own],
                y[own],
                Logistic(cap),
                ridge=float(ridge[party]),
                linear=None if linear is None else linear[party],
                centre=centre,
                tolerance=float(tolerance[party]),
            )
        except UNSOLVED:
            points[party] = origin[party]
    return np.asarray(points)


def _roomy(
    sizes: NDArray[np.int64],
    ridge: Floats,
    tolerance: Floats,
    linear: Floats | None,
    centre_norm: float,
    n_features: int,
) -> NDArray[np.bool_]:
    """Return whose tolerance leaves room for the rounding of scores that are sums."""
    kinds = list(zip(sizes.tolist(), ridge.tolist(), tolerance.tolist(), strict=True))
    longest = 0.0 if linear is None else float(np.linalg.norm(linear, axis=1).max())
    room = {
        (size, strength, bound): bound
        >= PARTY_ROOM
        * smallest_tolerance(
            size, n_features, ridge=strength, linear_norm=longest, centre_norm=centre_norm
        )
        for size, strength, bound in set(kinds)
    }
    return np.array([room[kind] for kind in kinds])
