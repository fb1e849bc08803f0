"""Released classifiers: what all have, and linear ones; predictions are written here, once."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from confrere.errors import InvalidData
from confrere.model.public_facts import Encoder, Facts
from confrere.model.scoring import (
    Clip,
    Floats,
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
