"""A linear classifier: one score for two classes, one per class for more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from confrere.model.classifier import Model
from confrere.model.scoring import Floats, numbers, scores, softmax, two_probabilities, wrong


@dataclass(frozen=True, eq=False, kw_only=True)
class Linear(Model):
    """``coef @ x + intercept``, with a logistic or softmax link.

    Parameters
    ----------
    coef : array of shape (1, d) or (K, d)
        Weights of clipped features; one row for two classes.
    intercept : array of shape (1,) or (K,)
        Constants.
    classes, features, clip, encoder, facts
        As in :class:`Model`.
    """

    coef: Floats
    intercept: Floats

    def __post_init__(self) -> None:
        super().__post_init__()
        coef = np.atleast_2d(numbers(self.coef, "coef"))
        intercept = np.atleast_1d(numbers(self.intercept, "intercept"))
        n_scores = 1 if len(self.classes) == 2 else len(self.classes)
        if coef.shape != (n_scores, len(self.features)) or intercept.shape != (n_scores,):
            raise wrong("coef, intercept", "must be (1, d) and (1,) for two classes, else (K, d)")
        object.__setattr__(self, "coef", coef)
        object.__setattr__(self, "intercept", intercept)

    def probabilities(self, scores: Floats) -> Floats:
        """Return ``(n, K)``: the logistic function for two classes, softmax for more."""
        return two_probabilities(scores) if scores.ndim == 1 else softmax(scores)

    def arrays(self) -> Mapping[str, Floats]:
        """Return weights and constants."""
        return {"coef": self.coef, "intercept": self.intercept}

    def _scores(self, rows: Any) -> Floats:
        found = scores(rows, self.coef, self.intercept)
        return found[:, 0] if len(self.coef) == 1 else found

    def _numbers(self) -> dict[str, Any]:
        if len(self.coef) == 1:
            return {
                "coef": self.coef[0].tolist(),
                "intercept": float(self.intercept[0]),
                "link": "sigmoid",
            }
        return {
            "coef": self.coef.tolist(),
            "intercept": self.intercept.tolist(),
            "link": "softmax",
        }
