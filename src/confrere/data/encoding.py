"""Raw rows become encoded ones by declared facts alone: nothing is learned, each row by itself.

There is one closed language for it, and one evaluator. A raw cell is one of its column's
*vertices*: a declared value, no value, any other one, or of a number the nearest point of a public
grid; which one, hangs on the declared column alone. A vertex has basis numbers ``b``: a clipped
number or its logarithm, hats over knots, a score, or ones and zeros. They are centred and scaled,
``(b - centre) / scale``, weighted by importance, and the row is bounded: what the mechanisms'
sensitivity rests on. There is nothing else that it can say, and all of it is declared. A release
carries it: whoever reads plain JSON can encode a row. Where noise is shaped like the rows, columns
are intervals, corners, or hats that make a curve.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, TypeAlias, TypeVar, cast, get_args

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, Field
from sklearn.base import BaseEstimator, TransformerMixin

from confrere.arrays import Floats
from confrere.data.cells import (
    MISSING,
    MISSING_TEXTS,
    UNKNOWN,
    Cells,
    Value,
    as_cells,
    declared_columns,
    read_numbers,
    read_places,
    refuse,
)
from confrere.data.codes import Coded, PackedCodes, stored
from confrere.errors import InvalidData, InvalidParameter, SchemaError

if TYPE_CHECKING:
    from confrere.data.schema import PublicSchema


_Rule = TypeVar("_Rule", bound=Callable[..., Any])


def once(rule: _Rule) -> _Rule:
    """Remember what a rule says, on the object itself: an equal one may mean other texts."""

    @wraps(rule)
    def asked(about: Any, *facts: object, **named: object) -> object:
        known = about.__dict__.setdefault("_said", {})
        key = (rule.__qualname__, facts, *sorted(named.items()))
        if key not in known:
            known[key] = rule(about, *facts, **named)
        return known[key]

    return cast(_Rule, asked)


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

#: Points of a number's grid; between whole bounds so many steps at most, of which a declared
#: deviation has as many at least.
POINTS, WHOLE, FINE = 1024, 1000, 32

#: A scale is longer by this share, so that rounding keeps numbers within one.
HAIR = 1e-12

#: Whether a number is a curve: by the public rule, yes, no, or with these knots.
Curve: TypeAlias = bool | Literal["auto"] | tuple[float, ...]


@dataclass(frozen=True, slots=True)
class BodyBlock:
    """The encoded columns of one raw column, where noise is shaped like the rows.

    Magnitudes of its ``size`` columns add up to one at most; ``spread`` is the mean square of one
    of them, as the declared facts imply it. Where the first ones are neighbouring hats of a curve,
    ``line`` is what a straight line is at their knots, from -1 to 1, and ``known`` says whether
    mean and deviation of the number are declared.
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
    """Return what was declared of a number's curve, or say in a ValueError what it must be."""
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
    """Return quantiles from bound to bound, or say in a ValueError what they must be."""
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

    ``centre`` and ``scale`` are of its basis numbers. ``present`` is what follows them where the
    cell has a value: the indicator of a missing one, or nothing. ``missing`` are all encoded
    numbers of a missing cell; None refuses it.
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

    @property
    @abstractmethod
    def size(self) -> int:
        """Number of vertices; the last is that of a missing cell."""

    @abstractmethod
    def vertices(self, cells: Cells) -> NDArray[np.intp]:
        """Return which vertex each cell is; refuse those that the schema does not allow."""

    @abstractmethod
    def _basis(self, codes: NDArray[np.intp]) -> Iterator[Floats]:
        """Return, for each basis number, that of vertices; of a missing cell, any."""

    @once
    def table(self) -> Floats:
        """Return the encoded numbers of every vertex: one row each."""
        codes = np.arange(self.size)
        out = np.empty((self.size, self.width))
        own = zip(self._basis(codes), self.centre, self.scale, strict=True)
        for place, (basis, centre, scale) in enumerate(own):
            out[:, place] = (basis - centre) / scale
        out[:, len(self.centre) :] = self.present
        for last, numbers in enumerate((self.missing, getattr(self, "unknown", None)), start=1):
            if numbers is not None:
                out[-last] = numbers
        return out

    def vector(self, value: Value) -> tuple[float, ...]:
        """Return the encoded numbers of one cell."""
        return tuple(self.table()[self.vertices(as_cells([value]))][0].tolist())

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
    """A number ``u``, or ``log(1 + u - clip[0])``, at the nearest point; with knots, its hats.

    Between neighbours of the ``grid``, on the scale of the logarithm if there is one, lie equal
    ``steps``, whose ends are the points. A number that is no logarithm is clipped then. Hat ``j``
    is 1 at knot ``j``, 0 at the others, linear between, constant beyond the outermost. ``na`` are
    cells that mean missing, beside those that always do.
    """

    kind: Literal["number"] = "number"
    na: tuple[str | int | float, ...] = ()
    clip: tuple[float, float]
    log: bool = False
    grid: tuple[float, ...]
    steps: int
    knots: tuple[float, ...] = ()

    @property
    def size(self) -> int:
        """Points, and no value."""
        return (len(self.grid) - 1) * self.steps + 2

    def vertices(self, cells: Cells) -> NDArray[np.intp]:
        """Return the nearest points."""
        u, absent = self.places(cells)
        if self.missing is None:
            refuse(self.column, absent, _NO_VALUE)
        grid = np.array(self.grid)
        at = np.searchsorted(grid[1:-1], u, side="right")
        with np.errstate(invalid="ignore"):
            # What a reader of the release computes, operation by operation.
            share = np.clip((u - grid[at]) / np.diff(grid)[at], 0.0, 1.0)
            found = at * self.steps + np.rint(share * self.steps).astype(np.intp)
        return np.where(absent, self.size - 1, found)

    def points(self) -> Floats:
        """Return the points of the grid."""
        grid = np.array(self.grid)
        steps = np.arange(self.steps) / self.steps
        inner = grid[:-1, None] + steps * np.diff(grid)[:, None]
        return np.append(inner, grid[-1])

    def _basis(self, codes: NDArray[np.intp]) -> Iterator[Floats]:
        u = self.points().take(codes, mode="clip")
        if not self.log:
            u = np.clip(u, *self.clip)
        return self._hats(u) if self.knots else iter((u,))

    def places(self, cells: Cells) -> tuple[Floats, NDArray[np.bool_]]:
        """Return ``u`` of every cell, on the scale of the logarithm, and which are missing."""
        x, strange = read_numbers(self.column, cells, self.na)
        refuse(self.column, strange, _NO_NUMBER)
        u = np.clip(x, self.grid[0], self.grid[-1])
        if self.log:
            u = np.log1p(np.clip(x, *self.clip) - self.clip[0])
        return u, np.asarray(np.isnan(x))

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
    """A column whose cells are looked up by their text: ``codes`` are places, -1 means missing.

    ``unknown`` are all encoded numbers of any other cell; None refuses it.
    """

    codes: dict[str, int]
    unknown: tuple[float, ...] | None = None

    def _indicated(self, present: float, missing: tuple[float, ...]) -> Self:
        unknown = None if self.unknown is None else (*self.unknown, present)
        return replace(super()._indicated(present, missing), unknown=unknown)

    @property
    def size(self) -> int:
        """Declared values, any other one, no value."""
        return max(self.codes.values()) + 3

    def vertices(self, cells: Cells) -> NDArray[np.intp]:
        """Return places among the declared values."""
        places = read_places(self.column, cells, self.codes)
        if self.unknown is None:
            refuse(self.column, places == UNKNOWN, "a value that is not declared")
        if self.missing is None:
            refuse(self.column, places == MISSING, _NO_VALUE)
        # No value is -1, the last; any other one is -2.
        places[places < 0] += self.size
        return places


@dataclass(frozen=True, kw_only=True)
class ScoreColumn(TextColumn):
    """A text becomes the score of its place: an ordered level, or yes and no."""

    kind: Literal["score"] = "score"
    scores: tuple[float, ...]

    def _basis(self, codes: NDArray[np.intp]) -> Iterator[Floats]:
        yield np.array(self.scores).take(codes, mode="clip")


@dataclass(frozen=True, kw_only=True)
class OneHotColumn(TextColumn):
    """A text becomes one at its place and zero elsewhere."""

    kind: Literal["one-hot"] = "one-hot"

    def _basis(self, codes: NDArray[np.intp]) -> Iterator[Floats]:
        for place in range(len(self.centre)):
            yield (codes == place).astype(np.float64)


AnyColumn: TypeAlias = Annotated[
    NumberColumn | ScoreColumn | OneHotColumn, Field(discriminator="kind")
]


@dataclass(frozen=True, kw_only=True)
class Encoding:
    """From raw rows to bounded ones.

    ``na`` are texts that mean missing in every column, for readers without this library;
    ``weights`` are factors on the encoded columns. With the rule ``"clip"`` a row is divided by the
    public ``norm``, or by its own Euclidean norm if that is larger; with ``"unit"`` by its own
    norm, and a row of zeros stays so.
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

    def vertices(self, X: Any) -> list[NDArray[np.intp]]:
        """Return which vertex every cell is, one array per raw column.

        What is wrong is said of every column at once, and never with a value.
        """
        table = declared_columns(X, [column.column for column in self.columns])
        found, problems = [], []
        for column in self.columns:
            try:
                found.append(column.vertices(table[column.column]))
            except InvalidData as problem:
                problems.append(str(problem))
        if problems:
            raise InvalidData("\n".join(problems))
        return found

    def codes(self, X: Any) -> list[PackedCodes]:
        """Return the codes of a raw table, whatever the form."""
        return stored(self.vertices(X), [column.size for column in self.columns])

    def coded(self, stores: Sequence[PackedCodes]) -> Coded:
        """Return rows of Euclidean norm at most 1: those that touch it are shorter by a hair."""
        ends = np.cumsum([column.width for column in self.columns])
        weights = np.split(np.array(self.weights or np.ones(self.width)) / self.norm, ends[:-1])
        pairs = zip(self.columns, weights, strict=True)
        rows = Coded(tuple(stores), tuple(column.table() * own for column, own in pairs))
        margin = 1 + (self.width + 8) * float(np.finfo(np.float64).eps)
        reach = sum(float(np.square(table).sum(axis=1).max()) for table in rows.tables)
        if self.rows == "clip" and math.sqrt(reach) * margin <= 1:
            return rows
        lengths = rows.norms(None, "l2") * margin
        lengths[lengths <= (1.0 if self.rows == "clip" else 0.0)] = 1.0
        return replace(rows, shrink=1 / lengths)

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


#: How columns are encoded: for a ball, or for a body, with straight lines or with curves.
Form: TypeAlias = Literal["standardised", "linear", "curves"]


def body_norm(n_columns: int) -> float:
    """Return a power of two that no row in a body of so many raw columns is longer than.

    Dividing by it changes no digit.
    """
    return 2.0 ** math.ceil(math.log2(1.01 * math.sqrt(n_columns)))


def standardised_columns(schema: PublicSchema, X: Any) -> Coded:
    """Return rows of the centred and scaled columns, before any bound."""
    encoding = Encoding(columns=tuple(feature.compiled() for feature in schema.features))
    return Coded(tuple(encoding.codes(X)), tuple(column.table() for column in encoding.columns))


class SchemaEncoder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Turn a table into rows of norm at most 1 by the facts of a public schema.

    Values are clipped to declared bounds, centred and scaled by public facts, weighted by
    importance if asked, and every row is bounded by itself. ``fit`` learns nothing: the same row
    maps to the same numbers, to the last bit, whatever else is in the table. An array is accepted
    instead of a data frame if its columns are the declared ones in order.

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
    form : {"standardised", "linear", "curves"}, default="standardised"
        ``"linear"`` and ``"curves"`` are for noise that is shaped like the rows: numbers lie in an
        interval, or become hats, and of a category's columns one is one. The whole row is divided
        by a power of two, so that its norm is at most 1.
    """

    def __init__(
        self,
        schema: PublicSchema,
        *,
        weighted: bool = False,
        power: float = 1.0,
        rows: RowRule = "clip",
        clip_norm: float | Literal["rms"] | None = None,
        form: Form = "standardised",
    ) -> None:
        self.schema = schema
        self.weighted = weighted
        self.power = power
        self.rows = rows
        self.clip_norm = clip_norm
        self.form = form

    def fit(self, X: Any = None, y: Any = None) -> Self:  # noqa: ARG002
        """Do nothing: all there is to know is declared."""
        return self

    def transform(self, X: Any) -> NDArray[Any]:
        """Return the rows of a table, or of an array of the declared columns, of norm at most 1."""
        return self.encoding().coded(self.codes(X)).toarray()

    def codes(self, X: Any) -> list[PackedCodes]:
        """Return the codes of a table, whatever the form."""
        return self.encoding().codes(X)

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
