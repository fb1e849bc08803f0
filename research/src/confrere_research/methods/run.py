"""What a method is told, and how its scores are judged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from confrere.arrays import Floats
from confrere.errors import InvalidParameter
from confrere_research.problems.shapes import Labels


@dataclass(frozen=True)
class Run:
    """Budget, seed and settings of one run."""

    epsilon: float | None
    seed: int
    options: Mapping[str, Any]

    @property
    def budget(self) -> float:
        """Epsilon of a private method."""
        if self.epsilon is None:
            raise InvalidParameter("epsilon is needed: the method is private.")
        return self.epsilon

    @property
    def rng(self) -> np.random.Generator:
        """A fresh generator from the seed."""
        return np.random.default_rng(self.seed)


def auc(y: Labels, scores: Floats) -> float:
    """Return the area under the ROC curve."""
    return float(roc_auc_score(y, scores))
