"""How much can be learned in a body, and which geometry suits it, from public facts alone.

A body is a product of cross-polytopes (an interval is one of a single column). Noise of density
``exp(-||b||)`` for its gauge is ``r U`` with ``r ~ Gamma(d + 1)`` and ``U`` uniform in the body, so
a coordinate in a factor of ``m`` columns has the variance ``(d+1)(d+2) 2/((m+1)(m+2))``.

The log-odds of a row have the prior variance :data:`LOG_ODDS`, dealt out to the factors by how much
each of them can matter. A direction of prior variance ``t`` is seen through the curvature
``h = n v E[x^2]`` of the records and a noise of variance ``s2``: of its signal the share
``th/(th + 1 + s2/h)`` survives. Factors come in three groups, straight lines and flags, one-hot
blocks, and bends of curves, and the rate of the noise is dealt out to them so that most signal
survives. The same number says whether bends pay at all, and what a planner may expect. The
constants were chosen on some tables and confirmed on others, see docs/geometry.md.

Roots, groups and the ridge that suits a body follow from that model: with the best shares of the
rate most signal survives, and ``A = (1 + s2/h) (t R)^{-1}`` is the ridge of the least expected
squared error. But the model guesses which columns matter, and a wrong guess costs most where it is
sure. So what is used lies between its answer and that of somebody who knows nothing, :data:`BELIEF`
of the way on the scale of logarithms. A curve is a line with bends, which get their own part of the
rate. Nothing here is needed for privacy: every block ridge has its exact price, see
docs/proofs/geometry.md.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
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
from confrere.methods.allowance import (
    CURVATURE,
    LOG_ODDS,
    PLAIN,
    SEEN,
    Allowance,
    ExpectedArea,
    allowance,
    free_ridge,
    kept_in_ball,
    noise_variance,
)
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
        """Which others it shares its part of the rate with."""
        if self.kind == "bend":
            return "bends"
        return "lines" if self.size == 1 else "corners"

    @cached_property
    def kernel(self) -> Floats:
        """The prior covariance of its weights, of scale one."""
        kernel = np.eye(self.size)
        kernel[: self.smooth, : self.smooth] = bend_kernel(self.smooth)
        return kernel

    @cached_property
    def scales(self) -> Floats:
        """The variances of the kernel's principal directions."""
        return np.asarray(np.linalg.eigvalsh(self.kernel))


#: The column of ones.
CONSTANT = Factor(1, "constant", 1.0)


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
    shares: Mapping[Group, float]  #: Of the rate of the noise

    @property
    def kept(self) -> float:
        """The share of the signal that survives."""
        return self.signal / self.total if self.total else 0.0


def noise_variances(
    factors: Mapping[Factor, int],  # Of one group, and how often each is there
    rate: float,  # The group's part of it
) -> dict[Factor, float]:
    """Return the variance of the noise in every coordinate of each factor."""
    dimension = sum(count * factor.size for factor, count in factors.items())
    return {f: coordinate_variance(dimension, f.size) / rate**2 for f in factors}


def grouped(factors: Sequence[Factor]) -> dict[Group, Counter[Factor]]:
    """Return the groups that there are, each with its factors and how often they are there."""
    found = {group: Counter(f for f in factors if f.group == group) for group in GROUPS}
    return {group: counts for group, counts in found.items() if counts}


def expected_signal(
    factors: Sequence[Factor],  # Of the rows, the constant among them
    *,
    n_samples: int,  # Public number of records
    curvature: float,  # Mean of ``p(1-p)`` that a declared base rate implies
    rate: float,  # Of the noise that weights are seen through
    log_odds: float = LOG_ODDS,  # Prior variance of a row's log-odds around what is shrunk towards
    # All factors that there could be, where forms are compared: the log-odds are theirs
    among: Sequence[Factor] | None = None,
) -> ExpectedSignal:
    """Return how much can be learned in a body, with the best shares of its groups."""
    among = factors if among is None else among
    scale, records = prior_scale(among, log_odds), SEEN * n_samples * curvature
    groups = grouped(factors)
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
        total=sum(
            scale * factor.weight * factor.spread * float(factor.scales.sum())
            for factor in among
            if factor.kind != "constant"
        ),
        shares={group: parts / _PARTS for group, parts in zip(groups, chosen, strict=True)},
    )


def surviving(factor: Factor, scale: float, noise: Any, records: float) -> float:
    """Return the signal of one factor that survives; a constant ranks nobody."""
    if factor.kind == "constant":
        return 0.0
    seen, prior = records * factor.spread, scale * factor.weight * factor.scales
    kept = prior * seen / (prior * seen + 1 + noise / seen)
    return float(factor.spread * (prior * kept).sum())


def reckoned_rate(allowed: Allowance) -> float:
    """Return the rate of the body's own noise, as it is reckoned with before the ridge is known."""
    return _NOISE * allowed.budget / (allowed.changed * allowed.reach)


#: Part of epsilon that the Jacobian may cost.
JACOBIAN = 0.15

#: How far the model is believed: 1 is all the way, 0 deals out the rate by the number of columns
#: and shrinks all columns alike. Of several classes, where less survives, it would deal out nearly
#: all of the rate to lines: there it has no word in that.
BELIEF, BELIEF_OF_MANY = 0.6, 0.0

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
    rate: float,  # Of the noise that is reckoned with
    log_odds: float = LOG_ODDS,  # Prior variance of a row's log-odds around what is shrunk towards
    belief: float = BELIEF,  # How far the model is believed when the rate is dealt out
    # Variance of the noise in the body's coordinates, where it is alike in all of them
    alike: float | None = None,
) -> ChosenBody:
    """Return roots, groups and ridge from public facts alone."""
    expected = expected_signal(
        factors, n_samples=n_samples, curvature=curvature, rate=rate, log_odds=log_odds
    )
    shares, scale = hedged_shares(factors, expected, belief), prior_scale(factors, log_odds)
    records = SEEN * n_samples * curvature
    levels = {}  # what columns have beside each other, by the model
    for group, counts in grouped(factors).items():
        for factor, noise in noise_variances(counts, rate * shares[group]).items():
            level = scale * factor.weight / (1 + noise / (records * factor.spread))
            levels[factor] = level
    # Belief moves what columns have beside each other; how much there is in all stays.
    inverses = [levels[factor] ** BELIEF * factor.kernel for factor in factors]
    reach, names = _reach(inverses), list(shares)
    ridge = 1 / _reach([levels[factor] * factor.kernel for factor in factors])
    if alike is not None:
        within = {factor: level**BELIEF / reach for factor, level in levels.items()}
        ridge = _ridge_of_alike(Counter(factors), within, alike, records, scale)
    return ChosenBody(
        tuple(
            np.asarray(np.linalg.cholesky(inverse / reach).T * (1 - _HAIR)) for inverse in inverses
        ),
        tuple(names.index(factor.group) for factor in factors),
        tuple(shares.values()),
        max(ridge, least),
    )


def _ridge_of_alike(
    factors: Mapping[Factor, int],
    levels: Mapping[Factor, float],  # Of the roots' squares over the kernels
    noise: float,
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
        group: max(1, round(_PARTS * rest * wanted[group] / sum(wanted.values())))
        if group in wanted
        else round(_PARTS * share)
        for group, share in expected.shares.items()
    }
    first = next(iter(parts))
    parts[first] += _PARTS - sum(parts.values())
    if parts[first] < 1:  # beside thousands of columns
        parts[max(parts, key=lambda group: parts[group])] -= 1 - parts[first]
        parts[first] = 1
    return {group: part / _PARTS for group, part in parts.items()}


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


def weight_noise(
    factors: Sequence[Factor],  # Of the rows, the constant among them
    *,
    n_samples: int,  # Public number of records
    rate: float,  # Of the noise, and in the body's coordinates
    ridge: float,
    curvature: float,  # As in :func:`choose_geometry`
) -> list[tuple[Floats, Floats]]:
    """Return the covariance of the noise and the ridge of every factor, as public facts tell them.

    The minimiser moves by ``(H + A)^-1 b`` for noise ``b`` of such a covariance and the block
    ridge ``A``; ``H`` only the records know.
    """
    body = choose_geometry(
        factors, n_samples=n_samples, least=ridge, curvature=curvature, rate=rate
    )
    groups, found = list(grouped(factors).values()), []
    for factor, root, group in zip(factors, body.roots, body.groups, strict=True):
        noise = noise_variances(groups[group], rate * body.shares[group])[factor]
        inverse = np.linalg.inv(root)
        found.append((noise * np.eye(factor.size), np.asarray(ridge * inverse @ inverse.T)))
    return found


#: For which body noise is made: the schema's where that is known, a ball, or the schema's.
Noise = Literal["auto", "ball", "schema"]

#: What noise is made for in a schema's coordinates: the body itself, or a ball there.
Leaf = Literal["Max", "L2", "L1"]

#: Numbers in all roots of a body at the most: more would be too long for a message, and a category
#: of a stranger's schema could fill any memory.
LARGEST_ROOTS = 1 << 22


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


def factors_of(blocks: Sequence[BodyBlock]) -> tuple[list[Factor], tuple[Floats, ...]]:
    """Return the factors of a body, the constant among them, and the maps that lead to them.

    A curve is a line, and what is between the first knot and the last: its hats become a factor
    of one column and a factor of bends. A missing value's corner is one of the bends', or stands
    beside the line where there are none.
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
    """Return what lines or curves in a schema's body are expected to learn.

    Of one and the same log-odds, those of curves, so that forms can be compared.
    """
    among, factors = (factors_of(schema.encoder(form=f).blocks())[0] for f in ("curves", form))
    return expected_signal(
        factors,
        n_samples=allowed.records,
        curvature=curvature_of(schema, allowed.loss.n_classes),
        rate=reckoned_rate(allowed),
        among=among,
    )


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
    # Whoever paid for its facts.
    return _chosen_form(replace(schema, paid=()), noise, allowed, each)


@lru_cache(maxsize=64)  # asked while one fit is planned, encoded, priced and kept
def _chosen_form(schema: PublicSchema, noise: Noise, allowed: Allowance, each: bool) -> Form:
    if noise == "auto" and (schema.has_importances or each):
        return "standardised"
    if noise == "ball" or (noise == "auto" and not fits(schema.encoder(form="curves").blocks())):
        return "standardised"
    undecided = any(isinstance(f, Number) and f.curve == "auto" for f in schema.features)
    if allowed.loss.n_classes > 2 or not undecided:
        return "linear"
    lines, curves = (expect(schema, form, allowed).signal for form in ("linear", "curves"))
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
    allowed: Allowance,  # Of the fit
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
    factors, turns = factors_of(blocks)
    factors = factors if constant else factors[:-1]
    alike = None
    if allowed.delta or leaf != "Max":
        size = sum(factor.size for factor in factors)
        pure = not allowed.delta
        alike = noise_variance(allowed.budget, size, allowed.reach) if pure else allowed.sigma**2
    chosen = choose_geometry(
        factors,
        least=least_ridge(JACOBIAN * allowed.budget, n_classes),
        rate=reckoned_rate(allowed),
        n_samples=allowed.records,
        curvature=curvature,
        log_odds=log_odds,
        belief=BELIEF if n_classes == 2 else BELIEF_OF_MANY,
        alike=alike,
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

    def frame(self, allowed: Allowance, log_odds: float) -> BodyFrame:
        """Return the coordinates in which log odds that are so unknown are learned best."""
        return schema_frame(
            self.encoder, allowed, constant=self.constant, log_odds=log_odds, leaf=self.leaf
        )


#: Where rows are: in a ball, or in a body whose coordinates follow from what is spent and known.
Geometry = Frame | SchemaGeometry


def expected_in(
    space: Geometry,  # Where rows are
    allowed: Allowance,  # Of the fit; of an average, at epsilon over the root of its parties
    log_odds: float = LOG_ODDS,  # What is left open by what is shrunk towards
) -> ExpectedArea:
    """Return what a fit is expected to rank with."""
    if isinstance(space, Frame):
        kept = kept_in_ball(allowed, space.size)
        return ExpectedArea(kept, exponent=PLAIN).near(log_odds)
    found = expected_signal(
        factors_of(space.encoder.blocks())[0],
        n_samples=allowed.records,
        curvature=curvature_of(space.encoder.schema, allowed.loss.n_classes),
        rate=reckoned_rate(allowed),
        log_odds=log_odds,
    )
    return ExpectedArea(found.kept).near(log_odds)


def expected_of(model: Model, epsilon: float) -> ExpectedArea | None:
    """Return what a released model of two classes is expected to rank with, by its public facts.

    As if its parties had one size. Near a prior it depends on how far that was believed.
    """
    facts, encoder = model.facts, model.encoder
    if encoder is None or encoder.form == "standardised" or not facts.n_samples:
        return None
    if facts.prior is not None or len(model.classes) > 2 or facts.method in ("sums", "ofaa"):
        return None
    allowed = allowance(epsilon / math.sqrt(facts.parties or 1), facts.n_samples)
    return expected_in(SchemaGeometry(encoder.transformer()), allowed)
