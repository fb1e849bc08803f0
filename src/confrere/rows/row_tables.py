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
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing
from operator import itemgetter
from pathlib import Path
from typing import Any

import narwhals.stable.v2 as nw
import pandas as pd

from confrere.errors import ConfrereError, InvalidData, InvalidParameter, NoRows
from confrere.extras import extra, installed
from confrere.rows.csv_files import text_batches
from confrere.schema import PublicSchema
from confrere.schema.cells import meaning, read_numbers

#: Rows of a batch; fewer where that many would be more numbers than these.
BATCH = 65_536
_BATCH_ENTRIES = 2**22


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

    def read(
        self, columns: Sequence[str] | None = None, *, all_of_them: bool = True
    ) -> Iterator[pd.DataFrame]:
        """Return :meth:`batches`, with errors that quote nothing: one is that a column lacks."""
        found = 0
        try:
            for batch in self.batches(columns):
                lacking = [name for name in columns or () if name not in batch.columns]
                if lacking and all_of_them:
                    raise InvalidData(
                        f"{self.name} has no column {lacking[0]!r} ({len(lacking)} of the declared "
                        "columns are missing)."
                    )
                found += len(batch)
                yield batch if columns is None else batch.filter(list(columns))
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
                batch = _frame(nw.from_native(self.frame).to_arrow().slice(start, BATCH))
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
                    yield _frame(batch)
                _give_back()


class Csv(Files):
    """A file of comma-separated values, or a folder of them; cells are texts."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__(path, "*.csv")

    def file_batches(self, file: Path, columns: Sequence[str] | None) -> Iterator[pd.DataFrame]:
        """Return the lines of one file, in batches."""
        yield from text_batches(file, columns)


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
        if plain and self.kind == "postgresql" and installed("adbc_driver_postgresql"):
            return self._adbc("adbc_driver_postgresql.dbapi", address)
        if plain and self.kind == "sqlite":
            return self._sqlite(f"file:{address.partition('://')[2].removeprefix('/')}?mode=ro")
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
                yield _frame(batch)
        _give_back()

    def _adbc(self, driver: str, address: str) -> Iterator[pd.DataFrame]:
        dbapi: Any = extra("sql", driver)
        extra("sql", "pyarrow")
        with dbapi.connect(address) as opened, opened.cursor() as cursor:
            cursor.execute(self._sql)
            for batch in cursor.fetch_record_batch():
                yield _frame(batch)
        _give_back()

    def _sqlite(self, address: str) -> Iterator[pd.DataFrame]:
        with closing(sqlite3.connect(address, uri=True)) as opened:
            found = opened.execute(self._sql)
            yield from _untyped(found, [name for name, *_ in found.description])

    def _sqlalchemy(self, address: str) -> Iterator[pd.DataFrame]:
        sqlalchemy: Any = extra("sql", "sqlalchemy")
        engine = sqlalchemy.create_engine(address)
        try:
            with engine.connect().execution_options(stream_results=True) as opened:
                found = opened.execute(sqlalchemy.text(self._sql))
                yield from _untyped(found, list(found.keys()))
        finally:
            engine.dispose()


def _untyped(found: Any, names: list[str]) -> Iterator[pd.DataFrame]:
    """Return what a cursor holds, its cells as they are: their types guessed, some would change."""
    while rows := found.fetchmany(BATCH):
        yield pd.DataFrame([tuple(row) for row in rows], columns=names, dtype=object)


def _frame(batch: Any) -> pd.DataFrame:
    """Return a batch of Arrow; truth values keep their type beside a missing one."""
    pyarrow: Any = extra("parquet", "pyarrow")
    found: pd.DataFrame = batch.to_pandas(types_mapper={pyarrow.bool_(): pd.BooleanDtype()}.get)
    return found


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


def declared_batches(
    table: RowTable,
    columns: Sequence[str] | None,
    schema: PublicSchema | None,
    *,
    all_of_them: bool = True,
) -> Iterator[pd.DataFrame]:
    """Return a table's columns in batches; of files of text, without a spreadsheet's formulas.

    Raises
    ------
    InvalidData
        If it cannot be read, or a column is lacking; the message quotes nothing from it.
    """
    for batch in table.read(columns, all_of_them=all_of_them):
        if isinstance(table, Csv):
            for column in batch:
                _refuse_formulas(str(column), batch[column], schema)
        yield batch


def read_table(
    path: Path | RowTable,
    columns: Collection[str] | None = None,
    schema: PublicSchema | None = None,
    texts: Collection[str] = (),
) -> pd.DataFrame:
    """Read a whole table; of its columns, only those that are needed.

    Parameters
    ----------
    path : Path or RowTable
        A CSV file in UTF-8, whose first line names the columns; a Parquet file, a folder, or a
        table in a database.
    columns : collection of str, optional
        Columns to keep, as far as they are there; all by default.
    schema : PublicSchema, optional
        What columns hold. Without one, columns whose texts all say a number become numbers.
    texts : collection of str
        Columns whose cells stay as they are written even so: identifiers.

    Raises
    ------
    InvalidData
        If it cannot be read; the message quotes nothing from it.
    """
    table = open_table(path)
    wanted = None if columns is None else sorted(columns)
    batches = [*declared_batches(table, wanted, schema, all_of_them=False)]
    if any(list(batch) != list(batches[0]) for batch in batches):
        raise InvalidData(f"data: the files of {table.name} have different columns.")
    wide = pd.concat(batches, ignore_index=True)
    if schema is not None or not isinstance(table, Csv):
        return wide
    return pd.DataFrame(
        {name: wide[name] if name in texts else _numbers_if_all(wide[name]) for name in wide}
    )


def _numbers_if_all(cells: pd.Series[Any]) -> pd.Series[Any]:
    numbers, strange = read_numbers(str(cells.name), cells)
    if strange.any():
        return cells.map(lambda cell: None if meaning(cell) is None else cell)
    found = pd.Series(numbers)
    return found.astype("int64") if (found % 1 == 0).all() else found


def _refuse_formulas(column: str, values: pd.Series[Any], schema: PublicSchema | None) -> None:
    """Refuse what a spreadsheet would calculate; its result is what was meant."""
    if not {"=", "@"} & {*map(itemgetter(0), filter(None, values.to_numpy()))}:
        return
    features = () if schema is None else schema.features
    known = {
        value
        for feature in features
        if feature.column == column
        for value in (*feature.na, *feature.declared_values())
    }
    if any(cell[0] in "=@" and cell not in known for cell in values if cell):
        raise InvalidData(
            f"column {column!r}: some rows have a spreadsheet's formula; save its values."
        )
