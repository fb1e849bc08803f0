"""What one fit may spend, and the ridge that suits it: public rules, each in one place.

Weights of rows in the unit ball are known up to a deviation: the log odds that a prior gives a row
are off by a variance ``tau2``. Data show ``H w + e`` in each of ``d`` coordinates, with the
curvature ``H = n v / d`` and an error of variance ``s2 + H``, where ``s2`` is the variance of the
noise. The ridge with the least mean square error is ``(s2 + H)/(H tau2)``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import optimize

from confrere.arrays import Floats
from confrere.errors import CalibrationError, InvalidData, InvalidParameter
from confrere.kernel.accountants import (
    Exposure,
    GaussianLoss,
    Labels,
    Logistic,
    Loss,
    check_delta,
    corners,
    gaussian_mu,
    gaussian_sigmas,
    jacobian,
    loss_of,
)
from confrere.kernel.guarantee import Neighbours, check_epsilon, exact
from confrere.kernel.measurements import (
    SOLVER_SHARE,
    Columns,
    Objective,
    Problem,
    RowCount,
    exposed,
)
from confrere.kernel.noise import HiddenSize, Norm, Rows
from confrere.solver.descent import Descent

#: Ridge on the mean loss, or the public rule.
Alpha = float | Literal["auto"]
#: The same, for all or for each.
Alphas = Alpha | ArrayLike

#: Who looks for minimisers: measurements certify what it finds.
SOLVER = Descent()

#: By how much the automatic ridge's floor is raised for more than two classes: on four tables half
#: of it has .006 less accuracy, half as much again no more.
MANY_CLASSES = 10.0

#: By its name: what two classes have.
LossName = Literal["logistic", "capped"]
LOSSES: dict[LossName, Logistic] = {"logistic": Logistic(), "capped": Logistic(0.5)}


def problem(
    X: Rows,
    y: Labels,
    loss: Loss,
    ridge: float,
    *,
    linear: Floats | None = None,
    centre: Floats | None = None,
) -> Problem:
    """Return what :data:`SOLVER` is asked of bounded rows; public terms are zero by default."""
    loss.check_labels(y)
    rows = SOLVER.rows(X)
    nothing = np.zeros((1, math.prod(loss.weight_shape(rows.d))))
    terms = (nothing if one is None else one.reshape(1, -1) for one in (linear, centre))
    return Problem(rows, rows.keep(y), loss, ridge, *terms)


@dataclass(frozen=True, kw_only=True)
class Allowance:
    """The price of a fit, its loss, and the records that it may know of."""

    epsilon: float  #: The whole price
    delta: float = 0.0  #: With one noise may be Gaussian
    loss: Loss  #: Of the model; it knows how many classes there are
    #: The public number of records, or what stands for it: then neighbours are add-remove
    count: RowCount
    cap: float = 0.5  #: Largest slope of levels that have two classes, however many there are
    variance: float = 4.0  #: Of a row's score beforehand; of log odds
    curvature: float | None = None  #: Of a record in the mean, where a base rate does not say it
    floor: float | None = None  #: Over epsilon the least ridge, where the loss alone says it

    @property
    def relation(self) -> Neighbours:
        hidden = isinstance(self.count, HiddenSize)
        return Neighbours.ADD_REMOVE if hidden else Neighbours.REPLACE_ONE

    @property
    def records(self) -> int:
        return self.count.declared if isinstance(self.count, HiddenSize) else self.count

    @property
    def changed(self) -> int:
        return 1 if self.relation is Neighbours.ADD_REMOVE else 2

    @property
    def budget(self) -> float:
        """What is left for the noise when the solver has its share."""
        return self.epsilon * (1 - SOLVER_SHARE)

    def sigmas(self, *weights: float, joint: bool = False) -> tuple[float, ...]:
        """Return the deviations of Gaussian noise on blocks, without what their Jacobians cost."""
        check_delta(self.delta, self.records)
        free = Exposure(
            loss=self.loss,
            ridges=(math.inf,) * len(weights),
            weights=weights,
            joint=joint,
            neighbours=self.relation,
        )
        return gaussian_sigmas(gaussian_rate(self.budget, self.delta, free), free)

    def noise(self, size: int) -> float:
        """Return the variance of one coordinate of noise in a ball of so many weights."""
        if self.delta:
            return self.sigmas(1.0)[0] ** 2
        return noise_variance(self.budget, size, self.loss.reach)

    def at(self, **changed: Any) -> Self:
        return replace(self, **changed)

    def objective(self, norm: Norm, ridge: float, centre: Floats | None = None) -> Objective:
        blocks = (Columns(norm, ridge, centre=centre),)
        price = {"epsilon": self.epsilon, "delta": self.delta}
        return objective(**price, n_samples=self.count, blocks=blocks, loss=self.loss)


def objective(*, epsilon: float, delta: float = 0.0, **shape: Any) -> Objective:
    budget, seen = check_epsilon(epsilon) * (1 - SOLVER_SHARE), exposed(**shape)
    rate = gaussian_rate(budget, delta, seen) if delta else pure_rate(budget, seen)
    return Objective(epsilon=epsilon, delta=delta, rate=rate, solver=SOLVER, **shape)


@lru_cache(maxsize=4096, typed=True)
def pure_rate(epsilon: float, exposure: Exposure) -> float:
    spent = exposure.spent
    # Every joint bound is convex in rho, and above its slope times it.
    steepest = exposure.reach * (exposure.records if exposure.joint else 1)
    high = check_epsilon(epsilon) / steepest
    if spent(0.0) >= epsilon:
        raise CalibrationError(
            f"no noise level reaches epsilon={epsilon:g}: at this ridge the Jacobian alone costs "
            f"{spent(0.0):.4g}. Raise alpha (or the ridge floor)."
        )
    if spent(high) <= epsilon:  # often exact: a free Jacobian
        return high
    low, high = (high / 2, high) if spent(high / 2) <= epsilon else (0.0, high / 2)
    near = float(optimize.brentq(spent, low, high, args=(epsilon,), xtol=1e-300))
    for at in (near * (1 - 1e-14), near * (1 + 1e-14)):
        low, high = (max(low, at), high) if spent(at) <= epsilon else (low, min(high, at))
    while (middle := (low + high) / 2) not in (low, high):
        low, high = (middle, high) if spent(middle) <= epsilon else (low, middle)
    return low


@lru_cache(maxsize=4096, typed=True)
def gaussian_rate(epsilon: float, delta: float, exposure: Exposure) -> float:
    check_epsilon(epsilon)
    if not 0 < delta < 1:
        raise InvalidParameter("delta must lie strictly between 0 and 1.")
    unreached = CalibrationError(
        f"no Gaussian noise reaches epsilon={epsilon:g}, delta={delta:g} at this ridge: the "
        "Jacobian alone costs too much. Raise alpha (or the ridge floor)."
    )
    if len(exposure.ridges) > 1:
        taken = jacobian(exposure)
        if epsilon <= taken:
            raise unreached
        mu = gaussian_mu(epsilon - taken, delta / corners(exposure))
        # A row that is one long in all blocks moves their noise by the root of all weights.
        both = 1.0 if exposure.joint else math.sqrt(math.fsum(exposure.weights))
        return mu / (exposure.records * exposure.loss.slope * both)

    def enough(sigma: float) -> bool:
        return float(GaussianLoss(exposure, (sigma,)).delta(epsilon)) <= delta

    # Where no sigma suffices the Jacobian alone exceeds epsilon, by far or by a hair.
    high = next((2.0**k / epsilon for k in range(200) if enough(2.0**k / epsilon)), None)
    if high is None:
        raise unreached
    low = high / 2
    while enough(low):
        low, high = low / 2, low
    while high / low > 1 + 1e-10:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if enough(middle) else (middle, high)
    return math.nextafter(1 / high, 0.0)  # one over it is no less


def allowance(
    epsilon: float,
    n_samples: RowCount,
    *,
    delta: float = 0.0,
    loss: LossName = "capped",
    n_classes: int = 2,
) -> Allowance:
    made: Loss = LOSSES[loss] if n_classes == 2 else loss_of(n_classes)
    cap = LOSSES[loss].slope
    return Allowance(epsilon=epsilon, delta=delta, loss=made, count=n_samples, cap=cap)


@dataclass(frozen=True, kw_only=True)
class Near:
    """What is known of a prior that a fit shrinks towards."""

    variance: float  #: Of the log odds around it
    base_rate: float = 0.5  #: Declared share of positive rows, which says how curved the loss is
    precise: bool = False  #: Whether it is so near that the error of a few records counts as well


def ridge_for(
    # Of the fit; the records are those behind what is used, of all parties if they are averaged
    allowed: Allowance,
    size: int,  # Number of weights ``d``
    alpha: Alpha = "auto",  # Ridge on the mean loss, in place of the rule
    *,
    near: Near | None = None,  # What is shrunk towards, where something is known of it
    floor: float = 2.0,  # Raised for more than two classes, where noise is pure
    share: float = 1.0,  # Part of the budget, of one group among several
    # Columns over which a row's length is spread, where that is more than these
    spread: int | None = None,
    # Variance of one coordinate of Gaussian noise, unless it is that of one objective
    noise: float | None = None,
) -> float:
    """Return ``L`` of the summed objective of rows in the unit ball: the one public rule.

    The variance of the noise over prior variance times curvature, and at least ``floor`` over what
    pays for the noise: at 2 the Jacobian costs nothing, or next to nothing with a delta.
    """
    if allowed.loss.tied:
        size = math.prod(allowed.loss.weight_shape(size))
    n_samples, budget, spread = allowed.records, share * allowed.budget, spread or size
    if n_samples < 1:
        raise InvalidData("X needs at least one row.")
    if alpha != "auto":
        return max(n_samples * float(alpha), free_ridge(budget, allowed.floor or floor))
    many = MANY_CLASSES if allowed.loss.n_classes > 2 and not allowed.delta else 1.0
    if allowed.delta:
        noise = noise or allowed.noise(size)
    if near is not None or allowed.curvature is not None:
        near = near or Near(variance=allowed.variance)
        noise = noise or noise_variance(budget, size, allowed.loss.reach)
        bend = allowed.curvature or mean_curvature(near.base_rate)
        seen = max(n_samples, 1.0) * bend * near.variance
        rule = spread * noise / seen + near.precise / near.variance
    elif noise is not None:
        rule = 0.5 * noise * size * spread / n_samples
    else:
        capped = 0.3 if allowed.loss.slope < 1 else 1.0
        rule = capped * size * spread**2 / (n_samples * budget**2)
    return max(rule, free_ridge(budget, allowed.floor or many * floor))


def alike(sizes: Iterable[int]) -> float:
    """Return how many parties of one size these are worth, weighted by their records."""
    counts = [int(size) for size in sizes]
    return sum(counts) ** 2 / max(1, sum(count**2 for count in counts))


def column_ridges(alpha: ArrayLike, n_features: int) -> tuple[float, Floats]:
    """Return the smallest ridge, and what every column is shortened by: ``sqrt(min a/a_j)``."""
    given = np.asarray(alpha, dtype=np.float64)
    if given.shape != (n_features,):
        raise InvalidParameter(f"alpha must have one number per column ({n_features}).")
    smallest = float(given.min())
    return smallest, np.sqrt(smallest / given)


#: Part of the curvature that is reckoned with. About half of the records lie where a capped loss is
#: straight, and columns tell in part the same. And curvature where no base rate is declared.
SEEN, CURVATURE = 0.25, 0.2

#: Prior variance of a row's log odds.
LOG_ODDS = Allowance.variance


#: Variance of the log odds around what experts declare, if they are right, and if they are not.
DECLARED, UNKNOWN = 0.2, 1.0

#: By how much organisations differ, as a share of what was unknown before.
DRIFT = 0.02

#: The same where it is asked whether own records could say more than a source: who differs more
#: than expected has most to say.
APART = 0.1

#: What one linear model of a source misses besides, as the same share: measured, since columns are
#: not known equally well (docs/proofs/prior_check.md). Stacks, which divide columns, lose with it.
MISSED = 0.5


def intercept_of(share: float, deviation: float) -> float:
    """Return the intercept of log odds that vary, from the log odds of the share of positive rows.

    Scores ``b + s z`` with ``z`` normal are positive in about ``expit(b / sqrt(1 + pi s^2 / 8))``.
    """
    return share * math.sqrt(1 + math.pi / 8 * deviation**2)


def mean_curvature(base_rate: float) -> float:
    return min(0.2, 0.88 * base_rate * (1 - base_rate))


def noise_variance(budget: float, size: int, cap: float) -> float:
    return (size + 1) * (2 * cap / budget) ** 2


def precision_of(n_samples: float, size: int, *, noise: float, curvature: float) -> float:
    """Return what a released model says about each weight: one over its variance."""
    stiffness = n_samples * curvature / size
    return stiffness**2 / (noise + stiffness)


def variance_near(
    precisions: Iterable[float], variance: float = DECLARED, *, missed: float = 0.0
) -> float:
    """Return the variance of the log odds around released models of other organisations."""
    return 1 / (1 / variance + sum(precisions)) + (DRIFT + missed) * variance


def free_ridge(epsilon: float, factor: float = 2.0) -> float:
    """Return the smallest ridge at which the Jacobian costs nothing: ``2 rho = epsilon`` at 2."""
    return factor / epsilon


def equal_part(whole: float, count: int) -> float:
    """Return the most that so many may each spend, as ledgers add: by the decimals of floats."""
    part = whole / count
    while part and exact(part) * count > exact(whole):
        part = math.nextafter(part, 0.0)
    return part
