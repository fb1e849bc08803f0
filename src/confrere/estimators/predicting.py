"""Predictions of a model under the data's own names, from raw rows where it has an encoder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import accuracy_score

from confrere.errors import InvalidData
from confrere.guarantee import Guarantee
from confrere.ledger import Receipt
from confrere.model import Encoder, Model
from confrere.release import Release
from confrere.schema import SchemaEncoder


class Predicting:
    """What every classifier with a model does.

    scikit-learn wants labels sorted; a model knows which side is positive. Where the two orders
    differ, scores change their sign and columns their place.
    """

    model_: Model

    def _rows(self, X: Any) -> Any:
        """Return the rows that the model reads."""
        return X if self.model_.encoder is None else self.model_.encoded(X)

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Return the score of every row, ``(n,)`` for two classes and ``(n, K)`` for more."""
        rows = self._rows(X)
        scores = self.model_.decision_function(rows)
        order = _order(self.model_)
        if scores.ndim == 2:
            return np.asarray(scores[:, order])
        return scores if order[0] == 0 else -scores

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the model's class probabilities; of votes, the share of the votes."""
        rows = self._rows(X)
        probabilities = self.model_.predict_proba(rows)
        return np.asarray(probabilities[:, _order(self.model_)])

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable class of every row."""
        rows = self._rows(X)
        codes = self.model_.codes(self.model_.decision_function(rows))
        return np.asarray(np.asarray(self.model_.labels)[codes])

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return the share of rows whose class is predicted right; looks at the labels, unpaid.

        Parameters
        ----------
        X : rows as ``predict`` takes them
        y : labels as ``fit`` takes them
            May be left out where a schema says in which column of the table they are.
        sample_weight : array, optional
        """
        predicted = self.predict(X)
        return float(accuracy_score(self.true_labels(X, y), predicted, sample_weight=sample_weight))

    def true_labels(self, X: Any, y: Any = None) -> Any:
        """Return labels by the names that are predicted; without ``y``, those in the table."""
        encoder = self.model_.encoder
        outcome = None if encoder is None else encoder.schema.outcome
        if outcome is None or encoder is None or encoder.labels is None:
            if y is None:
                raise InvalidData("y must be given: no schema says where the labels are.")
            return y
        found = outcome.encode(outcome.column_of(X if y is None else y))
        return np.asarray(encoder.labels)[np.searchsorted(np.asarray(self.model_.classes), found)]


def sorted_labels(model: Model) -> NDArray[Any]:
    """Return the names of the classes in scikit-learn's order."""
    return np.asarray(np.asarray(model.labels)[_order(model)])


def _order(model: Model) -> NDArray[np.intp]:
    return np.argsort(np.asarray(model.labels), kind="stable")


def carried(encoder: SchemaEncoder, model: Model) -> Encoder:
    """Return an encoder as a model carries it, with the data's names for the schema's classes."""
    outcome = encoder.schema.outcome
    codes = None if outcome is None else (-1, 1) if outcome.classes is None else outcome.names
    return Encoder.of(encoder, labelled=tuple(model.classes) == codes)


def who_paid(receipt: Receipt, sources: Sequence[Release]) -> dict[str, Receipt | Guarantee]:
    """Return who paid what, so that a card can say what a person in several domains pays."""
    if not sources:
        return {}
    paid: dict[str, Receipt | Guarantee] = {"target": receipt}
    for k, release in enumerate(sources):
        name = "source" if len(sources) == 1 else f"source {k + 1}"
        paid[name] = release.receipt or release.guarantee
    return paid
