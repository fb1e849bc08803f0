r"""Rows in the declared ball that are never written down.

Proof: docs/proofs/rows.md.

What is stored stays as it is given. A row of the theorems is

.. math:: x_i = \bigl( \sigma_i\, f \circ z_i,\; (1 - h)\, c \bigr),
          \qquad f = (1 - h)\, \frac{r}{B}\, s, \qquad \sigma_i \le \min(1, B / \|s \circ z_i\|)

in exact arithmetic: stored :math:`z_i`, public factors :math:`f`, and one factor :math:`\sigma_i`
per row, in single precision and rounded towards zero. Products with it cost a rounding for each of
them, which the certificate of the solver counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confrere.arrays import Floats
from confrere.errors import InvalidData
from confrere.maths.solver.certificate import block_rows, partition_rows
from confrere.maths.solver.row_blocks import Block, Buffer, Engine, csr_view
from confrere.rows.ball import MeasuredRows, Norm, rounding_margin
from confrere.rows.row_source import ArraySource, ChosenSource, RowSource, SparseSource, as_source

#: Beyond this many times its bound a row's factor is no number of single precision.
_FAR = 1e30

#: Beyond this length before the factors, sums over stored rows are not safe from overflow.
_LARGE = 1e100

#: Columns with smaller factors are left out of rows that are too large to be scaled.
_FAINT = 1e-200

_MAX = float(np.finfo(np.float64).max)

#: Subsamples with at most this many numbers are copied: 32 MB.
_COPIED = 2**22


class FramedRows(MeasuredRows):
    """Rows of a source, in the unit ball with the constant: what a frame makes of them.

    Parameters
    ----------
    X : array, CSR or RowSource
        Rows as given.
    bound : float
        Declared bound on a row's norm after ``scale``.
    scale : (d,) array, optional
        Public factors on the columns, at least 0.
    constant : float, default=0.0
        Public constant inside the bound.
    norm : {"l2", "l1"}, default="l2"
        Which ball.
    engine : Engine, optional
        Who reads the partitions.
    """

    def __init__(
        self,
        X: Any,
        bound: float,
        *,
        scale: Floats | None = None,
        constant: float = 0.0,
        norm: Norm = "l2",
        engine: Engine | None = None,
    ) -> None:
        self.source = as_source(X)
        n, width = self.source.shape
        self.shape = (n, width + (constant > 0))
        self.sparse, self.width = self.source.sparse, self.source.width
        self.engine = engine
        self.bound, self.scale, self.norm = bound, scale, norm
        inside = 1 - rounding_margin(self.shape[1])
        room = math.sqrt(1 - constant**2) if norm == "l2" else 1 - constant
        self._base = inside * room / bound
        self.factors: Floats | float = self._base if scale is None else self._base * scale
        self.constant = inside * constant
        #: The factors of rows; None if all are one.
        self.shrink: Any = None
        #: The numbers of rows that are too large, or not numbers, and stand for others.
        self.odd: NDArray[np.intp] = np.empty(0, dtype=np.intp)
        inner = self._base * self._measure()
        self.longest = math.hypot(inner, self.constant) if norm == "l2" else inner + self.constant
        self.certified = self.longest <= 1

    @property
    def dtype(self) -> np.dtype[np.float64]:
        """Rows are doubles when they are read."""
        return np.dtype(np.float64)

    def blocks(self, parts: Iterable[slice]) -> Iterator[Block]:
        """Return the rows of every slice."""
        buffer = Buffer()
        for part in parts:
            stored = self._stored(part, buffer)
            shrink = None if self.shrink is None else self.shrink[part]
            yield Block(stored, shrink, self.factors, self.constant)

    def __getitem__(self, chosen: NDArray[np.intp]) -> FramedRows:
        """Return some of the rows, by their numbers, which grow."""
        some = object.__new__(FramedRows)
        vars(some).update(vars(self))
        some.shape = (len(chosen), self.shape[1])
        if len(chosen) * self.width <= _COPIED:
            copied = self.source.take(chosen)
            some.source = SparseSource(copied) if self.sparse else ArraySource(copied)
            some.engine = None
        else:
            some.source = ChosenSource(self.source, chosen)
        some.shrink = None if self.shrink is None else self.shrink[chosen]
        some.odd = np.flatnonzero(np.isin(chosen, self.odd)) if len(self.odd) else self.odd
        return some

    def elsewhere(self, keep: Callable[[Any], Any]) -> FramedRows:
        """Return the same rows with what is long in them kept by ``keep``: in a file, say."""
        moved = object.__new__(FramedRows)
        vars(moved).update(vars(self))
        moved.source, moved.engine = keep(self.source), None
        moved.shrink = None if self.shrink is None else keep(self.shrink)
        return moved

    def check_unchanged(self) -> None:
        """Refuse rows whose file was written to while they were read."""
        self.source.check_unchanged()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Floats:
        """Write the rows down: for audits and few rows."""
        return self.written()

    def _stored(self, part: slice, buffer: Buffer) -> Any:
        """Return stored rows in doubles, those that are too large replaced."""
        stored = self.source.read(part)
        if stored.shape != (part.stop - part.start, self.source.shape[1]):
            raise InvalidData("the rows changed while they were read: a block has another shape.")
        odd = self.odd
        if len(odd):
            first, last = np.searchsorted(odd, [part.start, part.stop])
            odd = odd[first:last] - part.start
        if self.sparse:
            return self._without_odd(stored, odd)
        rows = buffer.doubles(stored)
        if not len(odd):
            return rows
        rows = rows.copy()
        rows[odd] = _tamed(rows[odd], self.scale, self.bound, self.norm)
        return rows

    def _without_odd(self, stored: Any, odd: NDArray[np.intp]) -> Any:
        if not len(odd):
            return stored
        data = stored.data.copy()
        for row in odd:
            entries = slice(stored.indptr[row], stored.indptr[row + 1])
            scale = None if self.scale is None else self.scale[stored.indices[entries]]
            data[entries] = _tamed(data[entries][None], scale, self.bound, self.norm)[0]
        return csr_view(data, stored.indices, stored.indptr, stored.shape)

    def _measure(self) -> float:
        """Find the rows' factors and which rows are odd; return how long a row is, factors left."""
        n, d = self.shape
        step = partition_rows(d, sparse=self.sparse)
        source = self.source if self.engine is None else self.engine.keep(self.source)
        task = _Measuring(
            source, self.scale, self.bound, self.norm, block_rows(d, sparse=self.sparse), step
        )
        parts = range(math.ceil(n / step))
        found = map(task, parts) if self.engine is None else self.engine.map(task, parts)
        odd, most = [], 0.0
        for number, (shrink, rows, longest) in enumerate(found):
            first = number * step
            if len(shrink):
                if self.shrink is None:
                    self.shrink = np.ones(n, dtype=np.float32)
                self.shrink[first : first + step] = shrink
            odd.append(rows.astype(np.intp) + first)
            most = max(most, float(longest))
        self.odd = np.concatenate(odd) if odd else self.odd
        return most


class _Measuring:
    """The factors of one partition's rows, the numbers of its odd rows, and the longest row."""

    def __init__(
        self,
        source: RowSource,
        scale: Floats | None,
        bound: float,
        norm: Norm,
        block: int,
        partition: int,
    ) -> None:
        self.source, self.scale, self.bound, self.norm = source, scale, bound, norm
        self.block, self.partition = block, partition

    def __call__(self, number: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """Return them for partition ``number``; no factors if all are one."""
        first = number * self.partition
        last = min(first + self.partition, self.source.shape[0])
        shrink = np.ones(last - first, dtype=np.float32)
        odd = []
        longest, clipped = 0.0, False
        buffer, scaled = Buffer(), Buffer()
        for start in range(first, last, self.block):
            stored = self.source.read(slice(start, min(start + self.block, last)))
            norms, strange = self._norms(stored, buffer, scaled)
            mine = shrink[start - first : start - first + len(norms)]
            if strange.any():
                norms[strange] = self.bound  # what stands for such a row is no longer
                odd.append(np.flatnonzero(strange) + (start - first))
            if len(norms) and norms.max() > self.bound:
                clipped = True
                mine[:] = rounded_down(self.bound / np.maximum(norms, self.bound))
                norms *= mine
            longest = max(longest, float(norms.max(initial=0.0)))
        rows = np.concatenate(odd) if odd else np.empty(0, dtype=np.int64)
        return shrink if clipped else shrink[:0], rows, np.array(longest)

    def _norms(self, stored: Any, buffer: Buffer, room: Buffer) -> tuple[Floats, NDArray[np.bool_]]:
        """Return the norms after the scale, and which rows have none that can be used."""
        with np.errstate(all="ignore"):
            if not isinstance(stored, np.ndarray):
                return self._sparse_norms(stored)
            rows = buffer.doubles(stored)
            if self.scale is None:
                norms = _row_norms(rows, self.norm)
                return norms, ~(norms <= _FAR * self.bound)
            scaled = np.multiply(rows, self.scale, out=room.room(*rows.shape))
            norms = _row_norms(scaled, self.norm)
            fine = (norms <= _FAR * self.bound) & (_row_norms(rows, "l2") <= _LARGE)
            return norms, ~fine

    def _sparse_norms(self, stored: Any) -> tuple[Floats, NDArray[np.bool_]]:
        ones = np.ones(stored.shape[1])

        def norms_of(data: Floats, norm: Norm) -> Floats:
            sizes = np.abs(data) if norm == "l1" else data * data
            sums = csr_view(sizes, stored.indices, stored.indptr, stored.shape)
            found = np.asarray(sums @ ones)
            return found if norm == "l1" else np.sqrt(found)

        if self.scale is None:
            norms = norms_of(stored.data, self.norm)
            return norms, ~(norms <= _FAR * self.bound)
        norms = norms_of(stored.data * self.scale[stored.indices], self.norm)
        fine = (norms <= _FAR * self.bound) & (norms_of(stored.data, "l2") <= _LARGE)
        return norms, ~fine


def _row_norms(X: Floats, norm: Norm) -> Floats:
    if norm == "l1":
        return np.asarray(np.abs(X).sum(axis=1))
    return np.asarray(np.sqrt(np.einsum("ij,ij->i", X, X)))


def rounded_down(values: Floats) -> NDArray[np.float32]:
    """Return positive numbers in single precision, rounded towards zero."""
    single = values.astype(np.float32)
    above = single > values
    single[above] = np.nextafter(single[above], np.float32(0))
    return single


def _tamed(X: Floats, scale: Floats | None, bound: float, norm: Norm) -> Floats:
    """Return rows of any size, scaled so that after the factors they are no longer than the bound.

    NaN reads as 0 and an infinity as the largest double. A row's image depends on that row alone.
    """
    with np.errstate(all="ignore"):
        finite = np.nan_to_num(X, nan=0.0, posinf=_MAX, neginf=-_MAX)
        if scale is not None:
            finite = np.where(scale < _FAINT, 0.0, finite)
        first = _largest(finite)
        entries = finite / first
        scaled = entries if scale is None else entries * scale
        second = _largest(scaled)
        norms = _row_norms(scaled / second, norm)[:, None]
        lengths = np.minimum(bound / np.maximum(norms, 1.0), first * second)
        return np.asarray(entries / second * lengths)


def _largest(X: Floats) -> Floats:
    """Return every row's largest magnitude, as a column; 1 for a row of zeros."""
    found = np.abs(X).max(axis=1, keepdims=True, initial=0.0)
    return np.where(found > 0, found, 1.0)
