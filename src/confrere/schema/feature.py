"""What everyone may know about one column: the part common to every kind of feature."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from confrere.errors import InvalidData, SchemaError

Value: TypeAlias = str | int | float | bool
INDICATOR = "indicator"


def declared_number(column: str, key: str, value: object) -> float:
    """Return ``value`` as a finite float, or name the column and the key that need one."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise SchemaError(f"column {column!r}: {key} must be a finite number.")
    return float(value) + 0.0  # -0.0 and 0.0 are one fact


def declared_share(column: str, key: str, value: object) -> float:
    """Return ``value`` if it is strictly between 0 and 1: a constant has no scale."""
    share = declared_number(column, key, value)
    if not 0 < share < 1:
        raise SchemaError(f"column {column!r}: {key} must lie strictly between 0 and 1.")
    return share


def declared_value(column: str, key: str, value: object) -> Value:
    """Return a text, number or truth value; whole floats become integers, so 1.0 and 1 are one."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and math.isfinite(value) and value.is_integer():
        return int(value)
    if isinstance(value, str | bool | int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    raise SchemaError(f"column {column!r}: {key} must hold texts, numbers or truth values.")


def declared_values(column: str, key: str, values: object) -> tuple[Value, ...]:
    """Return a non-empty tuple of different values; a lone value stands for itself."""
    if isinstance(values, str) or not isinstance(values, Sequence | np.ndarray):
        values = (values,)
    found = tuple(declared_value(column, key, value) for value in values)
    if not found:
        raise SchemaError(f"column {column!r}: {key} must not be empty.")
    # Written forms must differ too: tables keyed by value are keyed by its text in TOML.
    if len(set(found)) < len(found) or len({str(value) for value in found}) < len(found):
        raise SchemaError(f"column {column!r}: {key} names a value twice.")
    return found


@dataclass(frozen=True, kw_only=True)
class Feature(ABC):
    """One column with its public facts.

    Parameters
    ----------
    column : str
        Name in the table.
    missing : value or "indicator", optional
        What a missing value becomes: a declared value of the column, or all zeros (the public
        centre) next to one more encoded column that says so. Without it, missing is an error.
    missing_share : float, default=0.5
        Public share of missing values; centre and scale of the indicator column.
    importance : float, optional
        Public weight >= 0, in any unit; declared for every feature of a schema or for none.
    sign : {-1, 0, 1}, default=0
        Whether experts expect the label to be likelier (1) or rarer (-1) as the feature grows.
    """

    column: str = field(kw_only=False)
    missing: Value | None = None
    missing_share: float | None = None
    importance: float | Mapping[Value, float] | tuple[float, ...] | None = None
    sign: int | Mapping[Value, int] | tuple[int, ...] = 0

    kind: ClassVar[str]

    def __post_init__(self) -> None:
        if not isinstance(self.column, str) or not self.column:
            raise SchemaError("every feature needs a column name: a non-empty text.")
        self._settle()
        if self.missing_share is not None:
            if not self.has_indicator:
                raise self._error('missing_share needs missing = "indicator"')
            self._set(
                "missing_share", declared_share(self.column, "missing_share", self.missing_share)
            )
        if self.missing is not None and not self.has_indicator:
            self._set("missing", self._settle_missing(self.missing))
        self._set("importance", self._settle_weight("importance", self.importance))
        self._set("sign", self._settle_weight("sign", 0 if self.sign is None else self.sign))

    # What a kind of feature adds.

    @abstractmethod
    def _settle(self) -> None:
        """Check and normalise the facts of this kind."""

    @abstractmethod
    def _settle_missing(self, value: object) -> Value:
        """Check the value that stands for a missing one."""

    @abstractmethod
    def _own_names(self) -> tuple[str, ...]:
        """Return the names of the encoded columns, without the indicator."""

    @abstractmethod
    def _own_variances(self) -> tuple[float, ...]:
        """Return the variances, after scaling, that the declared facts imply."""

    @abstractmethod
    def _encode(self, values: pd.Series[Any], out: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Write the scaled values into the rows of ``out``; return where they are missing."""

    # What every kind shares.

    @property
    def has_indicator(self) -> bool:
        """Whether a missing value gets an encoded column of its own."""
        return isinstance(self.missing, str) and self.missing == INDICATOR

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the encoded columns."""
        return self._own_names() + ((f"{self.column}=missing",) if self.has_indicator else ())

    @property
    def variances(self) -> tuple[float, ...]:
        """Variance of each encoded column that the declared facts imply."""
        return self._own_variances() + ((1.0,) if self.has_indicator else ())

    @property
    def importances(self) -> tuple[float, ...] | None:
        """Importance of each encoded column, or None where none is declared."""
        if self.importance is None:
            return None
        own = self._spread(self.importance)
        return own + ((max(own),) if self.has_indicator else ())

    @property
    def signs(self) -> tuple[int, ...]:
        """Expected sign of each encoded column; 0 where nobody knows."""
        return self._spread(self.sign) + ((0,) if self.has_indicator else ())

    def encode(self, values: pd.Series[Any], out: NDArray[np.float64]) -> None:
        """Write one scaled row per encoded column into ``out`` of shape (columns, rows)."""
        own = len(self._own_names())
        absent = self._encode(values, out[:own])
        if self.missing is None:
            refuse(self.column, absent, "no value, and the schema does not say what missing means")
        if self.has_indicator:
            share = 0.5 if self.missing_share is None else self.missing_share
            no, yes = standardised(np.array([0.0, 1.0]), share)
            out[own] = np.where(absent, yes, no)

    def to_dict(self) -> dict[str, Any]:
        """Return the declared facts as plain values; what was not declared is left out."""
        facts: dict[str, Any] = {"column": self.column, "kind": self.kind}
        shared = {fact.name for fact in fields(Feature)}
        for fact in sorted(fields(self), key=lambda fact: fact.name in shared):
            value = getattr(self, fact.name)
            if fact.name != "column" and value != fact.default:
                facts[fact.name] = list(value) if isinstance(value, tuple) else value
        return facts

    def _spread(self, weight: Any) -> tuple[Any, ...]:
        return weight if isinstance(weight, tuple) else (weight,) * len(self._own_names())

    def _settle_weight(self, key: str, weight: Any) -> Any:
        if weight is None:
            return None
        number = declared_number(self.column, key, weight)
        if key == "importance":
            if number < 0:
                raise self._error("importance must be >= 0")
            return number
        if number not in (-1, 0, 1):
            raise self._error("sign must be -1, 0 or 1")
        return int(number)

    def _set(self, key: str, value: object) -> None:
        object.__setattr__(self, key, value)

    def _error(self, what: str) -> SchemaError:
        return SchemaError(f"column {self.column!r}: {what}.")


def standardised(rows: NDArray[np.float64], share: Any) -> NDArray[np.float64]:
    """Centre and scale zeros and ones by the public share(s) of ones."""
    p = np.asarray(share, dtype=np.float64)
    scaled: NDArray[np.float64] = (rows - p) / np.sqrt(p * (1 - p))
    return scaled


def refuse(column: str, bad: NDArray[np.bool_], what: str) -> None:
    """Raise if any row is bad: the column and how many, never what is in them."""
    count = int(np.count_nonzero(bad))
    if count:
        rows = "row has" if count == 1 else "rows have"
        raise InvalidData(f"column {column!r}: {count} {rows} {what}.")
