"""What is public about how a model was learned, and about the rows that it reads."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from pydantic import ConfigDict

from confrere.schema import PublicSchema

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

    def to_dict(self) -> dict[str, Any]:
        """Return the facts that are there, as plain values."""
        return {name: value for name, value in asdict(self).items() if value is not None}


@dataclass(frozen=True)
class Encoder:
    """What the columns of a model mean: how raw rows become the rows that it reads.

    Attributes
    ----------
    schema : PublicSchema
        The public facts about raw columns.
    rows : {"clip", "unit"}, optional
        How encoded rows are bounded; None where only the meaning of columns is known.
    weighted : bool, optional
        Whether columns are weighted by importance.
    """

    schema: PublicSchema
    rows: Literal["clip", "unit"] | None = None
    weighted: bool | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {"schema": self.schema.to_dict(), "rows": self.rows, "weighted": self.weighted}
