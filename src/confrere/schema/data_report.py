"""How a table fits a schema: a report for whoever owns the table, and for nobody else.

It counts what encoding would do in silence: values outside their bounds, missing ones, values
that nobody declared, columns that are constant once they are clipped; and it says when numbers
look as if they were written in another unit. It quotes no value: what a hint names is on a public
list. It is computed without noise, so it must not leave the organisation.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from difflib import get_close_matches
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from confrere.errors import InvalidData
from confrere.schema.discrete import Category, Flag, Ordered
from confrere.schema.feature import Feature, Number
from confrere.schema.label import Label
from confrere.schema.other_units import likely_conversion, likely_sentinel, likely_token
from confrere.schema.public_schema import PublicSchema

Severity = Literal["refused", "warning"]

#: Shares from which something is worth a line: clipped tails, and values that a bucket collects.
OUTSIDE, COLLECTED = 0.01, 0.05
#: How far, in declared standard deviations, the middle of the values may lie from the mean.
OFF_CENTRE = 3.0


@dataclass(frozen=True)
class Finding:
    """One thing that the owner of a table should look at.

    Attributes
    ----------
    column : str
        Where; empty for the table as a whole.
    kind : str
        One word for programs: outside, missing, undeclared, constant, unit, sentinel, kind,
        lacking, dropped, unit_column or label.
    severity : {"refused", "warning"}
        Whether ``fit`` would refuse the table, or learn from it all the same.
    rows : int
        How many rows it concerns.
    text : str
        What is there.
    hint : str
        What to do.
    """

    column: str
    kind: str
    severity: Severity
    rows: int
    text: str
    hint: str

    def __str__(self) -> str:
        return f"{f'{self.column}: ' if self.column else ''}{self.text}; {self.hint}"


@dataclass(frozen=True)
class ColumnCounts:
    """What is in one declared column, in numbers of rows.

    Attributes
    ----------
    column, kind : str
    missing : int
    below, above : int
        Numbers outside the bounds: they are moved to the nearest one.
    undeclared : int
        Values that are not on the declared list, or no numbers where numbers are declared.
    constant : bool
        Whether every row is encoded alike, so that nothing can be learned from the column.
    """

    column: str
    kind: str
    missing: int = 0
    below: int = 0
    above: int = 0
    undeclared: int = 0
    constant: bool = False

    @property
    def outside(self) -> int:
        """Numbers outside the bounds."""
        return self.below + self.above


@dataclass(frozen=True)
class DataReport:
    """What a table looks like to a schema; for its owner alone.

    Attributes
    ----------
    rows : int
        Rows that were read.
    used : int
        Rows that would be learned from.
    columns : tuple of ColumnCounts
    findings : tuple of Finding
        What to look at, the columns in the schema's order.
    """

    rows: int
    used: int
    columns: tuple[ColumnCounts, ...]
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
            "columns": [{**asdict(one), "outside": one.outside} for one in self.columns],
            "findings": [asdict(one) for one in self.findings],
        }

    def _repr_html_(self) -> str:
        from confrere.schema.schema_html import report_html

        return report_html(self)

    def __str__(self) -> str:
        width = max((len(one.column) for one in self.columns), default=0)
        head = f"{'column':<{width}}  kind      missing  outside  undeclared  constant"
        rows = [
            f"{one.column:<{width}}  {one.kind:<8}  {one.missing:>7}  {one.outside:>7}  "
            f"{one.undeclared:>10}  {'yes' if one.constant else ''}".rstrip()
            for one in self.columns
        ]
        told = f"{self.rows} rows read, {self.used} used"
        return "\n".join([told, head, *rows, *self.lines()]) + "\n"


def data_report(
    schema: PublicSchema,
    table: pd.DataFrame,
    *,
    unit_column: str | None = None,
    max_rows_per_unit: int = 1,
) -> DataReport:
    """Return how a table fits a schema. Spends nothing, and must not leave the organisation.

    Parameters
    ----------
    schema : PublicSchema
        What was declared.
    table : data frame
        Raw rows; other columns than the declared ones are ignored.
    unit_column : str, optional
        Names whose row it is; surplus rows of a unit are dropped.
    max_rows_per_unit : int, default=1
        How many stay.

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
    if not isinstance(table, pd.DataFrame):
        raise InvalidData("table must be a data frame of raw rows.")
    rows = len(table)
    findings: list[Finding] = []
    if unit_column is not None:
        table, found = _per_unit(table, unit_column, max_rows_per_unit)
        findings += found
    counts: list[ColumnCounts] = []
    for feature in schema.features:
        present = [name for name in table.columns if name == feature.column]
        if len(present) != 1:
            findings.append(_lacking(feature.column, table, twice=bool(present)))
            continue
        looked = _Column(feature, table[feature.column])
        counts.append(looked.counts())
        findings += looked.findings()
    if schema.outcome is not None:
        findings += _label(schema.outcome, table)
    return DataReport(rows, len(table), tuple(counts), tuple(findings))


def _per_unit(
    table: pd.DataFrame, column: str, most: int
) -> tuple[pd.DataFrame, Iterator[Finding]]:
    if list(table.columns).count(column) != 1:
        return table, iter([_lacking(column, table, twice=column in table.columns)])
    nobody = int(table[column].isna().sum())
    surplus = table.groupby(column, sort=False, dropna=False).cumcount() >= most
    dropped = int(surplus.sum())

    def found() -> Iterator[Finding]:
        if nobody:
            text = f"{_of(nobody, len(table))} belong to nobody"
            yield Finding(column, "unit_column", "refused", nobody, text, "give every row a unit")
        if dropped:
            text = f"{_of(dropped, len(table))} are dropped: at most {most} per unit"
            hint = "the first ones stay; sort the table, or raise privacy.max_rows_per_unit"
            yield Finding(column, "dropped", "warning", dropped, text, hint)

    return table[~surplus], found()


def _lacking(column: str, table: pd.DataFrame, *, twice: bool) -> Finding:
    if twice:
        return Finding(column, "lacking", "refused", 0, "is there twice", "name columns once")
    names = [str(name) for name in table.columns]
    folded = {name.strip().lower(): name for name in names}
    near = folded.get(column.strip().lower()) or next(
        iter(get_close_matches(column, names, n=1, cutoff=0.8)), None
    )
    hint = "add it" if near is None else f"is it the column {near!r}"
    return Finding(column, "lacking", "refused", 0, "the table has no such column", hint)


def _label(outcome: Label, table: pd.DataFrame) -> Iterator[Finding]:
    column = outcome.column
    if list(table.columns).count(column) != 1:
        yield _lacking(column, table, twice=column in table.columns)
        return
    values = table[column]
    missing = int(values.isna().sum())
    if missing:
        hint = "drop them by a rule that does not look at other rows"
        text = f"{_of(missing, len(values))} have no label"
        yield Finding(column, "label", "refused", missing, text, hint)
    known = {*(outcome.classes or ()), *(outcome.positive or ()), *(outcome.negative or ())}
    present = values[values.notna()]
    strange = ~present.isin(list(known))
    odd = int(strange.sum())
    if odd and (outcome.classes is not None or outcome.negative is not None):
        text = f"{_of(odd, len(values))} have a label that is not declared"
        yield Finding(column, "label", "refused", odd, text, _spelling(present[strange], known))
        return
    if outcome.positive is None or not len(present):
        return
    share = 1 - odd / len(present) if outcome.negative is None else _positives(outcome, present)
    if share in (0.0, 1.0):
        side = "no" if share == 0 else "every"
        hint = _spelling(present, {*outcome.positive}) if share == 0 else "declare what is positive"
        text = f"{side} row has a positive label"
        yield Finding(column, "label", "warning", len(present), text, hint)
    elif outcome.base_rate is not None and not 1 / 3 <= share / outcome.base_rate <= 3:
        text = "the share of positive labels is not within three times of the declared base_rate"
        hint = "declare what is positive, or a rate of people like these from the literature"
        yield Finding(column, "label", "warning", len(present), text, hint)


def _positives(outcome: Label, present: pd.Series[Any]) -> float:
    return float(present.isin(list(outcome.positive or ())).mean())


class _Column:
    """One declared column and its values."""

    def __init__(self, feature: Feature, values: pd.Series[Any]) -> None:
        self.feature = feature
        self.values = values
        na = list(getattr(feature, "na", None) or ())
        self.absent: NDArray[np.bool_] = np.asarray(values.isna() | values.isin(na))
        self.x = np.full(len(values), np.nan)
        if isinstance(feature, Number):
            if not pd.api.types.is_bool_dtype(values.dtype):
                numbers = pd.to_numeric(values.mask(self.absent), errors="coerce")
                self.x = numbers.to_numpy(dtype=np.float64, na_value=np.nan)
            self.strange = ~self.absent & np.isnan(self.x)
        else:
            self.strange = ~self.absent & ~np.asarray(values.isin(list(_declared(feature))))
        self.refusal = self._refusal()

    def _refusal(self) -> str | None:
        """Return what encoding says of the column, if it refuses it; set whether it is constant."""
        self.constant = False
        encoded = np.empty((len(self.feature.names), len(self.values)))
        try:
            self.feature.compiled().write(self.values, encoded)
        except InvalidData as error:
            return str(error)
        self.constant = len(self.values) > 1 and not np.ptp(encoded, axis=1).any()
        return None

    def counts(self) -> ColumnCounts:
        """Count."""
        below = above = 0
        if isinstance(self.feature, Number):
            below = int(np.count_nonzero(self.x < self.feature.bounds[0]))
            above = int(np.count_nonzero(self.x > self.feature.bounds[1]))
        return ColumnCounts(
            self.feature.column,
            self.feature.kind,
            int(np.count_nonzero(self.absent)),
            below,
            above,
            int(np.count_nonzero(self.strange)),
            self.constant,
        )

    def findings(self) -> Iterator[Finding]:
        """Say what the counts mean."""
        found = [*self._texts(), *(self._numbers() if isinstance(self.feature, Number) else ())]
        missing = int(np.count_nonzero(self.absent))
        if missing and self.feature.missing is None:
            text = f"{_of(missing, len(self.values))} have no value"
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
        strange = self.values[self.strange]
        count = len(strange)
        if not count:
            return
        what = "no number" if isinstance(self.feature, Number) else "a value that is not declared"
        collected = self.refusal is None
        token = likely_token(strange)
        if token is not None and token[1] >= count / 2:
            text = f"{_of(token[1], len(self.values))} hold {token[0]!r}, which is {what}"
            hint = f'declare that it stands for nothing: na = ["{token[0]}"]'
            yield self._finding("sentinel", token[1], text, hint, refused=not collected)
        elif not collected or count >= COLLECTED * len(self.values):
            text = f"{_of(count, len(self.values))} hold {what}"
            if collected:
                text += f" (encoded as unknown = {getattr(self.feature, 'unknown', None)!r})"
            hint = _spelling(strange, _declared(self.feature))
            yield self._finding("undeclared", count, text, hint, refused=not collected)

    def _numbers(self) -> Iterator[Finding]:
        """Look at sentinels, bounds, middle and unit."""
        feature = self.feature
        assert isinstance(feature, Number)
        x = self.x[np.isfinite(self.x)]
        sentinel = likely_sentinel(feature, x)
        if sentinel is not None:
            value, count = sentinel
            text = f"{_of(count, len(self.values))} hold {value:g}, far from all other values"
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
            text = f"{_of(len(beyond), len(self.values))} lie {_sides(beyond, lo, hi)} the bounds"
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


def _declared(feature: Feature) -> set[Any]:
    if isinstance(feature, Ordered):
        return {*feature.levels}
    if isinstance(feature, Flag):
        return {*feature.true, *feature.false}
    return {*feature.values} if isinstance(feature, Category) else set()


def _spelling(strange: pd.Series[Any], known: set[Any]) -> str:
    """Say whether only the spelling differs from what is declared."""
    folded = {str(value).strip().lower() for value in known}
    if folded and all(str(value).strip().lower() in folded for value in strange.unique()):
        return "only capitals, spaces or types differ from the declared values"
    return "declare them, or correct them in the table"


def _sides(beyond: NDArray[np.float64], lo: float, hi: float) -> str:
    sides = {"below": bool((beyond < lo).any()), "above": bool((beyond > hi).any())}
    return " and ".join(word for word, there in sides.items() if there)


def _of(count: int, rows: int) -> str:
    """Return a count and its share."""
    share = 100 * count / rows if rows else 0.0
    return f"{count} of {rows} rows ({share:.{0 if share >= 10 or not share else 2}f}%)"
