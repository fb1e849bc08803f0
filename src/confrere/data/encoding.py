"""Raw rows become bounded ones by declared facts alone, each row by itself.

Which vertex of its column a cell is, is its code. The numbers of a vertex are weighted by
importance, and the row is bounded: what the mechanisms' sensitivity rests on.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import TYPE_CHECKING, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray
from scipy import special
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Tags

from confrere.arrays import Floats, Integers
from confrere.data.cells import (
    MISSING_TEXTS,
    Coded,
    Container,
    Whole,
    declared_columns,
    each_column,
    narrow,
    stored,
)
from confrere.data.features import (
    CENTER,
    ZEROS,
    BodyBlock,
    Category,
    Discrete,
    Encoded,
    Feature,
    Form,
    Number,
    Ordered,
    Told,
)
from confrere.errors import InvalidParameter, SchemaError

if TYPE_CHECKING:
    from confrere.data.schema import PublicSchema

#: Rows that are encoded at once.
_AT_ONCE = 2**17

#: Where experts' scores are regressed on columns, of which some are hardly ever anything but zero.
_RIDGE = 1e-4


def frequencies(feature: Feature) -> Floats:
    """Return how often each vertex is expected; numbers are normal, or uniform between bounds."""
    found, missing = np.zeros(feature.size), feature.missing_share or 0.0
    if isinstance(feature, Number):
        points, (middle, sd) = feature.points(), feature.moments()
        between = (points[1:] + points[:-1]) / 2
        below = special.ndtr((between - middle) / sd)
        if feature.sd is None:
            below = np.interp(between, feature.range(), (0.0, 1.0))
        found[:-1] = np.diff(below, prepend=0.0, append=1.0)
    else:
        count = feature.size - 2
        found[:count] = feature.often or (1 / count,) * count
    return np.append(found[:-1] * (1 - missing) / found.sum(), missing)


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


@dataclass(eq=False, repr=False)
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
    clip_norm : float or "rms", optional
        Public norm that rows are divided by, and beyond which they are shrunk; the schema's own
        unless given.
    form : {"standardised", "linear", "curves", "straight"}, default="standardised"
        All others are for noise that is shaped like the rows: numbers lie in an interval (of
        ``"straight"`` lines between all bounds), or become hats, and of a category's columns one
        is one. The whole row is divided by a power of two, so that its norm is at most 1.
    """

    schema: PublicSchema
    _: KW_ONLY
    weighted: bool = False
    clip_norm: float | Literal["rms"] | None = None
    form: Form = "standardised"

    def fit(self, X: object = None, y: object = None) -> Self:  # noqa: ARG002
        """Do nothing: all there is to know is declared."""
        return self

    def transform(self, X: Container) -> Floats:
        """Return the rows of a table, or of an array of the declared columns, of norm at most 1."""
        return self.coded(self.codes(X)).toarray()

    def codes(self, X: Container) -> list[Whole]:
        """Return the codes of a table, whatever the form.

        What is wrong is said of every column at once, and never with a value.
        """
        table = declared_columns(X, self.schema.columns)

        def codes(feature: Feature) -> Whole:
            cells = table.pop(feature.column)  # what is made on the way takes more than codes
            starts = range(0, max(1, len(cells)), _AT_ONCE)
            pieces = (feature.vertices(cells.slice(start, _AT_ONCE)) for start in starts)
            return np.concatenate([narrow(each, feature.size) for each in pieces])

        found = each_column(self.schema.features, codes)
        return stored(found, [feature.size for feature in self.schema.features])

    def coded(self, codes: Sequence[Whole]) -> Coded:
        """Return rows of Euclidean norm at most 1: those that touch it are shorter by a hair."""
        tables = [column.table for column in self.columns]
        ends = np.cumsum([table.shape[1] for table in tables])
        weights = self.multipliers() if self.weighted else np.ones(ends[-1])
        pairs = zip(tables, np.split(weights / self.norm, ends[:-1]), strict=True)
        rows = Coded(tuple(codes), tuple(table * own for table, own in pairs))
        margin = 1 + (rows.shape[1] + 8) * float(np.finfo(np.float64).eps)
        reach = sum(float(np.square(table).sum(axis=1).max()) for table in rows.tables)
        if math.sqrt(reach) * margin <= 1:
            return rows
        return replace(rows, shrink=1 / np.maximum(rows.norms(None, "l2") * margin, 1.0))

    def standardised(self, X: Container) -> Coded:
        """Return rows of the columns before any weight or bound."""
        return Coded(tuple(self.codes(X)), tuple(column.table for column in self.columns))

    @property
    def columns(self) -> list[Encoded]:
        """What becomes of every raw column."""
        self._check()
        return [feature.encoded(self.form) for feature in self.schema.features]

    def _check(self) -> None:
        if self.form not in get_args(Form):
            raise InvalidParameter(f"form must be one of {', '.join(map(repr, get_args(Form)))}.")
        if self.shaped and self.weighted:
            raise InvalidParameter("form: rows in a body are not weighted.")

    @property
    def shaped(self) -> bool:
        """Whether rows lie in a body that the schema declares, and not only in a ball."""
        return self.form != "standardised"

    @property
    def norm(self) -> float:
        """What rows are divided by; one that is longer in a ball, by its own length."""
        if self.shaped:
            # A power of two that no row in the body is longer than: dividing changes no digit.
            return 2.0 ** math.ceil(math.log2(1.01 * math.sqrt(len(self.schema.features))))
        asked = self.schema.clip_norm if self.clip_norm is None else self.clip_norm
        norm = check_clip_norm(asked)
        return self.schema.rms_norm if norm == "rms" else norm

    def told(self) -> Told:
        """Return the same map in the closed language that a release carries.

        ``na`` are texts that mean missing in every column, for readers without this library;
        ``weights`` are factors on the encoded columns. A row is divided by the public ``norm``, or
        by its own Euclidean norm if that is larger.
        """
        return {
            "columns": [column.told for column in self.columns],
            "na": list(MISSING_TEXTS),
            "weights": self.multipliers().tolist() if self.weighted else None,
            "norm": self.norm,
        }

    def expert_prior(self) -> Floats:
        """Return the experts' log odds per unit of each encoded column.

        If columns were independent, the log odds of rows that are not shrunk would have deviation
        one.
        """
        if self.shaped:
            return self._expert_centre()
        weights, multipliers = self.schema.expert_weights(), self.multipliers()
        deviation = float(np.sqrt(weights**2 @ self.schema.variances()))
        prior = np.zeros_like(multipliers)
        scaled = self.norm / deviation * weights
        np.divide(scaled, multipliers, out=prior, where=multipliers > 0)
        return prior

    def _expert_centre(self) -> Floats:
        """Return experts' log odds, of deviation one, regressed on what vertices are in a body."""
        found, weights = [], self.schema.expert_weights()[None]
        scores = column_scores(self.schema.encoder(), weights)
        spread = sum(float(often @ each[:, 0] ** 2) for often, each, _ in scores)
        for column, (often, each, _) in zip(self.columns, scores, strict=True):
            rows = column.table - often @ column.table
            seen = (rows.T * often) @ rows + _RIDGE * np.eye(rows.shape[1])
            found.append(np.linalg.solve(seen, rows.T @ (often * each[:, 0])))
        return np.asarray(np.concatenate(found) * self.norm / math.sqrt(max(spread, _RIDGE)))

    def mean_squares(self) -> Floats:
        """Return the mean square of every encoded column that the declared facts imply.

        As if no row were shrunk beyond what the typical one is.
        """
        if self.shaped:
            squares = np.concatenate([np.full(one.size, one.spread) for one in self.blocks()])
        else:
            squares = self.multipliers() ** 2 * self.schema.variances()
        return np.asarray(squares / self.norm**2)

    def blocks(self) -> tuple[BodyBlock, ...]:
        """Return what rows in a body consist of, one block per raw column."""
        if not self.shaped:
            raise InvalidParameter('form must not be "standardised" for rows in a body.')
        self._check()
        return tuple(feature.block(self.form) for feature in self.schema.features)

    def multipliers(self) -> Floats:
        """Return the factor of every encoded column: ones unless columns are weighted."""
        variances = self.schema.variances()
        if not self.weighted:
            return np.ones_like(variances)
        if not self.schema.has_importances:
            raise SchemaError("weighted=True needs a schema that declares importances.")
        importances = self.schema.importances()
        weights = importances / importances.max()
        return np.asarray(weights * np.sqrt(variances.sum() / (weights**2 @ variances)))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for column in self.columns for name in column.names)

    # What scikit-learn asks of a transformer.

    def get_feature_names_out(self, input_features: object = None) -> NDArray[np.object_]:  # noqa: ARG002
        """Return the names of the encoded columns."""
        return np.array(self.names, dtype=object)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.input_tags.allow_nan = any(f.missing is not None for f in self.schema.features)
        return tags


def column_scores(encoder: SchemaEncoder, coef: Floats) -> list[tuple[Floats, Floats, Floats]]:
    """Return of every raw column its vertices' frequencies, centred scores, and their mean."""
    columns, found = encoder.columns, []
    own = np.split(coef, np.cumsum([len(column.names) for column in columns])[:-1], axis=1)
    for feature, column, each in zip(encoder.schema.features, columns, own, strict=True):
        often, scores = frequencies(feature), column.table @ each.T
        found.append((often, scores - often @ scores, often @ scores))
    return found


def score_moments(encoder: SchemaEncoder, coef: Floats) -> Floats:
    """Return the scores' means, and a root of their covariance, of independent raw columns."""
    columns = column_scores(encoder, np.atleast_2d(coef) / encoder.norm)
    spread = np.sum([(each.T * often) @ each for often, each, _ in columns], axis=0)
    values, vectors = np.linalg.eigh(spread)
    means = np.sum([mean for *_, mean in columns], axis=0)
    return np.vstack([means, vectors * np.sqrt(np.maximum(values, 0.0))])


#: Knots of a number, in declared deviations from its declared mean; or so many, evenly.
_KNOTS = (-3.0, -2.0, -1.3, -0.7, -0.2, 0.2, 0.7, 1.3, 2.0, 3.0)
_EVENLY = 13


@dataclass(frozen=True)
class Histogram:
    """A column's histogram: which cells a vertex fills, in whole steps, and what cells are."""

    feature: Feature
    table: Integers  #: A row per vertex; every row has the same sum; the last cell is missing
    places: Floats | None  #: Where cells lie, of a number
    names: tuple[str, ...]  #: What cells are called, of values

    @classmethod
    def of(cls, feature: Feature, steps: int) -> Self:
        """Return that in which every record is so many steps; any cell of a table has a place."""
        if feature.missing is None:
            feature = replace(feature, missing=CENTER)
        if isinstance(feature, Category) and feature.unknown is None:
            feature = replace(feature, unknown=ZEROS)
        if isinstance(feature, Number):
            knots, at = _knots(feature), feature.raw(feature.points())
            right = np.clip(np.searchsorted(knots, at, side="right"), 1, len(knots) - 1)
            near = np.clip((at - knots[right - 1]) / (knots[right] - knots[right - 1]), 0.0, 1.0)
            part = np.rint(steps * near).astype(np.int64)
            table = np.zeros((feature.size, len(knots) + 1), dtype=np.int64)
            rows = np.arange(len(at))
            table[rows, right] = part
            table[rows, right - 1] += steps - part
            table[-1, -1] = steps
            return cls(feature, table, knots, ())
        assert isinstance(feature, Discrete)
        table = steps * np.eye(feature.size, dtype=np.int64)
        places = None
        if isinstance(feature, Ordered):
            ranks = feature.ranks()
            places = np.append(ranks, [np.nan] * (feature.size - 1 - len(ranks)))
        return cls(feature, table, places, value_names(feature))


def value_names(feature: Discrete) -> tuple[str, ...]:
    """Return what cells of declared values are called, and that of any other one."""
    names = [""] * (feature.size - 2)
    for value in feature.known:  # several values may share a cell
        cell = feature.vertex(value)
        names[cell] = f"{names[cell]}, {value}" if names[cell] else str(value)
    return (*(f"= {name}" for name in names), "other")


def _knots(feature: Number) -> Floats:
    low, high = feature.range()
    if feature.mean is None or feature.sd is None:
        return feature.raw(np.linspace(low, high, _EVENLY))
    inner = feature.mean + feature.sd * np.array(_KNOTS)
    kept = inner[(inner > low) & (inner < high)]
    return feature.raw(np.concatenate([[low], kept, [high]]))


def drawn_cells(feature: Feature, count: int, generator: np.random.Generator) -> Container:
    """Return so many cells of a column by its public facts alone."""
    often = frequencies(feature)[:-1]
    places = generator.choice(len(often), count, p=often / often.sum())
    if isinstance(feature, Number):
        return feature.raw(feature.points()[places])
    known = {feature.vertex(value): value for value in feature.known}
    return [known[place] for place in places.tolist()]
