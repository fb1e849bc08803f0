"""A private linear model, planned from public facts: what it costs, then what it does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from confrere.errors import InvalidParameter
from confrere.guarantee import Guarantee, Neighbours, check_epsilon, check_positive
from confrere.maths.calibration import automatic_ridge, free_ridge
from confrere.maths.gaussian import GaussianObjective, automatic_gaussian_ridge
from confrere.mechanisms.gaussian_objective import GaussianObjectivePerturbation, check_delta
from confrere.mechanisms.hidden_size import HiddenSize, declared_count
from confrere.mechanisms.objective_perturbation import (
    SOLVER_SHARE,
    Calibration,
    ObjectivePerturbation,
    PerturbedObjective,
)
from confrere.model import Facts, Linear
from confrere.noise.sources import RandomSource
from confrere.rows.ball import Norm, Rows
from confrere.rows.frame import Frame

Alpha = float | Literal["auto"]
Loss = Literal["logistic", "capped"]


def linear_frame(
    n_features: int,
    *,
    data_norm: float,
    fit_intercept: bool,
    intercept_scale: float,
    feature_scale: ArrayLike | None = None,
    norm: Norm = "l2",
) -> Frame:
    """Return the public coordinates that an estimator's common parameters declare."""
    if fit_intercept and not 0 < intercept_scale < 1:
        raise InvalidParameter("intercept_scale must lie strictly between 0 and 1.")
    scale = None if feature_scale is None else np.asarray(feature_scale, dtype=np.float64)
    return Frame(
        int(n_features),
        data_norm=check_epsilon(data_norm, "data_norm"),
        constant=float(intercept_scale) if fit_intercept else 0.0,
        feature_scale=scale,
        norm=norm,
    )


@dataclass(frozen=True)
class LinearPlan:
    """Everything that is decided before the data are touched."""

    frame: Frame
    mechanism: PerturbedObjective
    centre: NDArray[np.float64] | None
    public_samples: int

    def guarantee(self) -> Guarantee:
        """Return the price."""
        return self.mechanism.guarantee()

    def detail(self) -> dict[str, Any]:
        """Return what the ledger notes."""
        return {
            **self.mechanism.noise_facts(),
            "ridge": self.mechanism.ridge,
            "n_features": self.frame.n_features,
        }

    def facts(self) -> Facts:
        """Return the public facts that a release of this model carries."""
        noise = self.mechanism.noise_facts()
        return Facts(
            n_samples=self.public_samples,
            rho=noise.get("rho"),
            sigma=noise.get("sigma"),
            ridge=self.mechanism.ridge,
            **self.frame.learned_with(),
        )

    def rows(self, X: Any) -> Rows:
        """Return the rows that the theorem speaks of."""
        return self.frame.rows(X)

    def run(
        self, X: Any, labels: NDArray[Any], source: RandomSource
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return released coefficients and intercepts, for rows as given."""
        weights = self.mechanism.run(self.rows(X), labels, source=source, centre=self.centre)
        models = [self.frame.coefficients(row) for row in np.atleast_2d(weights)]
        return np.array([coef for coef, _ in models]), np.array([b for _, b in models])

    def model(
        self, X: Any, labels: NDArray[Any], source: RandomSource, meaning: Mapping[str, Any]
    ) -> Linear:
        """Return what was learned; ``meaning`` is the names of classes and features."""
        coef, intercept = self.run(X, labels, source)
        return Linear(coef=coef, intercept=intercept, facts=self.facts(), **meaning)


def plan_linear(
    n_samples: int,
    frame: Frame,
    *,
    epsilon: float,
    delta: float = 0.0,
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

    Noise is Gaussian if there is a ``delta`` to pay with.
    ``prior`` is a point in the unit ball's coordinates; ``ridge_factor`` multiplies the automatic
    ridge, for priors that carry as much as that many more rows.
    """
    relation = Neighbours(neighbours)
    hidden = relation is Neighbours.ADD_REMOVE
    # Where the number of rows is not public nothing here may know it.
    size = HiddenSize(int(declared_samples or 0)) if hidden else n_samples
    public_samples = declared_count(size)
    budget = epsilon * (1 - SOLVER_SHARE)
    capped = loss == "capped"
    cap = 0.5 if capped else 1.0
    if alpha == "auto" and delta > 0:
        check_delta(delta, public_samples)
        objective = GaussianObjective(
            ridge=np.inf, cap=cap, n_classes=n_classes, neighbours=relation
        )
        ridge = ridge_factor * automatic_gaussian_ridge(
            budget, delta, public_samples, frame.size, objective, floor=ridge_floor
        )
    elif alpha == "auto":
        ridge = ridge_factor * automatic_ridge(
            budget, public_samples, frame.size, capped=capped, floor=ridge_floor
        )
    else:
        ridge = public_samples * float(alpha)
        if calibration == "tight":
            ridge = max(ridge, free_ridge(budget, factor=ridge_floor))
    common: dict[str, Any] = {
        "epsilon": epsilon,
        "n_samples": size,
        "n_features": frame.size,
        "ridge": ridge,
        "n_classes": n_classes,
        "cap": cap,
        "neighbours": relation,
        "prior_norm": 0.0 if prior is None else float(np.linalg.norm(prior)),
    }
    mechanism = (
        GaussianObjectivePerturbation(**common, delta=delta)
        if delta > 0
        else ObjectivePerturbation(**common, calibration=calibration)
    )
    return LinearPlan(frame, mechanism, prior, public_samples)


def check_linear_parameters(
    *,
    epsilon: object,
    alpha: object,
    loss: object,
    calibration: object,
    delta: object = 0.0,
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
    if isinstance(delta, bool) or not isinstance(delta, int | float | np.number):
        raise InvalidParameter(f"delta must be a number, got a {type(delta).__name__}.")
    if not 0 <= delta < 1:
        raise InvalidParameter("delta must lie in [0, 1); 0 is pure privacy.")
    if delta > 0 and calibration == "printed":
        raise InvalidParameter("calibration='printed' is pure: use delta=0 with it.")
    if neighbours not in tuple(Neighbours):
        raise InvalidParameter(f"neighbours must be one of {[str(n) for n in Neighbours]}.")
    if neighbours == Neighbours.ADD_REMOVE and declared_samples is None:
        raise InvalidParameter(
            "declared_samples must be given with neighbours='add-remove': there the number of "
            "rows is not public, so the ridge needs a public stand-in."
        )
