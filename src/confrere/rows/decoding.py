"""A table decoded once: numbers in memory if they are few, else in a private file."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from confrere.errors import InvalidData
from confrere.rows.row_source import ArraySource, RowSource
from confrere.rows.row_tables import RowTable
from confrere.rows.spill import SpillFolder, SpillWriter
from confrere.schema.cells import plain_labels, read_numbers

#: Numbers that are kept in memory: 128 MB.
_IN_MEMORY = 2**24

#: Types whose numbers single precision holds exactly.
_SINGLE = ("float32", "float16", "int8", "uint8", "int16", "uint16", "bool")

#: Told how many rows are done, and of how many if that is known.
Progress = Callable[[int, int | None], None]


@dataclass(frozen=True, eq=False)
class Decoded:
    """A table's numbers.

    Attributes
    ----------
    X : RowSource
        In single precision if all columns are, else in double.
    y : array or None
        Labels.
    columns : tuple of str
        What the columns of ``X`` are called.
    """

    X: RowSource
    y: NDArray[Any] | None
    columns: tuple[str, ...]


def decoded(
    table: RowTable,
    *,
    columns: Sequence[str] | None = None,
    label: str | None = None,
    progress: Progress | None = None,
) -> Decoded:
    """Return the numbers of a table, decoded once.

    Parameters
    ----------
    table : RowTable
        Its columns are numbers; text, missing values and infinities are refused.
    columns : sequence of str, optional
        Which columns are features; by default all but the label.
    label : str, optional
        Which column holds the labels.
    progress : callable, optional
        Told how far it is after every batch; by default a bar where a person watches.
    """
    wanted = None if columns is None else [*columns, *([label] if label is not None else ())]
    batches = table.read(wanted)
    first = next(batches, None)
    assert first is not None  # no rows are an error
    if label is not None and label not in first.columns:
        raise InvalidData(f"{table.name} has no column {label!r} for the labels.")
    names = tuple(str(name) for name in first.columns if name != label)
    single = all(str(first[name].dtype) in _SINGLE for name in names)

    def blocks() -> Iterator[tuple[NDArray[Any], NDArray[Any] | None]]:
        for batch in _chained(first, batches):
            rows = _numbers(batch[list(names)], single, table.name)
            yield rows, None if label is None else _small(label, batch[label])

    X, y = gathered(blocks(), len(names), table.rows, progress)
    return Decoded(X, y, names)


def gathered(
    blocks: Iterable[tuple[NDArray[Any], NDArray[Any] | None]],
    width: int,
    expected: int | None = None,
    progress: Progress | None = None,
) -> tuple[RowSource, NDArray[Any] | None]:
    """Return blocks of rows and labels as one: in memory if they are few, else in a file."""
    kept: list[NDArray[Any]] = []
    labels: list[NDArray[Any]] = []
    writer: SpillWriter | None = None
    done = 0
    with _Told(progress, expected) as told:
        for rows, some in blocks:
            done += len(rows)
            if some is not None:
                labels.append(some)
            if writer is None and max(done, expected or 0) * width > _IN_MEMORY:
                writer = SpillWriter(SpillFolder(), "rows", width, expected or done)
                for earlier in kept:
                    writer.append(earlier)
                kept.clear()
            if writer is None:
                kept.append(rows)
            else:
                writer.append(rows)
            told(done, expected)
    source = ArraySource(np.concatenate(kept)) if writer is None else writer.finish()
    return source, np.concatenate(labels) if labels else None


def _chained(first: pd.DataFrame, rest: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    yield first
    yield from rest


def _numbers(batch: pd.DataFrame, single: bool, name: str) -> NDArray[Any]:
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


def _small(column: str, values: pd.Series[Any]) -> NDArray[Any]:
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
