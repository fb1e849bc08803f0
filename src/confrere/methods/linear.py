"""A private linear model, planned from public facts: what it costs, then what it does."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from typing_extensions import override

from confrere.arrays import Floats
from confrere.data import SchemaEncoder
from confrere.data.body import BodyFrame
from confrere.data.frame import Frame
from confrere.data.spill import watched
from confrere.errors import InvalidParameter
from confrere.kernel.guarantee import Guarantee, PrivacyEvent
from confrere.kernel.norms import Ball
from confrere.kernel.streams import RandomSource
from confrere.mechanisms.measurements import Act, Objective
from confrere.methods.allowance import Allowance, Alpha, Alphas, Near, column_ridges, ridge_for
from confrere.methods.geometry import LOG_ODDS, Leaf, schema_frame, spent_delta
from confrere.methods.plan import LabelledTable, ModelPlan, Names, Term
from confrere.methods.prior_check import UNCHECKED, Belief
from confrere.methods.priors import CheckedPlan, Prior, plan_near
from confrere.model import Facts, Linear

#: Of a ball, or of the body that a schema declares.
Coordinates = Frame | BodyFrame


def linear_frame(
    n_features: int,
    *,
    data_norm: float,
    fit_intercept: bool = True,
    intercept_scale: float,
    feature_scale: ArrayLike | None = None,
    norm: Ball = "l2",
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


@dataclass(frozen=True, eq=False)
class BallGeometry:
    """Rows in a ball, whatever is spent and known."""

    plain: Frame

    def law(self, allowed: Allowance, log_odds: float) -> Allowance:  # noqa: ARG002
        """Return what is spent: all of a delta."""
        return allowed

    def frame(self, allowed: Allowance, log_odds: float) -> Frame:  # noqa: ARG002
        """Return the coordinates."""
        return self.plain


@dataclass(frozen=True, eq=False)
class SchemaGeometry:
    """Rows in the body that a schema declares."""

    encoder: SchemaEncoder  #: Of a form for bodies
    constant: bool = True  #: Whether there is an intercept
    leaf: Leaf = "Max"  #: What noise is made for: the body itself, or a ball in its coordinates

    def law(self, allowed: Allowance, log_odds: float) -> Allowance:
        """Return what is spent: of a delta all or nothing, as pays for log odds so unknown."""
        spent = spent_delta(self.encoder, allowed, constant=self.constant, log_odds=log_odds)
        return allowed.at(delta=spent)

    def frame(self, allowed: Allowance, log_odds: float) -> BodyFrame:
        """Return the coordinates in which log odds that are so unknown are learned best."""
        return schema_frame(
            self.encoder, allowed, constant=self.constant, log_odds=log_odds, leaf=self.leaf
        )


Geometry = BallGeometry | SchemaGeometry


@dataclass(frozen=True, eq=False)
class LinearPlan(ModelPlan):
    """One perturbed objective in declared coordinates."""

    frame: Coordinates  #: The public coordinates
    mechanism: Objective  #: Noise, ridge and price
    public_samples: int  #: The number of records that everyone may know
    sources: tuple[Any, ...] = ()  #: Released models that ``centre`` was made from

    def guarantee(self) -> Guarantee:
        """Return the price."""
        return self.mechanism.guarantee()

    @override
    def event(self) -> PrivacyEvent:
        return self.mechanism.event()

    def facts(self) -> Facts:
        """Return the public facts that a release of this model carries."""
        rate = self.mechanism.rate
        return Facts(
            n_samples=self.public_samples,
            rho=None if self.mechanism.delta else rate,
            sigma=1 / rate if self.mechanism.delta else None,
            ridge=self.mechanism.blocks[0].ridge,
            **self.frame.learned_with(),
        )

    def release(self, data: LabelledTable, source: RandomSource) -> dict[str, Floats]:
        """Return the noised weights."""
        unchanged, rows = watched(data.X), self.frame.lazy(data.X, data.engine)
        ((weights,),) = source.draw(self.mechanism, ([rows], data.short_labels))
        unchanged()
        return {"weights": weights}

    def assemble(self, released: Mapping[str, Floats], names: Names) -> Linear:
        """Return the model of rows as given."""
        return linear_model(self.frame, released["weights"], self.facts(), names)

    def minimisers(self) -> dict[str, Act]:
        """Return the one act."""
        return {"weights": self.mechanism.act}

    def terms(self, data: LabelledTable) -> list[Term]:
        """Return the one objective."""
        rows = self.frame.lazy(data.X)
        return [Term("model", self.mechanism, ([rows], data.labels))]

    @property
    def batched(self) -> bool:
        """Whether many runs share their passes over the rows."""
        return self.mechanism.loss.n_classes == 2


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


def plan_linear(
    allowed: Allowance,
    frame: Coordinates,
    *,
    alpha: Alpha = "auto",
    ridge_floor: float = 2.0,
    prior: Floats | None = None,
    near: Near | None = None,
    sources: tuple[Any, ...] = (),
) -> LinearPlan:
    """Return the plan of a private linear model.

    With a delta noise is Gaussian; without, it has the norm of the frame. The automatic ridge of a
    body is its own. ``prior`` is a point in the frame's coordinates, and ``near`` what is known of
    it.
    """
    if alpha == "auto" and isinstance(frame, BodyFrame):
        ridge = frame.ridge
    else:
        ridge = ridge_for(allowed, frame.size, alpha, near=near, floor=ridge_floor)
    mechanism = allowed.objective(frame.bound, ridge, prior)
    return LinearPlan(frame, mechanism, allowed.records, sources)


def design_linear(
    allowed: Allowance,  # Of the check and the fit
    geometry: Geometry,  # Where rows are
    prior: Prior | None = None,  # What is shrunk towards
    *,
    alpha: Alphas = "auto",  # Ridge on the mean loss
    feature_scale: ArrayLike | None = None,  # Public factors of the columns; a prior has its own
    intercept: ArrayLike = 0.0,  # Public intercept to shrink towards where there is no prior
    ridge_floor: float = 2.0,  # Of a ball
    # Whether the prior is checked; one that scores all rows alike has nothing to check
    check: bool = True,
    sources: tuple[Any, ...] = (),  # Released models that the prior was made from
) -> LinearPlan | CheckedPlan:
    """Return the plan of a private linear model, near a prior if there is one.

    Law, coordinates, centre and ridge are decided here, once for all that a check may show.
    """
    known = LOG_ODDS if prior is None else prior.variance
    law = cache(lambda left: geometry.law(left, known))

    @cache
    def framed(own: Allowance, variance: float, believed: float) -> tuple[Coordinates, Alpha]:
        scale = feature_scale if prior is None else prior.scale_at(Belief(believed, math.inf))
        frame: Coordinates = geometry.frame(own, variance).weighted(scale)[0]
        if np.ndim(alpha) == 0:
            return frame, alpha  # type: ignore[return-value]
        smallest, shorter = column_ridges(alpha, frame.n_features)
        frame, reach = frame.weighted(shorter)
        return frame, smallest / reach

    def fit(left: Allowance, belief: Belief) -> LinearPlan:
        own = law(left)
        if prior is None:
            frame, ridge = framed(own, known, 1.0)
            point = None
            if np.any(intercept):
                levels = [frame.weights(None, float(one)) for one in np.atleast_1d(intercept)]
                point = np.array(levels) if own.loss.n_scores > 1 else levels[0]
            return plan_linear(own, frame, alpha=ridge, ridge_floor=ridge_floor, prior=point)
        believed = 1.0 if belief.trust == 1 else belief.factor  # many lead to the same coordinates
        frame, ridge = framed(own, prior.variance_at(belief), believed)
        return plan_linear(
            own,
            frame,
            alpha=ridge,
            ridge_floor=ridge_floor,
            prior=prior.point(frame, belief),
            near=prior.near(belief),
            sources=sources,
        )

    if prior is None or not check or prior.deviation == 0:
        return fit(allowed, UNCHECKED)
    return plan_near(prior, fit, allowed, sources)
