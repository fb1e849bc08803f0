"""What stacked models share: released low-level models, meta features and the high level."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from confrere.errors import InvalidParameter
from confrere.estimators.base import ModelPrediction, check_choice
from confrere.estimators.linear_plan import Alpha, Loss, check_linear_parameters
from confrere.guarantee import check_epsilon
from confrere.maths.calibration import automatic_ridge, free_ridge
from confrere.mechanisms.objective_perturbation import (
    SOLVER_SHARE,
    Calibration,
    ObjectivePerturbation,
)
from confrere.model import Clip, LowLevelModel, Stack, StackFacts
from confrere.model.scoring import UNIT_ROWS
from confrere.model.stack import meta_features
from confrere.rows.ball import into_ball
from confrere.rows.groups import GroupRows

Combiner = Literal["stack", "vote", "weighted_vote"]

#: The public constant of the high level, inside its norm bound.
HIGH_LEVEL_CONSTANT = 0.5


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


class Stacking(ModelPrediction):
    """What every stacking classifier checks, and how its released stack shows."""

    model_: Stack

    epsilon: float
    alpha: Alpha
    high_alpha: Alpha
    high_fraction: float
    loss: Loss
    calibration: Calibration
    combiner: Combiner

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

    @property
    def low_level_(self) -> tuple[LowLevelModel, ...]:
        """Released models with their groups, importances and shares."""
        return self.model_.groups

    @property
    def high_level_(self) -> HighLevelModel | None:
        """The released combination; None for votes and for a single group."""
        if self.model_.combine != "stack":
            return None
        return HighLevelModel(self.model_.coef, self.model_.intercept)


def group_rows(facts: StackFacts, groups: Sequence[LowLevelModel]) -> GroupRows:
    """Return the public map from rows to groups that a stack was learned with."""
    features = tuple(group.features for group in groups)
    return GroupRows(features, facts.norms, facts.rows, facts.clipping, facts.constant)


def stack_model(
    low: Sequence[LowLevelModel],
    high: HighLevelModel | None,
    combiner: Combiner,
    *,
    rows: GroupRows | None = None,
    **known: Any,
) -> Stack:
    """Return what a stack's plan released as one model.

    Parameters
    ----------
    low, high
        Released models; ``high`` is None for votes and for a single group.
    combiner : {"stack", "vote", "weighted_vote"}
        How several groups are combined.
    rows : GroupRows, optional
        Whether rows or groups are brought to length one first.
    **known
        Classes, features and facts.
    """
    unit = Clip(bound=UNIT_ROWS) if rows is not None and rows.rule == "unit" else None
    jointly = rows is not None and rows.clipping == "joint"
    groups = tuple(replace(one, clip=None if jointly else unit) for one in low)
    known |= {"groups": groups, "clip": unit if jointly else None}
    if high is not None:
        return Stack(coef=high.coef, intercept=high.intercept, **known)
    if len(groups) == 1:
        return Stack(coef=np.ones(1), intercept=low[0].baseline, combine="alone", **known)
    weights = [one.importance if combiner == "weighted_vote" else 1 / len(low) for one in low]
    return Stack(coef=np.asarray(weights), combine="vote", **known)
