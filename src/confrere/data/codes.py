"""Rows as codes: which vertex of its column a cell is, and sums over rows by tables of vertices.

A raw column has ``K`` vertices with public numbers, a table of ``K`` rows: products with weights
are look-ups, sums over rows are counts of vertices times the table. Small columns share one code,
whose vertices are all combinations. Sub-sums of :func:`sub_rows` rows let a row's share see few
roundings, and bits hang on a row's number alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from confrere.arrays import Floats

Whole: TypeAlias = NDArray[np.integer]

#: Fewer rows are written down. Vertices of columns that share one code, at the most.
FEW, PACKED = 2048, 256

#: Rows that are written down at once, for the cache's sake, and vertices that are added up at once.
_AT_ONCE, _VERTICES = 2048, 512


def packed(sizes: Sequence[int]) -> list[list[int]]:
    """Return which columns share a code: a public rule of their numbers of vertices."""
    found: list[list[int]] = []
    room: list[int] = []
    for j in sorted(range(len(sizes)), key=lambda j: -sizes[j]):
        at = next((g for g, left in enumerate(room) if sizes[j] <= left), len(found))
        if at == len(found):
            found.append([])
            room.append(PACKED)
        found[at].append(j)
        room[at] //= sizes[j]
    return [sorted(group) for group in found]


def sub_rows(size: int) -> int:
    """Return how many rows a sub-sum has: fewer where there is room for more sub-sums."""
    return 256 if size <= PACKED else 1024


@lru_cache(maxsize=64)
def _offsets(n: int, size: int) -> NDArray[np.intp]:
    """Return where the sub-sum of each row begins, for vertices of that number."""
    return np.arange(n) // sub_rows(size) * size


@dataclass(frozen=True, eq=False)
class PackedCodes:
    """One small whole number per row, in memory or in a file: a vertex of each of some columns."""

    codes: Whole
    columns: tuple[int, ...]
    sizes: tuple[int, ...]

    @property
    def size(self) -> int:
        """Number of vertices: all combinations."""
        return math.prod(self.sizes)

    def digits(self, codes: Whole) -> list[NDArray[np.intp]]:
        """Return the vertex of every column."""
        found = []
        left = codes.astype(np.intp)
        for size in self.sizes:
            left, digit = np.divmod(left, size)
            found.append(digit)
        return found


def stored(columns: Sequence[NDArray[np.intp]], sizes: Sequence[int]) -> list[PackedCodes]:
    """Return the codes of columns, small ones together."""
    found = []
    for group in packed(sizes):
        mine = tuple(sizes[j] for j in group)
        code = columns[group[-1]]
        for j in reversed(group[:-1]):
            code = code * sizes[j] + columns[j]
        found.append(
            PackedCodes(code.astype(np.min_scalar_type(math.prod(mine) - 1)), tuple(group), mine)
        )
    return found


@dataclass(frozen=True, eq=False)
class Coded:
    """Rows ``shrink_i * (V_1[code_i1], V_2[code_i2], ...)``: never written down as a whole."""

    stores: tuple[PackedCodes, ...]
    tables: tuple[Floats, ...]  #: ``V_j`` of every raw column: one row per vertex
    shrink: Floats | None = None
    shape: tuple[int, int] = field(init=False)  #: Rows and columns
    width: int = field(init=False)  #: Stored numbers per row
    parts: list[slice] = field(init=False)  #: Where the numbers of every raw column are

    def __post_init__(self) -> None:
        ends = np.cumsum([table.shape[1] for table in self.tables]).tolist()
        pairs = zip(ends, self.tables, strict=True)
        facts: dict[str, object] = {
            "shape": (len(self.stores[0].codes), ends[-1]),
            "width": len(self.stores),
            "parts": [slice(end - table.shape[1], end) for end, table in pairs],
        }
        vars(self).update(facts)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, chosen: Any) -> Any:
        """Return some of the rows, or ``[:, columns]``; consecutive rows are views."""
        if not isinstance(chosen, tuple):
            return self.kept(lambda codes: codes[chosen])
        if np.any(np.diff(chosen[1]) <= 0):  # in another order, they are written down
            return self.toarray()[chosen]
        keep = np.isin(np.arange(self.shape[1]), chosen[1])
        pairs = zip(self.tables, self.parts, strict=True)
        tables = tuple(table[:, keep[part]] for table, part in pairs)
        used = tuple(one for one in self.stores if any(tables[j].size for j in one.columns))
        return replace(self, tables=tables, stores=used)

    def kept(self, keep: Callable[..., Any]) -> Coded:
        """Return the same rows with their codes kept by ``keep``: in a file, say."""
        stores = tuple(replace(store, codes=keep(store.codes)) for store in self.stores)
        shrink = None if self.shrink is None else keep(self.shrink)
        return replace(self, stores=stores, shrink=shrink)

    def map(self, change: Callable[[int, Floats], Floats]) -> Coded:
        """Return rows whose every column's vertices have other numbers."""
        return replace(self, tables=tuple(change(j, table) for j, table in enumerate(self.tables)))

    def scaled(self, factors: Floats) -> Coded:
        """Return the rows times one factor each."""
        return replace(self, shrink=factors if self.shrink is None else self.shrink * factors)

    def times(self, W: Floats) -> Floats:
        """Return every row's product with every row of ``W``: ``(m, rows)``."""
        parts = self.parts
        total: Floats = np.zeros((len(W), len(self)))
        room = np.empty(len(self))
        for store in self.stores:
            products = [self.tables[j] @ W[:, parts[j]].T for j in store.columns]
            table = np.ascontiguousarray(_combined(products).T)
            for row, each in zip(total, table, strict=True):
                # "raise" would copy through a buffer
                row += np.take(each, store.codes, out=room, mode="clip")
        if self.shrink is not None:
            total *= self.shrink
        return total

    def __matmul__(self, W: Floats) -> Floats:
        return self.times(W.T).T

    def pull(self, R: Floats) -> Floats:
        """Return the rows added up with weights ``R``, ``(m, rows)``: ``(m, columns)``."""
        if self.shrink is not None:
            R = R * self.shrink
        n, width = self.shape
        total = np.empty((len(R), width))
        parts = self.parts
        for store in self.stores:
            size = store.size
            places = np.add(store.codes, _offsets(n, size), dtype=np.intp)
            pieces = -(-n // sub_rows(size))
            for row, weights in zip(total, R, strict=True):
                counts = np.bincount(places, weights, minlength=pieces * size)
                # One axis per column of the store, the first one changing fastest.
                cube = counts.reshape(pieces, size).sum(axis=0).reshape(store.sizes[::-1])
                for k, j in enumerate(store.columns):
                    axes = tuple(a for a in range(cube.ndim) if a != cube.ndim - 1 - k)
                    row[parts[j]] = _weighted(cube.sum(axis=axes), self.tables[j])
        return total

    def norms(self, scale: Floats | None, norm: str) -> Floats:
        """Return the rows' norms after factors on the columns."""
        parts, power = self.parts, 1 if norm == "l1" else 2
        scaled = self.map(
            lambda j, table: np.abs(table if scale is None else table * scale[parts[j]])
        )
        sums = (scaled**power).times(np.ones((1, self.shape[1])))[0]
        return np.asarray(sums if norm == "l1" else np.sqrt(sums))

    def toarray(self) -> Floats:
        """Return the rows, written down."""
        out = np.empty(self.shape)
        parts = self.parts
        for start in range(0, len(self), _AT_ONCE):
            part = slice(start, start + _AT_ONCE)
            for store in self.stores:
                for j, digit in zip(store.columns, store.digits(store.codes[part]), strict=True):
                    out[part, parts[j]] = self.tables[j].take(digit, axis=0)
        if self.shrink is not None:
            out *= np.asarray(self.shrink)[:, None]
        return out

    def __array__(self, dtype: object = None, copy: bool | None = None) -> Floats:
        return self.toarray()

    def __pow__(self, power: int) -> Coded:
        shrink = None if self.shrink is None else np.asarray(self.shrink) ** power
        return replace(self, tables=tuple(table**power for table in self.tables), shrink=shrink)


def _weighted(counts: Floats, table: Floats) -> Floats:
    """Return the vertices added up with weights; of many, some after the other."""
    starts = range(0, len(counts), _VERTICES)
    each = (counts[i : i + _VERTICES] @ table[i : i + _VERTICES] for i in starts)
    return np.asarray(sum(each, np.zeros(table.shape[1])))


def _combined(products: list[Floats]) -> Floats:
    """Return the sums of all combinations of vertices, the first column's changing fastest."""
    found = products[0]
    for more in products[1:]:
        found = (more[:, None] + found).reshape(-1, found.shape[1])
    return found
