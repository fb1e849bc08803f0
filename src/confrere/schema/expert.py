"""The classifier that needs no data: what a private one must beat."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin

from confrere.errors import InvalidParameter, SchemaError

if TYPE_CHECKING:
    from confrere.schema.public_schema import PublicSchema


class ExpertClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Predict from declared signs, importances and the base rate alone.

    The log odds are ``log(base_rate / (1 - base_rate)) + strength * schema.expert_score(X)``.

    Parameters
    ----------
    schema : PublicSchema
        Declares signs, and importances and a base rate if they are known.
    strength : float, default=1.0
        Standard deviation of the log odds if features were independent: how much the experts'
        score is believed. It changes probabilities, not the ranking.

    Notes
    -----
    ``fit`` learns nothing. A data frame is taken as a raw table, an array as one that
    ``schema.encoder()`` has encoded without weights.
    """

    def __init__(self, schema: PublicSchema, *, strength: float = 1.0) -> None:
        self.schema = schema
        self.strength = strength

    def fit(self, X: Any = None, y: Any = None) -> Self:  # noqa: ARG002
        """Do nothing: all there is to know is declared."""
        return self

    @property
    def classes_(self) -> NDArray[np.int_]:
        """The two sides."""
        return np.array([-1, 1])

    @property
    def intercept_(self) -> float:
        """Log odds of the declared base rate; 0 if there is none."""
        outcome = self.schema.outcome
        if outcome is not None and outcome.classes is not None:
            raise SchemaError("the expert classifier needs a label with two sides.")
        rate = None if outcome is None else outcome.base_rate
        return 0.0 if rate is None else math.log(rate / (1 - rate))

    def decision_function(self, X: pd.DataFrame | ArrayLike) -> NDArray[np.float64]:
        """Return the log odds of the positive side."""
        if not 0 < self.strength < np.inf:
            raise InvalidParameter("strength must be a finite number > 0.")
        return self.intercept_ + self.strength * self.schema.expert_score(X)

    def predict_proba(self, X: pd.DataFrame | ArrayLike) -> NDArray[np.float64]:
        """Return the probabilities of -1 and of 1."""
        odds = self.decision_function(X)
        return np.column_stack([expit(-odds), expit(odds)])

    def predict(self, X: pd.DataFrame | ArrayLike) -> NDArray[np.int_]:
        """Return -1 or 1."""
        return np.where(self.decision_function(X) > 0, 1, -1)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        tags.classifier_tags.multi_class = False
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags
