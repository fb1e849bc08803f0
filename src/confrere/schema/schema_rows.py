"""Bound the Euclidean norm of every row: what the mechanisms' sensitivity rests on."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from confrere.errors import InvalidParameter

Rows: TypeAlias = Literal["clip", "unit"]


def check_rows(rows: object) -> None:
    """Refuse what is not a way to bound rows."""
    if rows not in ("clip", "unit"):
        raise InvalidParameter('rows must be "clip" or "unit".')


def check_clip_norm(clip_norm: object) -> float | Literal["rms"]:
    """Return a norm above zero, or ``"rms"``."""
    if isinstance(clip_norm, str) and clip_norm == "rms":
        return "rms"
    if isinstance(clip_norm, bool) or not isinstance(clip_norm, int | float | np.number):
        raise InvalidParameter('clip_norm must be a number > 0 or "rms".')
    number = float(clip_norm)
    if not 0 < number < np.inf:
        raise InvalidParameter('clip_norm must be a finite number > 0 or "rms".')
    return number


def check_dtype(dtype: Any) -> np.dtype[Any]:
    """Return the type of the encoded numbers, float64 or float32."""
    try:
        found: np.dtype[Any] = np.dtype(dtype)
    except TypeError:
        raise InvalidParameter("dtype must be float64 or float32.") from None
    if found not in (np.dtype(np.float64), np.dtype(np.float32)):
        raise InvalidParameter("dtype must be float64 or float32.")
    return found


def bounded_rows(
    columns: NDArray[np.float64], rows: Rows, clip_norm: float, dtype: Any = np.float64
) -> NDArray[Any]:
    """Return the table whose transpose is ``columns``, every row of norm at most 1.

    ``"clip"``: a row is divided by ``clip_norm``, then shrunk to norm 1 if it is longer.
    ``"unit"``: a row is divided by its norm; a row of zeros stays so.

    The bound holds in floating point: rows that touch it are shorter by a few roundings. Only
    operations on single entries are used, so a row's result does not depend on its neighbours,
    to the last bit. ``columns`` is overwritten.
    """
    check_rows(rows)
    kind = check_dtype(dtype)
    margin = 1 + (len(columns) + 8) * float(np.finfo(kind).eps)
    # Dividing by the largest entry first keeps squares from overflowing or vanishing.
    peaks = np.zeros(columns.shape[1])
    for column in columns:
        np.maximum(peaks, np.abs(column), out=peaks)
    peaks[peaks == 0] = 1.0
    squares = np.zeros_like(peaks)
    for column in columns:
        share = column / peaks
        squares += share * share
    lengths = np.sqrt(squares) * margin
    if rows == "unit":
        lengths[lengths == 0] = 1.0
        columns /= peaks
        columns /= lengths
    else:
        columns /= np.maximum(peaks * lengths, clip_norm)
    return np.ascontiguousarray(columns.T, dtype=kind)
