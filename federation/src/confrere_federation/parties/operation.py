"""What a party can be asked to do: operations, each a class whose fields say what a request holds.

A request is data of declared types and bounds. There is one reader, which refuses whatever is not
exactly that, and one writer; what an operation costs, what its answers must be and how they are
made is asked of the request that was read, and of nobody's word.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, fields
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self, TypeVar, get_type_hints

from numpy.typing import ArrayLike, NDArray
from typing_extensions import override

from confrere.arrays import Floats
from confrere.data.body import BodyFrame
from confrere.data.frame import FACTS, LARGEST, Frame
from confrere.errors import (
    CalibrationError,
    InvalidData,
    InvalidMessage,
    InvalidParameter,
    OperationRefused,
)
from confrere.kernel.guarantee import RELATIONS, Guarantee
from confrere.kernel.streams import RandomSource
from confrere.mechanisms.secure_sum import SecureSum
from confrere.methods.asking import Asked, AskedSum, Measured
from confrere.methods.plan import Coordinates
from confrere_federation.parties.messages import MOST_RECORDS, Expected, Numbers, Payload

if TYPE_CHECKING:
    from confrere_federation.parties.party import LocalParty

Arrays = dict[str, NDArray[Any]]
Values = dict[str, Any]

_UNKNOWN = "the request has missing or unknown fields."
_LEFT_OUT = object()


@dataclass(frozen=True, slots=True)
class PartyFacts:
    """What everyone may know about a party's data: its sizes, and how many labels there are."""

    n_samples: int
    n_features: int
    n_classes: int = 2


@dataclass(frozen=True)
class FieldKind:
    """What one field of a request may be."""

    words: str  #: For people
    fits: Callable[[Any], bool]  #: Whether something is that
    array: bool = False  #: Whether it is an array of the message, and not a plain value
    cast: Callable[[Any], Any] | None = None  #: To the type that it is written in

    def take(self, name: str, values: Values, arrays: Arrays) -> Any:
        """Take the field out of a message, or refuse it; one that is not there is left out."""
        found = (arrays if self.array else values).pop(name, _LEFT_OUT)
        if found is not _LEFT_OUT and not self.fits(found):
            raise InvalidMessage(f"{name} must be {self.words}.")
        return found

    def put(self, name: str, value: Any) -> tuple[Values, Arrays]:
        """Return the values and arrays that a message has for it."""
        if self.array:
            return {}, {name: value}
        return {name: value if type(value) is str or self.cast is None else self.cast(value)}, {}


def number(
    kind: type,
    lowest: float = -math.inf,
    highest: float = math.inf,
    *,
    above: float = -math.inf,
    below: float = math.inf,
    others: tuple[str, ...] = (),
) -> FieldKind:
    """Return the kind of numbers of one type within bounds; or one of a few words."""
    ends = {"from": lowest, "above": above, "to": highest, "below": below}
    words = [f"{word} {at:g}" for word, at in ends.items() if math.isfinite(at)]

    def fits(value: Any) -> bool:
        told: Any = value if type(value) is kind else None
        if told is None:
            return type(value) is str and value in others
        return bool(lowest <= told <= highest and above < told < below)

    return FieldKind(
        " ".join([f"a number ({kind.__name__})", *words, *(f"or {one!r}" for one in others)]),
        fits,
        cast=kind,
    )


def one_of(*choices: str) -> FieldKind:
    """Return the kind of a few texts."""
    known = tuple(map(str, choices))
    return FieldKind(
        f"one of {', '.join(known)}",
        lambda value: type(value) is str and value in known,
        cast=str,
    )


def numbers(
    *dimensions: int, dtype: str = "<f8", lowest: float = -math.inf, highest: float = LARGEST
) -> FieldKind:
    """Return the kind of arrays of so many dimensions, not empty, with bounded entries."""
    return FieldKind(
        f"an array ({dtype}) of {' or '.join(map(str, dimensions))} dimensions, in bounds",
        lambda array: bool(
            array.dtype.str == dtype
            and array.ndim in dimensions
            and array.size
            and array.min() >= max(lowest, -highest)
            and array.max() <= highest
        ),
        array=True,
    )


#: Beyond any sense, floats would not carry the noise.
EPSILON = number(float, 1e-6, 1e9)

Epsilon = Annotated[float, EPSILON]
#: Left out of what is pure.
Delta = Annotated[float, number(float, above=0.0, below=1.0)]
Least = Annotated[float, number(float, 0.0, LARGEST)]
Positive = Annotated[float, number(float, above=0.0, highest=LARGEST)]
Share = Annotated[float, number(float, above=0.0, highest=1.0)]
Whole = Annotated[int, number(int, 0, MOST_RECORDS)]
Flag = Annotated[bool, number(bool)]
Relation = Annotated[str, one_of(*RELATIONS)]
Digest = Annotated[str, FieldKind("a digest", lambda value: bool(_HEX.fullmatch(str(value))))]
Records = Annotated[
    Mapping[str, int],
    FieldKind(
        "a number of records for every party",
        lambda told: (
            type(told) is dict
            and bool(told)
            and all(type(n) is int and 0 < n <= MOST_RECORDS for n in told.values())
        ),
        cast=lambda told: {name: int(count) for name, count in told.items()},
    ),
]
Vector = Annotated[Floats, numbers(1)]
Matrix = Annotated[Floats, numbers(2)]
Weights = Annotated[Floats | None, numbers(1, 2)]
_SCALE = numbers(1, lowest=0.0)
_HEX = re.compile("[0-9a-f]{32,64}")


@dataclass(frozen=True)
class _Coordinates(FieldKind):
    """The public coordinates of a request, with the arrays that belong to them."""

    def take(self, name: str, values: Values, arrays: Arrays) -> Any:
        frame = read_frame(values.pop(name, None), arrays)
        if not self.fits(frame):
            raise InvalidMessage(f"{name} must be {self.words}.")
        return frame

    def put(self, name: str, value: Coordinates) -> tuple[Values, Arrays]:
        told = {n: array for n, array in value.arrays().items() if array is not None}
        return {name: value.facts()}, told


def read_frame(facts: Any, arrays: Arrays) -> Coordinates:
    """Read coordinates that somebody else has written, and take their array out of a message's."""
    try:
        if isinstance(facts, dict) and "sizes" in facts:
            return BodyFrame.read(facts, arrays.pop("roots", None))
        if not isinstance(facts, dict) or facts.keys() != set(FACTS):
            raise InvalidMessage("a request must say in which coordinates: frame.")
        for name in ("data_norm", "constant"):
            if type(facts[name]) is not float:
                raise InvalidMessage(f"frame: {name} must be a float.")
        scale = _SCALE.take("feature_scale", {}, arrays)
        return Frame(**facts, feature_scale=None if scale is _LEFT_OUT else scale)
    except (InvalidParameter, TypeError) as error:
        raise InvalidMessage(f"frame: {error}") from error


InCoordinates = Annotated[Coordinates, _Coordinates("public coordinates", lambda _: True)]
InBall = Annotated[
    Frame,
    _Coordinates(
        "coordinates of a ball in L2",
        lambda frame: isinstance(frame, Frame) and frame.norm == "l2",
    ),
]


def framed(frame: Coordinates, values: Mapping[str, Any], **arrays: ArrayLike | None) -> Payload:
    """Return a message of these coordinates, more values, and the arrays that are not None."""
    sent = dict(arrays) | frame.arrays()
    return Payload(
        dict(values) | {"frame": frame.facts()},
        {name: array for name, array in sent.items() if array is not None},
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class Operation(ABC):
    """One thing that parties are asked for; a subclass declares what a message says, and how."""

    operation: ClassVar[str]  #: How it is asked for
    #: What a run asks for once per step, if that is not the operation alone.
    slot: ClassVar[str] = ""
    #: Whether an answer carries noise of its own, or public facts alone. One that does not is for
    #: the coordinator only: it is never shown to another party.
    noised: ClassVar[bool] = True
    #: Values that mean nothing to the data, which a coordinator may choose.
    chosen: ClassVar[tuple[str, ...]] = ()
    two_classes: ClassVar[bool] = False  #: Whether it is for labels of two classes only

    n_classes: int = 2  #: What a party knows itself, and a message need not say

    @classmethod
    @cache
    def kinds(cls) -> Mapping[str, FieldKind]:
        """Return the kind of every field that a message has."""
        hints = get_type_hints(cls, include_extras=True)
        told = {one.name: getattr(hints[one.name], "__metadata__", ()) for one in fields(cls)}
        return {name: kinds[0] for name, kinds in told.items() if kinds}

    @classmethod
    def of(cls, asked: object, **more: Any) -> Self:
        """Return the request for what a protocol asks, which has the same words for it."""
        names = [one.name for one in fields(cls) if one.name not in more]
        return cls(**{name: getattr(asked, name) for name in names}, **more)

    @classmethod
    def read(cls, payload: Payload, facts: PartyFacts) -> Self:
        """Read a message to a party; what is not exactly a request for its rows is refused."""
        values, arrays = dict(payload.values), dict(payload.arrays)
        found: Values = {"n_classes": facts.n_classes}
        with refusing(cls.operation):
            for name, kind in cls.kinds().items():
                found[name] = kind.take(name, values, arrays)
            if values or arrays:
                raise InvalidMessage(_UNKNOWN)
            defaults = {one.name: one.default for one in fields(cls)}
            left_out = [name for name, one in found.items() if one is _LEFT_OUT]
            if any(defaults[name] is MISSING for name in left_out):
                raise InvalidMessage(_UNKNOWN)
            found |= {name: defaults[name] for name in left_out}
            asked = cls(**found)
            asked.check(facts)
        return asked

    def write(self) -> Payload:
        """Return the message; what is as if nothing were said is left out."""
        values: Values = {}
        arrays: Arrays = {}
        defaults = {one.name: one.default for one in fields(self)}
        for name, kind in self.kinds().items():
            value, default = getattr(self, name), defaults[name]
            if value is None or (not kind.array and default is not MISSING and value == default):
                continue
            told, sent = kind.put(name, value)
            values |= told
            arrays |= sent
        return Payload(values, arrays)

    @property
    def n_features(self) -> int | None:
        """Columns of the rows that it is about; None if it does not matter."""
        frame: Coordinates | None = getattr(self, "frame", None)
        return None if frame is None else frame.n_features

    def check(self, facts: PartyFacts) -> None:
        """Refuse what the fields' kinds do not, for a party's rows."""
        if self.n_features not in (None, facts.n_features):
            raise InvalidMessage("the request is for rows of another number of columns.")
        if facts.n_classes != self.n_classes or (self.two_classes and facts.n_classes > 2):
            raise InvalidMessage("the request is for labels of another number of classes.")

    @abstractmethod
    def expected(self, n_samples: int) -> Expected:
        """Return what a party of that size may answer, and what it spends; touches no data."""

    @property
    def asked(self) -> Asked:
        """What a protocol asks by it."""
        assert isinstance(self, Asked)
        return self

    @classmethod
    def to_ask(cls, asked: Asked) -> Self:
        """Return the request for what a protocol asks."""
        return asked if isinstance(asked, cls) else cls.of(asked)

    def encoded(self, party: LocalParty) -> LocalParty:
        """Return the party with rows as the question has them encoded, before it is paid for."""
        return party

    def answer(self, party: LocalParty, source: RandomSource) -> Arrays:
        """Return the arrays of an answer, once its price is on disk."""
        with party.opened_engine() as engine:
            assert isinstance(self.asked, Measured)
            return self.asked.release(party.X, party.y, source, engine)

    def price(self, n_samples: int) -> Guarantee | None:
        """Return what answering spends, or say that the request is wrong; nothing is spent by it.

        None: only public facts leave.
        """
        with refusing(self.operation):
            return self.expected(n_samples).price


#: The value that makes a request for a share in a sum of one for the sum.
ROSTER = "roster"


@dataclass(frozen=True, kw_only=True, eq=False)
class SumOperation(Operation):
    """A request whose answers are only ever added up.

    They leave under masks, and the price is for all sums of a run together.
    """

    chosen: ClassVar[tuple[str, ...]] = (ROSTER,)

    @property
    def mechanism(self) -> SecureSum:
        """The sum that answers belong to: its law, its lattice, its price."""
        assert isinstance(self.asked, AskedSum)
        return self.asked.mechanism

    @classmethod
    def read(cls, payload: Payload, facts: PartyFacts) -> Self:
        """Read a message, whoever is on its roster."""
        values = {name: value for name, value in payload.values.items() if name != ROSTER}
        return super().read(Payload(values, payload.arrays), facts)

    @override
    def check(self, facts: PartyFacts) -> None:
        super().check(facts)
        # Uploads on different lattices would add up to nothing.
        if getattr(self, "spacing", self.mechanism.spacing) != self.mechanism.spacing:
            raise InvalidMessage("spacing is not the one that follows from the request.")

    @override
    def expected(self, n_samples: int) -> Expected:
        words = Numbers((self.mechanism.size,), "<i8")
        return Expected({"masked": words}, self.mechanism.guarantee())


@contextmanager
def refusing(operation: str) -> Iterator[None]:
    """Say that a request is wrong where a plan or a mechanism would not be made of it."""
    try:
        yield
    except (InvalidParameter, InvalidData, CalibrationError) as error:
        raise InvalidMessage(f"{operation}: {error}") from error


_installed: dict[str, type[Operation]] = {}

#: Every operation that this installation knows, by name.
OPERATIONS: Mapping[str, type[Operation]] = MappingProxyType(_installed)

R = TypeVar("R", bound=type[Operation])


def install(request: R) -> R:
    """Make an operation known; a party's policy still decides whether it is allowed."""
    if request.operation in _installed:
        raise InvalidParameter(f"operation {request.operation!r} is already installed.")
    _installed[request.operation] = request
    return request


def installed(name: str) -> type[Operation]:
    """Return an operation, or refuse one that nobody installed here."""
    import confrere_federation.parties.front  # noqa: F401  there they are installed

    try:
        return _installed[name]
    except KeyError:
        raise OperationRefused("the operation is not installed here.", "unknown") from None


def request_for(asked: Asked) -> Operation:
    """Return the request, as messages have it, for what a protocol asks."""
    return installed(asked.operation).to_ask(asked)
