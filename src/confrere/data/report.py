"""How a table fits a schema: a report for whoever owns the table, and for nobody else.

It counts what encoding would do in silence: values outside their bounds, missing ones, values
that nobody declared, columns that are constant once they are clipped; and it says when numbers look
as if they stood for missing. It quotes no value: what a hint names is on a public list. It is
computed without noise, so it must not leave the organisation. A table is read once, in batches.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, astuple, dataclass, field, fields, replace
from difflib import get_close_matches
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from confrere.data.cells import (
    MISSING,
    UNKNOWN,
    Cells,
    Container,
    UnitCounts,
    Value,
    as_cells,
    is_table,
)
from confrere.data.features import Feature, Number, Outcome
from confrere.data.schema import PublicSchema
from confrere.data.tables import RowTable, open_table
from confrere.errors import InvalidData
from confrere.views import Panel, Shown, Table, Tone, Word

#: Numbers and texts that people write where nothing was measured.
SENTINELS = (0, -1, -9, -99, -999, -9999, 9, 77, 88, 99, 777, 888, 999, 9998, 9999, 99999)
TOKENS = ("", "?", ".", "-", "na", "n/a", "nan", "null", "none", "unknown", "missing", "not known")

Severity = Literal["refused", "warning"]

#: Shares from which something is worth a line: clipped tails, and values that a bucket collects.
OUTSIDE, COLLECTED = 0.01, 0.05
#: How far, in declared standard deviations, the middle of the values may lie from the mean.
OFF_CENTRE = 3.0


@dataclass(frozen=True)
class Finding:
    """One thing that the owner of a table should look at."""

    column: str  #: Where; empty for the table as a whole
    #: One word for programs: outside, missing, undeclared, constant, sentinel, kind, lacking,
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

    def cells(self) -> list[object]:
        return ["yes" if cell is True else cell or "" for cell in astuple(self)]


class _Texts:
    """Texts that nobody declared: tokens for nothing among them, and whether only spelling differs.

    None of the others is kept.
    """

    def __init__(self, known: Iterable[Value]) -> None:
        self.folded = {str(value).strip().lower() for value in known}
        self.tokens: Counter[str] = Counter()
        self.alike = bool(self.folded)

    def add(self, cells: Cells, rows: NDArray[np.bool_]) -> None:
        for one in cells.filter(as_cells(rows)).value_counts().to_pylist():
            text = str(one["values"])
            self.alike = self.alike and text.strip().lower() in self.folded
            if text.strip().lower() in TOKENS:
                self.tokens[text] += one["counts"]

    def hint(self) -> str:
        if self.alike:
            return "only capitals, spaces or types differ from the declared values"
        return "declare them, or correct them in the table"


class _Look:
    """What is in one declared column, batch after batch, and what that means."""

    def __init__(self, declared: Feature | Outcome) -> None:
        self.declared, self.column, self.refusal = declared, declared.column, ""
        self.rows = self.missing = self.undeclared = 0
        self.texts = _Texts(declared.known)
        #: What counts as 1 stands first among labels.
        self.positive = getattr(declared, "positive", None) or ()
        self.sides = _Texts(self.positive)
        # Rows of every place, and of numbers below and above the bounds, and of every sentinel.
        self.held, self.outside, self.sentinels = (
            np.zeros(size, dtype=np.int64) for size in (declared.size, 2, len(SENTINELS))
        )

    def add(self, cells: Cells) -> None:
        """Count what is in some cells; keep what encoding says where it refuses them."""
        self.rows += len(cells)
        declared = self.declared
        try:
            if isinstance(declared, Number):
                x, strange = declared.read(cells)
                lo, hi = declared.bounds
                self.outside += [np.count_nonzero(x < lo), np.count_nonzero(x > hi)]
                self.sentinels += [np.count_nonzero(x == value) for value in SENTINELS]
                places = declared.placed(x, strange)
            else:
                places = declared.places(cells)
        except InvalidData as error:
            self.refusal = str(error).removeprefix(f"column {self.column!r}: ").rstrip(".")
            return
        self.missing += int(np.count_nonzero(places == MISSING))
        self.undeclared += int(np.count_nonzero(places == UNKNOWN))
        self.texts.add(cells, places == UNKNOWN)
        self.held += np.bincount(places[places >= 0], minlength=len(self.held))
        if self.positive and not self.held[: len(self.positive)].any():
            self.sides.add(cells, places != MISSING)

    @property
    def constant(self) -> bool:
        """Whether every row is encoded alike."""
        kinds = int(np.count_nonzero([*self.held, self.missing, self.undeclared]))
        refused = any(one.severity == "refused" for one in self._wrong())
        return self.rows > 1 and kinds == 1 and not refused

    def counts(self) -> ColumnCounts:
        counted = (self.missing, int(self.outside.sum()), self.undeclared, self.constant)
        return ColumnCounts(self.column, self.declared.kind, *counted)

    def findings(self) -> Iterator[Finding]:
        if isinstance(self.declared, Outcome):
            yield from self._outcome(self.declared)
            return
        yield from self._wrong()
        if isinstance(self.declared, Number):
            yield from self._numbers(self.declared)
        if self.constant:
            hint = "nothing can be learned from it: see the bounds and the unit, or leave it out"
            yield self._said("constant", "every row is the same once it is encoded", hint)

    def _said(self, kind: str, text: str, hint: str, *, refused: bool = False) -> Finding:
        """Return what is wrong with all rows."""
        severity: Severity = "refused" if refused else "warning"
        return Finding(self.column, kind, severity, self.rows, text, hint)

    def _some(
        self, kind: str, rows: int, what: str, hint: str, *, refused: bool = False
    ) -> Finding:
        told = f"{counted(rows, self.rows)} {what}"
        return replace(self._said(kind, told, hint, refused=refused), rows=rows)

    def _wrong(self) -> Iterator[Finding]:
        feature, count = cast(Feature, self.declared), self.undeclared
        collected, what = feature.collects, re.split("[,;]", feature.strange)[0]
        token, held = max(self.texts.tokens.items(), key=lambda pair: pair[1], default=("", 0))
        if held and held >= count / 2:
            hint = f'declare that it stands for nothing: na = ["{token}"]'
            told = f"hold {token!r}, which is {what}"
            yield self._some("sentinel", held, told, hint, refused=not collected)
        elif count and (not collected or count >= COLLECTED * self.rows):
            unknown = f" (encoded as unknown = {getattr(feature, 'unknown', None)!r})"
            told = f"hold {what}{unknown if collected else ''}"
            yield self._some("undeclared", count, told, self.texts.hint(), refused=not collected)
        if self.missing and feature.missing is None:
            hint = 'declare what it means: missing = "indicator", or a value'
            yield self._some("missing", self.missing, "have no value", hint, refused=True)
        if self.refusal:
            hint = "convert the column, or declare another kind"
            yield self._said("kind", self.refusal, hint, refused=True)

    def _numbers(self, feature: Number) -> Iterator[Finding]:
        apart = self.sentinels * self._apart(feature)
        count, at = max((int(rows), -j) for j, rows in enumerate(apart))
        outside, held = self.outside.copy(), self.held.copy()
        if count:
            value = SENTINELS[-at]
            hint = f"if it stands for nothing, declare na = [{value}]"
            yield self._some("sentinel", count, f"hold {value}, far from all other values", hint)
            outside -= [count * (value < feature.bounds[0]), count * (value > feature.bounds[1])]
            held[feature.nearest(np.array([value]))] -= count
        out, present = int(outside.sum()), int(held.sum())
        hint = "see the unit and the bounds: what lies outside is moved to the nearest bound"
        if out > max(2, OUTSIDE * present):
            pairs = zip(("below", "above"), outside, strict=True)
            where = " and ".join(word for word, there in pairs if there)
            yield self._some("outside", out, f"lie {where} the bounds", hint)
        elif present and feature.mean is not None and feature.sd is not None:
            middle = feature.points()[np.searchsorted(np.cumsum(held), present / 2)]
            if abs(middle - feature.mean) > OFF_CENTRE * feature.sd:
                text = f"the middle lies over {OFF_CENTRE:g} sd from the declared mean"
                yield replace(self._said("outside", text, hint), rows=out)

    def _apart(self, feature: Number) -> NDArray[np.bool_]:
        """Return which sentinels probably stand for missing: one row of a hundred or more.

        Outside the bounds, most of what is there; inside, far from all the other values. A count
        may be 0 by right, next to 1; a cholesterol of 0 stands alone.
        """
        found = np.zeros(len(SENTINELS), dtype=np.bool_)
        least = max(3, 0.01 * int(self.held.sum())) if feature.dates is None else np.inf
        points, lo, hi = feature.points(), *feature.bounds
        for j in np.flatnonzero(self.sentinels >= least):
            value, rows = SENTINELS[j], self.sentinels[j]
            own = int(feature.nearest(np.array([value]))[0])
            others = np.delete(points, own)[np.delete(self.held[:-1], own) > 0]
            if value < lo or value > hi:
                found[j] = len(others) > 0 and rows > self.outside[int(value > hi)] / 2
            elif len(others) and rows == self.held[own]:
                gap, steps = np.abs(others - points[own]).min(), np.diff(others).max(initial=0.0)
                found[j] = gap > max(0.15 * float(np.ptp(others)), 2 * steps) > 0
        return found

    def _outcome(self, outcome: Outcome) -> Iterator[Finding]:
        present = self.rows - self.missing
        if self.refusal:
            yield self._said("label", self.refusal, "convert the column", refused=True)
            return
        if self.missing:
            hint = "drop them by a rule that does not look at other rows"
            yield self._some("label", self.missing, "have no label", hint, refused=True)
        if self.undeclared:
            told = "have a label that is not declared", self.texts.hint()
            yield self._some("label", self.undeclared, *told, refused=True)
        elif self.positive and present:
            share = int(self.held[: len(self.positive)].sum()) / present
            rate, hint, text = outcome.base_rate, "declare what is positive", ""
            if share in (0.0, 1.0):
                text = f"{'every' if share else 'no'} row has a positive label"
                hint = hint if share else self.sides.hint()
            elif rate is not None and not 1 / 3 <= share / rate <= 3:
                hint += ", or a rate of people like these from the literature"
                text = "the share of positive labels is not within three times of the declared "
                text += "base_rate"
            if text:
                yield replace(self._said("label", text, hint), rows=present)


def counted(count: int, rows: int) -> str:
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
    def plain(self) -> bool:
        """Whether every value is what was declared, so that counts would all be zero."""
        counts = (one.missing or one.outside or one.undeclared for one in self.columns)
        return not self.findings and not any(counts)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for the owner's own programs."""
        return asdict(self)

    @override
    def view(
        self, whose: str = "", note: str = "Exact counts: for the owner of the table alone."
    ) -> Panel:
        title = f"{whose}'s table" if whose else "Data report"
        title += f": {self.rows} rows read, {self.used} used"
        if self.plain:
            return Panel(f"{title}, none missing, outside bounds or undeclared", note=note)
        columns = [one.name for one in fields(ColumnCounts)]
        rows = [one.cells() for one in self.columns]
        tone: dict[str, Tone] = {"refused": "bad", "warning": "accent"}
        said = f" {whose}:" if whose else ""
        lines = [Word(one.severity, tone[one.severity], f"{said} {one}") for one in self.findings]
        return Panel(title, [Table(columns, rows, columns[2:5]), *lines], note)

    def __str__(self) -> str:
        names = [one.name for one in fields(ColumnCounts)]
        table: list[list[object]] = [[*names], *(one.cells() for one in self.columns)]
        width = max(len(str(line[0])) for line in table)
        lines = [f"{self.rows} rows read, {self.used} used"]
        for column, *cells in table:
            lines.append(f"{column:<{width}}" + "".join(f"  {cell!s:<10}" for cell in cells))
        lines += [f"{one.severity}: {one}" for one in self.findings]
        return "\n".join(map(str.rstrip, lines)) + "\n"


def data_report(
    schema: PublicSchema,  # What was declared
    table: Container,  # Raw rows, of which the declared columns are read; as open_table takes them
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
    >>> print(data_report(schema, in_months).findings[0].text)
    5 of 5 rows (100%) lie above the bounds
    """
    if not is_table(table) and not isinstance(table, RowTable):
        raise InvalidData("table must be a data frame of raw rows, or a table that is opened.")
    source = open_table(table)
    outcome = () if schema.outcome is None else (schema.outcome,)
    looks = {one.column: _Look(one) for one in (*schema.features, *outcome)}
    wanted = [*([] if unit_column is None else [unit_column]), *looks]
    names = list(source.names)
    units = UnitCounts(unit_column, max_rows_per_unit)
    rows = used = nobody = 0
    there = [name for name in wanted if names.count(name) == 1] if names else None
    for batch in source.read(there, least=int(source is table)):
        names = names or batch.column_names  # a query tells them with its rows
        rows += len(batch)
        if unit_column is not None and names.count(unit_column) == 1:
            kept, without = units.kept(batch)
            batch, nobody = batch.filter(kept), nobody + without
        used += len(batch)
        for column, look in looks.items():
            if names.count(column) == 1:
                look.add(as_cells(batch[column], column))
    findings = [_lacking(name, names) for name in wanted if names.count(name) != 1]
    if nobody:
        told = f"{counted(nobody, rows)} belong to nobody", "give every row a unit"
        findings.append(Finding(unit_column or "", "unit_column", "refused", nobody, *told))
    if used < rows:
        text = f"{counted(rows - used, rows)} are dropped: at most {units.most} per unit"
        hint = "the first ones stay; sort the table, or raise privacy.max_rows_per_unit"
        findings.append(Finding(unit_column or "", "dropped", "warning", rows - used, text, hint))
    seen = [look for column, look in looks.items() if names.count(column) == 1]
    for look in seen:
        findings += look.findings()
    counts = tuple(look.counts() for look in seen if isinstance(look.declared, Feature))
    return DataReport(
        rows, used, counts, tuple(sorted(findings, key=lambda f: wanted.index(f.column)))
    )


def _lacking(column: str, columns: list[str]) -> Finding:
    if column in columns:
        return Finding(column, "lacking", "refused", 0, "is there twice", "name columns once")
    folded = {name.strip().lower(): name for name in map(str, columns)}
    near = get_close_matches(column, map(str, columns), n=1, cutoff=0.8)
    alike = folded.get(column.strip().lower(), near[0] if near else None)
    hint = "add it" if alike is None else f"is it the column {alike!r}"
    return Finding(column, "lacking", "refused", 0, "the table has no such column", hint)
