"""What is public about how a model was learned, and about the rows that it reads."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict

from confrere.errors import InvalidParameter, InvalidRelease
from confrere.schema import PublicSchema, SchemaEncoder
from confrere.schema.encoder import Form
from confrere.schema.encoding import Encoding

_STRICT = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


@dataclass(frozen=True, kw_only=True)
class StackFacts:
    """The public plan of a stack over feature groups.

    Attributes
    ----------
    norms : tuple of float
        Declared bound of every group, or of the whole row, repeated.
    rows : {"clip", "unit"}
        Whether rows were shortened or brought to length one.
    clipping : {"separate", "joint"}
        Whether the bound is a group's own or the whole row's.
    constant : float
        The public constant inside the bound.
    n_low : int
        Rows of the low level.
    baseline : float
        Public score of the base rate.
    ridges, rates : tuple of float
        Of every group's objective.
    """

    __pydantic_config__ = _STRICT

    norms: tuple[float, ...]
    rows: Literal["clip", "unit"]
    clipping: Literal["separate", "joint"]
    constant: float
    n_low: int
    baseline: float
    ridges: tuple[float, ...]
    rates: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class PriorFacts:
    """How far a prior was believed, after its paid check.

    Attributes
    ----------
    factor : float
        What the prior's log odds were multiplied by; a negative one turned it round.
    sigma : float
        Standard error of that factor, from public facts.
    epsilon : float
        What the check spent.
    verifiable : bool
        Whether the budget was enough to tell a right prior from a wrong one.
    """

    __pydantic_config__ = _STRICT

    factor: float
    sigma: float
    epsilon: float
    verifiable: bool


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What a release says about its making; every fact is public, and none is needed to predict.

    Attributes
    ----------
    n_samples : int, optional
        The public number of rows; the declared one where the true one is private.
    data_norm, intercept_scale, feature_scale
        The declared bound, constant and factors that rows were learned with.
    body : tuple of int, optional
        Columns of every factor of the body that rows lay in, where noise was shaped like it.
    ridge : float, optional
        On the sum of losses.
    rho, sigma : float, optional
        Rate of the noise, or its deviation if it was Gaussian.
    method, parties, rounds, alpha, n_auxiliary
        Of a model that several parties made.
    stack : StackFacts, optional
        Of a stack over feature groups.
    prior : PriorFacts, optional
        Of a model near a prior that was checked.
    """

    __pydantic_config__ = _STRICT

    n_samples: int | None = None
    data_norm: float | None = None
    intercept_scale: float | None = None
    feature_scale: tuple[float, ...] | None = None
    body: tuple[int, ...] | None = None
    ridge: float | None = None
    rho: float | None = None
    sigma: float | None = None
    method: str | None = None
    parties: int | None = None
    rounds: int | None = None
    alpha: float | None = None
    n_auxiliary: int | None = None
    stack: StackFacts | None = None
    prior: PriorFacts | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the facts that are there, as plain values."""
        return {name: value for name, value in asdict(self).items() if value is not None}


@dataclass(frozen=True, kw_only=True)
class Encoder:
    """What turns raw rows into those that a model reads, and its classes into their names.

    Attributes
    ----------
    schema : PublicSchema
        The public facts about raw columns.
    encoding : Encoding
        The same as a program in the closed language, for whoever does not have this library.
    weighted, power
        How importances became weights; see :class:`~confrere.schema.SchemaEncoder`.
    labels : tuple of str, int, float or bool, optional
        The names of the model's classes in the data, where they differ.
    form : {"standardised", "linear", "curves"}
        How columns are encoded; see :class:`~confrere.schema.SchemaEncoder`.
    """

    schema: PublicSchema
    encoding: Encoding
    weighted: bool
    power: float = 1.0
    labels: tuple[Any, ...] | None = None
    form: Form = "standardised"

    @classmethod
    def of(cls, encoder: SchemaEncoder, *, labelled: bool = True) -> Encoder:
        """Return what a release carries of an encoder; ``labelled`` if classes are -1 and 1."""
        if np.dtype(encoder.dtype) != np.float64:
            raise InvalidParameter("dtype must be float64 for an encoder that is released.")
        outcome = encoder.schema.outcome
        return cls(
            schema=encoder.schema,
            encoding=encoder.encoding(),
            weighted=bool(encoder.weighted),
            power=float(encoder.power),
            labels=outcome.names if labelled and outcome is not None else None,
            form=encoder.form,
        )

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the encoded columns."""
        return self.transformer().names

    def transformer(self) -> SchemaEncoder:
        """Return the transformer that encodes so."""
        return self.schema.encoder(
            rows=self.encoding.rows,
            weighted=self.weighted,
            power=self.power,
            clip_norm=self.encoding.norm,
            form=self.form,
        )

    def same_encoding(self, other: Encoder) -> bool:
        """Whether both encode alike, up to two machines' roundings."""
        return _alike(self.encoding.to_dict(), other.encoding.to_dict())

    def arrays(self) -> dict[str, NDArray[np.float64]]:
        """Return centre, scale and weight of every basis number, for ``model.npz``."""
        columns = self.encoding.columns
        found = {
            "encoder_centre": np.array([x for column in columns for x in column.centre]),
            "encoder_scale": np.array([x for column in columns for x in column.scale]),
        }
        if self.encoding.weights is not None:
            found["encoder_weights"] = np.array(self.encoding.weights)
        return found

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "schema": self.schema.to_dict(),
            "weighted": self.weighted,
            "power": self.power,
            "labels": None if self.labels is None else list(self.labels),
            "form": self.form,
            "encoding": self.encoding.to_dict(),
        }

    @classmethod
    def checked(cls, given: Encoder) -> Encoder:
        """Return what was read, if the program is that of the schema.

        Raises
        ------
        InvalidRelease
            If it is not, or the names are not the schema's.
        """
        own = cls.of(given.transformer())
        if not given.same_encoding(own):
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
