"""A private linear model, planned from public facts: what it costs, then what it does."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from confrere.arrays import Floats
from confrere.errors import InvalidParameter
from confrere.kernel.guarantee import Guarantee, Neighbours
from confrere.kernel.streams import RandomSource
from confrere.maths.gaussian import (
    GaussianObjective,
    calibrate_gaussian,
)
from confrere.maths.prior_ridge import (
    informed_ridge,
    mean_curvature,
    noise_variance,
    with_floor,
)
from confrere.mechanisms.body_objective import BodyObjectivePerturbation
from confrere.mechanisms.gaussian_objective import GaussianObjectivePerturbation
from confrere.mechanisms.hidden_size import HiddenSize, RowCount, declared_count
from confrere.mechanisms.noisy_minimiser import NoisyMinimiser
from confrere.mechanisms.objective_perturbation import (
    ObjectivePerturbation,
    PerturbedObjective,
)
from confrere.model import Facts, Linear
from confrere.plans.base_plan import LabelledTable, ModelPlan, Names, Term
from confrere.plans.ridges import (
    Alpha,
    class_floor,
    gaussian_ridge,
    noise_budget,
    summed_ridge,
)
from confrere.rows.body import BodyFrame
from confrere.rows.frame import Frame, FramedRows, Norm

Loss = Literal["logistic", "capped"]
#: Of a ball, or of the body that a schema declares.
Coordinates = Frame | BodyFrame


class Source(Protocol):
    """A released model that a plan starts from: public, so that starting from it costs nothing."""

    @property
    def release_id(self) -> str:
        """What the ledger notes."""


def slope_of(loss: Loss, n_classes: int = 2) -> float:
    """Return the largest slope of the loss; more than two classes have the softmax loss."""
    return 0.5 if loss == "capped" and n_classes == 2 else 1.0


#: Length of one record's gradient in the norm of class-wise noise, for rows in the unit ball.
CLASS_SLOPE = 2.0


def linear_frame(
    n_features: int,
    *,
    data_norm: float,
    fit_intercept: bool = True,
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
        data_norm=float(data_norm),
        constant=float(intercept_scale) if fit_intercept else 0.0,
        feature_scale=scale,
        norm=norm,
    )


def in_ball(frame: Coordinates) -> Frame:
    """Return coordinates of a ball; say so where a body's cannot be used."""
    if isinstance(frame, BodyFrame):
        raise InvalidParameter("noise='schema' knows no prior of an average; use noise='ball'.")
    return frame


@dataclass(frozen=True, eq=False)
class LinearPlan(ModelPlan):
    """One perturbed objective in declared coordinates.

    Attributes
    ----------
    frame : Frame or BodyFrame
        The public coordinates.
    mechanism : PerturbedObjective
        Noise, ridge and price.
    centre : array or None
        Public point to shrink towards, in the frame's coordinates.
    public_samples : int
        The number of records that everyone may know.
    sources : tuple
        Released models that ``centre`` was made from.
    """

    frame: Coordinates
    mechanism: PerturbedObjective
    centre: Floats | None
    public_samples: int
    sources: tuple[Any, ...] = ()

    def guarantee(self) -> Guarantee:
        """Return the price."""
        return self.mechanism.guarantee()

    def detail(self) -> dict[str, Any]:
        """Return what the ledger notes."""
        noted = {
            **self.mechanism.noise_facts(),
            "ridge": self.mechanism.ridge,
            "n_features": self.frame.n_features,
        }
        return noted | sources_noted(self.sources)

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

    def release(self, data: LabelledTable, source: RandomSource) -> dict[str, Floats]:
        """Return the noised weights."""
        rows = self.frame.lazy(data.X, data.engine)
        weights = self.mechanism.run(rows, data.short_labels, source=source, centre=self.centre)
        if isinstance(rows, FramedRows):
            rows.check_unchanged()
        return {"weights": weights}

    def assemble(self, released: Mapping[str, Floats], names: Names) -> Linear:
        """Return the model of rows as given."""
        return linear_model(self.frame, released["weights"], self.facts(), names)

    def minimisers(self) -> dict[str, NoisyMinimiser]:
        """Return the one act."""
        return {"weights": self.mechanism.minimiser}

    def terms(self, data: LabelledTable) -> list[Term]:
        """Return the one objective."""
        rows = self.frame.lazy(data.X)
        return [Term("model", self.mechanism, (rows, data.labels), {"centre": self.centre})]

    @property
    def batched(self) -> bool:
        """Whether many runs share their passes over the rows."""
        return self.mechanism.n_classes == 2


def linear_model(frame: Coordinates, weights: Floats, facts: Facts, names: Names) -> Linear:
    """Return released weights, one row per score, as a model of rows as given."""
    coef, intercept = coefficients(frame, weights)
    return Linear(
        coef=coef,
        intercept=intercept,
        facts=facts,
        classes=names.classes,
        features=names.features,
    )


def coefficients(frame: Coordinates, weights: Floats) -> tuple[Floats, Floats]:
    """Return ``(K, n_features)`` coefficients and ``(K,)`` intercepts for rows as given.

    What all of several classes share says nothing about any of them, and is taken off.
    """
    if np.ndim(weights) == 2:
        weights = weights - weights.mean(axis=0)
    pairs = [frame.coefficients(each) for each in np.atleast_2d(weights)]
    return np.array([coef for coef, _ in pairs]), np.array([one for _, one in pairs])


def levels_noted(mechanisms: Iterable[PerturbedObjective | None]) -> list[dict[str, Any]]:
    """Return what an accountant needs of parts of a stack, whose records are disjoint."""
    return [one.noise_facts() | {"ridge": one.ridge} for one in mechanisms if one is not None]


def sources_noted(sources: tuple[Source, ...]) -> dict[str, Any]:
    """Return what the ledger notes about releases that were started from."""
    return {"sources": [release.release_id for release in sources]} if sources else {}


def plan_linear(
    n_samples: int,
    frame: Coordinates,
    *,
    epsilon: float,
    delta: float = 0.0,
    n_classes: int = 2,
    alpha: Alpha = "auto",
    ridge_floor: float = 2.0,
    neighbours: str = "replace-one",
    loss: Loss = "capped",
    declared_samples: int | None = None,
    prior: NDArray[np.float64] | None = None,
    variance: float | None = None,
    base_rate: float = 0.5,
    sources: tuple[Source, ...] = (),
) -> LinearPlan:
    """Return the plan of a private linear model on ``n_samples`` rows.

    With a ``delta`` noise is Gaussian; without, it is shaped like a body if ``frame`` is one's. The
    automatic ridge of a body is its own.
    ``prior`` is a point in the unit ball's coordinates. ``variance`` is that of the log odds around
    it, where it is known: the automatic ridge is then :func:`informed_ridge`, with the curvature
    that ``base_rate`` implies.
    """
    relation = Neighbours(neighbours)
    size = row_count(n_samples, relation, declared_samples)
    public_samples = declared_count(size)
    budget, cap = noise_budget(epsilon), slope_of(loss, n_classes)
    if alpha == "auto" and isinstance(frame, BodyFrame):
        ridge = frame.ridge
    elif alpha == "auto" and delta > 0 and variance is None:
        ridge = gaussian_ridge(
            budget,
            delta,
            public_samples,
            frame.size,
            cap=cap,
            n_classes=n_classes,
            neighbours=relation,
            floor=ridge_floor,
        )
    elif alpha == "auto" and variance is not None:
        informed = informed_ridge(
            public_samples,
            frame.size,
            noise=_noise_near(budget, delta, frame.size, cap, n_classes, relation),
            curvature=mean_curvature(base_rate),
            variance=variance,
        )
        if sources and n_classes == 2:
            informed += 1 / variance  # so near that the error of these few records counts as well
        least = ridge_floor if delta else class_floor(n_classes, ridge_floor)
        ridge = with_floor(informed, budget, least)
    else:
        floor = class_floor(n_classes, ridge_floor) if alpha == "auto" else ridge_floor
        ridge = summed_ridge(alpha, budget, public_samples, frame.size, cap=cap, floor=floor)
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
    mechanism: PerturbedObjective
    if isinstance(frame, BodyFrame) and not delta:
        mechanism = BodyObjectivePerturbation(**common, body=frame.body)
    else:
        mechanism = ball_objective(delta, **common)
    return LinearPlan(frame, mechanism, prior, public_samples, sources)


def _noise_near(
    budget: float, delta: float, size: int, cap: float, n_classes: int, relation: Neighbours
) -> float:
    """Return the variance of one coordinate of the noise, without what the Jacobian costs."""
    if not delta:
        return noise_variance(budget, size, cap if n_classes == 2 else CLASS_SLOPE)
    objective = GaussianObjective(
        ridge=float("inf"), cap=cap, n_classes=n_classes, neighbours=relation
    )
    return calibrate_gaussian(budget, delta, objective) ** 2


def ball_objective(delta: float, **common: Any) -> PerturbedObjective:
    """Return the mechanism for rows in the unit ball: Gaussian if there is a delta."""
    if delta > 0:
        return GaussianObjectivePerturbation(**common, delta=delta)
    return ObjectivePerturbation(**common)


def row_count(n_samples: int, relation: Neighbours, declared: int | None) -> RowCount:
    """Return the number of rows; where it is not public nothing in a plan may know it."""
    if relation is not Neighbours.ADD_REMOVE:
        return n_samples
    if declared is None:
        raise InvalidParameter(
            "declared_samples must be given with neighbours='add-remove': there the number of "
            "rows is not public, so the ridge needs a public stand-in."
        )
    return HiddenSize(int(declared))
