"""Losses: each a value that says all that noise, certificate and solver need to know of it.

Here are those of classes; others join :data:`~confrere.kernel.accountants.THEOREMS` with a page of
their own. Proofs: docs/proofs/objective_perturbation.md, feature_groups.md and gaussian.md.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special
from typing_extensions import override

from confrere.arrays import Floats
from confrere.errors import InvalidData, InvalidParameter
from confrere.kernel.norms import Tie

Labels = NDArray[np.float64] | NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Move:
    """One of the fixed vectors that Gaussian noise may move by."""

    reach: float  #: Its largest norm
    #: What the loss may exceed the Gaussian mechanism's by, in every way to share the Jacobian.
    jacobian: Floats
    count: int = 1  #: How many vectors there are of this kind


class Loss(ABC):
    """A convex loss of a row's scores, with what the accountants need of it."""

    n_classes: int = 0  #: How many classes it tells apart; 0 where labels are numbers
    n_scores: int = 1  #: How many weight vectors there are: one tells two classes apart
    tie = Tie()  #: How their weights hang together
    shape: tuple[int, ...] = ()  #: Of one label: a number, or several
    slope: float  #: The longest residual vector, in L2
    reach: float  #: The norm of one record's gradient at most, of a row whose norm is one
    pull: float  #: The longest residual that certificates reckon with
    bend: float  #: The largest trace of one record's curvature, in its scores
    stiffness: float  #: No eigenvalue of it is larger
    rank: int = 1  #: Of that curvature, at most
    start: float  #: By how much it exceeds its infimum at scores of zero, at most

    @classmethod
    def known_as(cls) -> str:
        """Return its name in :data:`~confrere.kernel.accountants.THEOREMS`: whose it is, too."""
        package = cls.__module__.partition(".")[0]
        return cls.__name__ if package == "confrere" else f"{package}:{cls.__name__}"

    @abstractmethod
    def check_labels(self, labels: Labels) -> None:
        """Refuse labels that it is not for."""

    @abstractmethod
    def residuals(self, scores: Floats, labels: Labels) -> Floats:
        """Turn scores ``(m, n_scores, n)`` into residual vectors, in place."""

    # -- what it costs ---------------------------------------------------------------------------

    @abstractmethod
    def going(self, r: float, m: float) -> float:
        """Return the loss of the record that goes, at a noise rate ``r`` and the ridge ``m``."""

    @abstractmethod
    def moves(self, m: float, *, replaced: bool) -> list[Move]:
        """Return the moves of one block's Gaussian noise, whose deltas sum to a sound bound."""

    def jacobian(self, m: float) -> float:
        """Return the most that one record changes the Jacobian of one block by."""
        return self.rank * math.log1p(self.bend / (self.rank * m))


@dataclass(frozen=True)
class Logistic(Loss):
    """Of two classes, with labels -1 and +1."""

    cap: float = 1.0  #: Largest slope, from one half on; 1 is the logistic loss
    n_classes, pull, bend, stiffness, start = 2, 1.0, 0.25, 0.25, math.log(2)

    def __post_init__(self) -> None:
        # Below one half a misfit has curvature where its slope is capped already.
        if not 0.5 <= self.cap <= 1:
            raise InvalidParameter("cap must lie between 0.5 and 1.")
        vars(self).update(dict.fromkeys(("cap", "slope", "reach"), float(self.cap)))

    @override
    def check_labels(self, labels: Labels) -> None:
        if not np.all((labels == 1.0) | (labels == -1.0)):
            raise InvalidData("y must be one label, -1 or +1, per row of X.")

    @override
    def residuals(self, scores: Floats, labels: Labels) -> Floats:
        scores *= labels
        special.expit(np.negative(scores, out=scores), out=scores)
        if self.cap < 1:
            np.minimum(scores, self.cap, out=scores)
        scores *= -labels
        return scores

    @override
    def going(self, r: float, m: float) -> float:
        return _worst_logistic(r, m, self.cap)

    @override
    def moves(self, m: float, *, replaced: bool) -> list[Move]:
        at_cap, at_zero = _sharings(m, self.cap)
        moves = [Move(self.cap, at_cap), Move(0.0, at_zero)]
        return moves + [Move(2 * self.cap, at_cap), Move(self.cap, at_zero)] * replaced


@dataclass(frozen=True)
class Softmax(Loss):
    """Of K classes, with codes from 0 on."""

    n_classes: int  #: ``K``, at least three: two have the logistic loss
    #: ``||pi - e_c||`` is at most the root of two.
    slope, reach, pull, stiffness = math.sqrt(2), 2.0, math.sqrt(2), 0.5

    def __post_init__(self) -> None:
        if (k := self.n_classes) < 3:
            raise InvalidParameter("classes must name at least two labels.")
        vars(self).update(n_scores=k, tie=Tie(k), bend=(k - 1) / k, rank=k - 1, start=math.log(k))

    @override
    def check_labels(self, labels: Labels) -> None:
        if not np.all((labels >= 0) & (labels < self.n_classes) & (labels == np.floor(labels))):
            raise InvalidData("codes must be one integer from 0 to n_classes - 1 per row of X.")

    @override
    def residuals(self, scores: Floats, labels: Labels) -> Floats:
        shares_of(scores)
        scores[:, np.asarray(labels, dtype=np.intp), np.arange(scores.shape[2])] -= 1.0
        return scores

    @override
    def going(self, r: float, m: float) -> float:
        return _worst_classwise(2 * r, m, self.n_classes)

    @override
    def moves(self, m: float, *, replaced: bool) -> list[Move]:
        k, taken = self.n_classes, np.array([self.jacobian(m)])
        if not replaced:
            return [Move(math.sqrt(2), taken, k - 1), Move(0.0, taken)]
        return [
            Move(math.sqrt(8), taken, k - 1),
            Move(math.sqrt(6), taken, (k - 1) * (k - 2)),
            Move(math.sqrt(2), taken, 2 * (k - 1)),
            Move(0.0, taken),
        ]


def loss_of(n_classes: int, cap: float = 1.0) -> Loss:
    """Return the loss of so many classes; more than two have no cap."""
    return Logistic(cap) if n_classes == 2 else Softmax(n_classes)


def shares_of(scores: Floats) -> Floats:
    """Turn scores ``(m, K, n)`` into probabilities of the classes, in place."""
    scores -= scores.max(axis=1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=1, keepdims=True)
    return scores


# --- one record's worst residual ------------------------------------------------------------------


def worst_residual(r: float, m: float, cap: float = 1.0) -> float:
    """Return the maximiser in ``[0, cap]`` of ``r p + log(1 + p(1-p)/m)``.

    It solves ``r p^2 - (r-2) p - (r m + 1) = 0``; of the two forms of the root the one without
    cancellation is taken.
    """
    root = math.sqrt(r * r + 4 + 4 * r * r * m)
    p = (r - 2 + root) / (2 * r) if r > 2 else 2 * (r * m + 1) / (2 - r + root)
    return min(cap, p)


def _worst_logistic(r: float, m: float, cap: float) -> float:
    """Return the largest ``r p + log(1 + p(1-p)/m)``, p up to the cap."""
    p = worst_residual(r, m, cap)
    return r * p + math.log1p(p * (1 - p) / m)


def _worst_classwise(r: float, m: float, n_classes: int) -> float:
    """Return the largest ``r t + (K-1) log(1 + (2t - a t^2)/((K-1) m))``, a = K/(K-1)."""
    others = n_classes - 1
    a, bend = n_classes / others, r / others
    half, constant = a - bend, r * m + 2
    root = math.sqrt(half * half + a * bend * constant)
    # Of the two forms of the root the one without cancellation.
    t = constant / (half + root) if half > 0 else (root - half) / (a * bend)
    t = min(1.0, t)
    return r * t + others * math.log1p((2 * t - a * t * t) / (others * m))


#: In how many ways the Jacobian is shared between the ends of a residual; any of them is sound.
_SHARINGS = 33


def _sharings(m: float, cap: float) -> tuple[Floats, Floats]:
    """Return ``G(t) - t`` and ``G(t)``: what residuals ``cap`` and 0 pay for all between."""
    if math.isinf(m):
        return np.zeros(1), np.zeros(1)
    largest = cap * (2 * cap - 1) / (m + cap * (1 - cap))
    ends = np.linspace(0.0, largest, _SHARINGS if largest > 0 else 1)
    grown = [_worst_logistic(t / cap, m, cap) for t in ends]
    # At the last t the maximum is at the cap, and what rounding leaves is not a gain.
    return np.maximum(np.array(grown) - ends, 0.0), np.array(grown)
