"""What a party can be asked to do: an operation, its price, and the table of those installed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from confrere.errors import (
    CalibrationError,
    InvalidData,
    InvalidMessage,
    InvalidParameter,
    OperationRefused,
)
from confrere.federation.messages import Payload
from confrere.kernel.guarantee import Guarantee
from confrere.kernel.streams import RandomSource
from confrere.mechanisms.secure_sum import SecureSum
from confrere.plans.linear_plan import Coordinates
from confrere.rows.body import BodyFrame
from confrere.rows.frame import FACTS, Frame

if TYPE_CHECKING:
    from confrere.federation.party import LocalParty, PartyGroup


SMALLEST_EPSILON = 1e-6
LARGEST_EPSILON = 1e9


@dataclass(frozen=True, slots=True)
class PartyFacts:
    """What everyone may know about a party's data: its sizes, and how many labels there are."""

    n_samples: int
    n_features: int
    n_classes: int = 2


@final
@dataclass(frozen=True)
class Operation:
    """One thing that parties do with their data.

    Parameters
    ----------
    name : str
        How it is asked for.
    price : callable
        ``(request, facts) -> Guarantee or None``: reads the whole request, refuses what does not
        fit, and says what answering spends (None: only public facts leave). Touches no data.
    run : callable
        ``(request, party, source) -> Payload`` of arrays only. Called once the price is on disk.
    run_group : callable, optional
        The same for many small parties at once; arrays get one row per party. Without it, and for
        a group that is not :attr:`~PartyGroup.many`, :attr:`run` for one after the other.
    slot : str, default=""
        What a run asks for once per step, if that is not the operation alone: of operations that
        share a slot, a run gets one.
    noised : bool, default=True
        Whether an answer carries noise of its own, or public facts alone. One that does not is for
        the coordinator only: it is never shown to another party.
    chosen : tuple of str, default=()
        Values of a request that mean nothing to the data, which a coordinator may choose.
    sum_of : callable, optional
        ``(request, facts) -> SecureSum``, of an operation whose answers are only ever added up:
        they leave under masks, and the price is for all sums of a run together.
    many_classes : bool, default=False
        Whether it understands labels of more than two classes.
    """

    name: str
    price: Callable[[Payload, PartyFacts], Guarantee | None]
    run: Callable[[Payload, LocalParty, RandomSource], Payload]
    run_group: Callable[[Payload, PartyGroup, RandomSource], Payload] | None = None
    slot: str = ""
    noised: bool = True
    chosen: tuple[str, ...] = ()
    sum_of: Callable[[Payload, PartyFacts], SecureSum] | None = None
    many_classes: bool = False

    def mechanism(self, request: Payload, facts: PartyFacts) -> SecureSum:
        """Return the sum that answers belong to, or say that the request is wrong."""
        if self.sum_of is None:
            raise InvalidMessage(f"{self.name}: its answers are not for a sum.")
        try:
            return self.sum_of(request, facts)
        except (InvalidParameter, InvalidData, CalibrationError) as error:
            raise InvalidMessage(f"{self.name}: {error}") from error

    def priced(self, request: Payload, facts: PartyFacts) -> Guarantee | None:
        """Return the price, or say that the request is wrong; nothing is spent by asking."""
        if facts.n_classes > 2 and not self.many_classes:
            raise InvalidMessage(f"{self.name}: it is for labels of two classes.")
        try:
            return self.price(request, facts)
        except (InvalidParameter, InvalidData, CalibrationError) as error:
            raise InvalidMessage(f"{self.name}: {error}") from error


def check_price(epsilon: object) -> float:
    """Return the epsilon of a request; beyond any sense, floats would not carry the noise."""
    if type(epsilon) is not float or not SMALLEST_EPSILON <= epsilon <= LARGEST_EPSILON:
        raise InvalidMessage(
            f"epsilon must be a float from {SMALLEST_EPSILON:g} to {LARGEST_EPSILON:g}."
        )
    return epsilon


def check_prices(values: Mapping[str, Any]) -> None:
    """Refuse a request whose epsilon, or whose delta if it has one, makes no sense."""
    check_price(values["epsilon"])
    if "delta" in values and not (type(values["delta"]) is float and 0 < values["delta"] < 1):
        raise InvalidMessage("delta must be a float between 0 and 1, or left out.")


def framed(frame: Coordinates, values: Mapping[str, Any], **arrays: ArrayLike | None) -> Payload:
    """Return a message of these coordinates, more values, and the arrays that are not None."""
    sent = dict(arrays) | frame.arrays()
    return Payload(
        dict(values) | {"frame": frame.facts()},
        {name: array for name, array in sent.items() if array is not None},
    )


def coordinates_of(message: Payload) -> Coordinates:
    """Read the coordinates of a message that may be a body's."""
    values = message.values.get("frame")
    if not isinstance(values, dict) or "sizes" not in values:
        return frame_of(message)
    try:
        return BodyFrame.read(values, message.arrays.get("roots"))
    except (InvalidParameter, TypeError) as error:
        raise InvalidMessage(f"frame: {error}") from error


def frame_of(message: Payload) -> Frame:
    """Read the coordinates of a message."""
    values = message.values.get("frame")
    if not isinstance(values, dict) or values.keys() != set(FACTS):
        raise InvalidMessage("a request must say in which coordinates: frame.")
    for name in ("data_norm", "constant"):
        if type(values[name]) is not float:
            raise InvalidMessage(f"frame: {name} must be a float.")
    try:
        return Frame(**values, feature_scale=message.arrays.get("feature_scale"))
    except InvalidParameter as error:
        raise InvalidMessage(str(error)) from error


def own_frame(message: Payload, facts: PartyFacts) -> Frame:
    """Read the coordinates of a message that must be about a party's own columns."""
    frame = frame_of(message)
    if facts.n_features != frame.n_features:
        raise InvalidMessage("the request is for rows of another number of columns.")
    return frame


def auxiliary_of(message: Payload, frame: Frame) -> NDArray[np.float64] | None:
    """Read a message's public rows, if it has any."""
    rows = message.arrays.get("auxiliary")
    fits = rows is None or (
        rows.dtype == np.float64 and rows.ndim == 2 and rows.shape[1] == frame.n_features
    )
    if not fits or (rows is not None and not len(rows)):
        raise InvalidMessage("auxiliary must be rows of one float64 per column.")
    return rows


_installed: dict[str, Operation] = {}

#: Every operation that this installation knows, by name.
OPERATIONS: Mapping[str, Operation] = MappingProxyType(_installed)


def install(operation: Operation) -> Operation:
    """Make an operation known; a party's policy still decides whether it is allowed."""
    if operation.name in _installed:
        raise InvalidParameter(f"operation {operation.name!r} is already installed.")
    _installed[operation.name] = operation
    return operation


def installed(name: str) -> Operation:
    """Return an operation, or refuse one that nobody installed here."""
    try:
        return _installed[name]
    except KeyError:
        raise OperationRefused("the operation is not installed here.", "unknown") from None
