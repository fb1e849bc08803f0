"""A number: declared bounds, and a public mean and standard deviation where they are known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from confrere.errors import InvalidData
from confrere.schema.feature import Feature, Value, declared_number, refuse


@final
@dataclass(frozen=True, kw_only=True)
class Number(Feature):
    r"""A number, clipped to its bounds, centred and scaled.

    With ``t(x) = x``, or ``t(x) = log(1 + x - lo)`` if ``log``, a value becomes
    ``(t(clip(x, lo, hi)) - mean) / sd``. Where no mean and standard deviation are declared, the
    middle and the half-width of ``[t(lo), t(hi)]`` take their place.

    Parameters
    ----------
    column : str
        Name in the table.
    bounds : pair of float
        Smallest and largest meaningful value; what lies outside is moved to the nearest of them.
    mean, sd : float, optional
        Public mean and standard deviation of ``t(x)`` (of the logarithm, if ``log``): both or none.
    log : bool, default=False
        Whether the logarithm is taken: for amounts and counts with a long tail.
    missing, missing_share, importance, sign
        See :class:`~confrere.schema.feature.Feature`.
    """

    bounds: tuple[float, float]
    mean: float | None = None
    sd: float | None = None
    log: bool = False

    kind: ClassVar[str] = "number"

    def _settle(self) -> None:
        bounds: object = self.bounds
        if isinstance(bounds, str) or not isinstance(bounds, Sequence) or len(bounds) != 2:
            raise self._error("bounds must be a pair: smallest, largest")
        lo, hi = (declared_number(self.column, "bounds", bound) for bound in bounds)
        if not lo < hi or not np.isfinite(hi - lo):
            raise self._error("the lower bound must be below the upper one")
        self._set("bounds", (lo, hi))
        if not isinstance(self.log, bool):
            raise self._error("log must be true or false")
        if (self.mean is None) != (self.sd is None):
            raise self._error("mean and sd go together: declare both or neither")
        if self.mean is not None:
            self._set("mean", declared_number(self.column, "mean", self.mean))
            self._set("sd", declared_number(self.column, "sd", self.sd))
            low, high = self._range()
            if not low <= self.mean <= high:
                scale = " (on the logarithmic scale)" if self.log else ""
                raise self._error(f"mean lies outside the bounds{scale}")
            if self.sd is None or self.sd <= 0:
                raise self._error("sd must be above 0")

    def _settle_missing(self, value: object) -> Value:
        number = declared_number(self.column, "missing", value)
        if not self.bounds[0] <= number <= self.bounds[1]:
            raise self._error("the value for missing lies outside the bounds")
        return number

    def _own_names(self) -> tuple[str, ...]:
        return (self.column,)

    def _own_variances(self) -> tuple[float, ...]:
        # Between bounds alone nothing favours a value: the uniform law on [-1, 1].
        return (1.0 if self.sd is not None else 1 / 3,)

    def _range(self) -> tuple[float, float]:
        low, high = self._transformed(np.array(self.bounds))
        return float(low), float(high)

    def _transformed(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.log1p(x - self.bounds[0]) if self.log else x

    def _encode(self, values: pd.Series[Any], out: NDArray[np.float64]) -> NDArray[np.bool_]:
        x = self._numbers(values)
        absent = np.isnan(x)
        refuse(self.column, np.isinf(x), "an infinite value")
        low, high = self._range()
        centre, scale = (low + high) / 2, (high - low) / 2
        if self.mean is not None and self.sd is not None:
            centre, scale = self.mean, self.sd
        if self.missing is not None and not self.has_indicator:
            x = np.where(absent, float(self.missing), x)
        out[0] = (self._transformed(np.clip(x, *self.bounds)) - centre) / scale
        if self.has_indicator:
            out[0, absent] = 0.0
        return absent

    def _numbers(self, values: pd.Series[Any]) -> NDArray[np.float64]:
        types = pd.api.types
        numeric = types.is_numeric_dtype(values.dtype) and not (
            types.is_bool_dtype(values.dtype) or types.is_complex_dtype(values.dtype)
        )
        # Objects may be numbers with gaps; texts that look like numbers stay texts.
        if not numeric and types.infer_dtype(values, skipna=True) not in (
            "integer",
            "floating",
            "mixed-integer-float",
            "empty",
        ):
            raise InvalidData(
                f"column {self.column!r}: declared a number, but it holds something else; "
                "convert it before encoding, or declare another kind."
            )
        return np.ascontiguousarray(values.to_numpy(dtype=np.float64, na_value=np.nan))
