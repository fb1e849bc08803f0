"""What stacked models share: released low-level models, meta features and the high level."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from confrere.errors import InvalidParameter
from confrere.estimators.base import check_choice
from confrere.estimators.linear_plan import Alpha, Loss, check_linear_parameters
from confrere.guarantee import check_epsilon
from confrere.maths.calibration import automatic_ridge, free_ridge
from confrere.mechanisms.objective_perturbation import (
    SOLVER_SHARE,
    Calibration,
    ObjectivePerturbation,
)
from confrere.rows.ball import into_ball
from confrere.rows.scores import linear_scores

Combiner = Literal["stack", "vote", "weighted_vote"]

#: The public constant of the high level, inside its norm bound.
HIGH_LEVEL_CONSTANT = 0.5


@dataclass(frozen=True)
class LowLevelModel:
    """One released low-level model and the public facts about its group.

    Attributes
    ----------
    name : str
        Which part of the data it saw.
    features : array of int
        Columns that it uses.
    coef : array
        Released weights on those columns, for rows as given to ``fit``.
    intercept : float
        Released intercept.
    importance : float
        The group's share of the declared importance.
    epsilon : float
        The group's share of the budget.
    noise : float
        Expected norm of the noise in its objective, for rows in the unit ball.
    baseline : float
        Public score of the base rate, taken off before the score is used.
    sharpness : float
        Factor on its score before it becomes a meta feature; see :func:`common_sharpness`.
    """

    name: str
    features: NDArray[np.intp]
    coef: NDArray[np.float64]
    intercept: float
    importance: float
    epsilon: float
    noise: float
    baseline: float
    sharpness: float

    def score(self, X: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the sharpened score above the baseline, of rows with only this model's columns."""
        offset = self.sharpness * (self.intercept - self.baseline)
        return linear_scores(X, self.sharpness * self.coef, offset)


@dataclass(frozen=True)
class HighLevelModel:
    """The released combination of meta features ``tanh(score / 2) / sqrt(K)``."""

    coef: NDArray[np.float64]
    intercept: float


def common_sharpness(released: Sequence[NDArray[np.float64]]) -> float:
    """Return the factor that brings the longest of the weights on unit rows to ``sqrt(d)``.

    A strong ridge makes small weights, small scores and meta features that drown in the high
    level's noise, although their ranking is good. The weights are released already, so sharpening
    costs nothing. One factor for all models keeps what their lengths say about how much they
    learned; weights that are longer, as learned from much data, are left alone.
    """
    longest = max(released, key=lambda weights: float(np.linalg.norm(weights)))
    length = float(np.linalg.norm(longest))
    return max(1.0, math.sqrt(len(longest)) / length) if length else 1.0


def meta_features(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ``(2 sigma(s) - 1) / sqrt(K)``: centred, and inside the unit ball but for rounding.

    Uncentred probabilities without an intercept can turn the ranking of the whole stack around
    when the high-level part has more negatives than positives.
    """
    return np.asarray(np.tanh(scores / 2) / math.sqrt(scores.shape[1]))


def high_level_mechanism(
    epsilon: float, n_samples: int, n_models: int, *, alpha: Any, prior_norm: float
) -> ObjectivePerturbation:
    """Return the high level's mechanism: PLR on meta features and a constant."""
    budget = epsilon * (1 - SOLVER_SHARE)
    dimension = n_models + 1
    if alpha == "auto":
        ridge = automatic_ridge(budget, max(n_samples, 1), dimension)
    else:
        ridge = max(n_samples * float(alpha), free_ridge(budget))
    return ObjectivePerturbation(
        epsilon=epsilon,
        n_samples=n_samples,
        n_features=dimension,
        ridge=ridge,
        prior_norm=prior_norm,
    )


def high_level_rows(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the high level's rows, constant included, inside the ball whatever the scores."""
    return np.asarray(into_ball(meta_features(scores), constant=HIGH_LEVEL_CONSTANT))


def high_level_prior(weights: ArrayLike, baseline: float = 0.0) -> NDArray[np.float64]:
    """Return the public point to shrink towards: the weighted sum of the low level's logits.

    ``2 tanh(s/2)`` is ``s`` for small scores, so ``sum_k w_k s_k`` is this multiple of the meta
    features; weights of one are the naive Bayes rule for groups of features, weights that sum to
    one the average for groups of samples. The intercept starts from the baseline.
    """
    shrink = math.sqrt(1 - HIGH_LEVEL_CONSTANT**2)
    factors = np.asarray(weights, dtype=np.float64)
    return np.append(2 * math.sqrt(len(factors)) / shrink * factors, baseline / HIGH_LEVEL_CONSTANT)


def high_level_model(weights: NDArray[np.float64]) -> HighLevelModel:
    """Read the released weights of :func:`high_level_rows`."""
    shrink = math.sqrt(1 - HIGH_LEVEL_CONSTANT**2)
    return HighLevelModel(
        coef=np.asarray(weights[:-1] * shrink),
        intercept=float(weights[-1] * HIGH_LEVEL_CONSTANT),
    )


class Stacking:
    """What every stacking classifier checks, and how its released stack predicts."""

    epsilon: float
    alpha: Alpha
    high_alpha: Alpha
    high_fraction: float
    loss: Loss
    calibration: Calibration
    combiner: Combiner
    classes_: NDArray[Any]
    low_level_: tuple[LowLevelModel, ...]
    high_level_: HighLevelModel | None
    _validate_rows: Callable[[Any], Any]
    _scores: Callable[[Any], NDArray[np.float64]]

    def _check_stack(self, combiners: tuple[str, ...]) -> None:
        """Refuse wrong settings that all stacks share."""
        check_linear_parameters(
            epsilon=self.epsilon, alpha=self.alpha, loss=self.loss, calibration=self.calibration
        )
        check_choice(self.combiner, "combiner", combiners)
        if self.high_alpha != "auto":
            check_epsilon(self.high_alpha, "high_alpha")
        if not 0 < self.high_fraction < 1:
            raise InvalidParameter("high_fraction must lie strictly between 0 and 1.")

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Return the score of every row; positive means the second class."""
        scores = self._scores(self._validate_rows(X))
        if self.high_level_ is not None:
            combined = meta_features(scores) @ self.high_level_.coef + self.high_level_.intercept
            return np.asarray(combined)
        if scores.shape[1] == 1:
            return scores[:, 0] + self.low_level_[0].baseline
        votes = np.where(scores > 0, 1.0, -1.0)
        if self.combiner == "weighted_vote":
            return np.asarray(votes @ [model.importance for model in self.low_level_])
        return np.asarray(votes.mean(axis=1))

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the model's class probabilities; of votes, the share of the votes."""
        scores = self.decision_function(X)
        voted = self.high_level_ is None and len(self.low_level_) > 1
        positive = (1 + scores) / 2 if voted else special.expit(scores)
        return np.column_stack([1 - positive, positive])

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable class of every row."""
        positive = self.decision_function(X) > 0
        return np.asarray(self.classes_[positive.astype(np.intp)])
