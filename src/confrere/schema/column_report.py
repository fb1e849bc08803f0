"""One column of a table against what was declared: counts, and what they mean for its owner."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from confrere.errors import InvalidData
from confrere.schema.cells import MISSING, UNKNOWN, Value, read_numbers, read_places
from confrere.schema.encoding import NumberColumn
from confrere.schema.feature import Feature, Number
from confrere.schema.other_units import likely_conversion, likely_sentinel, likely_token

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


class ColumnLook:
    """One declared column and its values: what is in it, and what that means."""

    def __init__(self, feature: Feature, values: pd.Series[Any]) -> None:
        self.feature = feature
        self.values = values
        self.x = np.full(len(values), np.nan)
        self.absent, self.strange = np.zeros((2, len(values)), dtype=np.bool_)
        self.refusal = self._refusal()

    def _refusal(self) -> str | None:
        """Read the column; return what encoding says of it, if it refuses it."""
        self.constant = False
        encoded = np.empty((len(self.feature.names), len(self.values)))
        column = self.feature.compiled()
        try:
            if isinstance(column, NumberColumn):
                self.x, self.strange = read_numbers(column.column, self.values, column.na)
                self.absent = np.isnan(self.x) & ~self.strange
            else:
                places = read_places(column.column, self.values, column.codes)
                self.absent, self.strange = places == MISSING, places == UNKNOWN
            column.write(self.values, encoded)
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
        strange = self.values[self.strange]
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
            hint = spelling(strange, self.feature.declared_values())
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


def spelling(strange: pd.Series[Any], known: Iterable[Value]) -> str:
    """Say whether only the spelling differs from what is declared."""
    folded = {str(value).strip().lower() for value in known}
    if folded and all(str(value).strip().lower() in folded for value in strange.unique()):
        return "only capitals, spaces or types differ from the declared values"
    return "declare them, or correct them in the table"


def _sides(beyond: NDArray[np.float64], lo: float, hi: float) -> str:
    sides = {"below": bool((beyond < lo).any()), "above": bool((beyond > hi).any())}
    return " and ".join(word for word, there in sides.items() if there)


def counted(count: int, rows: int) -> str:
    """Return a count and its share."""
    share = 100 * count / rows if rows else 0.0
    return f"{count} of {rows} rows ({share:.{0 if share >= 10 or not share else 2}f}%)"
