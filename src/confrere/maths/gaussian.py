"""From (epsilon, delta) to Gaussian noise: the accountant of Gaussian objective perturbation.

The objective is that of :mod:`confrere.maths.calibration`, with noise ``b ~ N(0, sigma^2 I)``. One
record moves ``b(w)`` by a vector ``v`` that is linear in the residuals, so the loss of privacy,

    (||b + v||^2 - ||b||^2) / (2 sigma^2) + log det A / det A',

is convex in them but for the Jacobian: it is largest where the residuals are extreme, and there
``v`` is one of a few fixed vectors, as in the Gaussian mechanism. A residual ``p`` between the
extremes also pays ``log(1 + p(1-p) q^2/L)``, which concedes a term to each of the two ends. See
docs/proofs/gaussian.md.

Groups of features of the same records minimise an objective each, with noise ``N(0, sigma_g^2 I)``;
what all of them promise together is at the end. Proof: docs/proofs/feature_groups.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike
from scipy import optimize, special

from confrere.arrays import Floats
from confrere.errors import CalibrationError, InvalidData, InvalidParameter
from confrere.kernel.guarantee import Neighbours, check_epsilon, check_positive, check_relation
from confrere.maths.calibration import free_ridge, worst_residual

#: In how many ways the Jacobian is shared between the ends of a residual; any of them is sound.
_SHARINGS = 33

#: Units in the last place by which differences of Mills ratios are raised to the careful side.
_ROUNDING = 16 * float(np.finfo(np.float64).eps)

#: Below this the tails of the noise as drawn are no longer negligible beside delta.
SMALLEST_DELTA = 1e-12

#: Factor of the automatic ridge, measured: noise variance over prior variance times curvature.
_RIDGE_FACTOR = 0.5


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
    """One of the fixed vectors that ``b`` may move by.

    Attributes
    ----------
    reach : float
        Its largest norm.
    jacobian : array
        What the loss may exceed the Gaussian mechanism's by, in every way to share the Jacobian.
    count : int
        How many vectors there are of this kind.
    """

    reach: float
    jacobian: Floats
    count: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class GaussianObjective:
    """One objective with Gaussian noise, as far as privacy is concerned.

    Attributes
    ----------
    ridge : float
        ``L`` of the summed objective; infinite for the limit in which the Jacobian is gone.
    row_norm : float
        Bound ``q`` on the rows.
    cap : float
        Largest slope of the loss of two classes; 1 is the logistic loss.
    n_classes : int
        More than two use the softmax loss.
    neighbours : Neighbours
        Which change is hidden.
    """

    ridge: float
    row_norm: float = 1.0
    cap: float = 1.0
    n_classes: int = 2
    neighbours: Neighbours = Neighbours.REPLACE_ONE

    def __post_init__(self) -> None:
        check_positive(self.ridge, "ridge")
        check_positive(self.row_norm, "row_norm")
        check_relation(self.neighbours)
        if not 0.5 <= self.cap <= 1:
            raise InvalidParameter("cap must lie between 0.5 and 1.")
        if self.n_classes < 2:
            raise InvalidParameter("n_classes must be at least 2.")
        if self.n_classes > 2 and self.cap < 1:
            raise InvalidParameter("a capped loss is for two classes only.")

    def delta(self, epsilon: ArrayLike, sigma: float) -> Floats:
        """Return a bound on delta at every ``epsilon``, for any two neighbours."""
        at = np.asarray(epsilon, dtype=np.float64)[..., None]
        bounds = sum(
            move.count * gaussian_delta(at - move.jacobian, move.reach / sigma)
            for move in self.moves()
        )
        return np.asarray(np.minimum(1.0, np.min(bounds, axis=-1)))

    def profile(self, epsilon: ArrayLike, sigma: float) -> Floats:
        """Return a bound on delta that is good at small epsilons too, where releases compose.

        A replaced record is one that goes and one that comes: between the two lies a data set that
        is a neighbour of both by one record, and no corner has to be counted beside another.
        """
        at = np.asarray(epsilon, dtype=np.float64)[..., None]
        bound = self.delta(epsilon, sigma)
        goes = replace(self, neighbours=Neighbours.ADD_REMOVE).moves()
        mu, count = goes[0].reach / sigma, goes[0].count
        at_end, at_zero = goes[0].jacobian, goes[-1].jacobian
        if self.neighbours is Neighbours.ADD_REMOVE:
            alone = _one_record(at, mu, count, at_end, at_zero).min(axis=-1)
            return np.asarray(np.minimum(bound, alone))
        # Whoever comes pays no Jacobian. Any division of epsilon is sound; that of two Gaussian
        # mechanisms, beyond what the Jacobian takes, is the best or nearly so.
        for taken in (at_end, at_zero):
            first = (at + taken - mu**2) / 2
            second = np.exp(first) * _one_record(at - first, mu, count, 0.0, 0.0)
            both = _one_record(first, mu, count, at_end, at_zero) + second
            bound = np.minimum(bound, both.min(axis=-1))
        return bound

    def moves(self) -> list[Move]:
        """Return the moves, whose deltas sum to a sound bound."""
        return self._softmax() if self.n_classes > 2 else self._binary()

    def _binary(self) -> list[Move]:
        q, m = self.row_norm, self.ridge / self.row_norm**2
        slope = self.cap * q
        at_cap, at_zero = _sharings(m, self.cap)
        moves = [Move(slope, at_cap), Move(0.0, at_zero)]
        if self.neighbours is Neighbours.REPLACE_ONE:
            moves += [Move(2 * slope, at_cap), Move(slope, at_zero)]
        return moves

    def _softmax(self) -> list[Move]:
        q, k = self.row_norm, self.n_classes
        jacobian = np.array([(k - 1) * math.log1p(q**2 / (k * self.ridge))])
        if self.neighbours is Neighbours.ADD_REMOVE:
            return [Move(math.sqrt(2) * q, jacobian, k - 1), Move(0.0, jacobian)]
        return [
            Move(math.sqrt(8) * q, jacobian, k - 1),
            Move(math.sqrt(6) * q, jacobian, (k - 1) * (k - 2)),
            Move(math.sqrt(2) * q, jacobian, 2 * (k - 1)),
            Move(0.0, jacobian),
        ]


def calibrate_gaussian(epsilon: float, delta: float, objective: GaussianObjective) -> float:
    """Return the smallest ``sigma`` at which ``objective`` is (epsilon, delta)-private.

    Bisection on the logarithm, always from the safe side: the bound was evaluated at the sigma
    that is returned, and does not exceed ``delta`` there.
    """
    check_epsilon(epsilon)
    if not 0 < delta < 1:
        raise InvalidParameter("delta must lie strictly between 0 and 1.")
    return _smallest_sigma(epsilon, delta, objective)


@lru_cache(maxsize=4096)
def _smallest_sigma(epsilon: float, delta: float, objective: GaussianObjective) -> float:
    """Search: a checked fit plans one at every belief, and everybody plans them all again."""

    def enough(sigma: float) -> bool:
        return float(objective.delta(epsilon, sigma)) <= delta

    # Where no sigma suffices the Jacobian alone exceeds epsilon, by far or by a hair.
    high = objective.row_norm / epsilon
    for _ in range(200):
        if enough(high):
            break
        high *= 2
    else:
        raise CalibrationError(
            f"no Gaussian noise reaches epsilon={epsilon:g}, delta={delta:g} at this ridge: the "
            "Jacobian alone costs too much. Raise alpha (or the ridge floor)."
        )
    low = high / 2
    while enough(low):
        low, high = low / 2, low
    while high / low > 1 + 1e-10:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def automatic_gaussian_ridge(
    epsilon: float,
    delta: float,
    n_samples: float,
    n_features: int,
    objective: GaussianObjective,
    *,
    floor: float = 2.0,
) -> float:
    """Return the public rule for the ridge of rows in the unit ball.

    ``max(floor/epsilon, sigma^2 d^2 / (2 n))``: the variance of the noise over prior variance times
    curvature, as in the pure rule. ``sigma`` is the one without a Jacobian, whatever
    ``objective``'s own ridge is.
    """
    if n_samples < 1:
        raise InvalidData("X needs at least one row.")
    sigma = calibrate_gaussian(epsilon, delta, replace(objective, ridge=math.inf))
    rule = _RIDGE_FACTOR * (sigma * n_features) ** 2 / n_samples
    return max(free_ridge(epsilon, factor=floor), rule)


def _one_record(
    epsilon: Floats, mu: float, count: int, at_end: ArrayLike, at_zero: ArrayLike
) -> Floats:
    """Return delta where one record goes or comes: the loss is at most the larger of two ends.

    ``E (1 - e^(epsilon - max(s + at_end, at_zero)))_+`` with ``s`` the loss of a Gaussian
    mechanism, the largest of ``count`` such.
    """
    end, zero = np.asarray(at_end), np.asarray(at_zero)
    above = count * gaussian_delta(epsilon - end, mu)
    left = np.minimum(epsilon - zero, 0.0)
    below = -np.expm1(left) + np.exp(left) * count * gaussian_delta(zero - end, mu)
    return np.asarray(np.minimum(1.0, np.where(epsilon >= zero, above, below)))


def _mills(x: Floats) -> Floats:
    """Return ``(1 - Phi(x)) / phi(x)`` where ``x`` is positive, and its value at 0 elsewhere."""
    scaled = special.erfcx(np.maximum(x, 0.0) / math.sqrt(2))
    return np.asarray(math.sqrt(math.pi / 2) * scaled)


def _sharings(m: float, cap: float) -> tuple[Floats, Floats]:
    """Return what the ends ``p = cap`` and ``p = 0`` pay for the Jacobian of all ``p`` between.

    With ``G(t) = max_p [t p/cap + log(1 + p(1-p)/m)]`` every ``t >= 0`` gives a sound pair,
    ``G(t) - t`` and ``G(t)``. From some ``t`` on the maximum stays at the cap and only the second
    grows.
    """
    if math.isinf(m):
        return np.zeros(1), np.zeros(1)
    largest = cap * (2 * cap - 1) / (m + cap * (1 - cap))
    ends = np.linspace(0.0, largest, _SHARINGS if largest > 0 else 1)
    grown = []
    for t in ends:
        p = worst_residual(t / cap, m, cap)
        grown.append(t * p / cap + math.log1p(p * (1 - p) / m))
    # At the last t the maximum is at the cap, and what rounding leaves is not a gain.
    return np.maximum(np.array(grown) - ends, 0.0), np.array(grown)


def group_mu(
    epsilon: float,
    delta: float,
    ridges: Sequence[float],
    *,
    n_classes: int = 2,
    joint: bool = False,
) -> float:
    """Return how far one record may move the noise of all groups of features, over sigma.

    Groups that see the same records have residuals of their own: with G groups the loss of privacy
    is largest at one of ``2^(2G)`` corners (``K^(2G)`` of K > 2 classes), each of which is a
    Gaussian mechanism, and pays every group's Jacobian; under joint clipping those share one row.
    """
    taken = jacobian(ridges, n_classes, joint=joint)
    if epsilon <= taken:
        raise CalibrationError(
            f"no Gaussian noise reaches epsilon={epsilon:g} at these ridges: the Jacobian alone "
            "costs more. Raise alpha."
        )
    return gaussian_mu(epsilon - taken, delta / corners(len(ridges), n_classes))


def jacobian(ridges: Sequence[float], n_classes: int = 2, *, joint: bool = False) -> float:
    """Return the most that the Jacobians of all groups change by with one record."""
    others = n_classes - 1
    bend = 1 / 4 if n_classes == 2 else others / n_classes  # the largest trace of one record
    if joint:
        return bend / min(ridges)
    return math.fsum(others * math.log1p(bend / (others * ridge)) for ridge in ridges)


def corners(n_groups: int, n_classes: int = 2) -> float:
    """Return in how many ways both records' residuals may be extreme in all groups."""
    return float(n_classes) ** (2 * n_groups)


@dataclass(frozen=True, slots=True, kw_only=True)
class GaussianGroups:
    """Groups of two classes with their noise, as far as privacy is concerned.

    Attributes
    ----------
    sigmas, ridges : tuple of float
        Of every group.
    cap : float
        Largest slope of the loss.
    joint : bool
        Whether all groups' parts of a row share one unit of length; then they have one sigma.
    """

    sigmas: tuple[float, ...]
    ridges: tuple[float, ...]
    cap: float = 1.0
    joint: bool = False

    def __post_init__(self) -> None:
        if not len(self.sigmas) == len(self.ridges) >= 1:
            raise InvalidParameter("sigmas and ridges must have one entry per group.")
        for sigma, ridge in zip(self.sigmas, self.ridges, strict=True):
            check_positive(sigma, "sigma")
            check_positive(ridge, "ridge")
        if self.joint and len(set(self.sigmas)) > 1:
            raise InvalidParameter("groups that share a row's length must share one sigma.")

    @property
    def reach(self) -> float:
        """How far a replaced record moves the noise of all groups, over sigma."""
        one = 1 / self.sigmas[0] if self.joint else math.hypot(*(1 / s for s in self.sigmas))
        return 2 * self.cap * one

    def delta(self, epsilon: ArrayLike) -> Floats:
        """Return the bound on delta that noise is calibrated by: every corner at its worst."""
        at = np.asarray(epsilon, dtype=np.float64) - jacobian(self.ridges, joint=self.joint)
        count = corners(len(self.ridges))
        return np.asarray(np.minimum(1.0, count * gaussian_delta(at, self.reach)))

    def profile(self, epsilon: ArrayLike) -> Floats:
        """Return a bound on delta that is good at small epsilons too, where releases compose.

        A replaced record is one that goes and one that comes. For either, group by group, the
        Jacobian apart, no test does better than between two Gaussians: groups compose as those do,
        and no corner is counted beside another.
        """
        taken = jacobian(self.ridges, joint=self.joint)
        at = np.asarray(epsilon, dtype=np.float64) - 2 * taken
        composed = math.exp(taken) * gaussian_delta(at, self.reach)
        return np.asarray(np.minimum(composed, self.delta(epsilon)))
