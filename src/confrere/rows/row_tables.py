"""Tables that are read in batches: files of Parquet or of text, databases, data frames.

A :class:`RowTable` is named columns in batches of rows, as often as it is asked; whoever learns
from it decodes it once (see :mod:`confrere.rows.decoding`). What goes wrong is said in words that
quote neither a value nor an address: a connection may hold a password.
"""

from __future__ import annotations

import os
import re
import socket
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pandas as pd

from confrere.errors import ConfrereError, InvalidData, InvalidParameter, NoRows
from confrere.extras import extra, installed

#: Rows of a batch; fewer where that many would be more numbers than these.
BATCH = 65_536
_BATCH_ENTRIES = 2**22

#: Digits are read to the nearest double, as other sources hold them; newer pandas does it unasked.
_EXACTLY: dict[str, Any] = {"float_precision": "round_trip"} if pd.__version__ < "3" else {}


class RowTable(ABC):
    """Named columns, in batches of rows.

    Attributes
    ----------
    name : str
        What errors call it.
    rows : int or None
        How many there are, where that is known without reading them.
    """

    name: str
    rows: int | None = None

    @abstractmethod
    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pd.DataFrame]:
        """Return the rows in order, as data frames; of the columns, those that are named."""

    def read(self, columns: Sequence[str] | None = None) -> Iterator[pd.DataFrame]:
        """Return :meth:`batches`, with errors that quote nothing."""
        found = 0
        try:
            for batch in self.batches(columns):
                lacking = [name for name in columns or () if name not in batch.columns]
                if lacking:
                    raise InvalidData(
                        f"{self.name} has no column {lacking[0]!r} ({len(lacking)} of the declared "
                        "columns are missing)."
                    )
                found += len(batch)
                yield batch if columns is None else batch[list(columns)]
        except (ConfrereError, GeneratorExit):
            raise
        except Exception as error:
            raise InvalidData(
                f"{self.name} cannot be read to its end ({type(error).__name__}).{self._advice()}"
            ) from None
        if self.rows is not None and found != self.rows:
            raise InvalidData(f"{self.name} has another number of rows than it said: it changed.")
        if not found:
            raise NoRows(f"{self.name} has no rows.")

    def _advice(self) -> str:
        """Return what to do about a table that cannot be read, where that is known."""
        return ""


class Frames(RowTable):
    """A data frame that is in memory: pandas, polars or pyarrow."""

    def __init__(self, frame: Any) -> None:
        self.frame, self.rows = frame, len(frame)
        self.name = f"the {type(frame).__module__.partition('.')[0]} table"

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pd.DataFrame]:
        """Return slices of it."""
        for start in range(0, len(self.frame), BATCH):
            if isinstance(self.frame, pd.DataFrame):
                batch = self.frame.iloc[start : start + BATCH]
            else:
                batch = self.frame.slice(start, BATCH).to_pandas()
            yield batch if columns is None else batch.filter(list(columns))


class Files(RowTable):
    """Files that are read one after the other, and must stay as they are."""

    def __init__(self, path: str | os.PathLike[str], pattern: str) -> None:
        place = Path(path)
        self.name = place.name
        self.files = sorted(place.rglob(pattern)) if place.is_dir() else [place]
        if not self.files:
            raise InvalidData(f"the folder {self.name} holds no {pattern} file.")
        self._stamps = [self._stamp(file) for file in self.files]

    @staticmethod
    def _stamp(file: Path) -> tuple[int, int]:
        try:
            found = file.stat()
        except OSError as error:
            raise InvalidData(f"{file.name} cannot be read ({error.strerror}).") from None
        return found.st_size, found.st_mtime_ns

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pd.DataFrame]:
        """Return the rows of every file; one that changed meanwhile is an error."""
        for file, stamp in zip(self.files, self._stamps, strict=True):
            if self._stamp(file) != stamp:
                raise InvalidData(f"{file.name} changed since it was opened.")
            yield from self.file_batches(file, columns)
            if self._stamp(file) != stamp:
                raise InvalidData(f"{file.name} changed while it was read.")

    @abstractmethod
    def file_batches(self, file: Path, columns: Sequence[str] | None) -> Iterator[pd.DataFrame]:
        """Return the rows of one file."""


class Parquet(Files):
    """A Parquet file, or a folder of them with one schema (extra ``parquet``).

    Parameters
    ----------
    path : path-like
        The file, or the folder, which is searched at every depth; files are read in the order of
        their names.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__(path, "*.parquet")
        self._parquet: Any = extra("parquet", "pyarrow.parquet")
        self.rows = 0
        first: Any = None
        for file in self.files:
            try:
                opened = self._parquet.ParquetFile(file)
            except Exception as error:
                raise InvalidData(
                    f"{file.name} is no Parquet file ({type(error).__name__})."
                ) from None
            with opened:
                schema = opened.schema_arrow.remove_metadata()
                if first is not None and not schema.equals(first):
                    raise InvalidData(
                        f"{file.name} has other columns, or columns of other types, than "
                        f"{self.files[0].name}: the files of a folder need one schema."
                    )
                first = schema
                self.rows += opened.metadata.num_rows

    def file_batches(self, file: Path, columns: Sequence[str] | None) -> Iterator[pd.DataFrame]:
        """Return the row groups of one file, in batches."""
        # Read whole, a file's row groups would all stay in memory until the last one is done.
        with self._parquet.ParquetFile(file, buffer_size=2**16) as opened:
            names = opened.schema_arrow.names
            wanted = names if columns is None else [name for name in columns if name in names]
            rows = min(BATCH, _BATCH_ENTRIES // max(1, len(wanted)) + 1)
            for group in range(opened.num_row_groups):
                for batch in opened.iter_batches(rows, row_groups=[group], columns=wanted):
                    yield batch.to_pandas()
                _give_back()


class Csv(Files):
    """A file of comma-separated values, or a folder of them."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__(path, "*.csv")

    def file_batches(self, file: Path, columns: Sequence[str] | None) -> Iterator[pd.DataFrame]:
        """Return the lines of one file, in batches."""
        wanted = None if columns is None else (lambda name: name in columns)
        # Types are guessed batch by batch, so batches of text are large.
        with pd.read_csv(file, usecols=wanted, chunksize=4 * BATCH, **_EXACTLY) as reader:
            yield from reader


class Sql(RowTable):
    """What a query returns: from DuckDB, or any database of an ADBC driver or of SQLAlchemy.

    Parameters
    ----------
    connection : str
        ``duckdb://`` (a query over files), ``duckdb:///rows.duckdb``, ``sqlite:///rows.db``,
        ``postgresql://...``, or any address that SQLAlchemy knows. ``${NAME}`` in it is replaced by
        that environment variable: keep passwords there.
    sql : str
        The query. With an ``ORDER BY`` its rows come in the same order every time, and the same
        seed gives the same bits.
    """

    def __init__(self, connection: str, sql: str) -> None:
        if "://" not in connection:
            raise InvalidParameter("connection must be an address such as 'postgresql://...'.")
        self.kind = connection.partition(":")[0].partition("+")[0]
        self.name = f"the query of {self.kind}"
        self._given, self._sql = connection, sql

    def __repr__(self) -> str:
        return f"Sql({self.kind!r})"

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pd.DataFrame]:
        """Return what the query returns; which columns those are, it says itself."""
        del columns
        address = from_environment(self._given)
        if self.kind == "duckdb":
            return self._duckdb(address.partition("://")[2].removeprefix("/"))
        plain = "+" not in self._given.partition(":")[0]
        driver = {"postgresql": "adbc_driver_postgresql", "sqlite": "adbc_driver_sqlite"}
        if plain and self.kind in driver and installed(driver[self.kind]):
            return self._adbc(f"{driver[self.kind]}.dbapi", address)
        if plain and self.kind == "sqlite":
            return self._sqlite(f"file:{_place(address)}?mode=ro")
        return self._sqlalchemy(address)

    def _advice(self) -> str:
        # A process that was sent where there is no network sees itself alone.
        if self.kind in ("duckdb", "sqlite") or len(socket.if_nameindex()) > 1:
            return ""
        return (
            " This process has no network, as none has that reads a party's rows between machines: "
            "name the database's socket file (postgresql://reader@/clinic?host=/run/postgresql), "
            "or have another program write the rows to a Parquet file and name it as data_path."
        )

    def _duckdb(self, place: str) -> Iterator[pd.DataFrame]:
        duckdb: Any = extra("sql", "duckdb")
        with duckdb.connect(place or ":memory:", read_only=bool(place)) as opened:
            for batch in opened.sql(self._sql).to_arrow_reader(BATCH):
                yield batch.to_pandas()
        _give_back()

    def _adbc(self, driver: str, address: str) -> Iterator[pd.DataFrame]:
        dbapi: Any = extra("sql", driver)
        extra("sql", "pyarrow")
        where = _place(address) if self.kind == "sqlite" else address
        with dbapi.connect(where) as opened, opened.cursor() as cursor:
            cursor.execute(self._sql)
            for batch in cursor.fetch_record_batch():
                yield batch.to_pandas()
        _give_back()

    def _sqlite(self, address: str) -> Iterator[pd.DataFrame]:
        with closing(sqlite3.connect(address, uri=True)) as opened:
            yield from self._chunks(opened)

    def _sqlalchemy(self, address: str) -> Iterator[pd.DataFrame]:
        sqlalchemy: Any = extra("sql", "sqlalchemy")
        engine = sqlalchemy.create_engine(address)
        try:
            with engine.connect().execution_options(stream_results=True) as opened:
                yield from self._chunks(opened, sqlalchemy.text(self._sql))
        finally:
            engine.dispose()

    def _chunks(self, opened: Any, query: Any = None) -> Iterator[pd.DataFrame]:
        query = self._sql if query is None else query
        yield from pd.read_sql_query(query, opened, chunksize=BATCH)


def _give_back() -> None:
    """Return memory to the system that Arrow keeps for tables to come."""
    pyarrow: Any = extra("parquet", "pyarrow")
    pyarrow.default_memory_pool().release_unused()


def from_environment(text: str) -> str:
    """Replace every ``${NAME}`` by that environment variable; what is not set is named."""

    def found(match: re.Match[str]) -> str:
        value = os.environ.get(match[1])
        if value is None:
            raise InvalidParameter(
                f"connection names the environment variable {match[1]}, which is not set."
            )
        return value

    return re.sub(r"\$\{(\w+)\}", found, text)


def _place(address: str) -> str:
    """Return the file of an address such as ``sqlite:///rows.db``."""
    return address.partition("://")[2].removeprefix("/")


def open_table(where: Any, *, sql: str | None = None) -> RowTable:
    """Return a table by where it lies.

    Parameters
    ----------
    where : path, str, data frame or RowTable
        A Parquet or CSV file, a folder of either, a database's address (with ``sql``), or a data
        frame of pandas, polars or pyarrow.
    sql : str, optional
        The query, where ``where`` is a database.
    """
    if isinstance(where, RowTable):
        return where
    if sql is not None:
        return Sql(str(where), sql)
    if not isinstance(where, str | os.PathLike):
        return Frames(where)
    place = Path(where)
    if place.is_dir():
        return Parquet(place) if any(place.rglob("*.parquet")) else Csv(place)
    return Parquet(place) if place.suffix in (".parquet", ".pq") else Csv(place)
