"""Survival regression: what is expected of whom, by when, under the noise of one person.

Proof: docs/proofs/survival.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
from numpy.typing import ArrayLike, NDArray
from typing_extensions import override

from confrere.arrays import Floats
from confrere.data.encoding import SchemaEncoder
from confrere.errors import InvalidData, InvalidParameter
from confrere.estimators.base import (
    Bound,
    LinearClassifier,
    PrivateEstimator,
    Relation,
    Ridge,
    RowEngine,
    estimator,
    numbers,
)
from confrere.kernel.losses import Logistic
from confrere.methods.allowance import Alpha, free_ridge, ridge_for
from confrere.methods.design import Settings
from confrere.methods.geometry import JACOBIAN
from confrere.methods.plan import LinearPlan, Names, PublicFacts
from confrere.model import Linear
from confrere.outcomes.pieces import PiecewiseExponential
from confrere.outcomes.times import Hazards, TimeToEvent

Cap = Annotated[float, numbers("a number from 1 on", 1, np.finfo(float).max)]


@dataclass(frozen=True, eq=False)
class SurvivalPlan(LinearPlan):
    """An objective of persons, and what its weights say of hazards."""

    @override
    def assemble(self, released: Mapping[str, Floats], names: Names) -> Linear:
        loss, weights = self.mechanism.loss, released["weights"]
        assert isinstance(loss, PiecewiseExponential)
        coef, _ = self.frame.coefficients(weights[: -loss.n_scores + 1])
        none = np.zeros(self.frame.n_features)
        each = [self.frame.coefficients(np.append(none, one)) for one in weights[-loss.n_scores :]]
        levels = np.array([level for _, level in each])
        # The logarithm of the hazard of all pieces together, and how it is spread over them.
        hazards = np.diff([0.0, *loss.ends]) / loss.ends[-1] * np.exp(levels - levels.max())
        parts = np.cumsum(hazards) / hazards.sum()
        link = Hazards(ends=loss.ends, parts=tuple(parts.tolist()))
        facts = replace(self.facts(), loss=loss.known_as(), **self.frame.learned_with())
        level = np.array([levels.max() + math.log(hazards.sum())])
        return Linear(coef=coef[None], intercept=level, facts=facts, link=link, **vars(names))


def plan_survival(
    asked: Settings, facts: PublicFacts, outcome: TimeToEvent, cap: float
) -> SurvivalPlan:
    """Return the plan of a survival regression: ridge and centre by public facts."""
    frame, pieces = asked.ball(facts.n_features), len(outcome.pieces)
    # What a logistic regression would take whose noise is as loud as that of the columns here.
    allowed = asked.allowed(facts.n_samples, 2).at(loss=Logistic())
    alpha: Alpha = "auto" if isinstance(asked.alpha, str) else float(np.ravel(asked.alpha)[0])
    ridge = ridge_for(allowed, frame.size + pieces - 1, alpha)
    # Expected events bend a loss up to the cap: that is what the Jacobian of a person costs.
    ridge = max(ridge, cap * free_ridge(allowed.budget, 1 / JACOBIAN))
    rate = 0.5 if outcome.base_rate is None else outcome.base_rate
    point = frame.weights(None, math.log(-math.log1p(-rate)))
    centre = np.append(point[:-1], np.full(pieces, point[-1]))
    loss = PiecewiseExponential(outcome.pieces, frame.constant**2, cap)
    made = allowed.at(loss=loss).objective(frame.bound, ridge, centre)
    return SurvivalPlan(frame, made, allowed.records)


def concordance(times: ArrayLike, risks: ArrayLike) -> float:
    """Return Harrell's C-index: how often who is at more risk has the event before who is at less.

    Times are below zero where no event ended them; pairs that nobody knows the order of are left
    out, and equal risks count half.
    """
    signed = np.asarray(times, dtype=np.float64)
    risk = np.asarray(risks, dtype=np.float64)
    right = pairs = 0.0
    for time, own in zip(signed[signed > 0], risk[signed > 0], strict=True):
        # Who was still there at that time, without an event then.
        later = risk[(np.abs(signed) > time) | (signed == -time)]
        right += np.sum(later < own) + np.sum(later == own) / 2
        pairs += len(later)
    if not pairs:
        raise InvalidData("y must have pairs of records of which one has the event first.")
    return float(right / pairs)


@estimator
class PrivateSurvivalRegression(PrivateEstimator):
    """Private survival regression with hazards that are constant on pieces of time.

    Parameters
    ----------
    schema : PublicSchema
        What raw columns mean, with a :class:`~confrere.survival.TimeToEvent` of at least two pieces
        as its outcome; without it nothing can be fitted.
    alpha : float or "auto"
        Ridge on the mean loss.
    cap : float
        So many expected events of one person count in full: of more the loss is curved no longer.
        A larger cap has less bias where events are frequent, and as much more noise.
    engine : {"loop", "joblib", "dask"}, str or engine
        Who reads the rows.

    Notes
    -----
    :Releases: coefficients (logarithms of hazard ratios) and the hazard of every piece
    :Guarantee: one person is one record, however many pieces it lives through
    :Proof: docs/proofs/survival.md
    """

    alpha: Ridge = "auto"
    neighbours: Relation = "replace-one"
    cap: Cap = 1.0
    engine: RowEngine = None
    data_norm: Bound = 1.0

    _kind = "survival"

    @property
    def _outcome(self) -> TimeToEvent:
        schema = self.schema.schema if isinstance(self.schema, SchemaEncoder) else self.schema
        outcome = None if schema is None else schema.outcome
        if not isinstance(outcome, TimeToEvent) or len(outcome.pieces) < 2:
            raise InvalidParameter("schema must have a TimeToEvent of several pieces as outcome.")
        return outcome

    @override
    def _asked(self, *, opened: bool = True) -> Settings:
        # Coefficients are read, so columns are straight lines; experts are asked by no check.
        asked = super()._asked(opened=opened)
        return replace(asked, purpose="inference", prior=None, geometry="l2")

    @override
    def plan(self, facts: PublicFacts) -> SurvivalPlan:
        return plan_survival(self._asked(), facts, self._outcome, float(self.cap))

    def _learned(self, labels: Floats, _: object) -> tuple[Floats, Floats]:
        return labels, np.empty(0)

    @property
    def coef_(self) -> Floats:
        """Released logarithms of hazard ratios, for rows as they are encoded."""
        return np.asarray(self.model_.coef[0])

    summary = LinearClassifier.summary

    def predict(self, X: object) -> NDArray[np.float64]:
        """Return the risk of every row: the logarithm of its hazard, beside that of others."""
        return np.asarray(self.model_.decision_function(self._rows(X)))

    def predict_survival(self, X: object, times: ArrayLike) -> Floats:
        """Return ``(n, times)``: the probability that no event is before a time."""
        return np.asarray(self.model_.link.staying(self.predict(X), times))

    def score(self, X: object, y: object = None, sample_weight: object = None) -> float:
        """Return the C-index; looks at the times, unpaid."""
        if sample_weight is not None:
            raise InvalidParameter("sample_weight must be None: pairs of records are counted.")
        return concordance(self.model_.encoder.schema.label(X if y is None else y), self.predict(X))
