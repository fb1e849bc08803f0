"""Losses, from a budget to noise, and the table of theorems: what is not in it does not exist.

A record moves the noise that a release needs by its gradient, and the Jacobian by its curvature,
both at the same residual; N enters through ``N(x) <= 1`` and ``||x||_2 <= 1`` alone. Blocks of
columns that see the same records have a residual and noise of their own: prices add up where each
block's rows may be one long (``apart``); where they share the row's length (``joint``) the worst
lengths count. Proofs: docs/proofs/objective_perturbation.md, geometry.md, averaging.md,
feature_groups.md and gaussian.md.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import optimize, special
from typing_extensions import override

from confrere.arrays import Floats
from confrere.errors import InvalidData, InvalidParameter
from confrere.kernel.guarantee import Neighbours, check_positive, check_relation

Labels = NDArray[np.float64] | NDArray[np.intp]


class Loss(ABC):
    """A convex loss of a row's scores, with what the accountants need of it."""

    n_classes: int  #: How many classes it tells apart
    slope: float  #: The longest residual vector, in L2
    reach: float  #: The norm of one record's gradient at most, of a row whose norm is one
    pull: float  #: The longest residual that certificates reckon with
    bend: float  #: The largest trace of one record's curvature, in its scores
    n_scores: int = 1  #: How many weight vectors there are: one tells two classes apart

    @abstractmethod
    def check_labels(self, labels: Labels) -> None:
        """Refuse labels of other classes."""

    @abstractmethod
    def residuals(self, scores: Floats, labels: Labels) -> Floats:
        """Turn scores ``(m, n_scores, n)`` into residual vectors, in place."""


@dataclass(frozen=True)
class Logistic(Loss):
    """Of two classes, with labels -1 and +1."""

    cap: float = 1.0  #: Largest slope, from one half on; 1 is the logistic loss
    n_classes, pull, bend = 2, 1.0, 0.25

    def __post_init__(self) -> None:
        # Below one half a misfit has curvature where its slope is capped already.
        if not 0.5 <= self.cap <= 1:
            raise InvalidParameter("cap must lie between 0.5 and 1.")
        vars(self).update(slope=float(self.cap), reach=float(self.cap))

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


@dataclass(frozen=True)
class Softmax(Loss):
    """Of K classes, with codes from 0 on."""

    n_classes: int  #: ``K``, at least three: two have the logistic loss
    #: ``||pi - e_c||`` is at most the root of two.
    slope, reach, pull = math.sqrt(2), 2.0, math.sqrt(2)

    def __post_init__(self) -> None:
        if (k := self.n_classes) < 3:
            raise InvalidParameter("classes must name at least two labels.")
        vars(self).update(n_scores=k, bend=(k - 1) / k)

    @override
    def check_labels(self, labels: Labels) -> None:
        if not np.all((labels >= 0) & (labels < self.n_classes) & (labels == np.floor(labels))):
            raise InvalidData("codes must be one integer from 0 to n_classes - 1 per row of X.")

    @override
    def residuals(self, scores: Floats, labels: Labels) -> Floats:
        scores -= scores.max(axis=1, keepdims=True)
        np.exp(scores, out=scores)
        scores /= scores.sum(axis=1, keepdims=True)
        scores[:, np.asarray(labels, dtype=np.intp), np.arange(scores.shape[2])] -= 1.0
        return scores


def loss_of(n_classes: int, cap: float = 1.0) -> Loss:
    """Return the loss of so many classes; more than two have no cap."""
    return Logistic(cap) if n_classes == 2 else Softmax(n_classes)


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


# --- pure noise -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Exposure:
    """What one record is exposed by: objectives that all see it, as far as privacy is concerned."""

    loss: Loss  #: Of every objective
    #: ``L_k`` of every block's summed objective; infinite for the limit without a Jacobian.
    ridges: tuple[float, ...]
    weights: tuple[float, ...] = (1.0,)  #: ``q_k``: pure noise of block k has the rate ``rho q_k``
    #: Whether the blocks' parts of a row share one unit of length; else each may be one long.
    joint: bool = False
    neighbours: Neighbours = Neighbours.REPLACE_ONE  #: Which change is hidden

    def __post_init__(self) -> None:
        check_relation(self.neighbours)
        if not len(self.ridges) == len(self.weights) >= 1:
            raise InvalidParameter("ridges and weights must have one entry per block.")
        for ridge, weight in zip(self.ridges, self.weights, strict=True):
            check_positive(ridge, "ridge")
            check_positive(weight, "weight")

    @property
    def reach(self) -> float:
        """How far one record moves the noise at most, in units of its norm at rate one."""
        both = math.hypot(*self.weights) if self.joint else math.fsum(self.weights)
        return self.loss.reach * both

    @property
    def records(self) -> int:
        """How many records change: one goes, and under replace-one another comes."""
        return 2 if self.neighbours is Neighbours.REPLACE_ONE else 1

    def spent(self, rho: float) -> float:
        """Return the loss of privacy of pure noise: of the record that comes, and that goes."""
        coming = rho * self.reach if self.neighbours is Neighbours.REPLACE_ONE else 0.0
        return coming + self._going(rho)

    def over(self, rho: float, epsilon: float) -> float:
        return self.spent(rho) - epsilon

    def _going(self, rho: float) -> float:
        blocks = [(rho * q, ridge) for q, ridge in zip(self.weights, self.ridges, strict=True)]
        if self.joint:
            # No division of a row costs more than equal parts of it in as many equal blocks.
            n = len(blocks)
            blocks = [(rho * math.hypot(*self.weights) / n, n * min(self.ridges))] * n
        if isinstance(self.loss, Logistic):
            return math.fsum(_worst_logistic(r, ridge, self.loss.cap) for r, ridge in blocks)
        k = self.loss.n_classes
        return math.fsum(_worst_classwise(2 * r, ridge, k) for r, ridge in blocks)


# --- Gaussian noise -------------------------------------------------------------------------------

#: In how many ways the Jacobian is shared between the ends of a residual; any of them is sound.
_SHARINGS = 33
#: Units in the last place by which differences of Mills ratios are raised to the careful side.
_ROUNDING = 16 * float(np.finfo(np.float64).eps)
#: Below this the tails of the noise as drawn are no longer negligible beside delta.
SMALLEST_DELTA = 1e-12


def check_delta(delta: float, count: int, unit: str = "record") -> None:
    """Refuse a delta that promises nothing to so many, or one that floats cannot keep."""
    if not SMALLEST_DELTA <= delta < 1 / count:
        name = "n_samples" if unit == "record" else "the number of parties"
        raise InvalidParameter(
            f"delta must be at least {SMALLEST_DELTA:g} and below 1/{name}: whoever publishes "
            f"one {unit} at random satisfies delta = 1/{name}. Use 0 for pure privacy."
        )


def gaussian_delta(epsilon: ArrayLike, mu: float) -> Floats:
    """Return delta at ``epsilon`` of the Gaussian mechanism, rounded up.

    ``Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu)``, exact (Balle and Wang, 2018),
    with ``mu`` the sensitivity over sigma. Both terms share a factor ``phi(epsilon/mu - mu/2)``,
    which leaves a difference of Mills ratios: nothing is lost where delta is tiny.
    """
    eps = np.asarray(epsilon, dtype=np.float64)
    if mu == 0:
        return np.maximum(0.0, -np.expm1(np.minimum(eps, 0.0)))
    near, far = eps / mu - mu / 2, eps / mu + mu / 2
    density = np.exp(-(near**2) / 2) / math.sqrt(2 * math.pi)
    tail = density * (_mills(near) * (1 + _ROUNDING) - _mills(far))
    # e^eps is at most 1 wherever far is not positive.
    second = np.where(
        far > 0, density * _mills(far), np.exp(np.minimum(eps, 0.0)) * special.ndtr(-far)
    )
    body = special.ndtr(-near) * (1 + _ROUNDING) - second
    return np.clip(np.where(near > 0, tail, body), 0.0, 1.0)


def gaussian_mu(epsilon: float, delta: float) -> float:
    """Return the largest sensitivity over sigma of (epsilon, delta)-private Gaussian noise.

    The bound was evaluated a hair above what is returned, and does not exceed ``delta`` there.
    """

    def surplus(log_mu: float) -> float:
        found = float(gaussian_delta(epsilon, math.exp(log_mu)))
        return math.log(max(found, 1e-300)) - math.log(delta)

    log_mu = optimize.brentq(
        surplus, math.log(1e-12), math.log(1e3 + 4 * math.sqrt(epsilon)), xtol=1e-13
    )
    return float(math.exp(log_mu) * (1 - 1e-9))


@dataclass(frozen=True, slots=True)
class Move:
    """One of the fixed vectors that ``b`` may move by."""

    reach: float  #: Its largest norm
    #: What the loss may exceed the Gaussian mechanism's by, in every way to share the Jacobian.
    jacobian: Floats
    count: int = 1  #: How many vectors there are of this kind


@dataclass(frozen=True, slots=True)
class GaussianLoss:
    """Objectives with Gaussian noise that see the same records: moves at extreme residuals."""

    exposure: Exposure  #: What the record is exposed by; its weights are not looked at
    sigmas: tuple[float, ...]  #: Deviation of every block's noise

    def __post_init__(self) -> None:
        if len(self.sigmas) != len(self.exposure.ridges):
            raise InvalidParameter("sigmas must have one entry per block.")
        for sigma in self.sigmas:
            check_positive(sigma, "sigma")
        if self.exposure.joint and len(set(self.sigmas)) > 1:
            raise InvalidParameter("groups that share a row's length must share one sigma.")

    @property
    def reach(self) -> float:
        """How far the records that change move the noise of all blocks, over sigma."""
        one = max(1 / s for s in self.sigmas)
        if not self.exposure.joint:
            one = math.hypot(*(1 / s for s in self.sigmas))
        return self.exposure.records * self.exposure.loss.slope * one

    def delta(self, epsilon: ArrayLike) -> Floats:
        """Bound delta: of one block by its moves, of several by as many worst corners."""
        at = np.asarray(epsilon, dtype=np.float64)
        if len(self.sigmas) > 1:
            count = corners(self.exposure)
            bound = count * gaussian_delta(at - jacobian(self.exposure), self.reach)
            return np.asarray(np.minimum(1.0, bound))
        bounds = sum(
            move.count * gaussian_delta(at[..., None] - move.jacobian, move.reach / self.sigmas[0])
            for move in self.moves()
        )
        return np.asarray(np.minimum(1.0, np.min(bounds, axis=-1)))

    def moves(self) -> list[Move]:
        """Return the moves of the only block, whose deltas sum to a sound bound."""
        loss, (m,) = self.exposure.loss, self.exposure.ridges
        replaced = self.exposure.neighbours is Neighbours.REPLACE_ONE
        if isinstance(loss, Logistic):
            at_cap, at_zero = _sharings(m, loss.cap)
            moves = [Move(loss.cap, at_cap), Move(0.0, at_zero)]
            return moves + [Move(2 * loss.cap, at_cap), Move(loss.cap, at_zero)] * replaced
        k = loss.n_classes
        taken = np.array([(k - 1) * math.log1p(1 / (k * m))])
        if not replaced:
            return [Move(math.sqrt(2), taken, k - 1), Move(0.0, taken)]
        return [
            Move(math.sqrt(8), taken, k - 1),
            Move(math.sqrt(6), taken, (k - 1) * (k - 2)),
            Move(math.sqrt(2), taken, 2 * (k - 1)),
            Move(0.0, taken),
        ]


def gaussian_sigmas(rate: float, exposure: Exposure) -> tuple[float, ...]:
    """Return the deviation of every block's noise: shared by weights, or the same for all."""
    if exposure.joint or len(exposure.weights) == 1:
        return (1 / rate,) * len(exposure.weights)
    return tuple(1 / (rate * math.sqrt(weight)) for weight in exposure.weights)


def jacobian(exposure: Exposure) -> float:
    """Return the most that the Jacobians of all blocks change by with one record."""
    bend, others = exposure.loss.bend, exposure.loss.n_classes - 1
    if exposure.joint:
        return bend / min(exposure.ridges)
    return math.fsum(others * math.log1p(bend / (others * ridge)) for ridge in exposure.ridges)


def corners(exposure: Exposure) -> float:
    """Return in how many ways the changed records' residuals may be extreme in all blocks."""
    return float(exposure.loss.n_classes) ** (exposure.records * len(exposure.ridges))


def _mills(x: Floats) -> Floats:
    """Return ``(1 - Phi(x)) / phi(x)`` where ``x`` is positive, and its value at 0 elsewhere."""
    scaled = special.erfcx(np.maximum(x, 0.0) / math.sqrt(2))
    return np.asarray(math.sqrt(math.pi / 2) * scaled)


def _sharings(m: float, cap: float) -> tuple[Floats, Floats]:
    """Return ``G(t) - t`` and ``G(t)``: what residuals ``cap`` and 0 pay for all between."""
    if math.isinf(m):
        return np.zeros(1), np.zeros(1)
    largest = cap * (2 * cap - 1) / (m + cap * (1 - cap))
    ends = np.linspace(0.0, largest, _SHARINGS if largest > 0 else 1)
    grown = [_worst_logistic(t / cap, m, cap) for t in ends]
    # At the last t the maximum is at the cap, and what rounding leaves is not a gain.
    return np.maximum(np.array(grown) - ends, 0.0), np.array(grown)


# --- what has a theorem ---------------------------------------------------------------------------

#: What is released, the norm, the law, and the page that proves it, for both losses and relations:
#: an objective of one block of columns, or of blocks that share the row's length or do not; noise
#: on a computed point, whose own page says what moves it.
_PROOFS = (
    ("one", "L2", "pure", "objective_perturbation"),
    ("one", "L1", "pure", "averaging"),
    ("one", "Max", "pure", "geometry"),
    ("one", "L2", "Gaussian", "gaussian"),
    ("one", "Max", "Gaussian", "gaussian"),
    ("apart", "L2", "pure", "feature_groups"),
    ("apart", "L1", "pure", "feature_groups"),
    ("apart", "Max", "pure", "feature_groups"),
    ("apart", "L2", "Gaussian", "feature_groups"),
    ("apart", "Max", "Gaussian", "feature_groups"),
    ("joint", "L2", "pure", "feature_groups"),
    ("joint", "L2", "Gaussian", "feature_groups"),
    ("point", "L2", "pure", "output_step"),
    ("point", "L1", "pure", "output_step"),
    ("point", "L2", "Gaussian", "gaussian"),
)

#: Whatever is released looks here, and nobody else refuses a combination.
THEOREMS = {
    (released, norm, loss, law): f"docs/proofs/{page}.md"
    for released, norm, law, page in _PROOFS
    for loss in ("Logistic", "Softmax")
}

#: Why what is not in the table is not: by what is refused, in the words of whoever asked.
_MISSING = {
    "L1": "delta must be 0 with Laplace noise, which is pure: docs/proofs/averaging.md.",
    "joint": "clipping must be 'separate': a row may be at corners of all bodies at once, see "
    "docs/proofs/feature_groups.md.",
    "point": "delta must be 0 for whole numbers, such as those of method='cells': Gaussian noise "
    "would be more than integer noise, whatever delta below .004 epsilon is given, see "
    "docs/proofs/cells.md.",
}


def theorem(released: str, norm: str, delta: float, loss: str = "Logistic") -> str:
    """Return the page that says why a release is private, or say which one tells why it is not."""
    found = THEOREMS.get((released, norm, loss, "Gaussian" if delta else "pure"))
    if found is None:
        raise InvalidParameter(_MISSING.get(released, _MISSING["L1"]))
    return found


def keeps(rate: float, epsilon: float, delta: float, exposure: Exposure) -> bool:
    """Whether noise of a rate, whoever found it, keeps a promise; with a delta it is Gaussian."""
    if not delta:
        return exposure.over(rate, epsilon) <= 0
    made = GaussianLoss(exposure, gaussian_sigmas(rate, exposure))
    return float(made.delta(epsilon)) <= delta
