"""Many parties with a few rows each: their small problems, solved together by Newton's method.

A party minimises, on its rows alone, ``(1/n) sum_i loss(W x_i) + (alpha/2) ||W||_F^2`` over W of
shape (m, d), in whichever space is smaller: *primal* (n >= d), in ``W`` itself, or *dual* (n < d),
``W = A X`` in the metric of ``G = X X'``. A step is halved until the norm of the gradient falls,
which converges from anywhere because the Hessian is never below ``alpha``. Rows that nearly
coincide make ``G`` nearly singular: what the dual leaves unsolved is tried again in the primal.

Only parties of one and the same number of rows are stacked, and every product and factorisation is
of one party's matrices: who else is in the stack changes no bit of a party's solution. Every
solution is certified in weight space; a party whose problem cannot be solved that well gets weights
of zero, and a mark.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from confrere.arrays import Floats
from confrere.kernel.accountants import Logistic, Loss
from confrere.kernel.guarantee import check_positive

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

    ``features`` are the rows, (P, n, d), or in the dual their Gram matrices, (P, n, n); ``right``
    marks every row's class, (P, m, n), by its sign if ``m`` is one.
    """

    features: Floats
    right: Floats
    alpha: float
    tolerance: float
    dual: bool = False

    def select(self, which: NDArray[np.bool_]) -> _Batch:
        return replace(self, features=self.features[which], right=self.right[which])

    def residuals(self, scores: Floats) -> tuple[Floats, Floats]:
        """Return the loss's derivative in every score, small ones with their digits; and ``p``."""
        if scores.shape[1] == 1:
            p = expit(-self.right * scores)
            return -self.right * p, p
        e = np.exp(scores - scores.max(axis=1, keepdims=True))
        p = e / e.sum(axis=1, keepdims=True)
        wrong = p * (1 - self.right)
        return wrong - self.right * wrong.sum(axis=1, keepdims=True), p

    def gradient(self, point: Floats) -> tuple[Floats, Floats, Floats]:
        """Return the gradient at a point, its norm in weight space, and the probabilities."""
        n = self.features.shape[1]
        residuals, p = self.residuals(self.scores(point))
        gradient = self.alpha * point
        gradient += residuals / n if self.dual else residuals @ self.features / n
        along = self.scores(gradient) if self.dual else gradient
        return gradient, np.sqrt(np.maximum((gradient * along).sum(axis=(1, 2)), 0.0)), p

    def scores(self, point: Floats) -> Floats:
        """Return what a point or step adds to the scores, (P, m, n)."""
        return np.asarray(point @ self.features.transpose(0, 2, 1))

    def step(self, gradient: Floats, p: Floats) -> Floats:
        parties, m, width = gradient.shape
        if m == 1:
            bend = (p * (1 - p))[:, :, None]
        else:
            bend = -p[:, :, None] * p[:, None]
            bend[:, np.arange(m), np.arange(m)] += p
        bend = bend / self.features.shape[1]
        if self.dual:
            # (alpha + D G) step = -gradient, with D the curvature of the rows.
            system = bend[..., None] * self.features[:, None, None]
        else:
            left = self.features.transpose(0, 2, 1)[:, None, None] * bend[..., None, :]
            system = left @ self.features[:, None, None]
        system = system.transpose(0, 1, 3, 2, 4).reshape(parties, m * width, m * width)
        every = np.arange(m * width)
        system[:, every, every] += self.alpha
        return -_solved(system, gradient.reshape(parties, m * width, 1)).reshape(gradient.shape)

    def stretch(self, step: Floats) -> Floats:
        """Return a good length for the first step, from zero: Newton on the slope's logarithm."""
        along = self.scores(step)
        metric = along if self.dual else step
        penalty = self.features.shape[1] * self.alpha * (step * metric).sum(axis=(1, 2))
        scale = np.ones(len(step))
        for _ in range(3):
            residuals, p = self.residuals(scale[:, None, None] * along)
            pull = -(residuals * along).sum(axis=(1, 2))
            if along.shape[1] == 1:
                bend = (p * (1 - p) * along**2).sum(axis=(1, 2))
            else:
                moment = p * along
                bend = (moment * along).sum(axis=(1, 2)) - (moment.sum(axis=1) ** 2).sum(axis=1)
            move = np.log(pull / (penalty * scale)) / (1 / scale + bend / pull)
            longer = np.clip(scale + move, scale / 4, scale * 4)
            scale = np.where((pull > 0) & np.isfinite(longer), longer, 1.0)
        return scale


def _solved(systems: Floats, right: Floats) -> Floats:
    try:
        return np.asarray(np.linalg.solve(systems, right), dtype=np.float64)
    except np.linalg.LinAlgError:
        if len(systems) == 1:
            return np.full_like(right, np.nan)
        # One party's matrix is singular to the last bit: the others are solved one by one.
        pairs = zip(systems, right, strict=True)
        return np.concatenate([_solved(system[None], b[None]) for system, b in pairs])


def _newton(stack: _Batch) -> Floats:
    """Return points from zero to the minimisers, or as near as floating point allows."""
    point = np.zeros((*stack.right.shape[:2], stack.features.shape[2]))
    found, places = point.copy(), np.arange(len(point))
    goal = min(stack.tolerance, _AIM * stack.alpha)
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
            stack, places = stack.select(left), places[left]
            point, norm, scale, step = point[left], norm[left], scale[left], step[left]
            gradient, p, better = gradient[left], p[left], better[left]
        if better.all():
            step = stack.step(gradient, p)
        elif better.any():
            step[better] = stack.select(better).step(gradient[better], p[better])
    found[places] = point
    return found


# A party whose numbers run away is left where it was.
@np.errstate(all="ignore")
def _solve_stack(primal: _Batch) -> tuple[Floats, Floats]:
    """Return solutions, and the norms of the gradients at them; NaN where the numbers ran away."""
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


class PartySolutions(NamedTuple):
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
) -> PartySolutions:
    """Minimise ``(1/n_i) sum_i loss(W x_i) + (alpha/2) ||W||_F^2`` for every party.

    Parties with one class or one row have a minimiser too, and get it.
    """
    check_positive(alpha, "alpha")
    check_positive(tolerance, "tolerance")
    rows, labels, starts, m = np.asarray(X), np.asarray(y), np.asarray(offsets), loss.n_scores
    loss.check_labels(labels)
    sizes, d = np.diff(starts), rows.shape[1]
    W, norms = np.zeros((len(sizes), m, d)), np.empty(len(sizes))
    for n in np.unique(sizes).tolist():
        parties = np.flatnonzero(sizes == n)
        most = max(1, _STACK // (n * max(d, n, m * m * min(n, d))))
        for first in range(0, len(parties), most):
            some = parties[first : first + most]
            where = starts[some][:, None] + np.arange(n)
            told = labels[where][:, None]
            right = np.where(told > 0, 1.0, -1.0) if m == 1 else told == np.arange(m)[:, None]
            own = np.asarray(rows[where], dtype=np.float64)
            batch = _Batch(own, right.astype(np.float64), float(alpha), float(tolerance))
            W[some], norms[some] = _solve_stack(batch)
    # Written so that NaN is not solved: no comparison with it is true.
    solved = norms <= tolerance
    W[~solved] = 0.0
    return PartySolutions(W[:, 0] if m == 1 else W, norms, solved)
