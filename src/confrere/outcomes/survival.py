"""Survival regression: what is expected of whom, by when, under the noise of one person.

Proof: docs/proofs/survival.md.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
from numpy.typing import ArrayLike, NDArray
from typing_extensions import override

from confrere.arrays import Floats
from confrere.errors import InvalidData, InvalidParameter
from confrere.estimators.base import estimator, numbers
from confrere.outcomes.regression import Regressor
from confrere.outcomes.times import TimeToEvent


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
class PrivateSurvivalRegression(Regressor):
    """Private survival regression with hazards that are constant on pieces of time.

    Parameters
    ----------
    schema : PublicSchema
        What raw columns mean, with a :class:`~confrere.survival.TimeToEvent` of at least two pieces
        as its outcome; without it nothing can be fitted.
    cap : float
        So many expected events of one person count in full: of more the loss is curved no longer.
        A larger cap has less bias where events are frequent, and as much more noise.

    Notes
    -----
    :Releases: coefficients (logarithms of hazard ratios) and the hazard of every piece
    :Guarantee: one person is one record, however many pieces it lives through
    :Proof: docs/proofs/survival.md
    """

    cap: Annotated[float, numbers("a number from 1 on", 1, np.finfo(float).max)] = 1.0

    _kind = "survival"
    _outcomes = (TimeToEvent,)

    @override
    def predict(self, X: object) -> NDArray[np.float64]:
        """Return the risk of every row: the logarithm of its hazard, beside that of others."""
        return np.asarray(self.model_.decision_function(self._rows(X)))

    def predict_survival(self, X: object, times: ArrayLike) -> Floats:
        """Return ``(n, times)``: the probability that no event is before a time."""
        return np.asarray(self.model_.link.staying(self.predict(X), times))

    @override
    def score(self, X: object, y: object = None, sample_weight: object = None) -> float:
        """Return the C-index; looks at the times, unpaid."""
        if sample_weight is not None:
            raise InvalidParameter("sample_weight must be None: pairs of records are counted.")
        return concordance(self.model_.encoder.schema.label(X if y is None else y), self.predict(X))
