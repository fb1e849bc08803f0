"""A classifier of two levels: models of parts, and one model of their scores."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from confrere.model.classifier import Model, clip_values
from confrere.model.scoring import (
    LARGEST,
    Clip,
    Floats,
    number,
    numbers,
    scores,
    two_probabilities,
    wrong,
)

Combine = Literal["stack", "vote", "alone"]


@dataclass(frozen=True, eq=False, kw_only=True)
class LowLevelModel:
    """One released low-level model and the public facts about its group.

    Attributes
    ----------
    name : str
        Which part of the data it saw.
    features : array of int
        Columns that it uses.
    coef : array
        Released weights on those columns.
    intercept : float
        Released intercept.
    clip : Clip, optional
        What happens to its columns of a row before they are scored.
    importance : float
        The group's share of the declared importance.
    epsilon : float
        The group's share of the budget.
    noise : float
        Expected norm of the noise in its objective, for rows in the unit ball.
    baseline : float
        Public score of the base rate, taken off before the score is used.
    sharpness : float
        Factor on its score before it becomes a meta feature.
    """

    name: str
    features: NDArray[np.intp]
    coef: Floats
    intercept: float
    importance: float = 1.0
    epsilon: float = 0.0
    noise: float = 0.0
    baseline: float = 0.0
    sharpness: float = 1.0
    clip: Clip | None = None

    def __post_init__(self) -> None:
        features = np.array(self.features, dtype=np.intp)
        coef = numbers(self.coef, "groups.coef")
        if features.ndim != 1 or not len(features) or features.min() < 0:
            raise wrong("groups.features", "must be positions >= 0, one or more")
        if coef.shape != features.shape:
            raise wrong("groups.coef", "must have one number per feature of its group")
        features.flags.writeable = False
        object.__setattr__(self, "features", features)
        object.__setattr__(self, "coef", coef)
        for name in ("intercept", "importance", "epsilon", "noise", "baseline", "sharpness"):
            object.__setattr__(self, name, number(getattr(self, name), f"groups.{name}"))

    def score(self, part: Any) -> Floats:
        """Return the sharpened score above the baseline, of rows with only this model's columns."""
        bounded = np.clip(part, -LARGEST, LARGEST)
        rows = bounded if self.clip is None else self.clip(bounded)
        plain = scores(rows, self.coef[None, :], np.array([self.intercept]))[:, 0]
        return np.asarray(self.sharpness * (plain - self.baseline))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "name": self.name,
            "features": self.features.tolist(),
            "clip": clip_values(self.clip),
            "coef": self.coef.tolist(),
            "intercept": self.intercept,
            "baseline": self.baseline,
            "sharpness": self.sharpness,
            "importance": self.importance,
            "epsilon": self.epsilon,
            "noise": self.noise,
        }


def meta_features(low_scores: Floats, combine: Combine = "stack") -> Floats:
    """Return what the high level reads of the low level's scores.

    For a stack ``(2 sigma(s) - 1) / sqrt(K)``: centred, and inside the unit ball by construction.
    Uncentred probabilities without an intercept can turn the ranking of the whole stack around
    when the high-level part has more negatives than positives.
    """
    if combine == "vote":
        return np.sign(low_scores)
    if combine == "alone":
        return low_scores
    return np.asarray(np.tanh(low_scores / 2) / math.sqrt(low_scores.shape[1]))


@dataclass(frozen=True, eq=False, kw_only=True)
class Stack(Model):
    """``coef . m + intercept`` of meta features ``m`` of the groups' scores ``z``.

    Parameters
    ----------
    groups : tuple of LowLevelModel
        The low level.
    coef, intercept : array of shape (K,) and float
        The high level: released weights, or the votes' weights.
    combine : {"stack", "vote", "alone"}
        ``m_k`` is ``tanh(z_k / 2) / sqrt(K)``; the sign of ``z_k``, and the probability is the
        share of votes; or ``z_k`` itself, for a single group.
    classes, features, clip, encoder, facts
        As in :class:`Model`; two classes.
    """

    groups: tuple[LowLevelModel, ...]
    coef: Floats
    intercept: float = 0.0
    combine: Combine = "stack"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "groups", tuple(self.groups))
        object.__setattr__(self, "coef", numbers(self.coef, "coef"))
        object.__setattr__(self, "intercept", number(self.intercept, "intercept"))
        if not self.groups or self.coef.shape != (len(self.groups),):
            raise wrong("coef", "must have one number per group")
        if len(self.classes) != 2:
            raise wrong("classes", "must be two for a stack")
        if any(group.features.max() >= len(self.features) for group in self.groups):
            raise wrong("groups.features", "must be positions of existing features")
        if self.combine not in ("stack", "vote", "alone"):
            raise wrong("combine", "must be 'stack', 'vote' or 'alone'")
        if self.combine == "alone" and len(self.groups) > 1:
            raise wrong("combine", "must be 'stack' or 'vote' for several groups")
        if self.combine == "vote" and (
            np.any(self.coef < 0) or not np.any(self.coef > 0) or self.intercept != 0
        ):
            raise wrong("coef", "of a vote must be weights >= 0, not all zero, and no intercept")

    def low_scores(self, rows: Any) -> Floats:
        """Return the groups' scores of rows that were read and clipped, one column each."""
        return np.column_stack([group.score(rows[:, group.features]) for group in self.groups])

    def probabilities(self, scores: Floats) -> Floats:
        """Return ``(n, 2)``: the logistic function, or the share of votes."""
        if self.combine != "vote":
            return two_probabilities(scores)
        share = scores / self.total_weight
        return np.column_stack([(1.0 - share) / 2.0, (1.0 + share) / 2.0])

    @property
    def total_weight(self) -> float:
        """The weight of all votes, added from left to right."""
        return float(sum(self.coef.tolist()))

    def arrays(self) -> Mapping[str, Floats]:
        """Return every group's weights and constant, and the high level's."""
        found = {f"low_{k}": np.append(g.coef, g.intercept) for k, g in enumerate(self.groups)}
        found["baseline"] = np.array([group.baseline for group in self.groups])
        found["sharpness"] = np.array([group.sharpness for group in self.groups])
        found["high"] = np.append(self.coef, self.intercept)
        return found

    def _scores(self, rows: Any) -> Floats:
        meta = meta_features(self.low_scores(rows), self.combine)
        return scores(meta, self.coef[None, :], np.array([self.intercept]))[:, 0]

    def _numbers(self) -> dict[str, Any]:
        return {
            "groups": [group.to_dict() for group in self.groups],
            "combine": self.combine,
            "coef": self.coef.tolist(),
            "intercept": self.intercept,
            "link": "share" if self.combine == "vote" else "sigmoid",
        }
