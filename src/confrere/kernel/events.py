"""What draws did to privacy: enough to compute their loss again, in ledgers and for accountants."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self, cast

from typing_extensions import override

from confrere.errors import InvalidParameter
from confrere.kernel.guarantee import Split
from confrere.kernel.records import Line, Record


class Event(Record):
    """What one release, or several, did."""

    __slots__ = ()

    @override
    def to_dict(self) -> dict[str, Any]:
        return {"event": type(self).__name__, **super().to_dict()}

    @classmethod
    @override
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        if cls is not Event:
            return super().from_dict(values)
        kinds, told = {kind.__name__: kind for kind in Event.__subclasses__()}, dict(values)
        kind = kinds.get(told.pop("event", ""))
        if kind is None:
            raise InvalidParameter(f"event must be one of {', '.join(sorted(kinds))}.")
        return cast(Self, kind.from_dict(told))

    @classmethod
    @override
    def accepts(cls, value: object) -> bool:
        return isinstance(value, Event) and type(value).__module__ == __name__


@dataclass(frozen=True)
class Promised(Event):
    """Nothing but the promise is known, or needed: pure noise is as bad as its epsilon."""

    epsilon: float
    delta: float = 0.0


@dataclass(frozen=True)
class GaussianMinimisers(Event):
    """Minimisers with Gaussian noise, one per block, and the pure step that paid for the solver."""

    sigmas: tuple[float, ...]
    ridges: tuple[float, ...]
    cap: float  #: Largest slope of the loss
    n_classes: int
    joint: bool  #: Whether blocks share the row's length
    output_epsilon: float


@dataclass(frozen=True)
class Summed(Event):
    """So many sums with noise that parties draw together, by one mechanism, for one price."""

    epsilon: float
    delta: float
    mechanism: Line  #: Its digest: of all numbers that its promise depends on
    releases: int


@dataclass(frozen=True)
class Apart(Event):
    """Releases from parts of the units that are disjoint, by a split that does not look."""

    parts: tuple[Event, ...]
    split: Split
