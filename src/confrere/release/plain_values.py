"""Read the values of a plain model, refusing what is missing, unknown or not finite."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from confrere.errors import InvalidRelease

Floats: TypeAlias = NDArray[np.float64]


def fields(values: object, where: str, *names: str) -> dict[str, Any]:
    """Return a copy of an object that has exactly these fields."""
    if not isinstance(values, Mapping) or set(values) != set(names):
        raise wrong(where, f"must be an object with {', '.join(names)}")
    return dict(values)


def number(value: object, where: str) -> float:
    """Return a finite float."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        raise wrong(where, "must be a number")
    if not math.isfinite(value):
        raise wrong(where, "must be finite")
    return float(value)


def numbers(values: object, where: str) -> Floats:
    """Return a read-only array of finite floats."""
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise wrong(where, "must be numbers, in rows of equal length") from error
    if not np.all(np.isfinite(array)):
        raise wrong(where, "must be finite")
    array.flags.writeable = False
    return array


def position(value: object) -> int:
    """Return the position of a feature."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 0:
        raise wrong("groups.features", "must be positions >= 0")
    return int(value)


def wrong(where: str, what: str) -> InvalidRelease:
    """Return the error to raise."""
    return InvalidRelease(
        f"the plain model is wrong: {where} {what}; see confrere.release.PlainModel."
    )
