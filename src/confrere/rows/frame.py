"""The public coordinates that all parties compute in: rows scaled, clipped, with the constant."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike

from confrere.arrays import Floats
from confrere.errors import InvalidData, InvalidParameter
from confrere.guarantee import check_bound
from confrere.maths.solver.row_blocks import Engine
from confrere.rows.ball import Norm, into_ball
from confrere.rows.framed import FramedRows

#: Public factors and bounds beyond this are mistakes or attacks.
LARGEST = 1e12

#: What a frame is beside its array.
FACTS = ("n_features", "data_norm", "constant", "norm")


@dataclass(frozen=True, eq=False)
class Frame:
    """From rows as encoded to rows in the unit ball, and from weights there back to coefficients.

    Parameters
    ----------
    n_features : int
        Columns of the rows as encoded.
    data_norm : float, default=1.0
        Declared bound on a row's norm after ``feature_scale``; longer rows are clipped to it.
    constant : float, default=0.4
        Public constant inside the bound that carries the intercept; 0 for no intercept.
    feature_scale : array of shape (n_features,), optional
        Public factors (importances) on the columns.
    norm : {"l2", "l1"}, default="l2"
        Which ball.
    """

    n_features: int
    data_norm: float = 1.0
    constant: float = 0.4
    feature_scale: Floats | None = None
    norm: Norm = "l2"

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
            scale = np.asarray(self.feature_scale, dtype=np.float64)
            if scale.shape != (self.n_features,) or not np.all((scale >= 0) & (scale <= LARGEST)):
                raise InvalidParameter(
                    f"feature_scale must hold one number from 0 to {LARGEST:g} per column."
                )
            object.__setattr__(self, "feature_scale", scale)

    @property
    def size(self) -> int:
        """Number of weights."""
        return self.n_features + (self.constant > 0)

    @property
    def _factors(self) -> Floats:
        """Public factor from a column to a coordinate of an unclipped row."""
        room = math.sqrt(1 - self.constant**2) if self.norm == "l2" else 1 - self.constant
        factor = room / self.data_norm
        if self.feature_scale is None:
            return np.full(self.n_features, factor)
        return np.asarray(self.feature_scale * factor)

    def rows(self, X: Any) -> Floats:
        """Return the rows that the theorems speak of, whatever the given ones hold.

        CSR rows stay CSR.
        """
        if X.shape[1:] != (self.n_features,):
            raise InvalidData("X does not have the number of columns that was agreed.")
        rows = into_ball(
            X,
            self.data_norm,
            factors=self.feature_scale,
            constant=self.constant,
            norm=self.norm,
        )
        return cast(Floats, rows)

    def lazy(self, X: Any, engine: Engine | None = None) -> FramedRows:
        """Return the same rows without writing them down: for as many as there are.

        Parameters
        ----------
        X : array, CSR or RowSource
            Rows as given; they stay as they are.
        engine : Engine, optional
            Who reads the partitions; by default one after the other.
        """
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

        Parameters
        ----------
        columns : array of shape (n_features,), optional
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
