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
from typing import Any

import numpy as np
import pandas as pd

from confrere.errors import InvalidData
from confrere.schema.cells import MISSING, UNKNOWN
from confrere.schema.column_report import ColumnCounts, ColumnLook, Finding, counted, spelling
from confrere.schema.label import Label
from confrere.schema.public_schema import PublicSchema


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

    def counts(self) -> tuple[tuple[str, ...], list[tuple[object, ...]]]:
        """Return the names and rows of a table of counts per column; zeros are left empty."""
        names = ("column", "kind", "missing", "outside", "undeclared", "constant")
        return names, [
            (
                one.column,
                one.kind,
                *(getattr(one, name) or "" for name in names[2:5]),
                "yes" if one.constant else "",
            )
            for one in self.columns
        ]

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
        looked = ColumnLook(feature, table[feature.column])
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
            text = f"{counted(nobody, len(table))} belong to nobody"
            yield Finding(column, "unit_column", "refused", nobody, text, "give every row a unit")
        if dropped:
            text = f"{counted(dropped, len(table))} are dropped: at most {most} per unit"
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
    strange = values[places == UNKNOWN]
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
            hint = spelling(values[places != MISSING], outcome.positive)
        text = f"{side} row has a positive label"
        yield Finding(column, "label", "warning", present, text, hint)
    elif outcome.base_rate is not None and not 1 / 3 <= share / outcome.base_rate <= 3:
        text = "the share of positive labels is not within three times of the declared base_rate"
        hint = "declare what is positive, or a rate of people like these from the literature"
        yield Finding(column, "label", "warning", present, text, hint)
