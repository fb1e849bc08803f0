"""What a schema says of a time to an event, and what a model of it says."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Literal, final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field, Strict
from typing_extensions import override

from confrere.arrays import Floats
from confrere.data.cells import (
    MISSING,
    Cells,
    Container,
    codes_of,
    declared_columns,
    read_numbers,
    read_places,
    refuse,
)
from confrere.data.features import Outcome, Real, Share, Values
from confrere.errors import InvalidParameter
from confrere.methods.geometry import JACOBIAN
from confrere.methods.plan import Coordinates, Target
from confrere.model.models import Link, numbers
from confrere.model.strict_json import wrong
from confrere.outcomes.pieces import FIRST, PiecewiseExponential
from confrere.views import Table


@final
@dataclass(frozen=True, kw_only=True)
class TimeToEvent(Outcome):
    """How long until an event, or until somebody was last seen without one.

    Parameters
    ----------
    column : str
        Name of the column that holds the time, from the same beginning for everybody.
    event : str
        Name of the column that says how it ended.
    happened : value or list of values, default=1
        What means in that column that the event was then; whatever else it holds, it was not.
    pieces : list of float
        Where pieces of time end, of constant hazard each; what is later than the last is cut off.
    base_rate : float, optional
        Public share of those whom the event meets before the last piece ends.
    """

    event: Annotated[str, Strict(), Field(min_length=1)]
    pieces: tuple[Annotated[Real, Field(gt=0)], ...]
    happened: Values = (1,)
    base_rate: Share | None = None

    kind: ClassVar[str] = "time"
    size: ClassVar[int] = 0

    @override
    def __post_init__(self) -> None:
        super().__post_init__()
        rising = all(a < b for a, b in pairwise((0.0, *self.pieces)))
        self._refuse(not self.pieces or not rising, "pieces must be numbers that rise from 0")
        self._refuse(self.event == self.column, "event must name another column")

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of a table that say it."""
        return self.column, self.event

    @override
    def places(self, cells: Cells) -> NDArray[np.intp]:
        return np.zeros(len(cells), dtype=np.intp)

    @override
    def encode(self, values: Any) -> Floats:
        """Return times, those without an event below zero; from 0 on, and cut at the last piece."""
        time, strange = read_numbers(self.column, values[self.column])
        refuse(self.column, strange | ~(time >= 0), "no time from 0 on; drop them by a public rule")
        # Both truth values mean something.
        codes = {"0": 1, "1": 1, **codes_of(dict.fromkeys(self.happened, 0), ())}
        places = read_places(self.event, values[self.event], codes)
        refuse(self.event, places == MISSING, "no value; say how it ended")
        last = self.pieces[-1]
        met = (places == 0) & (time <= last)
        # A time of nothing has a sign, too.
        time = np.clip(time, FIRST * last, last)
        return np.where(met, time, -time)

    @override
    def column_of(self, table: Container) -> Any:
        return declared_columns(table, self.columns)

    def target(
        self, *, cap: float | Literal["auto"] = "auto", share: float = 0.16, **_: Container
    ) -> Target:
        """Return what is learned of it: experts are asked by no check, and lines are read."""
        if len(self.pieces) < 2:
            raise InvalidParameter("schema: its TimeToEvent must have several pieces here.")
        rate = 0.5 if self.base_rate is None else self.base_rate
        loss = PiecewiseExponential(self.pieces, share, 1.0 if cap == "auto" else float(cap))
        # Expected events bend a loss up to the cap: that is what the Jacobian of a person costs.
        return Lifetimes(loss, math.log(-math.log1p(-rate)), loss.cap / JACOBIAN, variance=1.0)


@dataclass(frozen=True)
class Hazards(Link):
    """The share of those whom an event meets before the last piece of time ends.

    It is ``1 - exp(-exp(u))``: scores are logarithms of the hazard of all pieces together, which is
    constant on every piece.
    """

    ends: tuple[float, ...] = (1.0,)  #: Where pieces of time end
    parts: tuple[float, ...] = (1.0,)  #: Share of all the hazard that has been when each ends

    fewest = 0
    gives = "the share whom an event meets before the last piece of time ends"
    ratios = "hazards"

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("ends", "parts"):
            told = numbers(getattr(self, name), f"link.{name}")
            fits = told.shape == (len(self.ends),) and len(told) > 0
            if not fits or np.diff(told, prepend=0).min() < 0:
                raise wrong(f"link.{name}", "must be numbers that rise from 0, one per piece")
            object.__setattr__(self, name, tuple(told.tolist()))

    def staying(self, u: Floats, times: ArrayLike) -> Floats:
        """Return ``(n, times)``: the probability that no event is before a time."""
        been = np.interp(np.asarray(times, np.float64), [0, *self.ends], [0, *self.parts])
        return np.exp(-np.exp(np.minimum(u, 700.0))[:, None] * been)

    def curves(self, level: float) -> Table:
        """Return who has met no event by the ends of pieces, at three hazards."""
        shares = self.staying(level + np.log([1, 0.5, 2]), self.ends).T.tolist()
        each = zip(self.ends, shares, strict=True)
        rows = [[f"{end:g}", *(f"{one:.3f}" for one in own)] for end, own in each]
        names = ("until", "reference person", "at half the hazard", "at twice the hazard")
        return Table(names, rows, names[1:], title="Without the event")

    @override
    def probabilities(self, u: Floats) -> Floats:
        # Of an event before the last piece ends.
        return np.asarray(-np.expm1(-np.exp(np.minimum(u, 700.0))))


@dataclass(frozen=True)
class Lifetimes(Target):
    """Where the last weight is one level per piece of time."""

    @override
    def wide(self, point: Floats, parts: int = 1) -> Floats:
        return np.append(point[:-1], np.full(self.loss.n_scores, point[-1] / parts))

    @override
    def read(self, frame: Coordinates, weights: Floats) -> tuple[Floats, Floats, Link]:
        loss = self.loss
        assert isinstance(loss, PiecewiseExponential)
        coef, _ = frame.coefficients(weights[: -loss.n_scores + 1])
        none = np.zeros(frame.n_features)
        each = [frame.coefficients(np.append(none, one)) for one in weights[-loss.n_scores :]]
        levels = np.array([level for _, level in each])
        # The logarithm of the hazard of all pieces together, and how it is spread over them.
        hazards = np.diff([0.0, *loss.ends]) / loss.ends[-1] * np.exp(levels - levels.max())
        parts = np.cumsum(hazards) / hazards.sum()
        level = np.array([levels.max() + math.log(hazards.sum())])
        return coef[None], level, Hazards(ends=loss.ends, parts=tuple(parts.tolist()))
