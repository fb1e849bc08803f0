"""What a solver reads: rows in blocks of a public size, summed in a public order.

Rows are never copied whole. A block is float64, dense in C order or CSR, and may stand for rows
that are never written down: what is stored times public factors on its columns and one factor per
row, with a public constant behind it. Blocks make partitions, partitions make the whole, each
summed in order: so the bits of a sum do not depend on who computed which partition.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from confrere.arrays import Floats
from confrere.errors import InvalidData
from confrere.kernel.accountants import Labels
from confrere.kernel.measurements import block_rows, partition_rows

Matrix: TypeAlias = "NDArray[np.float64] | NDArray[np.float32] | sparse.csr_array | BlockRows"

#: What is summed over rows: one or several arrays.
Sums: TypeAlias = tuple[Floats, ...]
Integers: TypeAlias = NDArray[np.integer]

#: Largest number of entries of a subsample: 32 MB.
_SUBSAMPLE_ENTRIES = 2**22

_GOLDEN = 0.6180339887498949

#: Up to so many numbers rows are written down once, rather than made anew at every pass: 2 MB.
_WRITTEN_ENTRIES = 2**18


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Some rows ``(shrink_i * factors * stored_i, constant)``, as a map on weights."""

    stored: Any  #: ``(rows, k)`` doubles, CSR, or codes, which multiply and add up themselves
    shrink: NDArray[np.floating] | None = None  #: One factor per row
    factors: Floats | float = 1.0  #: On the columns
    constant: float = 0.0  #: Behind every row; 0 for none

    @property
    def size(self) -> int:
        return int(self.stored.shape[1]) + (self.constant != 0)

    def times(self, W: Floats) -> Floats:
        """Return every row's product with every row of ``W``: ``(m, rows)``."""
        if self.constant:
            T = self._stored_times(W[:, :-1] * self.factors)
        else:
            T = self._stored_times(W * self.factors)
        if self.shrink is not None:
            T *= self.shrink
        if self.constant:
            T += self.constant * W[:, -1:]
        return T

    def pull(self, R: Floats) -> Floats:
        """Return the rows added up with weights ``R``, ``(m, rows)``: ``(m, size)``."""
        inner = self._pull_stored(R if self.shrink is None else R * self.shrink)
        if not self.constant:
            return np.asarray(inner * self.factors)
        total = np.empty((len(R), self.size))
        np.multiply(inner, self.factors, out=total[:, :-1])
        np.multiply(self.constant, R.sum(axis=1), out=total[:, -1])
        return total

    def gram(self, weights: Floats) -> Floats:
        """Return ``sum_i c_i x_i x_i'`` for every row ``c`` of ``weights``: ``(m, size, size)``."""
        stored = self.stored if isinstance(self.stored, np.ndarray) else self.stored.toarray()
        width = stored.shape[1]
        grams = np.empty((len(weights), self.size, self.size))
        factors = self.factors
        products = factors**2 if isinstance(factors, float) else factors[:, None] * factors
        for gram, c in zip(grams, weights, strict=True):
            root = np.sqrt(c)
            if self.shrink is not None:
                root *= self.shrink
            scaled = stored * root[:, None]
            np.multiply(scaled.T @ scaled, products, out=gram[:width, :width])
            if self.constant:
                gram[-1] = gram[:, -1] = self.constant * self.pull(c[None])[0]
        return grams

    def squares(self, weights: Floats) -> Floats:
        shrink = None if self.shrink is None else np.square(self.shrink, dtype=np.float64)
        squared = type(self)(self.stored**2, shrink, np.square(self.factors), self.constant**2)
        return squared.pull(weights)

    def written(self) -> Floats:
        stored = self.stored if isinstance(self.stored, np.ndarray) else self.stored.toarray()
        rows = np.empty((stored.shape[0], self.size))
        inner = rows[:, : stored.shape[1]]
        np.multiply(stored, self.factors, out=inner)
        if self.shrink is not None:
            inner *= self.shrink[:, None]
        if self.constant:
            rows[:, -1] = self.constant
        return rows

    def _stored_times(self, W: Floats) -> Floats:
        if isinstance(self.stored, np.ndarray):
            return np.asarray(W @ self.stored.T)
        if hasattr(self.stored, "times"):
            return self.stored.times(W)  # type: ignore[no-any-return]
        if len(W) == 1:
            return np.asarray(self.stored @ W[0])[None]
        return np.ascontiguousarray((self.stored @ W.T).T)

    def _pull_stored(self, R: Floats) -> Floats:
        if hasattr(self.stored, "pull"):
            return self.stored.pull(R)  # type: ignore[no-any-return]
        if isinstance(self.stored, np.ndarray) or len(R) > 1:
            return np.asarray(R @ self.stored)
        return np.asarray(_transposed(self.stored) @ R[0])[None]


class Engine(Protocol):
    """Who computes the partitions of one organisation's rows."""

    def map(self, work: Callable[[int], Sums], parts: range) -> Iterable[Sums]:
        """Return what ``work`` gives for every partition, in order."""

    def keep(self, data: Any) -> Any:
        """Return rows or labels as :meth:`map` likes them: where its workers find them."""


class BlockRows:
    """Rows that are read in blocks: :class:`Block` of an array, of CSR, or of codes."""

    #: Whether every row is known to be within its bound.
    certified: bool = False
    engine: Engine | None = None
    #: Rows of a block and of a partition, where they are not those of stored numbers.
    steps: tuple[int, int] | None = None
    #: Numbers of the rows among those stored; None for all of them.
    chosen: NDArray[np.intp] | None = None
    #: See :class:`Block`; a row with factor 0 reads as zeros, whatever is stored.
    shrink: NDArray[np.floating] | None = None
    factors: Floats | float = 1.0
    constant: float = 0.0

    def __init__(self, X: Any) -> None:
        self.sparse = bool(sparse.issparse(X))
        # A memory map without its class: slices of one are slow to make.
        self.X = X = canonical(X) if self.sparse else X if hasattr(X, "width") else np.asarray(X)
        if len(X.shape) != 2:
            raise InvalidData("X must be a matrix: one row per record.")
        self.shape: tuple[int, int] = X.shape
        #: Stored numbers per row.
        self.width = max(1, X.nnz // max(1, X.shape[0])) if self.sparse else X.shape[1]
        self.width = getattr(X, "width", self.width)

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def layout(self) -> tuple[int, int]:
        d = self.shape[1]
        plain = block_rows(d, sparse=self.sparse), partition_rows(d, sparse=self.sparse)
        return self.steps or plain

    def stored(self, part: slice, buffer: Buffer) -> Any:
        if self.chosen is not None:
            found = self.X[self.chosen[part]]
        else:
            found = sparse_block(self.X, part) if self.sparse else self.X[part]
        if found.shape != (part.stop - part.start, self.X.shape[1]):
            raise InvalidData("the rows changed while they were read: a block has another shape.")
        if isinstance(found, np.ndarray):
            found = buffer.doubles(found)
        if self.shrink is None or np.all(there := self.shrink[part] != 0):
            return found
        if isinstance(found, np.ndarray):
            return np.where(there[:, None], found, 0.0)
        data = np.where(np.repeat(there, np.diff(found.indptr)), found.data, 0.0)
        return csr_view(data, found.indices, found.indptr, found.shape)

    def blocks(self, parts: Iterable[slice]) -> Iterator[Block]:
        """Return the rows of every slice; a block is valid until the next is asked for."""
        buffer = Buffer()
        for part in parts:
            shrink = None if self.shrink is None else self.shrink[part]
            yield Block(self.stored(part, buffer), shrink, self.factors, self.constant)

    def __getitem__(self, chosen: NDArray[np.intp] | slice) -> Self:
        """Return some of the rows, by their numbers: a copy if these are few."""
        if isinstance(chosen, slice):
            chosen = np.arange(*chosen.indices(len(self)))
        at = chosen if self.chosen is None else self.chosen[chosen]
        few = len(chosen) * self.width <= _SUBSAMPLE_ENTRIES
        copied = {"X": self.X[at], "chosen": None, "engine": None} if few else {"chosen": at}
        shrink = None if self.shrink is None else self.shrink[chosen]
        return self._with(shape=(len(chosen), self.shape[1]), shrink=shrink, **copied)

    def kept(self, keep: Callable[[Any], Any]) -> Self:
        """Return the same rows where ``keep`` puts what is stored: in a file, say."""
        return self._with(X=keep(self.X), shrink=keep(self.shrink), engine=None)

    def _with(self, **changed: object) -> Self:
        other = object.__new__(type(self))
        vars(other).update(vars(self) | changed)
        return other

    def written(self) -> Floats:
        (block,) = self.blocks([slice(0, len(self))])
        return block.written()

    def __array__(self, dtype: object = None, copy: bool | None = None) -> Floats:
        return self.written()

    def __matmul__(self, W: Floats) -> Floats:
        """Return products with weights ``(d, m)``, or with one vector of them."""
        step, weights = self.layout[0], np.atleast_2d(W.T)
        parts = [slice(i, min(i + step, len(self))) for i in range(0, max(1, len(self)), step)]
        products = np.concatenate([block.times(weights).T for block in self.blocks(parts)])
        return products if W.ndim == 2 else products[:, 0]


class Buffer:
    """Room for one block, used again and again: fresh pages cost more than the arithmetic."""

    _room: Floats = np.empty((0, 0))

    def doubles(self, X: NDArray[Any]) -> Floats:
        """Return an array as doubles in C order: itself if it is that."""
        if X.dtype == np.float64 and X.flags.c_contiguous:
            return X
        room = self.room(*X.shape)
        np.copyto(room, X)
        return room

    def room(self, rows: int, width: int) -> Floats:
        if len(self._room) < rows or self._room.shape[1] != width:
            self._room = np.empty((rows, width))
        return self._room[:rows]


def canonical(X: Any) -> sparse.csr_array:
    """Return CSR that holds every entry once: two entries of one place add up."""
    rows = sparse.csr_array(X)
    if not rows.has_canonical_format:
        rows = rows.copy()
        with np.errstate(all="ignore"):
            rows.sum_duplicates()
    return rows


def sparse_block(X: Any, part: slice) -> Any:
    first, last = X.indptr[part.start], X.indptr[part.stop]
    return csr_view(
        np.asarray(X.data[first:last], dtype=np.float64),
        X.indices[first:last],
        X.indptr[part.start : part.stop + 1] - first,
        (part.stop - part.start, X.shape[1]),
    )


def csr_view(data: Floats, indices: Integers, indptr: Integers, shape: tuple[int, int]) -> Any:
    """Return CSR of these very arrays: its constructor copies what is part of a larger one."""
    rows: Any = sparse.csr_array(shape)
    rows.data, rows.indices, rows.indptr = data, indices, indptr
    return rows


def _transposed(X: sparse.csr_array) -> sparse.csc_array:
    columns = sparse.csc_array(X.shape[::-1])
    columns.data, columns.indices, columns.indptr = X.data, X.indices, X.indptr
    return columns


#: Rows that are added up before others: sums in two stages are rounded less often.
_STAGE = 4096


def row_products(left: Any, right: Any) -> Floats:
    blocks = [slice(at, at + _STAGE) for at in range(0, max(1, left.shape[0]), _STAGE)]
    parts = [np.asarray(left[one]).T @ np.asarray(right[one]) for one in blocks]
    return np.asarray(parts[0] if len(parts) == 1 else np.sum(parts, axis=0))


def roundings(n_rows: int) -> int:
    return n_rows if n_rows <= _STAGE else _STAGE + math.ceil(n_rows / _STAGE)


#: From a block and its labels to what is summed.
Work: TypeAlias = Callable[[Block, Labels], Sums]


def _part_sum(
    rows: BlockRows, labels: Labels, work: Work, step: int, partition: int, number: int
) -> Sums:
    """Sum over the blocks of one partition: what an engine is given."""
    first, last = number * partition, min((number + 1) * partition, len(rows))
    parts = [slice(i, min(i + step, last)) for i in range(first, last, step)]
    total: Sums = ()
    for part, block in zip(parts, rows.blocks(parts), strict=True):
        total = _added(total, work(block, labels[part]))
    return total


def _added(total: Sums, more: Sums) -> Sums:
    """Add in place; the first term is taken as it is."""
    if not total:
        return more
    for each, one in zip(total, more, strict=True):
        each += one
    return total


class SolverRows:
    """Rows, and sums in the certificate's order; the first checks their root mean square norm."""

    def __init__(self, X: Matrix, row_norm: float) -> None:
        self.data: BlockRows = X if isinstance(X, BlockRows) else BlockRows(X)
        self.n, self.d = self.data.shape
        if min(self.n, self.d) < 1:
            raise InvalidData("X needs at least one row and one column.")
        self.row_norm = row_norm
        self._block, self._partition = self.data.layout
        self._checked = self.data.certified and row_norm >= 1.0
        self._engine = self.data.engine
        few = self.n * self.d <= _WRITTEN_ENTRIES and self.n <= self._partition
        if few and not self.data.sparse:
            self.data, self._engine = BlockRows(self.data.written()), None
        if self._engine is not None:
            self.data = self._engine.keep(self.data)

    def keep(self, labels: Labels) -> object:
        return labels if self._engine is None else self._engine.keep(labels)

    def sum(self, labels: Any, work: Work) -> Sums:
        """Return what ``work`` makes of every block and its labels, added up in order."""
        checked = self._checked

        def each(block: Block, y: Labels) -> Sums:
            squares = () if checked else (np.array(block.squares(np.ones((1, len(y)))).sum()),)
            return (*work(block, y), *squares)

        task = partial(_part_sum, self.data, labels, each, self._block, self._partition)
        parts = range(math.ceil(self.n / self._partition))
        total: Sums = ()
        for part in map(task, parts) if self._engine is None else self._engine.map(task, parts):
            if not total and self._engine is not None:
                part = tuple(map(np.array, part))  # what another process sends cannot be written
            total = _added(total, part)
        if checked:
            return total
        *total_of_work, squares = total
        self._check(float(squares))
        return tuple(total_of_work)

    def pulled(self, labels: Any, W: Floats, errors: Callable[[Floats, Labels], Floats]) -> Floats:
        (total,) = self.sum(labels, lambda block, y: (block.pull(errors(block.times(W), y)),))
        return total

    def written(self, labels: Labels) -> list[tuple[Floats, Labels]]:
        """Return every block's rows and labels, written down: for rows that are few."""
        parts = [slice(i, min(i + self._block, self.n)) for i in range(0, self.n, self._block)]
        found = []
        for part, block in zip(parts, self.data.blocks(parts), strict=True):
            found.append((block.written(), labels[part]))
        if not self._checked:
            self._check(sum(float(np.vdot(rows, rows)) for rows, _ in found))
        return found

    def _check(self, squares: float) -> None:
        """Refuse rows whose squared norms add up to more than they may."""
        # Clipping leaves rows within a few roundings of the bound; not a number fails too.
        if not squares <= self.n * self.row_norm**2 * (1 + 1e-9):
            raise InvalidData(
                "X has rows that are longer than row_norm, or not finite; clip them to a public "
                "bound first."
            )
        self._checked = True

    def subsample(self, dimension: float) -> NDArray[np.intp] | None:
        """Return row numbers, spread evenly by public numbers: they decide speed alone."""
        cheap = min(self.n // 12, 8 * self.n // self.d)
        enough = max(cheap, 4 * self.d, math.ceil(20 * dimension), 2000)
        count = min(enough, _SUBSAMPLE_ENTRIES // self.data.width)
        if not self.d <= count <= self.n // 4:
            return None
        steps = np.arange(count)
        jitter = (steps * _GOLDEN) % 1
        chosen: NDArray[np.intp] = ((steps + jitter) * (self.n / count)).astype(np.intp)
        return chosen

    def take(self, chosen: NDArray[np.intp]) -> SolverRows:
        # Their root mean square norm may be larger than that of all, by the root of how few.
        longest = self.row_norm * math.sqrt(self.n / len(chosen))
        return SolverRows(self.data[chosen], longest)
