r"""The public coordinates that all parties compute in, and the one map from any row into them.

Proof: docs/proofs/rows.md.

What is stored, an array, a memory map, CSR or codes, is read again at every pass over the data,
block by block, so nothing is copied whole. A row of the theorems is ``(sigma_i * f * z_i, c)``,
for a stored ``z_i``, public factors ``f``, and one factor per row, rounded towards zero where it is
in single precision. The map is total (NaN reads as 0, an infinity as the largest double), no row's
image depends on another row, and a margin that is more than all rounding keeps it inside.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from confrere.arrays import Floats
from confrere.data.codes import FEW, Coded
from confrere.errors import InvalidData, InvalidParameter
from confrere.kernel.guarantee import check_bound
from confrere.kernel.norms import L1, L2, Ball, MeasuredRows, Norm, rounding_margin, row_norms
from confrere.solver.row_blocks import BlockRows, Buffer, Engine, csr_view

Rows: TypeAlias = "NDArray[np.float64] | sparse.csr_array | BoundedRows"


def coded_steps(d: int) -> tuple[int, int]:
    """Return how many coded rows make a block and a partition; see the certificate."""
    return 2048 * max(1, min(8, 1024 // d)), 2**20


#: Beyond this many times its bound a row's factor is no number of single precision.
_FAR = 1e30

#: Between these lengths before the factors, sums over stored rows neither overflow nor vanish.
_SMALL, _LARGE = 1e-100, 1e100

#: Columns with smaller factors are left out of rows that are too large to be scaled.
_FAINT = 1e-200

_MAX = float(np.finfo(np.float64).max)


@final
class BoundedRows(BlockRows, MeasuredRows):
    """Rows in the unit ball with the constant: what a frame makes of those that are stored.

    The bound is on a row's norm after the public factors ``scale``; with ``unit`` short rows get
    its length too, and rows of zeros stay. Factors of rows are in ``single`` precision, or double.
    The engine reads the partitions.
    """

    def __init__(
        self,
        X: Any,
        bound: float,
        *,
        scale: Floats | None = None,
        constant: float = 0.0,
        norm: Ball = "l2",
        unit: bool = False,
        single: bool = False,
        engine: Engine | None = None,
    ) -> None:
        super().__init__(X.toarray() if isinstance(X, Coded) and len(X) < FEW else X)
        if isinstance(self.X, np.ndarray) and self.X.dtype not in (np.float64, np.float32):
            self.X = np.asarray(self.X, dtype=np.float64)
        n, width = self.shape
        self.shape = (n, width + (constant > 0))
        self.engine = engine
        self.steps = coded_steps(width) if isinstance(self.X, Coded) else None
        self.bound, self.scale, self.norm, self.unit = bound, scale, norm, unit
        inside = 1 - rounding_margin(self.shape[1])
        room = math.sqrt(1 - constant**2) if norm == "l2" else 1 - constant
        self._base = inside * room / bound
        self.factors = self._base if scale is None else self._base * scale
        self.constant = inside * constant
        #: The numbers of rows that are too large, or not numbers, and stand for others.
        self.odd: NDArray[np.intp] = np.empty(0, dtype=np.intp)
        inner = self._base * self._measure(np.float32 if single else np.float64)
        self._certify(math.hypot(inner, self.constant) if norm == "l2" else inner + self.constant)

    @classmethod
    def inside(
        cls, X: Coded | Floats, norm: Ball, constant: float = 0.0, engine: Engine | None = None
    ) -> BoundedRows:
        """Return rows of a body's coordinates as they are: of codes, their vertices are bounded."""
        rows = object.__new__(cls)
        # With factors of their own, rows may be longer than their vertices.
        BlockRows.__init__(rows, X if getattr(X, "shrink", None) is None else np.asarray(X))
        rows.shape, rows.odd = (len(X), X.shape[1] + (constant != 0)), np.empty(0, dtype=np.intp)
        rows.engine, rows.norm, rows.constant = engine, norm, constant
        if isinstance(rows.X, Coded):
            rows.steps = coded_steps(X.shape[1])
            rows.corners = [*rows.X.tables, *([np.array([[constant]])] if constant else [])]
            lengths = [float(row_norms(table, norm).max()) for table in rows.corners]
        else:
            lengths = [float(row_norms(rows.X, norm).max(initial=0.0)), constant]
        rows._certify(sum(lengths) if norm == "l1" else math.hypot(*lengths))
        return rows

    def __setattr__(self, name: str, value: object) -> None:
        if "longest" in vars(self):
            raise AttributeError(f"{name}: rows stay as they were measured.")
        super().__setattr__(name, value)

    def _certify(self, longest: float) -> None:
        self.certified = longest <= 1
        self.longest = longest

    @property
    def dtype(self) -> np.dtype[np.float64]:
        """Rows are doubles when they are read."""
        return np.dtype(np.float64)

    def columns(self, chosen: NDArray[np.intp], constant: float) -> BoundedRows:
        """Return some columns of rows that have no factors on them, before a smaller constant."""
        if self.scale is not None or not 0 <= constant <= self.constant:
            raise InvalidParameter("these rows were measured with other factors and constants.")
        # Odd rows are replaced as a whole.
        whole = self.stored(slice(0, len(self)), Buffer()) if len(self.odd) else self.X
        some = vars(BlockRows(whole[:, chosen])) | {"shape": (len(self), len(chosen) + 1)}
        steps = coded_steps(len(chosen)) if isinstance(some["X"], Coded) else None
        return self._with(**some, constant=constant, odd=self.odd[:0], steps=steps)

    def __getitem__(self, chosen: NDArray[np.intp] | slice) -> BoundedRows:
        some = super().__getitem__(chosen)
        changed: dict[str, Any] = {}
        if isinstance(some.X, Coded) and len(some) < FEW:
            # The certificate counts on it: sums of so few codes have more roundings.
            few = some.X if some.chosen is None else some.X[some.chosen]
            X = few.toarray()
            changed |= {"X": X, "chosen": None, "steps": None, "width": X.shape[1]}
        if len(self.odd):
            odd = np.isin(np.arange(len(self))[chosen], self.odd)
            changed["odd"] = np.flatnonzero(odd)
        return self._with(**vars(some) | changed)

    def stored(self, part: slice, buffer: Buffer) -> Any:
        """Return stored rows, those that are too large replaced."""
        found = super().stored(part, buffer)
        first, last = np.searchsorted(self.odd, [part.start, part.stop])
        if first == last:
            return found
        odd = self.odd[first:last] - part.start
        if isinstance(found, np.ndarray):
            rows = found.copy()
            rows[odd] = self._tamed(rows[odd], self.scale)
            return rows
        data = found.data.copy()
        for row in odd:
            entries = slice(found.indptr[row], found.indptr[row + 1])
            scale = None if self.scale is None else self.scale[found.indices[entries]]
            data[entries] = self._tamed(data[entries][None], scale)[0]
        return csr_view(data, found.indices, found.indptr, found.shape)

    def _tamed(self, X: Floats, scale: Floats | None) -> Floats:
        """Return rows of any size, so that after the factors they are no longer than the bound.

        NaN reads as 0 and an infinity as the largest double. A row's image depends on it alone.
        """
        with np.errstate(all="ignore"):
            finite = np.nan_to_num(X, nan=0.0, posinf=_MAX, neginf=-_MAX)
            if scale is not None:
                finite = np.where(scale < _FAINT, 0.0, finite)
            first = _largest(finite)
            entries = finite / first
            scaled = entries if scale is None else entries * scale
            second = _largest(scaled)
            norms = row_norms(scaled / second, self.norm)[:, None]
            lengths = self.bound / np.maximum(norms, 1.0)
            if not self.unit:
                lengths = np.minimum(lengths, first * second)
            return np.asarray(entries / second * lengths)

    def _measure(self, precision: type[np.floating[Any]]) -> float:
        """Find the rows' factors and which rows are odd; return how long a row is, factors left."""
        (block, step), n = self.layout, self.shape[0]
        # What an engine keeps never changes.
        rows = self if self.engine is None else self.engine.keep(self._with(engine=None))
        task = _Measuring(rows, precision, block, step)
        parts = range(math.ceil(n / step))
        found = map(task, parts) if self.engine is None else self.engine.map(task, parts)
        odd, most = [self.odd], 0.0
        for number, (shrink, rows, longest) in enumerate(found):
            first = number * step
            if len(shrink):
                if self.shrink is None:
                    self.shrink = np.ones(n, dtype=precision)
                self.shrink[first : first + step] = shrink
            odd.append(rows.astype(np.intp) + first)
            most = max(most, float(longest))
        self.odd = np.concatenate(odd)
        return most


@dataclass(frozen=True, eq=False)
class _Measuring:
    """The factors of one partition's rows, the numbers of its odd rows, and the longest row."""

    rows: BoundedRows
    precision: type[np.floating[Any]]
    block: int
    partition: int

    def __call__(self, number: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """Return them for partition ``number``; no factors if all are one."""
        rows, bound, block = self.rows, self.rows.bound, self.block
        first = number * self.partition
        last = min(first + self.partition, rows.shape[0])
        shrink = np.ones(last - first, dtype=self.precision)
        odd = []
        longest, clipped = 0.0, False
        buffer, room = Buffer(), Buffer()
        for start in range(first, last, block):
            part = slice(start, min(start + block, last))
            norms, strange = self._norms(BlockRows.stored(rows, part, buffer), room)
            mine = shrink[start - first : start - first + len(norms)]
            if strange.any():
                norms[strange] = bound  # what stands for such a row is no longer
                odd.append(np.flatnonzero(strange) + (start - first))
            if rows.unit or (len(norms) and norms.max() > bound):
                clipped = True
                factors = bound / (norms if rows.unit else np.maximum(norms, bound))
                mine[:] = rounded_down(factors) if self.precision == np.float32 else factors
                norms *= mine
            longest = max(longest, float(norms.max(initial=0.0)))
        found = np.concatenate(odd) if odd else np.empty(0, dtype=np.int64)
        return shrink if clipped else shrink[:0], found, np.array(longest)

    def _norms(self, stored: Any, room: Buffer) -> tuple[Floats, NDArray[np.bool_]]:
        """Return the norms after the scale, and which rows have none that can be used."""
        rows, scale = self.rows, self.rows.scale
        smallest = _SMALL if rows.unit else 0.0
        with np.errstate(all="ignore"):
            if isinstance(stored, Coded):
                norms = stored.norms(scale, rows.norm)
                return np.where(norms < smallest, rows.bound, norms), norms < 0  # zeros stay
            scaled = stored
            if scale is not None and isinstance(stored, np.ndarray):
                scaled = np.multiply(stored, scale, out=room.room(*stored.shape))
            elif scale is not None:
                data = stored.data * scale[stored.indices]
                scaled = csr_view(data, stored.indices, stored.indptr, stored.shape)
            norms = row_norms(scaled, rows.norm)
            fine = (norms <= _FAR * rows.bound) & (norms >= smallest)
            if scale is not None:
                fine &= row_norms(stored) <= _LARGE
            return norms, ~fine


def into_ball(X: Any, bound: float = 1.0, **how: Any) -> Floats:
    """Return every row's image in the unit ball, written down; see :class:`BoundedRows`."""
    return BoundedRows(X, bound, **how).written()


def rounded_down(values: Floats) -> NDArray[np.float32]:
    """Return positive numbers in single precision, rounded towards zero."""
    single = values.astype(np.float32)
    above = single > values
    single[above] = np.nextafter(single[above], np.float32(0))
    return single


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

    def rows(self, X: Any, engine: Engine | None = None, *, single: bool = False) -> BoundedRows:
        """Return the rows that the theorems speak of, whatever the given ones hold."""
        if X.shape[1:] != (self.n_features,):
            raise InvalidData("X does not have the number of columns that was agreed.")
        return BoundedRows(
            X,
            self.data_norm,
            scale=self.feature_scale,
            constant=self.constant,
            norm=self.norm,
            single=single,
            engine=engine,
        )

    def lazy(self, X: Any, engine: Engine | None = None) -> BoundedRows:
        """Return the same rows with factors of single precision: for as many as there are."""
        return self.rows(X, engine, single=True)

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
