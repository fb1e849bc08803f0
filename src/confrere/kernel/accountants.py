"""Losses, what each costs at a noise, and the table of theorems: what is not in it does not exist.

A record moves the noise that a release needs by its gradient, and the Jacobian by its curvature,
both at the same residual; N enters through ``N(x) <= 1`` and ``||x||_2 <= 1`` alone. Prices of
blocks of columns add up where each block's rows may be one long (``apart``); where they share the
row's length (``joint``) the worst lengths count. The table names the proofs, which other losses
join with a page of their own.
"""

from __future__ import annotations

import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Collection
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import optimize, special
from typing_extensions import override

from confrere.arrays import Floats
from confrere.errors import InvalidData, InvalidParameter
from confrere.kernel.guarantee import Neighbours, check_positive, check_relation
from confrere.kernel.noise import Norm, Rows

# --- losses ---------------------------------------------------------------------------------------

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
    tied: bool = False  #: Whether several of them have a weight together
    share: float = 1.0  #: What the last column may have of a row's squared length
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
        """Return its name in :data:`THEOREMS`: whose it is, too."""
        package = cls.__module__.partition(".")[0]
        return cls.__name__ if package == "confrere" else f"{package}:{cls.__name__}"

    @abstractmethod
    def check_labels(self, labels: Labels) -> None:
        """Refuse labels that it is not for."""

    @abstractmethod
    def residuals(self, scores: Floats, labels: Labels) -> Floats:
        """Turn scores ``(m, n_scores, n)`` into residual vectors, in place."""

    def weight_shape(self, size: int) -> tuple[int, ...]:
        """Return the shape of the weights of rows of so many columns."""
        return (size,) if self.n_scores == 1 else (self.n_scores, size)

    def spread(self, weights: Floats) -> Floats:
        """Return the vectors of all scores, by default their own, of weights ``(m, all)``."""
        return weights.reshape(len(weights) * self.n_scores, -1)

    def gathered(self, pulls: Floats) -> Floats:
        """Return the adjoint of that linear map at as many vectors."""
        return pulls.reshape(len(pulls) // self.n_scores, -1)

    def noised(self, norm: Norm) -> Norm:
        """Return the norm of noise, for rows of a norm: of every weight vector's own."""
        return norm

    def check_rows(self, rows: Rows) -> None:  # noqa: B027
        """Refuse rows that it is not for, whatever their norm."""

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
        vars(self).update(n_scores=k, bend=(k - 1) / k, rank=k - 1, start=math.log(k))

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
        for one in (*self.ridges, *self.weights):
            check_positive(one, "a ridge or weight")

    @property
    def reach(self) -> float:
        """How far one record moves the noise at most, in units of its norm at rate one."""
        both = math.hypot(*self.weights) if self.joint else math.fsum(self.weights)
        return self.loss.reach * both

    @property
    def records(self) -> int:
        """How many records change: one goes, and under replace-one another comes."""
        return 2 if self.neighbours is Neighbours.REPLACE_ONE else 1

    def spent(self, rho: float, but: float = 0.0) -> float:
        """Return the loss of pure noise, but for so much: of the record that comes, and goes."""
        coming = rho * self.reach if self.neighbours is Neighbours.REPLACE_ONE else 0.0
        blocks = [(rho * q, ridge) for q, ridge in zip(self.weights, self.ridges, strict=True)]
        if self.joint:
            # No division of a row costs more than equal parts of it in as many equal blocks: of
            # losses of classes, and no other may share a row (THEOREMS).
            n = len(blocks)
            blocks = [(rho * math.hypot(*self.weights) / n, n * min(self.ridges))] * n
        return coming + math.fsum(self.loss.going(r, ridge) for r, ridge in blocks) - but


# --- Gaussian noise -------------------------------------------------------------------------------

#: Units in the last place by which differences of Mills ratios are raised to the careful side.
_ROUNDING = 16 * float(np.finfo(np.float64).eps)
#: Below this the tails of the noise as drawn are no longer negligible beside delta.
SMALLEST_DELTA = 1e-12


def check_delta(delta: float, count: int, unit: str = "record") -> None:
    """Refuse a delta that promises nothing to so many, or one that floats cannot keep."""
    if not SMALLEST_DELTA <= delta < 1 / count:
        name = "n_samples" if unit == "record" else "the number of parties"
        told = f"delta must be at least {SMALLEST_DELTA:g} and below 1/{name}: whoever publishes "
        told += f"one {unit} at random satisfies delta = 1/{name}. Use 0 for pure privacy."
        raise InvalidParameter(told)


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
        (sigma,), (ridge,) = self.sigmas, self.exposure.ridges
        replaced = self.exposure.records == 2
        bounds = sum(
            move.count * gaussian_delta(at[..., None] - move.jacobian, move.reach / sigma)
            for move in self.exposure.loss.moves(ridge, replaced=replaced)
        )
        return np.asarray(np.minimum(1.0, np.min(bounds, axis=-1)))


def gaussian_sigmas(rate: float, exposure: Exposure) -> tuple[float, ...]:
    """Return the deviation of every block's noise: shared by weights, or the same for all."""
    if exposure.joint or len(exposure.weights) == 1:
        return (1 / rate,) * len(exposure.weights)
    return tuple(1 / (rate * math.sqrt(weight)) for weight in exposure.weights)


def jacobian(exposure: Exposure) -> float:
    """Return the most that the Jacobians of all blocks change by with one record."""
    if exposure.joint:
        return exposure.loss.bend / min(exposure.ridges)
    return math.fsum(map(exposure.loss.jacobian, exposure.ridges))


def corners(exposure: Exposure) -> float:
    """Return in how many ways the changed records' residuals may be extreme in all blocks."""
    return float(exposure.loss.n_classes or 2) ** (exposure.records * len(exposure.ridges))


def _mills(x: Floats) -> Floats:
    """Return ``(1 - Phi(x)) / phi(x)`` where ``x`` is positive, and its value at 0 elsewhere."""
    scaled = special.erfcx(np.maximum(x, 0.0) / math.sqrt(2))
    return np.asarray(math.sqrt(math.pi / 2) * scaled)


# --- what has a theorem ---------------------------------------------------------------------------

#: What is released, the norm, the law, and the page that proves it, of classes and both relations:
#: an objective of one block of columns, or of blocks that share the row's length or do not; noise
#: on a computed point, whose own page says what moves it.
_PROOFS = {
    ("one", "pure"): {"L2": "objective_perturbation", "L1": "averaging", "Max": "geometry"},
    ("one", "Gaussian"): dict.fromkeys(("L2", "Max"), "gaussian"),
    ("apart", "pure"): dict.fromkeys(("L2", "L1", "Max"), "feature_groups"),
    ("apart", "Gaussian"): dict.fromkeys(("L2", "Max"), "feature_groups"),
    ("joint", "pure"): {"L2": "feature_groups"},
    ("joint", "Gaussian"): {"L2": "feature_groups"},
    ("point", "pure"): dict.fromkeys(("L2", "L1"), "output_step"),
    ("point", "Gaussian"): {"L2": "gaussian"},
}

_ROWS = {
    (released, norm, loss, law): f"docs/proofs/{page}.md"
    for (released, law), pages in _PROOFS.items()
    for norm, page in pages.items()
    for loss in ("Logistic", "Softmax")
}

#: Whatever is released looks here, and nobody else refuses a combination.
THEOREMS = MappingProxyType(_ROWS)


def join(loss: type[Loss], page: str, norms: Collection[str] = ("L2", "L1", "Max")) -> None:
    """Give one of the library's own losses the rows that its page proves, of one block.

    Another package's is refused: nothing admits it yet by the ratio, law, certificate and audit
    that each row here has.
    """
    found = getattr(sys.modules.get(loss.__module__), loss.__name__, None)
    if loss.__module__.partition(".")[0] != "confrere" or found is not loss:
        raise InvalidParameter(
            f"loss must be one of confrere's own, not {loss.known_as()}: write its proof page, "
            "audit rows and mutations into the library, see docs/howto/add_a_mechanism.md."
        )
    for law in ("pure", "Gaussian"):
        for norm in _PROOFS["one", law].keys() & set(norms):
            _ROWS["one", norm, loss.known_as(), law] = page


#: Why what is not in the table is not: by what is refused, in the words of whoever asked.
_MISSING = {
    "L1": "delta must be 0 with Laplace noise, which is pure: docs/proofs/averaging.md.",
    "joint": "clipping must be 'separate': a row may be at corners of all bodies at once, see "
    "docs/proofs/feature_groups.md.",
    "numbers": "the loss must be one of classes: of numbers one block of columns has a proof, see "
    "docs/proofs/linear_regression.md.",
    "point": "delta must be 0 for whole numbers, such as those of method='cells': Gaussian noise "
    "would be more than integer noise, whatever delta below .004 epsilon is given, see "
    "docs/proofs/cells.md.",
}


def theorem(released: str, norm: str, delta: float, loss: str = "Logistic") -> str:
    """Return the page that says why a release is private, or say which one tells why it is not."""
    found = THEOREMS.get((released, norm, loss, "Gaussian" if delta else "pure"))
    if found is None:
        known = (released, norm, "Logistic", "Gaussian" if delta else "pure") in THEOREMS
        raise InvalidParameter(_MISSING.get("numbers" if known else released, _MISSING["L1"]))
    return found


def keeps(rate: float, epsilon: float, delta: float, exposure: Exposure) -> bool:
    """Whether noise of a rate, whoever found it, keeps a promise; with a delta it is Gaussian."""
    if not delta:
        return exposure.spent(rate) <= epsilon
    made = GaussianLoss(exposure, gaussian_sigmas(rate, exposure))
    return float(made.delta(epsilon)) <= delta
