"""Raw rows become encoded ones by declared facts alone: nothing is learned, each row by itself.

There is one closed language for it, and one evaluator. A raw cell becomes basis numbers ``b``: a
clipped number or its logarithm, hats over knots, a score, or ones and zeros. They are centred and
scaled, ``(b - centre) / scale``, weighted by importance, and the row is bounded: what the
mechanisms' sensitivity rests on. There is nothing else that it can say, and all of it is declared.
A release carries it: whoever reads plain JSON can encode a row. Where noise is shaped like the
rows, columns are intervals, corners, or hats that make a curve.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, TypeAlias, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import ConfigDict, Field
from sklearn.base import BaseEstimator, TransformerMixin

from confrere.arrays import Floats
from confrere.errors import InvalidData, InvalidParameter, SchemaError
from confrere.schema.cells import (
    MISSING,
    MISSING_TEXTS,
    UNKNOWN,
    Series,
    Value,
    column_names,
    declared_columns,
    is_table,
    read_numbers,
    read_places,
    refuse,
)

if TYPE_CHECKING:
    from confrere.schema.public_schema import PublicSchema


#: Hats of a curve whose knots are not declared, and the most that may be declared.
HATS, MOST_HATS = 8, 64

#: Beyond so many standard deviations a straight line is bent to a constant: noise is as long as the
#: longest rows, so what is rare is cut off for what is common.
REACH = 1.5

#: How many standard deviations the knots of a curve reach.
KNOTS_REACH = 2.5

#: Mean square of a number between -1 and 1: uniform between bounds, and about the same where it is
#: cut at :data:`REACH` standard deviations.
SPREAD = 1 / 3

#: A scale is longer by this share, so that rounding keeps numbers within one.
HAIR = 1e-12

#: Whether a number is a curve: by the public rule, yes, no, or with these knots.
Curve: TypeAlias = bool | Literal["auto"] | tuple[float, ...]


@dataclass(frozen=True, slots=True)
class BodyBlock:
    """The encoded columns of one raw column, where noise is shaped like the rows.

    Attributes
    ----------
    size : int
        How many there are; magnitudes add up to one at most.
    kind : {"number", "flag", "category", "curve"}
        What they come from.
    spread : float
        Mean square of one of them, as the declared facts imply it.
    line : tuple of float, default=()
        Where the first ones are neighbouring hats of a curve: what a straight line is at their
        knots, from -1 to 1.
    known : bool, default=False
        Whether the mean and the deviation of a curve's number are declared.
    """

    size: int
    kind: Literal["number", "flag", "category", "curve"]
    spread: float
    line: tuple[float, ...] = ()
    known: bool = False

    @property
    def smooth(self) -> int:
        """How many of the first ones are hats."""
        return len(self.line)


def checked_curve(curve: object, bounds: tuple[float, float]) -> Curve:
    """Return what was declared of a number's curve.

    Raises
    ------
    ValueError
        Saying what it must be.
    """
    if isinstance(curve, bool) or (isinstance(curve, str) and curve == "auto"):
        return curve  # type: ignore[return-value]
    if isinstance(curve, str) or not isinstance(curve, Sequence | np.ndarray):
        raise ValueError('curve must be true, false, "auto" or a list of knots')
    numbers = [
        float(knot) if isinstance(knot, int | float | np.number) else math.nan for knot in curve
    ]
    inside = all(bounds[0] <= knot <= bounds[1] for knot in numbers)
    if not 2 <= len(numbers) <= MOST_HATS or not inside or any(np.diff(numbers) <= 0):
        raise ValueError(
            f"the knots of a curve must be 2 to {MOST_HATS} increasing numbers within the bounds"
        )
    return tuple(numbers)


def checked_quantiles(quantiles: object, bounds: tuple[float, float]) -> tuple[float, ...]:
    """Return quantiles from bound to bound.

    Raises
    ------
    ValueError
        Saying what they must be.
    """
    try:
        found = checked_curve(quantiles, bounds)
    except ValueError:
        found = False
    if not isinstance(found, tuple) or len(found) < 3 or (found[0], found[-1]) != bounds:
        raise ValueError(
            f"quantiles must be 3 to {MOST_HATS} increasing numbers, from the lower bound to the "
            "upper one"
        )
    return found


def count_hats(lo: float, hi: float) -> int:
    """Return how many hats a curve has between bounds: eight, or one per whole number."""
    if not (lo.is_integer() and hi.is_integer()):
        return HATS
    # Between 0 and 1 there are rates, not two whole numbers.
    whole = int(min(HATS, hi - lo + 1))
    return HATS if whole < 3 else whole


def line_at(
    places: tuple[float, ...], middle: float, top: float, bottom: float
) -> tuple[float, ...]:
    """Return what a straight line around a middle is at knots, cut where a line is cut.

    Knots that nobody expected may lie all on one side: then from the first of them to the last.
    """
    cut = np.clip(places, bottom, top)
    if not cut[0] < cut[-1]:
        cut, middle = np.array(places), (places[0] + places[-1]) / 2
    return tuple(((cut - middle) / np.abs(cut - middle).max()).tolist())


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


#: How columns are encoded: for a ball, or for a body, with straight lines or with curves.
Form: TypeAlias = Literal["standardised", "linear", "curves"]


def body_norm(n_columns: int) -> float:
    """Return a power of two that no row in a body of so many raw columns is longer than.

    Dividing by it changes no digit.
    """
    return 2.0 ** math.ceil(math.log2(1.01 * math.sqrt(n_columns)))


def standardised_columns(schema: PublicSchema, X: Any) -> NDArray[np.float64]:
    """Return the centred and scaled columns, shape (encoded columns, rows), before any bound."""
    columns = tuple(feature.compiled() for feature in schema.features)
    return Encoding(columns=columns).standardised(X)


def refuse_extra(schema: PublicSchema, X: Any) -> None:
    """Refuse a table with columns that are neither declared nor the label."""
    declared = {*schema.columns} | ({schema.outcome.column} if schema.outcome else set())
    count = len([c for c in column_names(X) if c not in declared]) if is_table(X) else 0
    if count:
        raise InvalidData(f"X has {count} columns that are not declared; drop them.")


class SchemaEncoder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Turn a table into rows of norm at most 1 by the facts of a public schema.

    Values are clipped to declared bounds, centred and scaled by public facts, weighted by
    importance if asked, and every row is bounded by itself. ``fit`` learns nothing: the same row
    maps to the same numbers, to the last bit, whatever else is in the table.

    Parameters
    ----------
    schema : PublicSchema
        The declared facts.
    weighted : bool, default=False
        Multiply each encoded column by its importance. Importances are scaled so that the
        root-mean-square norm that the schema implies is the same with and without them: only
        their ratios matter, and one ``clip_norm`` serves both.
    power : float, default=1.0
        Importances are raised to this power first; 0 weighs all columns alike.
    rows : {"clip", "unit"}, default="clip"
        ``"clip"``: divide by ``clip_norm``, then shrink what is still longer than 1.
        ``"unit"``: give every row norm 1; rows of zeros stay so.
    clip_norm : float or "rms", optional
        Public norm beyond which rows are shrunk; the schema's own unless given.
    extra : {"ignore", "refuse"}, default="ignore"
        What to do with columns of a data frame that are not declared.
    form : {"standardised", "linear", "curves"}, default="standardised"
        ``"linear"`` and ``"curves"`` are for noise that is shaped like the rows: numbers lie in an
        interval, or become hats, and of a category's columns one is one. The whole row is divided
        by a power of two, so that its norm is at most 1.
    dtype : dtype, default=float64
        float64 or float32.

    Notes
    -----
    An array is accepted instead of a data frame if its columns are the declared ones in order.
    """

    def __init__(
        self,
        schema: PublicSchema,
        *,
        weighted: bool = False,
        power: float = 1.0,
        rows: RowRule = "clip",
        clip_norm: float | Literal["rms"] | None = None,
        extra: Literal["ignore", "refuse"] = "ignore",
        form: Form = "standardised",
        dtype: Any = np.float64,
    ) -> None:
        self.schema = schema
        self.weighted = weighted
        self.power = power
        self.rows = rows
        self.clip_norm = clip_norm
        self.extra = extra
        self.form = form
        self.dtype = dtype

    def fit(self, X: Any = None, y: Any = None) -> Self:  # noqa: ARG002
        """Do nothing: all there is to know is declared."""
        return self

    def transform(self, X: Any) -> NDArray[Any]:
        """Encode a table.

        Parameters
        ----------
        X : table of pandas, polars or pyarrow, or array of shape (rows, declared columns)
            The raw table.

        Returns
        -------
        array of shape (rows, encoded columns)
            Every row has Euclidean norm at most 1.
        """
        encoding = self.encoding()
        if self.extra not in ("ignore", "refuse"):
            raise InvalidParameter('extra must be "ignore" or "refuse".')
        if self.extra == "refuse":
            refuse_extra(self.schema, X)
        return encoding.transform(X, self.dtype)

    def encoding(self) -> Encoding:
        """Return the same map in the closed language that a release carries."""
        check_rows(self.rows)
        if self.shaped:
            curves = self.form == "curves"
            columns = tuple(feature.in_body(curves)[0] for feature in self.schema.features)
            return Encoding(columns=columns, rows="clip", norm=body_norm(len(columns)))
        return Encoding(
            columns=tuple(feature.compiled() for feature in self.schema.features),
            weights=tuple(self.multipliers().tolist()) if self.weighted else None,
            rows=self.rows,
            norm=self._clip_norm(),
        )

    def expert_direction(self) -> NDArray[np.float64]:
        """Return the unit vector along which encoded rows follow the experts' expectation.

        Before rows are bounded, ``X @ expert_direction()`` ranks as ``schema.expert_score`` does.
        """
        multipliers = self.multipliers()
        useful = multipliers > 0
        direction = np.zeros_like(multipliers)
        np.divide(self.schema.expert_weights(), multipliers, out=direction, where=useful)
        unit: NDArray[np.float64] = direction / np.linalg.norm(direction)
        return unit

    def expert_prior(self) -> NDArray[np.float64]:
        """Return the experts' log odds per unit of each encoded column.

        If columns were independent, the log odds of rows that are not shrunk would have deviation
        one.
        """
        if self.shaped:
            raise InvalidParameter("form: experts speak of standardised columns.")
        weights = self.schema.expert_weights()
        deviation = float(np.sqrt(weights**2 @ self.schema.variances()))
        norm = self.schema.rms_norm if self.rows == "unit" else self._clip_norm()
        multipliers = self.multipliers()
        prior = np.zeros_like(multipliers)
        np.divide(norm / deviation * weights, multipliers, out=prior, where=multipliers > 0)
        return prior

    def mean_squares(self) -> NDArray[np.float64]:
        """Return the mean square of every encoded column that the declared facts imply.

        As if no row were shrunk beyond what the typical one is.
        """
        if self.shaped:
            spreads = [np.full(block.size, block.spread) for block in self.blocks()]
            return np.asarray(np.concatenate(spreads) / self.encoding().norm ** 2)
        squares: NDArray[np.float64] = self.multipliers() ** 2 * self.schema.variances()
        norm = self.schema.rms_norm if self.rows == "unit" else self._clip_norm()
        return squares / norm**2

    @property
    def shaped(self) -> bool:
        """Whether rows lie in a body that the schema declares, and not only in a ball."""
        if self.form not in get_args(Form):
            raise InvalidParameter(f"form must be one of {', '.join(map(repr, get_args(Form)))}.")
        if self.form == "standardised":
            return False
        if self.weighted or self.rows != "clip":
            raise InvalidParameter("form: rows in a body are neither weighted nor brought to 1.")
        return True

    def blocks(self) -> tuple[BodyBlock, ...]:
        """Return what rows in a body consist of, one block per raw column."""
        if not self.shaped:
            raise InvalidParameter('form must be "linear" or "curves" for rows in a body.')
        return tuple(f.in_body(self.form == "curves")[1] for f in self.schema.features)

    def score_moments(
        self, coef: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the means of scores of rows in a body, and how they load on what varies there.

        As the declared facts imply them, if raw columns were independent, and values of a category
        and knots of a curve equally frequent. Unlike standardised columns these are not centred.
        ``coef`` has one row per score; scores are ``loads @ z`` for ``z`` of deviation one.
        """
        means = np.zeros(len(coef))
        loads = []
        begin = 0
        for block in self.blocks():
            part = coef[:, begin : begin + block.size]
            begin += block.size
            if block.kind in ("number", "flag"):
                loads.append(math.sqrt(block.spread) * part)
                continue
            corners = part[:, : block.smooth or block.size]
            means += corners.mean(axis=1)
            centred = corners - corners.mean(axis=1, keepdims=True)
            loads.append(centred / math.sqrt(corners.shape[1]))
        norm = self.encoding().norm
        return means / norm, np.hstack(loads) / norm

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the encoded columns."""
        if not self.shaped:
            return self.schema.feature_names
        curves = self.form == "curves"
        return tuple(name for f in self.schema.features for name in f.body_names(curves))

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:  # noqa: ARG002
        """Return the names of the encoded columns."""
        return np.array(self.names, dtype=object)

    @property
    def n_features_in_(self) -> int:
        """Number of declared columns."""
        return len(self.schema.columns)

    @property
    def feature_names_in_(self) -> NDArray[np.object_]:
        """Names of the declared columns."""
        return np.array(self.schema.columns, dtype=object)

    def _clip_norm(self) -> float:
        asked = self.schema.clip_norm if self.clip_norm is None else self.clip_norm
        norm = check_clip_norm(asked)
        return self.schema.rms_norm if norm == "rms" else norm

    def multipliers(self) -> NDArray[np.float64]:
        """Return the factor of every encoded column: ones unless columns are weighted."""
        variances = self.schema.variances()
        if not self.weighted:
            return np.ones_like(variances)
        if not self.schema.has_importances:
            raise SchemaError("weighted=True needs a schema that declares importances.")
        if not 0 <= self.power < np.inf:
            raise InvalidParameter("power must be a finite number >= 0.")
        importances = self.schema.importances()
        weights: NDArray[np.float64] = (importances / importances.max()) ** self.power
        scaled: NDArray[np.float64] = weights * np.sqrt(variances.sum() / (weights**2 @ variances))
        return scaled

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.input_tags.allow_nan = any(f.missing is not None for f in self.schema.features)
        return tags
