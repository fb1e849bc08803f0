"""A private linear model, planned from public facts: what it costs, then what it does."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from confrere.errors import InvalidData, InvalidParameter
from confrere.maths.calibration import automatic_ridge, free_ridge
from confrere.maths.clipping import Rows, clip_rows, scale_columns, with_constant
from confrere.maths.randomness import RandomSource
from confrere.mechanisms.objective_perturbation import (
    SOLVER_SHARE,
    Calibration,
    ObjectivePerturbation,
)
from confrere.privacy import Guarantee, Neighbours, check_epsilon, check_positive

Alpha = float | Literal["auto"]
Loss = Literal["logistic", "capped"]

#: Under add-remove neighbours more rows than this multiple of the declared number are refused.
LARGEST_SURPLUS = 10


@dataclass(frozen=True)
class UnitRows:
    """The public map from a row as given to a row of the unit ball, and back for weights.

    Parameters
    ----------
    data_norm : float
        Declared bound on the norm of a row, after ``feature_scale``.
    constant : float or None
        Public constant inside the bound; None has no intercept.
    feature_scale : array of shape (n_features,) or None
        Public factors of the columns.
    n_features : int
        Number of columns as given.
    """

    data_norm: float
    constant: float | None
    feature_scale: NDArray[np.float64] | None
    n_features: int

    def __post_init__(self) -> None:
        check_epsilon(self.data_norm, "data_norm")
        if self.constant is not None and not 0 < self.constant < 1:
            raise InvalidParameter("intercept_scale must lie strictly between 0 and 1.")
        scale = self.feature_scale
        if scale is not None and (
            scale.shape != (self.n_features,) or not np.all(np.isfinite(scale) & (scale >= 0))
        ):
            raise InvalidParameter("feature_scale must hold one finite number >= 0 per column.")

    @property
    def dimension(self) -> int:
        """Number of coordinates, constant included."""
        return self.n_features + (self.constant is not None)

    def __call__(self, X: Any) -> Rows:
        """Scale, clip and add the constant: the rows that the theorem speaks of."""
        scaled = X if self.feature_scale is None else scale_columns(X, self.feature_scale)
        rows = clip_rows(scaled, self.data_norm)
        return rows if self.constant is None else with_constant(rows, self.constant)

    def coefficients(
        self, weights: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return ``(K, n_features)`` coefficients and ``(K,)`` intercepts for rows as given."""
        weights = np.atleast_2d(weights)
        coef = weights[:, : self.n_features] * self._factors
        if self.constant is None:
            return coef, np.zeros(len(weights))
        return coef, weights[:, -1] * self.constant

    def weights(self, coef: NDArray[np.float64], intercept: float) -> NDArray[np.float64]:
        """Return one model's weights in the unit ball's coordinates; zero where a column is."""
        used = self._factors > 0
        weights = np.divide(coef, self._factors, out=np.zeros(self.n_features), where=used)
        return weights if self.constant is None else np.append(weights, intercept / self.constant)

    @property
    def _factors(self) -> NDArray[np.float64]:
        shrink = 1.0 if self.constant is None else math.sqrt(1 - self.constant**2)
        scale = np.ones(self.n_features) if self.feature_scale is None else self.feature_scale
        return np.asarray(scale * shrink / self.data_norm)


@dataclass(frozen=True)
class LinearPlan:
    """Everything that is decided before the data are touched."""

    rows: UnitRows
    mechanism: ObjectivePerturbation
    centre: NDArray[np.float64] | None
    public_samples: int

    def guarantee(self) -> Guarantee:
        """Return the price."""
        return self.mechanism.guarantee()

    def detail(self) -> dict[str, Any]:
        """Return what the ledger notes."""
        return {
            "rho": self.mechanism.rho,
            "ridge": self.mechanism.ridge,
            "n_features": self.rows.n_features,
        }

    def facts(self) -> dict[str, Any]:
        """Return the public facts that a release of this model carries."""
        scale = self.rows.feature_scale
        return {
            "n_samples": self.public_samples,
            "rho": self.mechanism.rho,
            "ridge": self.mechanism.ridge,
            "data_norm": self.rows.data_norm,
            "intercept_scale": self.rows.constant,
            "feature_scale": None if scale is None else scale.tolist(),
        }

    def run(
        self, X: Any, labels: NDArray[Any], source: RandomSource
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return released coefficients and intercepts, for rows as given."""
        weights = self.mechanism.run(self.rows(X), labels, source=source, centre=self.centre)
        return self.rows.coefficients(weights)


def plan_linear(
    n_samples: int,
    rows: UnitRows,
    *,
    epsilon: float,
    n_classes: int = 2,
    alpha: Alpha = "auto",
    ridge_floor: float = 2.0,
    ridge_factor: float = 1.0,
    neighbours: str = "replace-one",
    loss: Loss = "logistic",
    calibration: Calibration = "tight",
    declared_samples: int | None = None,
    prior: NDArray[np.float64] | None = None,
) -> LinearPlan:
    """Return the plan of a private linear model on ``n_samples`` rows.

    ``prior`` is a point in the unit ball's coordinates; ``ridge_factor`` multiplies the automatic
    ridge, for priors that carry as much as that many more rows.
    """
    relation = Neighbours(neighbours)
    public_samples = _public_samples(n_samples, relation, declared_samples)
    budget = epsilon * (1 - SOLVER_SHARE)
    capped = loss == "capped"
    if alpha == "auto":
        ridge = ridge_factor * automatic_ridge(
            budget, public_samples, rows.dimension, capped=capped, floor=ridge_floor
        )
    else:
        ridge = public_samples * float(alpha)
        if calibration == "tight":
            ridge = max(ridge, free_ridge(budget, factor=ridge_floor))
    mechanism = ObjectivePerturbation(
        epsilon=epsilon,
        n_samples=n_samples,
        n_features=rows.dimension,
        ridge=ridge,
        n_classes=n_classes,
        cap=0.5 if capped else 1.0,
        neighbours=relation,
        calibration=calibration,
        prior_norm=0.0 if prior is None else float(np.linalg.norm(prior)),
    )
    return LinearPlan(rows, mechanism, prior, public_samples)


def check_linear_parameters(
    *,
    epsilon: object,
    alpha: object,
    loss: object,
    calibration: object,
    neighbours: object = "replace-one",
    ridge_floor: object = 2.0,
    declared_samples: object = None,
) -> None:
    """Refuse wrong settings before anything is touched or spent."""
    check_epsilon(epsilon)
    check_positive(ridge_floor, "ridge_floor")
    if not (isinstance(alpha, str) and alpha == "auto"):
        check_epsilon(alpha, "alpha")
    if loss not in ("logistic", "capped"):
        raise InvalidParameter("loss must be 'logistic' or 'capped'.")
    if calibration not in ("tight", "printed"):
        raise InvalidParameter("calibration must be 'tight' or 'printed'.")
    if neighbours not in tuple(Neighbours):
        raise InvalidParameter(f"neighbours must be one of {[str(n) for n in Neighbours]}.")
    if neighbours == Neighbours.ADD_REMOVE and declared_samples is None:
        raise InvalidParameter(
            "declared_samples must be given with neighbours='add-remove': there the number of "
            "rows is not public, so the ridge needs a public stand-in."
        )


def public_vector(values: ArrayLike, n_features: int, name: str) -> NDArray[np.float64]:
    """Return a declared vector with one finite number per column."""
    vector = np.asarray(values, dtype=np.float64)
    if vector.shape != (n_features,) or not np.all(np.isfinite(vector)):
        raise InvalidParameter(f"{name} must hold one finite number per column.")
    return vector


def _public_samples(n_samples: int, relation: Neighbours, declared: int | None) -> int:
    if relation is not Neighbours.ADD_REMOVE:
        return n_samples
    public = int(declared or 0)
    if n_samples > LARGEST_SURPLUS * public:
        raise InvalidData(
            f"X has more than {LARGEST_SURPLUS} times declared_samples rows; declare a number "
            "nearer to the truth."
        )
    return public
