"""Tables in CSV files, read strictly and by what is declared: a cell means the same in every row.

Nothing is guessed from other rows: which texts are numbers, labels or no value is declared. Errors
name the file, the line or the column, and never a value.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from confrere.errors import InvalidData, NoRows
from confrere.rows.row_tables import Csv, RowTable, open_table
from confrere.schema import Number, PublicSchema
from confrere.schema.cells import MISSING_TEXTS, Value, texts_of

#: Characters of a line at most; a cell has at most those that the csv module allows (131072).
MAX_LINE = 1 << 22
_ROWS_AT_ONCE = 20_000
_MISSING = frozenset(MISSING_TEXTS)

Cells: TypeAlias = tuple[str, ...]
Reader: TypeAlias = Callable[[Cells], Any]


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
        What declared columns hold; others are numbers if all of their cells are.
    texts : collection of str
        Columns whose cells stay as they are written: identifiers.

    Raises
    ------
    InvalidData
        If it cannot be read; the message quotes nothing from it.
    """
    table = open_table(path)
    if not isinstance(table, Csv):
        wide = pd.concat(table.read(), ignore_index=True)
        return wide if columns is None else wide.filter(sorted(columns))
    blocks = [block for file in table.files for block in _blocks(file, columns, schema, texts)]
    if any(block.keys() != blocks[0].keys() for block in blocks):
        raise InvalidData(f"data: the files of {table.name} have different columns.")
    found = {name: _joined([block[name] for block in blocks]) for name in blocks[0]}
    return pd.DataFrame(
        {name: _settled(name, values, schema, texts) for name, values in found.items()}
    )


def declared_batches(
    table: RowTable, columns: Sequence[str], schema: PublicSchema, texts: Collection[str] = ()
) -> Iterator[pd.DataFrame]:
    """Return a table's declared columns in batches; of files of text, by what is declared.

    Raises
    ------
    InvalidData
        As :func:`read_table`, and if a column is lacking.
    """
    if not isinstance(table, Csv):
        yield from table.read(columns)
        return
    for file in table.files:
        for block in _blocks(file, columns, schema, texts):
            lacking = [name for name in columns if name not in block]
            if lacking:
                raise InvalidData(
                    f"{table.name} has no column {lacking[0]!r} ({len(lacking)} of the declared "
                    "columns are missing)."
                )
            yield pd.DataFrame({name: pd.Series(block[name]) for name in columns})


def _blocks(
    path: Path,
    columns: Collection[str] | None,
    schema: PublicSchema | None,
    texts: Collection[str],
) -> Iterator[dict[str, Any]]:
    """Return the columns of some rows after the other, with errors that quote nothing."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            yield from _read(path.name, _lines(path.name, file), columns, schema, texts)
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
    name: str,
    lines: Iterator[str],
    columns: Collection[str] | None,
    schema: PublicSchema | None,
    texts: Collection[str],
) -> Iterator[dict[str, Any]]:
    rows = csv.reader(lines, strict=True)
    header = next(rows, [])
    if not any(header):
        raise InvalidData(f"data: {name} is empty; its first line names the columns.")
    wanted = [i for i, column in enumerate(header) if columns is None or column in columns]
    names = [header[i] for i in wanted]
    twice = sorted({column for column in names if names.count(column) > 1})
    if twice:
        raise InvalidData(f"data: {name} has the column {twice[0]!r} more than once.")
    readers = [_reader(column, schema, texts) for column in names]
    count = 0
    while block := list(islice(rows, _ROWS_AT_ONCE)):
        block = [row for row in block if row]  # blank lines
        _check_lengths(name, block, len(header), count)
        count += len(block)
        if not block or not wanted:
            continue
        cells = list(zip(*block, strict=True))
        found = {
            column: read(cells[place])
            for column, place, read in zip(names, wanted, readers, strict=True)
        }
        for column, values in found.items():
            _refuse_formulas(column, values, schema)
        yield found
    if not count or not wanted:
        hint = ""
        if columns is not None and len(header) == 1 and ";" in header[0]:
            hint = " It is separated by semicolons: save it with commas."
        kind = NoRows if wanted else InvalidData
        raise kind(f"data: {name} has no rows with the declared columns.{hint}")


def _check_lengths(name: str, block: list[list[str]], width: int, before: int) -> None:
    for number, row in enumerate(block, start=before + 1):
        if len(row) != width:
            raise InvalidData(
                f"data: {name}: row {number} has {len(row)} cells where the first line names "
                f"{width} columns."
            )


def _reader(column: str, schema: PublicSchema | None, texts: Collection[str]) -> Reader:
    """Return what becomes of a column's cells."""
    if column in texts:
        return lambda cells: np.array([cell or None for cell in cells], dtype=object)
    if schema is None:
        return _numbers
    for feature in schema.features:
        if feature.column == column:
            if isinstance(feature, Number):
                return _numbers
            return _values((*feature.declared_values(), *feature.na))
    outcome = schema.outcome
    if outcome is not None and outcome.column == column:
        known = outcome.classes or (*(outcome.positive or ()), *(outcome.negative or ()))
        return _values(known)
    return _numbers


def _values(declared: Collection[Value]) -> Reader:
    known: dict[str, Any] = {str(value): value for value in declared}
    for value in declared:
        for text in texts_of(value):
            known.setdefault(text, value)
    known = {**dict.fromkeys(_MISSING), **known}
    return lambda cells: np.array([known.get(cell, cell) for cell in cells], dtype=object)


def _numbers(cells: Cells) -> Any:
    """Return numbers; where not all cells are, those that are, and texts."""
    try:
        return np.array(cells, dtype=np.float64)
    except ValueError:
        pass
    found = np.array([_number(cell) for cell in cells], dtype=object)
    try:
        return found.astype(np.float64)
    except ValueError:
        return found


def _number(cell: str) -> float | str | None:
    if cell in _MISSING:
        return None
    try:
        return float(cell)
    except ValueError:
        return cell


def _joined(parts: list[Any]) -> Any:
    if all(part.dtype == np.float64 for part in parts):
        return np.concatenate(parts)
    return np.concatenate([part.astype(object) for part in parts])


def _settled(
    column: str, values: Any, schema: PublicSchema | None, texts: Collection[str]
) -> pd.Series[Any]:
    """Return a column nobody declared as whole numbers where it holds nothing else."""
    declared: Mapping[str, Any] = {} if schema is None else dict.fromkeys(schema.columns)
    if values.dtype == np.float64 and column not in declared and len(values):
        with np.errstate(invalid="ignore"):
            whole = values.astype(np.int64)
        if np.array_equal(whole, values):
            return pd.Series(whole)
    series = pd.Series(values)
    return series if column in texts else series.infer_objects()


def _refuse_formulas(column: str, values: Any, schema: PublicSchema | None) -> None:
    """Refuse what a spreadsheet would calculate; its result is what was meant."""
    if values.dtype != object:
        return
    known: set[Any] = set()
    if schema is not None:
        for feature in schema.features:
            if feature.column == column:
                known = {*feature.na, *feature.declared_values()}
    if any(type(cell) is str and cell[:1] in "=@" and cell not in known for cell in values):
        raise InvalidData(
            f"column {column!r}: some rows have a spreadsheet's formula; save its values."
        )
