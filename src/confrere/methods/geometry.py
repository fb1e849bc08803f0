"""How much can be learned in a body, and which geometry suits it, from public facts alone.

A body is a product of cross-polytopes (an interval is one of a single column). Noise of density
``exp(-||b||)`` for its gauge is ``r U`` with ``r ~ Gamma(d + 1)`` and ``U`` uniform in the body, so
a coordinate in a factor of ``m`` columns has the variance ``(d+1)(d+2) 2/((m+1)(m+2))``.

The log-odds of a row have the prior variance :data:`LOG_ODDS`, dealt out to the factors by how much
each of them can matter. A direction of prior variance ``t`` is seen through the curvature
``h = n v E[x^2]`` of the records and a noise of variance ``s2``: of its signal the share
``th/(th + 1 + s2/h)`` survives. Factors come in three groups, straight lines and flags, one-hot
blocks, and bends of curves, and the rate of the noise is dealt out to them so that most signal
survives. The same number says whether bends pay at all, whether a delta does, and what a planner
may expect. The constants were chosen on some tables and confirmed on others, see docs/geometry.md.

Roots, groups and the ridge that suits a body follow from that model: with the best shares of the
rate most signal survives, and ``A = (1 + s2/h) (t R)^{-1}`` is the ridge of the least expected
squared error. But the model guesses which columns matter, and a wrong guess costs most where it is
sure. So what is used lies between its answer and that of somebody who knows nothing, :data:`BELIEF`
of the way on the scale of logarithms. A curve is a line with bends, which get their own part of the
rate. Nothing here is needed for privacy: every block ridge has its exact price, see
docs/proofs/geometry.md.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, Literal, NamedTuple

import numpy as np

from confrere.arrays import Floats
from confrere.data.body import BodyFrame, l1_reach
from confrere.data.encoding import SchemaEncoder
from confrere.data.features import SPREAD, BodyBlock, Form, Number
from confrere.data.frame import Frame
from confrere.data.schema import PublicSchema
from confrere.errors import InvalidParameter
from confrere.kernel.norms import Body
from confrere.methods.allowance import Allowance, free_ridge, noise_variance

Kind = Literal["number", "flag", "category", "hats", "bend", "constant"]
#: What shares the rate of the noise: intervals, one-hot blocks, bends of curves.
Group = Literal["lines", "corners", "bends"]
GROUPS: tuple[Group, ...] = ("lines", "corners", "bends")

#: Prior variance of a row's log-odds.
LOG_ODDS = 4.0

#: How much a column of every kind can matter: the mean square of what a line does to the log-odds;
#: of a flag, a level of a category (and all of a large one, per level) and a hat, by itself.
SLOPE, FLAG, LEVEL, PER_LEVEL = 2.0, 0.5, 1.0, 0.3

#: What six hats between a curve's ends can do on top of a line: where nothing but bounds is known,
#: and where mean and deviation are.
BENT, SLIGHTLY_BENT = 3.0, 1.0

#: What all hats of a curve can do together, where they are not divided into a line and bends.
HATS = 4.0

#: What the kernel of a curve has on its diagonal on top: a level of its own for every hat.
NUGGET = 0.05

#: Part of the curvature that is reckoned with. About half of the records lie where a capped loss is
#: straight, and columns tell in part the same.
SEEN = 0.25

#: Part of epsilon that is reckoned with for noise while the ridge is chosen.
_NOISE = 0.9

#: What survives is compared for shares of the rate that are whole numbers of so many parts.
_COARSE = 16


@dataclass(frozen=True)
class Factor:
    """One factor of a body: columns of which the magnitudes add up to one at most."""

    size: int  #: Number of columns
    kind: Kind  #: What they come from
    spread: float  #: Mean square of one of the columns, as far as public facts tell
    #: How many of the first columns are neighbouring hats between the ends of a curve
    smooth: int = 0
    known: bool = False  #: Whether mean and deviation of the number that is bent are public
    together: bool = False  #: Whether all factors share one rate, whatever they are

    @property
    def weight(self) -> float:
        """Prior variance of one of its weights, beside others'."""
        if self.kind == "number":
            return SLOPE / self.spread
        if self.kind == "bend":
            return (SLIGHTLY_BENT if self.known else BENT) * max(1, self.smooth) / 6
        if self.kind == "hats":
            return HATS
        if self.kind == "category":
            return max(LEVEL, PER_LEVEL * (self.size - 1))
        return FLAG if self.kind == "flag" else LEVEL

    @property
    def length(self) -> float:
        """The squared length of its rows beside others' where noise is Gaussian.

        Half way, on the scale of logarithms, between what is best where little can be learned (the
        prior variance) and where much can (the same for all).
        """
        return math.sqrt(self.weight)

    @property
    def group(self) -> Group:
        """Which others it shares its part of the rate with."""
        if self.together:
            return "corners"
        if self.kind == "bend":
            return "bends"
        return "lines" if self.size == 1 else "corners"

    @cached_property
    def kernel(self) -> Floats:
        """The prior covariance of its weights, of scale one."""
        kernel = np.eye(self.size)
        alike = hat_kernel if self.kind == "hats" else bend_kernel
        kernel[: self.smooth, : self.smooth] = alike(self.smooth)
        return kernel

    @cached_property
    def scales(self) -> Floats:
        """The variances of the kernel's principal directions."""
        return np.asarray(np.linalg.eigvalsh(self.kernel))


#: The column of ones.
CONSTANT = Factor(1, "constant", 1.0)


def hat_kernel(hats: int) -> Floats:
    """Return the prior covariance of all hats of a curve, of mean diagonal one.

    Neighbouring values are alike, and their mean is nothing: a level is the intercept's.
    """
    places = np.arange(hats)
    alike = np.exp(-np.abs(places[:, None] - places[None, :]) / max(1, hats - 1))
    centre = np.eye(hats) - 1 / hats
    centred = centre @ alike @ centre
    return np.asarray(centred * hats / np.trace(centred) + NUGGET * np.eye(hats))


def bend_kernel(hats: int) -> Floats:
    """Return the prior covariance of the hats between a curve's ends, of mean diagonal one.

    A curve is a line from its first knot to its last, and what it does between them: neighbouring
    values are alike, and near the ends there is little (the bridge of an exponential kernel).
    """
    if hats < 2:
        return np.eye(hats)
    places = np.arange(hats + 2)
    alike = np.exp(-np.abs(places[:, None] - places[None, :]) / (hats + 1))
    ends, between = [0, hats + 1], slice(1, hats + 1)
    across = alike[between, ends]
    bridge = alike[between, between] - across @ np.linalg.solve(alike[np.ix_(ends, ends)], across.T)
    return np.asarray(bridge * hats / np.trace(bridge) + NUGGET * np.eye(hats))


def coordinate_variance(
    dimension: int,  # Of the product that the coordinate's factor belongs to
    size: int,  # Columns of that factor
) -> float:
    """Return the variance of one coordinate of noise of rate 1."""
    return (dimension + 1) * (dimension + 2) * 2 / ((size + 1) * (size + 2))


def prior_scale(factors: Sequence[Factor], log_odds: float = LOG_ODDS) -> float:
    """Return what a factor's weight is multiplied with for the prior variance of its weights.

    A row has one active column in every factor, so they sum to the variance of its log-odds.
    """
    return log_odds / sum(factor.weight for factor in factors)


@dataclass(frozen=True, kw_only=True)
class ExpectedSignal:
    """What a body is expected to learn, from public facts alone."""

    signal: float  #: Variance of the log-odds that is expected to survive the noise
    total: float  #: The variance that there is
    #: Of the rate of the noise, or of the rows' squared length where noise is Gaussian
    shares: Mapping[Group, float]

    @property
    def kept(self) -> float:
        """The share of the signal that survives."""
        return self.signal / self.total if self.total else 0.0


@dataclass(frozen=True, kw_only=True)
class NoiseModel:
    """How much noise a weight is seen through: of the body's own law, or Gaussian."""

    #: Of noise of density ``exp(-rate ||b||)``, or 1 over the deviation where it is Gaussian
    rate: float
    #: Noise is normal in the body's coordinates, in which no row is longer than one
    gaussian: bool = False

    def variances(
        self, group: Mapping[Factor, int], share: float
    ) -> Iterator[tuple[Factor, int, Floats]]:
        """Yield every factor of a group, how often it is there, and the noise in its directions."""
        dimension = sum(count * factor.size for factor, count in group.items())
        length = squared_length(group) if self.gaussian else 0.0
        for factor, count in group.items():
            if self.gaussian:
                each = length / (share * factor.length * factor.scales * self.rate**2)
            else:
                unit = coordinate_variance(dimension, factor.size)
                each = np.full(factor.size, unit / (self.rate * share) ** 2)
            yield factor, count, each


def squared_length(group: Mapping[Factor, int]) -> float:
    """Return the largest squared norm of a group's rows, before they are given their share."""
    return sum(
        count * factor.length * float(factor.kernel.diagonal().max())
        for factor, count in group.items()
    )


def grouped(factors: Sequence[Factor]) -> dict[Group, Counter[Factor]]:
    """Return the groups that there are, each with its factors and how often they are there."""
    found = {group: Counter(f for f in factors if f.group == group) for group in GROUPS}
    return {group: counts for group, counts in found.items() if counts}


def expected_signal(
    factors: Sequence[Factor],  # Of the rows, the constant among them
    *,
    n_samples: int,  # Public number of records
    curvature: float,  # Mean of ``p(1-p)`` that a declared base rate implies
    noise: NoiseModel,  # What weights are seen through
    log_odds: float = LOG_ODDS,  # Prior variance of a row's log-odds around what is shrunk towards
    # All factors that there could be, where forms are compared: the log-odds are theirs
    among: Sequence[Factor] | None = None,
) -> ExpectedSignal:
    """Return how much can be learned in a body, with the best shares of its groups."""
    scale = prior_scale(factors if among is None else among, log_odds)
    records = SEEN * n_samples * curvature
    groups = grouped(factors)
    survives = {
        (group, parts): sum(
            count * surviving(factor, scale, each, records)
            for factor, count, each in noise.variances(counts, parts / _COARSE)
        )
        for group, counts in groups.items()
        for parts in range(1, _COARSE + 1)
    }
    best, most = (_COARSE,) * len(groups), -1.0
    for parts in itertools.product(range(1, _COARSE + 1), repeat=len(groups)):
        if sum(parts) != _COARSE:
            continue
        signal = sum(survives[each] for each in zip(groups, parts, strict=True))
        if signal > most * (1 + 1e-9):
            best, most = parts, signal
    return ExpectedSignal(
        signal=most,
        total=sum(
            scale * factor.weight * factor.spread * float(factor.scales.sum())
            for factor in (factors if among is None else among)
            if factor.kind != "constant"
        ),
        shares={group: parts / _COARSE for group, parts in zip(groups, best, strict=True)},
    )


def surviving(factor: Factor, scale: float, noise: Floats, records: float) -> float:
    """Return the signal of one factor that survives; a constant ranks nobody."""
    if factor.kind == "constant":
        return 0.0
    seen, prior = records * factor.spread, scale * factor.weight * factor.scales
    kept = prior * seen / (prior * seen + 1 + noise / seen)
    return float(factor.spread * (prior * kept).sum())


def pure_noise(
    budget: float,  # What pays for noise and Jacobian
    reach: float,  # The norm of one record's gradient at most
    # How many records of two neighbouring tables differ: one goes and another comes, or one only
    records: int = 2,
) -> NoiseModel:
    """Return the noise of the body's own law, as it is reckoned with before the ridge is known."""
    return NoiseModel(rate=_NOISE * budget / (records * reach))


def gaussian_noise(sigma: float) -> NoiseModel:
    """Return normal noise, from the deviation that it has where the Jacobian is free."""
    return NoiseModel(rate=_NOISE / sigma, gaussian=True)


#: Part of epsilon that the Jacobian may cost.
JACOBIAN = 0.15

#: How far the model is believed: 1 is all the way, 0 deals out the rate by the number of columns
#: and shrinks all columns alike. Of several classes, where less survives, it would deal out nearly
#: all of the rate to lines: there it has no word in that.
BELIEF, BELIEF_OF_MANY = 0.6, 0.0

#: Shares that are used are whole numbers of so many parts, the same on every machine.
_FINE = 64

#: Roots are shorter by this share, so that rounding keeps rows in the unit ball.
_HAIR = 1e-9


class ChosenBody(NamedTuple):
    """What a body is made of, and the ridge in its coordinates."""

    roots: tuple[Floats, ...]  #: ``T_k`` of every factor
    groups: tuple[int, ...]  #: The group of every factor
    shares: tuple[float, ...]  #: The groups' shares of the rate
    ridge: float  #: ``1/s``


def choose_geometry(
    factors: Sequence[Factor],  # Of the rows, the constant among them
    *,
    n_samples: int,  # Public number of records
    least: float,  # The smallest ridge, see :func:`least_ridge`
    curvature: float,  # Mean of ``p(1-p)`` that a declared base rate implies
    noise: NoiseModel,  # What is reckoned with
    log_odds: float = LOG_ODDS,  # Prior variance of a row's log-odds around what is shrunk towards
    belief: float = BELIEF,  # How far the model is believed when the rate is dealt out
) -> ChosenBody:
    """Return roots, groups and ridge from public facts alone."""
    shares, inverses, ridge, reach = _solved(factors, n_samples, curvature, noise, log_odds, belief)
    names = list(shares)
    return ChosenBody(
        tuple(
            np.asarray(np.linalg.cholesky(inverse / reach).T * (1 - _HAIR)) for inverse in inverses
        ),
        tuple(names.index(factor.group) for factor in factors),
        tuple(shares.values()),
        max(ridge / reach, least),
    )


def _solved(
    factors: Sequence[Factor],
    n_samples: int,
    curvature: float,
    noise: NoiseModel,
    log_odds: float,
    belief: float = BELIEF,
) -> tuple[dict[Group, float], list[Floats], float, float]:
    """Return shares of the rate, ``A^{-1}`` of every factor, the ridge with it, and its reach."""
    expected = expected_signal(
        factors, n_samples=n_samples, curvature=curvature, noise=noise, log_odds=log_odds
    )
    shares, scale = hedged_shares(factors, expected, belief), prior_scale(factors, log_odds)
    inverses, ridge = _block_ridge(factors, shares, SEEN * n_samples * curvature, noise, scale)
    return shares, inverses, ridge, _reach(inverses)


def hedged_shares(
    factors: Sequence[Factor], expected: ExpectedSignal, belief: float = BELIEF
) -> dict[Group, float]:
    """Return the shares of the rate that are used: the model's, half believed.

    Bends keep what the model gives them, since a line says most of what a curve does. The rest is
    dealt out to lines and one-hot blocks.
    """
    sizes = {
        group: sum(count * factor.size for factor, count in counts.items())
        for group, counts in grouped(factors).items()
    }
    rest = 1 - expected.shares.get("bends", 0.0)
    wanted = {
        group: share**belief * sizes[group] ** (1 - belief)
        for group, share in expected.shares.items()
        if group != "bends"
    }
    parts = {
        group: max(1, round(_FINE * rest * wanted[group] / sum(wanted.values())))
        if group in wanted
        else round(_FINE * share)
        for group, share in expected.shares.items()
    }
    first = next(iter(parts))
    parts[first] += _FINE - sum(parts.values())
    if parts[first] < 1:  # beside thousands of columns
        parts[max(parts, key=lambda group: parts[group])] -= 1 - parts[first]
        parts[first] = 1
    return {group: part / _FINE for group, part in parts.items()}


def _reach(inverses: Sequence[Floats]) -> float:
    """Return the largest squared length of a row in coordinates with the ridge 1."""
    return sum(float(np.diagonal(inverse).max()) for inverse in inverses)


def least_ridge(jacobian: float, n_classes: int = 2) -> float:
    """Return the ridge at which the Jacobian costs so much; 0 where that is huge.

    It costs ``log(1 + 1/(4L))`` at the most, of K > 2 classes ``(K-1) log(1 + 1/(KL))``.
    """
    others = n_classes - 1
    bend = 4 if n_classes == 2 else n_classes
    each = jacobian / others
    return math.exp(-each) / (-bend * math.expm1(-each))


def _block_ridge(
    factors: Sequence[Factor],
    shares: Mapping[Group, float],
    records: float,
    noise: NoiseModel,
    scale: float,
) -> tuple[list[Floats], float]:
    """Return ``A^{-1}`` of every factor up to a scale, and the ridge that goes with that scale."""
    found: dict[Factor, Floats] = {}
    best: dict[Factor, Floats] = {}
    ridges, signals = [], []
    for group, counts in grouped(factors).items():
        share, length = shares[group], squared_length(counts)
        for factor, count, each in noise.variances(counts, share):
            raised = 1 + each / (records * factor.spread)
            if noise.gaussian:
                # Shares of the rows' length decide where noise goes, and one ridge serves all.
                mine = share * factor.length / length
                found[factor] = mine * factor.kernel
                ridges.append(float(np.median(raised)) * mine / (scale * factor.weight))
                signals.append(count * surviving(factor, scale, each, records))
            else:
                level = scale * factor.weight / float(raised[0])
                best[factor], found[factor] = (
                    power * factor.kernel for power in (level, level**BELIEF)
                )
    inverses = [found[factor] for factor in factors]
    if not noise.gaussian:
        # Belief moves what columns have beside each other; how much there is in all stays.
        return inverses, _reach(inverses) / _reach([best[factor] for factor in factors])
    if not sum(signals) > 0:
        return inverses, 1.0
    return inverses, float(np.average(ridges, weights=signals))


def weight_noise(
    factors: Sequence[Factor],  # Of the rows, the constant among them
    *,
    n_samples: int,  # Public number of records
    rate: float,  # Of the noise, and in the body's coordinates
    ridge: float,
    curvature: float,  # As in :func:`choose_geometry`
    log_odds: float = LOG_ODDS,
) -> list[tuple[Floats, Floats]]:
    """Return the covariance of the noise and the ridge of every factor, as public facts tell them.

    The minimiser moves by ``(H + A)^-1 b`` for noise ``b`` of such a covariance and the block
    ridge ``A``; ``H`` only the records know.
    """
    noise, found = NoiseModel(rate=rate), []
    shares, inverses, _, reach = _solved(factors, n_samples, curvature, noise, log_odds)
    for factor, inverse in zip(factors, inverses, strict=True):
        dimension = sum(other.size for other in factors if other.group == factor.group)
        share = shares[factor.group]
        each = coordinate_variance(dimension, factor.size) / (rate * share) ** 2
        inverse = np.asarray(np.linalg.inv(inverse), dtype=np.float64)
        found.append((each * np.eye(factor.size), ridge * reach * inverse))
    return found


#: For which body noise is made: the schema's where that is known, a ball, or the schema's.
Noise = Literal["auto", "ball", "schema"]

#: What noise is made for in a schema's coordinates: the body itself, or a ball there.
Leaf = Literal["Max", "L2", "L1"]

#: Curvature of the loss where no base rate is declared; a declared one never implies more.
CURVATURE = 0.2

#: Hats stay whole, in one body with everything else, where they are at least half of the raw
#: columns and so much of the signal is expected to survive: then noise is short as it is, and a
#: curve needs no line to lean on.
PLENTY = 0.6

#: Numbers in all roots of a body at the most: more would be too long for a message, and a category
#: of a stranger's schema could fill any memory.
LARGEST_ROOTS = 1 << 22

#: A delta is spent where by so much more of the signal is expected to survive.
WORTH = 1.2


def curvature_of(schema: PublicSchema, n_classes: int = 2) -> float:
    """Return the mean of ``p(1-p)`` that the declared base rate, or the classes' number, implies.

    Of K classes that are alike one has ``(K-1)/K^2``; they are not, and the larger ones see more.
    """
    if n_classes > 2:
        return min(CURVATURE, 1.2 * (n_classes - 1) / n_classes**2)
    rate = None if schema.outcome is None else schema.outcome.base_rate
    return CURVATURE if rate is None else min(CURVATURE, rate * (1 - rate))


def fits(blocks: Sequence[BodyBlock]) -> bool:
    """Whether a body of these blocks is small enough to be written down."""
    return sum(block.size**2 for block in blocks) <= LARGEST_ROOTS


def factors_of(
    blocks: Sequence[BodyBlock], *, whole: bool = False
) -> tuple[list[Factor], tuple[Floats, ...]]:
    """Return the factors of a body, the constant among them, and the maps that lead to them.

    A curve is a line, and what is between the first knot and the last: its hats become a factor
    of one column and a factor of bends. A missing value's corner is one of the bends', or stands
    beside the line where there are none. If they stay ``whole``, all share one rate.
    """
    if not fits(blocks):
        raise InvalidParameter(
            f"noise='schema' takes a category of up to {math.isqrt(LARGEST_ROOTS)} values, or "
            "several shorter ones; use noise='ball'."
        )
    factors: list[Factor] = []
    turns: list[Floats] = []
    for block in blocks:
        hats = block.smooth
        if not hats:
            kind: Any = block.kind
            factors.append(Factor(block.size, kind, block.spread))
            turns.append(np.eye(block.size))
            continue
        if whole and hats > 2:
            factors.append(Factor(block.size, "hats", block.spread, hats))
            turns.append(np.eye(block.size))
            continue
        line = np.zeros((1, block.size))
        line[0, :hats] = block.line
        others = [*range(1, hats - 1), *range(hats, block.size)]
        turns.append(np.vstack([line, np.eye(block.size)[others]]))
        if hats > 2:
            factors.append(Factor(1, "number", SPREAD))
            factors.append(Factor(len(others), "bend", block.spread, hats - 2, block.known))
        else:
            factors.append(Factor(1 + len(others), "number", SPREAD))
    factors.append(CONSTANT)
    if whole:
        factors = [replace(factor, together=True) for factor in factors]
    bent = any(block.smooth for block in blocks)
    return factors, tuple(turns) if bent else ()


def divided(
    blocks: Sequence[BodyBlock],
    n_samples: int,
    curvature: float,
    noise: NoiseModel,
    constant: bool = True,  # Whether there is an intercept
) -> tuple[list[Factor], tuple[Floats, ...]]:
    """Return the factors and maps that are used: hats whole where that is better, or divided."""
    factors, turns = factors_of(blocks, whole=True)
    hats = sum(factor.kind == "hats" for factor in factors)
    whole = not noise.gaussian and 2 * hats >= len(blocks)
    if whole:
        found = expected_signal(factors, n_samples=n_samples, curvature=curvature, noise=noise)
        whole = found.kept >= PLENTY
    if not whole:
        factors, turns = factors_of(blocks)
    return factors if constant else factors[:-1], turns


def noises(allowed: Allowance) -> list[NoiseModel]:
    """Return the laws that a price may pay for: the body's own, and with a delta the Gaussian."""
    found = [pure_noise(allowed.budget, allowed.reach, allowed.changed)]
    return [*found, gaussian_noise(allowed.sigma)] if allowed.delta else found


def expect(
    schema: PublicSchema, form: Form, allowed: Allowance
) -> tuple[ExpectedSignal, NoiseModel]:
    """Return what lines or curves in a schema's body are expected to learn, and by which noise.

    Of one and the same log-odds, those of curves, so that forms can be compared.
    """
    n_samples, curvature = allowed.records, curvature_of(schema, allowed.loss.n_classes)
    curves, blocks = (schema.encoder(form=each).blocks() for each in ("curves", form))
    among, _ = divided(curves, n_samples, curvature, noises(allowed)[0])
    return _best_law(blocks, allowed, curvature, among=among)


def _best_law(
    blocks: Sequence[BodyBlock],
    allowed: Allowance,
    curvature: float,
    *,
    constant: bool = True,
    **known: Any,
) -> tuple[ExpectedSignal, NoiseModel]:
    """Return what is expected of the law that is used: the body's own, unless a delta pays."""
    n_samples, found = allowed.records, []
    for law in noises(allowed):
        factors, _ = divided(blocks, n_samples, curvature, law, constant)
        signal = expected_signal(
            factors, n_samples=n_samples, curvature=curvature, noise=law, **known
        )
        found.append((signal, law))
    pure, *others = found
    return next((pair for pair in others if pair[0].signal > WORTH * pure[0].signal), pure)


def choose_form(
    schema: PublicSchema, noise: Noise, allowed: Allowance, *, each: bool = False
) -> Form:
    """Return how a schema's columns are encoded: a rule of public facts.

    ``"auto"`` leaves to the ball a schema with importances, whose columns are weighted by them, and
    what is given column by column (``each``), which speaks of standardised ones. Otherwise noise is
    shaped like the rows, and of two classes numbers without a word of their own become curves where
    more of the signal is expected to survive than with straight lines. Of several lines are better,
    or as good, on all tables that were tried.
    """
    return _chosen_form(
        replace(schema, paid=()), noise, allowed, each
    )  # whoever paid for its facts


@lru_cache(maxsize=64)  # asked while one fit is planned, encoded, priced and kept
def _chosen_form(schema: PublicSchema, noise: Noise, allowed: Allowance, each: bool) -> Form:
    if noise == "auto" and (schema.has_importances or each):
        return "standardised"
    if noise == "ball" or (noise == "auto" and not fits(schema.encoder(form="curves").blocks())):
        return "standardised"
    undecided = any(isinstance(f, Number) and f.curve == "auto" for f in schema.features)
    if allowed.loss.n_classes > 2 or not undecided:
        return "linear"
    lines, curves = (expect(schema, form, allowed)[0].signal for form in ("linear", "curves"))
    return "curves" if curves > lines else "linear"


def declared_number(schema: PublicSchema, classes: Any) -> int:
    """Return how many classes are declared, by the schema or beside it; two unless told."""
    declared = classes if schema.outcome is None else schema.outcome.classes
    return 2 if declared is None else max(2, int(np.size(declared)))


def encodes(encoder: SchemaEncoder, features: Sequence[str] | None) -> bool:
    """Whether rows of these columns are an encoder's; without names only a price is asked."""
    return features is None or encoder.names == tuple(features)


def schema_frame(
    encoder: SchemaEncoder,  # Of a form for bodies
    allowed: Allowance,  # Of the fit; its delta is what is spent, see :meth:`SchemaGeometry.law`
    *,
    constant: bool = True,  # Whether there is an intercept
    log_odds: float = LOG_ODDS,  # Prior variance of a row's log-odds around what is shrunk towards
    # Positions of the schema's columns that rows consist of; all unless given
    columns: Sequence[int] | None = None,
    leaf: Leaf = "Max",  # What noise is made for: the body itself, or a ball in its coordinates
) -> BodyFrame:
    """Return the coordinates of the body that a schema declares, with the ridge that suits it."""
    n_classes, blocks = allowed.loss.n_classes, encoder.blocks()
    curvature = curvature_of(encoder.schema, n_classes)
    if columns is not None:
        blocks = tuple(blocks[j] for j in columns)
    *_, law = noises(allowed)
    if leaf != "Max" and not allowed.delta:  # alike in all coordinates, as normal noise is
        size = sum(block.size for block in blocks) + constant
        law = gaussian_noise(math.sqrt(noise_variance(allowed.budget, size, allowed.reach)))
    factors, turns = divided(blocks, allowed.records, curvature, law, constant)
    chosen = choose_geometry(
        factors,
        least=least_ridge(JACOBIAN * allowed.budget, n_classes),
        noise=law,
        n_samples=allowed.records,
        curvature=curvature,
        log_odds=log_odds,
        belief=BELIEF if n_classes == 2 else BELIEF_OF_MANY,
    )
    body, scale = Body(chosen.roots, chosen.groups, chosen.shares), encoder.norm
    if leaf != "L1":
        return BodyFrame(body, chosen.ridge, scale, constant, turns)
    # Rows of sums of magnitudes up to one are shorter, and weights as much longer.
    short = (1 - 1e-9) / l1_reach(body.roots)
    body = replace(body, roots=tuple(short * root for root in body.roots))
    ridge = max(short**2 * chosen.ridge, free_ridge(allowed.budget))
    return BodyFrame(body, ridge, scale, constant, turns, "l1")


@dataclass(frozen=True, eq=False)
class SchemaGeometry:
    """Rows in the body that a schema declares."""

    encoder: SchemaEncoder  #: Of a form for bodies
    constant: bool = True  #: Whether there is an intercept
    leaf: Leaf = "Max"  #: What noise is made for: the body itself, or a ball in its coordinates

    def law(self, allowed: Allowance, log_odds: float) -> Allowance:
        """Return what is spent: of a delta all or nothing, as pays for log odds so unknown.

        A choice of public facts, made once: a fit that follows from a release must have the law
        that was promised, whatever the release has shown.
        """
        if not allowed.delta:
            return allowed
        curvature = curvature_of(self.encoder.schema, allowed.loss.n_classes)
        blocks, constant = self.encoder.blocks(), self.constant
        _, law = _best_law(blocks, allowed, curvature, constant=constant, log_odds=log_odds)
        return allowed if law.gaussian else allowed.at(delta=0.0)

    def frame(self, allowed: Allowance, log_odds: float) -> BodyFrame:
        """Return the coordinates in which log odds that are so unknown are learned best."""
        return schema_frame(
            self.encoder, allowed, constant=self.constant, log_odds=log_odds, leaf=self.leaf
        )


#: Where rows are: in a ball, or in a body whose coordinates follow from what is spent and known.
Geometry = Frame | SchemaGeometry
