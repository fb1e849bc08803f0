"""Table 1: who the records are about, by site and by outcome, counted with noise and error bars.

Every column of a schema is one histogram over public cells: declared values, or knots between the
bounds of a number, which a record fills in proportion to how near it lies (so that the mean of a
histogram is the mean of the records). All histograms of all sites and outcomes are one vector of
whole numbers: a record fills one cell a column, whatever the number of sites. Integer noise is put
on them once; what is printed follows from that, and so do the error bars, since the law of the
noise is public.

Proof: docs/proofs/cohort.md.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from typing_extensions import override

from confrere.arrays import Floats, Integers
from confrere.data.cells import declared_columns, each_column, n_rows_of
from confrere.data.encoding import Histogram
from confrere.data.features import Category, Feature, Flag, Label, Number
from confrere.data.schema import PaidFacts, PublicSchema
from confrere.errors import InvalidParameter, InvalidRelease, SchemaError
from confrere.kernel.guarantee import (
    ASSUMPTIONS,
    Guarantee,
    Neighbours,
    check_epsilon,
    check_relation,
)
from confrere.kernel.measurements import Point
from confrere.ledger import Budget, Ledger, charged
from confrere.methods.sums import STEPS
from confrere.release.folder import TABLE, VerifiedFolder
from confrere.release.release import check_receipt
from confrere.release.spending import receipts_for_facts
from confrere.simulation import Seed
from confrere.views import Panel, Shown, Table, html

THEOREM = "docs/proofs/cohort.md"

#: A share is never nearer to 0 or 1: a constant has no scale.
LEAST_SHARE = 0.001

#: How far variances and means of columns lie apart, where half the width of the bounds is one: what
#: the noise is held against.
_SPREAD, _CENTRES = 0.15, 0.5

#: A group is described where its size is so many deviations of its noise, at least.
_MEASURABLE = 5.0

#: Sites differ where means lie so many standard deviations apart (or shares so far), surely.
_FAR, _FAR_SHARE = 0.25, 0.1

ALL = "all"

#: Keys of a feature and their values.
_Told = Iterator[tuple[str, Any]]


@dataclass(frozen=True)
class CohortEstimate:
    """One number of the table, with its error bar; without a value it is not measurable."""

    site: str
    group: str  #: An outcome, or all
    column: str
    statistic: (
        str  #: "n", "mean", "sd", "quartile 1", "median", "quartile 3", "missing", "= " and a value
    )
    value: float | None = None
    low: float | None = None
    high: float | None = None
    differs: bool = False  #: Whether this site is unlike the others together, beyond the noise


def _bar(weights: Floats, deviation: float) -> float:
    """Return how far 95 of 100 sums of weighted noise lie at most from zero.

    A sum of many is normal; one alone has tails that reach 2.12 deviations: their excess of
    kurtosis, 3, moves the normal quantile (Cornish and Fisher), a little more than needed.
    """
    squares = float(np.sum(weights**2))
    if squares == 0.0:
        return 0.0
    excess = 3.0 * float(np.sum(weights**4)) / squares**2
    return deviation * math.sqrt(squares) * (1.96 + 0.0687 * excess)


def counts(
    epsilon: float,  # The price of all counts together
    # Largest sum of absolute changes of the counts when one record is changed: 1 for the number of
    # records with some property, 2 for a histogram with any number of cells.
    sensitivity: int,
    neighbours: Neighbours = Neighbours.REPLACE_ONE,
    # What is taken to be known, besides what the relation itself makes public.
    public: tuple[str, ...] = ("label set", "the model", "the grid of scores"),
    theorem: str = "docs/proofs/private_evaluation.md",
) -> Point:
    """Return integer noise on counts of records."""
    sizes = ("number of records",) if neighbours is Neighbours.REPLACE_ONE else ()
    promise = Guarantee(
        epsilon=epsilon,
        neighbours=check_relation(neighbours),
        theorem=theorem,
        public=(*sizes, *public),
        assumptions=ASSUMPTIONS,
    )
    return Point(promise=promise, sensitivity=sensitivity)


@dataclass(frozen=True)
class CohortCounts:
    """Everything that is counted for a table of one schema; all of it public."""

    schema: PublicSchema
    sites: tuple[str, ...] = ()  #: Declared values of the column that names the site, if one does
    site_column: str | None = None

    @cached_property
    def columns(self) -> tuple[Histogram, ...]:
        """The histograms."""
        return tuple(Histogram.of(one, STEPS) for one in self.schema.features)

    @property
    def groups(self) -> tuple[str, ...]:
        """The outcomes."""
        outcome = self.schema.outcome
        return (ALL,) if outcome is None else tuple(map(str, outcome.names))

    @property
    def places(self) -> tuple[str, ...]:
        """The sites, of which there is always one."""
        return self.sites or (ALL,)

    @property
    def longest(self) -> int:
        """How far one record moves all sums together, in L1, when it comes or goes.

        Every column, and the size of its group, get one.
        """
        return STEPS * (len(self.columns) + 1)

    @property
    def size(self) -> int:
        """How many sums there are."""
        cells = 1 + sum(int(one.table.shape[1]) for one in self.columns)
        return len(self.places) * len(self.groups) * cells

    def moved(self, neighbours: Neighbours) -> int:
        """How far one record moves all sums together, in L1, under a relation."""
        return self.longest * (2 if neighbours is Neighbours.REPLACE_ONE else 1)

    def point(self, epsilon: float, neighbours: Neighbours) -> Point:
        """Return the measurement: integer noise on all sums at once."""
        public = ("bounds", "declared values", "sites", "outcomes")
        return counts(epsilon, self.moved(neighbours), neighbours, public, THEOREM)

    def sums(self, table: object) -> Integers:
        """Return the exact sums, site by site and outcome by outcome; for the owner alone.

        Raises InvalidData: naming every column in which something is wrong, and never a value.
        """
        outcome = self.schema.outcome
        named = [*self.schema.columns, *([outcome.column] if outcome else [])]
        frame = declared_columns(table, [*named, *([self.site_column] if self.site_column else [])])
        cell = np.zeros(n_rows_of(table), dtype=np.intp)
        if self.site_column is not None:
            site = Category(self.site_column, values=self.sites)
            cell = site.vertices(frame[self.site_column])
        cell *= len(self.groups)
        if outcome is not None:
            labels = outcome.encode(frame[outcome.column])
            cell += np.searchsorted(np.array(outcome.labels), labels)
        groups = len(self.places) * len(self.groups)

        def summed(one: Histogram) -> Integers:
            at = cell * len(one.table) + one.feature.vertices(frame[one.feature.column])
            often = np.bincount(at, minlength=groups * len(one.table))
            return np.asarray(often.reshape(groups, -1) @ one.table)

        sizes = STEPS * np.bincount(cell, minlength=groups)[:, None]
        return np.hstack([sizes, *each_column(self.columns, summed)]).reshape(-1)

    def estimates(
        self,
        noised: Floats,  # What is released, as :meth:`sums` orders it
        deviation: float,  # Public standard deviation of the noise of an entry
    ) -> Iterator[CohortEstimate]:
        """Yield the table's numbers: per site and outcome, per site, and in all."""
        shape = len(self.places), len(self.groups), -1
        sums = np.asarray(noised, dtype=np.float64).reshape(shape) / STEPS
        whole, noise = sums.sum(axis=0), deviation / STEPS
        for site, each in [*zip(self.sites, sums, strict=False), (ALL, whole)]:
            added = len(self.places) if each is whole else 1
            for group, own in zip(self.groups, each, strict=True):
                if group != ALL:
                    yield from self._described(site, group, own, noise * math.sqrt(added))
            total = each.sum(axis=0)
            far = () if each is whole else set(self._far(total, whole.sum(axis=0) - total, noise))
            spread = noise * math.sqrt(added * len(self.groups))
            yield from self._described(site, ALL, total, spread, far)

    def learned(
        self, noised: Floats, deviation: float
    ) -> tuple[PublicSchema, dict[str, tuple[str, ...]]]:
        """Return the schema with what was counted where it declares nothing, and what that is.

        Any numbers give facts that a schema takes: no record decides whether this fails.
        """
        each = np.asarray(noised, dtype=np.float64).reshape(len(self.places), len(self.groups), -1)
        sums = each.sum(axis=0) / STEPS
        whole, noise = sums.sum(axis=0), deviation / STEPS * math.sqrt(each[..., 0].size)
        parts = zip(self.schema.features, self._split(whole), strict=True)
        told = {one.column: dict(_facts(one, *part, noise)) for one, part in parts}
        features = tuple(replace(one, **told[one.column]) for one in self.schema.features)
        outcome = self.schema.outcome
        if isinstance(outcome, Label) and outcome.positive and outcome.base_rate is None:
            told[outcome.column] = {"base_rate": _share(sums[1, 0] / max(float(whole[0]), 1.0))}
            outcome = replace(outcome, **told[outcome.column])
        made = replace(self.schema, features=features, outcome=outcome)
        return made, {column: tuple(own) for column, own in told.items() if own}

    def _split(self, sums: Floats) -> Iterator[tuple[Histogram, Floats]]:
        ends = np.cumsum([1, *(one.table.shape[1] for one in self.columns)])
        return zip(self.columns, np.split(sums, ends)[1:-1], strict=True)

    def _described(
        self, site: str, group: str, sums: Floats, noise: float, far: Collection[str] = ()
    ) -> Iterator[CohortEstimate]:
        size, bar = max(float(sums[0]), 0.0), _bar(np.ones(1), noise)
        yield CohortEstimate(site, group, "", "n", size, max(size - bar, 0.0), size + bar)
        for one, part in self._split(sums):
            for told in _of_column(one, part, noise):
                yield replace(told, site=site, group=group, differs=told.column in far)

    def _far(self, mine: Floats, others: Floats, noise: float) -> Iterator[str]:
        """Yield columns in which a site is unlike the others together, surely."""
        spreads = noise * np.sqrt(len(self.groups) * np.array([1, len(self.places) - 1]))
        pairs = zip(self._split(mine), self._split(others), strict=True)
        for pair in pairs if len(self.places) > 1 else ():
            found = [
                {told.statistic: told for told in _of_column(*part, spread)}
                for part, spread in zip(pair, spreads.tolist(), strict=True)
            ]
            if _differs(*found):
                yield pair[0][0].feature.column


def _differs(one: Mapping[str, CohortEstimate], other: Mapping[str, CohortEstimate]) -> bool:
    """Whether any share, or the mean in deviations, is surely farther apart than it should be."""
    for name, told in one.items():
        here, there = told, other[name]
        if name in ("sd", "quartile 1", "median", "quartile 3"):
            continue
        if here.low is None or here.high is None or there.low is None or there.high is None:
            continue
        far = _FAR_SHARE
        if name == "mean":
            spread = other["sd"].high
            if spread is None:
                continue
            far = _FAR * spread
        if max(here.low - there.high, there.low - here.high) > far:
            return True
    return False


def _of_column(one: Histogram, sums: Floats, noise: float) -> Iterator[CohortEstimate]:
    """Yield what a noised histogram says, with error bars of 95 in 100."""
    column = one.feature.column

    def told(
        statistic: str, value: float | None = None, low: float = 0.0, high: float = 0.0
    ) -> CohortEstimate:
        if value is None:
            return CohortEstimate("", "", column, statistic)
        return CohortEstimate("", "", column, statistic, value, low, high)

    def share(cells: Floats, of: Floats, size: float) -> tuple[float, float, float]:
        value = float(sums @ cells) / size
        bar = _bar((cells - value * of) / size, noise)
        return tuple(float(np.clip(v, 0.0, 1.0)) for v in (value, value - bar, value + bar))  # type: ignore[return-value]

    everything = np.ones(len(sums))
    size = float(sums.sum())
    missing = np.eye(len(sums))[-1]
    if size < _MEASURABLE * noise * math.sqrt(len(sums)):
        for name in _statistics(one):
            yield told(name)
        return
    yield told("missing", *share(missing, everything, size))
    there = 1.0 - missing
    if one.places is not None:
        there[:-1] *= np.isfinite(one.places)
    present = float(sums @ there)
    if present < _MEASURABLE * noise * math.sqrt(float(there.sum())):
        for name in _statistics(one)[1:]:
            yield told(name)
        return
    if one.places is not None:
        yield from _of_number(one, sums, there, present, noise, told)
    for cell, name in enumerate(one.names):
        yield told(name, *share(np.eye(len(sums))[cell], there, present))


def _of_number(
    one: Histogram,
    sums: Floats,
    there: Floats,
    present: float,
    noise: float,
    told: Callable[..., CohortEstimate],
) -> Iterator[CohortEstimate]:
    assert one.places is not None
    at = np.append(np.nan_to_num(one.places), 0.0)
    mean = float(sums @ (at * there)) / present
    bar = _bar((at - mean) * there / present, noise)
    low, high = float(np.nanmin(one.places)), float(np.nanmax(one.places))
    yield told("mean", *(float(np.clip(v, low, high)) for v in (mean, mean - bar, mean + bar)))
    gaps = np.zeros(len(at))
    if isinstance(one.feature, Number):
        gaps[:-1] = _gaps(one.places)
    square = ((at - mean) ** 2 - gaps) * there
    variance = float(sums @ square) / present
    bar = _bar((square - variance * there) / present, noise)
    bar += float(np.max(np.abs(sums) @ (gaps * there)) / present) / 2
    roots = (math.sqrt(max(v, 0.0)) for v in (variance, variance - bar, variance + bar))
    yield told("sd", *roots)
    if not isinstance(one.feature, Number):
        return
    upto = np.cumsum(sums[:-1]) / present
    lower = np.tri(len(upto))
    bars = np.array([_bar((row - v) / present, noise) for row, v in zip(lower, upto, strict=True)])
    # What lies below a knot fills that knot at most; what fills knots before it lies below it.
    least, most = np.append(0.0, (upto - bars)[:-1]), upto + bars
    middle = np.maximum.accumulate((np.append(0.0, upto[:-1]) + upto) / 2)
    for share, name in ((0.25, "quartile 1"), (0.5, "median"), (0.75, "quartile 3")):
        begin = float(np.append(low, one.places[most < share])[-1])
        end = float(np.append(one.places[least >= share], high)[0])
        yield told(name, float(np.interp(share, middle, one.places)), begin, end)


def _gaps(knots: Floats) -> Floats:
    """Return what sharing records between two knots adds to their squares.

    The product of a record's distances: between nothing and a quarter of the square of their gap, a
    sixth on average.
    """
    wide = np.diff(knots) ** 2 / 6
    return np.asarray(np.append(wide / 2, 0.0) + np.append(0.0, wide / 2))


def _statistics(one: Histogram) -> list[str]:
    numbers = ["mean", "sd"] if one.places is not None else []
    if isinstance(one.feature, Number):
        numbers += ["quartile 1", "median", "quartile 3"]
    return ["missing", *numbers, *one.names]


class CohortSummary(Shown):
    """Table 1 of a cohort: sizes, means, spreads, quantiles, shares and gaps, with error bars.

    Parameters
    ----------
    epsilon : float, default=1.0
        Price of the whole table, whatever the number of its sites and outcomes.
    schema : PublicSchema
        Which columns there are, and within which bounds.
    budget : Budget or Ledger, optional
        Who pays; see :class:`confrere.PrivateLogisticRegression`.
    sites : sequence of str, optional
        All sites, which are public, where a column of the table names them.
    site_column : str, optional
        That column.
    neighbours : {"replace-one", "add-remove"}, default="replace-one"
        Which change of the data is hidden.
    random_state : int, optional
        A seed makes a simulation.

    Attributes
    ----------
    estimates_ : list of CohortEstimate
        Every number of the table, with its error bar.
    schema_ : PublicSchema
        The schema with what it did not declare and was counted (means, deviations, shares, missing
        cells, the base rate), and the receipt: public statistics of the next study.
    receipt_ : Receipt
        What was paid.
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        schema: PublicSchema | None = None,
        budget: Budget | Ledger | None = None,
        *,
        sites: Sequence[str] = (),
        site_column: str | None = None,
        neighbours: str = "replace-one",
        random_state: Seed | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.schema = schema
        self.budget = budget
        self.sites = sites
        self.site_column = site_column
        self.neighbours = neighbours
        self.random_state = random_state

    @property
    def _counts(self) -> CohortCounts:
        if not isinstance(self.schema, PublicSchema):
            raise InvalidParameter("schema must be a PublicSchema: it says what may be counted.")
        sites = tuple(map(str, self.sites))
        if bool(sites) != (self.site_column is not None):
            raise InvalidParameter("sites and site_column belong together: give both, or none.")
        if len(set(sites)) < len(sites) or ALL in sites:
            raise InvalidParameter(f"sites must be distinct names, none of them {ALL!r}.")
        if self.schema.outcome is not None and ALL in map(str, self.schema.outcome.names):
            raise InvalidParameter(f"schema: {ALL!r} names everybody; call that outcome otherwise.")
        return CohortCounts(self.schema, sites, self.site_column)

    def privacy_cost(self) -> Guarantee:
        """Return what the table costs, without touching data."""
        return self._point.guarantee()

    @property
    def _point(self) -> Point:
        relation = check_relation(self.neighbours)
        return self._counts.point(check_epsilon(self.epsilon), relation)

    def check(self, table: object) -> None:
        """Say what is wrong with a table, if anything is; nothing is spent."""
        self._counts.sums(table)

    def fit(self, table: object) -> Self:
        """Count, put noise on all counts at once, and describe them.

        Unit: record. Neighbours: replace one row of ``table``, or add or remove one. Guarantee:
        ``epsilon``-DP, pure. Spends: ``epsilon`` of ``budget`` before noise is drawn. Proof:
        docs/proofs/cohort.md.
        """
        counted, point = self._counts, self._point
        guarantee = point.guarantee()
        exact = counted.sums(table)
        purpose = "describe a cohort (Table 1)"
        with charged(self.budget, guarantee, self.random_state, purpose=purpose) as ticket:
            noised: Integers = ticket.draw(point, exact)[0][0]
            self.receipt_ = ticket.receipt
            receipts = {self.receipt_.account: self.receipt_.to_dict()}
            self._describe(counted, noised, point.deviations[0], receipts)
            ticket.made = self.schema_.paid[-1].digest(self.schema_)
        return self

    @classmethod
    def counted(
        cls,
        epsilon: float,
        counts: CohortCounts,
        noised: Integers,  # What organisations have released, as the counts' sums are ordered
        deviation: float,
        receipts: Mapping[str, Mapping[str, object]],  # Who paid for it, as plain values
    ) -> Self:
        """Return the table of what organisations have counted, each with noise, or all together."""
        made = cls(epsilon, counts.schema, sites=counts.sites)
        made._describe(counts, noised, deviation, receipts)
        return made

    def _describe(
        self,
        counts: CohortCounts,
        noised: Integers,
        deviation: float,
        receipts: Mapping[str, Mapping[str, object]],
    ) -> None:
        self.estimates_ = list(counts.estimates(noised.astype(np.float64), deviation))
        made, what = counts.learned(noised.astype(np.float64), deviation)
        self.schema_ = replace(made, paid=(*made.paid, PaidFacts(what, receipts)))

    def table(self) -> list[dict[str, object]]:
        """Return every number of the table as a plain row."""
        return [dict(vars(one)) for one in self.estimates_]

    def to_csv(self) -> str:
        """Return the table as text: a line per number."""
        file = io.StringIO()
        writer = csv.DictWriter(file, list(vars(self.estimates_[0])))
        writer.writeheader()
        for row in self.table():  # the same text from the last bits of any machine
            floats = {key: f"{one:.6g}" for key, one in row.items() if isinstance(one, float)}
            writer.writerow(row | floats)
        return file.getvalue()

    def files(self) -> dict[str, str]:
        """Return a page, the table, and the schema for the next study, by their suffixes."""
        style = "body{font:14px/1.4 sans-serif;margin:2em}td{white-space:nowrap}"
        head = f"<!doctype html><meta charset='utf-8'><title>Table 1</title><style>{style}</style>"
        page = f"{head}{html(self)}"
        return {".html": page, ".csv": self.to_csv(), ".toml": self.schema_.to_toml()}

    @override
    def view(self) -> Panel:
        """Return Table 1 as journals print it: a row per statistic, a column per site and group."""
        shown: dict[tuple[str, str], dict[str, object]] = {}
        for one in self.estimates_:
            where = one.group if one.site == ALL else f"{one.site}: {one.group}"
            shown.setdefault((one.column, one.statistic), {})[where] = _cell(one)
        columns = [*dict.fromkeys(name for row in shown.values() for name in row)]
        rows = [
            (column or "records", statistic, *(row.get(name, "") for name in columns))
            for (column, statistic), row in shown.items()
        ]
        note = (
            f"epsilon {self.epsilon:g} for the whole table; in brackets what 95 of 100 draws of the"
            " noise would cover; ! a site that differs from the others beyond the noise"
        )
        return Panel("Table 1", [Table(("column", "", *columns), rows, columns)], note)


def _facts(feature: Feature, one: Histogram, sums: Floats, noise: float) -> _Told:
    """Yield what a schema does not declare of a column, as far as the noise lets it be believed."""
    counts = _projected(sums)
    size, there = float(counts.sum()), counts[:-1]
    if feature.has_indicator and feature.missing_share is None:
        yield "missing_share", _share(counts[-1] / size)
    present = max(float(there.sum()), 1.0)
    if isinstance(feature, Number):
        if feature.sd is None:
            yield from _moments(feature, one, there, noise / present)
        return
    if isinstance(feature, Flag) and feature.share is None:
        yield "share", _pulled(there[:2], noise / present)[1]
    scored = getattr(feature, "sd", None) is not None
    if getattr(feature, "shares", ()) is None and not scored:
        yield "shares", _pulled(there[: len(one.names) - 1], noise / present)


def _projected(sums: Floats) -> Floats:
    """Return the counts nearest to noised ones that are none below zero, with the same sum."""
    total, falling = max(float(sums.sum()), 1.0), np.sort(sums)[::-1]
    excess = (np.cumsum(falling) - total) / np.arange(1, len(sums) + 1)
    return np.asarray(np.maximum(sums - excess[falling > excess][-1], 0.0))


def _moments(feature: Number, one: Histogram, counts: Floats, noise: float) -> _Told:
    """Yield mean and deviation, on the declared scale, drawn towards the uniform law by noise."""
    assert one.places is not None
    (middle, half), (low, _) = feature.moments(), feature.bounds
    places = np.log1p(one.places - low) if feature.log else one.places
    v, weights = (places - middle) / half, counts / max(float(counts.sum()), 1e-9)
    mean = float(weights @ v)
    squares = (v - mean) ** 2 - _gaps(v)
    if noise * float(np.linalg.norm(squares)) > 2 * _SPREAD:
        return
    seen = counts > 0  # what was emptied has lost its noise
    error, off = (noise * float(np.linalg.norm(x[seen])) for x in (squares, v - mean))
    found = float(np.clip(weights @ squares, max(error, STEPS**-2), 1.0))
    believed = _SPREAD**2 / (_SPREAD**2 + error**2)
    mean *= _CENTRES**2 / (_CENTRES**2 + off**2)
    yield "mean", float(np.clip(rounded(middle + half * mean, half), middle - half, middle + half))
    variance = believed * found + (1 - believed) / 3
    yield "sd", max(rounded(half * math.sqrt(variance), half), half / STEPS)


def _pulled(counts: Floats, noise: float) -> tuple[float, ...]:
    """Return shares, drawn towards equal ones as far as the noise is felt."""
    even = np.full(len(counts), 1 / len(counts))
    shares = counts / counts.sum() if counts.sum() > 0 else even
    pull = min(1.0, len(counts) * max(noise, LEAST_SHARE))
    shares = np.clip((1 - pull) * shares + pull * even, LEAST_SHARE, 1 - LEAST_SHARE)
    return tuple(round(share, 6) for share in (shares / shares.sum()).tolist())


def rounded(value: float, scale: float) -> float:
    """Return a number with four digits of its scale, for people to read."""
    return round(value, int(np.clip(4 - np.floor(np.log10(scale)), -300, 300)))


def _share(value: float) -> float:
    return round(float(np.clip(value, LEAST_SHARE, 1 - LEAST_SHARE)), 6)


def _cell(one: CohortEstimate) -> str:
    if one.value is None or one.low is None or one.high is None:
        return "not measurable"
    if one.statistic == "n":
        return f"{one.value:.0f} [{one.low:.0f}, {one.high:.0f}]"
    mark = " !" if one.differs else ""
    return f"{one.value:.3g} [{one.low:.3g}, {one.high:.3g}]{mark}"


def verify_table(
    whole: VerifiedFolder, *, ledgers: Sequence[Ledger] = (), study: bytes | None = None
) -> tuple[PublicSchema, tuple[str, ...]]:
    """Return the schema of a table of a cohort, and what was found to be right.

    Raises InvalidRelease, as :func:`verify_release` does.
    """
    try:
        schema = PublicSchema.from_toml(whole.files[f"{TABLE}.toml"].decode())
        receipts = receipts_for_facts(schema)
    except (SchemaError, UnicodeDecodeError) as error:
        raise InvalidRelease(f"{TABLE}.toml: {error}") from None
    checked = ["every file is the one that SHA256SUMS lists"]
    if study is not None:
        if whole.files.get("study.toml") != study:
            raise InvalidRelease("the table is of another study, or of another version of it.")
        checked.append("it is of this study")
    for ledger in ledgers:
        entries = {entry.row: entry for entry in ledger.entries()}
        own = [one for one in receipts if one.ledger_id == ledger.ledger_id]
        if not own or not all(one.row in entries for one in own):
            raise InvalidRelease("the ledger has no charge of this table.")
        for one in own:
            check_receipt(one, entries[one.row])
    if ledgers:
        checked.append("the ledger has its charge, word for word")
    return schema, tuple(checked)
