"""What one fit may spend, and the ridge that suits it: public rules, each in one place.

Weights ``w`` of rows in the unit ball are known up to a deviation: the log odds that a prior gives
a row are off by a variance ``tau2``. Rows of mean square norm one have ``1/d`` of it in each of
``d`` coordinates, so every weight is off by the variance ``tau2``. Data show ``H w + e`` in each
coordinate, with the curvature ``H = n v / d`` and an error of variance ``s2 + H``, where ``s2`` is
the variance of the noise. The ridge with the least mean square error is ``(s2 + H)/(H tau2)``. Its
second part, ``1/tau2``, counts near a source, where little is left open. What a source leaves
unknown is the posterior variance of the same model, :func:`variance_near`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from confrere.arrays import Floats
from confrere.errors import InvalidData, InvalidParameter
from confrere.kernel.accountants import Exposure, Loss, check_delta, gaussian_rate, loss_of
from confrere.kernel.guarantee import Neighbours, at_most, check_epsilon, exact, minus
from confrere.kernel.norms import HiddenSize, Norm
from confrere.mechanisms.measurements import SOLVER_SHARE, Columns, Objective, RowCount
from confrere.solver.descent import Descent

#: Ridge on the mean loss, or the public rule.
Alpha = float | Literal["auto"]
#: The same, for all or for each.
Alphas = Alpha | ArrayLike

#: Who looks for minimisers: measurements certify what it finds.
SOLVER = Descent()

#: By how much the automatic ridge's floor is raised for more than two classes. Chosen on training
#: rows of two tables and on two others, by regressions, averages and stacks together: 10/epsilon
#: has .006 less accuracy than 20/epsilon, 15/epsilon .002 less, 30/epsilon as much.
MANY_CLASSES = 10.0

#: By its name: what two classes have.
LossName = Literal["logistic", "capped"]


@dataclass(frozen=True, kw_only=True)
class Allowance:
    """The price of a fit, its loss, and the records that it may know of."""

    epsilon: float  #: The whole price
    delta: float = 0.0  #: With one noise may be Gaussian
    loss: Loss  #: Of the model; it knows how many classes there are
    #: The public number of records, or what stands for it: then neighbours are add-remove
    count: RowCount
    cap: float = 0.5  #: Largest slope of levels that have two classes, however many there are

    @property
    def relation(self) -> Neighbours:
        """Which change is hidden: whether the number of records is public decides."""
        hidden = isinstance(self.count, HiddenSize)
        return Neighbours.ADD_REMOVE if hidden else Neighbours.REPLACE_ONE

    @property
    def records(self) -> int:
        """The number of records as far as it is public."""
        return self.count.declared if isinstance(self.count, HiddenSize) else self.count

    @property
    def changed(self) -> int:
        """How many records of two neighbouring tables differ."""
        return 1 if self.relation is Neighbours.ADD_REMOVE else 2

    @property
    def budget(self) -> float:
        """What is left for the noise when the solver has its share."""
        return self.epsilon * (1 - SOLVER_SHARE)

    @property
    def reach(self) -> float:
        """The norm of one record's gradient at most: of several classes, summed over them."""
        return self.loss.slope if self.loss.n_classes == 2 else 2.0

    @property
    def sigma(self) -> float:
        """The deviation of Gaussian noise, without what the Jacobian costs."""
        check_delta(self.delta, self.records)
        free = Exposure(loss=self.loss, ridges=(float("inf"),), neighbours=self.relation)
        return 1 / gaussian_rate(self.budget, self.delta, free)

    def at(self, **changed: Any) -> Self:
        """Return the same at another price, or on other records."""
        return replace(self, **changed)

    def objective(self, norm: Norm, ridge: float, centre: Floats | None = None) -> Objective:
        """Return the perturbed objective of rows in a norm, around a public point."""
        return Objective(
            epsilon=self.epsilon,
            delta=self.delta,
            n_samples=self.count,
            blocks=(Columns(norm, ridge, centre=centre),),
            loss=self.loss,
            solver=SOLVER,
        )


def allowance(
    epsilon: float,
    n_samples: RowCount,
    *,
    delta: float = 0.0,
    loss: LossName = "capped",
    n_classes: int = 2,
) -> Allowance:
    """Return the allowance of an estimator's common parameters."""
    cap = slope_of(loss)
    made = loss_of(n_classes, cap)
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
    n_samples, budget, spread = allowed.records, share * allowed.budget, spread or size
    if n_samples < 1:
        raise InvalidData("X needs at least one row.")
    if alpha != "auto":
        return max(n_samples * float(alpha), free_ridge(budget, floor))
    many = MANY_CLASSES if allowed.loss.n_classes > 2 and not allowed.delta else 1.0
    if allowed.delta:
        noise = noise or allowed.sigma**2
    if near is not None:
        noise = noise or noise_variance(budget, size, allowed.reach)
        seen = max(n_samples, 1.0) * mean_curvature(near.base_rate) * near.variance
        rule = spread * noise / seen + near.precise / near.variance
    elif noise is not None:
        rule = 0.5 * noise * size * spread / n_samples
    else:
        capped = 0.3 if allowed.loss.slope < 1 else 1.0
        rule = capped * size * spread**2 / (n_samples * budget**2)
    return max(rule, free_ridge(budget, many * floor))


def alike(sizes: Iterable[int]) -> float:
    """Return how many parties of one size these are worth, weighted by their records."""
    counts = [int(size) for size in sizes]
    return sum(counts) ** 2 / max(1, sum(count**2 for count in counts))


def slope_of(loss: LossName, n_classes: int = 2) -> float:
    """Return the largest slope of the loss; more than two classes have the softmax loss."""
    return 0.5 if loss == "capped" and n_classes == 2 else 1.0


def column_ridges(
    alpha: ArrayLike,  # One number per column as it is learned from
    n_features: int,  # How many columns there are
) -> tuple[float, Floats]:
    """Return the smallest ridge, and the factor by which every column is shortened for its own.

    ``w_j = s_j v_j`` with ``s_j = sqrt(min alpha/alpha_j)`` turns a ridge per column into one
    ridge, of columns that are multiplied by ``s_j``.
    """
    given = np.asarray(alpha, dtype=np.float64)
    if given.shape != (n_features,):
        raise InvalidParameter(f"alpha must have one number per column ({n_features}).")
    smallest = float(given.min())
    return smallest, np.sqrt(smallest / given)


#: Part of the curvature that is reckoned with. About half of the records lie where a capped loss is
#: straight, and columns tell in part the same. And curvature where no base rate is declared.
SEEN, CURVATURE = 0.25, 0.2

#: Prior variance of a row's log odds, and what signs of experts leave of it.
LOG_ODDS, NEAR_EXPERTS = 4.0, 1.0

#: Area of the best model without privacy, where nobody says what that is.
BEST = 0.8

#: A score that keeps a share of the log odds' variance is less apart by this power of its root: in
#: a schema's body, and in a ball, where columns that tell the same are not known to.
SHAPED, PLAIN = 0.2, 0.5

#: The deviation over draws beside what is lost, and what is too little to be paid for.
SPREAD_OF_DRAWS, GAIN = 0.6, 0.002


@dataclass(frozen=True)
class ExpectedArea:
    """What a fit is expected to rank with, from public facts and a guess of the best model's area.

    ``Phi(Phi^-1(best) kept^(g/2))``. One release is one draw: 8 of 10 lie between low and high,
    within a factor of three.
    """

    kept: float  #: Share of the log odds' variance that is expected to survive
    best: float = BEST  #: The best model's area without privacy: a guess
    exponent: float = SHAPED

    def __post_init__(self) -> None:
        if not 0.5 < self.best < 1:
            raise InvalidParameter("auc must lie strictly between 0.5 and 1.")

    @property
    def auc(self) -> float:
        """The expected area."""
        return float(special.ndtr(special.ndtri(self.best) * self.kept ** (self.exponent / 2)))

    @property
    def low(self) -> float:
        """Below it one of ten draws lies."""
        return max(0.0, self.auc - 1.28 * SPREAD_OF_DRAWS * (self.best - self.auc))

    @property
    def high(self) -> float:
        """Above it one of ten draws lies."""
        return min(self.best, self.auc + 1.28 * SPREAD_OF_DRAWS * (self.best - self.auc))

    def at(self, best: float) -> ExpectedArea:
        """Return the same where the best model has another area."""
        return replace(self, best=best)

    def near(self, variance: float) -> ExpectedArea:
        """Return the same around what leaves so much of the log odds' variance open."""
        return replace(self, kept=1 - min(1.0, variance / LOG_ODDS) * (1 - self.kept))

    def gain(self, known: float, drift: float = 0.0) -> float:
        """Return how much area these records add to a score that keeps the share ``known``.

        Of a source ``drift`` is :data:`DRIFT`: by that much organisations differ.
        """
        before = replace(self, kept=known)
        after = min(1.0, known + self.kept * (1 - known + drift))
        return replace(self, kept=after).auc - before.auc

    def __str__(self) -> str:
        return f"{self.auc:.3f}, 8 of 10 draws between {self.low:.3f} and {self.high:.3f}"


#: What signs of experts keep, all alone.
OF_EXPERTS = ExpectedArea(1 - NEAR_EXPERTS / LOG_ODDS)


def kept_in_ball(allowed: Allowance, size: int, base_rate: float = 0.5) -> float:
    """Return the share of the log odds' variance that survives in a ball of so many weights."""
    curved = SEEN * allowed.records * min(CURVATURE, base_rate * (1 - base_rate)) / size
    noise = noise_variance(allowed.budget, size, allowed.reach)
    if allowed.delta:
        noise = allowed.sigma**2
    return LOG_ODDS * curved / (LOG_ODDS * curved + 1 + noise / curved) if curved else 0.0


#: Variance of the log odds around what experts declare, if they are right, and if they are not.
DECLARED, UNKNOWN = 0.2, 1.0

#: By how much organisations differ, as a share of what was unknown before.
DRIFT = 0.02

#: What one linear model of a source misses besides, as the same share: it is not what the model
#: above says that every column's weight is known as well as the others'. Chosen on simulated
#: hospitals, on other states and on tables cut into branches; stacks, whose groups divide columns
#: by importance, lose with it.
MISSED = 0.5


def intercept_of(
    share: float,  # Log odds of the share of positive rows
    deviation: float,  # Standard deviation of the log odds around the intercept
) -> float:
    """Return the intercept of log odds that vary, from the log odds of the share of positive rows.

    Scores ``b + s z`` with ``z`` normal are positive in a share ``expit(b / sqrt(1 + pi s^2 / 8))``
    of the rows, nearly: the steeper the scores, the further out the intercept must be. A fit that
    starts with too many positives takes the excess out of the columns, where its ridge is strong.
    """
    return share * math.sqrt(1 + math.pi / 8 * deviation**2)


def mean_curvature(base_rate: float) -> float:
    """Return the mean curvature of the loss that a declared base rate implies."""
    return min(0.2, 0.88 * base_rate * (1 - base_rate))


def noise_variance(budget: float, size: int, cap: float) -> float:
    """Return the variance of one coordinate of the noise, where the Jacobian is nearly free."""
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
    """Return the smallest ridge at which the Jacobian costs nothing: ``factor/epsilon``.

    With ``factor = 2`` the tight calibration gives ``2 rho = epsilon`` exactly. A smaller factor
    trades a little noise for a weaker ridge (1 gives about ``rho = .473 epsilon``).
    """
    return factor / epsilon


def shares(epsilon: float, weights: Sequence[float]) -> tuple[float, ...]:
    """Divide a budget in proportion to non-negative weights; the shares never sum to more."""
    total_epsilon = check_epsilon(epsilon)
    if len(weights) == 0 or any(not math.isfinite(w) or w < 0 for w in weights):
        raise InvalidParameter("weights must be finite numbers >= 0, at least one of them.")
    total = math.fsum(weights)
    if total <= 0:
        raise InvalidParameter("weights must not all be zero.")
    parts = [total_epsilon * (w / total) for w in weights]
    # The largest takes what rounding leaves, as ledgers subtract.
    largest = max(range(len(parts)), key=parts.__getitem__)
    rest = reduce(
        minus, (exact(part) for k, part in enumerate(parts) if k != largest), exact(epsilon)
    )
    parts[largest] = at_most(rest)
    return tuple(parts)
