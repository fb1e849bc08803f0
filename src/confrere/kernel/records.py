"""Records of exact fields: checked by their types when made, written as JSON and read back.

What ledgers, receipts and witnesses hold are records. A field's type says all that is checked; what
has one of these types cannot hold rows of data, and is bounded.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from decimal import Decimal
from enum import Enum
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    ClassVar,
    Literal,
    Self,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from confrere.errors import InvalidParameter

_LONGEST = 200
#: Of a tuple; what is longer is data.
_MOST = 4096

Check = Callable[[object, str], Any]


def check_text(value: object, name: str, longest: int = _LONGEST) -> str:
    """Return ``value`` if it is one printable, not too long line."""
    if not isinstance(value, str):
        raise InvalidParameter(f"{name} must be a str, got a {type(value).__name__}.")
    if not value.strip() or not value.isprintable() or len(value) > longest:
        raise InvalidParameter(f"{name} must be one line of 1 to {longest} printable characters.")
    return str(value)


def _pattern(pattern: str, told: str) -> Check:
    found = re.compile(pattern, re.ASCII)

    def check(value: object, name: str) -> str:
        if not isinstance(value, str) or not found.fullmatch(value):
            raise InvalidParameter(f"{name} must be {told}.")
        return str(value)

    return check


#: One printable line.
Line = Annotated[str, check_text]
LongLine = Annotated[str, lambda value, name: check_text(value, name, 1000)]
#: It cannot quote data, as the message of an error might.
check_code = _pattern(
    r"[A-Za-z][A-Za-z0-9_.:-]{0,63}",
    "a code such as 'CalibrationError': a letter, then letters, digits, '_', '.', ':' or '-', "
    "64 at most",
)
Code = Annotated[str, check_code]
Sha256 = Annotated[str, _pattern(r"[0-9a-f]{64}", "a sha256: 64 hex digits")]
Time = Annotated[
    str,
    _pattern(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d([.]\d+)?([+]00:00|Z)", "a time in UTC, as ISO 8601"),
]


class Record:
    """A frozen dataclass whose fields are checked by their types.

    Fields that hold their default are left out when it is written, unless ``whole``.
    """

    __slots__ = ()
    whole: ClassVar[bool] = False
    #: What complaints about a field put before its name.
    prefix: ClassVar[str] = ""
    __dataclass_fields__: ClassVar[dict[str, Any]]

    def __post_init__(self) -> None:
        for name, check, default in _fields(type(self)):
            value = getattr(self, name)
            if value is not default and (checked := check(value, self.prefix + name)) is not value:
                object.__setattr__(self, name, checked)

    @classmethod
    def accepts(cls, value: object) -> bool:
        """Whether it is one: a subclass could tell a row another price."""
        return type(value) is cls

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return {
            name: _plain(value)
            for name, _, default in _fields(type(self))
            if (value := getattr(self, name)) != default or self.whole
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Read what :meth:`to_dict` wrote."""
        if not isinstance(values, Mapping):
            raise InvalidParameter(f"a {cls.__name__.lower()} must be a table of its fields.")
        try:
            return cls(**values)
        except TypeError:
            needed = {name for name, _, default in _fields(cls) if default is MISSING}
            missing = ", ".join(sorted(needed - values.keys()))
            what = f"lacks {missing}" if missing else "has other fields"
            whose = cls.prefix.strip(".") or cls.__name__.lower()
            raise InvalidParameter(f"the {whose} {what}.") from None


def _plain(value: Any) -> Any:
    if isinstance(value, Record):
        return value.to_dict()
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    return str(value) if isinstance(value, Enum | Decimal) else value


_KNOWN: dict[type, tuple[tuple[str, Check, Any], ...]] = {}


def _fields(cls: type[Record]) -> tuple[tuple[str, Check, Any], ...]:
    """Return name, check and default of every field."""
    if cls not in _KNOWN:
        hints = get_type_hints(cls, include_extras=True)
        _KNOWN[cls] = tuple(
            (each.name, _check(hints[each.name]), each.default) for each in fields(cast(Any, cls))
        )
    return _KNOWN[cls]


def _check(hint: Any) -> Check:
    """Return what checks, and reads, values of a type."""
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return cast(Check, args[1])
    if origin in (Union, UnionType):
        inner = _check(next(arg for arg in args if arg is not NoneType))
        return lambda value, name: None if value is None else inner(value, name)
    if origin is tuple:
        each = _check(args[0])
        return lambda value, name: _tuple(value, name, each)
    if origin is Literal:
        return lambda value, name: _one_of(value, name, args)
    if issubclass(hint, Record):
        return lambda value, name: _record(value, name, hint)
    if issubclass(hint, Enum):
        kinds = tuple(hint)
        return lambda value, name: (
            value if type(value) is hint else hint(_one_of(value, name, kinds))
        )
    if hint is Decimal:
        return lambda value, name: value if type(value) is Decimal else _decimal(value, name)
    return _float if hint is float else lambda value, name: _exactly(value, name, hint)


def _tuple(value: object, name: str, each: Check) -> tuple[Any, ...]:
    if not isinstance(value, tuple | list) or len(value) > _MOST:
        raise InvalidParameter(f"{name} must be a list of at most {_MOST} values.")
    return tuple(each(one, name) for one in value)


def _one_of(value: Any, name: str, allowed: tuple[Any, ...]) -> Any:
    if value not in allowed:
        raise InvalidParameter(f"{name} must be {' or '.join(repr(str(one)) for one in allowed)}.")
    return value


def _record(value: Any, name: str, of: type[Record]) -> Record:
    if of.accepts(value):
        return cast(Record, value)
    if not isinstance(value, Mapping):
        raise InvalidParameter(f"{name} must be a {of.__name__}, got a {type(value).__name__}.")
    return of.from_dict(value)


def _float(value: object, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise InvalidParameter(f"{name} must be a finite number.")
    return float(value)


def _decimal(value: object, name: str) -> Decimal:
    number = Decimal(str(_exactly(value, name, str)))
    if not number.is_finite():
        raise InvalidParameter(f"{name} must be a finite number.")
    return number


def _exactly(value: object, name: str, of: type) -> object:
    if type(value) is not of:
        raise InvalidParameter(f"{name} must be a {of.__name__}, got a {type(value).__name__}.")
    return value
