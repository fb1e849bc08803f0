"""Released classifiers, linear ones and stacks: what is public about them, and predictions, once.

Rows become scores in operations any language has, with an answer for every finite row. Sums run
from left to right and start at the intercept: a loop over ``s = s + a[j] * b[j]`` in double
precision gives the same bits everywhere, which a library's dot product does not. Entries beyond
``LARGEST`` are read as ``LARGEST``, so that no sum of theirs overflows: every finite row has a
finite score, and no probability is undefined.
"""

from __future__ import annotations

import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import ConfigDict
from scipy import sparse, special

from confrere.arrays import Floats
from confrere.data.cells import Coded
from confrere.data.encoding import SchemaEncoder
from confrere.data.features import Form, Told
from confrere.data.schema import PublicSchema
from confrere.errors import InvalidData, InvalidRelease
from confrere.model.strict_json import canonical_bytes, hashed_array, wrong

_STRICT = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


@dataclass(frozen=True, kw_only=True)
class StackFacts:
    """The public plan of a stack over feature groups."""

    __pydantic_config__ = _STRICT

    norms: tuple[float, ...]  #: Declared bound of every group, or of the whole row, repeated
    clipping: Literal["separate", "joint"]  #: Whether the bound is a group's own or the whole row's
    constant: float  #: The public constant inside the bound
    n_low: int  #: Rows of the low level
    baseline: float  #: Public score of the base rate
    #: ``ridges``, ``rates``: of every group's objective.
    ridges: tuple[float, ...]
    rates: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class PriorFacts:
    """How far a prior was believed, after its paid check."""

    __pydantic_config__ = _STRICT

    factor: float  #: What the prior's log odds were multiplied by; a negative one turned it round
    sigma: float  #: Standard error of that factor, from public facts
    epsilon: float  #: What the check spent
    verifiable: bool  #: Whether the budget was enough to tell a right prior from a wrong one


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What a release says about its making; every fact is public, and none is needed to predict."""

    __pydantic_config__ = _STRICT

    #: The public number of rows; the declared one where the true one is private.
    n_samples: int | None = None
    #: Declared bound, constant and factors that rows were learned with.
    data_norm: float | None = None
    intercept_scale: float | None = None
    feature_scale: tuple[float, ...] | None = None
    #: Columns of every factor of the body that rows lay in, where noise was shaped like it.
    body: tuple[int, ...] | None = None
    kept: float | None = None  #: Share of the signal that records are expected to show
    loss: str | None = None
    ridge: float | None = None  #: On the sum of losses
    #: Of every factor of the body: the ridge on its columns, and the variance of one's noise.
    ridges: tuple[float, ...] | None = None
    noises: tuple[float, ...] | None = None
    #: Rate of the noise, or its deviation if it was Gaussian.
    rho: float | None = None
    sigma: float | None = None
    #: ``method`` to ``n_auxiliary``: of a model that several parties made.
    method: str | None = None
    parties: int | None = None
    rounds: int | None = None
    alpha: float | None = None
    n_auxiliary: int | None = None
    stack: StackFacts | None = None  #: Of a stack over feature groups
    prior: PriorFacts | None = None  #: Of a model near a prior that was checked

    def to_dict(self) -> dict[str, Any]:
        """Return the facts that are there, as plain values."""
        return {name: value for name, value in asdict(self).items() if value is not None}


@dataclass(frozen=True, kw_only=True)
class Encoder:
    """What turns raw rows into those that a model reads, and its classes into their names."""

    schema: PublicSchema  #: The public facts about raw columns
    #: The same as a program in the closed language, for whoever does not have this library.
    encoding: Told
    weighted: bool  #: Whether importances are weights; see :class:`~confrere.schema.SchemaEncoder`
    #: The names of the model's classes in the data, where they differ.
    labels: tuple[Any, ...] | None = None
    #: How columns are encoded; see :class:`~confrere.schema.SchemaEncoder`.
    form: Form = "standardised"

    @classmethod
    def of(cls, encoder: SchemaEncoder, *, labelled: bool = True) -> Encoder:
        """Return what a release carries of an encoder; ``labelled`` if classes are -1 and 1."""
        outcome = encoder.schema.outcome
        return cls(
            schema=encoder.schema,
            encoding=encoder.told(),
            weighted=bool(encoder.weighted),
            labels=outcome.names if labelled and outcome is not None else None,
            form=encoder.form,
        )

    def transformer(self) -> SchemaEncoder:
        """Return the transformer that encodes so."""
        return self.schema.encoder(
            weighted=self.weighted, clip_norm=self.encoding["norm"], form=self.form
        )

    def same_encoding(self, other: Encoder) -> bool:
        """Whether both encode alike, up to two machines' roundings."""
        return _alike(self.encoding, other.encoding)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "schema": self.schema.to_dict(),
            "weighted": self.weighted,
            "labels": None if self.labels is None else list(self.labels),
            "form": self.form,
            "encoding": self.encoding,
        }

    @classmethod
    def checked(cls, given: Encoder) -> Encoder:
        """Return what was read, if the program is that of the schema.

        Raises InvalidRelease if it is not, or the names are not the schema's.
        """
        own = cls.of(given.transformer())
        if not given.same_encoding(own) or given.weighted != own.weighted:
            raise InvalidRelease("the model is wrong: encoder.encoding is not that of its schema.")
        if given.labels not in (None, own.labels):
            raise InvalidRelease("the model is wrong: encoder.labels are not those of its schema.")
        return given


def _alike(one: Any, other: Any) -> bool:
    """Compare plain values; numbers may differ as two machines' logarithms do."""
    if isinstance(one, dict):
        return list(one) == list(other) and all(_alike(one[k], other[k]) for k in one)
    if isinstance(one, list | tuple):
        same_length = isinstance(other, list | tuple) and len(one) == len(other)
        return same_length and all(map(_alike, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-12, abs_tol=1e-12)
    return type(one) is type(other) and bool(one == other)


#: Numbers beyond it, in rows and in models, are read as it.
LARGEST = 1e100

#: Rows at a time: their columns, made contiguous, stay in the processor's cache.
_BLOCK = 4096


def numbers(values: ArrayLike, where: str) -> Floats:
    """Return a read-only copy within ``LARGEST``; refuse what is not numbers."""
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise wrong(where, "must be numbers, in rows of equal length") from error
    if np.any(np.isnan(array)):
        raise wrong(where, "must be numbers")
    array = np.array(np.clip(array, -LARGEST, LARGEST))
    array.flags.writeable = False
    return array


def number(value: Any, where: str) -> float:
    """Return one number within ``LARGEST``."""
    array = numbers(value, where)
    if array.shape != ():
        raise wrong(where, "must be one number")
    return float(array)


def readable_rows(X: Any, n_features: int) -> Any:
    """Return finite rows within ``LARGEST``, or refuse them; CSR rows stay CSR."""
    coded = isinstance(X, Coded)
    rows: Any = X if coded else X.tocsr().astype(np.float64) if is_sparse(X) else _dense(X)
    if len(rows.shape) != 2 or rows.shape[1] != n_features:
        raise InvalidData(
            f"X must be rows of {n_features} features, in the order of the model's features."
        )
    if coded:
        return rows
    values = rows.data if is_sparse(rows) else rows
    # Two passes that copy nothing: NaN is the smallest and the largest of whatever holds it.
    low, high = values.min(initial=0.0), values.max(initial=0.0)
    if not np.isfinite(low) or not np.isfinite(high):
        raise InvalidData("X must be finite; fill in what is missing as in training.")
    if low >= -LARGEST and high <= LARGEST:
        return rows
    bounded = np.clip(values, -LARGEST, LARGEST)
    if is_sparse(rows):
        return sparse.csr_array((bounded, rows.indices, rows.indptr), shape=rows.shape)
    return bounded


def is_sparse(rows: Any) -> bool:
    """Whether rows are held by their entries that are not zero."""
    return bool(sparse.issparse(rows))


def _dense(X: Any) -> Floats:
    try:
        return np.asarray(X, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidData("X must be rows of numbers; encode text columns first.") from None


def scores(rows: Any, coef: Floats, intercept: Floats) -> Floats:
    """Return ``intercept_k + sum_j rows[:, j] coef[k, j]``, a column each.

    Added in that order; of CSR rows, as :func:`readable_rows` returns them, the intercept last.
    """
    coef, intercept = np.clip(coef, -LARGEST, LARGEST), np.clip(intercept, -LARGEST, LARGEST)
    if not isinstance(rows, np.ndarray):
        return np.asarray(rows @ coef.T + intercept)
    found = np.empty((len(rows), len(coef)))
    weights = coef.T[:, :, None]
    for begin in range(0, len(rows), _BLOCK):
        columns = np.ascontiguousarray(rows[begin : begin + _BLOCK].T)
        total = np.repeat(intercept[:, None], columns.shape[1], axis=1)
        for column, weight in zip(columns, weights, strict=True):
            total += weight * column
        found[begin : begin + _BLOCK] = total.T
    return found


@dataclass(frozen=True)
class Link:
    """The share of the second class: ``q(u)/(q(u) + q(-u))``, ``u`` a score stretched and shifted.

    ``q`` is the sigmoid up to the cap of the loss. Where that loss is least in the population this
    is the share, whatever the cap; without one it is the sigmoid. Proof: docs/probabilities.md.
    """

    cap: float = 1.0  #: Largest slope of the loss
    slope: float = 1.0  #: ``u = slope z + shift``
    shift: float = 0.0
    fewest = 2  #: Classes
    gives, ratios, low, high = "", "", 0.0, 1.0  #: Of what is no class

    def __post_init__(self) -> None:
        for name in ("cap", "slope", "shift"):
            object.__setattr__(self, name, number(getattr(self, name), f"link.{name}"))
        if not 0.5 <= self.cap <= 1 or not self.slope > 0:
            raise wrong("link", "must be a cap from one half to one, a slope above 0 and a shift")

    @classmethod
    def shifted(cls, mean: float, deviation: float, kept: float, base_rate: float) -> Link:
        """Return what gives scores of public rows the base rate, and the area that is expected.

        Two normal laws whose means are ``D`` apart have the area ``Phi(D/sqrt 2)``: that of .7
        without noise. All scores together have the deviation ``sqrt(1 + p(1-p) D^2)``, and log odds
        ``D`` times that. Scores are moved as far as the intercept, learned soon, is unknown.
        """
        apart = math.sqrt(2) * float(special.ndtri(0.7)) * kept**0.1
        wanted = apart * math.sqrt(1 + base_rate * (1 - base_rate) * apart**2)
        slope, far = max(1.0, wanted / max(deviation, 1e-6)), (1 - kept) ** 4
        # Nearly the share of log odds that vary; in few digits, the same on every machine.
        steep = math.sqrt(1 + math.pi / 8 * (slope * deviation) ** 2)
        shift = far * (steep * float(special.logit(base_rate)) - slope * mean)
        return cls(slope=float(f"{slope**far:.6g}"), shift=round(shift, 6))

    def probabilities(self, u: Floats) -> Floats:
        """Return ``(n, 2)``, either side as exact as the other."""
        sides = np.minimum(special.expit(np.column_stack([-u, u])), self.cap)
        return np.asarray(sides / sides.sum(axis=1, keepdims=True))


Label: TypeAlias = str | int | float | bool


@dataclass(frozen=True, eq=False, kw_only=True)
class Model(ABC):
    """A classifier of noised numbers and public facts, with a prediction for every finite row."""

    classes: tuple[Label, ...]  #: Labels; with two classes a positive score means the second
    features: tuple[str, ...]  #: Names of the columns, in order
    #: What turns raw rows into those that are read here; ``features`` are its encoded columns.
    encoder: Encoder | None = None
    facts: Facts = field(default_factory=Facts)  #: What is public about the making
    link: Link = field(default_factory=Link)  #: From scores to probabilities of two classes

    def __post_init__(self) -> None:
        object.__setattr__(self, "classes", tuple(self.classes))
        object.__setattr__(self, "features", tuple(self.features))
        if len(self.classes) < self.link.fewest or not self.features:
            raise wrong("classes, features", "must be two classes or more, one feature or more")
        if len(self.labels) != len(self.classes):
            raise wrong("encoder.labels", "must be one name per class")
        if self.encoder is not None and self.encoder.transformer().names != self.features:
            raise wrong("features", "must be the encoded columns of the encoder")

    @property
    def labels(self) -> tuple[Label, ...]:
        """What the data call the classes, in their order."""
        named = None if self.encoder is None else self.encoder.labels
        return self.classes if named is None else named

    def encoded(self, table: Any) -> Coded:
        """Return the rows that are read here, of a raw table.

        Raises InvalidData if the table does not fit, or the model has no encoder.
        """
        if self.encoder is None:
            raise InvalidData("the model has no encoder; it reads rows that were encoded before.")
        encoder = self.encoder.transformer()
        return encoder.coded(encoder.codes(table))

    def decision_function(self, X: Any) -> Floats:
        """Return scores, as the link stretches and shifts them: ``(n,)`` for two classes.

        Above 0 is what is predicted, and likelier than one half. More classes have ``(n, K)``.
        """
        found = self._scores(readable_rows(X, len(self.features)))
        return self.link.slope * found + self.link.shift

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

    def probabilities(self, scores: Floats) -> Floats:
        """Return ``(n, K)``: what the link says of two classes, softmax for more."""
        several = scores.ndim > 1
        return special.softmax(scores, axis=1) if several else self.link.probabilities(scores)

    @abstractmethod
    def arrays(self) -> Mapping[str, Floats]:
        """Return every number that was learned."""

    @abstractmethod
    def _scores(self, rows: Any) -> Floats:
        """Return the scores of rows that were read."""

    @abstractmethod
    def _numbers(self) -> dict[str, Any]:
        """Return what turns rows into scores, as plain values."""

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
            **self._numbers(),
            "link": self.told_link(),
        }

    def told_link(self) -> Any:
        """Return the link as plain values, or its name."""
        return asdict(self.link) if len(self.classes) <= 2 else "softmax"


@dataclass(frozen=True, eq=False, kw_only=True)
class Linear(Model):
    """``coef @ x + intercept``."""

    coef: Floats  #: ``(1, d)`` or ``(K, d)``: weights of the features; one row for two classes
    intercept: Floats  #: ``(1,)`` or ``(K,)``: constants

    def __post_init__(self) -> None:
        super().__post_init__()
        coef = np.atleast_2d(numbers(self.coef, "coef"))
        intercept = np.atleast_1d(numbers(self.intercept, "intercept"))
        n_scores = 1 if len(self.classes) <= 2 else len(self.classes)
        if coef.shape != (n_scores, len(self.features)) or intercept.shape != (n_scores,):
            raise wrong("coef, intercept", "must be (1, d) and (1,) for two classes, else (K, d)")
        object.__setattr__(self, "coef", coef)
        object.__setattr__(self, "intercept", intercept)

    def arrays(self) -> Mapping[str, Floats]:
        """Return weights and constants."""
        return {"coef": self.coef, "intercept": self.intercept}

    def _scores(self, rows: Any) -> Floats:
        found = scores(rows, self.coef, self.intercept)
        return found[:, 0] if len(self.coef) == 1 else found

    def _numbers(self) -> dict[str, Any]:
        two = len(self.coef) == 1
        coef, intercept = (self.coef[0], self.intercept[0]) if two else (self.coef, self.intercept)
        return {"coef": coef.tolist(), "intercept": intercept.tolist()}


Combine = Literal["stack", "vote", "alone"]


@dataclass(frozen=True, eq=False, kw_only=True)
class LowLevelModel:
    """One released low-level model and the public facts about its group."""

    name: str  #: Which part of the data it saw
    features: NDArray[np.intp]  #: Columns that it uses
    #: Of shape (d,), or (K, d) of K > 2 classes. Released weights on those columns.
    coef: Floats
    intercept: float | Floats  #: Float, or array of shape (K,). Released intercept.
    importance: float = 1.0  #: The group's share of the declared importance
    epsilon: float = 0.0  #: The group's share of the budget
    noise: float = 0.0  #: Expected norm of the noise in its objective, for rows in the unit ball
    baseline: float = 0.0  #: Public score of the base rate, taken off before the score is used
    sharpness: float = 1.0  #: Factor on its score before it becomes a meta feature

    def __post_init__(self) -> None:
        features = np.array(self.features, dtype=np.intp)
        coef = numbers(self.coef, "groups.coef")
        if not isinstance(self.name, str):
            raise wrong("groups.name", "must be a text")
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
        rows = part if isinstance(part, Coded) else np.clip(part, -LARGEST, LARGEST)
        found = scores(rows, np.atleast_2d(self.coef), np.atleast_1d(self.intercept))
        plain = found[:, 0] if self.coef.ndim == 1 else found
        return np.asarray(self.sharpness * (plain - self.baseline))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {n: v.tolist() if isinstance(v, np.ndarray) else v for n, v in asdict(self).items()}


def meta_features(low_scores: Floats, combine: Combine = "stack") -> Floats:
    """Return what the high level reads of the low level's scores, ``(n, groups)``.

    Of K > 2 classes ``(n, K, groups)``, and a vote is for the first of the highest scores.
    Centred: probabilities without an intercept can turn the ranking of a stack around.
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
    """

    groups: tuple[LowLevelModel, ...]  #: The low level
    coef: Floats  #: The high level: released weights, or the votes' weights
    intercept: float = 0.0
    #: ``m_k`` is ``tanh(z_k / 2) / sqrt(K)``; the sign of ``z_k``, and the probability is the share
    #: of votes; or ``z_k`` itself, for a single group. A vote is for the class that scores highest.
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
        """Return the groups' scores of rows that were read, groups last."""
        return np.stack([group.score(rows[:, group.features]) for group in self.groups], axis=-1)

    def probabilities(self, scores: Floats) -> Floats:
        """Return ``(n, K)``: what the link says, or the share of votes."""
        if self.combine != "vote":
            return super().probabilities(scores)
        share = scores / self.total_weight
        return share if share.ndim == 2 else np.column_stack([(1 - share) / 2, (1 + share) / 2])

    def told_link(self) -> Any:
        """Return the link as plain values, or its name."""
        return "share" if self.combine == "vote" else super().told_link()

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

    def _numbers(self) -> dict[str, Any]:
        return {
            "groups": [group.to_dict() for group in self.groups],
            "combine": self.combine,
            "coef": self.coef.tolist(),
            "intercept": self.intercept,
        }
