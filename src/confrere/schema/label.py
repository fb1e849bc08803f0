"""The label: which column, which values are positive, or which classes there are."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from confrere.errors import InvalidData, SchemaError
from confrere.schema.discrete import places_of
from confrere.schema.feature import Value, declared_share, declared_values, refuse


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
        What counts as -1; unless declared, every other value does.
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

    def encode(self, values: pd.Series[Any]) -> NDArray[Any]:
        """Return -1 and 1, or the declared classes; refuse missing and undeclared values."""
        known = self.classes or (self.positive or ()) + (self.negative or ())
        places, absent = places_of(self.column, values, {v: i for i, v in enumerate(known)})
        refuse(self.column, absent, "no label; drop them by a rule that does not look at others")
        if self.classes is not None or self.negative is not None:
            refuse(self.column, places < 0, "a label that is not declared")
        if self.classes is not None:
            named: NDArray[Any] = np.array(self.classes)[places]
            return named
        sides = (places >= 0) & (places < len(self.positive or ()))
        return np.where(sides, 1, -1)

    def column_of(self, table: pd.DataFrame | pd.Series[Any]) -> pd.Series[Any]:
        """Return the label's column of a table; a series is taken to be that column."""
        if isinstance(table, pd.Series):
            return table
        if not isinstance(table, pd.DataFrame) or list(table.columns).count(self.column) != 1:
            raise InvalidData(f"the label needs a data frame with one column {self.column!r}.")
        return table[self.column]

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
