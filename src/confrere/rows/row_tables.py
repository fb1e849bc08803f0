"""Tables that are read in batches: files of Parquet or of text, databases, data frames.

A :class:`RowTable` is named columns in batches of rows, as often as it is asked; whoever learns
from it decodes it once: numbers in memory if they are few, else in a private file. Files of
comma-separated values are read strictly: cells are texts, an empty one is no value, and nothing is
guessed from other rows (what a text means says :mod:`confrere.schema.cells`). Errors name the file,
the line or the column, and quote neither a value nor an address: a connection may hold a password.
"""

from __future__ import annotations

import csv
import os
import re
import socket
import sqlite3
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import chain, islice
from operator import itemgetter
from pathlib import Path
from typing import Any, TypeAlias

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from confrere.errors import ConfrereError, InvalidData, InvalidParameter, NoRows
from confrere.extras import extra, installed
from confrere.rows.spill import SpillFolder, SpillWriter
from confrere.schema import PublicSchema
from confrere.schema.cells import meaning, plain_labels, read_numbers
from confrere.schema.codes import PackedCodes

Array: TypeAlias = NDArray[Any]

#: Arrays of some rows, and their labels.
Block: TypeAlias = tuple[Sequence[Array], Array | None]

#: Characters of a line at most; a cell has at most those that the csv module allows (131072).
MAX_LINE = 1 << 22
_ROWS_AT_ONCE = 20_000


def text_batches(path: Path, columns: Collection[str] | None) -> Iterator[pd.DataFrame]:
    """Return some rows of a file in UTF-8 after the other, with errors that quote nothing."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            yield from _read(path.name, _lines(path.name, file), columns)
    except OSError as error:
        raise InvalidData(f"data: {path.name} cannot be read ({error.strerror}).") from None
    except UnicodeDecodeError:
        raise InvalidData(f"data: {path.name} is not all UTF-8; save it in UTF-8.") from None
    except csv.Error as error:
        why = "a cell is too long" if "limit" in str(error) else "a quote or line end is wrong"
        raise InvalidData(
            f"data: {path.name} is not a table of comma-separated values ({why})."
        ) from None


def _lines(name: str, file: Any) -> Iterator[str]:
    """Return the lines one by one; a file of one endless line is not taken into memory."""
    while line := file.readline(MAX_LINE):
        if len(line) == MAX_LINE:
            raise InvalidData(f"data: {name} has a line of more than {MAX_LINE} characters.")
        if "\0" in line:
            raise InvalidData(f"data: {name} is not a text file.")
        yield line


def _read(
    name: str, lines: Iterator[str], columns: Collection[str] | None
) -> Iterator[pd.DataFrame]:
    rows = csv.reader(lines, strict=True)
    header = next(rows, [])
    if not any(header):
        raise InvalidData(f"data: {name} is empty; its first line names the columns.")
    wanted = [i for i, column in enumerate(header) if columns is None or column in columns]
    names = [header[i] for i in wanted]
    twice = sorted({column for column in names if names.count(column) > 1})
    if twice:
        raise InvalidData(f"data: {name} has the column {twice[0]!r} more than once.")
    if columns and not wanted:
        one = len(header) == 1 and ";" in header[0]
        hint = " It is separated by semicolons: save it with commas." if one else ""
        raise InvalidData(f"{name} has no column {next(iter(columns))!r}, nor the others.{hint}")
    count = 0
    while block := list(islice(rows, _ROWS_AT_ONCE)):
        block = [row for row in block if row]  # blank lines
        _check_lengths(name, block, len(header), count)
        count += len(block)
        if block:
            cells = list(zip(*block, strict=True))
            yield pd.DataFrame({header[i]: _texts(cells[i]) for i in wanted}, dtype=object)
    if not count:
        raise NoRows(f"data: {name} has no rows.")


def _texts(cells: tuple[str, ...]) -> Any:
    return np.array([cell or None for cell in cells], dtype=object)


def _check_lengths(name: str, block: list[list[str]], width: int, before: int) -> None:
    for number, row in enumerate(block, start=before + 1):
        if len(row) != width:
            raise InvalidData(
                f"data: {name}: row {number} has {len(row)} cells where the first line names "
                f"{width} columns."
            )


#: Rows of a batch; fewer where that many would be more numbers than these.
BATCH = 65_536
_BATCH_ENTRIES = 2**22


class RowTable(ABC):
    """Named columns, in batches of rows; ``rows`` is how many, if that is known without reading."""

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
    """Return a table's columns in batches; of files of text, without a spreadsheet's formulas."""
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
    """Read a whole table; of its columns, as far as they are there, only those that are needed.

    Without a schema, columns of a file of texts that all say a number become numbers, except those
    that are named in ``texts``: identifiers.
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


#: Bytes that are kept in memory.
_IN_MEMORY = 2**27

#: Types whose numbers single precision holds exactly.
_SINGLE = ("float32", "float16", "int8", "uint8", "int16", "uint16", "bool")

#: Told how many rows are done, and of how many if that is known.
Progress = Callable[[int, int | None], None]


@dataclass(frozen=True, eq=False)
class Decoded:
    """A table's numbers, in single precision if all columns are, else in double; and its labels."""

    X: Any
    y: Array | None
    columns: tuple[str, ...]


def decoded(
    table: RowTable,
    *,
    columns: Sequence[str] | None = None,
    label: str | None = None,
    progress: Progress | None = None,
) -> Decoded:
    """Return the numbers of a table, decoded once: text, missing values and infinities are refused.

    Features are all columns but the label unless they are named. ``progress`` is told how far it is
    after every batch; by default there is a bar where a person watches.
    """
    wanted = None if columns is None else [*columns, *([label] if label is not None else ())]
    batches = table.read(wanted)
    first = next(batches, None)
    assert first is not None  # no rows are an error
    if label is not None and label not in first.columns:
        raise InvalidData(f"{table.name} has no column {label!r} for the labels.")
    names = tuple(str(name) for name in first.columns if name != label)
    single = all(str(first[name].dtype) in _SINGLE for name in names)

    def blocks() -> Iterator[Block]:
        for batch in chain([first], batches):
            rows = _numbers(batch[list(names)], single, table.name)
            yield [rows], None if label is None else _small(label, batch[label])

    (X,), y = gathered(blocks(), table.rows, progress)
    return Decoded(X, y, names)


def gathered(
    blocks: Iterable[Block], expected: int | None = None, progress: Progress | None = None
) -> tuple[list[Any], Array | None]:
    """Return arrays and labels, block after block, as one: in memory if small, else in files."""
    kept: list[Sequence[Array]] = []
    labels: list[Array] = []
    writers: list[SpillWriter] = []
    done = 0
    with _Told(progress, expected) as told:
        for arrays, some in blocks:
            done += len(arrays[0])
            labels += [] if some is None else [some]
            kept.append(arrays)
            if not writers and _bytes(arrays, max(done, expected or 0)) > _IN_MEMORY:
                folder = SpillFolder()
                writers = [
                    SpillWriter(folder, f"rows-{k}", sum(array.shape[1:]), done)
                    for k, array in enumerate(arrays)
                ]
            for writer, pieces in zip(writers, zip(*kept, strict=True), strict=False):
                writer.append(np.concatenate(pieces))
            del kept[: len(kept) * bool(writers)]
            told(done, expected)
    found: list[Any] = [writer.finish() for writer in writers]
    found = found or [np.concatenate(pieces) for pieces in zip(*kept, strict=True)]
    return found, np.concatenate(labels) if labels else None


def _bytes(arrays: Sequence[Array], rows: int) -> float:
    return sum(array.nbytes for array in arrays) / max(1, len(arrays[0])) * rows


def gathered_codes(
    blocks: Iterable[tuple[Sequence[PackedCodes], Array | None]], expected: int | None = None
) -> tuple[list[PackedCodes], Array | None]:
    """Return codes and labels, block after block, as one."""
    first: list[Sequence[PackedCodes]] = []

    def arrays() -> Iterator[Block]:
        for stores, labels in blocks:
            first[:] = [stores]
            yield [store.codes for store in stores], labels

    found, labels = gathered(arrays(), expected)
    return [replace(one, codes=codes) for one, codes in zip(*first, found, strict=True)], labels


def _numbers(batch: pd.DataFrame, single: bool, name: str) -> Array:
    """Return a batch as numbers, or say that it holds something else; nothing is quoted."""
    for column in batch:
        if not isinstance(batch[column].dtype, np.dtype) or batch[column].dtype.kind not in "biuf":
            x, strange = read_numbers(str(column), batch[column])
            if strange.any():
                raise InvalidData(
                    f"{name} has columns that are no numbers; declare them in a PublicSchema, or "
                    "name the columns to learn from."
                )
            batch = batch.assign(**{str(column): x})
    rows = batch.to_numpy(dtype=np.float32 if single else np.float64)
    if not np.isfinite(rows).all():
        raise InvalidData(
            f"{name} has missing or infinite values; declare them in a PublicSchema, or drop the "
            "rows."
        )
    return rows


def _small(column: str, values: pd.Series[Any]) -> Array:
    """Return labels 0 and 1 in one byte each; others as they are."""
    labels = plain_labels(column, values)
    if labels.dtype.kind in "biuf" and bool(((labels == 0) | (labels == 1)).all()):
        return labels.astype(np.int8)
    return labels


class _Told:
    """Whoever is to be told how far it is: a function, or a bar where a person watches."""

    def __init__(self, progress: Progress | None, expected: int | None) -> None:
        self._progress, self._expected = progress, expected
        self._bar: Any = None

    def __enter__(self) -> Progress:
        if self._progress is not None:
            return self._progress
        if not sys.stderr.isatty() or (self._expected or _IN_MEMORY) < 2**20:
            return lambda *_: None
        from rich.console import Console
        from rich.progress import Progress as Bar

        self._bar = Bar(console=Console(stderr=True), transient=True)
        self._bar.start()
        task = self._bar.add_task("decoding rows", total=self._expected)
        return lambda done, _: self._bar.update(task, completed=done)

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()
