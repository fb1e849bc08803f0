"""A category: one encoded column per declared value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from confrere.schema.discrete import Discrete, declared_shares
from confrere.schema.feature import Value, declared_value, standardised

ZEROS = "zeros"


@final
@dataclass(frozen=True, kw_only=True)
class Category(Discrete):
    """One of several values without an order: one encoded column per value.

    A column becomes ``(x - share) / sqrt(share (1 - share))`` with x = 1 for its value, else 0.

    Parameters
    ----------
    column : str
        Name in the table.
    values : list of values
        All that may appear.
    unknown : str, optional
        What any other value becomes: ``"zeros"`` (every encoded column at its public centre), a
        declared value, or the name of one more value that collects them. Without it, an error.
    shares : list of float, optional
        Public share of each encoded column, in order; equal shares unless declared.
    importance : float or table of value to float, optional
        For all values at once, or for each of them.
    sign : table of value to {-1, 0, 1}, optional
        Expected sign per value; values that are left out have none.
    missing, missing_share
        See :class:`~confrere.schema.feature.Feature`.
    """

    values: tuple[Value, ...]
    unknown: str | None = None
    shares: tuple[float, ...] | None = None

    kind: ClassVar[str] = "category"

    def _settle(self) -> None:
        self._set("values", self._settle_values("values", self.values))
        if self.unknown is not None:
            self._set("unknown", declared_value(self.column, "unknown", self.unknown))
            if self.unknown == ZEROS and ZEROS in self.values:
                raise self._error('a value named "zeros" cannot be told from unknown = "zeros"')
        self._settle_values("values and unknown", self._buckets())
        if len(self._buckets()) < 2:
            raise self._error("values must name at least two values")
        if self.shares is not None:
            whole = self.unknown != ZEROS
            count = len(self._buckets())
            self._set("shares", declared_shares(self.column, self.shares, count, whole=whole))

    def _buckets(self) -> tuple[Value, ...]:
        """Return what has an encoded column: the values, then the collecting one if it is new."""
        if self.unknown is None or self.unknown == ZEROS or self.unknown in self.values:
            return self.values
        return (*self.values, self.unknown)

    def _settle_weight(self, key: str, weight: Any) -> Any:
        if isinstance(weight, Mapping):
            weight = self._from_table(key, weight)
        if isinstance(weight, tuple | list):
            if len(weight) != len(self._buckets()):
                raise self._error(f"{key} must be given for every value")
            settle = super()._settle_weight
            settled = tuple(settle(key, number) for number in weight)
            return settled if key == "importance" or any(settled) else 0
        if key == "sign" and weight != 0:
            raise self._error("the sign of a category is a table: value = -1, 0 or 1")
        return super()._settle_weight(key, weight)

    def _from_table(self, key: str, table: Mapping[Any, Any]) -> tuple[Any, ...]:
        written = {str(value): number for value, number in table.items()}
        buckets = [str(bucket) for bucket in self._buckets()]
        if not set(written) <= set(buckets):
            raise self._error(f"{key} names a value that is not declared")
        if key == "importance" and len(written) < len(buckets):
            raise self._error("importance must be given for every value, or once for all")
        return tuple(written.get(bucket, 0) for bucket in buckets)

    def to_dict(self) -> dict[str, Any]:
        """Return the declared facts; importances and signs as tables of value to number."""
        facts = super().to_dict()
        for key in ("importance", "sign"):
            if isinstance(facts.get(key), list):
                named = zip(self._buckets(), facts[key], strict=True)
                facts[key] = {str(bucket): number for bucket, number in named}
        return facts

    def _places(self) -> dict[Value, int]:
        return {bucket: place for place, bucket in enumerate(self._buckets())}

    def _unknown_place(self) -> int | None:
        if self.unknown is None:
            return None
        return len(self._buckets()) if self.unknown == ZEROS else self._places()[self.unknown]

    def _table(self) -> NDArray[np.float64]:
        count = len(self._buckets())
        return standardised(np.eye(count), 1 / count if self.shares is None else self.shares)

    def _own_names(self) -> tuple[str, ...]:
        return tuple(f"{self.column}={bucket}" for bucket in self._buckets())

    def _own_variances(self) -> tuple[float, ...]:
        return (1.0,) * len(self._buckets())
