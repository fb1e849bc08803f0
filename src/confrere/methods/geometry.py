"""How much can be learned in a body, and which geometry suits it, from public facts alone.

A body is a product of cross-polytopes (an interval is one of a single column). Noise of density
``exp(-||b||)`` for its gauge is ``r U`` with ``r ~ Gamma(d + 1)`` and ``U`` uniform in the body, so
a coordinate in a factor of ``m`` columns has the variance ``(d+1)(d+2) 2/((m+1)(m+2))``.

A direction of prior variance ``t`` is seen through the curvature ``h = n v E[x^2]`` of the records
and a noise of variance ``s2``: of its signal the share ``th/(th + 1 + s2/h)`` survives, and
``A = (1 + s2/h) (t R)^{-1}`` is the ridge of the least error. The rate is dealt out so that most
signal survives, :data:`BELIEF` of the way. Constants: docs/geometry.md; nothing here is needed for
privacy: docs/proofs/geometry.md.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Literal, cast

import numpy as np
from scipy import special

from confrere.arrays import Floats
from confrere.data.encoding import SchemaEncoder
from confrere.data.features import SPREAD, BodyBlock, Form, Number
from confrere.data.frame import BodyFrame, Frame, l1_reach
from confrere.data.schema import PublicSchema
from confrere.errors import InvalidParameter
from confrere.kernel.noise import Body
from confrere.methods.allowance import CURVATURE, LOG_ODDS, SEEN, Allowance, free_ridge
from confrere.model import Model

Kind = Literal["number", "flag", "category", "bend", "constant"]
#: What shares the rate of the noise: intervals, one-hot blocks, bends of curves.
Group = Literal["lines", "corners", "bends"]
GROUPS: tuple[Group, ...] = ("lines", "corners", "bends")

#: How much a column of every kind can matter: the mean square of what a line does to the log-odds;
#: of a flag and of a level of a category, by itself.
SLOPE, FLAG, LEVEL = 2.0, 0.5, 1.0

#: What six hats between a curve's ends can do on top of its line, beside that: where mean and
#: deviation are known, so that a line is drawn where the records are, and where only bounds are.
BEND_OF_KNOWN, BEND = 0.25, 1.5

#: What the kernel of a curve has on its diagonal on top: a level of its own for every hat.
NUGGET = 0.05

#: Part of epsilon that is reckoned with for noise while the ridge is chosen.
_NOISE = 0.9

#: Shares of the rate are whole numbers of so many parts, the same on every machine.
_PARTS = 16


@dataclass(frozen=True)
class Factor:
    """One factor of a body: columns of which the magnitudes add up to one at most."""

    size: int  #: Number of columns
    kind: Kind  #: What they come from
    spread: float  #: Mean square of one of the columns, as far as public facts tell
    #: How many of the first columns are neighbouring hats between the ends of a curve
    smooth: int = 0
    known: bool = False  #: Whether mean and deviation of the number that is bent are public

    @property
    def weight(self) -> float:
        """Prior variance of one of its weights, beside others'."""
        if self.kind == "number":
            return SLOPE / self.spread
        if self.kind == "bend":
            return (BEND_OF_KNOWN if self.known else BEND) * SLOPE * max(1, self.smooth) / 6
        return FLAG if self.kind == "flag" else LEVEL

    @property
    def group(self) -> Group:
        if self.kind == "bend":
            return "bends"
        return "lines" if self.size == 1 else "corners"

    @cached_property
    def kernel(self) -> Floats:
        kernel = np.eye(self.size)
        kernel[: self.smooth, : self.smooth] = bend_kernel(self.smooth)
        return kernel

    @cached_property
    def scales(self) -> Floats:
        return np.asarray(np.linalg.eigvalsh(self.kernel))


#: The column of ones.
CONSTANT = Factor(1, "constant", 1.0)


def bend_kernel(hats: int) -> Floats:
    """Return the prior covariance of the hats between a curve's ends: an exponential's bridge."""
    if hats < 2:
        return np.eye(hats)
    places = np.arange(hats + 2)
    alike = np.exp(-np.abs(places[:, None] - places[None, :]) / (hats + 1))
    ends, between = [0, hats + 1], slice(1, hats + 1)
    across = alike[between, ends]
    bridge = alike[between, between] - across @ np.linalg.solve(alike[np.ix_(ends, ends)], across.T)
    return np.asarray(bridge * hats / np.trace(bridge) + NUGGET * np.eye(hats))


def coordinate_variance(dimension: int, size: int) -> float:
    return (dimension + 1) * (dimension + 2) * 2 / ((size + 1) * (size + 2))


def prior_scale(factors: Sequence[Factor], log_odds: float = LOG_ODDS) -> float:
    """Return what makes the factors' weights sum to the variance of a row's log-odds."""
    return log_odds / sum(factor.weight for factor in factors)


@dataclass(frozen=True, kw_only=True)
class ExpectedSignal:
    signal: float  #: Variance of the log-odds that is expected to survive the noise
    total: float  #: The variance that there is
    shares: Mapping[Group, float]  #: Of the rate of the noise

    @property
    def kept(self) -> float:
        return self.signal / self.total if self.total else 0.0


def noise_variances(factors: Mapping[Factor, int], rate: float) -> dict[Factor, float]:
    dimension = sum(count * factor.size for factor, count in factors.items())
    return {f: coordinate_variance(dimension, f.size) / rate**2 for f in factors}


def grouped(factors: Sequence[Factor]) -> dict[Group, Counter[Factor]]:
    found = {group: Counter(f for f in factors if f.group == group) for group in GROUPS}
    return {group: counts for group, counts in found.items() if counts}


def expected_signal(
    factors: Sequence[Factor],  # Of the rows, the constant among them
    allowed: Allowance,  # Of the fit
    curvature: float,  # Mean of ``p(1-p)`` that a declared base rate implies
    *,
    log_odds: float = LOG_ODDS,  # Prior variance of a row's log-odds around what is shrunk towards
    # All factors that there could be, where forms are compared: the log-odds are theirs
    among: Sequence[Factor] | None = None,
) -> ExpectedSignal:
    among = factors if among is None else among
    scale, records = prior_scale(among, log_odds), SEEN * allowed.records * curvature
    groups, rate = grouped(factors), reckoned_rate(allowed)
    # The most that survives in the groups so far, by how many parts of the rate they have.
    best: dict[int, tuple[float, tuple[int, ...]]] = {0: (0.0, ())}
    for counts in groups.values():
        found: dict[int, tuple[float, tuple[int, ...]]] = {}
        for parts in range(1, _PARTS + 1):
            noises = noise_variances(counts, rate * parts / _PARTS)
            own = sum(n * surviving(f, scale, noises[f], records) for f, n in counts.items())
            for had, (signal, given) in best.items():
                if signal + own > found.get(had + parts, (-1.0,))[0] * (1 + 1e-9):
                    found[had + parts] = signal + own, (*given, parts)
        best = found
    signal, chosen = best[_PARTS]
    return ExpectedSignal(
        signal=signal,
        total=scale * varied(among),
        shares={group: parts / _PARTS for group, parts in zip(groups, chosen, strict=True)},
    )


def varied(factors: Sequence[Factor]) -> float:
    """Return the variance of log odds that factors can make, beside others'; a constant none."""
    told = (factor for factor in factors if factor.kind != "constant")
    return sum(factor.weight * factor.spread * float(factor.scales.sum()) for factor in told)


def surviving(factor: Factor, scale: float, noise: Floats | float, records: float) -> float:
    """Return the signal of one factor that survives; a constant ranks nobody."""
    if factor.kind == "constant":
        return 0.0
    seen, prior = records * factor.spread, scale * factor.weight * factor.scales
    kept = prior * seen / (prior * seen + 1 + noise / seen)
    return float(factor.spread * (prior * kept).sum())


def reckoned_rate(allowed: Allowance) -> float:
    """Return the rate of the body's own noise, as it is reckoned with before the ridge is known."""
    return _NOISE * allowed.budget / (allowed.changed * allowed.loss.reach)


#: Part of epsilon that the Jacobian may cost.
JACOBIAN = 0.15

#: How far the model is believed: 1 is all the way, 0 deals out the rate by the number of columns
#: and shrinks all columns alike. Of several classes, where less survives, it would deal out nearly
#: all of the rate to lines: there it has no word in that.
BELIEF, BELIEF_OF_MANY = 0.6, 0.0

#: Roots are shorter by this share, so that rounding keeps rows in the unit ball.
_HAIR = 1e-9


def choose_geometry(
    factors: Sequence[Factor],  # Of the rows, the constant among them
    allowed: Allowance,  # Of the fit
    curvature: float,  # Mean of ``p(1-p)`` that a declared base rate implies
    log_odds: float = LOG_ODDS,  # Prior variance of a row's log-odds around what is shrunk towards
    leaf: Leaf = "Max",  # What noise is made for: the body itself, or a ball in its coordinates
) -> tuple[Body, float]:
    """Return the body that rows are in, in coordinates that suit it, and the ridge in them."""
    n_classes, rate = allowed.loss.n_classes, reckoned_rate(allowed)
    expected = expected_signal(factors, allowed, curvature, log_odds=log_odds)
    shares = hedged_shares(factors, expected, BELIEF if n_classes == 2 else BELIEF_OF_MANY)
    scale, records = prior_scale(factors, log_odds), SEEN * allowed.records * curvature
    levels = {}  # what columns have beside each other, by the model
    for group, counts in grouped(factors).items():
        for factor, noise in noise_variances(counts, rate * shares[group]).items():
            level = scale * factor.weight / (1 + noise / (records * factor.spread))
            levels[factor] = level
    # Belief moves what columns have beside each other; how much there is in all stays.
    inverses = [levels[factor] ** BELIEF * factor.kernel for factor in factors]
    reach, names = _reach(inverses), list(shares)
    ridge = 1 / _reach([levels[factor] * factor.kernel for factor in factors])
    if allowed.delta or leaf != "Max":  # noise is alike in all coordinates
        alike = allowed.noise(sum(factor.size for factor in factors))
        within = {factor: level**BELIEF / reach for factor, level in levels.items()}
        ridge = _ridge_of_alike(Counter(factors), within, alike, records, scale)
    roots = [np.linalg.cholesky(inverse / reach).T * (1 - _HAIR) for inverse in inverses]
    groups = tuple(names.index(factor.group) for factor in factors)
    if allowed.floor is None:
        least = least_ridge(JACOBIAN * allowed.budget, n_classes)
    else:
        least = free_ridge(allowed.budget, allowed.floor)
    return Body(tuple(roots), groups, tuple(shares.values())), max(ridge, least)


def _ridge_of_alike(
    factors: Mapping[Factor, int],
    levels: Mapping[Factor, float],  # Of the roots' squares over the kernels
    noise: float,  # Variance of the noise in the body's coordinates
    records: float,
    scale: float,
) -> float:
    """Return the ridge that suits noise that is alike in all coordinates: by signal, the mean."""
    ridges, signals = [], []
    for factor, count in factors.items():
        noises = noise / (levels[factor] * factor.scales)
        raised = float(np.median(1 + noises / (records * factor.spread)))
        ridges.append(raised * levels[factor] / (scale * factor.weight))
        signals.append(count * surviving(factor, scale, noises, records))
    return float(np.average(ridges, weights=signals)) if sum(signals) > 0 else 1.0


def hedged_shares(
    factors: Sequence[Factor], expected: ExpectedSignal, belief: float = BELIEF
) -> dict[Group, float]:
    """Return the shares of the rate that are used; bends keep what the model gives them."""
    counts, bends = grouped(factors), expected.shares.get("bends", 0.0)
    sizes = {group: sum(n * f.size for f, n in own.items()) for group, own in counts.items()}
    straight = {group: share for group, share in expected.shares.items() if group != "bends"}
    wanted = {group: s**belief * sizes[group] ** (1 - belief) for group, s in straight.items()}
    rest, whole = _PARTS * (1 - bends), sum(wanted.values())
    parts = {group: round(_PARTS * share) for group, share in expected.shares.items()}
    parts |= {group: max(1, round(rest * one / whole)) for group, one in wanted.items()}
    first = next(iter(parts))
    parts[first] += _PARTS - sum(parts.values())
    if parts[first] < 1:  # beside thousands of columns
        parts[max(parts, key=lambda group: parts[group])] -= 1 - parts[first]
        parts[first] = 1
    return {group: part / _PARTS for group, part in parts.items()}


def _reach(inverses: Sequence[Floats]) -> float:
    return sum(float(np.diagonal(inverse).max()) for inverse in inverses)


def least_ridge(jacobian: float, n_classes: int = 2) -> float:
    """Return the ridge at which the Jacobian costs so much, at the most; 0 where that is huge."""
    others = n_classes - 1
    bend = 4 if n_classes == 2 else n_classes
    each = jacobian / others
    return math.exp(-each) / (-bend * math.expm1(-each))


#: For which sensitivity set noise is made: the schema's where that pays, the schema's, an L2 ball.
GeometryName = Literal["auto", "schema", "l2"]

#: What noise is made for in a schema's coordinates: the body itself, or a ball there.
Leaf = Literal["Max", "L2", "L1"]

#: Numbers in all roots of a body at the most: more would be too long for a message, and a category
#: of a stranger's schema could fill any memory.
LARGEST_ROOTS = 1 << 22


def curvature_of(schema: PublicSchema, n_classes: int = 2) -> float:
    """Return the mean of ``p(1-p)`` that a declared base rate, or the classes' number, implies."""
    if n_classes > 2:
        return min(CURVATURE, 1.2 * (n_classes - 1) / n_classes**2)
    rate = None if schema.outcome is None else schema.outcome.base_rate
    return CURVATURE if rate is None else min(CURVATURE, rate * (1 - rate))


def fits(blocks: Sequence[BodyBlock]) -> bool:
    """Whether a body of these blocks is small enough to be written down."""
    return sum(block.size**2 for block in blocks) <= LARGEST_ROOTS


def factors_of(blocks: Sequence[BodyBlock]) -> tuple[list[Factor], tuple[Floats, ...]]:
    """Return the factors of a body, the constant among them, and the maps that lead to them.

    A curve's hats become a factor of one column, its line, and a factor of bends. A missing value's
    corner is one of the bends', or stands beside the line where there are none.
    """
    if not fits(blocks):
        raise InvalidParameter(
            f"geometry='schema' takes a category of up to {math.isqrt(LARGEST_ROOTS)} values, or "
            "several shorter ones; use geometry='l2'."
        )
    factors: list[Factor] = []
    turns: list[Floats] = []
    for block in blocks:
        hats = block.smooth
        if not hats:
            factors.append(Factor(block.size, cast("Kind", block.kind), block.spread))
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
    bent = any(block.smooth for block in blocks)
    return factors, tuple(turns) if bent else ()


def expect(schema: PublicSchema, form: Form, allowed: Allowance) -> ExpectedSignal:
    """Return what a form is expected to learn of one and the same log-odds, those of curves."""
    among, factors = (factors_of(schema.encoder(form=f).blocks())[0] for f in ("curves", form))
    curvature = allowed.curvature or curvature_of(schema, allowed.loss.n_classes)
    own = allowed.variance
    return expected_signal(factors, allowed, curvature, log_odds=own, among=among)


@lru_cache(maxsize=64)  # asked while one fit is planned, encoded, priced and kept
def choose_form(schema: PublicSchema, geometry: GeometryName, allowed: Allowance) -> Form:
    """Return how a schema's columns are encoded: a rule of public facts.

    ``"auto"`` leaves to the ball a schema with importances, whose columns are weighted by them. Of
    several classes lines are better than curves, or as good, on all tables that were tried.
    """
    auto = geometry == "auto"
    if auto and schema.has_importances:
        return "standardised"
    if geometry == "l2" or (auto and not fits(schema.encoder(form="curves").blocks())):
        return "standardised"
    undecided = any(isinstance(f, Number) and f.curve == "auto" for f in schema.features)
    if allowed.loss.n_classes > 2 or not undecided:
        return "linear"
    lines, curves = (expect(schema, form, allowed).signal for form in ("linear", "curves"))
    return "curves" if curves > lines else "linear"


@dataclass(frozen=True, eq=False)
class SchemaGeometry:
    encoder: SchemaEncoder  #: Of a form for bodies
    constant: bool = True  #: Whether there is an intercept
    leaf: Leaf = "Max"  #: What noise is made for: the body itself, or a ball in its coordinates
    #: Positions of the schema's columns that rows consist of; all unless given
    columns: Sequence[int] | None = None

    def frame(self, allowed: Allowance, log_odds: float = LOG_ODDS) -> BodyFrame:
        """Return coordinates for a fit around what leaves so much of a row's log odds open."""
        encoder, blocks, constant = self.encoder, self.encoder.blocks(), self.constant
        if self.columns is not None:
            blocks = tuple(blocks[j] for j in self.columns)
        factors, turns = factors_of(blocks)
        factors = factors if constant else factors[:-1]
        bend = allowed.curvature or curvature_of(encoder.schema, allowed.loss.n_classes)
        body, ridge = choose_geometry(factors, allowed, bend, log_odds, self.leaf)
        if constant and (loss := allowed.loss).tied:  # levels have no more than is proved
            body = replace(body, roots=(*body.roots[:-1], np.fmin(body.roots[-1], loss.share**0.5)))
        if self.leaf != "L1":
            return BodyFrame(body, ridge, encoder.norm, constant, turns)
        # Rows of sums of magnitudes up to one are shorter, and weights as much longer.
        short = (1 - 1e-9) / l1_reach(body.roots)
        body = replace(body, roots=tuple(short * root for root in body.roots))
        ridge = max(short**2 * ridge, free_ridge(allowed.budget))
        return BodyFrame(body, ridge, encoder.norm, constant, turns, "l1")


# --- what to expect -------------------------------------------------------------------------------

#: Area of the best model without privacy, of the form that is fitted, where nobody says what it is.
BEST = 0.8

#: A score that keeps a share of the log odds' variance is less apart by this power of its root: in
#: a schema's body, by so much more where all columns are numbers with bounds alone, and in a ball.
#: Columns tell in part the same, and what noise hides in one others say; the less is declared, the
#: less of what noise leaves is where the records are. What experts know is counted once: power 1.
SHAPED, BOUNDED, PLAIN, OPINION = 0.2, 0.8, 0.5, 1.0

#: What signs of experts know of the log odds' variance (alone they rank .8 as far apart as the best
#: model), and the factor from which on they are believed.
KNOWN, TRUSTED = 0.64, 0.7

#: The deviation over draws: beside what is lost, and the least. And what is too little to pay for.
LOST, LEAST, GAIN = 0.3, 0.008, 0.002


@dataclass(frozen=True)
class ExpectedArea:
    """What a fit ranks with: ``Phi(Phi^-1(best) kept^(g/2))``, 8 of 10 draws from low to high."""

    kept: float  #: Share of the log odds' variance that is expected to survive
    best: float = BEST  #: The area without privacy of the best model of this form: a guess
    exponent: float = SHAPED

    def __post_init__(self) -> None:
        if not 0.5 < self.best < 1:
            raise InvalidParameter("auc must lie strictly between 0.5 and 1.")

    @property
    def auc(self) -> float:
        return float(special.ndtr(special.ndtri(self.best) * self.kept ** (self.exponent / 2)))

    @property
    def deviation(self) -> float:
        """Over draws of the noise and of the records."""
        return math.hypot(LOST * (self.best - self.auc), LEAST)

    @property
    def low(self) -> float:
        return max(0.0, self.auc - 1.28 * self.deviation)

    @property
    def high(self) -> float:
        return min(self.best, self.auc + 1.28 * self.deviation)

    def at(self, best: float) -> ExpectedArea:
        return replace(self, best=best)

    def near(self, variance: float) -> ExpectedArea:
        """Return the same around what leaves so much of the log odds' variance open."""
        return replace(self, kept=1 - min(1.0, variance / LOG_ODDS) * (1 - self.kept))

    def with_experts(self, trust: float = 1.0) -> ExpectedArea:
        """Return the same around signs that are believed so far, from 0 to 1: nothing is lost."""
        power = self.exponent + trust * (OPINION - self.exponent)
        around = replace(self.near(LOG_ODDS * (1 - KNOWN * trust)), exponent=power)
        return max(self, around, key=lambda area: area.auc)

    def gain(self, known: float) -> float:
        """Return how much area it adds to a score that keeps the share ``known``."""
        return self.auc - replace(self, kept=known).auc

    def __str__(self) -> str:
        return f"{self.auc:.3f}, 8 of 10 draws between {self.low:.3f} and {self.high:.3f}"


#: What signs of experts reach, all alone.
OF_EXPERTS = ExpectedArea(KNOWN, exponent=OPINION)


def kept_in_ball(allowed: Allowance, size: int, curvature: float = CURVATURE) -> float:
    """Return the share of the log odds' variance that survives in a ball of so many weights."""
    curved = SEEN * allowed.records * min(CURVATURE, curvature) / size
    kept = LOG_ODDS * curved
    return kept / (kept + 1 + allowed.noise(size) / curved) if curved else 0.0


#: Where rows are: in a ball, or in a body whose coordinates follow from what is spent and known.
Geometry = Frame | SchemaGeometry


def expected_in(space: Geometry, allowed: Allowance, log_odds: float = LOG_ODDS) -> ExpectedArea:
    if isinstance(space, Frame):
        area = ExpectedArea(kept_in_ball(allowed, space.size), exponent=PLAIN)
        return area.near(log_odds)
    schema, factors = space.encoder.schema, factors_of(space.encoder.blocks())[0]
    curvature = curvature_of(schema, allowed.loss.n_classes)
    found = expected_signal(factors, allowed, curvature, log_odds=log_odds)
    return ExpectedArea(found.kept, exponent=exponent_of(schema)).near(log_odds)


def exponent_of(schema: PublicSchema) -> float:
    """Return the power of what is kept, by how many columns are numbers with bounds alone."""
    bounded = [isinstance(one, Number) and one.mean is None for one in schema.features]
    return SHAPED + BOUNDED * float(np.mean(bounded))


def expected_of(model: Model, *, experts: bool) -> ExpectedArea | None:
    """Return what a model of two classes is expected to rank with, of priors near experts' only."""
    facts, encoder = model.facts, model.encoder
    if encoder is None or encoder.form == "standardised" or facts.kept is None:
        return None
    area = ExpectedArea(facts.kept, exponent=exponent_of(encoder.schema))
    if facts.prior is None:
        return area
    return area.with_experts(min(1.0, abs(facts.prior.factor) / TRUSTED)) if experts else None
