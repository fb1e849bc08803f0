r"""The public coordinates that all parties compute in, and the one map from any row into them.

Proof: docs/proofs/rows.md.

A **source** is anything that has a shape and gives some of its rows. It is read again at every
pass over the data, block by block, so nothing here is copied whole. Sources that cannot be read
again and again (files of text, databases) are decoded once, into a file that can: see
:mod:`confrere.rows.spill`.

**The map is total.** NaN reads as 0, an infinity as the largest double, and every other row is

.. math:: x \mapsto (1 - h) \left( r \, \frac{v}{\max(B, \|v\|)},\; c \right), \qquad v_j = s_j x_j

with public factors :math:`s`, bound :math:`B`, constant :math:`c` and room :math:`r` for the rest
of the row (:math:`\sqrt{1 - c^2}` in L2, :math:`1 - c` in L1). No row raises or warns, and no row's
image depends on another row.

**It ends inside.** The margin :math:`h = 8 (d + 4) 2^{-53}` is more than all rounding, in the map
and in a certificate that measures its images again. It is taken off the whole row, constant
included: for a constant near one the rest of the row is too short to make room for rounding.

**Rows in the ball are never written down.** What is stored stays as it is given. A row of the
theorems is

.. math:: x_i = \bigl( \sigma_i\, f \circ z_i,\; (1 - h)\, c \bigr),
          \qquad f = (1 - h)\, \frac{r}{B}\, s, \qquad \sigma_i \le \min(1, B / \|s \circ z_i\|)

in exact arithmetic: stored :math:`z_i`, public factors :math:`f`, and one factor :math:`\sigma_i`
per row, in single precision and rounded towards zero. Products with it cost a rounding for each of
them, which the certificate of the solver counts.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from confrere.arrays import Floats
from confrere.errors import InvalidData, InvalidParameter
from confrere.kernel.guarantee import check_bound
from confrere.kernel.norms import (
    L1,
    L2,
    Ball,
    MeasuredRows,
    Norm,
    canonical_csr,
    rounding_margin,
    row_norms,
)
from confrere.maths.solver.certificate import block_rows, partition_rows
from confrere.maths.solver.row_blocks import (
    Block,
    BlockRows,
    Buffer,
    Engine,
    canonical,
    csr_view,
    sparse_block,
)
from confrere.schema.codes import FEW, Coded


class CodedBlock(Block):
    """A block of :class:`~confrere.schema.codes.Coded` rows."""

    def _stored_times(self, W: Floats) -> Floats:
        return self.stored.times(W)  # type: ignore[no-any-return]

    def _pull_stored(self, R: Floats) -> Floats:
        return self.stored.pull(R)  # type: ignore[no-any-return]


def coded_steps(d: int) -> tuple[int, int]:
    """Return how many coded rows make a block and a partition; see the certificate."""
    return 2048 * max(1, min(8, 1024 // d)), 2**20


#: Types whose values a double holds, and that are read as they are.
_AS_THEY_ARE = (np.float64, np.float32)


class RowSource(ABC):
    """Rows that can be read again: their shape, numbers per row, and whether these are CSR."""

    shape: tuple[int, int]
    sparse: bool = False
    width: int

    @abstractmethod
    def read(self, part: slice) -> Any:
        """Return consecutive rows, an array or CSR, in the numbers that they are stored in."""

    @abstractmethod
    def take(self, chosen: NDArray[np.intp]) -> Any:
        """Return rows by their numbers, which grow."""

    def check_unchanged(self) -> None:  # noqa: B027
        """Refuse rows that are read from a file which was written to since the first reading."""

    def __len__(self) -> int:
        return self.shape[0]


class ArraySource(RowSource):
    """An array or a memory map, in any memory order, of single or double precision."""

    def __init__(self, X: NDArray[Any]) -> None:
        # Without the class, slices of a memory map are slow to make.
        self.X = np.asarray(X) if X.dtype in _AS_THEY_ARE else np.asarray(X, dtype=np.float64)
        self.shape = self.X.shape
        self.width = self.shape[1]

    def read(self, part: slice) -> NDArray[Any]:
        """Return consecutive rows: a view."""
        return self.X[part]

    def take(self, chosen: NDArray[np.intp]) -> NDArray[Any]:
        """Return rows by their numbers."""
        return self.X.take(chosen, axis=0)


class SparseSource(RowSource):
    """CSR."""

    sparse = True

    def __init__(self, X: Any) -> None:
        self.X = canonical(X)
        self.shape = self.X.shape
        self.width = max(1, self.X.nnz // max(1, self.shape[0]))

    def read(self, part: slice) -> Any:
        """Return consecutive rows: views of their entries."""
        return sparse_block(self.X, part)

    def take(self, chosen: NDArray[np.intp]) -> Any:
        """Return rows by their numbers."""
        return self.X[chosen]


class ChosenSource(RowSource):
    """Some rows of another source, by their numbers, which grow."""

    def __init__(self, source: RowSource, chosen: NDArray[np.intp]) -> None:
        self.source, self.chosen = source, chosen
        self.shape = (len(chosen), source.shape[1])
        self.sparse, self.width = source.sparse, source.width

    def read(self, part: slice) -> Any:
        """Return consecutive ones of the chosen rows."""
        return self.source.take(self.chosen[part])

    def take(self, chosen: NDArray[np.intp]) -> Any:
        """Return some of the chosen rows."""
        return self.source.take(self.chosen[chosen])

    def check_unchanged(self) -> None:
        """Refuse what the other source refuses."""
        self.source.check_unchanged()


RowSource.register(Coded)


def as_source(X: Any) -> RowSource:
    """Return rows as a source: an array, CSR, or what is one already."""
    if isinstance(X, Coded) and len(X) < FEW:
        X = X.toarray()
    if isinstance(X, RowSource):
        return X
    if sparse.issparse(X):
        return SparseSource(X)
    X = X if isinstance(X, np.ndarray) else np.asarray(X)
    if X.ndim != 2:
        raise InvalidData("X must be a matrix: one row per record.")
    return ArraySource(X)


Written: TypeAlias = "NDArray[np.float64] | sparse.csr_array"


Rows: TypeAlias = "Written | FramedRows"

#: Between these, squares of a norm's entries neither overflow nor matter where they underflow.
_SMALL, _LARGE = 1e-100, 1e100

_MAX = float(np.finfo(np.float64).max)


def into_ball(
    X: Written,
    bound: float = 1.0,
    *,
    factors: Floats | None = None,
    constant: float = 0.0,
    columns: int = 1,
    norm: Ball = "l2",
    unit: bool = False,
) -> Written:
    """Return every row's image in the unit ball; see the module for what it is.

    Any numbers at all, an array or CSR, which stays CSR. Rows are clipped to the bound after the
    public factors on their columns. The public constant inside the bound, if it is not 0, is spread
    over so many equal columns, keeping its norm. With ``unit`` short rows get the length of the
    bound too; rows of zeros stay.
    """
    rows: Written
    if isinstance(X, np.ndarray):
        rows = _clip(np.asarray(X, dtype=np.float64), bound, factors, norm, unit)
    else:
        rows = _clip_sparse(canonical_csr(X), bound, factors, norm, unit)
    width = X.shape[1] + (columns if constant else 0)
    inside = 1 - rounding_margin(width)
    if not constant:
        return _times(rows, inside)
    room = math.sqrt(1 - constant**2) if norm == "l2" else 1 - constant
    each = constant / (math.sqrt(columns) if norm == "l2" else columns)
    rows = _times(rows, inside * room)
    block = np.full((X.shape[0], columns), inside * each)
    if isinstance(rows, np.ndarray):
        return np.hstack([rows, block])
    return sparse.csr_array(sparse.hstack([rows, sparse.csr_array(block)]))


def _clip(X: Floats, bound: float, factors: Floats | None, norm: Ball, unit: bool) -> Floats:
    """Return ``v / max(bound, ||v||)``, or ``v / ||v||``."""
    with np.errstate(all="ignore"):
        scaled = X if factors is None else X * factors
        norms = row_norms(scaled, norm)
        rows = scaled / (norms if unit else np.maximum(norms, bound))[:, None]
    odd = _odd(norms, bound, unit)
    if odd.any():
        some = X[odd]
        n_rows, width = some.shape
        rows[odd] = _clip_entries(
            some.ravel(),
            np.repeat(np.arange(n_rows), width),
            n_rows,
            bound,
            None if factors is None else np.tile(factors, n_rows),
            norm,
            unit,
        ).reshape(some.shape)
    return np.asarray(rows)


def _odd(norms: Floats, bound: float, unit: bool) -> NDArray[np.bool_]:
    """Return whose norm says too little about its row: overflown, underflown, or NaN."""
    smallest = _SMALL if unit or bound < _SMALL else 0.0
    # Written so that NaN is odd: no comparison with it is true.
    return np.asarray(~((norms >= smallest) & (norms <= _LARGE)))


def _times(rows: Written, factor: float) -> Written:
    """Multiply rows that are ours in place."""
    if isinstance(rows, np.ndarray):
        rows *= factor
    else:
        rows.data *= factor
    return rows


def _reach(sums: Floats, norm: Ball) -> Floats:
    """Return one over the norm, from sums of magnitudes or squares; 1 for a row of zeros."""
    sums = np.where(sums > 0, sums, 1.0)
    return np.asarray(1 / (sums if norm == "l1" else np.sqrt(sums)))


def _clip_sparse(
    X: sparse.csr_array, bound: float, factors: Floats | None, norm: Ball, unit: bool
) -> sparse.csr_array:
    owners = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
    with np.errstate(all="ignore"):
        data = X.data if factors is None else X.data * factors[X.indices]
        scaled = sparse.csr_array((data, X.indices, X.indptr), shape=X.shape)
        norms = row_norms(scaled, norm)
        data = data / (norms if unit else np.maximum(norms, bound))[owners]
    odd = _odd(norms, bound, unit)[owners]
    if odd.any():
        data[odd] = _clip_entries(
            X.data[odd],
            owners[odd],
            X.shape[0],
            bound,
            None if factors is None else factors[X.indices[odd]],
            norm,
            unit,
        )
    return sparse.csr_array((data, X.indices, X.indptr), shape=X.shape)


def _clip_entries(
    data: Floats,
    owners: NDArray[np.intp],
    n_rows: int,
    bound: float,
    factors: Floats | None,
    norm: Ball,
    unit: bool,
) -> Floats:
    """Clip rows of any size, largest entry first, given entry by entry with the rows' numbers.

    Every sum is taken in the order of the entries: a row's image does not depend on the others.
    """

    def largest(entries: Floats) -> Floats:
        found = np.zeros(n_rows)
        np.maximum.at(found, owners, np.abs(entries))
        return np.where(found > 0, found, 1.0)

    with np.errstate(all="ignore"):
        finite = np.nan_to_num(data, nan=0.0, posinf=_MAX, neginf=-_MAX)
        first = largest(finite)
        entries = finite / first[owners]
        second = np.ones(n_rows)
        if factors is not None:
            entries *= factors
            second = largest(entries)
            entries /= second[owners]
        sizes = np.abs(entries) if norm == "l1" else entries * entries
        lengths = _reach(np.bincount(owners, sizes, minlength=n_rows).astype(np.float64), norm)
        if not unit:
            lengths = np.minimum(lengths, first * (second / bound))
        return np.asarray(entries * lengths[owners])


#: Beyond this many times its bound a row's factor is no number of single precision.
_FAR = 1e30

#: Beyond this length before the factors, sums over stored rows are not safe from overflow.
_LARGE = 1e100

#: Columns with smaller factors are left out of rows that are too large to be scaled.
_FAINT = 1e-200


#: Subsamples with at most this many numbers are copied: 32 MB.
_COPIED = 2**22


class FramedRows(BlockRows, MeasuredRows):
    """Rows of a source, in the unit ball with the constant: what a frame makes of them.

    The bound is on a row's norm after the public factors ``scale``; the engine reads the
    partitions.
    """

    def __init__(
        self,
        X: Any,
        bound: float,
        *,
        scale: Floats | None = None,
        constant: float = 0.0,
        norm: Ball = "l2",
        engine: Engine | None = None,
    ) -> None:
        self.source = as_source(X)
        n, width = self.source.shape
        self.shape = (n, width + (constant > 0))
        self.sparse, self.width = self.source.sparse, self.source.width
        self.engine = engine
        self.steps = coded_steps(width) if isinstance(self.source, Coded) else None
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

    @classmethod
    def inside(cls, source: Coded, constant: float, engine: Engine | None) -> FramedRows:
        """Return coded rows of a body's coordinates as they are."""
        rows = object.__new__(cls)
        rows.source, rows.engine, rows.norm = as_source(source), engine, "l2"
        rows.shape = (len(source), source.shape[1] + (constant != 0))
        rows.width, rows.steps = source.width, coded_steps(source.shape[1])
        rows.factors, rows.constant, rows.shrink = 1.0, constant, None
        rows.odd = np.empty(0, dtype=np.intp)
        rows.corners = [*source.tables, *([np.array([[constant]])] if constant else [])]
        reach = sum(float(np.square(table).sum(axis=1).max()) for table in rows.corners)
        rows.longest = math.sqrt(reach)
        rows.certified = rows.longest <= 1
        return rows

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
            kind = CodedBlock if isinstance(stored, Coded) else Block
            yield kind(stored, shrink, self.factors, self.constant)

    def __getitem__(self, chosen: NDArray[np.intp] | slice) -> FramedRows:
        """Return some of the rows, by their numbers, which grow."""
        if isinstance(chosen, slice):
            chosen = np.arange(*chosen.indices(self.shape[0]))
        some = self._with()
        some.shape = (len(chosen), self.shape[1])
        if len(chosen) * self.width <= _COPIED:
            some.source, some.engine = as_source(self.source.take(chosen)), None
        else:
            some.source = ChosenSource(self.source, chosen)
        some.shrink = None if self.shrink is None else self.shrink[chosen]
        some.odd = np.flatnonzero(np.isin(chosen, self.odd)) if len(self.odd) else self.odd
        return some

    def _with(self, **changed: Any) -> FramedRows:
        other = object.__new__(FramedRows)
        vars(other).update(vars(self) | changed)
        return other

    def columns(self, chosen: NDArray[np.intp], constant: float) -> FramedRows:
        """Return some columns of coded rows, as long as they are there, before a constant."""
        whole: Any = self.source
        source = as_source(whole.read(np.s_[:, chosen]))
        return self._with(
            source=source,
            shape=(self.shape[0], len(chosen) + 1),
            steps=coded_steps(len(chosen)) if isinstance(source, Coded) else None,
            width=source.width,
            constant=constant,
        )

    def __matmul__(self, W: Floats) -> Floats:
        """Return products with weights ``(d, m)``, or with one vector of them."""
        step = (self.steps or (2048, 0))[0]
        parts = [slice(i, min(i + step, len(self))) for i in range(0, len(self), step)]
        weights = np.atleast_2d(W.T)
        found = [block.times(weights).T for block in self.blocks(parts)]
        products = np.concatenate(found) if found else np.empty((0, len(weights)))
        return products if W.ndim == 2 else products[:, 0]

    def __len__(self) -> int:
        return self.shape[0]

    def elsewhere(self, keep: Callable[[Any], Any]) -> FramedRows:
        """Return the same rows with what is long in them kept by ``keep``: in a file, say."""
        moved = self._with()
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
        if isinstance(stored, Coded):
            return stored
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
        block, step = self.steps or (
            block_rows(d, sparse=self.sparse),
            partition_rows(d, sparse=self.sparse),
        )
        source = self.source if self.engine is None else self.engine.keep(self.source)
        task = _Measuring(source, self.scale, self.bound, self.norm, block, step)
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
        norm: Ball,
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
            if isinstance(stored, Coded):
                norms = stored.norms(self.scale, self.norm)
                return norms, np.zeros(len(norms), dtype=np.bool_)
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

        def norms_of(data: Floats, norm: Ball) -> Floats:
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


def _row_norms(X: Floats, norm: Ball) -> Floats:
    if norm == "l1":
        return np.asarray(np.abs(X).sum(axis=1))
    return np.asarray(np.sqrt(np.einsum("ij,ij->i", X, X)))


def rounded_down(values: Floats) -> NDArray[np.float32]:
    """Return positive numbers in single precision, rounded towards zero."""
    single = values.astype(np.float32)
    above = single > values
    single[above] = np.nextafter(single[above], np.float32(0))
    return single


def _tamed(X: Floats, scale: Floats | None, bound: float, norm: Ball) -> Floats:
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


#: Public factors and bounds beyond this are mistakes or attacks.
LARGEST = 1e12

#: What a frame is beside its array.
FACTS = ("n_features", "data_norm", "constant", "norm")


def check_factors(factors: ArrayLike, n_features: int) -> Floats:
    """Return public factors of the columns, or say what is wrong with them."""
    scale = np.asarray(factors, dtype=np.float64)
    if scale.shape != (n_features,) or not np.all((scale >= 0) & (scale <= LARGEST)):
        raise InvalidParameter(
            f"feature_scale must hold one number from 0 to {LARGEST:g} per column."
        )
    return scale


@dataclass(frozen=True, eq=False)
class Frame:
    """From rows as encoded to rows in the unit ball, and from weights there back to coefficients.

    ``data_norm`` is the declared bound on a row's norm after ``feature_scale``, public factors on
    the columns; longer rows are clipped to it. ``constant`` is the public constant inside the bound
    that carries the intercept; 0 for no intercept.
    """

    n_features: int
    data_norm: float = 1.0
    constant: float = 0.4
    feature_scale: Floats | None = None
    norm: Ball = "l2"

    def __post_init__(self) -> None:
        if type(self.n_features) is not int or not 1 <= self.n_features <= 1_000_000:
            raise InvalidParameter("n_features must be a whole number from 1 to a million.")
        if not 1 / LARGEST <= check_bound(self.data_norm, "data_norm") <= LARGEST:
            raise InvalidParameter(f"data_norm must be between {1 / LARGEST:g} and {LARGEST:g}.")
        if isinstance(self.constant, bool) or not 0 <= self.constant < 1:
            raise InvalidParameter("the constant must be at least 0 and below 1.")
        if self.norm not in ("l1", "l2"):
            raise InvalidParameter("norm must be 'l1' or 'l2'.")
        if self.feature_scale is not None:
            object.__setattr__(
                self, "feature_scale", check_factors(self.feature_scale, self.n_features)
            )

    @property
    def size(self) -> int:
        """Number of weights."""
        return self.n_features + (self.constant > 0)

    @property
    def bound(self) -> Norm:
        """The norm in which no row is longer than one."""
        return (L2 if self.norm == "l2" else L1)(self.size)

    @property
    def _factors(self) -> Floats:
        """Public factor from a column to a coordinate of an unclipped row."""
        room = math.sqrt(1 - self.constant**2) if self.norm == "l2" else 1 - self.constant
        factor = room / self.data_norm
        if self.feature_scale is None:
            return np.full(self.n_features, factor)
        return np.asarray(self.feature_scale * factor)

    def rows(self, X: Any) -> Rows:
        """Return the rows that the theorems speak of, whatever the given ones hold.

        CSR rows stay CSR, and codes codes.
        """
        if isinstance(X, Coded):
            return self.lazy(X)
        if X.shape[1:] != (self.n_features,):
            raise InvalidData("X does not have the number of columns that was agreed.")
        return into_ball(
            X,
            self.data_norm,
            factors=self.feature_scale,
            constant=self.constant,
            norm=self.norm,
        )

    def lazy(self, X: Any, engine: Engine | None = None) -> FramedRows:
        """Return the same rows without writing them down: for as many as there are."""
        if X.shape[1:] != (self.n_features,):
            raise InvalidData("X does not have the number of columns that was agreed.")
        return FramedRows(
            X,
            self.data_norm,
            scale=self.feature_scale,
            constant=self.constant,
            norm=self.norm,
            engine=engine,
        )

    def weighted(self, factors: ArrayLike | None) -> tuple[Frame, float]:
        """Return the frame with columns multiplied by public factors; a ball's reach stays one."""
        if factors is None:
            return self, 1.0
        given, scale = np.asarray(factors, dtype=np.float64), self.feature_scale
        return replace(self, feature_scale=given if scale is None else given * scale), 1.0

    def learned_with(self) -> dict[str, Any]:
        """Return what a released model says about the rows that it was learned from."""
        scale = self.feature_scale
        return {
            "data_norm": float(self.data_norm),
            "intercept_scale": float(self.constant) or None,
            "feature_scale": None if scale is None else tuple(scale.tolist()),
        }

    def weights(self, coef: ArrayLike | None, intercept: float = 0.0) -> Floats:
        """Return coefficients and intercept as weights in the unit ball's coordinates."""
        given = np.zeros(self.n_features) if coef is None else np.asarray(coef, dtype=np.float64)
        if given.shape != (self.n_features,) or not np.all(np.isfinite(given)):
            raise InvalidParameter("prior must hold one finite number per column.")
        factors = self._factors
        point = np.divide(given, factors, out=np.zeros(self.n_features), where=factors > 0)
        return np.append(point, intercept / self.constant) if self.constant else point

    def coefficients(self, weights: Floats) -> tuple[Floats, float]:
        """Return weights as coefficients and intercept for rows as encoded."""
        coef = weights[: self.n_features] * self._factors
        return coef, float(weights[-1] * self.constant) if self.constant else 0.0

    def mean_squares(self, columns: ArrayLike | None = None) -> Floats:
        """Return public mean squares of the coordinates from those of the columns as encoded.

        By default as if rows were at the bound, and columns alike before they are scaled.
        """
        if columns is None:
            share = np.square(self._factors)
            share = (1 - self.constant**2) * share / max(float(share.sum()), 1e-300)
        else:
            given = np.asarray(columns, dtype=np.float64)
            if given.shape != (self.n_features,) or not np.all((given >= 0) & (given <= LARGEST)):
                raise InvalidParameter(
                    f"second_moments must hold one number from 0 to {LARGEST:g} per column."
                )
            share = np.square(self._factors) * given
        return np.append(share, self.constant**2) if self.constant else share

    def facts(self) -> dict[str, Any]:
        """Return the plain values, ``feature_scale`` apart, for a message."""
        return {name: getattr(self, name) for name in FACTS}

    def arrays(self) -> dict[str, Floats | None]:
        """Return the array of a message."""
        return {"feature_scale": self.feature_scale}
