r"""Newton's method for many small regularised problems at once, in stacks of equal shape.

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
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]

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
    X: Floats,
    shift: Floats,
    codes: Codes,
    offsets: Codes,
    alpha: Floats,
    cap: float,
    tolerance: Floats,
    W: Floats,
) -> Floats:
    """Solve every party's problem into ``W``, of shape (n_parties, m, d).

    Parameters
    ----------
    X : (n_rows, d) array
        The parties' rows, one party after the other.
    shift : (n_rows, m) array
        Added to the scores.
    codes : (n_rows,) int array
        Classes; with one output, 1 stands for +1.
    offsets : (n_parties + 1,) int array
        Where each party's rows begin.
    alpha, tolerance : (n_parties,) arrays
        Every party's ridge on the mean loss, and the gradient's norm that is good enough.
    cap : float
        Largest slope of the loss of two classes.
    W : (n_parties, m, d) array
        Where the solutions go.

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
