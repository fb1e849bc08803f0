"""The closed language in which raw rows become encoded ones, and its one evaluator.

A raw cell becomes basis numbers ``b``: a clipped number or its logarithm, hats over knots, a score,
or ones and zeros. They are centred and scaled, ``(b - centre) / scale``, weighted by importance,
and the row is bounded. There is nothing else that it can say, and all of it is declared. A release
carries it: whoever reads plain JSON can encode a row.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any, Literal, Self, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import ConfigDict, Field

from confrere.arrays import Floats
from confrere.errors import InvalidData, InvalidParameter
from confrere.schema.cells import (
    MISSING,
    MISSING_TEXTS,
    UNKNOWN,
    Series,
    Value,
    read_numbers,
    read_places,
    refuse,
)
from confrere.schema.tables import declared_columns

RowRule: TypeAlias = Literal["clip", "unit"]

_STRICT = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)
_NO_NUMBER = "no number, as is declared; name such texts in na, or declare another kind"
_NO_VALUE = "no value, and the schema does not say what missing means"


@dataclass(frozen=True, kw_only=True)
class RawColumn:
    """What becomes of one raw column.

    Attributes
    ----------
    column : str
        Its name.
    centre, scale : tuple of float
        One of each per basis number.
    present : tuple of float
        What follows them where the cell has a value: the indicator of a missing one, or nothing.
    missing : tuple of float or None
        All encoded numbers of a missing cell; None refuses it.
    """

    __pydantic_config__ = _STRICT

    column: str
    centre: tuple[float, ...]
    scale: tuple[float, ...]
    present: tuple[float, ...] = ()
    missing: tuple[float, ...] | None = None

    @property
    def width(self) -> int:
        """Number of encoded columns."""
        return len(self.centre) + len(self.present)

    @abstractmethod
    def _write(self, values: Series, out: Floats) -> NDArray[np.bool_]:
        """Write scaled basis numbers into the rows of ``out``; return which cells are missing."""

    def write(self, values: Series, out: Floats) -> None:
        """Write one row per encoded column into ``out`` of shape (width, rows)."""
        absent = self._write(values, out)
        for place, number in enumerate(self.present, start=len(self.centre)):
            out[place] = number
        if self.missing is None:
            refuse(self.column, absent, _NO_VALUE)
        elif absent.any():
            out[:, absent] = np.array(self.missing)[:, None]

    def vector(self, value: Value) -> tuple[float, ...]:
        """Return the encoded numbers of one cell."""
        out = np.empty((self.width, 1))
        self.write(pd.Series([value], dtype=object), out)
        return tuple(out[:, 0].tolist())

    def with_missing(self, value: Value | None, share: float | None = None) -> Self:
        """Return the column with its rule for missing cells, as a schema declares it."""
        centre = (0.0,) * len(self.centre)
        if value is None:
            return self
        if value == "center":
            return replace(self, missing=centre)
        if value == "indicator":
            p = 0.5 if share is None else share
            scale = float(np.sqrt(p * (1 - p)))
            return self._indicated((0.0 - p) / scale, (*centre, (1.0 - p) / scale))
        return replace(self, missing=self.vector(value))

    def with_corner(self) -> Self:
        """Return the column with one more number, which is one where the cell is missing."""
        return self._indicated(0.0, (*(0.0,) * len(self.centre), 1.0))

    def _indicated(self, present: float, missing: tuple[float, ...]) -> Self:
        return replace(self, present=(present,), missing=missing)


@dataclass(frozen=True, kw_only=True)
class NumberColumn(RawColumn):
    """A number ``u = clip(x, *clip)``, or ``log(1 + u - clip[0])``; with knots, its hats.

    Hat ``j`` is 1 at knot ``j``, 0 at the others, linear between, constant beyond the outermost.

    Attributes
    ----------
    na : tuple of str, int or float
        Cells that mean missing, beside those that always do.
    clip : pair of float
    log : bool
    knots : tuple of float
        Increasing, on the scale of the logarithm if there is one; without any, ``u`` itself.
    """

    kind: Literal["number"] = "number"
    na: tuple[str | int | float, ...] = ()
    clip: tuple[float, float]
    log: bool = False
    knots: tuple[float, ...] = ()

    def _write(self, values: Series, out: Floats) -> NDArray[np.bool_]:
        u, absent = self.places(values)
        basis = self._hats(u) if self.knots else iter((u,))
        for row, b, centre, scale in zip(out, basis, self.centre, self.scale, strict=False):
            np.divide(b - centre, scale, out=row)
        return absent

    def places(self, values: Series) -> tuple[Floats, NDArray[np.bool_]]:
        """Return ``u`` of every cell, on the scale of the logarithm, and which are missing."""
        x, strange = read_numbers(self.column, values, self.na)
        refuse(self.column, strange, _NO_NUMBER)
        u = np.clip(x, *self.clip)
        return np.log1p(u - self.clip[0]) if self.log else u, np.asarray(np.isnan(x))

    def _hats(self, u: Floats) -> Iterator[Floats]:
        knots = self.knots
        for j, knot in enumerate(knots):
            hat = np.ones_like(u)
            if j > 0:
                np.minimum(hat, (u - knots[j - 1]) / (knot - knots[j - 1]), out=hat)
            if j + 1 < len(knots):
                np.minimum(hat, (knots[j + 1] - u) / (knots[j + 1] - knot), out=hat)
            yield np.maximum(hat, 0.0)


@dataclass(frozen=True, kw_only=True)
class TextColumn(RawColumn):
    """A column whose cells are looked up by their text.

    Attributes
    ----------
    codes : mapping of str to int
        The place of every text that has a meaning; -1 means missing.
    unknown : tuple of float or None
        All encoded numbers of any other cell; None refuses it.
    """

    codes: dict[str, int]
    unknown: tuple[float, ...] | None = None

    def _indicated(self, present: float, missing: tuple[float, ...]) -> Self:
        unknown = None if self.unknown is None else (*self.unknown, present)
        return replace(super()._indicated(present, missing), unknown=unknown)

    @abstractmethod
    def _basis(self) -> Iterator[Floats]:
        """Return, for each encoded column, the number of every place."""

    def _write(self, values: Series, out: Floats) -> NDArray[np.bool_]:
        places = read_places(self.column, values, self.codes)
        absent, unknown = places == MISSING, places == UNKNOWN
        if self.unknown is None:
            refuse(self.column, unknown, "a value that is not declared")
        else:
            places[unknown] = 0
        places[absent] = 0
        for row, basis, centre, scale in zip(
            out, self._basis(), self.centre, self.scale, strict=False
        ):
            # "raise" would copy through a buffer
            np.take((basis - centre) / scale, places, out=row, mode="wrap")
        if self.unknown is not None and unknown.any():
            own = len(self.centre)
            out[:own, unknown] = np.array(self.unknown[:own])[:, None]
        return np.asarray(absent)


@dataclass(frozen=True, kw_only=True)
class ScoreColumn(TextColumn):
    """A text becomes the score of its place: an ordered level, or yes and no."""

    kind: Literal["score"] = "score"
    scores: tuple[float, ...]

    def _basis(self) -> Iterator[Floats]:
        yield np.array(self.scores)


@dataclass(frozen=True, kw_only=True)
class OneHotColumn(TextColumn):
    """A text becomes one at its place and zero elsewhere."""

    kind: Literal["one-hot"] = "one-hot"

    def _basis(self) -> Iterator[Floats]:
        yield from np.eye(len(self.centre))


AnyColumn: TypeAlias = Annotated[
    NumberColumn | ScoreColumn | OneHotColumn, Field(discriminator="kind")
]


@dataclass(frozen=True, kw_only=True)
class Encoding:
    """From raw rows to bounded ones.

    Attributes
    ----------
    columns : tuple of NumberColumn, ScoreColumn and OneHotColumn
        In the order of the encoded columns.
    na : tuple of str
        Texts that mean missing in every column, for readers without this library.
    weights : tuple of float or None
        Factors on the encoded columns.
    rows : {"clip", "unit"}
        ``"clip"``: a row is divided by ``norm``, or by its own Euclidean norm if that is larger.
        ``"unit"``: by its own norm; a row of zeros stays so.
    norm : float
        The public norm of ``"clip"``.
    """

    __pydantic_config__ = _STRICT

    columns: tuple[AnyColumn, ...]
    na: tuple[str, ...] = MISSING_TEXTS
    weights: tuple[float, ...] | None = None
    rows: RowRule = "clip"
    norm: float = 1.0

    @property
    def width(self) -> int:
        """Number of encoded columns."""
        return sum(column.width for column in self.columns)

    def standardised(self, X: Any) -> Floats:
        """Return centred and scaled columns, shape (encoded columns, rows), before any bound.

        Raises
        ------
        InvalidData
            Naming every column in which something is wrong, and never a value.
        """
        table = declared_columns(X, [column.column for column in self.columns])
        out = np.empty((self.width, len(table)))
        start = 0
        problems = []
        for column in self.columns:
            stop = start + column.width
            try:
                column.write(table[column.column], out[start:stop])
            except InvalidData as problem:
                problems.append(str(problem))
            start = stop
        if problems:
            raise InvalidData("\n".join(problems))
        return out

    def transform(self, X: Any, dtype: Any = np.float64) -> NDArray[Any]:
        """Return rows of Euclidean norm at most 1, shape (rows, encoded columns)."""
        columns = self.standardised(X)
        if self.weights is not None:
            columns *= np.array(self.weights)[:, None]
        return bounded_rows(columns, self.rows, self.norm, dtype)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)


def check_rows(rows: object) -> None:
    """Refuse what is not a way to bound rows."""
    if rows not in ("clip", "unit"):
        raise InvalidParameter('rows must be "clip" or "unit".')


def check_clip_norm(clip_norm: object) -> float | Literal["rms"]:
    """Return a norm above zero, or ``"rms"``."""
    if isinstance(clip_norm, str) and clip_norm == "rms":
        return "rms"
    if isinstance(clip_norm, bool) or not isinstance(clip_norm, int | float | np.number):
        raise InvalidParameter('clip_norm must be a number > 0 or "rms".')
    number = float(clip_norm)
    if not 0 < number < np.inf:
        raise InvalidParameter('clip_norm must be a finite number > 0 or "rms".')
    return number


def check_dtype(dtype: Any) -> np.dtype[Any]:
    """Return the type of the encoded numbers, float64 or float32."""
    try:
        found: np.dtype[Any] = np.dtype(dtype)
    except TypeError:
        raise InvalidParameter("dtype must be float64 or float32.") from None
    if found not in (np.dtype(np.float64), np.dtype(np.float32)):
        raise InvalidParameter("dtype must be float64 or float32.")
    return found


def bounded_rows(
    columns: Floats, rows: RowRule, clip_norm: float, dtype: Any = np.float64
) -> NDArray[Any]:
    """Return the table whose transpose is ``columns``, every row of norm at most 1.

    ``"clip"``: a row is divided by ``clip_norm``, then shrunk to norm 1 if it is longer.
    ``"unit"``: a row is divided by its norm; a row of zeros stays so.

    The bound holds in floating point: rows that touch it are shorter by a few roundings. Only
    operations on single entries are used, so a row's result does not depend on its neighbours,
    to the last bit. ``columns`` is overwritten.
    """
    check_rows(rows)
    kind = check_dtype(dtype)
    margin = 1 + (len(columns) + 8) * float(np.finfo(kind).eps)
    # Dividing by the largest entry first keeps squares from overflowing or vanishing.
    peaks = np.zeros(columns.shape[1])
    for column in columns:
        np.maximum(peaks, np.abs(column), out=peaks)
    peaks[peaks == 0] = 1.0
    squares = np.zeros_like(peaks)
    for column in columns:
        share = column / peaks
        squares += share * share
    lengths = np.sqrt(squares) * margin
    if rows == "unit":
        lengths[lengths == 0] = 1.0
        columns /= peaks
        columns /= lengths
    else:
        columns /= np.maximum(peaks * lengths, clip_norm)
    return np.ascontiguousarray(columns.T, dtype=kind)
