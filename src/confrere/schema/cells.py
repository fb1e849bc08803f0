"""Cells of a raw table: which are missing, which number one holds, which declared text it is.

A cell means the same in a data frame and in a file, whatever stands in other rows: a number is a
number or a text that says one, and any other cell is looked up by its text.
"""

from __future__ import annotations

import numbers
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from confrere.errors import InvalidData

Series: TypeAlias = "pd.Series[Any]"
Value: TypeAlias = str | int | float | bool

#: Texts that stand for no value wherever they are not declared: those that pandas takes for it.
MISSING_TEXTS = (
    *("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN"),
    *("<NA>", "N/A", "NA", "NULL", "NaN", "NaT", "None", "n/a", "nan", "null"),
)

#: Places of cells that have none in a table of declared texts.
MISSING, UNKNOWN = -1, -2

_PLAIN = (str, bool, np.bool_, numbers.Real, Decimal)


def refuse(column: str, bad: NDArray[np.bool_], what: str) -> None:
    """Raise if any row is bad: the column, never how many there are nor what is in them."""
    if bad.any():
        raise InvalidData(f"column {column!r}: some rows have {what}.")


def texts_of(value: Value) -> tuple[str, ...]:
    """Return how tables write a declared value: its own text first, then other spellings.

    Files and data frames turn 1 into 1.0 where another row has no value, and truth values into
    numbers.
    """
    if isinstance(value, str):
        number_in_text = _number(value)
        if number_in_text is None or not np.isfinite(number_in_text):
            return (value,)
        return (value, *_number_texts(number_in_text))
    found = (str(value), *_number_texts(value))
    if value in (0, 1):  # True and 1 are one declared fact
        word = str(bool(value))
        found += (word, word.lower(), word.upper())
    return found


def _number_texts(number: float) -> tuple[str, ...]:
    whole = (str(int(number)),) if float(number).is_integer() else ()
    return (*whole, repr(float(number)))


def codes_of(places: Mapping[Value, int], na: Sequence[Value]) -> dict[str, int]:
    """Return the place of every text that stands for a declared value or for none.

    Sorted by text. A value's own text goes before other spellings of another one.
    """
    declared = {**places, **dict.fromkeys(na, MISSING)}
    codes = {str(value): place for value, place in declared.items()}
    for value, place in declared.items():
        for text in texts_of(value):
            codes.setdefault(text, place)
    return dict(sorted(codes.items()))


def read_places(
    column: str, values: Series, codes: Mapping[str, int], na: Sequence[str] = MISSING_TEXTS
) -> NDArray[np.intp]:
    """Return each row's place among declared texts: -1 where it is missing, -2 if undeclared."""
    known = {**dict.fromkeys(na, MISSING), **codes}
    found, distinct = _distinct(column, values)
    places = [known.get(str(value), UNKNOWN) for value in distinct]
    # The code -1 of a missing value picks the last entry.
    return np.array([*places, MISSING], dtype=np.intp)[found]


def read_numbers(
    column: str, values: Series, na: Sequence[Value] = (), markers: Sequence[str] = MISSING_TEXTS
) -> NDArray[np.float64]:
    """Return numbers, NaN where one is missing; refuse cells that hold something else."""
    types = pd.api.types
    numeric = types.is_numeric_dtype(values.dtype) and not types.is_complex_dtype(values.dtype)
    if numeric and not types.is_bool_dtype(values.dtype):
        x = np.array(values.to_numpy(dtype=np.float64, na_value=np.nan))
    else:
        found, distinct = _distinct(column, values)
        missing = {*markers, *(token for token in na if isinstance(token, str))}
        read = [np.nan if value in missing else _number(value) for value in distinct]
        wrong = np.array([*(number is None for number in read), False])[found]
        refuse(
            column,
            wrong,
            "no number, as is declared; name such texts in na, or declare another kind",
        )
        x = np.array([*read, np.nan], dtype=np.float64)[found]
    for token in na:
        if not isinstance(token, str):
            x[x == token] = np.nan
    return x


def _number(value: object) -> float | None:
    """Return the number that a cell holds or says, or None."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, str | numbers.Real | Decimal):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None


def _distinct(column: str, values: Series) -> tuple[NDArray[np.intp], Sequence[Any]]:
    """Return where each row stands among the distinct cells, -1 if missing, and those cells."""
    try:
        if values.dtype == object and pd.api.types.infer_dtype(values, skipna=True) != "string":
            # 1, 1.0 and True are equal to pandas, but not as texts.
            absent = values.isna().to_numpy()
            cells = values.to_numpy()
            if not all(isinstance(cell, _PLAIN) for cell in cells[~absent]):
                raise TypeError
            keys = pd.Series([(type(cell), cell) for cell in cells], dtype=object)
            found, distinct = pd.factorize(keys.where(~absent, None))
            return found, [cell for _, cell in distinct]
        found, distinct = pd.factorize(values)
    except TypeError:
        raise InvalidData(f"column {column!r}: holds things that are not plain values.") from None
    return found, list(distinct)
