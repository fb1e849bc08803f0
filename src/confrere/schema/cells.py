"""Raw tables of any library: their declared columns and labels, and what a cell of them means.

A cell is nothing, a number or a text. One function says it, of one cell, whatever type its column
has and whatever stands in other rows: readers choose a column's type by all of its cells, so a
meaning that hung on the type would let one record decide about all the others. Labels, tokens for
missing values and declared values go through the same function.
"""

from __future__ import annotations

import math
import numbers
import re
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, TypeAlias

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from confrere.errors import InvalidData


def is_table(X: Any) -> bool:
    """Whether it is a table with named columns: of pandas, polars, pyarrow or the like."""
    return isinstance(X, pd.DataFrame) or isinstance(_opened(X), nw.DataFrame | nw.LazyFrame)


def column_names(X: Any) -> list[str]:
    """Return the names of a table's columns, in order."""
    if isinstance(X, pd.DataFrame):
        return list(X.columns)
    return list(_eager(X).columns)


def n_rows_of(X: Any) -> int:
    """Return how many rows a table has."""
    return len(X) if isinstance(X, pd.DataFrame) or not is_table(X) else len(_eager(X))


def declared_columns(X: Any, names: Sequence[str]) -> pd.DataFrame:
    """Return the declared columns of a table, each there once, in order; an array has them so."""
    if not is_table(X):
        if np.ndim(X) != 2 or np.shape(X)[1] != len(names):
            raise InvalidData(
                f"X must be a data frame, or an array with the {len(names)} declared "
                "columns in their order."
            )
        return pd.DataFrame(X, columns=list(names))
    found = column_names(X)
    lacking = [name for name in names if name not in found]
    if lacking:
        raise InvalidData(f"X lacks the declared columns {', '.join(map(repr, lacking))}.")
    if len([name for name in found if name in set(names)]) != len(names):
        raise InvalidData("X has a declared column more than once.")
    if isinstance(X, pd.DataFrame):
        return X[list(names)]
    table = _eager(X)
    return pd.DataFrame({name: plain_series(table.get_column(name)) for name in names})


def party_column(X: Any, party: Any) -> Any:
    """Return whose rows they are; a name stands for that column of the table."""
    if not isinstance(party, str):
        return party
    if not is_table(X) or column_names(X).count(party) != 1:
        raise InvalidData(f"party: X has no one column {party!r}.")
    return declared_columns(X, [party])[party].to_numpy()


def plain_series(values: Any) -> pd.Series[Any]:
    """Return one column as a series: of any library's, an array or a list."""
    if isinstance(values, pd.Series):
        return values
    opened = values if isinstance(values, nw.Series) else _opened(values)
    if not isinstance(opened, nw.Series):
        array = np.asarray(values)
        if array.ndim == 2 and array.shape[1] == 1:
            array = array[:, 0]
        if array.ndim != 1:
            raise InvalidData("y must be one column.")
        return pd.Series(array)
    if opened.dtype in (nw.Categorical, nw.Enum):
        opened = opened.cast(nw.String)
    # Truth values keep their type beside a missing one.
    return pd.Series(opened.to_numpy(), dtype="boolean" if opened.dtype == nw.Boolean else None)


def _opened(X: Any) -> Any:
    return nw.from_native(X, pass_through=True, allow_series=True)


def _eager(X: Any) -> Any:
    opened = _opened(X)
    return opened.collect() if isinstance(opened, nw.LazyFrame) else opened


Series: TypeAlias = "pd.Series[Any]"
Value: TypeAlias = str | int | float | bool

#: Texts that stand for no value: those that pandas takes for it.
MISSING_TEXTS = (
    *("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN"),
    *("<NA>", "N/A", "NA", "NULL", "NaN", "NaT", "None", "n/a", "nan", "null"),
)
_NOTHING = frozenset(MISSING_TEXTS)
_TRUTH = {"true": 1.0, "false": 0.0}
#: Some readers take it for a number.
_HEXADECIMAL = re.compile("0[xX][0-9a-fA-F]{1,16}")

#: Places of cells that have none in a table of declared texts.
MISSING, UNKNOWN = -1, -2

_PLAIN = (str, bool, np.bool_, numbers.Real, Decimal, type(None), type(pd.NA), type(pd.NaT))


def refuse(column: str, bad: NDArray[np.bool_], what: str) -> None:
    """Raise if any row is bad: the column, never how many there are nor what is in them."""
    if bad.any():
        raise InvalidData(f"column {column!r}: some rows have {what}.")


def meaning(cell: Any) -> str | float | None:
    """Return what one cell means: a text without spaces around it, the nearest double, or None.

    Truth values, and texts that say one in whatever capitals, are the numbers 1 and 0. Texts say a
    number in digits of ASCII without underscores. Whatever says NaN is missing.
    """
    if isinstance(cell, str):
        text = cell.strip()
        try:
            number = float(text)
        except ValueError:
            if text in _NOTHING:
                return None
            if _HEXADECIMAL.fullmatch(text):
                return float(int(text, 16))
            return _TRUTH.get(text.lower(), text)
        if "_" in text or not text.isascii():
            return text
    elif isinstance(cell, bool | np.bool_ | numbers.Real | Decimal):
        try:
            number = float(cell)
        except OverflowError:
            number = math.inf if abs(cell) == cell else -math.inf
    else:
        return None
    return number + 0.0 if number == number else None


def spelt(meant: str | float) -> str:
    """Return the one text of a meaning: whole numbers in digits, others with 15 of them."""
    if isinstance(meant, str):
        return meant
    return str(int(meant)) if meant.is_integer() else f"{meant:.15g}"


def codes_of(places: Mapping[Value, int], na: Iterable[Value]) -> dict[str, int]:
    """Return the place of every text that stands for a declared value or for none.

    Sorted by text. Beside the one text of a meaning there are its usual spellings, for readers of a
    release that cannot compute a meaning.
    """
    codes: dict[str, int] = {}
    for value, place in {**places, **dict.fromkeys(na, MISSING)}.items():
        meant = meaning(value)
        texts = [str(value)]
        if meant is not None:
            texts.append(spelt(meant))
        if isinstance(meant, float):
            texts.append(repr(meant))
            if meant in (0, 1) and not isinstance(value, str):
                word = str(bool(meant))
                texts += [word, word.lower(), word.upper()]
        codes.update(dict.fromkeys(texts, place))
    return dict(sorted(codes.items()))


def read_places(column: str, values: Series, codes: Mapping[str, int]) -> NDArray[np.intp]:
    """Return each row's place among declared texts: -1 where it is missing, -2 if undeclared."""
    if pd.api.types.is_bool_dtype(values.dtype) and not codes.keys() >= {"0", "1"}:
        raise InvalidData(
            f"column {column!r}: has the type of truth values, and none are declared for it; read "
            "it as text, or declare true and false."
        )
    found, meant = _meanings(column, values)
    places = [MISSING if one is None else codes.get(spelt(one), UNKNOWN) for one in meant]
    # The code -1 of a missing value picks the last entry.
    return np.array([*places, MISSING], dtype=np.intp)[found]


def read_numbers(
    column: str, values: Series, na: Sequence[Value] = ()
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return numbers, NaN where one is missing or is none, and where there is another text."""
    tokens = {meaning(token) for token in na}
    types = pd.api.types
    if types.is_numeric_dtype(values.dtype) and not types.is_complex_dtype(values.dtype):
        x = values.to_numpy(dtype=np.float64, na_value=np.nan) + 0.0
        strange = np.zeros(len(x), dtype=np.bool_)
    else:
        found, meant = _meanings(column, values)
        x = np.array([*(one if isinstance(one, float) else np.nan for one in meant), np.nan])[found]
        texts = (isinstance(one, str) and one not in tokens for one in meant)
        strange = np.array([*texts, False])[found]
    for token in tokens:
        if isinstance(token, float):
            x[x == token] = np.nan
    return x, strange


def _meanings(column: str, values: Series) -> tuple[NDArray[np.intp], list[str | float | None]]:
    """Return where each row stands among the distinct cells, -1 if missing, and their meanings.

    Cells that are equal mean the same (1, 1.0 and True too), so each is asked about once.
    """
    try:
        found, distinct = pd.factorize(values)
        # Equal cells may have many types, texts of a column have one.
        kinds = {*map(type, values.to_numpy() if values.dtype == object else distinct)}
        if not all(issubclass(kind, _PLAIN) for kind in kinds):
            raise TypeError
    except TypeError:
        raise InvalidData(f"column {column!r}: holds things that are not plain values.") from None
    return found, [meaning(cell) for cell in distinct]


def plain_labels(column: str, values: Series) -> NDArray[Any]:
    """Return labels that nobody declared: of a type, as they are; else what their cells mean."""
    if values.dtype != object and not values.isna().any():
        typed: NDArray[Any] = values.to_numpy()
        return typed
    found, meant = _meanings(column, values)
    refuse(column, np.array([*(one is None for one in meant), True])[found], "no label; drop them")
    if all(isinstance(one, float) for one in meant):
        numbers_ = np.array(meant, dtype=np.float64)
        whole = numbers_.astype(np.int64) if np.all(np.abs(numbers_) <= 2**53) else numbers_
        return (whole if np.array_equal(whole, numbers_) else numbers_)[found]
    return np.array([spelt(one or 0.0) for one in meant])[found]
