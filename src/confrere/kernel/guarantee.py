"""What is promised, to whom, about which change of the data; how promises add up; what was drawn.

Promises, and all that ledgers, receipts and witnesses hold, are records of exact fields: checked by
their types when they are made, written as JSON and read back. What has one of these types is
bounded, and cannot hold rows of data.
"""

from __future__ import annotations

import math
import re
import typing
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import MISSING, dataclass, fields
from decimal import Context, Decimal, Inexact
from enum import Enum, StrEnum
from functools import lru_cache, reduce
from numbers import Real
from types import UnionType
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Protocol, Self, cast

from typing_extensions import override

from confrere.errors import CompositionError, InvalidParameter

# -- records ---------------------------------------------------------------------------------------
_MOST = 4096  #: Of a tuple; what is longer is data


def check_text(value: object, name: str, longest: int = 200) -> str:
    """Return ``value`` if it is one printable, not too long line."""
    if not isinstance(value, str):
        raise InvalidParameter(f"{name} must be a str, got a {type(value).__name__}.")
    text = str.__str__(value)  # whatever a subclass would say
    if not text.strip() or not text.isprintable() or len(text) > longest:
        raise InvalidParameter(f"{name} must be one line of 1 to {longest} printable characters.")
    return text


def _pattern(pattern: str, told: str) -> Callable[[object, str], str]:
    def check(value: object, name: str) -> str:
        if not isinstance(value, str) or not re.fullmatch(pattern, value, re.ASCII):
            raise InvalidParameter(f"{name} must be {told}.")
        return str.__str__(value)

    return check


#: One printable line.
Line = Annotated[str, check_text]
LongLine = Annotated[str, lambda value, name: check_text(value, name, 1000)]
#: It cannot quote data, as the message of an error might.
Code = Annotated[
    str, _pattern(r"[A-Za-z][A-Za-z0-9_.:-]{0,63}", "a code such as 'CalibrationError'")
]
Sha256 = Annotated[str, _pattern(r"[0-9a-f]{64}", "a sha256: 64 hex digits")]
_UTC = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d([.]\d+)?([+]00:00|Z)"
Time = Annotated[str, _pattern(_UTC, "a time in UTC, as ISO 8601")]


@typing.dataclass_transform(frozen_default=True)
class Record:
    """A frozen dataclass, as its subclasses are, whose fields are checked by their types.

    Fields that hold their default are left out when it is written, unless ``whole``.
    """

    whole: ClassVar[bool] = False
    #: What complaints about a field put before its name.
    prefix: ClassVar[str] = ""
    __dataclass_fields__: ClassVar[dict[str, object]]

    def __init_subclass__(cls, *, kw_only: bool = False) -> None:
        dataclass(frozen=True, kw_only=kw_only)(cls)

    def __post_init__(self) -> None:
        for name, hint, default in _fields(type(self)):
            value = getattr(self, name)
            if value is not default:
                object.__setattr__(self, name, _checked(value, self.prefix + name, hint))

    @classmethod
    def accepts(cls, value: object) -> bool:
        """Whether it is one: a subclass could tell a row another price."""
        return type(value) is cls

    def to_dict(self) -> dict[str, object]:
        every = ((name, getattr(self, name), default) for name, _, default in _fields(type(self)))
        return {name: _plain(one) for name, one, default in every if one != default or self.whole}

    @classmethod
    def from_dict(cls, values: Mapping[str, object]) -> Self:
        try:
            return cls(**values)
        except TypeError:
            what = cls.prefix.strip(".") or cls.__name__.lower()
            needed = ", ".join(one for one, _, default in _fields(cls) if default is MISSING)
            raise InvalidParameter(f"a {what} is a table of its fields, with {needed}.") from None


def _plain(value: object) -> object:
    if isinstance(value, Record):
        return value.to_dict()
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    return str(value) if isinstance(value, Enum | Decimal) else value


_KNOWN: dict[type, tuple[tuple[str, Any, Any], ...]] = {}


def _fields(cls: type[Record]) -> tuple[tuple[str, Any, Any], ...]:
    if cls not in _KNOWN:
        hints, every = typing.get_type_hints(cls, include_extras=True), fields(cast(Any, cls))
        _KNOWN[cls] = tuple((one.name, hints[one.name], one.default) for one in every)
    return _KNOWN[cls]


def _checked(value: object, name: str, hint: Any) -> Any:
    """Return a value of a type, read where it is plain; what is none is refused."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        return args[1](value, name)
    if origin in (typing.Union, UnionType):
        return None if value is None else _checked(value, name, args[0])
    if origin is tuple and isinstance(value, tuple | list) and len(value) <= _MOST:
        return tuple([_checked(one, name, args[0]) for one in value])
    if origin is Literal or (origin is None and issubclass(hint, Enum)):
        allowed = args or tuple(hint)
        if value in allowed:
            return value if origin is Literal or type(value) is hint else hint(value)
        told = " or ".join(repr(str(one)) for one in allowed)
    elif origin is None and issubclass(hint, Record):
        if isinstance(value, tuple) and len(value) == len(names := _fields(hint)):
            value = {name: one for (name, _, _), one in zip(names, value, strict=True)}
        if isinstance(value, Mapping):
            return hint.from_dict(value)
        if hint.accepts(value):
            return value
        told = f"a {hint.__name__}"
    elif hint in (float, Decimal):
        told = "a finite number"
        plain = isinstance(value, int | float) and not isinstance(value, bool)
        if plain if hint is float else type(value) in (str, Decimal):
            with suppress(ArithmeticError):
                number = hint(value)
                if math.isfinite(number):
                    return number
    elif type(value) is hint:
        return value
    else:
        told = f"a {getattr(hint, '__name__', f'list of at most {_MOST} values')}"
    raise InvalidParameter(f"{name} must be {told}, got a {type(value).__name__}.")


# -- promises --------------------------------------------------------------------------------------
class Unit(StrEnum):
    """Whose presence the guarantee hides."""

    RECORD = "record"
    PARTY = "party"


class Neighbours(StrEnum):
    """Which change of the data the guarantee hides.

    One unit's data become any other, or one is there or not; ``LABEL_ONLY`` is in old ledgers.
    """

    REPLACE_ONE = "replace-one"
    ADD_REMOVE = "add-remove"
    LABEL_ONLY = "label-only"


#: What a release may promise.
RELATIONS = (Neighbours.REPLACE_ONE, Neighbours.ADD_REMOVE)


def check_relation(value: object, name: str = "neighbours") -> Neighbours:
    """Return the relation of a release to be made; what is only in old ledgers is refused."""
    if value not in RELATIONS:
        raise InvalidParameter(f"{name} must be 'replace-one' or 'add-remove'.")
    return Neighbours(str(value))


def check_epsilon(value: object, name: str = "epsilon") -> float:
    return check_bound(value, name, ": an infinite budget is no privacy")


def check_delta(value: object, name: str = "delta") -> float:
    if not 0 <= (number := _number(value)) < 1:
        raise InvalidParameter(f"{name} must be a number in [0, 1).")
    return number


def _number(value: object) -> float:
    """Return a number as a double, in which all is computed; not a number what none holds."""
    if type(value) is not bool and isinstance(value, Real):
        with suppress(OverflowError):  # of whole numbers
            return float(value)
    return math.nan


def check_bound(value: object, name: str, why: str = "") -> float:
    """Return ``value`` as a float if it is a finite number above zero: a norm, a ridge, a step."""
    if math.isinf(number := check_positive(value, name)):
        raise InvalidParameter(f"{name} must be finite{why}.")
    return number


def check_positive(value: object, name: str) -> float:
    """Return ``value`` as a double if it is a number above zero."""
    if not (number := _number(value)) > 0:
        raise InvalidParameter(f"{name} must be a number > 0 that a double holds.")
    return number


# Every float prints within 10**-324 and 10**309: sums of fewer than 10**1000 of them are exact.
_EXACT = Context(prec=2000, traps=[Inexact])
plus, minus = _EXACT.add, _EXACT.subtract


@lru_cache(_MOST)
def exact(amount: float) -> Decimal:
    """Read a float as the decimal it prints as."""
    return Decimal(repr(float(amount)))


def at_most(amount: Decimal) -> float:
    """Show what is left: the nearest float that can still be spent."""
    shown = float(amount)
    return shown if exact(shown) <= amount else math.nextafter(shown, -math.inf)


def at_least(amount: Decimal) -> float:
    """Show what was spent: the nearest float that hides nothing."""
    shown = float(amount)
    return shown if exact(shown) >= amount else math.nextafter(shown, math.inf)


def added(amounts: Iterable[float]) -> float:
    """Return the least float that is not below the sum of what amounts print as."""
    return at_least(reduce(plus, map(exact, amounts), Decimal(0)))


class Amount(NamedTuple):
    """Epsilon and delta, exactly."""

    epsilon: Decimal = Decimal(0)
    delta: Decimal = Decimal(0)

    @classmethod
    def of(cls, epsilon: float, delta: float) -> Amount:
        return cls(exact(epsilon), exact(delta))

    def plus(self, more: Amount) -> Amount:
        return Amount(*map(plus, self, more))

    def minus(self, less: Amount) -> Amount:
        return Amount(*map(minus, self, less))

    def covers(self, other: Amount) -> bool:
        return self.epsilon >= other.epsilon and self.delta >= other.delta


class Guarantee(Record):
    """Differential privacy of one release, or of several composed ones."""

    whole = True

    epsilon: Annotated[float, check_epsilon]  #: Pure part; finite, above zero
    delta: Annotated[float, check_delta] = 0.0  #: 0 for every pure mechanism
    unit: Unit = Unit.RECORD  #: Whose data may change
    neighbours: Neighbours = Neighbours.REPLACE_ONE  #: How they may change
    theorem: str = ""  #: The proof page (and the section in it) that the guarantee rests on
    public: tuple[str, ...] = ()  #: What is taken to be known to everyone
    #: What the proof needs beyond what the code certifies at run time.
    assumptions: tuple[str, ...] = ()

    @property
    def amount(self) -> Amount:
        # Checked once more, where it is added up: nothing gives budget back.
        return Amount.of(check_epsilon(self.epsilon), check_delta(self.delta))

    @property
    def kind(self) -> tuple[Unit, Neighbours]:
        """What must be the same where promises add up."""
        return self.unit, self.neighbours

    def covers(self, other: Guarantee) -> bool:
        """Whether who has paid for this has paid for the other."""
        return self.kind == other.kind and self.amount.covers(other.amount)

    def guarantee(self) -> Guarantee:
        return self

    def event(self) -> PrivacyEvent:
        return Promised(self.epsilon, self.delta)

    def __str__(self) -> str:
        paid = f"({self.epsilon:g}, {self.delta:g})" if self.delta else f"{self.epsilon:g}"
        return f"{paid}-DP per {self.unit} ({self.neighbours})"


class Split(StrEnum):
    """How rows came to be in disjoint parts. Only these do not depend on the data."""

    BY_INDEX = "by index"
    SEEDED_PERMUTATION = "seeded permutation"
    BY_ORGANISATION = "by organisation"
    BY_OWN_DRAW = "by a draw of every row"


# -- what was drawn: enough to compute its loss again ----------------------------------------------
class PrivacyEvent(Record):
    """What one release, or several, did."""

    @override
    def to_dict(self) -> dict[str, object]:
        return {"event": type(self).__name__, **super().to_dict()}

    @classmethod
    @override
    def from_dict(cls, values: Mapping[str, object]) -> Self:
        if cls is not PrivacyEvent:
            return super().from_dict(values)
        told, kinds = dict(values), {one.__name__: one for one in PrivacyEvent.__subclasses__()}
        kind = kinds.get(str(told.pop("event", "")))
        if kind is None:
            raise InvalidParameter(f"event must be one of {', '.join(sorted(kinds))}.")
        return cast(Self, kind.from_dict(told))

    @classmethod
    @override
    def accepts(cls, value: object) -> bool:
        return isinstance(value, PrivacyEvent) and type(value).__module__ == __name__


class Promised(PrivacyEvent):
    """Nothing but the promise is known, or needed: pure noise is as bad as its epsilon."""

    epsilon: float
    delta: float = 0.0


class GaussianMinimisers(PrivacyEvent):
    """Minimisers with Gaussian noise, one per block, and the pure step that paid for the solver."""

    sigmas: tuple[float, ...]
    ridges: tuple[float, ...]
    cap: float  #: Largest slope of the loss
    n_classes: int
    joint: bool  #: Whether blocks share the row's length
    output_epsilon: float


class GaussianPoint(PrivacyEvent):
    """Gaussian noise on a computed vector, and the pure steps that paid for its floats."""

    mu: float  #: Sensitivity over sigma
    output_epsilon: float


class SharedSums(PrivacyEvent):
    """So many sums with noise that parties draw together, by one mechanism, for one price."""

    epsilon: float
    delta: float
    mechanism: Line  #: Its digest: of all numbers that its promise depends on
    releases: int
    alone: float  #: Epsilon of a party's records if all others collude


class PartsApart(PrivacyEvent):
    """Releases from parts of the units that are disjoint, by a split that does not look."""

    parts: tuple[PrivacyEvent, ...]
    split: Split


# -- composition -----------------------------------------------------------------------------------
class Priced(Protocol):
    """What has a price: a promise, a measurement, a plan, or what is composed of them."""

    def guarantee(self) -> Guarantee:
        """Return the price, without touching data."""

    def event(self) -> PrivacyEvent:
        """Return what a ledger keeps, by which accountants compose: the price, if nothing else."""
        return self.guarantee().event()


def check_split(split: object, neighbours: Neighbours) -> None:
    """Refuse parts that one unit could move others between."""
    if not isinstance(split, Split):
        raise CompositionError("split must be a Split: by looking at data (stratified) none is.")
    by_place = (Split.BY_INDEX, Split.SEEDED_PERMUTATION)
    if neighbours is Neighbours.ADD_REMOVE and split in by_place:
        raise CompositionError(f"split {split}: a row that goes shifts others under add-remove.")


FACTS = ("number of features", "label set", "bounds", "every parameter")
FLOATS = "floats: rounding of the noise and its far tails (total variation below 1e-15)"
RANDOM = "noise: AES-256 and HMAC-SHA256 are not broken, and secrets stay where the rows are"
#: What every promise about records assumes.
ASSUMPTIONS = ("each person is in at most one record", FLOATS, RANDOM)


def public_facts(neighbours: Neighbours, *more: str) -> tuple[str, ...]:
    """Return what is taken to be known where one record changes in this way."""
    declared = "declared " if neighbours is Neighbours.ADD_REMOVE else ""
    return (f"{declared}number of records", *FACTS, *more)
