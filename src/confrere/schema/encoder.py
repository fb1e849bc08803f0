"""Encode a table by declared facts alone: nothing is learned, each row stands by itself.

The Euclidean norm of every row is bounded: what the mechanisms' sensitivity rests on.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin

from confrere.errors import InvalidData, InvalidParameter, SchemaError
from confrere.schema.curves import BodyBlock
from confrere.schema.encoding import Encoding, RowRule, check_clip_norm, check_rows
from confrere.schema.tables import column_names, is_table

if TYPE_CHECKING:
    from confrere.schema.public_schema import PublicSchema


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

    def score_moments(self, coef: NDArray[np.float64]) -> tuple[float, float]:
        """Return mean and deviation of the scores that ``coef`` gives to rows in a body.

        As the declared facts imply them, if raw columns were independent, and values of a category
        and knots of a curve equally frequent. Unlike standardised columns these are not centred.
        """
        mean = variance = 0.0
        begin = 0
        for block in self.blocks():
            part = coef[begin : begin + block.size]
            begin += block.size
            if block.kind in ("number", "flag"):
                variance += block.spread * float(part @ part)
                continue
            corners = part[: block.smooth or block.size]
            mean += float(corners.mean())
            variance += float(corners.var())
        norm = self.encoding().norm
        return mean / norm, math.sqrt(variance) / norm

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
