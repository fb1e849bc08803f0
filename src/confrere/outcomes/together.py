"""Amounts, counts and times of several organisations: the protocols of classes, by other losses."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from typing_extensions import override

from confrere.data.features import Outcome
from confrere.estimators import CollaborativeClassifier
from confrere.estimators.base import AutoCount, Ridge, Spare, estimator
from confrere.estimators.base import Count as AtLeastOne
from confrere.kernel.guarantee import Guarantee
from confrere.outcomes.kinds import Count, Quantity
from confrere.outcomes.regression import (
    PrivateLinearRegression,
    PrivatePoissonRegression,
    Regressor,
    Width,
)
from confrere.outcomes.survival import PrivateSurvivalRegression
from confrere.outcomes.times import TimeToEvent

#: Who knows what is predicted of a kind of outcome, and how that is scored.
ALONE: dict[type[Outcome], type[Regressor]] = {
    Quantity: PrivateLinearRegression,
    Count: PrivatePoissonRegression,
    TimeToEvent: PrivateSurvivalRegression,
}


@estimator
class CollaborativeRegression(Regressor):
    """Regression of several organisations: of the quantity, count or time that a schema declares.

    Parameters
    ----------
    schema : PublicSchema
        What raw columns mean, with a :class:`Quantity`, :class:`Count` or :class:`TimeToEvent` as
        its outcome.
    method, rounds, combine
        As in :class:`confrere.CollaborativeClassifier`: ``"average"`` or ``"sums"``.
    width, loss, cap
        As in :class:`PrivateLinearRegression`, :class:`PrivatePoissonRegression` and
        :class:`confrere.survival.PrivateSurvivalRegression`, for the outcome that has them.

    Notes
    -----
    :Releases: coefficients of all, and every organisation's own release behind them
    :Proof: docs/proofs/averaging.md and secure_sums.md, with the page of the outcome's loss
    """

    method: Literal["average", "sums"] = "average"
    alpha: Ridge = "auto"
    rounds: AtLeastOne = 1
    combine: Literal["mean", "trimmed", "median"] = "mean"
    collusion_threshold: AutoCount = "auto"
    max_retries: Spare = 0
    width: Width = "auto"
    loss: Literal["log-cosh", "huber"] = "log-cosh"
    cap: Width = "auto"

    _kind = "collaborative"
    _outcomes = tuple(ALONE)

    fit = CollaborativeClassifier.fit
    prepare = CollaborativeClassifier.prepare
    plan = CollaborativeClassifier.plan

    @override
    def privacy_cost(
        self,
        n_samples: object,
        n_features: int | None = None,
        n_classes: int | None = None,
        n_parties: int = 2,
    ) -> Guarantee:
        """Return what one ``fit`` of so many parties of that size would spend; touches no data."""
        if self.method == "average":
            return super().privacy_cost(n_samples, n_features, n_classes)
        told = n_samples, n_features, n_classes, n_parties
        return CollaborativeClassifier.privacy_cost(self, *told)

    @override
    def predict(self, X: object) -> NDArray[np.float64]:
        """Return the mean that is expected of every row; of times the logarithm of its hazard."""
        return ALONE[type(self._outcome)].predict(self, X)

    predict_survival = PrivateSurvivalRegression.predict_survival

    @override
    def score(self, X: object, y: object = None, sample_weight: ArrayLike | None = None) -> float:
        """Return R2, the share of deviance or the C-index; looks at the outcomes, unpaid."""
        return float(ALONE[type(self._outcome)].score(self, X, y, sample_weight))
