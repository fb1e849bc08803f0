"""The label: which column, which values are positive, or which classes there are."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from confrere.errors import InvalidData, SchemaError
from confrere.schema.cells import MISSING, UNKNOWN, Value, codes_of, meaning, read_places, refuse
from confrere.schema.feature import declared_share, declared_values
from confrere.schema.tables import column_names, declared_columns, is_table, plain_series

#: What the other side of a lone declared value is called, where there is a word for it.
_YES = ("1", "yes", "Yes", "YES", "y", "Y", "true", "True", "TRUE")
_NO = ("0", "no", "No", "NO", "n", "N", "false", "False", "FALSE")
_OPPOSITES: dict[Value, Value] = {1: 0, **dict(zip(_YES, _NO, strict=True))}


@final
@dataclass(frozen=True, kw_only=True)
class Label:
    """What is to be predicted: two sides, or several classes.

    Parameters
    ----------
    column : str
        Name in the table.
    positive : value or list of values
        What counts as 1.
    negative : value or list of values, optional
        What counts as -1; unless declared, every other value does. Where all declared labels are
        words, the numbers 1 and -1 stand for the sides.
    base_rate : float, optional
        Public share of the positive side.
    classes : list of values, optional
        All classes, instead of ``positive``.
    """

    column: str = field(kw_only=False)
    positive: tuple[Value, ...] | None = None
    negative: tuple[Value, ...] | None = None
    base_rate: float | None = None
    classes: tuple[Value, ...] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.column, str) or not self.column:
            raise SchemaError("the label needs a column name: a non-empty text.")
        for key in ("positive", "negative", "classes"):
            values = getattr(self, key)
            if values is not None:
                object.__setattr__(self, key, declared_values(self.column, key, values))
        if (self.positive is None) == (self.classes is None):
            raise self._error("declare positive (two sides) or classes (several), one of them")
        if self.classes is not None:
            if self.negative is not None or self.base_rate is not None:
                raise self._error("negative and base_rate belong to positive, not to classes")
            if len(self.classes) < 2:
                raise self._error("classes must name at least two values")
        if self.positive is not None and self.negative is not None:
            declared_values(self.column, "positive and negative", self.positive + self.negative)
        if self.base_rate is not None:
            rate = declared_share(self.column, "base_rate", self.base_rate)
            object.__setattr__(self, "base_rate", rate)

    @property
    def known(self) -> tuple[Value, ...]:
        """All declared labels: the classes, or the positive ones and then the negative ones."""
        return self.classes or (self.positive or ()) + (self.negative or ())

    @property
    def names(self) -> tuple[Value, ...]:
        """What predictions are called: of -1 and of 1, or the sorted classes."""
        if self.classes is not None:
            return tuple(sorted(self.classes))
        assert self.positive is not None
        if len(self.positive) == 1 and self.negative is None:
            value = self.positive[0]
            if isinstance(value, bool):
                return (not value, value)
            if value in _OPPOSITES:
                return (_OPPOSITES[value], value)
        positive = " or ".join(map(str, self.positive))
        if self.negative is None:
            return (f"not {positive}", positive)
        sides = (self.negative, self.positive)
        if all(len(side) == 1 for side in sides) and len({type(side[0]) for side in sides}) == 1:
            return (self.negative[0], self.positive[0])
        return (" or ".join(map(str, self.negative)), positive)

    def places(self, values: Any) -> NDArray[np.intp]:
        """Return which of the known labels each cell is: -1 where it is missing, -2 if it is none.

        The numbers 1 and -1 stand for the sides where all declared labels are texts of no number.
        """
        known = self.known
        codes = codes_of({value: place for place, value in enumerate(known)}, ())
        if self.classes is None:
            other = len(known)
            if not any(isinstance(meaning(value), float) for value in known):
                codes |= {"1": 0, "-1": other}
            elif self.negative is None and codes.keys() & {"0", "1"}:
                codes = {"0": other, "1": other, **codes}  # both truth values have a side
        return read_places(self.column, plain_series(values), codes)

    def encode(self, values: Any) -> NDArray[Any]:
        """Return -1 and 1, or the declared classes; refuse missing and undeclared values."""
        places = self.places(values)
        absent = places == MISSING
        refuse(self.column, absent, "no label; drop them by a rule that does not look at others")
        if self.classes is not None or self.negative is not None:
            refuse(self.column, places == UNKNOWN, "a label that is not declared")
        if self.classes is not None:
            named: NDArray[Any] = np.array(self.classes)[places]
            return named
        sides = (places >= 0) & (places < len(self.positive or ()))
        return np.where(sides, 1, -1)

    def column_of(self, table: Any) -> pd.Series[Any]:
        """Return the label's column of a table; a series is taken to be that column."""
        if not is_table(table):
            return plain_series(table)
        if column_names(table).count(self.column) != 1:
            raise InvalidData(f"the label needs a data frame with one column {self.column!r}.")
        return declared_columns(table, [self.column])[self.column]

    def to_dict(self) -> dict[str, Any]:
        """Return the declared facts as plain values."""
        facts = {fact.name: getattr(self, fact.name) for fact in fields(self)}
        return {
            key: list(value) if isinstance(value, tuple) else value
            for key, value in facts.items()
            if value is not None
        }

    def _error(self, what: str) -> SchemaError:
        return SchemaError(f"label {self.column!r}: {what}.")
