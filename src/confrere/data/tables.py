"""Tables that are read in batches: files of Parquet or of text, databases, data frames.

A :class:`RowTable` is named columns of Arrow in batches of rows, as often as it is asked. Nothing
is guessed from rows: cells of a file of text are texts, what one means says
:mod:`confrere.data.cells`, and how the file is written is told, or seen in its first line, which
holds no record. Errors name the file or the column, and quote neither a value nor an address: a
connection may hold a password.

Who computes partitions of rows is an engine: one loop, threads, or a cluster. All give the same
bits: partitions are public functions of the shape, and their sums are added in order by whoever
asked. A worker that dies is replaced by another, or by the one who asked. Sums of partitions are
not protected by noise; the cluster lies inside one organisation, and what leaves it is what a
mechanism releases.

A file of rows is its owner's alone (mode 0600 in a folder of mode 0700), room for it is looked for
before it is written, and it is removed when nothing refers to it any more. A kill leaves it behind;
the next process that needs one finds that its owner is gone, and removes it.
"""

from __future__ import annotations

import codecs
import csv
import errno
import io
import os
import re
import shutil
import socket
import sqlite3
import tempfile
import weakref
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from copy import copy
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from typing import Any, Literal, Self, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.csv
import pyarrow.ipc
import pyarrow.parquet
from numpy.typing import NDArray
from pydantic import ConfigDict
from typing_extensions import override

from confrere.data.cells import (
    MISSING_TEXTS,
    Array,
    Coded,
    Container,
    as_cells,
    column_names,
    declared_columns,
    n_rows_of,
)
from confrere.errors import ConfrereError, InvalidData, InvalidParameter, NoRows
from confrere.extras import extra, installed
from confrere.files import file_stamp
from confrere.kernel.ledger import lock
from confrere.solver.row_blocks import BlockRows, Engine, Sums
from confrere.views import progress_bar

#: Some rows: a ``pyarrow.Table``.
Batch: TypeAlias = pa.Table

#: Rows of a batch; fewer where that many would be more numbers than these.
BATCH = 65_536
_BATCH_ENTRIES = 2**22

#: Bytes of a file of text that are read at once: no line is longer.
_LONGEST = 1 << 22


class RowTable(ABC):
    """Named columns, in batches of rows.

    ``rows`` is how many, and ``names`` are those of the columns, if known without reading.
    """

    name: str
    rows: int | None = None
    names: Sequence[str] = ()
    #: How it is read, where that was seen and not told: to be said to its owner.
    seen: str = ""

    @abstractmethod
    def batches(self, columns: Sequence[str] | None = None) -> Iterator[Batch]:
        """Return the rows in order, as tables of Arrow; of the columns, those that are named."""

    def read(
        self, columns: Sequence[str] | None = None, *, all_of_them: bool = True, least: int = 1
    ) -> Iterator[Batch]:
        """Return :meth:`batches`, with errors that quote nothing: one is that a column lacks.

        Where no rows are allowed, as ``least`` is 0, they are a batch too.
        """
        found = 0
        try:
            for batch in self.batches(columns):
                names = batch.column_names
                lacking = [name for name in columns or () if name not in names]
                if lacking and all_of_them:
                    raise InvalidData(
                        f"{self.name} has no column {lacking[0]!r} ({len(lacking)} of the declared "
                        "columns are missing)."
                    )
                found += len(batch)
                if len(batch):
                    wanted = [name for name in columns or names if name in names]
                    yield batch.select(wanted)
        except (ConfrereError, GeneratorExit):
            raise
        except Exception as error:
            raise InvalidData(
                f"{self.name} cannot be read to its end ({type(error).__name__}).{self._advice()}"
            ) from None
        if self.rows is not None and found != self.rows:
            raise InvalidData(f"{self.name} has another number of rows than it said: it changed.")
        if not found and least:
            raise NoRows(f"{self.name} has no rows; at least one is needed.")
        if not found:
            yield pa.table({name: pa.array([], pa.string()) for name in columns or ()})

    def whole(self, columns: Sequence[str] | None = None, *, all_of_them: bool = True) -> Batch:
        """Return all rows at once."""
        batches = list(self.read(columns, all_of_them=all_of_them))
        names = batches[0].column_names
        if any(batch.column_names != names for batch in batches):
            raise InvalidData(f"data: the files of {self.name} have different columns.")
        try:
            return pa.concat_tables(batches)
        except pa.ArrowInvalid:  # a database may give every batch types of its own
            lists = {name: [b[name].to_pylist() for b in batches] for name in names}
            return pa.table({name: as_cells([*chain(*own)], name) for name, own in lists.items()})

    def _advice(self) -> str:
        return ""


class Frames(RowTable):
    """A data frame that is in memory: pandas, polars or pyarrow."""

    def __init__(self, frame: Container) -> None:
        self.frame, self.rows, self.names = frame, n_rows_of(frame), column_names(frame)
        self.name = f"the {type(frame).__module__.partition('.')[0]} table"

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[Batch]:
        names = [name for name in columns or self.names if name in self.names]
        table = pa.table(declared_columns(self.frame, names))
        for start in range(0, max(1, len(table)), BATCH):
            yield table.slice(start, BATCH)


class Files(RowTable):
    """Files that are read one after the other, and must stay as they are."""

    def __init__(self, path: str | os.PathLike[str], pattern: str) -> None:
        place = Path(path)
        self.name = place.name
        self.files = sorted(place.rglob(pattern)) if place.is_dir() else [place]
        if not self.files:
            raise InvalidData(f"the folder {self.name} holds no {pattern} file.")
        self._stamps = {file: file_stamp(file) for file in self.files}

    @override
    def batches(self, columns: Sequence[str] | None = None) -> Iterator[Batch]:
        for file in self.files:
            self.unchanged(file, "since it was opened")
            yield from _tables(self.file_batches(file, columns))
            self.unchanged(file, "while it was read")

    def unchanged(self, file: Path, when: str) -> None:
        if file_stamp(file) != self._stamps[file]:
            raise InvalidData(f"{file.name} changed {when}.")

    @abstractmethod
    def file_batches(
        self, file: Path, columns: Sequence[str] | None
    ) -> Iterator[pa.RecordBatch]: ...


class Parquet(Files):
    """A Parquet file, or a folder of them with one schema.

    A folder is searched at every depth; files are read in the order of their names.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__(path, "*.parquet")
        #: Every row group: its file, its number there, and its rows.
        self.groups: list[tuple[Path, int, int]] = []
        self._only: Sequence[int] = ()
        first = None
        for file in self.files:
            try:
                with pa.parquet.ParquetFile(file) as opened:
                    told, schema = opened.metadata, opened.schema_arrow.remove_metadata()
            except Exception as error:
                raise InvalidData(
                    f"{file.name} is no Parquet file ({type(error).__name__}); write it again."
                ) from None
            first = first or schema
            if not schema.equals(first):
                raise InvalidData(
                    f"{file.name} has other columns, or columns of other types, than "
                    f"{self.files[0].name}: the files of a folder need one schema."
                )
            groups = range(told.num_row_groups)
            self.groups += [(file, group, told.row_group(group).num_rows) for group in groups]
        self.rows = sum(rows for *_, rows in self.groups)
        self.names = schema.names
        self._texts = [field.name for field in schema if str(field.type).endswith("string")]

    def part(self, number: int) -> Parquet:
        part = copy(self)
        file, group, part.rows = self.groups[number]
        part.files, part._only = [file], [group]
        return part

    def file_batches(self, file: Path, columns: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        # Read whole, a file's row groups would all stay in memory until the last one is done.
        with pa.parquet.ParquetFile(file, buffer_size=2**16, read_dictionary=self._texts) as opened:
            wanted = [name for name in columns or self.names if name in self.names]
            rows = min(BATCH, _BATCH_ENTRIES // max(1, len(wanted)) + 1)
            for group in self._only or range(opened.num_row_groups):
                yield from opened.iter_batches(rows, row_groups=[group], columns=wanted)
        pa.default_memory_pool().release_unused()


#: A number with a decimal comma, and with a point.
_COMMA = (r"^(\s*[-+]?[0-9]*),([0-9]+(?:[eE][-+]?[0-9]+)?\s*)$", r"\1.\2")
_NUMBER = re.compile(r"\s*[-+]?[0-9]*[.,]?[0-9]+([eE][-+]?[0-9]+)?\s*")


@dataclass(frozen=True)
class Dialect:
    """How a file of text is written; what is None is seen in its first line, which has no record.

    Numbers of a file with semicolons may have a decimal comma, since commas do not separate there.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    separator: str | None = None
    decimal: Literal[".", ","] | None = None
    encoding: str | None = None
    #: The names of the columns where the first line is a row; or true where it does name them.
    header: bool | tuple[str, ...] | None = None

    def seen_in(self, file: Path) -> tuple[Dialect, list[str]]:
        """Return all of it, and the names of the columns, by the first line of a file."""
        try:
            with file.open("rb") as opened:
                wide = opened.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
            encoding = self.encoding or ("utf-16" if wide else "utf-8-sig")
            with file.open(encoding=encoding) as lines:
                text = lines.readline(_LONGEST).rstrip("\n")
        except OSError as error:
            raise InvalidData(f"data: {file.name} cannot be read ({error.strerror}).") from None
        except (UnicodeDecodeError, LookupError):
            raise InvalidData(f"data: {file.name} {_fault('UTF8')}.") from None
        if "\0" in text:
            raise InvalidData(f"data: {file.name} is not a text file; save it as CSV or Parquet.")
        # What is within quotes separates nothing.
        bare = re.sub('"[^"]*"', "", text)
        named = not isinstance(self.header, tuple)
        separator = self.separator or (max(",;\t|", key=bare.count) if named else ",")
        decimal: Literal[".", ","] = self.decimal or ("," if separator == ";" else ".")
        names = next(csv.reader([text], delimiter=separator), [])
        if not any(names):
            raise InvalidData(f"data: {file.name} is empty; its first line names the columns.")
        if isinstance(self.header, tuple):
            names = list(self.header)
        elif not self.header and any(map(_NUMBER.fullmatch, names)):
            raise InvalidData(
                f"data: the first line of {file.name} does not look like names, for one of its "
                "cells is a number. If it is a row, name the columns in their order: "
                'header = ["age", "smoker", ...]; if it does name them: header = true.'
            )
        twice = sorted({name for name in names if name and names.count(name) > 1})
        if twice:
            raise InvalidData(f"data: {file.name} has the column {twice[0]!r} twice; rename one.")
        return Dialect(separator, decimal, encoding, self.header), names

    def __str__(self) -> str:
        named = {"\t": "tabs", ",": "commas", ";": "semicolons", "|": "bars"}
        comma = ", with a decimal comma" if self.decimal == "," else ""
        kind = (self.encoding or "").removesuffix("-sig").upper()
        return f"separated by {named.get(self.separator or '', self.separator)}{comma}, in {kind}"


class Csv(Files):
    """A file of text with a row per line, or a folder of them; cells are texts.

    As far as the dialect does not tell how it is written, its first line is looked at.
    """

    def __init__(self, path: str | os.PathLike[str], dialect: Dialect | None = None) -> None:
        super().__init__(path, "*.csv")
        self.dialect, self.names = (dialect or Dialect()).seen_in(self.files[0])
        plain = (self.dialect.separator, self.dialect.encoding) == (",", "utf-8-sig")
        self.seen = "" if plain else f"{self.name} was read as rows {self.dialect}"

    def file_batches(self, file: Path, columns: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        names = self.names if file == self.files[0] else self.dialect.seen_in(file)[1]
        rows = int(not isinstance(self.dialect.header, tuple))
        encoding = str(self.dialect.encoding).removesuffix("-sig")
        options = (
            pa.csv.ReadOptions(
                block_size=_LONGEST, encoding=encoding, column_names=names, skip_rows=rows
            ),
            pa.csv.ParseOptions(delimiter=self.dialect.separator, newlines_in_values=True),
            pa.csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()),
                include_columns=[name for name in names if columns is None or name in columns],
                null_values=list(MISSING_TEXTS),
                strings_can_be_null=True,
            ),
        )
        pointed = partial(
            pa.compute.replace_substring_regex, pattern=_COMMA[0], replacement=_COMMA[1]
        )
        try:
            for batch in pa.csv.open_csv(file, *options):
                rows += len(batch)
                if self.dialect.decimal == ",":
                    read = map(pointed, batch.columns)
                    batch = pa.RecordBatch.from_arrays([*read], names=batch.schema.names)
                yield batch
        except pa.ArrowInvalid as error:
            raise InvalidData(f"data: {file.name} {_fault(str(error))}.") from None
        self.unchanged(file, "while it was read")
        self._check_quotes(file, rows)

    def _check_quotes(self, file: Path, rows: int) -> None:
        """Refuse a cell of several lines that does not end where it seems to: it hides rows."""
        with file.open("rb") as lines:
            if sum(1 for line in lines if line.strip(b"\r\n")) == rows:
                return
        with file.open(encoding=self.dialect.encoding, newline="") as texts:
            found = csv.reader(texts, delimiter=str(self.dialect.separator), strict=True)
            with suppress(csv.Error):
                if sum(1 for cells in found if cells) == rows:
                    return
        raise InvalidData(
            f"data: {file.name} has a quote that is not closed, or text behind one that is."
        )


def _fault(said: str) -> str:
    if "UTF8" in said:
        return 'is not all UTF-8; say how it is written: encoding = "cp1252", or save it in UTF-8'
    if "Expected" in said:
        return "has a row with more or fewer cells than its first line has names; mend it"
    return "cannot be read as rows of text"


class Sql(RowTable):
    """What a query returns: from DuckDB, or any database of an ADBC driver or of SQLAlchemy.

    The connection is ``duckdb://`` (a query over files), ``duckdb:///rows.duckdb``,
    ``sqlite:///rows.db``, ``postgresql://...``, or any address that SQLAlchemy knows;
    ``${NAME}`` in it is replaced by that environment variable: keep passwords there.
    With an ``ORDER BY`` rows come in the same order every time: one seed gives the same bits.
    """

    def __init__(self, connection: str, sql: str) -> None:
        if "://" not in connection:
            raise InvalidParameter("connection must be an address such as 'postgresql://...'.")
        self.kind = connection.partition(":")[0].partition("+")[0]
        self.name = f"the query of {self.kind}"
        self._given, self._sql = connection, sql

    @override
    def batches(self, columns: Sequence[str] | None = None) -> Iterator[Batch]:
        del columns  # which they are, the query says
        address = from_environment(self._given)
        place = address.partition("://")[2].removeprefix("/")
        plain = "+" not in self._given.partition(":")[0]
        if self.kind == "duckdb":
            duckdb: Any = extra("sql", "duckdb")
            with duckdb.connect(place or ":memory:", read_only=bool(place)) as opened:
                yield from _tables(opened.sql(self._sql).to_arrow_reader(BATCH))
        elif plain and self.kind == "postgresql" and installed("adbc_driver_postgresql"):
            dbapi: Any = extra("sql", "adbc_driver_postgresql.dbapi")
            with dbapi.connect(address) as opened, opened.cursor() as cursor:
                cursor.execute(self._sql)
                yield from _tables(cursor.fetch_record_batch())
        elif plain and self.kind == "sqlite":
            with closing(sqlite3.connect(f"file:{place}?mode=ro", uri=True)) as opened:
                found = opened.execute(self._sql)
                yield from _untyped(found, [name for name, *_ in found.description])
        else:
            sqlalchemy: Any = extra("sql", "sqlalchemy")
            # Without a pool, the connection is closed with the block.
            engine = sqlalchemy.create_engine(address, poolclass=sqlalchemy.NullPool)
            with engine.connect().execution_options(stream_results=True) as opened:
                found = opened.execute(sqlalchemy.text(self._sql))
                yield from _untyped(found, list(found.keys()))

    def _advice(self) -> str:
        # A process that was sent where there is no network sees itself alone.
        if self.kind in ("duckdb", "sqlite") or len(socket.if_nameindex()) > 1:
            return ""
        return (
            " This process has no network, as none has that reads a party's rows between machines: "
            "name the database's socket file (postgresql://reader@/clinic?host=/run/postgresql), "
            "or have another program write the rows to a Parquet file and name it as data_path."
        )


def _tables(batches: Iterable[pa.RecordBatch]) -> Iterator[Batch]:
    return (pa.Table.from_batches([batch]) for batch in batches)


def _untyped(found: Any, names: list[str]) -> Iterator[Batch]:
    while rows := found.fetchmany(BATCH):
        columns = zip(names, zip(*rows, strict=True), strict=True)
        yield pa.table({name: as_cells(cells, name) for name, cells in columns})


def from_environment(text: str) -> str:
    """Replace every ``${NAME}`` by that environment variable; what is not set is named."""
    names = re.findall(r"\$\{(\w+)\}", text)
    if unset := [name for name in names if name not in os.environ]:
        raise InvalidParameter(
            f"connection names the environment variable {unset[0]}, which is not set."
        )
    return re.sub(r"\$\{(\w+)\}", lambda match: os.environ[match[1]], text)


def open_table(
    # A Parquet or CSV file, a folder of either, a database's address (with ``sql``), or a data
    # frame of pandas, polars or pyarrow.
    where: Container,
    *,
    sql: str | None = None,
    dialect: Dialect | None = None,  # How a file of text is written
) -> RowTable:
    if isinstance(where, RowTable):
        return where
    if sql is not None:
        return Sql(str(where), sql)
    if not isinstance(where, str | os.PathLike):
        return Frames(where)
    place = Path(where)
    if place.is_dir():
        return Parquet(place) if any(place.rglob("*.parquet")) else Csv(place, dialect)
    return Parquet(place) if place.suffix in (".parquet", ".pq") else Csv(place, dialect)


#: What writes a table by the end of its file's name.
WRITERS: dict[str, Callable[[Any, pa.Schema], Any]] = {
    ".csv": lambda place, schema: pa.csv.CSVWriter(
        place, schema, write_options=pa.csv.WriteOptions(quoting_style="needed")
    ),
    # A dictionary of numbers that hardly repeat would cost more than all the rest.
    ".parquet": lambda place, schema: pa.parquet.ParquetWriter(
        place, schema, use_dictionary=[one.name for one in schema if one.type == pa.string()]
    ),
    **dict.fromkeys((".arrow", ".feather"), pa.ipc.new_file),
}


def written(batches: Iterator[Batch], place: Path | io.BytesIO, kind: str) -> Iterator[Batch]:
    """Write some rows after the other as one of :data:`WRITERS`, and return them."""
    first = next(batches)
    try:
        with WRITERS[kind](place, first.schema) as writer:
            for batch in chain([first], batches):
                writer.write_table(batch)
                yield batch
    except BaseException:
        if isinstance(place, Path):
            place.unlink(missing_ok=True)
        raise


# --- files that workers share, and engines --------------------------------------------------------

#: Bytes of a disk that are left to others.
_LEFT_FREE = 256 * 2**20

_ELSEWHERE = "name a folder on a larger disk in the environment variable CONFRERE_SPILL."


def spill_folder() -> Path:
    """Return the folder of such files: what the environment variable ``CONFRERE_SPILL`` names.

    That is a fast disk which workers can read. By default it is in the folder for temporary files.
    """
    chosen = os.environ.get("CONFRERE_SPILL")
    if chosen:
        return Path(chosen).expanduser().absolute()
    return Path(tempfile.gettempdir()) / f"confrere-spill-{getattr(os, 'getuid', int)()}"


class SpillFolder:
    """A private folder of one process, marked as in use by a lock that a kill releases."""

    def __init__(self) -> None:
        above = spill_folder()
        try:
            above.mkdir(mode=0o700, parents=True, exist_ok=True)
            if above.stat().st_uid != getattr(os, "getuid", int)():
                raise PermissionError(errno.EPERM, "it belongs to somebody else")
            _remove_leftovers(above)
            self.path = Path(tempfile.mkdtemp(prefix="rows-", dir=above))
            held = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT, 0o600)
            lock(held)
        except OSError as error:
            raise InvalidData(
                f"rows cannot be decoded into {above} ({error.strerror}); name a folder of your "
                "own in the environment variable CONFRERE_SPILL."
            ) from error
        self.remove = weakref.finalize(self, _remove, self.path, held, os.getpid())

    def append(self, name: str, block: Array, rows: int = 0) -> None:
        """Write more rows of a file, all of one type, if there is room for so many of them."""
        file = self.path / name
        if not file.exists():
            needed = max(rows, len(block)) * block.nbytes // max(1, len(block))
            free = max(0, shutil.disk_usage(self.path).free - _LEFT_FREE)
            if needed > free:
                raise InvalidData(
                    f"decoded rows need {needed / 2**20:,.0f} MB and {self.path.parent} has "
                    f"{free / 2**20:,.0f} MB left; {_ELSEWHERE}"
                )
            file.touch(mode=0o600)
        try:
            with file.open("ab") as opened:
                opened.write(np.ascontiguousarray(block).data)
        except OSError as error:
            raise InvalidData(
                f"decoded rows cannot be written ({error.strerror}); {_ELSEWHERE}"
            ) from error

    def keep(self, name: str, array: Array) -> MappedRows:
        """Return an array's copy in a file: for workers that do not share this memory."""
        step = max(1, 2**22 // max(1, array[:1].size))
        for start in range(0, len(array), step):
            self.append(name, array[start : start + step], len(array))
        return MappedRows(self.path / name, array.dtype, array.shape, self)


def _remove_leftovers(above: Path) -> None:
    """Remove folders whose owners are gone: nobody holds their locks."""
    for folder in above.glob("rows-*"):
        with suppress(OSError), (folder / "lock").open("r+b") as held:
            lock(held.fileno())
            shutil.rmtree(folder, ignore_errors=True)


def _remove(folder: Path, held: int, owner: int) -> None:
    # A forked child inherits the object, but not the right.
    if os.getpid() == owner:
        with suppress(OSError):
            os.close(held)
        shutil.rmtree(folder, ignore_errors=True)  # Windows removes nothing that is open


class MappedRows:
    """Rows, or one number per row, in a file in C order: opened where it is read.

    The folder is kept as long as this is.
    """

    def __init__(
        self,
        path: Path,
        dtype: np.dtype[np.generic],
        shape: tuple[int, ...],
        folder: SpillFolder | None = None,
    ) -> None:
        self.path, self.dtype, self.shape = path.absolute(), dtype, shape
        self._folder, self._stamp = folder, file_stamp(path)

    def __getitem__(self, part: slice | NDArray[np.intp]) -> Array:
        return np.asarray(self._map[part])

    def __len__(self) -> int:
        return self.shape[0]

    def __array__(self, dtype: object = None, copy: bool | None = None) -> Array:
        return self._map

    @cached_property
    def _map(self) -> Array:
        """Them as an array, whose pages the system reads when they are touched."""
        try:
            if file_stamp(self.path) != self._stamp:
                raise InvalidData(f"{self.path.name} changed since it was opened.")
            return np.asarray(np.memmap(self.path, dtype=self.dtype, mode="r", shape=self.shape))
        except OSError as error:
            raise InvalidData(
                f"{self.path.name} cannot be read here ({error.strerror}): workers need the "
                "folder that CONFRERE_SPILL names."
            ) from error

    def __getstate__(self) -> dict[str, object]:
        return {name: own for name, own in vars(self).items() if name != "_map"} | {"_folder": None}


def watched(X: object) -> Callable[[], None] | None:
    """Return what refuses the rows of a memory map if its file was written to meanwhile."""
    while isinstance(X, np.ndarray) and not hasattr(X, "filename"):
        X = X.base
    name = getattr(X, "filename", None)
    if name is None:
        return None
    file = Path(name)
    stamp = file_stamp(file)

    def check() -> None:
        if file_stamp(file) != stamp:
            raise InvalidData(
                f"{file.name} was written to while its rows were read: nothing is released, and "
                "what was charged stays charged."
            )

    return check


class _Shared:
    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        return self  # as scikit-learn's clone copies parameters


class Threads(_Shared):
    """Partitions by threads of this process, through joblib: as many, or one per processor."""

    def __init__(self, n_jobs: int | None = None) -> None:
        self.n_jobs = n_jobs or os.cpu_count() or 1

    def map(self, work: Callable[[int], Sums], parts: range) -> Iterable[Sums]:
        if len(parts) < 2:
            return map(work, parts)
        import joblib

        run = joblib.Parallel(n_jobs=self.n_jobs, require="sharedmem", return_as="generator")
        found: Iterable[Sums] = run(joblib.delayed(work)(number) for number in parts)
        return found

    def keep(self, data: Any) -> Any:
        return data  # threads see it


class DaskCluster(_Shared, AbstractContextManager["DaskCluster"]):
    """Partitions by the workers of a Dask cluster, which read the rows from a file.

    ``address`` is that of a scheduler, such as ``"tcp://10.0.0.5:8786"``; by default there is a
    cluster on this machine, of so many processes as ``workers``, or one per processor.
    """

    def __init__(self, address: str | None = None, workers: int | None = None) -> None:
        distributed: Any = extra("dask", "distributed")
        self._cluster: Any = None
        if address is None:
            self._cluster = distributed.LocalCluster(
                n_workers=workers or os.cpu_count() or 1,
                threads_per_worker=1,
                processes=True,
                dashboard_address=None,
            )
        self.client: Any = distributed.Client(self._cluster or address, set_as_default=False)
        self._folder = SpillFolder()
        self._kept: dict[int, tuple[Any, Any]] = {}

    def map(self, work: Callable[[int], Sums], parts: range) -> Iterator[Sums]:
        # A worker that dies gives its tasks back to the scheduler, which finds another one. If
        # none is left, or a task met too many deaths, it is done here: the sum is the same.
        futures = deque(self.client.submit(work, number, pure=False) for number in parts)
        for number in parts:
            try:
                found = futures.popleft().result()  # which workers then forget
            except Exception:  # whatever a cluster raises; what is wrong with the rows shows again
                found = work(number)
            yield found

    def keep(self, data: Any) -> Any:
        """Return rows or labels in a file that workers find."""
        if isinstance(data, BlockRows) and data.sparse:
            raise InvalidParameter("engine: a cluster reads dense rows; leave it out for CSR.")
        if isinstance(data, BlockRows | Coded):
            return data.kept(self.keep)
        if not isinstance(data, np.ndarray) or data.nbytes <= 2**16:
            return data
        if id(data) not in self._kept:
            # The data are kept beside their copy, so that no other object gets their identity.
            self._kept[id(data)] = data, self._folder.keep(f"kept-{len(self._kept)}", data)
        return self._kept[id(data)][1]

    def close(self) -> None:
        """Let go of the cluster, and stop it if it was started here."""
        self.client.close()
        if self._cluster is not None:
            self._cluster.close()
        self._kept.clear()
        self._folder.remove()

    def __exit__(self, *_: object) -> None:
        self.close()


def check_engine(engine: object, name: str) -> None:
    if engine is None or (hasattr(engine, "map") and hasattr(engine, "keep")):
        return
    words = engine.split("://")[0] if isinstance(engine, str) else ""
    if words in ("dask", "tcp", "tls"):
        extra("dask", "distributed")
    elif words not in ("loop", "joblib"):
        raise InvalidParameter(
            f"{name} must be 'loop', 'joblib', 'dask', the address of a Dask scheduler such as "
            "'tcp://host:8786', or an engine."
        )


@contextmanager
def opened_engine(engine: Any) -> Iterator[Engine | None]:
    """Give the engine of a fit, closed with it if it was opened for it."""
    check_engine(engine, "engine")
    if engine is None or engine == "loop":
        yield None
    elif engine == "joblib":
        yield Threads()
    elif isinstance(engine, str):
        with DaskCluster(None if engine == "dask" else engine) as cluster:
            yield cluster
    else:
        yield engine


#: Bytes that are kept in memory.
_IN_MEMORY = 2**27


def gathered(
    blocks: Iterable[Sequence[Array]], expected: int | None, *, shared: bool = False
) -> tuple[list[Any], Array]:
    """Return codes and labels, which come last, block after block, as one each.

    Codes are in memory if they are few and nobody shares them, else in files.
    """
    kept: list[list[Array]] = []
    labels: list[Array] = []
    folder, done, least = None, 0, expected or 0
    with progress_bar("decoding rows", least, shown=not 0 < least < 2**20) as tell:
        for *codes, own in blocks:
            kept.append(codes)
            labels.append(own)
            done += len(own)
            each = sum(one.itemsize for one in codes)
            if folder is None and (shared or each * max(done, least) > _IN_MEMORY):
                folder = SpillFolder()
            if folder is not None:
                for k, pieces in enumerate(zip(*kept, strict=True)):
                    folder.append(f"rows-{k}", np.concatenate(pieces), max(done, least))
                kept.clear()
            tell(done)
    found: list[Any] = [np.concatenate(pieces) for pieces in zip(*kept, strict=True)]
    if folder is not None:
        places = ((folder.path / f"rows-{k}", one.dtype) for k, one in enumerate(codes))
        found = [MappedRows(*place, (done,), folder) for place in places]
    return found, np.concatenate(labels)


#: Makes codes and labels of some rows.
Coding: TypeAlias = Callable[[Batch], Sequence[Array]]


def _group(table: Parquet, columns: Sequence[str], work: Coding, number: int) -> Sums:
    """Return what becomes of one row group: for whoever works for an engine."""
    found = map(work, table.part(number).read(columns, least=0))
    return tuple(np.concatenate(pieces) for pieces in zip(*found, strict=True))


def coded(
    table: RowTable, columns: Sequence[str], work: Coding, engine: Engine | None, least: int = 1
) -> tuple[list[Any], Array]:
    """Return codes and labels of a table; of one in row groups, by those who work for an engine."""
    if engine is None or not isinstance(table, Parquet) or len(table.groups) < 2:
        return gathered(map(work, table.read(columns, least=least)), table.rows)
    found = engine.map(partial(_group, table, columns, work), range(len(table.groups)))
    return gathered(found, table.rows, shared=True)
