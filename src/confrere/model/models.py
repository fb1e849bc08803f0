"""Released classifiers, linear ones and stacks: predictions are written here and nowhere else."""

from __future__ import annotations

import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from confrere.errors import InvalidData
from confrere.model.public_facts import Encoder, Facts
from confrere.model.scoring import (
    LARGEST,
    Clip,
    Floats,
    number,
    numbers,
    readable_rows,
    scores,
    softmax,
    two_probabilities,
    wrong,
)
from confrere.model.strict_json import canonical_bytes, hashed_array

Label: TypeAlias = str | int | float | bool


@dataclass(frozen=True, eq=False, kw_only=True)
class Model(ABC):
    """A classifier made of noised numbers and public facts, with a prediction for every finite row.

    Parameters
    ----------
    classes : tuple of str, int, float or bool
        Labels; with two classes a positive score means the second.
    features : tuple of str
        Names of the columns, in order.
    clip : Clip, optional
        What happens to a row before it is scored.
    encoder : Encoder, optional
        What turns raw rows into those that are read here; ``features`` are its encoded columns.
    facts : Facts, optional
        What is public about the making.
    """

    classes: tuple[Label, ...]
    features: tuple[str, ...]
    clip: Clip | None = None
    encoder: Encoder | None = None
    facts: Facts = field(default_factory=Facts)

    def __post_init__(self) -> None:
        object.__setattr__(self, "classes", tuple(self.classes))
        object.__setattr__(self, "features", tuple(self.features))
        if len(self.classes) < 2 or not self.features:
            raise wrong("classes, features", "must be two classes or more, one feature or more")
        if self.encoder is not None:
            self._check_encoder(self.encoder)

    def _check_encoder(self, encoder: Encoder) -> None:
        if encoder.names != self.features:
            raise wrong("features", "must be the encoded columns of the encoder")
        if encoder.labels is not None and len(encoder.labels) != len(self.classes):
            raise wrong("encoder.labels", "must be one name per class")

    @property
    def labels(self) -> tuple[Label, ...]:
        """What the data call the classes, in their order."""
        named = None if self.encoder is None else self.encoder.labels
        return self.classes if named is None else named

    def encoded(self, table: Any) -> Floats:
        """Return the rows that are read here, of a raw table.

        Raises
        ------
        InvalidData
            If the table does not fit, or the model has no encoder.
        """
        if self.encoder is None:
            raise InvalidData("the model has no encoder; it reads rows that were encoded before.")
        return np.asarray(self.encoder.encoding.transform(table))

    def decision_function(self, X: Any) -> Floats:
        """Return scores: ``(n,)`` for two classes, ``(n, K)`` for more."""
        rows = readable_rows(X, len(self.features))
        return self._scores(rows if self.clip is None else self.clip(rows))

    def predict_proba(self, X: Any) -> Floats:
        """Return ``(n, K)`` probabilities; of votes, their shares."""
        return self.probabilities(self.decision_function(X))

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the label of every row."""
        return np.asarray(self.classes)[self.codes(self.decision_function(X))]

    @staticmethod
    def codes(scores: Floats) -> NDArray[np.intp]:
        """Return the position among the classes that scores speak for."""
        if scores.ndim == 1:
            return (scores > 0).astype(np.intp)
        return np.asarray(scores.argmax(axis=1))

    @abstractmethod
    def probabilities(self, scores: Floats) -> Floats:
        """Return the probabilities that belong to scores."""

    @abstractmethod
    def arrays(self) -> Mapping[str, Floats]:
        """Return every number that was learned."""

    @abstractmethod
    def _scores(self, rows: Any) -> Floats:
        """Return the scores of rows that were read and clipped."""

    @abstractmethod
    def _numbers(self) -> dict[str, Any]:
        """Return what turns clipped rows into scores, as plain values."""

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values; :func:`read_model` reads them."""
        return {
            **self._function(),
            "encoder": None if self.encoder is None else self.encoder.to_dict(),
            "facts": self.facts.to_dict(),
        }

    def digest(self) -> str:
        """Return the SHA-256 of the function from rows to labels, in hexadecimal digits.

        Of raw rows, if there is an encoder. Weights go in as :func:`hashed_array`.
        """
        function = self._function()
        for name in self.arrays().keys() & function.keys():
            function[name] = hashed_array(function[name])
        if self.encoder is not None:
            function["encoder"] = self.encoder.to_dict()
        return hashlib.sha256(canonical_bytes(function)).hexdigest()

    def stored(self) -> Mapping[str, Floats]:
        """Return the arrays of ``model.npz``: what was learned, and the encoder's numbers."""
        return {**self.arrays(), **({} if self.encoder is None else self.encoder.arrays())}

    def require_plain(self) -> None:
        """Refuse names and labels that cannot leave: repeated ones, and labels that JSON lacks."""
        if not all(isinstance(name, str) for name in self.features):
            raise wrong("features", "must be the columns' names")
        if len(set(self.features)) < len(self.features):
            raise wrong("features", "must be different names")
        if any(not isinstance(label, str | int | float | bool) for label in self.classes):
            raise wrong("classes", "must be text, numbers or booleans")
        if len({type(label) for label in self.classes}) > 1:
            raise wrong("classes", "must be labels of one type")
        if len(set(self.classes)) < len(self.classes):
            raise wrong("classes", "must be different labels")

    def _function(self) -> dict[str, Any]:
        return {
            "kind": type(self).__name__.lower(),
            "classes": list(self.classes),
            "features": list(self.features),
            "clip": clip_values(self.clip),
            **self._numbers(),
        }


def clip_values(clip: Clip | None) -> dict[str, Any] | None:
    """Return a clip as plain values."""
    return None if clip is None else {"norm": clip.norm, "bound": clip.bound, "radius": clip.radius}


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
    """A weighted sum of what the groups' models say: meta features ``m`` of their scores ``z``.

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
