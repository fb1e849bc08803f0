"""Where rows come from, of any size, and the one map from any row into the declared body."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from confrere.rows.engines import DaskCluster, Threads
    from confrere.rows.row_tables import Csv, Dialect, Frames, Parquet, RowTable, Sql, open_table

__all__ = [
    "Csv",
    "DaskCluster",
    "Dialect",
    "Frames",
    "Parquet",
    "RowTable",
    "Sql",
    "Threads",
    "open_table",
]

_HOMES = {
    "DaskCluster": "engines",
    "Threads": "engines",
}


def __getattr__(name: str) -> Any:
    # The map alone is needed by everything; files and databases by few.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = import_module(f"confrere.rows.{_HOMES.get(name, 'row_tables')}")
    return getattr(home, name)
