"""The parts of a plain model, in operations any language has.

Sums run from left to right and start at the intercept: a loop over ``s = s + a[j] * b[j]`` in
double precision gives the same bits everywhere, which a library's dot product does not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from confrere.release.plain_values import Floats, fields, number, numbers, position, wrong


def left_to_right(U: Floats, weights: Floats, start: float = 0.0) -> Floats:
    """Return ``start + sum_j U[:, j] weights[j]``, added in that order."""
    total = np.full(U.shape[0], start)
    for column, weight in zip(U.T, weights, strict=True):
        total += column * weight
    return total


def sigmoid(z: Floats) -> Floats:
    """Return ``1 / (1 + exp(-z))``; far on the left it is zero."""
    with np.errstate(over="ignore"):
        return np.asarray(1.0 / (1.0 + np.exp(-z)))


@dataclass(frozen=True)
class Clip:
    """``u -> u * (radius / max(bound, ||u||))``.

    ``Clip(bound=B)`` brings rows of declared norm ``B`` into the unit ball; ``radius`` is less
    than one where a public constant shares the ball, and ``bound`` where nothing is rescaled.
    """

    bound: float
    radius: float = 1.0
    norm: int = 2

    def __post_init__(self) -> None:
        for name in ("bound", "radius"):
            object.__setattr__(self, name, number(getattr(self, name), f"clip.{name}"))
            if getattr(self, name) <= 0:
                raise wrong(f"clip.{name}", "must be above zero")
        if self.norm not in (1, 2):
            raise wrong("clip.norm", "must be 1 or 2")

    def __call__(self, U: Floats) -> Floats:
        """Return clipped rows."""
        if self.norm == 2:
            norms = np.sqrt(left_to_right(U * U, np.ones(U.shape[1])))
        else:
            norms = left_to_right(np.abs(U), np.ones(U.shape[1]))
        return U * (self.radius / np.maximum(self.bound, norms))[:, None]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {"norm": self.norm, "bound": self.bound, "radius": self.radius}

    @classmethod
    def from_dict(cls, values: object) -> Clip | None:
        """Read what :meth:`to_dict` wrote; ``None`` is no clipping."""
        return None if values is None else cls(**fields(values, "clip", "norm", "bound", "radius"))


@dataclass(frozen=True)
class Linear:
    """``coef @ x + intercept``: one score for two classes, or one per class.

    Parameters
    ----------
    coef : array of shape (d,) or (K, d)
        Weights, of clipped features.
    intercept : float or array of shape (K,)
        Constants; the weight of a public constant feature times that constant.
    """

    coef: Floats
    intercept: Floats

    def __post_init__(self) -> None:
        coef, intercept = numbers(self.coef, "coef"), numbers(self.intercept, "intercept")
        if coef.ndim not in (1, 2) or intercept.shape != coef.shape[:-1]:
            raise wrong("intercept", "must be a number for coef (d,), (K,) for coef (K, d)")
        object.__setattr__(self, "coef", coef)
        object.__setattr__(self, "intercept", intercept)

    def scores(self, X: Floats) -> Floats:
        """Return ``(n,)`` or ``(n, K)`` scores."""
        if self.coef.ndim == 1:
            return left_to_right(X, self.coef, float(self.intercept))
        columns = zip(self.coef, self.intercept, strict=True)
        return np.column_stack([left_to_right(X, w, float(b)) for w, b in columns])

    def probabilities(self, scores: Floats) -> Floats:
        """Return ``(n, K)``: the logistic function for two classes, softmax for one score each."""
        if scores.ndim == 1:
            positive = sigmoid(scores)
            return np.column_stack([1.0 - positive, positive])
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        return np.asarray(weights / left_to_right(weights, np.ones(weights.shape[1]))[:, None])

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "coef": self.coef.tolist(),
            "intercept": self.intercept.tolist(),
            "link": "sigmoid" if self.coef.ndim == 1 else "softmax",
        }


@dataclass(frozen=True)
class Group:
    """One low-level model: some features, clipped on their own, and a weight for each."""

    features: tuple[int, ...]
    coef: Floats
    intercept: float = 0.0
    clip: Clip | None = None

    def __post_init__(self) -> None:
        features = tuple(position(one) for one in self.features)
        coef = numbers(self.coef, "groups.coef")
        if not features or coef.shape != (len(features),):
            raise wrong("groups.coef", "must have one number per feature of its group")
        object.__setattr__(self, "features", features)
        object.__setattr__(self, "coef", coef)
        object.__setattr__(self, "intercept", number(self.intercept, "groups.intercept"))

    def scores(self, X: Floats) -> Floats:
        """Return ``(n,)`` scores."""
        U = X[:, self.features]
        return left_to_right(U if self.clip is None else self.clip(U), self.coef, self.intercept)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "features": list(self.features),
            "clip": None if self.clip is None else self.clip.to_dict(),
            "coef": self.coef.tolist(),
            "intercept": self.intercept,
        }

    @classmethod
    def from_dict(cls, values: object) -> Group:
        """Read what :meth:`to_dict` wrote."""
        found = fields(values, "groups", "features", "clip", "coef", "intercept")
        features = found.pop("features")
        if not isinstance(features, list):
            raise wrong("groups.features", "must be a list of positions")
        return cls(**{**found, "features": tuple(features), "clip": Clip.from_dict(found["clip"])})


@dataclass(frozen=True)
class Stack:
    """Two levels: group scores ``z_k``, then one model of them.

    ``combine="stack"``: ``coef . m + intercept`` of ``m_k = meta_scale * tanh(z_k / 2)``, which
    is ``meta_scale * (2 sigma(z_k) - 1)``; ``meta_scale`` is ``1/sqrt(K)`` in the unit ball.
    ``combine="vote"``: ``coef . sign(z)`` with the votes' weights; its probability is the share
    of votes.
    """

    groups: tuple[Group, ...]
    coef: Floats
    intercept: float = 0.0
    meta_scale: float = 1.0
    combine: str = "stack"

    def __post_init__(self) -> None:
        coef = numbers(self.coef, "coef")
        if not self.groups or coef.shape != (len(self.groups),):
            raise wrong("coef", "must have one number per group")
        if self.combine not in ("stack", "vote"):
            raise wrong("combine", "must be 'stack' or 'vote'")
        if self.combine == "vote" and (np.any(coef < 0) or not np.any(coef > 0)):
            raise wrong("coef", "of a vote must be weights >= 0, not all zero")
        if self.combine == "vote" and (self.intercept != 0 or self.meta_scale != 1):
            raise wrong("combine", "by vote has no intercept and no meta_scale")
        object.__setattr__(self, "groups", tuple(self.groups))
        object.__setattr__(self, "coef", coef)
        for name in ("intercept", "meta_scale"):
            object.__setattr__(self, name, number(getattr(self, name), name))

    def scores(self, X: Floats) -> Floats:
        """Return ``(n,)`` scores."""
        Z = np.column_stack([group.scores(X) for group in self.groups])
        meta = np.sign(Z) if self.combine == "vote" else self.meta_scale * np.tanh(Z / 2.0)
        return left_to_right(meta, self.coef, self.intercept)

    def probabilities(self, scores: Floats) -> Floats:
        """Return ``(n, 2)``."""
        if self.combine == "stack":
            positive = sigmoid(scores)
        else:
            positive = (1.0 + scores / self.total_weight) / 2.0
        return np.column_stack([1.0 - positive, positive])

    @property
    def total_weight(self) -> float:
        """The weight of all votes, added from left to right."""
        return float(left_to_right(self.coef[None, :], np.ones(self.coef.size))[0])

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "groups": [group.to_dict() for group in self.groups],
            "combine": self.combine,
            "meta_scale": self.meta_scale,
            "coef": self.coef.tolist(),
            "intercept": self.intercept,
            "link": "sigmoid" if self.combine == "stack" else "share",
        }
