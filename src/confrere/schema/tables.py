"""Raw tables of any library: their declared columns, and their labels, as pandas holds them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd

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
    """Return the declared columns of a table, in their order.

    Parameters
    ----------
    X : table, or array of shape (rows, declared columns)
        An array has the declared columns in their order.
    names : sequence of str
        The declared columns.

    Raises
    ------
    InvalidData
        If a column is lacking, or there twice.
    """
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
