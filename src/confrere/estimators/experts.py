"""What an estimator is told before any data: coefficients as given, or a schema's experts."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from numpy.typing import ArrayLike

from confrere.arrays import Floats
from confrere.errors import InvalidParameter
from confrere.plans.declared_priors import Prior, declared_prior
from confrere.schema import SchemaEncoder


@dataclass(frozen=True, eq=False)
class Opinion:
    """Coefficients and intercept for rows as encoded, and the importances that are in these.

    Attributes
    ----------
    coef : array or None
        Log odds per unit of each column; None if nothing is declared.
    intercept : float
        Log odds of the declared base rate.
    importance : array or None
        Public factors that the rows were encoded with.
    """

    coef: ArrayLike | None
    intercept: float
    importance: Floats | None = None

    def prior(
        self, data_norm: float, n_features: int, feature_scale: ArrayLike | None = None
    ) -> Prior | None:
        """Return it as something that can be checked; None if it says nothing about columns."""
        return declared_prior(
            self.coef, self.intercept, data_norm, n_features, feature_scale, self.importance
        )


def opinion_of(prior: Any, intercept: float, encoder: SchemaEncoder | None) -> Opinion:
    """Return what ``prior`` and ``prior_intercept`` declare about rows of ``encoder``.

    Experts also know the base rate, unless an intercept is given. An opinion is one already, from
    somebody who has the encoder: in a study only what it makes of experts crosses.
    """
    if isinstance(prior, Opinion):
        return replace(prior, intercept=float(intercept))
    if not (isinstance(prior, str) and prior == "experts"):
        return Opinion(prior, float(intercept))
    if encoder is None or not encoder.schema.has_signs:
        raise InvalidParameter(
            'prior="experts" needs schema=, a PublicSchema whose columns have a sign.'
        )
    outcome = encoder.schema.outcome
    rate = None if outcome is None else outcome.base_rate
    if not intercept and rate is not None:
        intercept = math.log(rate / (1 - rate))
    weights = encoder.multipliers() if encoder.weighted else None
    return Opinion(encoder.expert_prior(), float(intercept), weights)
