"""The model as plain numbers: what ``model.json`` holds and a partner re-implements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from confrere.errors import InvalidData
from confrere.release.plain_values import Floats, fields, numbers, wrong
from confrere.release.predictors import Clip, Group, Linear, Stack

_COMMON = ("kind", "classes", "features", "center", "scale", "clip")
_LINEAR = ("coef", "intercept", "link")
_STACK = ("groups", "combine", "meta_scale", "coef", "intercept", "link")

#: How far two machines' tanh and exp may be apart; everything else has no slack at all.
TOLERANCE = 1e-12


@dataclass(frozen=True, eq=False)
class PlainModel:
    """A classifier made of public facts and noised numbers, predicting with numpy alone.

    Rows are centred, divided by ``scale``, clipped, and given to the predictor.

    Parameters
    ----------
    predictor : Linear or Stack
        What turns clipped rows into scores.
    classes : sequence of str, int, float or bool
        Labels; with two classes a positive score means the second.
    features : sequence of str
        Names of the columns, in order.
    center, scale : array of shape (d,), optional
        Public facts, by default zeros and ones.
    clip : Clip, optional
        The clipping that training used.
    """

    predictor: Linear | Stack
    classes: tuple[str | int | float | bool, ...]
    features: tuple[str, ...]
    center: ArrayLike | None = None
    scale: ArrayLike | None = None
    clip: Clip | None = None
    _center: Floats = field(init=False, repr=False)
    _scale: Floats = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "classes", tuple(self.classes))
        object.__setattr__(self, "features", tuple(self.features))
        d = len(self.features)
        center = np.zeros(d) if self.center is None else self.center
        scale = np.ones(d) if self.scale is None else self.scale
        object.__setattr__(self, "_center", numbers(center, "center"))
        object.__setattr__(self, "_scale", numbers(scale, "scale"))
        self._check()

    def decision_function(self, X: ArrayLike) -> Floats:
        """Return scores: ``(n,)`` for two classes, ``(n, K)`` for one score each."""
        return self.predictor.scores(self._prepared(X))

    def predict_proba(self, X: ArrayLike) -> Floats:
        """Return ``(n, K)`` probabilities, or shares of votes."""
        return self.predictor.probabilities(self.decision_function(X))

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the label of every row."""
        return np.asarray(self.classes)[self._positions(self.decision_function(X))]

    def to_dict(self) -> dict[str, Any]:
        """Return what ``model.json`` holds under ``model``."""
        description: dict[str, Any] = {
            "kind": "linear" if isinstance(self.predictor, Linear) else "stack",
            "classes": list(self.classes),
            "features": list(self.features),
            "center": self._center.tolist(),
            "scale": self._scale.tolist(),
            "clip": None if self.clip is None else self.clip.to_dict(),
        }
        return {**description, **self.predictor.to_dict()}

    @classmethod
    def from_dict(cls, description: Mapping[str, Any]) -> PlainModel:
        """Read what :meth:`to_dict` wrote.

        Raises
        ------
        InvalidRelease
            If anything is missing, unknown, of the wrong shape or not finite.
        """
        predictor: Linear | Stack
        if isinstance(description, Mapping) and description.get("kind") == "stack":
            found = fields(description, "model", *_COMMON, *_STACK)
            predictor = Stack(
                groups=tuple(Group.from_dict(group) for group in _list(found, "groups")),
                coef=found["coef"],
                intercept=found["intercept"],
                meta_scale=found["meta_scale"],
                combine=found["combine"],
            )
        else:
            found = fields(description, "model", *_COMMON, *_LINEAR)
            predictor = Linear(found["coef"], found["intercept"])
        if found["kind"] not in ("linear", "stack"):
            raise wrong("kind", "must be linear or stack")
        if found["link"] != predictor.to_dict()["link"]:
            raise wrong("link", "does not fit coef and combine")
        return cls(
            predictor=predictor,
            classes=tuple(_list(found, "classes")),
            features=tuple(_list(found, "features")),
            center=found["center"],
            scale=found["scale"],
            clip=Clip.from_dict(found["clip"]),
        )

    def test_vectors(self) -> list[dict[str, Any]]:
        """Return five rows, made from public facts, with the answers a correct reader gives."""
        X = self._example_rows()
        scores = self.decision_function(X)
        shares = self.predictor.probabilities(scores)
        labels = self._positions(scores)
        return [
            {
                "x": row.tolist(),
                "decision": score.tolist(),
                "probability": share.tolist(),
                "label": self.classes[label],
            }
            for row, score, share, label in zip(X, scores, shares, labels, strict=True)
        ]

    def check_vectors(self, vectors: Sequence[Mapping[str, Any]]) -> None:
        """Refuse a description whose own test vectors it does not reproduce."""
        expected = self.test_vectors()
        same = isinstance(vectors, list) and len(vectors) == len(expected)
        for given, own in zip(vectors, expected, strict=True) if same else ():
            same = same and isinstance(given, Mapping) and set(given) == set(own)
            same = same and given["x"] == own["x"] and given["label"] == own["label"]
            same = same and all(
                np.shape(given[name]) == np.shape(own[name])
                and np.allclose(numbers(given[name], name), own[name], rtol=0, atol=TOLERANCE)
                for name in ("decision", "probability")
            )
        if not same:
            raise wrong("test_vectors", "are not what it predicts")

    def _prepared(self, X: ArrayLike) -> Floats:
        rows = np.asarray(X, dtype=np.float64)
        if rows.ndim != 2 or rows.shape[1] != len(self.features):
            raise InvalidData(
                f"X must be rows of {len(self.features)} features, in the order of `features`."
            )
        if not np.all(np.isfinite(rows)):
            raise InvalidData("X must be finite; fill in what is missing as in training.")
        rows = (rows - self._center) / self._scale
        return rows if self.clip is None else self.clip(rows)

    def _positions(self, scores: Floats) -> NDArray[np.intp]:
        if scores.ndim == 1:
            return (scores > 0).astype(np.intp)
        return np.asarray(scores.argmax(axis=1))

    def _example_rows(self) -> Floats:
        """Rows inside and outside the clipping bound, by arithmetic, never by drawing."""
        d = len(self.features)
        i, j = np.arange(5)[:, None], np.arange(d)[None, :]
        bound = 1.0 if self.clip is None else self.clip.bound
        spread = ((7 * i + 3 * j + i * j) % 11 - 5) / 4 * (i / 2) * bound / np.sqrt(d)
        return np.asarray(np.round(self._center + self._scale * spread, 6))

    def _check(self) -> None:
        d, n_classes = len(self.features), len(self.classes)
        if d == 0 or not all(isinstance(name, str) for name in self.features):
            raise wrong("features", "must be the columns' names")
        if len(set(self.features)) != d:
            raise wrong("features", "must be different names")
        if any(not isinstance(label, str | int | float | bool) for label in self.classes):
            raise wrong("classes", "must be text, numbers or booleans")
        if len({type(label) for label in self.classes}) > 1 or len(set(self.classes)) < n_classes:
            raise wrong("classes", "must be different labels of one type")
        if self._center.shape != (d,) or self._scale.shape != (d,) or np.any(self._scale == 0):
            raise wrong("center, scale", "must have one number per feature, no scale zero")
        if isinstance(self.predictor, Linear):
            coef = self.predictor.coef
            if coef.shape[-1] != d or n_classes != (2 if coef.ndim == 1 else coef.shape[0]):
                raise wrong("coef", "must be (d,) for two classes, (K, d) for K")
        elif n_classes != 2 or any(max(g.features) >= d for g in self.predictor.groups):
            raise wrong("groups", "must name existing features, for two classes")


def _list(found: Mapping[str, Any], name: str) -> list[Any]:
    if not isinstance(found[name], list):
        raise wrong(name, "must be a list")
    return list(found[name])
