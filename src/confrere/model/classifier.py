"""What every released classifier is and does: predictions are written here and nowhere else."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from confrere.model.public_facts import Encoder, Facts
from confrere.model.scoring import Clip, Floats, readable_rows, wrong
from confrere.model.strict_json import canonical_bytes

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
        What the columns mean; ``features`` are its columns.
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
        """Return every number that was learned, for ``model.npz``."""

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
        """Return the SHA-256 of the function from rows to labels, in hexadecimal digits."""
        return hashlib.sha256(canonical_bytes(self._function())).hexdigest()

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
