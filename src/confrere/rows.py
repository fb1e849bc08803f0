"""Where rows come from, of any size, and who computes with them."""

from confrere.data.tables import (
    Csv,
    DaskCluster,
    Dialect,
    Frames,
    Parquet,
    RowTable,
    Sql,
    Threads,
    open_table,
)

__all__ = ["Csv", "DaskCluster", "Dialect", "Frames", "Parquet", "RowTable", "Sql", "Threads"]
__all__ += ["open_table"]
