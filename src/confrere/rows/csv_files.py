"""Files of comma-separated values, read strictly: cells are texts, and an empty one is no value.

Nothing is guessed from other rows: what a text means says :mod:`confrere.schema.cells`. Errors name
the file, the line or the column, and never a value.
"""

from __future__ import annotations

import csv
from collections.abc import Collection, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from confrere.errors import InvalidData, NoRows

#: Characters of a line at most; a cell has at most those that the csv module allows (131072).
MAX_LINE = 1 << 22
_ROWS_AT_ONCE = 20_000


def text_batches(path: Path, columns: Collection[str] | None) -> Iterator[pd.DataFrame]:
    """Return some rows of a file after the other, with errors that quote nothing.

    Parameters
    ----------
    path : Path
        A file in UTF-8, whose first line names the columns.
    columns : collection of str or None
        Columns to keep, as far as they are there; all if None.
    """
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
