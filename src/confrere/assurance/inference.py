"""Odds ratios, intervals and p-values that reckon with the noise of a private fit: experimental.

A release of ``purpose="inference"`` is inverted, not linearised: its estimating equation is matched
on public rows. What rows are like is asked of the records, at a price: means, squares and shares of
every column, then its largest correlation with another. Populations are drawn that have these, and
how far their answers lie apart is part of every interval.

Proof, and what is asymptotic: docs/proofs/intervals.md.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import combinations, pairwise, product, starmap
from typing import Any, ClassVar, NamedTuple, Self, cast

import numpy as np
from scipy import linalg, special
from typing_extensions import override

from confrere.arrays import Floats, Integers
from confrere.assurance.cohort import counts
from confrere.catalogue import Method
from confrere.data.cells import Coded, n_rows_of
from confrere.data.encoding import SchemaEncoder, frequencies
from confrere.data.features import CENTER, INDICATOR, ZEROS, Category, Feature, Flag
from confrere.errors import ConfrereError, InvalidData, InvalidParameter
from confrere.kernel.guarantee import Guarantee, Neighbours, at_most, check_epsilon, exact, minus
from confrere.kernel.ledger import Origin
from confrere.kernel.measurements import Point
from confrere.kernel.noise import RandomSource
from confrere.ledger import Budget, Ledger, Receipt, charged
from confrere.methods.asking import (
    Arrays,
    Ask,
    Labels,
    Measured,
    Protocol,
    Reader,
    Rows,
    Told,
    drive,
    stacked,
)
from confrere.methods.geometry import factors_of
from confrere.methods.plan import LinearPlan, PublicFacts
from confrere.methods.sums import STEPS
from confrere.model import Facts, Linear
from confrere.model.summary import Effect, Summary, TermLine, effects
from confrere.release import quality_digest
from confrere.simulation import Seed

THEOREM = "docs/proofs/intervals.md"

#: Part of all that is spent that suits these questions, beside the fit.
ASKED = 0.2

#: Part of the price that means, squares and shares have; largest correlations have the rest.
_FIRST = 0.6

#: What noise and unknown populations leave of an interval is made so much wider: a tree is not all
#: that correlations are. And a group is not told of whose count is not so many scales of its noise.
_SAFE, _GROUP = 1.2, 4.0

#: Populations that are drawn, and public rows of each.
_POPULATIONS, _ROWS = 12, 1500

#: Where quantiles are computed; between them is a line.
_EVEN = (np.arange(100) + 0.5) / 100

#: Deviation of a column's weight before any data, in log odds from its middle to its end.
_PRIOR = 3.0

#: Columns are cut so many deviations from their mean where correlations are asked for, in steps.
_CUT, _FINE = 2.5, 64

#: Rows that are multiplied at a time.
_BLOCK = 1 << 16

#: Largest correlation that is reckoned with; and what columns tell of one together, beside the one
#: that is most alike to it: the power of what that leaves open. About 1.3 on the tables that it was
#: chosen on, but not for every column alike.
_ALIKE, _TOGETHER = 0.97, 2.5

#: So many flags or more may be one category.
_ALIKE_FLAGS = 3

#: Nothing is printed where noise alone moves a person's log odds by more, in deviations; and no
#: coefficient whose interval is wider to either side, or that the prior says much of.
_TAU, _HALF, _OWN = 2.0, 1.5, 0.4

#: Nor anything where log odds of the people who are drawn deviate by more: columns nearly decide
#: the outcome, and who is left undecided does not follow from means and correlations.
_DECIDED = 1.5

_NOTE = "log odds and odds ratios, each by itself; too narrow where one column tells another"
_AHEAD = "how far they will reach around no effect; nothing was spent"


@dataclass(frozen=True, eq=False)
class _Law:
    """How one raw column is distributed in a population."""

    mean: Floats
    cov: Floats
    #: From numbers that are even between 0 and 1 to rows
    rows: Callable[[Floats], Floats]


def _flag(share: float) -> _Law:
    cov = np.array([[4 * share * (1 - share)]])
    return _Law(np.array([2 * share - 1]), cov, lambda at: np.where(at < share, 1.0, -1.0)[:, None])


def _corners(shares: Floats, whole: bool) -> _Law:
    shares = shares / (shares.sum() if whole else max(1.0, float(shares.sum())))
    ends, places = np.cumsum(shares), np.arange(len(shares))
    if whole:
        ends[-1] = 1.0

    def rows(at: Floats) -> Floats:
        return np.asarray(np.searchsorted(ends, at)[:, None] == places, dtype=np.float64)

    return _Law(shares, np.diag(shares) - np.outer(shares, shares), rows)


def _number(mean: float, variance: float, shares: Floats) -> _Law:
    """Return a beta law from -1 to 1 of a number, beside shares of corners where it is zero."""
    most = 1 - mean**2
    variance = float(np.clip(variance, 0.004 * most, 0.9 * most))
    spread = most / variance - 1
    both = np.append(mean, shares)
    cov = np.diag(np.append(variance + mean**2, shares)) - np.outer(both, both)

    def rows(at: Floats) -> Floats:
        sides = (1 + mean) / 2 * spread, (1 - mean) / 2 * spread
        first = 2 * np.interp(at, _EVEN, special.betaincinv(*sides, _EVEN)) - 1
        # Any order that is not the number's own will do.
        other = np.modf(997 * at)[0]
        return np.column_stack([first, *(other < share for share in shares)])

    return _Law(both, cov, rows)


@dataclass(frozen=True, eq=False)
class _Column:
    """One raw column in the coordinates of the noise, as its schema declares it."""

    feature: Feature
    table: Floats  #: What every vertex is: magnitudes of a row add up to one at most

    @property
    def line(self) -> bool:
        """Whether the first number is told by mean and square; others are shares of corners."""
        if isinstance(self.feature, Flag):
            return self.feature.missing in (CENTER, INDICATOR)
        return not isinstance(self.feature, Category)

    @property
    def whole(self) -> bool:
        """Whether every record is at one of the corners."""
        elsewhere = getattr(self.feature, "unknown", None) == ZEROS
        return not elsewhere and self.feature.missing != CENTER

    @property
    def counted(self) -> Integers:
        """What every vertex adds to the sums that are asked for."""
        x = self.table
        if self.line:
            # Half the square: no vertex is farther from another than the ends are.
            x = np.column_stack([x[:, 0], x[:, 0] ** 2 / 2, x[:, 1:]])
        elif isinstance(self.feature, Flag):
            x = (x + 1) / 2
        return np.rint(STEPS * x).astype(np.int64)

    def law(self, seen: Floats, scale: float, n: int, draws: np.random.Generator) -> _Law:
        """Return a law that sums with noise of this scale speak for."""
        cells = 2 if self.line or isinstance(self.feature, Flag) else len(seen)
        shares = [_share(float(one), scale, n, cells, draws) for one in seen[2 * self.line :]]
        if not self.line:
            return self._of_shares(np.array(shares))
        mean = float(np.clip((seen[0] + scale * draws.laplace()) / n, -0.97, 0.97))
        grid = (1 - mean**2) * np.geomspace(0.004, 0.9, 200)
        told = -np.log(grid) - np.abs(seen[1] - n * (grid + mean**2) / 2) / scale
        if getattr(self.feature, "sd", None) is not None:
            first, square = self.expected(1)[:2]
            told -= np.log(grid / max(2 * square - first**2, 1e-6)) ** 2 / 2
        return _number(mean, _drawn(grid, told, draws), np.array(shares))

    def expected(self, n: int) -> Floats:
        """Return the sums that declared facts imply."""
        return np.asarray(n / STEPS * frequencies(self.feature) @ self.counted)

    def _of_shares(self, shares: Floats) -> _Law:
        if isinstance(self.feature, Flag):
            return _flag(float(shares[0]))
        return _corners(shares, self.whole)


def _share(seen: float, scale: float, n: int, cells: int, draws: np.random.Generator) -> float:
    """Return a share that a noised count speaks for, of so many cells that were alike before."""
    least = 2 / max(n, 200)
    grid = np.concatenate([np.geomspace(least, 0.02, 60), np.linspace(0.02, 1 - least, 180)[1:]])
    told = (cells - 2) * np.log1p(-grid) - np.abs(seen - grid * n) / scale
    return _drawn(grid, told, draws)


def _drawn(grid: Floats, told: Floats, draws: np.random.Generator) -> float:
    """Return a place of a grid, by the logarithm of a density there."""
    below = np.cumsum(np.exp(told - told.max()) * np.gradient(grid))
    return float(grid[np.searchsorted(below, draws.random() * below[-1])])


@dataclass(frozen=True, eq=False)
class _Space:
    """Where a model was learned: its columns, ridge, noise and centre there; all of it public."""

    columns: tuple[_Column, ...]
    terms: tuple[Effect, ...]  #: What is said, in those columns and the constant
    ridges: Floats  #: Of every column, the constant's last
    noises: Floats  #: Variances
    centre: Floats

    @classmethod
    def of(cls, encoder: SchemaEncoder, facts: Facts) -> Self:
        """Return that of an encoder's lines, with ridges and noises of every factor."""
        sizes = [factor.size for factor in factors_of(encoder.blocks())[0]]
        ridges, noises = (np.repeat(one or (), sizes) for one in (facts.ridges, facts.noises))
        outcome, centre = encoder.schema.outcome, np.zeros(len(ridges))
        if outcome is not None and outcome.base_rate is not None:
            centre[-1] = special.logit(outcome.base_rate)
        each = zip(encoder.schema.features, encoder.columns, strict=True)
        columns = tuple(_Column(feature, column.table) for feature, column in each)
        return cls(columns, tuple(effects(encoder)), ridges, noises, centre)

    @property
    def parts(self) -> list[slice]:
        ends = np.cumsum([0, *(one.table.shape[1] for one in self.columns)]).tolist()
        return list(starmap(slice, pairwise(ends)))

    @property
    def contrasts(self) -> Floats:
        """A row per term."""
        return np.array([np.append(one.moved, one.constant) for one in self.terms])

    def weights(self, model: Linear) -> Floats:
        """Return a model's weights in these columns, the constant's last."""
        assert model.encoder is not None
        return np.append(model.coef[0] / model.encoder.transformer().norm, model.intercept[0])

    # What is asked of the records.

    def sums(self, epsilon: float) -> Point:
        """Return the first measurement: means, squares and shares of all columns."""
        return _asked(epsilon, sum(_farthest(one.counted) for one in self.columns))

    def summed(self, codes: Sequence[Integers]) -> Integers:
        pairs = zip(self.columns, codes, strict=True)
        often = [(one, np.bincount(at, minlength=len(one.table))) for one, at in pairs]
        return np.concatenate([times @ one.counted for one, times in often])

    def split(self, seen: Floats) -> list[Floats]:
        """Return the sums of every column."""
        ends = np.cumsum([one.counted.shape[1] for one in self.columns])
        return np.split(np.asarray(seen, dtype=np.float64) / STEPS, ends[:-1])

    def missed(self, seen: Floats, scale: float, n: int) -> Floats:
        """Return how many times larger the smallest group of every term would have to be."""
        sizes: list[Floats] = []
        for one, own in zip(self.columns, self.split(seen), strict=True):
            first, others = own[0], own[1 + one.line :]
            if isinstance(one.feature, Flag):
                yes = (n + first) / 2 if one.line else first
                sizes.append(np.append(min(yes, n - yes), others))
            else:
                sizes.append(np.append(math.inf if one.line else first, others))
        wanted = _GROUP * scale / np.maximum(np.concatenate(sizes), scale / _GROUP)
        own_terms = (one.moved * (1 - one.constant) != 0 for one in self.terms)
        return np.array([float(wanted[moved].max(initial=0.0)) for moved in own_terms])

    def scaled(self, seen: Floats, n: int) -> tuple[list[Integers], Floats]:
        """Return what vertices count as where correlations are asked for, and deviations of it."""
        tables, deviations = [], []
        for one, own in zip(self.columns, self.split(seen), strict=True):
            x = one.table
            if one.line:
                mean = np.clip(np.append(own[0], own[2:]) / n, -0.97, 0.97)
                square = np.clip(np.append(2 * own[1], own[2:]) / n, 0.0, 1.0)
            elif isinstance(one.feature, Flag):
                mean, square = np.clip(2 * own / n - 1, -1.0, 1.0), np.ones(1)
            else:
                mean = square = np.clip(own / n, 0.0, 1.0)
            spread = np.sqrt(np.maximum(square - mean**2, 1e-3))
            away = (x - mean) / spread
            weight = np.minimum(1.0, _CUT / np.abs(away).max(axis=0))
            cut = away * weight  # corners of a category keep their places
            if one.line:
                cut[:, 0] = np.clip(away[:, 0], -_CUT, _CUT)
                usual = _number(float(mean[0]), float(spread[0] ** 2), np.empty(0)).rows(_EVEN)
                weight[0] = np.clip((usual - mean[0]) / spread[0], -_CUT, _CUT).std()
            tables.append(np.rint(_FINE * cut).astype(np.int64))
            deviations.append(_FINE * weight)
        return tables, np.concatenate(deviations)

    def largest(self, epsilon: float, tables: Sequence[Integers], most: int) -> Point:
        """Return the second measurement: every column's largest product with another's."""
        longest = max(int(np.abs(table).max()) for table in tables)
        return _asked(epsilon, 2 * longest * most)

    def products(
        self, codes: Sequence[Integers], tables: Sequence[Integers], most: int
    ) -> Integers:
        """Return them: whole numbers, exact in doubles, of rows whose magnitudes add up to most."""
        total = np.zeros((self.parts[-1].stop, self.parts[-1].stop))
        for begin in range(0, len(codes[0]), _BLOCK):
            part = slice(begin, begin + _BLOCK)
            each = zip(tables, codes, strict=True)
            rows = np.hstack([table[at[part]] for table, at in each]).astype(np.float64)
            rows *= np.minimum(1.0, most / np.maximum(np.abs(rows).sum(axis=1), 1.0))[:, None]
            rows = np.trunc(rows)
            total += rows.T @ rows
        for own in self.parts:
            total[own, own] = 0.0
        return np.asarray(np.abs(total).max(axis=1), dtype=np.int64)

    # What populations follow from it.

    def population(self, laws: Sequence[_Law], alike: Floats, draws: np.random.Generator) -> Floats:
        """Return public rows of columns with these laws and these largest correlations.

        Every column hangs on an earlier one, drawn among those that are as much alike to others: a
        tree, in which the product along a path is the correlation.
        """
        cov, parts = linalg.block_diag(*(law.cov for law in laws)), self.parts
        deviations = np.sqrt(np.maximum(np.diag(cov), 1e-12))
        order = sorted(range(len(parts)), key=lambda f: -float(alike[parts[f]].max()))
        before = np.empty(0, dtype=np.intp)
        for f in order:
            own = np.arange(parts[f].start, parts[f].stop)
            if len(before):
                wanted = float(alike[own].max())
                near = before[alike[before] >= 0.8 * wanted]
                parent = int(draws.choice(near if len(near) else before))
                top = own[int(np.argmax(alike[own]))]
                # Corners of one column move together: it depends on the parent by one of them.
                along = cov[own, top] / deviations[top] * wanted * draws.choice([-1.0, 1.0])
                cross = np.outer(along / deviations[parent], cov[parent, before])
                cov[np.ix_(own, before)], cov[np.ix_(before, own)] = cross, cross.T
            before = np.append(before, own)
        even = (np.arange(_ROWS) + 0.5) / _ROWS
        rows = np.hstack([law.rows(draws.permutation(even)) for law in laws])
        rows -= rows.mean(axis=0)
        coloured = rows @ _root(rows.T @ rows / _ROWS, -0.5) @ _root(cov, 0.5)
        mean = np.concatenate([law.mean for law in laws])
        return np.column_stack([mean + coloured, np.ones(_ROWS)])

    def inverted(self, weights: Floats, rows: Floats, n: int) -> _Answer:
        """Return what log odds these weights are the release of, if records are such rows."""
        each, own = n / len(rows), 1 / _PRIOR**2
        target = each * (rows.T @ special.expit(rows @ weights))
        target += self.ridges * (weights - self.centre)
        theta = np.array(weights)
        for _ in range(12):
            share = special.expit(rows @ theta)
            curved = each * (rows.T * (share * (1 - share))) @ rows
            seen = np.linalg.solve(curved + np.diag(self.noises), curved).T
            precision = seen @ curved + own * np.eye(len(theta))
            left = seen @ (target - each * (rows.T @ share)) - own * (theta - self.centre)
            step = np.linalg.solve(precision, left)
            step *= min(1.0, 2.0 / max(float(np.abs(rows @ step).max()), 1e-12))
            theta = theta + step
            if float(np.abs(step).max()) < 1e-4:
                break
        clear = np.linalg.inv(curved + own * np.eye(len(theta)))
        moved = np.square(clear @ rows.T).mean(axis=1)
        both, terms = (np.linalg.inv(precision), clear), self.contrasts
        wide, least = (np.einsum("ij,jk,ik->i", terms, cov, terms) for cov in both)
        tau, decided = math.sqrt(float(self.noises @ moved)), float(np.std(rows @ weights))
        return _Answer(terms @ theta, wide, least, tau, decided)


class _Answer(NamedTuple):
    """What one population says of every term."""

    estimates: Floats
    variances: Floats
    clear: Floats  #: What records alone would leave of them
    tau: float  #: How far noise alone moves a person's log odds, in deviations
    decided: float  #: How far log odds of people are apart, in deviations


def _asked(epsilon: float, sensitivity: int) -> Point:
    public = ("bounds", "declared values", "the model")
    return counts(epsilon, sensitivity, Neighbours.REPLACE_ONE, public, THEOREM)


def _farthest(table: Integers) -> int:
    """Return the largest L1 distance of two rows, or a bound on it where there are many columns."""
    if table.shape[1] > 6:
        return 2 * int(np.abs(table).sum(axis=1).max())
    signs = np.array(list(product((-1, 1), repeat=table.shape[1])), dtype=np.int64)
    return int(np.ptp(table @ signs.T, axis=0).max())


def _root(cov: Floats, power: float) -> Floats:
    values, vectors = np.linalg.eigh(cov)
    kept = values > 1e-7 * max(float(values[-1]), 1e-12)
    return np.asarray((vectors[:, kept] * values[kept] ** power) @ vectors[:, kept].T)


def _alike(seen: Floats | None, scale: float, whole: Floats, draws: np.random.Generator) -> Floats:
    """Return largest correlations that noised products speak for; most columns' are moderate."""
    grid = (np.arange(200) + 0.5) / 200
    told = np.tile(np.log(grid) + 2 * np.log1p(-grid), (len(whole), 1))
    if seen is not None:
        told -= np.abs(seen[:, None] - grid * whole[:, None]) / scale
    below = np.cumsum(np.exp(told - told.max(axis=1, keepdims=True)), axis=1)
    place = (below < draws.random((len(whole), 1)) * below[:, -1:]).sum(axis=1)
    return np.asarray(np.minimum(np.sqrt(1 - (1 - grid[place] ** 2) ** _TOGETHER), _ALIKE))


@dataclass(frozen=True)
class Inference(Summary):
    """The terms of a linear model with odds ratios, intervals and p-values, and what they cost."""

    records: int  #: Their public number
    #: Of what is not estimable at this epsilon: so many times the records would do; infinite where
    #: none would.
    more_records: Mapping[str, float]
    confidence: float  #: Of every interval
    guarantee: Guarantee  #: Of what was asked of the records beside the fit
    receipt: Receipt | None = None  #: The ledger entry that paid; None of a forecast
    simulated: bool = False  #: Whether the noise came from a seed

    def quality(self) -> dict[str, Any]:
        """Return the table as plain values: what a release's card can hold."""
        told = {"records": self.records, "confidence": self.confidence, "positive": None}
        return told | {"terms": [asdict(one) for one in self.lines], "note": self.note}


def infer(
    model: Any,
    table: Any = None,
    *,
    epsilon: float,
    n_samples: int | None = None,
    confidence: float = 0.95,
    budget: Budget | Ledger | None = None,
    random_state: Seed | None = None,
) -> Inference:
    """Return odds ratios, intervals and p-values of a private fit for inference.

    Intervals are experimental: measured coverage in docs/proofs/intervals.md.

    Parameters
    ----------
    model : PrivateLogisticRegression or Release
        Of ``purpose="inference"`` and a schema.
    table : table, optional
        The records that the model was learned from, once more.
    epsilon : float
        What means, shares and largest correlations of the columns cost, beside the fit: a quarter
        of the fit's is about right.
    n_samples : int, optional
        A public number of records, in place of ``table``: nothing is spent, and how wide intervals
        will be follows from declared facts. The model need not be fitted.
    confidence : float, default=0.95
        Of every interval, by itself.
    budget, random_state
        As in :class:`confrere.PrivateLogisticRegression`.

    Returns
    -------
    Inference
        ``frame()`` is the table: ``term, unit, unit_name, coefficient, low, high, odds_ratio,
        or_low, or_high, p``. What is not estimable has none; ``more_records`` says what would do.

    Notes
    -----
    Unit : record. Neighbours : replace one row. Guarantee : ``epsilon``-DP, pure. Spends :
    ``epsilon`` of ``budget`` before noise is drawn. Proof : docs/proofs/intervals.md.
    """
    check_epsilon(epsilon)
    if not 0 < confidence < 1:
        raise InvalidParameter("confidence must lie strictly between 0 and 1.")
    if (table is None) == (n_samples is None):
        raise InvalidParameter("table: give the records, or n_samples to see what to expect.")
    if n_samples is not None:
        return _forecast(model, n_samples, epsilon, confidence)
    fitted, n = _opened(model)
    if n_rows_of(table) != n:
        raise InvalidData("table must hold the records that the model was learned from, all.")
    assert fitted.encoder is not None
    for told in flags_of_one(fitted.encoder.schema.features):
        warnings.warn(f"schema: {told}. Nothing was spent yet.", stacklevel=2)
    encoder, digest = fitted.encoder.transformer(), fitted.digest()
    rows = encoder.coded(encoder.codes(table))
    steps = intervals(fitted, digest, "", n, epsilon, confidence)
    guarantee, origin = _asked(epsilon, 1).guarantee(), Origin(model=digest)
    purpose = "intervals of coefficients"
    with charged(budget, guarantee, random_state, purpose=purpose, origin=origin) as ticket:

        def answer(ask: Ask) -> Told:
            assert isinstance(ask.asked, Intervals)
            stream = ticket.stream(ask.asked.operation, ask.step)
            return Told(("",), stacked([ask.asked.release(rows, np.empty(0), stream)]))

        found = drive(steps, answer)
        assert found is not None
        ticket.made = quality_digest(found.quality())
        return replace(found, receipt=ticket.receipt, simulated=ticket.simulated)


def flags_of_one(features: Sequence[Feature]) -> list[str]:
    """Say which flags look like one category, by their names or by their declared shares.

    One alone of such flags is yes: they tell one another as no tree of columns does.
    """
    flags = [one for one in features if isinstance(one, Flag)]
    named: dict[str, list[Flag]] = {}
    for one in flags:
        named.setdefault(re.split(r"[_.:= -]", one.column)[0], []).append(one)
    groups = [each for each in named.values() if _whole(each, 0.1, unknown=True)]
    # Declared one after the other, as who had a category would.
    ends = combinations(range(len(flags) + 1), 2)
    groups += [flags[a:b] for a, b in ends if _whole(flags[a:b], 0.03)]
    found = dict.fromkeys(", ".join(one.column for one in each) for each in groups)
    told = "look like one category: as flags their intervals are false; make them one column"
    return [f"{names} {told}" for names in found]


def _whole(flags: Sequence[Flag], near: float, *, unknown: bool = False) -> bool:
    """Whether there are several, and their declared shares add up to about one."""
    shares = [one.share for one in flags if one.share is not None]
    if len(flags) < _ALIKE_FLAGS or len(shares) < len(flags):
        return unknown and len(flags) >= _ALIKE_FLAGS
    return abs(math.fsum(shares) - 1) <= near


def shared(epsilon: float) -> tuple[float, float]:
    """Return the parts of the fit, and of what intervals ask beside it."""
    fit = float((1 - ASKED) * epsilon)
    return fit, at_most(minus(exact(epsilon), exact(fit)))


@dataclass(frozen=True, kw_only=True, eq=False)
class Intervals(Measured):
    """What intervals ask of the records that a model was learned from.

    Sums of every column; once these are known, the largest products.
    """

    operation: ClassVar[str] = "intervals"
    farthest: ClassVar[int] = 1 << 62  #: No answer lies beyond
    model: str  #: Names what was learned
    space: _Space
    n_samples: int
    epsilon: float
    sums: Integers | None = None  #: As they were answered

    @cached_property
    def scaled(self) -> tuple[list[Integers], Floats, int]:
        """What vertices count as, deviations of it, and the largest sum of a row's magnitudes."""
        assert self.sums is not None
        tables, deviations = self.space.scaled(self.sums.astype(np.float64), self.n_samples)
        return tables, deviations, math.ceil(deviations.sum())

    @cached_property
    def mechanism(self) -> Point:
        """The measurement, which knows its price."""
        if self.sums is None:
            return self.space.sums(self.epsilon)
        tables, _, most = self.scaled
        return self.space.largest(self.epsilon, tables, most)

    @property
    def size(self) -> int:
        """How many numbers an answer has."""
        columns = self.space.columns
        if self.sums is None:
            return sum(one.counted.shape[1] for one in columns)
        return sum(one.table.shape[1] for one in columns)

    @override
    def release(self, X: Rows, y: Labels, source: RandomSource, engine: Reader = None) -> Arrays:
        codes = _vertices(cast("Coded", X))
        if self.sums is None:
            found = self.space.summed(codes)
        else:
            tables, _, most = self.scaled
            found = self.space.products(codes, tables, most)
        ((noised,),) = source.draw(self.mechanism, found)
        return {"counts": np.clip(noised, -self.farthest, self.farthest)}


def _vertices(rows: Coded) -> list[Integers]:
    """Return the vertex of every record in every column: of columns that share codes, too."""
    found: dict[int, Integers] = {}
    for codes, group in zip(rows.codes, rows.groups, strict=True):
        sizes = [len(rows.tables[j]) for j in group]
        found |= zip(group, np.unravel_index(codes, sizes, order="F"), strict=True)
    return [found[j] for j in range(len(found))]


def intervals(
    fitted: Linear,  # Of purpose="inference"
    digest: str,  # What it is known by
    name: str,  # Whose records it was learned from
    n: int,  # How many these are
    epsilon: float,  # The price of what is asked for
    confidence: float = 0.95,
    step: int = 0,  # Of the first question
) -> Protocol[Inference | None]:
    """Ask what rows are like, and return what is said of the terms; None of what is made up."""
    assert fitted.encoder is not None
    space = _Space.of(fitted.encoder.transformer(), fitted.facts)
    first = float(_FIRST * epsilon)
    asked = Intervals(model=digest, space=space, n_samples=n, epsilon=first)
    sums = (yield Ask(asked, {name: n}, step)).arrays["counts"][0]
    rest = at_most(minus(exact(epsilon), exact(first)))
    then = replace(asked, epsilon=rest, sums=sums)
    told = yield Ask(then, {name: n}, step + 1)
    if told.made_up:
        return None
    # Public from here on: draws of populations hide nothing.
    seen, products = (one.astype(np.float64) for one in (sums, told.arrays["counts"][0]))
    scale, deviations = asked.mechanism.scale / STEPS, then.scaled[1]
    draws, weights, drawn = np.random.default_rng(0), space.weights(fitted), []
    for _ in range(_POPULATIONS):
        each = zip(space.columns, space.split(seen), strict=True)
        laws = [one.law(own, scale, n, draws) for one, own in each]
        alike = _alike(products, then.mechanism.scale, n * _FINE * deviations, draws)
        drawn.append(space.inverted(weights, space.population(laws, alike, draws), n))
    guarantee = _asked(epsilon, 1).guarantee()
    return _told(space, drawn, n, confidence, space.missed(seen, scale, n), guarantee)


def _told(
    space: _Space,
    drawn: Sequence[_Answer],
    n: int,
    confidence: float,
    missed: Floats,
    guarantee: Guarantee,
    *,
    ahead: bool = False,  # Whether nothing was asked
) -> Inference:
    """Return what populations say together, as far as it is estimable."""
    z = float(special.ndtri((1 + confidence) / 2))
    values = np.array([one.estimates for one in drawn])
    estimates, apart = np.median(values, axis=0), values.var(axis=0, ddof=1)
    clear = np.mean([one.clear for one in drawn], axis=0)
    noise = np.mean([one.variances for one in drawn], axis=0) + apart - clear
    noise = np.maximum(_SAFE**2 * noise, 1e-12)
    most = np.minimum(_HALF / z, _OWN * _PRIOR * np.linalg.norm(space.contrasts, axis=1))
    # Of so many times the records noise has its square less, and what is left open once.
    needed = 2 * noise / (np.sqrt(clear**2 + 4 * noise * most**2) - clear)
    tau = float(np.median([one.tau for one in drawn]))
    needed = np.maximum.reduce([needed, missed, np.full(len(needed), tau / _TAU)])
    if float(np.median([one.decided for one in drawn])) > _DECIDED:
        needed[:] = math.inf
    lines, more = [], {}
    for j, term in enumerate(space.terms):
        value, error = float(estimates[j]), math.sqrt(float(clear[j] + noise[j]))
        told: dict[str, Any] = {"coefficient": None if ahead else value}
        if needed[j] > 1:
            more[term.term] = float(np.ceil(needed[j]))
            told["coefficient"] = None
        else:
            ends = (0.0 if ahead else value) + z * error * np.array([-1.0, 1.0])
            told |= dict(zip(("low", "high"), ends.tolist(), strict=True))
            if not ahead:
                told["p"] = float(2 * special.ndtr(-abs(value) / error))
            if not term.constant:
                ratios = np.exp(ends).tolist()
                told |= dict(zip(("or_low", "or_high"), ratios, strict=True))
                told["odds_ratio"] = None if ahead else math.exp(value)
        lines.append(TermLine(term=term.term, unit=term.unit, unit_name=term.unit_name, **told))
    note = f"{confidence:.0%} intervals: {_AHEAD if ahead else _NOTE}"
    refused = [f"{name} ({k:.0f} times the records would do)" for name, k in more.items()]
    if math.inf in more.values():
        note = "no intervals are known to be true where columns nearly decide the outcome"
    elif more:
        note += f". Not estimable at this epsilon: {', '.join(refused)}"
    note = ". ".join([note, *flags_of_one([one.feature for one in space.columns])])
    return Inference(tuple(lines), f"{note}.", n, more, confidence, guarantee)


def _opened(model: Any) -> tuple[Linear, int]:
    """Return a fit for inference, and its public number of records; refuse any other."""
    fitted = getattr(model, "model_", getattr(model, "model", None))
    promise = getattr(model, "guarantee_", getattr(model, "guarantee", None))
    if not isinstance(fitted, Linear) or not isinstance(promise, Guarantee):
        raise InvalidParameter(_REFUSED)
    facts, n = fitted.facts, fitted.facts.n_samples
    alone = facts.parties is None and facts.method is None and facts.prior is None
    pure = facts.noises is not None and promise.neighbours is Neighbours.REPLACE_ONE
    if facts.loss != "logistic" or fitted.encoder is None or n is None or not alone or not pure:
        raise InvalidParameter(_REFUSED)
    if fitted.encoder.form != "straight":
        raise InvalidParameter(_REFUSED)
    return fitted, n


_REFUSED = (
    'model must be a fit of one organisation with purpose="inference" and a schema, in its '
    "geometry, without experts or AddRemove: others' intervals are not known to be true."
)


def _ahead(estimator: Any, n: int) -> _Space | None:
    """Return where a fit for inference will be learned; None where it has no intervals."""
    asked = getattr(estimator, "purpose", None) == "inference"
    encoder = estimator.encoder_for({"": n}) if asked else None
    if encoder is None or encoder.form != "straight":
        return None
    names = encoder.names
    plan = estimator.plan(PublicFacts(n_samples=n, n_features=len(names), features=names))
    hidden = plan.guarantee().neighbours is not Neighbours.REPLACE_ONE
    if not isinstance(plan, LinearPlan) or hidden or plan.facts().noises is None:
        return None
    return _Space.of(encoder, plan.facts())


def has_intervals(method: Method, settings: Mapping[str, object]) -> bool:
    """Whether a fit so has intervals; where settings are wrong, others say so."""
    try:
        return _ahead(method.make(**settings), n=10_000) is not None
    except (ConfrereError, TypeError, ValueError):
        return False


def _forecast(model: Any, n: int, epsilon: float, confidence: float) -> Inference:
    """Return how wide intervals will be, by declared facts and moderate correlations."""
    space, draws = _ahead(model, n), np.random.default_rng(0)
    if space is None:
        raise InvalidParameter(_REFUSED)
    drawn, scale = [], space.sums(_FIRST * epsilon).scale / STEPS
    expected = np.concatenate([one.expected(n) for one in space.columns])
    for _ in range(_POPULATIONS):
        laws = [one.law(one.expected(n), scale, n, draws) for one in space.columns]
        alike = _alike(None, 1.0, space.ridges[:-1], draws)
        drawn.append(space.inverted(space.centre, space.population(laws, alike, draws), n))
    missed, guarantee = space.missed(STEPS * expected, scale, n), _asked(epsilon, 1).guarantee()
    return _told(space, drawn, n, confidence, missed, guarantee, ahead=True)
