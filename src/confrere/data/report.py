"""How a table fits a schema: a report for whoever owns the table, and for nobody else.

It counts what encoding would do in silence: values outside their bounds, missing ones, values
that nobody declared, columns that are constant once they are clipped; and it says when numbers
look as if they were written in another unit, or stood for missing. It quotes no value: what a hint
names is on a public list. It is computed without noise, so it must not leave the organisation.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from difflib import get_close_matches
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from confrere.arrays import Floats
from confrere.data.cells import (
    MISSING,
    UNKNOWN,
    Cells,
    Container,
    Value,
    as_cells,
    column_names,
    declared_columns,
    distinct,
    earlier,
    is_table,
    n_rows_of,
    nobodys,
    read_places,
)
from confrere.data.features import Discrete, Feature, Label, Number
from confrere.data.schema import PublicSchema
from confrere.errors import InvalidData
from confrere.views import Panel, Shown, Table, Tone, Word

#: Numbers and texts that people write where nothing was measured.
SENTINELS = (0, -1, -9, -99, -999, -9999, 9, 77, 88, 99, 777, 888, 999, 9998, 9999, 99999)
TOKENS = ("", "?", ".", "-", "na", "n/a", "nan", "null", "none", "unknown", "missing", "not known")


@dataclass(frozen=True)
class Conversion:
    """Two units of one quantity: ``ours = factor * theirs + offset``."""

    #: ``theirs``, ``ours``: names of the units; a hint may read them in either direction.
    theirs: str
    ours: str
    factor: float
    offset: float = 0.0
    words: str = ""  #: A pattern of column names that measure it; empty for units of any quantity

    def both_ways(self) -> tuple[Conversion, Conversion]:
        """Return it, and it read from right to left."""
        back = Conversion(
            self.ours, self.theirs, 1 / self.factor, -self.offset / self.factor, self.words
        )
        return self, back

    def formula(self) -> str:
        """Return how to convert, for people."""
        if self.offset:
            sign = "+" if self.offset > 0 else "-"
            return f"value * {self.factor:.4g} {sign} {abs(self.offset):.4g}"
        if self.factor < 1:
            return f"value / {1 / self.factor:.4g}"
        return f"value * {self.factor:.4g}"


_TIME = r"age|alter|year|dur|time|since|tenure"
CONVERSIONS = (
    Conversion("months", "years", 1 / 12, words=_TIME),
    Conversion("days", "years", 1 / 365.25, words=_TIME),
    Conversion("weeks", "years", 1 / 52.18, words=_TIME),
    Conversion("days", "months", 1 / 30.44, words=_TIME),
    Conversion("minutes", "hours", 1 / 60, words=_TIME),
    Conversion("hours", "days", 1 / 24, words=_TIME),
    Conversion("kPa", "mmHg", 7.50062, words=r"press|bp|systol|diastol|mmhg|\bap\b"),
    Conversion("mg/dL", "mmol/L", 1 / 18.016, words=r"glu|sugar|fpg|fbs|fbg|ogtt"),
    Conversion("mg/dL", "mmol/L", 1 / 38.67, words=r"chol|ldl|hdl|\btc\b"),
    Conversion("mg/dL", "mmol/L", 1 / 88.57, words=r"trig|\btg\b"),
    Conversion("mg/dL", "umol/L", 88.42, words=r"crea|\bcr\b"),
    Conversion("mg/dL", "umol/L", 17.1, words=r"bili"),
    Conversion("mg/dL", "umol/L", 59.48, words=r"uric|urate"),
    Conversion("mg/dL", "mmol/L", 0.357, words=r"urea|bun"),
    Conversion("%", "mmol/mol", 10.93, -23.5, words=r"a1c"),
    Conversion("degrees Fahrenheit", "degrees Celsius", 5 / 9, -160 / 9, words=r"temp"),
    Conversion("pounds", "kilograms", 0.45359, words=r"weight|mass|\bwt\b|kg"),
    Conversion("grams", "kilograms", 0.001, words=r"weight|mass|\bwt\b|kg"),
    Conversion("inches", "centimetres", 2.54, words=r"height|waist|hip|circum|length|cm"),
    Conversion("centimetres", "metres", 0.01, words=r"height|waist|hip|length|dist"),
    Conversion("feet", "centimetres", 30.48, words=r"height"),
    Conversion("per cent", "shares", 0.01),
    Conversion("thousandths", "whole units", 0.001),
    Conversion("tenths", "whole units", 0.1),
)


def likely_conversion(feature: Number, x: Floats) -> Conversion | None:
    """Return the conversion after which numbers would fit what is declared, if one stands out.

    A number that was declared with a mean and a standard deviation must get about the same middle
    and spread; one with bounds alone must lie between them. Units that the column's name speaks of
    go before those of any quantity.
    """
    if not len(x) or feature.dates is not None:
        return None
    name = re.sub(r"[_\W]+", " ", feature.column).lower()
    named = [one for one in CONVERSIONS if one.words and re.search(one.words, name)]
    for group in (named, [one for one in CONVERSIONS if not one.words]):
        ways = [one for two in group for one in two.both_ways()]
        fits = {one: _misfit(feature, one.factor * x + one.offset) for one in ways}
        found = {one: misfit for one, misfit in fits.items() if misfit is not None}
        if found:
            return min(found, key=lambda one: found[one])
    return None


def _misfit(feature: Number, x: Floats) -> float | None:
    """Return how far numbers are from what is declared, or None if they do not fit at all."""
    lo, hi = feature.bounds
    if np.mean((x >= lo) & (x <= hi)) < 0.95:
        return None
    middle = float(np.median(x))
    if feature.log or feature.mean is None or feature.sd is None:
        return abs(middle - (lo + hi) / 2) / (hi - lo)
    spread = float(np.subtract(*np.quantile(x, (0.75, 0.25)))) / 1.349
    off = abs(middle - feature.mean) / feature.sd
    if off > 2 or not 0.2 <= spread / feature.sd <= 5:
        return None
    return off + abs(float(np.log(spread / feature.sd)))


def likely_sentinel(feature: Number, x: Floats) -> tuple[float, int] | None:
    """Return a number that probably stands for missing, and how many rows hold it.

    It is one of :data:`SENTINELS`, it is in one row of a hundred or more, and it lies outside the
    bounds or far from all the other values.
    """
    least = max(3, 0.01 * len(x)) if feature.dates is None else np.inf
    lo, hi = feature.bounds
    best: tuple[float, int] | None = None
    for value in SENTINELS:
        count = int(np.count_nonzero(x == value))
        others = x[x != value]
        if count < least or not len(others) or (best is not None and count <= best[1]):
            continue
        outside = value < lo or value > hi
        gap = float(np.min(np.abs(others - value)))
        width = float(np.max(others) - np.min(others))
        # A count may be 0 by right, next to 1; a cholesterol of 0 stands alone.
        steps = np.diff(np.unique(others)).max(initial=0.0)
        if (outside and gap > 0.02 * width) or gap > max(0.15 * width, 2 * steps) > 0:
            best = float(value), count
    return best


def likely_token(texts: Iterable[object]) -> tuple[str, int] | None:
    """Return the text of :data:`TOKENS` that most rows hold, as it is written, and how many."""
    written = Counter(str(text) for text in texts)
    known = {text: count for text, count in written.items() if text.strip().lower() in TOKENS}
    return max(known.items(), key=lambda pair: pair[1]) if known else None


Severity = Literal["refused", "warning"]

#: Shares from which something is worth a line: clipped tails, and values that a bucket collects.
OUTSIDE, COLLECTED = 0.01, 0.05
#: How far, in declared standard deviations, the middle of the values may lie from the mean.
OFF_CENTRE = 3.0


@dataclass(frozen=True)
class Finding:
    """One thing that the owner of a table should look at."""

    column: str  #: Where; empty for the table as a whole
    #: One word for programs: outside, missing, undeclared, constant, unit, sentinel, kind, lacking,
    #: dropped, unit_column or label.
    kind: str
    severity: Severity  #: Whether ``fit`` would refuse the table, or learn from it all the same
    rows: int  #: How many rows it concerns
    text: str  #: What is there
    hint: str  #: What to do

    def __str__(self) -> str:
        return f"{f'{self.column}: ' if self.column else ''}{self.text}; {self.hint}"


@dataclass(frozen=True)
class ColumnCounts:
    """What is in one declared column, in numbers of rows."""

    column: str
    kind: str
    missing: int = 0
    outside: int = 0  #: Numbers beyond the bounds: they are moved to the nearest one
    #: Values that are not on the declared list, or no numbers where numbers are declared.
    undeclared: int = 0
    #: Whether every row is encoded alike, so that nothing can be learned from the column.
    constant: bool = False


class ColumnLook:
    """One declared column and its values: what is in it, and what that means."""

    def __init__(self, feature: Feature, values: Cells) -> None:
        self.feature = feature
        self.values = values
        self.x = np.full(len(values), np.nan)
        self.absent, self.strange = np.zeros((2, len(values)), dtype=np.bool_)
        self.refusal = self._refusal()

    def _refusal(self) -> str | None:
        """Read the column; return what encoding says of it, if it refuses it."""
        self.constant = False
        feature = self.feature
        try:
            if isinstance(feature, Discrete):
                places = read_places(feature.column, self.values, feature.codes())
                self.absent, self.strange = places == MISSING, places == UNKNOWN
            elif isinstance(feature, Number):
                self.x, self.strange = feature.read(self.values)
                self.absent = np.isnan(self.x) & ~self.strange
            vertices = feature.vertices(self.values)
        except InvalidData as error:
            return str(error)
        self.constant = len(self.values) > 1 and not np.ptp(vertices)
        return None

    def counts(self) -> ColumnCounts:
        """Count."""
        lo, hi = self.feature.bounds if isinstance(self.feature, Number) else (0, 0)
        return ColumnCounts(
            self.feature.column,
            self.feature.kind,
            int(np.count_nonzero(self.absent)),
            int(np.count_nonzero((self.x < lo) | (self.x > hi))),
            int(np.count_nonzero(self.strange)),
            self.constant,
        )

    def findings(self) -> Iterator[Finding]:
        """Say what the counts mean."""
        found = [*self._texts(), *(self._numbers() if isinstance(self.feature, Number) else ())]
        missing = int(np.count_nonzero(self.absent))
        if missing and self.feature.missing is None:
            text = f"{counted(missing, len(self.values))} have no value"
            hint = 'declare what it means: missing = "indicator", or a value'
            found.append(self._finding("missing", missing, text, hint, refused=True))
        yield from found
        if self.constant and not any(one.kind == "unit" for one in found):
            hint = "nothing can be learned from it: see the bounds and the unit, or leave it out"
            text = "every row is the same once it is encoded"
            yield self._finding("constant", len(self.values), text, hint)
        if self.refusal is not None and not any(one.severity == "refused" for one in found):
            kind = self.refusal.removeprefix(f"column {self.feature.column!r}: ").rstrip(".")
            hint = "convert the column, or declare another kind"
            yield self._finding("kind", len(self.values), kind, hint, refused=True)

    def _texts(self) -> Iterator[Finding]:
        """Look at what is not on the list, or no number."""
        strange = _chosen(self.values, self.strange)
        count = len(strange)
        if not count:
            return
        what = "no number" if isinstance(self.feature, Number) else "a value that is not declared"
        collected = self.refusal is None
        token = likely_token(strange)
        if token is not None and token[1] >= count / 2:
            text = f"{counted(token[1], len(self.values))} hold {token[0]!r}, which is {what}"
            hint = f'declare that it stands for nothing: na = ["{token[0]}"]'
            yield self._finding("sentinel", token[1], text, hint, refused=not collected)
        elif not collected or count >= COLLECTED * len(self.values):
            text = f"{counted(count, len(self.values))} hold {what}"
            if collected:
                text += f" (encoded as unknown = {getattr(self.feature, 'unknown', None)!r})"
            hint = spelling(strange, self.feature.known)
            yield self._finding("undeclared", count, text, hint, refused=not collected)

    def _numbers(self) -> Iterator[Finding]:
        """Look at sentinels, bounds, middle and unit."""
        feature = self.feature
        assert isinstance(feature, Number)
        x = self.x[np.isfinite(self.x)]
        sentinel = likely_sentinel(feature, x)
        if sentinel is not None:
            value, count = sentinel
            text = f"{counted(count, len(self.values))} hold {value:g}, far from all other values"
            hint = f"if it stands for nothing, declare na = [{value:g}]"
            yield self._finding("sentinel", count, text, hint)
            x = x[x != value]
        lo, hi = feature.bounds
        beyond = x[(x < lo) | (x > hi)]
        off_centre = (
            len(x) > 0
            and feature.mean is not None
            and feature.sd is not None
            and not feature.log
            and abs(float(np.median(x)) - feature.mean) > OFF_CENTRE * feature.sd
        )
        many = len(beyond) > max(2, OUTSIDE * len(x))
        if not many and not off_centre:
            return
        whole = off_centre or len(beyond) > len(x) / 2
        unit = likely_conversion(feature, x if whole else beyond)
        if many:
            text = (
                f"{counted(len(beyond), len(self.values))} lie {_sides(beyond, lo, hi)} the bounds"
            )
        else:
            text = f"the middle lies over {OFF_CENTRE:g} sd from the declared mean"
        if unit is None:
            hint = "see the unit and the bounds: what lies outside is moved to the nearest bound"
            yield self._finding("outside", len(beyond), text, hint)
            return
        part = "it looks" if whole else "these look"
        hint = f"{part} like {unit.theirs} where {unit.ours} are declared ({unit.formula()} fits)"
        yield self._finding("unit", len(beyond) if many else len(x), text, hint)

    def _finding(
        self, kind: str, rows: int, text: str, hint: str, *, refused: bool = False
    ) -> Finding:
        severity: Severity = "refused" if refused else "warning"
        return Finding(self.feature.column, kind, severity, rows, text, hint)


def _chosen(cells: Cells, rows: NDArray[np.bool_]) -> list[Value]:
    return list(cells.filter(as_cells(rows)).to_pylist())


def spelling(strange: Iterable[object], known: Iterable[Value]) -> str:
    """Say whether only the spelling differs from what is declared."""
    folded = {str(value).strip().lower() for value in known}
    if folded and all(str(value).strip().lower() in folded for value in {*strange}):
        return "only capitals, spaces or types differ from the declared values"
    return "declare them, or correct them in the table"


def _sides(beyond: NDArray[np.float64], lo: float, hi: float) -> str:
    sides = {"below": bool((beyond < lo).any()), "above": bool((beyond > hi).any())}
    return " and ".join(word for word, there in sides.items() if there)


def counted(count: int, rows: int) -> str:
    """Return a count and its share."""
    share = 100 * count / rows if rows else 0.0
    return f"{count} of {rows} rows ({share:.{0 if share >= 10 or not share else 2}f}%)"


@dataclass(frozen=True)
class DataReport(Shown):
    """What a table looks like to a schema; for its owner alone."""

    rows: int  #: Rows that were read
    used: int  #: Rows that would be learned from
    columns: tuple[ColumnCounts, ...]
    #: What to look at, the columns in the schema's order.
    findings: tuple[Finding, ...] = field(default=())

    @property
    def refused(self) -> tuple[Finding, ...]:
        """What ``fit`` would refuse."""
        return tuple(one for one in self.findings if one.severity == "refused")

    @property
    def clean(self) -> bool:
        """Whether there is nothing to look at."""
        return not self.findings

    @property
    def plain(self) -> bool:
        """Whether every value is what was declared, so that counts would all be zero."""
        counts = (one.missing or one.outside or one.undeclared for one in self.columns)
        return self.clean and not any(counts)

    def lines(self) -> list[str]:
        """Return one line per finding; those that ``fit`` would refuse say so."""
        return [f"{one.severity}: {one}" for one in self.findings]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for the owner's own programs."""
        return {
            "rows": self.rows,
            "used": self.used,
            "columns": [asdict(one) for one in self.columns],
            "findings": [asdict(one) for one in self.findings],
        }

    def counts(self) -> tuple[tuple[str, ...], list[tuple[object, ...]]]:
        """Return the names and rows of a table of counts per column; zeros are left empty."""
        names = ("column", "kind", "missing", "outside", "undeclared", "constant")
        return names, [
            (*(getattr(one, name) or "" for name in names[:5]), "yes" * one.constant)
            for one in self.columns
        ]

    @override
    def view(
        self, whose: str = "", note: str = "Exact counts: for the owner of the table alone."
    ) -> Panel:
        title = f"{whose}'s table" if whose else "Data report"
        title += f": {self.rows} rows read, {self.used} used"
        if self.plain:
            return Panel(f"{title}, none missing, outside bounds or undeclared", note=note)
        columns, rows = self.counts()
        tone: dict[str, Tone] = {"refused": "bad", "warning": "accent"}
        said = f" {whose}:" if whose else ""
        lines = [Word(one.severity, tone[one.severity], f"{said} {one}") for one in self.findings]
        return Panel(title, [Table(columns, rows, columns[2:5]), *lines], note)

    def __str__(self) -> str:
        width = max((len(one.column) for one in self.columns), default=0)
        names, rows = self.counts()
        form = f"{{:<{width}}}  {{:<8}}  {{:>7}}  {{:>7}}  {{:>10}}  {{}}"
        table = [form.format(*(cell or 0 for cell in row[:5]), row[5]).rstrip() for row in rows]
        told = f"{self.rows} rows read, {self.used} used"
        return "\n".join([told, form.format(*names), *table, *self.lines()]) + "\n"


def data_report(
    schema: PublicSchema,  # What was declared
    table: Container,  # Raw rows; other columns than the declared ones are ignored
    *,
    unit_column: str | None = None,  # Names whose row it is; surplus rows of a unit are dropped
    max_rows_per_unit: int = 1,  # How many stay
) -> DataReport:
    """Return how a table fits a schema. Spends nothing, and must not leave the organisation.

    Examples
    --------
    >>> import pandas as pd
    >>> from confrere.schema import Number, PublicSchema, data_report
    >>> schema = PublicSchema([Number("age", bounds=(18, 100), mean=52, sd=16)])
    >>> in_months = pd.DataFrame({"age": [400.0, 610.0, 702.0, 540.0, 805.0]})
    >>> for finding in data_report(schema, in_months).findings:
    ...     print(finding.hint)
    it looks like months where years are declared (value / 12 fits)
    """
    if not is_table(table):
        raise InvalidData("table must be a data frame of raw rows.")
    rows, names = n_rows_of(table), column_names(table)
    used = np.ones(rows, dtype=np.bool_)
    findings: list[Finding] = []
    if unit_column is not None:
        findings += _per_unit(names, unit_column, table, max_rows_per_unit, used)

    def column_of(name: str) -> Cells | None:
        if names.count(name) == 1:
            return declared_columns(table, [name])[name].filter(as_cells(used))
        findings.append(_lacking(name, names))
        return None

    counts: list[ColumnCounts] = []
    for feature in schema.features:
        cells = column_of(feature.column)
        if cells is not None:
            looked = ColumnLook(feature, cells)
            counts.append(looked.counts())
            findings += looked.findings()
    if schema.outcome is not None:
        cells = column_of(schema.outcome.column)
        findings += [] if cells is None else _label(schema.outcome, cells)
    return DataReport(rows, int(used.sum()), tuple(counts), tuple(findings))


def _per_unit(
    names: list[str], column: str, table: Container, most: int, used: NDArray[np.bool_]
) -> Iterator[Finding]:
    """Look at whose rows they are; surplus ones are not used."""
    if names.count(column) != 1:
        yield _lacking(column, names)
        return
    places, cells = distinct(declared_columns(table, [column])[column])
    used[:] = earlier(places) < most
    nobody, dropped = (int(np.count_nonzero(x)) for x in (nobodys(places, cells), ~used))
    if nobody:
        text = f"{counted(nobody, len(used))} belong to nobody"
        yield Finding(column, "unit_column", "refused", nobody, text, "give every row a unit")
    if dropped:
        text = f"{counted(dropped, len(used))} are dropped: at most {most} per unit"
        hint = "the first ones stay; sort the table, or raise privacy.max_rows_per_unit"
        yield Finding(column, "dropped", "warning", dropped, text, hint)


def _lacking(column: str, columns: list[str]) -> Finding:
    if column in columns:
        return Finding(column, "lacking", "refused", 0, "is there twice", "name columns once")
    names = [str(name) for name in columns]
    folded = {name.strip().lower(): name for name in names}
    near = folded.get(column.strip().lower()) or next(
        iter(get_close_matches(column, names, n=1, cutoff=0.8)), None
    )
    hint = "add it" if near is None else f"is it the column {near!r}"
    return Finding(column, "lacking", "refused", 0, "the table has no such column", hint)


def _label(outcome: Label, values: Cells) -> Iterator[Finding]:
    column = outcome.column
    try:
        places = outcome.places(values)
    except InvalidData as error:
        kind = str(error).removeprefix(f"column {column!r}: ").rstrip(".")
        yield Finding(column, "label", "refused", len(values), kind, "convert the column")
        return
    missing = int(np.count_nonzero(places == MISSING))
    if missing:
        hint = "drop them by a rule that does not look at other rows"
        text = f"{counted(missing, len(values))} have no label"
        yield Finding(column, "label", "refused", missing, text, hint)
    strange = _chosen(values, places == UNKNOWN)
    odd, present = len(strange), len(values) - missing
    if odd and (outcome.classes is not None or outcome.negative is not None):
        text = f"{counted(odd, len(values))} have a label that is not declared"
        yield Finding(column, "label", "refused", odd, text, spelling(strange, outcome.known))
        return
    if outcome.positive is None or not present:
        return
    positive = (places >= 0) & (places < len(outcome.positive))
    share = float(np.count_nonzero(positive)) / present
    if share in (0.0, 1.0):
        side = "no" if share == 0 else "every"
        hint = "declare what is positive"
        if share == 0:
            hint = spelling(_chosen(values, places != MISSING), outcome.positive)
        text = f"{side} row has a positive label"
        yield Finding(column, "label", "warning", present, text, hint)
    elif outcome.base_rate is not None and not 1 / 3 <= share / outcome.base_rate <= 3:
        text = "the share of positive labels is not within three times of the declared base_rate"
        hint = "declare what is positive, or a rate of people like these from the literature"
        yield Finding(column, "label", "warning", present, text, hint)
