"""Several organisations, one model, through sums that nobody sees into.

Proof: docs/proofs/secure_sums.md.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from confrere.arrays import ClassRows, Floats, coordinate_rounding, coordinates
from confrere.data.fact_counts import STEPS, FactCounts
from confrere.errors import InvalidParameter, OperationRefused
from confrere.kernel.accountants import Labels, loss_of
from confrere.kernel.guarantee import Neighbours, Unit
from confrere.kernel.measurements import (
    UNSOLVED,
    Picked,
    SecureSum,
    largest_count,
    smallest_tolerance,
    some_rows,
)
from confrere.methods.allowance import SOLVER, problem
from confrere.methods.asking import (
    Ask,
    AskedSum,
    Colluding,
    PartyRows,
    Protocol,
    Rows,
    Sizes,
    Told,
    check_tries,
    colluders_of,
    fewest_of,
    known_sizes,
)
from confrere.methods.average import Collaboration, Combined, roundings, row_products
from confrere.methods.plan import Term
from confrere.solver.descent import residual

#: Ridge of one message: this times weights over epsilon, for all records together.
_ONE_MESSAGE = 0.9

#: Smallest gradient that a party solves to.
_TOLERANCE = 1e-6

#: Prior variances of a weight, behind the ridge of rounds: over columns of the same mean square,
#: and of each column with its own.
_PRIOR_VARIANCE, _OWN_VARIANCE = 0.2, 1.0

#: The ridge of rounds is at least this over the whole noise's mu.
_LEAST_RIDGE = 0.3

#: Descent with momentum on curvature that is known in public.
_STEP, _MOMENTUM = 0.3, 0.8

#: No score is higher, so that differences of scores stay finite.
_HIGHEST = 1e300

#: Columns that hardly vary are told apart down to this mean square.
_SMALLEST = 1e-9


def as_weights(released: Floats, n_classes: int) -> Floats:
    """Return what a sum told as weights: a matrix, of more than two classes."""
    return np.asarray(ClassRows(n_classes)(released[None])[0])


@dataclass(frozen=True, kw_only=True, eq=False)
class Sums(Collaboration):
    """What parties add up without anybody seeing into it; a ridge is of all parties' records."""

    #: How many parties may pool what they know; by default a minority of those of a sum.
    collusion_threshold: Colluding = "auto"
    max_retries: int = 0  #: How often a lost sum may be tried again, paid for at once
    #: Share of the parties that a sum needs; the noise is made by those who would be there.
    quorum: float = 1.0
    #: Public guess of the mean curvature of the loss: with a base rate ``r``, ``r (1 - r)``.
    curvature: float = 0.2
    #: Public mean squares of the columns as encoded; equal ones unless given.
    second_moments: ArrayLike | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_tries(self.max_retries, self.quorum)

    @property
    def told(self) -> Floats | None:
        """The point that a request has to name: none is zero."""
        return super().centre

    @property
    def centre(self) -> Floats:
        return np.zeros(self.shape) if self.told is None else self.told

    @property
    def slope(self) -> float:
        return self.cap if self.n_classes == 2 else math.sqrt(2)

    @cached_property
    def squares(self) -> Floats:
        """Public mean squares of the frame's coordinates, the constant's included."""
        return self.space.mean_squares(self.second_moments)

    @abstractmethod
    def mechanism(self, sizes: Sizes) -> SecureSum:
        """Return the sum: its law, its lattice, its price."""

    def _sum(self, sizes: Sizes, move: float, **facts: Any) -> SecureSum:
        """Return a sum that one record's coming or going moves so far, and a replaced one twice."""
        changed = self.allowed(sizes).changed
        return SecureSum(
            epsilon=self.epsilon,
            delta=self.delta,
            size=self.space.size * (self.n_classes - 1),
            sensitivity=changed * move,
            n_parties=len(sizes.counts),
            fewest=fewest_of(len(sizes.counts), self.quorum),
            colluding=colluders_of(self.collusion_threshold, len(sizes.counts), self.quorum),
            releases=self.rounds + self.max_retries,
            neighbours=sizes.neighbours,
            **facts,
        )

    def _most(self, sizes: Sizes) -> int:
        return largest_count(sizes.count(max(sizes.counts.values())))

    def among(self, sizes: Sizes | Sequence[str]) -> Self:
        """Return the same with a number for those who may collude, whoever tells its size."""
        count = len(sizes.counts if isinstance(sizes, Sizes) else sizes)
        known = colluders_of(self.collusion_threshold, count, self.quorum)
        return replace(self, collusion_threshold=known)


@dataclass(frozen=True, kw_only=True, eq=False)
class OneMessage(Sums):
    """Every party adds its exact local minimiser, weighted by its records, to one secure sum.

    With a ridge of ``lam n_i/n`` one record moves ``n_i w_i/n`` by at most ``2 cap/lam``: the noise
    does not grow with the number of parties.
    """

    def ridge(self, sizes: Sizes) -> float:
        if self.alpha != "auto":
            return sizes.total * float(self.alpha)
        return _ONE_MESSAGE * self.space.size / self.epsilon

    def tolerance(self, sizes: Sizes) -> float:
        """Return a bound on the gradient that every party can certify, from public sizes."""
        ridge, told = self.ridge(sizes), sizes.counts.values()
        smallest = max(
            smallest_tolerance(
                largest_count(sizes.count(n)),
                self.space.size,
                ridge=ridge * n / sizes.total,
                linear_norm=0.0,
                centre_norm=float(np.linalg.norm(self.centre)),
                n_classes=self.n_classes,
            )
            for n in {max(told), min(told)}
        )
        return max(_TOLERANCE, 2 * smallest)

    def mechanism(self, sizes: Sizes) -> SecureSum:
        ridge = self.ridge(sizes)
        longest = self.slope * self._most(sizes) / ridge
        error = self.tolerance(sizes) / ridge + coordinate_rounding(longest, self.n_classes)
        return self._sum(sizes, self.slope / ridge, largest=longest + error, error=error)

    def message(self, X: Any, y: Labels, sizes: Sizes, n_samples: int | None = None) -> Floats:
        share = (n_samples or len(y)) / sizes.total
        loss, ridge = loss_of(self.n_classes, self.cap), self.ridge(sizes) * share
        try:
            asked = problem(X, y, loss, ridge, centre=self.centre)
            solved = SOLVER.solve(asked, self.tolerance(sizes)).reshape(self.centre.shape)
        except UNSOLVED:
            # A party that stays away because of its data would tell: it sends the centre.
            solved = self.centre
        return coordinates(share * (solved - self.centre))

    def steps(self, sizes: Sizes | Sequence[str]) -> Protocol[Combined]:
        plan = self.among(sizes)
        sizes = yield from known_sizes(sizes, self.delta)
        plan = plan.at(sizes)
        told = yield Ask(plan.asked(sizes), sizes.counts)
        there, whole = _whole(told, sizes)
        return Combined(plan.space, plan.weights_of(whole, sizes), there)

    def weights_of(self, released: Floats, sizes: Sizes) -> Floats:
        """Undo the ridge where noise allows: docs/proofs/secure_sums.md, at last."""
        if self.alpha != "auto":
            return self.centre + as_weights(released, self.n_classes)
        curved = sizes.total * self.curvature * self.squares
        kept = np.maximum(curved, _SMALLEST) / (curved + self.ridge(sizes))
        noise = self.mechanism(sizes).deviation ** 2
        factor = kept / (kept**2 + noise / _OWN_VARIANCE)
        return self.centre + factor * as_weights(released, self.n_classes)

    def asked(self, sizes: Sizes) -> Minimiser:
        return Minimiser(self, sizes)


@dataclass(frozen=True, kw_only=True, eq=False)
class GradientRounds(Sums):
    """Rounds of secure sums of gradients with Gaussian noise: one curator's descent without one."""

    rounds: int = 20

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.delta < 1:
            raise InvalidParameter("delta must lie between 0 and 1.")

    def mechanism(self, sizes: Sizes) -> SecureSum:
        largest = self._most(sizes)
        # A sum of n terms of size at most one, in floats, is off by that many roundings of n.
        error = 4.0 * largest * roundings(largest) * float(np.finfo(np.float64).eps)
        error += coordinate_rounding(self.slope * largest, self.n_classes)
        return self._sum(sizes, self.slope, largest=self.slope * largest + error, error=error)

    def message(self, X: Floats, y: Labels, weights: Floats) -> Floats:
        with np.errstate(over="ignore", invalid="ignore"):
            found = np.nan_to_num(X @ weights.T, nan=0.0, posinf=_HIGHEST, neginf=-_HIGHEST)
        if self.n_classes == 2:
            return -row_products(X, y * residual(y * found, self.cap))
        errors = special.softmax(found, axis=1)
        errors[np.arange(len(y)), np.asarray(y, dtype=np.intp)] -= 1
        return coordinates(row_products(errors, X))

    def ridge(self, sizes: Sizes) -> Floats:
        """Return the best ridge of every weight, of all records together: ``1/(mu^2 h v)``."""
        size = self.space.size
        if self.alpha != "auto":
            return np.full(size, sizes.total * float(self.alpha))
        mechanism = self.mechanism(sizes)
        mu = math.sqrt(mechanism.releases) * mechanism.rate
        known = mu**2 * sizes.total * self.curvature
        own = 1 / (known * np.maximum(self.squares, _SMALLEST) * _OWN_VARIANCE)
        return np.maximum(max(_LEAST_RIDGE / mu, size / (known * _PRIOR_VARIANCE)), own)

    def steps(self, sizes: Sizes | Sequence[str]) -> Protocol[Combined]:
        plan = self.among(sizes)
        sizes = yield from known_sizes(sizes, self.delta)
        plan = plan.at(sizes)
        # Descent with momentum on noised gradients; post-processing of what was released.
        ridge = plan.ridge(sizes)
        metric = sizes.total * plan.curvature * plan.squares + ridge
        weights, total = plan.centre.copy(), np.zeros(plan.shape)
        velocity = np.zeros(plan.shape)
        for step in range(plan.rounds):
            asked = Gradient(plan, sizes, weights, step)
            told = yield Ask(asked, sizes.counts, step, later=plan.rounds - step - 1)
            there, whole = _whole(told, sizes)
            pulled = as_weights(whole, plan.n_classes) + ridge * (weights - plan.centre)
            velocity = _MOMENTUM * velocity + pulled / metric
            weights = weights - _STEP * velocity
            total += (step + 1) * weights  # later ones count more
        average = np.asarray(total / (plan.rounds * (plan.rounds + 1) / 2))
        return Combined(plan.space, average, there)

    def asked(self, sizes: Sizes) -> Gradient:
        return Gradient(self, sizes, self.centre)  # at public weights every round is like the first

    def terms_at(self, parties: PartyRows, sizes: Sizes, weights: Floats) -> list[Term]:
        """Return one round's sum, at weights that everybody knows."""
        return Gradient(self.at(sizes), sizes, weights).terms(parties, sizes)


@dataclass(frozen=True, eq=False)
class _Addend(AskedSum):
    plan: Sums  #: In coordinates that are made for the sizes
    sizes: Sizes

    @cached_property
    def mechanism(self) -> SecureSum:
        return self.plan.mechanism(self.sizes)

    def used(self, X: Rows, y: Labels, picked: Picked | None) -> tuple[Any, Labels]:
        """Return a party's bounded rows that it uses: all of them, where their number is public."""
        rows, count = self.plan.space.rows(X), self.sizes.count(len(y))
        return (rows, y) if picked is None else some_rows(rows, y, picked(count, len(y)))


@dataclass(frozen=True, eq=False)
class Minimiser(_Addend):
    operation: ClassVar[str] = "minimiser"

    plan: OneMessage

    def vector(self, X: Rows, y: Labels, picked: Picked | None = None) -> Floats:
        counted = self.sizes.part if self.sizes.hidden else len(y)
        return self.plan.message(*self.used(X, y, picked), self.sizes, counted)


@dataclass(frozen=True, eq=False)
class Gradient(_Addend):
    operation: ClassVar[str] = "gradient"

    plan: GradientRounds
    weights: Floats
    round: int = 0

    def vector(self, X: Rows, y: Labels, picked: Picked | None = None) -> Floats:
        return self.plan.message(*self.used(X, y, picked), self.weights)


def _whole(told: Told, sizes: Sizes) -> tuple[dict[str, int], Floats]:
    """Return who is in a sum, and the sum as if everyone were."""
    there = {name: sizes.counts[name] for name in told.names}
    return there, np.asarray(told.arrays["sum"] * (sizes.total / sum(there.values())))


class Hides(StrEnum):
    """What facts are learned without telling: a record, that it is there, or all of a party's."""

    RECORD = "record"
    PRESENCE = "presence"
    PARTY = "party"

    @classmethod
    def of(cls, unit: Unit, neighbours: Neighbours) -> Hides:
        """Return what a promise of this unit and relation asks for."""
        known = {(one.unit, one.neighbours): one for one in cls}
        if (unit, neighbours) not in known:
            raise InvalidParameter(
                "unit and neighbours: facts are learned per record, replaced or added and removed, "
                "or per party, replaced; declare them."
            )
        return known[unit, neighbours]

    @property
    def unit(self) -> Unit:
        return Unit.PARTY if self is Hides.PARTY else Unit.RECORD

    @property
    def neighbours(self) -> Neighbours:
        return Neighbours.ADD_REMOVE if self is Hides.PRESENCE else Neighbours.REPLACE_ONE

    def moved(self, counts: FactCounts) -> int:
        if self is Hides.PARTY:
            return counts.party_sensitivity
        return counts.sensitivity if self is Hides.RECORD else counts.longest + STEPS


@dataclass(frozen=True)
class CountedSum:
    """Counts of all parties, added up with noise, in as many tries as are paid for."""

    epsilon: float
    n_parties: int
    collusion_threshold: int  #: How many of them may pool what they know
    max_retries: int  #: How many lost sums are paid for
    quorum: float  #: Of the parties, that a sum needs
    largest: int  #: No party counts more

    def records(self, neighbours: Neighbours) -> SecureSum:
        """Return the sum of counts that one record moves by one."""
        check_tries(self.max_retries, self.quorum)
        return SecureSum(
            epsilon=self.epsilon,
            law="integer",
            size=1,
            sensitivity=1.0,
            n_parties=self.n_parties,
            # Those who are left of a run may be few: never so few that they could all pool.
            fewest=max(fewest_of(self.n_parties, self.quorum), self.collusion_threshold + 1),
            colluding=self.collusion_threshold,
            releases=1 + self.max_retries,
            largest=float(self.largest),
            neighbours=neighbours,
        )

    def steps(self, neighbours: Neighbours, size: int, moved: int) -> SecureSum:
        """Return sums of whole steps, which one record moves so far together, in L1."""
        largest = float(self.largest * STEPS)
        counts = self.records(neighbours)
        return replace(counts, size=size, sensitivity=float(moved), largest=largest)

    def facts(self, counts: FactCounts, hides: Hides) -> SecureSum:
        size, moved = counts.size + (hides is Hides.PRESENCE), hides.moved(counts)
        return replace(self.steps(hides.neighbours, size, moved), unit=hides.unit)


def check_try(mechanism: SecureSum, step: int) -> None:
    """Refuse a try that the price does not cover."""
    if step >= mechanism.releases:
        raise OperationRefused(
            f"the price is for {mechanism.releases} sums in this run; ask in a new run.", "step"
        )
