"""Released stacks: models of groups and what combines them; their predictions are written here."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from confrere.model.models import Model, clip_values
from confrere.model.scoring import (
    LARGEST,
    Clip,
    Floats,
    number,
    numbers,
    scores,
    softmax,
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
    coef : array of shape (d,), or (K, d) of K > 2 classes
        Released weights on those columns.
    intercept : float, or array of shape (K,)
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
    intercept: float | Floats
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
        if coef.ndim not in (1, 2) or coef.shape[-1:] != features.shape:
            raise wrong("groups.coef", "must have one number per feature of its group")
        features.flags.writeable = False
        object.__setattr__(self, "features", features)
        object.__setattr__(self, "coef", coef)
        for name in ("importance", "epsilon", "noise", "baseline", "sharpness"):
            object.__setattr__(self, name, number(getattr(self, name), f"groups.{name}"))
        if coef.ndim == 1:
            object.__setattr__(self, "intercept", number(self.intercept, "groups.intercept"))
            return
        intercept = numbers(self.intercept, "groups.intercept")
        if intercept.shape != coef.shape[:1]:
            raise wrong("groups.intercept", "must have one number per class")
        object.__setattr__(self, "intercept", intercept)

    @property
    def n_scores(self) -> int:
        """How many scores it gives: one for two classes, else one per class."""
        return 1 if self.coef.ndim == 1 else len(self.coef)

    def score(self, part: Any) -> Floats:
        """Return the sharpened scores above the baseline, of rows with only this model's columns.

        ``(n,)`` for two classes, ``(n, K)`` for more.
        """
        bounded = np.clip(part, -LARGEST, LARGEST)
        rows = bounded if self.clip is None else self.clip(bounded)
        found = scores(rows, np.atleast_2d(self.coef), np.atleast_1d(self.intercept))
        plain = found[:, 0] if self.coef.ndim == 1 else found
        return np.asarray(self.sharpness * (plain - self.baseline))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "name": self.name,
            "features": self.features.tolist(),
            "clip": clip_values(self.clip),
            "coef": self.coef.tolist(),
            "intercept": np.asarray(self.intercept).tolist(),
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

    Parameters
    ----------
    low_scores : array of shape (n, groups), or (n, K, groups) of K > 2 classes
        A vote of several classes is one for the first of the highest scores.
    combine : {"stack", "vote", "alone"}
        See :class:`Stack`.
    """
    if combine == "vote" and low_scores.ndim == 3:
        votes = np.zeros(low_scores.shape)
        np.put_along_axis(votes, low_scores.argmax(axis=1)[:, None, :], 1.0, axis=1)
        return votes
    if combine == "vote":
        return np.sign(low_scores)
    if combine == "alone":
        return low_scores
    return np.asarray(np.tanh(low_scores / 2) / math.sqrt(low_scores.shape[-1]))


@dataclass(frozen=True, eq=False, kw_only=True)
class Stack(Model):
    """A weighted sum of what the groups' models say: meta features ``m`` of their scores ``z``.

    Of K > 2 classes every group has a score per class, the same weights add up every class's, and
    there is no intercept.

    Parameters
    ----------
    groups : tuple of LowLevelModel
        The low level.
    coef, intercept : array of shape (K,) and float
        The high level: released weights, or the votes' weights.
    combine : {"stack", "vote", "alone"}
        ``m_k`` is ``tanh(z_k / 2) / sqrt(K)``; the sign of ``z_k``, and the probability is the
        share of votes; or ``z_k`` itself, for a single group. Of several classes a vote is for the
        class of the highest score.
    classes, features, clip, encoder, facts
        As in :class:`Model`.
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
        n_scores = 1 if len(self.classes) == 2 else len(self.classes)
        if any(group.n_scores != n_scores for group in self.groups):
            raise wrong("groups.coef", "must have one row per class of more than two")
        if n_scores > 1 and self.intercept != 0:
            raise wrong("intercept", "must be 0 for more than two classes")
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
        """Return the groups' scores of rows that were read and clipped, groups last."""
        return np.stack([group.score(rows[:, group.features]) for group in self.groups], axis=-1)

    def probabilities(self, scores: Floats) -> Floats:
        """Return ``(n, K)``: the logistic function, softmax, or the share of votes."""
        if scores.ndim == 2:
            return scores / self.total_weight if self.combine == "vote" else softmax(scores)
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
        found = {
            f"low_{k}": np.concatenate([g.coef, np.asarray(g.intercept)[..., None]], axis=-1)
            for k, g in enumerate(self.groups)
        }
        found["baseline"] = np.array([group.baseline for group in self.groups])
        found["sharpness"] = np.array([group.sharpness for group in self.groups])
        found["high"] = np.append(self.coef, self.intercept)
        return found

    def _scores(self, rows: Any) -> Floats:
        meta = meta_features(self.low_scores(rows), self.combine)
        flat = meta.reshape(-1, len(self.groups))
        found = scores(flat, self.coef[None, :], np.array([self.intercept]))
        return found.reshape(meta.shape[:-1])

    @property
    def _link(self) -> str:
        return "sigmoid" if len(self.classes) == 2 else "softmax"

    def _numbers(self) -> dict[str, Any]:
        return {
            "groups": [group.to_dict() for group in self.groups],
            "combine": self.combine,
            "coef": self.coef.tolist(),
            "intercept": self.intercept,
            "link": "share" if self.combine == "vote" else self._link,
        }
