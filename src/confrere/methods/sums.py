"""Several organisations, one model, through sums that nobody sees into.

Proof: docs/proofs/secure_sums.md.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import linalg, special

from confrere.arrays import ClassRows, Floats, coordinate_rounding, coordinates
from confrere.data.encoding import SchemaEncoder, frequencies
from confrere.data.frame import BodyFrame, WholeRows
from confrere.errors import InvalidParameter, OperationRefused
from confrere.kernel.accountants import Labels
from confrere.kernel.guarantee import Neighbours
from confrere.kernel.measurements import (
    Picked,
    SecureSum,
    certified,
    largest_count,
    smallest_tolerance,
    some_rows,
)
from confrere.kernel.noise import Body
from confrere.methods.allowance import SOLVER, intercept_of, problem
from confrere.methods.asking import (
    Ask,
    AskedSum,
    Protocol,
    Rows,
    Sizes,
    Told,
    Tries,
    fewest_of,
    known_sizes,
)
from confrere.methods.average import Collaboration, Combined
from confrere.methods.geometry import (
    ExpectedArea,
    SchemaGeometry,
    exponent_of,
    factors_of,
    kept_in_ball,
    prior_scale,
    varied,
)
from confrere.methods.priors import CHECK_ERROR, STEIN, UNCHECKED, Prior, believed, check_share
from confrere.model import PriorFacts
from confrere.solver.row_blocks import roundings, row_products

#: Ridge of one message: this times weights over epsilon, for all records together; and of numbers
#: so much of their curvature, at least.
_ONE_MESSAGE, _UNDONE = 0.9, 0.25

#: How many rounds there are where less than so much of the signal survives, and where more does.
_ROUNDS, _CLEAR = (5, 20), 0.85

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


@dataclass(frozen=True, kw_only=True, eq=False)
class Sums(Tries, Collaboration):
    """What parties add up without anybody seeing into it; a ridge is of all parties' records."""

    #: Public guess of the mean curvature of the loss: with a base rate ``r``, ``r (1 - r)``.
    curvature: float = 0.2
    #: Public mean squares of the columns as encoded; equal ones unless given.
    second_moments: ArrayLike | None = None

    def __post_init__(self) -> None:
        Tries.__post_init__(self)
        Collaboration.__post_init__(self)

    operation: ClassVar[str]  #: How parties are asked for what they add

    @property
    def centre(self) -> Floats:
        told = super().centre
        return np.zeros(self.shape) if told is None else told

    def asked(self, sizes: Sizes) -> Addend:
        return Addend(self, sizes, super().centre)  # none is zero

    def bounded(self, X: Rows) -> Any:
        """Return rows as they are added up."""
        return self.space.rows(X)

    @abstractmethod
    def message(self, X: Any, y: Labels, sizes: Sizes, weights: Floats | None = None) -> Floats:
        """Return what a party of these bounded rows adds, at a point that everybody knows."""

    @property
    def slope(self) -> float:
        """The length of one record's gradient at most."""
        return min(self.loss.slope, self.loss.reach)

    @property
    def spread(self) -> float:
        """The variance of scores beforehand; of log odds what rules here were chosen with."""
        return 1.0 if self.n_classes else self.target.variance

    @cached_property
    def squares(self) -> Floats:
        """Public mean squares of the frame's coordinates, the constant's included."""
        return self.target.wide(self.space.mean_squares(self.second_moments), self.loss.n_scores)

    @abstractmethod
    def mechanism(self, sizes: Sizes) -> SecureSum:
        """Return the sum: its law, its lattice, its price."""

    def _sum(self, sizes: Sizes, move: float, **facts: Any) -> SecureSum:
        """Return a sum that one record's coming or going moves so far, and a replaced one twice."""
        size = len(coordinates(np.zeros(self.shape)))
        facts = {"epsilon": self.epsilon, "delta": self.delta, "size": size} | facts
        facts["sensitivity"] = self.allowed(sizes).changed * move
        return self.tried(len(sizes.counts), self.rounds, neighbours=sizes.neighbours, **facts)

    def _weights(self, released: Floats) -> Floats:
        return np.asarray(ClassRows(self.n_classes)(released[None])[0])

    def _most(self, sizes: Sizes) -> int:
        return largest_count(sizes.count(max(sizes.counts.values())))

    def among(self, sizes: Sizes | Sequence[str]) -> Self:
        """Return the same with a number for those who may collude, whoever tells its size."""
        count = len(sizes.counts if isinstance(sizes, Sizes) else sizes)
        return replace(self, collusion_threshold=self.pooling(count))


class OneSum(Sums):
    """Parties are asked once, for one sum."""

    def steps(self, sizes: Sizes | Sequence[str]) -> Protocol[Combined]:
        plan = self.among(sizes)
        sizes = yield from known_sizes(sizes, self.delta)
        plan = plan.at(sizes)
        told = yield Ask(plan.asked(sizes), sizes.counts)
        there, whole = _whole(told, sizes)
        weights, known = plan.learned(whole, sizes)
        return Combined(plan.space, weights, there, known)

    @abstractmethod
    def learned(self, released: Floats, sizes: Sizes) -> tuple[Floats, PriorFacts | None]:
        """Return weights, and what is known of a prior, of the one sum: post-processing."""


@dataclass(frozen=True, kw_only=True, eq=False)
class OneMessage(OneSum):
    """Every party adds its exact local minimiser, weighted by its records, to one secure sum.

    With a ridge of ``lam n_i/n`` one record moves ``n_i w_i/n`` by at most ``2 cap/lam``: the noise
    does not grow with the number of parties.
    """

    operation: ClassVar[str] = "minimiser"

    def ridge(self, sizes: Sizes) -> float:
        if self.alpha != "auto":
            return sizes.total * float(self.alpha)
        rule = _ONE_MESSAGE * self.shape[-1] / self.epsilon
        if self.n_classes:
            return rule
        # In numbers' own units, and no lower than shrinks them by less than can be undone.
        curved = sizes.total * self.curvature * float(np.mean(self.squares))
        return max(rule * 2 * self.slope / math.sqrt(self.spread), _UNDONE * curved)

    def tolerance(self, sizes: Sizes) -> float:
        """Return a bound on the gradient that every party can certify, from public sizes."""
        ridge, told = self.ridge(sizes), sizes.counts.values()
        far, size = float(np.linalg.norm(self.centre)), self.space.size
        least = partial(smallest_tolerance, centre_norm=far, d=size, loss=self.loss)
        each = {n: largest_count(sizes.count(n)) for n in (max(told), min(told))}
        smallest = (least(most, ridge=ridge * n / sizes.total) for n, most in each.items())
        return max(_TOLERANCE, 2 * max(smallest))

    def mechanism(self, sizes: Sizes) -> SecureSum:
        ridge = self.ridge(sizes)
        longest = self.slope * self._most(sizes) / ridge
        error = self.tolerance(sizes) / ridge + coordinate_rounding(longest, self.n_classes)
        return self._sum(sizes, self.slope / ridge, largest=longest + error, error=error)

    def message(self, X: Any, y: Labels, sizes: Sizes, weights: Floats | None = None) -> Floats:
        share = (sizes.part if sizes.hidden else len(y)) / sizes.total
        asked = problem(X, y, self.loss, self.ridge(sizes) * share, centre=self.centre)
        # A party that stays away because of its data would tell: unsolved, it sends the centre.
        solved = certified(SOLVER, asked, self.tolerance(sizes)).reshape(self.centre.shape)
        return coordinates(share * (solved - self.centre))

    def learned(self, released: Floats, sizes: Sizes) -> tuple[Floats, None]:
        """Undo the ridge where noise allows: docs/proofs/secure_sums.md, at last."""
        if self.alpha != "auto":
            return self.centre + self._weights(released), None
        curved = sizes.total * self.curvature * self.squares
        kept = np.maximum(curved, _SMALLEST) / (curved + self.ridge(sizes))
        noise = self.mechanism(sizes).deviation ** 2
        factor = kept / (kept**2 + noise / (_OWN_VARIANCE * self.spread))
        return self.centre + factor * self._weights(released), None


@dataclass(frozen=True, kw_only=True, eq=False)
class GradientRounds(Sums):
    """Rounds of secure sums of gradients with Gaussian noise: one curator's descent without one."""

    operation: ClassVar[str] = "gradient"

    rounds: int = 20

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.delta < 1:
            raise InvalidParameter("delta must lie between 0 and 1.")

    def at(self, sizes: Sizes) -> Self:
        """Return the same in its coordinates, with few rounds where noise hides much: a rule."""
        made = super().at(sizes)
        if made.rounds:
            return made
        kept = kept_in_ball(made.allowed(sizes), made.space.size, made.curvature)
        return replace(made, rounds=_ROUNDS[kept >= _CLEAR])

    def mechanism(self, sizes: Sizes) -> SecureSum:
        largest = self._most(sizes)
        # A sum of n terms of size at most one, in floats, is off by that many roundings of n; of
        # terms that are sums themselves and a hair longer, by more.
        apart, longest = (1, 1.0) if self.n_classes else (self.loss.n_scores, 2 * self.slope)
        error = 4.0 * max(1.0, longest) * largest * float(np.finfo(np.float64).eps)
        error *= roundings(apart * largest)
        error += coordinate_rounding(self.slope * largest, self.n_classes)
        return self._sum(sizes, self.slope, largest=self.slope * largest + error, error=error)

    def message(self, X: Any, y: Labels, sizes: Sizes, weights: Floats | None = None) -> Floats:
        assert weights is not None
        with np.errstate(over="ignore", invalid="ignore"):
            found = X @ self.loss.spread(weights.reshape(1, -1)).T
            found = np.nan_to_num(found, nan=0.0, posinf=_HIGHEST, neginf=-_HIGHEST)
            pulls = row_products(self.loss.residuals(found.T[None], y)[0].T, X)
        return coordinates(self.loss.gathered(pulls)[0].reshape(self.shape))

    def ridge(self, sizes: Sizes) -> Floats:
        """Return the best ridge of every weight, of all records together: ``1/(mu^2 h v)``."""
        size = self.shape[-1]
        if self.alpha != "auto":
            return np.full(size, sizes.total * float(self.alpha))
        mechanism = self.mechanism(sizes)
        mu = math.sqrt(mechanism.releases) * mechanism.rate
        known = mu**2 * sizes.total * self.curvature * self.spread
        own = 1 / (known * np.maximum(self.squares, _SMALLEST) * _OWN_VARIANCE)
        least = _LEAST_RIDGE / (mu * math.sqrt(self.spread))
        return np.maximum(max(least, size / (known * _PRIOR_VARIANCE)), own)

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
            asked = Addend(plan, sizes, weights, step)
            told = yield Ask(asked, sizes.counts, step, later=plan.rounds - step - 1)
            there, whole = _whole(told, sizes)
            pulled = plan._weights(whole) + ridge * (weights - plan.centre)
            velocity = _MOMENTUM * velocity + pulled / metric
            weights = weights - _STEP * velocity
            total += (step + 1) * weights  # later ones count more
        average = np.asarray(total / (plan.rounds * (plan.rounds + 1) / 2))
        return Combined(plan.space, average, there)

    def asked(self, sizes: Sizes) -> Addend:
        return Addend(self, sizes, self.centre)  # at public weights every round is like the first


#: Steps of a row's length in whole numbers, and of all rows of a sum together.
_LEVELS, _ALL_LEVELS = 1 << 14, 1 << 39

#: How far a declared base rate is off, as a share of the rarer label's.
_RATE_OFF = 0.1

#: Noise of rows by label beside one organisation's in a body, where forms are compared; and what is
#: left of the signal by taking columns for independent.
SUMMED, _INDEPENDENT = 0.5, 0.8

#: By so much more than an average's counts the power of what sums keep: no column says what noise
#: hides in another.
_ALONE = 0.4


def corner_frame(geometry: SchemaGeometry) -> BodyFrame:
    """Return coordinates in which magnitudes of a row add up to one, by how much each matters."""
    factors, turns = factors_of(geometry.encoder.blocks())
    factors = factors if geometry.constant else factors[:-1]
    lengths = np.array([(f.weight * f.spread * f.size) ** 0.25 for f in factors])
    lengths *= (1 - 1e-9) / lengths.sum()
    roots = tuple(length * np.eye(f.size) for length, f in zip(lengths, factors, strict=True))
    body = Body(roots, (0,) * len(roots))
    return BodyFrame(body, 1.0, geometry.encoder.norm, geometry.constant, turns, "l1")


class _Column(NamedTuple):
    """What is public of one raw column, in coordinates."""

    into: slice
    mean: Floats
    covariance: Floats
    prior: Floats  #: Covariance of its weights


@dataclass(frozen=True, kw_only=True, eq=False)
class LabelContrast(OneSum):
    """Every party adds up its rows by label, in whole numbers, in one secure sum: no solver.

    It is the capped loss's gradient at a public intercept: rows of the rarer label count one half,
    and others as much less as there are more of them. A prior's score is one more column. Weights
    follow from declared facts, as if columns were independent: docs/proofs/secure_sums.md.
    """

    encoder: SchemaEncoder | None = None  #: Who knows the declared facts; parties need none
    positive: float = 0.5  #: What a row with the label counts,
    negative: float = 0.5  #: and one without it
    checked: bool = True  #: Whether the prior's score is a column: else it is believed
    share: float = 0.0  #: Of a row's length, for that column

    operation: ClassVar[str] = "contrast"

    def levels(self, sizes: Sizes) -> int:
        """Return the steps of a row's length, so that the sum of all rows fits."""
        rows = self._most(sizes) * len(sizes.counts)
        return min(_LEVELS, 1 << max(1, (_ALL_LEVELS // rows).bit_length() - 1))

    def mechanism(self, sizes: Sizes) -> SecureSum:
        # A row with its label is half of the levels long in L1, at most, whatever is in it.
        half, size = self.levels(sizes) // 2, self.space.size + (self.share > 0)
        largest = float(half * self._most(sizes))
        return self._sum(sizes, half, largest=largest, law="integer", size=size)

    @cached_property
    def _rows(self) -> WholeRows:
        return WholeRows(self.space, self.share)

    def bounded(self, X: Rows) -> Any:
        return X  # which whole numbers are made of

    def message(self, X: Any, y: Labels, sizes: Sizes, weights: Floats | None = None) -> Floats:
        counted = np.where(y > 0, 2 * self.positive, -2 * self.negative)
        return self._rows.total(X, counted, self.levels(sizes) // 2, weights)

    def at(self, sizes: Sizes) -> Self:
        if not isinstance(self.frame, SchemaGeometry):
            return self
        rate = self.base_rate
        frame, both = corner_frame(self.frame), 2 * max(rate, 1 - rate)
        made = replace(self, frame=frame, positive=(1 - rate) / both, negative=rate / both)
        if not self.checked or made._opinion is None:
            return made
        wanted = made.noise(sizes) / (CHECK_ERROR * made._agreed(sizes))
        return replace(made, share=check_share(wanted))

    def asked(self, sizes: Sizes) -> Addend:
        prior, weights = self._opinion, None
        if self.share and prior is not None:
            centred = prior.coef[0], -prior.score_mean
            weights = self.space.weights(*(one / prior.deviation for one in centred))
        return Addend(self, sizes, weights)  # no prior is a point of the coordinates

    @property
    def base_rate(self) -> float:
        assert self.encoder is not None
        outcome = self.encoder.schema.outcome
        return 0.5 if outcome is None else outcome.base_rate or 0.5

    @property
    def _opinion(self) -> Prior | None:
        prior = self.prior
        return prior if isinstance(prior, Prior) and prior.deviation > 0 else None

    def noise(self, sizes: Sizes) -> float:
        return self.mechanism(sizes).deviation / self.levels(sizes)

    def _curved(self, sizes: Sizes) -> float:
        rate = self.base_rate
        return (self.positive + self.negative) * rate * (1 - rate) * sizes.total

    def _agreed(self, sizes: Sizes) -> float:
        """Return what the prior's column adds up to, if it holds."""
        assert isinstance(self.prior, Prior)
        return STEIN * self._curved(sizes) * self.prior.deviation

    @cached_property
    def _public(self) -> list[_Column]:
        encoder, space, (to, _) = self.encoder, self.space, self._rows.map
        assert encoder is not None
        assert isinstance(space, BodyFrame)
        factors, turns = factors_of(encoder.blocks())
        pairs = zip(factors, space.body.inverses, strict=False)
        priors = linalg.block_diag(*(f.weight * inv.T @ f.kernel @ inv for f, inv in pairs))
        found, begin, first = [], 0, 0
        for j, column in enumerate(encoder.columns):
            width = column.table.shape[1]
            into = slice(begin, begin + (len(turns[j]) if turns else width))
            rows = column.table @ to[into, first : first + width].T / encoder.norm
            often = frequencies(encoder.schema.features[j])
            mean = often @ rows
            covariance = ((rows - mean).T * often) @ (rows - mean)
            prior = prior_scale(factors) * priors[into, into]
            found.append(_Column(into, mean, covariance, prior))
            begin, first = into.stop, first + width
        return found

    def _gains(self, sizes: Sizes) -> list[Floats]:
        """Return for every raw column what its part of the sum is multiplied by."""
        noise, unsure = self.noise(sizes) / (1 - self.share), self._balance(sizes)[1]
        # Of balanced labels the larger slope is one half: what one record varies by.
        curved, sampled, found = self._curved(sizes), self._curved(sizes) / 2, []
        for one in self._public:
            seen = curved * one.covariance
            told = seen @ one.prior @ seen + sampled * one.covariance
            told += noise**2 * np.eye(len(seen)) + unsure**2 * np.outer(one.mean, one.mean)
            found.append(np.asarray(np.linalg.solve(told, seen @ one.prior).T))
        return found

    def kept(self, sizes: Sizes) -> float:
        """Return the share of the log odds' variance that is expected to survive the noise."""
        signal = total = 0.0
        for one, gain in zip(self._public, self._gains(sizes), strict=True):
            there = one.prior @ one.covariance
            signal += self._curved(sizes) * float(np.trace(gain @ one.covariance @ there))
            total += float(np.trace(there))
        return signal / max(total, 1e-300)

    def _balance(self, sizes: Sizes) -> tuple[float, float]:
        """Return how far the constant's sum is believed, and what labels may be off balance by."""
        rate, constant = self.base_rate, self._rows.map[1]
        doubt = _RATE_OFF * sizes.total * (self.positive + self.negative) * min(rate, 1 - rate)
        error = self.noise(sizes) / (1 - self.share)
        known = (constant * doubt) ** 2 / ((constant * doubt) ** 2 + error**2)
        return known / (constant or 1.0), doubt * math.sqrt(1 - known)

    def learned(self, released: Floats, sizes: Sizes) -> tuple[Floats, PriorFacts | None]:
        released = released / self.levels(sizes)
        size, known, belief = self.space.size, None, UNCHECKED
        summed, curved = released[:size] / (1 - self.share), self._curved(sizes)
        apart = self._balance(sizes)[0] * float(summed[-1])
        centre, weights, mean, spread = np.zeros(size), np.zeros(size), 0.0, 0.0
        if (prior := self._opinion) is not None:
            if self.share:
                agreed = self.share * self._agreed(sizes)
                sampled = 1 / math.sqrt(STEIN * curved * prior.deviation**2)
                error = math.hypot(self.noise(sizes) / agreed, sampled)
                belief = believed(float(released[size]) / agreed, error)
                known = belief.facts(self.share * self.epsilon)
            # What records say by themselves, of every column, they say better.
            centre = (1 - self.kept(sizes)) * prior.point(self.space, belief)
        for one, gain in zip(self._public, self._gains(sizes), strict=True):
            start = centre[one.into]
            own = start + gain @ (
                summed[one.into] - apart * one.mean - curved * one.covariance @ start
            )
            weights[one.into] = own
            mean += float(one.mean @ own)
            spread += float(own @ one.covariance @ own)
        if constant := self._rows.map[1]:
            level = intercept_of(float(special.logit(self.base_rate)), math.sqrt(spread))
            weights[-1] = (level - mean) / constant
        return weights, known

    def shown(self, sizes: Sizes) -> ExpectedArea:
        """Return what it is expected to rank with, of curves' log-odds, by records alone."""
        assert self.encoder is not None
        schema = self.encoder.schema
        both = (self.encoder, schema.encoder(form="curves"))
        own, among = (varied(factors_of(encoder.blocks())[0]) for encoder in both)
        kept = _INDEPENDENT * own / among * self.at(sizes).kept(sizes)
        return ExpectedArea(kept, exponent=exponent_of(schema) + _ALONE)


@dataclass(frozen=True, eq=False)
class Addend(AskedSum):
    """What a party adds to a sum of all, whose sizes are known."""

    plan: Sums  #: In coordinates that are made for the sizes
    sizes: Sizes
    weights: Floats | None  #: The point that it is about
    round: int = 0

    @property
    def operation(self) -> str:
        return self.plan.operation

    @cached_property
    def mechanism(self) -> SecureSum:
        return self.plan.mechanism(self.sizes)

    def vector(self, X: Rows, y: Labels, picked: Picked | None = None) -> Floats:
        rows = self.plan.bounded(X)
        self.plan.loss.check_rows(rows)
        if picked is not None:
            rows, y = some_rows(rows, y, picked(self.sizes.count(len(y)), len(y)))
        return self.plan.message(rows, y, self.sizes, self.weights)


def _whole(told: Told, sizes: Sizes) -> tuple[dict[str, int], Floats]:
    """Return who is in a sum, and the sum as if everyone were."""
    there = {name: sizes.counts[name] for name in told.names}
    return there, np.asarray(told.arrays["sum"] * (sizes.total / sum(there.values())))


#: Of counts, one record is so many lattice steps: it may be shared between two cells.
STEPS = 1024


@dataclass(frozen=True)
class CountedSum(Tries):
    """Counts of all parties, added up with noise, in as many tries as are paid for."""

    epsilon: float
    n_parties: int
    largest: int  #: No party counts more

    def records(self, neighbours: Neighbours, **other: Any) -> SecureSum:
        """Return the sum of counts that one record moves by one."""
        facts = {"size": 1, "sensitivity": 1.0, "largest": float(self.largest), **other}
        # Those who are left of a run may be few: never so few that they could all pool.
        fewest = max(fewest_of(self.n_parties, self.quorum), self.pooling(self.n_parties) + 1)
        facts |= {"epsilon": self.epsilon, "neighbours": neighbours, "fewest": fewest}
        return self.tried(self.n_parties, law="integer", **facts)

    def steps(self, neighbours: Neighbours, size: int, moved: int) -> SecureSum:
        """Return sums of whole steps, which one record moves so far together, in L1."""
        largest = float(self.largest * STEPS)
        return self.records(neighbours, size=size, sensitivity=float(moved), largest=largest)


def check_try(mechanism: SecureSum, step: int) -> None:
    """Refuse a try that the price does not cover."""
    if step >= mechanism.releases:
        raise OperationRefused(
            f"the price is for {mechanism.releases} sums in this run; ask in a new run.", "step"
        )
