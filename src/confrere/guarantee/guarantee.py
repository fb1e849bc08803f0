"""What is promised, to whom, about which change of the data: one frozen value."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from confrere.errors import InvalidParameter


class Unit(StrEnum):
    """Whose presence the guarantee hides."""

    RECORD = "record"
    PARTY = "party"


class Neighbours(StrEnum):
    """Which change of the data the guarantee hides.

    ``REPLACE_ONE``: one unit's data become any other; the number of units is public.
    ``ADD_REMOVE``: one unit is there or not; the number of units is not public.
    ``LABEL_ONLY``: one unit's label changes; all features are public.
    """

    REPLACE_ONE = "replace-one"
    ADD_REMOVE = "add-remove"
    LABEL_ONLY = "label-only"


def check_epsilon(value: object, name: str = "epsilon") -> float:
    """Return a price as a float, or say what a budget must be."""
    number = check_positive(value, name)
    if math.isinf(number):
        raise InvalidParameter(f"{name} must be finite: an infinite budget is no privacy.")
    return number


def check_bound(value: object, name: str) -> float:
    """Return ``value`` as a float if it is a finite number above zero: a norm, a ridge, a step."""
    number = check_positive(value, name)
    if math.isinf(number):
        raise InvalidParameter(f"{name} must be finite.")
    return number


def check_positive(value: object, name: str) -> float:
    """Return ``value`` as a float if it is a number above zero."""
    if isinstance(value, bool) or not hasattr(value, "__float__") or isinstance(value, str):
        raise InvalidParameter(f"{name} must be a number > 0, got a {type(value).__name__}.")
    number = float(value)
    if math.isnan(number) or number <= 0:
        raise InvalidParameter(f"{name} must be a number > 0, got {number!r}.")
    return number


@dataclass(frozen=True, slots=True)
class Guarantee:
    """Differential privacy of one release, or of several composed ones.

    Parameters
    ----------
    epsilon : float
        Pure part; finite, above zero.
    delta : float, default=0.0
        0 for every pure mechanism.
    unit : Unit
        Whose data may change.
    neighbours : Neighbours
        How they may change.
    theorem : str
        The proof page (and the section in it) that the guarantee rests on.
    public : tuple of str
        What is taken to be known to everyone.
    assumptions : tuple of str
        What the proof needs beyond what the code certifies at run time.
    """

    epsilon: float
    delta: float = 0.0
    unit: Unit = Unit.RECORD
    neighbours: Neighbours = Neighbours.REPLACE_ONE
    theorem: str = ""
    public: tuple[str, ...] = field(default=())
    assumptions: tuple[str, ...] = field(default=())

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", check_epsilon(self.epsilon))
        if isinstance(self.delta, bool) or not 0 <= float(self.delta) < 1:
            raise InvalidParameter("delta must be a number in [0, 1).")
        object.__setattr__(self, "delta", float(self.delta))
        object.__setattr__(self, "unit", Unit(self.unit))
        object.__setattr__(self, "neighbours", Neighbours(self.neighbours))
        object.__setattr__(self, "public", tuple(self.public))
        object.__setattr__(self, "assumptions", tuple(self.assumptions))

    @property
    def pure(self) -> bool:
        """Whether delta is zero."""
        return self.delta == 0

    def __str__(self) -> str:
        kind = f"{self.epsilon:g}-DP" if self.pure else f"({self.epsilon:g}, {self.delta:g})-DP"
        return f"{kind} per {self.unit} ({self.neighbours})"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "unit": str(self.unit),
            "neighbours": str(self.neighbours),
            "theorem": self.theorem,
            "public": list(self.public),
            "assumptions": list(self.assumptions),
        }

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Guarantee:
        """Read what :meth:`to_dict` wrote."""
        known = {name: values[name] for name in cls.__dataclass_fields__ if name in values}
        return cls(**known)
