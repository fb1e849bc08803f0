"""Encode a table by declared facts alone: nothing is learned, each row stands by itself.

The Euclidean norm of every row is bounded: what the mechanisms' sensitivity rests on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin

from confrere.errors import InvalidData, InvalidParameter, SchemaError

if TYPE_CHECKING:
    from confrere.schema.public_schema import PublicSchema
from typing import TypeAlias


def standardised_columns(
    schema: PublicSchema, X: Any, extra: str = "ignore"
) -> NDArray[np.float64]:
    """Return the centred and scaled columns, shape (encoded columns, rows), before any bound."""
    table = _as_table(schema, X, extra)
    out = np.empty((len(schema.feature_names), len(table)))
    start = 0
    problems = []
    for feature in schema.features:
        stop = start + len(feature.names)
        try:
            feature.encode(table[feature.column], out[start:stop])
        except InvalidData as problem:
            problems.append(str(problem))
        start = stop
    if problems:
        raise InvalidData("\n".join(problems))
    return out


def _as_table(schema: PublicSchema, X: Any, extra: str) -> pd.DataFrame:
    if extra not in ("ignore", "refuse"):
        raise InvalidParameter('extra must be "ignore" or "refuse".')
    if not isinstance(X, pd.DataFrame):
        if np.ndim(X) != 2 or np.shape(X)[1] != len(schema.columns):
            raise InvalidData(
                f"X must be a data frame, or an array with the {len(schema.columns)} declared "
                "columns in their order."
            )
        return pd.DataFrame(X, columns=list(schema.columns))
    lacking = [column for column in schema.columns if column not in X.columns]
    if lacking:
        raise InvalidData(f"X lacks the declared columns {', '.join(map(repr, lacking))}.")
    selected = X[list(schema.columns)]
    if selected.shape[1] != len(schema.columns):
        raise InvalidData("X has a declared column more than once.")
    declared = {*schema.columns} | ({schema.outcome.column} if schema.outcome else set())
    count = len([column for column in X.columns if column not in declared])
    if extra == "refuse" and count:
        raise InvalidData(f"X has {count} columns that are not declared; drop them.")
    return selected


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
        rows: Rows = "clip",
        clip_norm: float | Literal["rms"] | None = None,
        extra: Literal["ignore", "refuse"] = "ignore",
        dtype: Any = np.float64,
    ) -> None:
        self.schema = schema
        self.weighted = weighted
        self.power = power
        self.rows = rows
        self.clip_norm = clip_norm
        self.extra = extra
        self.dtype = dtype

    def fit(self, X: Any = None, y: Any = None) -> Self:  # noqa: ARG002
        """Do nothing: all there is to know is declared."""
        return self

    def transform(self, X: pd.DataFrame | ArrayLike) -> NDArray[Any]:
        """Encode a table.

        Parameters
        ----------
        X : data frame, or array of shape (rows, declared columns)
            The raw table.

        Returns
        -------
        array of shape (rows, encoded columns)
            Every row has Euclidean norm at most 1.
        """
        check_rows(self.rows)
        clip_norm = self._clip_norm()
        multipliers = self._multipliers()
        columns = standardised_columns(self.schema, X, self.extra)
        if self.weighted:
            columns *= multipliers[:, None]
        return bounded_rows(columns, self.rows, clip_norm, self.dtype)

    def expert_direction(self) -> NDArray[np.float64]:
        """Return the unit vector along which encoded rows follow the experts' expectation.

        Before rows are bounded, ``X @ expert_direction()`` ranks as ``schema.expert_score`` does.
        """
        multipliers = self._multipliers()
        useful = multipliers > 0
        direction = np.zeros_like(multipliers)
        np.divide(self.schema.expert_weights(), multipliers, out=direction, where=useful)
        unit: NDArray[np.float64] = direction / np.linalg.norm(direction)
        return unit

    def mean_squares(self) -> NDArray[np.float64]:
        """Return the mean square of every encoded column that the declared facts imply.

        As if no row were shrunk beyond what the typical one is.
        """
        squares: NDArray[np.float64] = self._multipliers() ** 2 * self.schema.variances()
        norm = self.schema.rms_norm if self.rows == "unit" else self._clip_norm()
        return squares / norm**2

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:  # noqa: ARG002
        """Return the names of the encoded columns."""
        return np.array(self.schema.feature_names, dtype=object)

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

    def _multipliers(self) -> NDArray[np.float64]:
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


Rows: TypeAlias = Literal["clip", "unit"]


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
    columns: NDArray[np.float64], rows: Rows, clip_norm: float, dtype: Any = np.float64
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
