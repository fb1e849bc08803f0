"""Time to an event: hazards that are constant on pieces of time, and one person as one unit.

A person lives through several pieces, and is one record all the same: its scores are one per piece,
of weight vectors that share all but the last column, where a piece has a level of its own. Its
curvature has as many directions as there are pieces, which the accountant of one residual does not
see. Proof: docs/proofs/survival.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from typing_extensions import override

from confrere.arrays import Floats
from confrere.errors import InvalidData, InvalidParameter
from confrere.kernel.accountants import Labels, Loss, Move, join
from confrere.kernel.noise import L2, Body, Norm, Rows

#: The least time, and the least end of a piece, of the longest.
FIRST = 2.0**-20

#: What levels of pieces may have of a row's squared length: beyond it an event in a piece without
#: hazard would move the noise further than any other record.
MOST_SHARE = 0.5


@dataclass(frozen=True)
class PiecewiseExponential(Loss):
    """Minus the log likelihood of a time and what ended it, the expected events capped.

    To weights ``(b, a_1 .. a_J)`` belongs the vector ``(b, a_j)`` of every piece of time.
    A label is a time, up to the end of the last piece, below zero if no event ended it. The last
    column of a row is the constant that levels are counted in. Hazards are per length of all
    pieces.
    """

    ends: tuple[float, ...]  #: Where pieces of time end
    share: float = 0.16  #: ``k^2``: what the constant may have of a row's squared length
    cap: float = 1.0  #: ``c``: beyond so many expected events the loss grows like a logarithm
    tied = True

    def __post_init__(self) -> None:
        rising = all(a < b < math.inf for a, b in pairwise(self.ends))
        several = len(self.ends) > 1
        if not several or not rising or not self.ends[0] >= FIRST * self.ends[-1] > 0:
            raise InvalidParameter(
                "ends of pieces must be two finite numbers that rise, or more, far from 0."
            )
        if not 1 <= self.cap < math.inf:
            raise InvalidParameter("cap must be a finite number from 1 on.")
        if not 0 < self.share <= MOST_SHARE:
            raise InvalidParameter(f"share must be above 0 and at most {MOST_SHARE}.")
        pieces, cap = len(self.ends), float(self.cap)
        vars(self).update(n_scores=pieces, rank=pieces, reach=cap, slope=cap + 1)
        # Nobody is in a piece for less than the last place of the time when the first ends.
        # Three times the residuals and the curvature: what is divided by a sum is rounded twice.
        vars(self).update(bend=cap, stiffness=3 * cap, pull=3 * cap + 1)
        vars(self).update(start=1 + 74 * math.log(2))

    @override
    def weight_shape(self, size: int) -> tuple[int, ...]:
        return (size - 1 + self.n_scores,)

    @override
    def spread(self, weights: Floats) -> Floats:
        shared = weights.shape[1] - self.n_scores
        vectors = np.empty((len(weights), self.n_scores, shared + 1))
        vectors[:, :, :-1] = weights[:, None, :shared]
        vectors[:, :, -1] = weights[:, shared:]
        return vectors.reshape(-1, shared + 1)

    @override
    def gathered(self, pulls: Floats) -> Floats:
        each = pulls.reshape(-1, self.n_scores, pulls.shape[1])
        return np.hstack([each[:, :, :-1].sum(axis=1), each[:, :, -1]])

    @override
    def noised(self, norm: Norm) -> Norm:
        if not isinstance(norm, Body):
            return L2(*self.weight_shape(norm.size))
        # Levels are one cross-polytope, with half of the noise's rate.
        groups = sorted({*norm.groups[:-1]})
        shares = np.array([norm.shares[g] for g in groups])
        return Body(
            (*norm.roots[:-1], float(norm.roots[-1][0, 0]) * np.eye(self.n_scores)),
            (*(groups.index(g) for g in norm.groups[:-1]), len(groups)),
            (*(shares / shares.sum() / 2).tolist(), 0.5),
        )

    @override
    def check_rows(self, rows: Rows) -> None:
        last = np.abs(rows @ np.eye(rows.shape[1])[:, -1:])  # type: ignore[operator]
        if not np.max(last, initial=0.0) <= math.sqrt(self.share):
            raise InvalidData("the last column of X must be the constant of the pieces.")

    @property
    def extreme_labels(self) -> Labels:
        """What audits try: an event when a piece has hardly begun, and none in one piece or all."""
        firsts = np.nextafter([FIRST * self.ends[-1], *self.ends[:-1]], np.inf)
        return np.array([-self.ends[0], *firsts, -self.ends[-1]])

    @property
    def extreme_scores(self) -> Floats:
        """What audits try: events are expected alike in all pieces, in one, or early and late."""
        pieces = self.n_scores
        most = np.log(self.cap * (1 - 1e-9) / self._spent(self.extreme_labels[-1:])[:, 0])
        apart = np.array([most[0], *[-30.0] * (pieces - 2), 40.0])
        return np.vstack([most - math.log(pieces), np.where(np.eye(pieces) > 0, most, -30), apart])

    @override
    def check_labels(self, labels: Labels) -> None:
        time, last = np.abs(labels), self.ends[-1]
        if not np.all((time >= FIRST * last) & (time <= last)):
            raise InvalidData("y must be one time per row of X, below zero without an event.")

    # -- the loss ----------------------------------------------------------------------------------

    def _spent(self, labels: Labels) -> Floats:
        """Return how long everybody was in every piece, ``(pieces, n)``, all of them being one."""
        begins = np.append(0.0, self.ends[:-1])[:, None]
        lengths = np.diff([0.0, *self.ends])[:, None]
        return np.asarray(np.clip(np.abs(labels) - begins, 0.0, lengths) / self.ends[-1])

    def _means(self, scores: Floats, labels: Labels) -> tuple[Floats, Floats]:
        """Turn scores ``(m, pieces, n)`` into capped means, in place; say where they are not."""
        spent = self._spent(labels)
        top = np.where(spent > 0, scores, -np.inf).max(axis=1, keepdims=True)
        # No piece without time has a part in it, however large its score.
        np.exp(np.where(spent > 0, scores - top, -np.inf), out=scores)
        scores *= spent
        most = self.cap / scores.sum(axis=1, keepdims=True)
        all_of_it = np.exp(np.minimum(top, 700.0))
        scores *= np.minimum(all_of_it, most)
        return scores, all_of_it <= most

    @override
    def residuals(self, scores: Floats, labels: Labels) -> Floats:
        self._means(scores, labels)
        piece = np.searchsorted(self.ends, np.abs(labels))
        scores[:, piece, np.arange(len(labels))] -= labels > 0
        return scores

    def bent(self, scores: Floats, moved: Floats, labels: Labels) -> Floats:
        """Return curvature times a move of the scores, both ``(pieces, n)``."""
        means, free = self._means(np.array(scores[None]), labels)
        tilt = np.asarray(means[0] * moved)
        tilt -= np.where(free[0], 0.0, means[0] * tilt.sum(axis=0) / self.cap)
        return tilt

    def diagonals(self, scores: Floats, labels: Labels) -> Floats:
        """Return the curvature of each score, averaged over points, and without the cap's."""
        return np.asarray(self._means(scores, labels)[0].mean(axis=0))

    # -- what it costs -----------------------------------------------------------------------------

    @override
    def jacobian(self, m: float) -> float:
        """Return it for means that are alike in all pieces: no others have a larger determinant."""
        pieces, each = self.n_scores, self.cap / self.n_scores / m
        levels = (pieces - 1) * math.log1p(self.share * each)
        return levels + math.log1p((self.share + pieces * (1 - self.share)) * each)

    @override
    def going(self, r: float, m: float) -> float:
        return r * self.reach + self.jacobian(m)

    @override
    def moves(self, m: float, *, replaced: bool) -> list[Move]:
        # Means are a mixture of none and of all in one piece; whether and when is the record's own.
        corners, records = self.n_scores + 1, 1 + replaced
        return [Move(records * self.reach, np.array([self.jacobian(m)]), corners**records)]


join(PiecewiseExponential, "docs/proofs/survival.md", ("L2", "Max"))
