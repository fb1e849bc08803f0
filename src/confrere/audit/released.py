"""Everything that ``fit`` leaves behind, as one row of numbers."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confrere.guarantee import Guarantee
from confrere.ledger import Receipt


def released_numbers(model: Any) -> NDArray[np.float64]:
    """Return all numbers among a fitted model's attributes, parameters aside.

    Not only ``coef_``: what a model carries and should not (a count, a training score) is audited
    too.
    """
    parameters = model.get_params(deep=False)
    attributes = {name: value for name, value in vars(model).items() if name not in parameters}
    return np.fromiter(_numbers(attributes), dtype=np.float64)


def _numbers(value: Any) -> Iterator[float]:
    if isinstance(value, Guarantee | Receipt | str | bytes) or value is None:
        return
    if isinstance(value, Mapping):
        for name in sorted(value):
            yield from _numbers(value[name])
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _numbers(item)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            yield from _numbers(getattr(value, field.name))
    elif hasattr(value, "get_params"):
        yield from released_numbers(value)
    else:
        array = np.asarray(value)
        if array.dtype.kind in "biuf":
            yield from array.ravel().astype(np.float64)
