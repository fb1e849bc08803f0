"""What a parameter may be, said by its annotation, and what it means, said once for all.

A constraint is an ``Annotated`` type whose last word refuses wrong values, by the parameter's name;
``Literal`` types refuse what they do not name. They are checked before anything is spent.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from dataclasses import MISSING, dataclass
from difflib import get_close_matches
from functools import cache
from typing import (
    Annotated,
    Any,
    Literal,
    Self,
    TypeVar,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

import numpy as np
from numpy.typing import ArrayLike

from confrere.data.encoding import SchemaEncoder
from confrere.data.engines import check_engine
from confrere.data.schema import PublicSchema
from confrere.errors import InvalidParameter
from confrere.kernel.guarantee import check_bound, check_epsilon, check_positive
from confrere.ledger import Ledger

Check = Callable[[Any, str], object]
_Kind = TypeVar("_Kind", bound=type)


@dataclass(frozen=True)
class NumberRule:
    """Numbers of a kind: one, or where ``several`` is true a list of them as well."""

    words: str  #: What they must be
    fits: Callable[[Any], Any]  #: Whether one does
    whole: bool = False
    auto: bool = False  #: Whether a public rule may stand for one
    several: bool = False

    def __call__(self, value: Any, name: str) -> None:
        """Refuse another value."""
        listed = self.several and isinstance(value, list | tuple | np.ndarray)
        each = list(value) if listed and np.ndim(value) == 1 else [value]
        if not each or not all(map(self._fits, each)):
            raise InvalidParameter(f"{name} must be {self.words}.")

    def _fits(self, one: Any) -> bool:
        if self.auto and isinstance(one, str) and one == "auto":
            return True
        kinds = int | np.integer if self.whole else int | float | np.number
        return isinstance(one, kinds) and not isinstance(one, bool) and bool(self.fits(one))


def _instance(*kinds: type, words: str) -> Check:
    def check(value: Any, name: str) -> None:
        if value is not None and not isinstance(value, kinds):
            raise InvalidParameter(f"{name} must be {words}, or None.")

    return check


def _experts(value: Any, name: str) -> None:
    if isinstance(value, str) and value != "experts":
        raise InvalidParameter(f'{name} must be "experts" or one number per column.')


def _above(value: Any) -> bool:
    return bool(np.isfinite(value)) and value > 0


#: A price.
Epsilon = Annotated[float, check_epsilon]
#: A number above zero; the second one may be infinite.
Bound = Annotated[float, check_bound]
Positive = Annotated[float, check_positive]
#: The same, one or several.
Bounds = Annotated[
    float | Sequence[float], NumberRule("a finite number above 0, or several", _above, several=True)
]
#: A ridge on the mean loss, or the public rule.
Ridge = Annotated[
    float | Literal["auto"], NumberRule("'auto' or a finite number above 0", _above, auto=True)
]
#: The same, for all columns or groups or for each.
Ridges = Annotated[
    float | Literal["auto"] | ArrayLike,
    NumberRule(
        "'auto', a finite number above 0, or a list of them", _above, auto=True, several=True
    ),
]
#: Strictly between 0 and 1; from 0 and below 1; from 0 to 1.
Fraction = Annotated[float, NumberRule("strictly between 0 and 1", lambda v: 0 < v < 1)]
AutoFraction = Annotated[
    float | Literal["auto"],
    NumberRule("'auto' or strictly between 0 and 1", lambda v: 0 < v < 1, auto=True),
]
Share = Annotated[float, NumberRule("at least 0 and below 1", lambda v: 0 <= v < 1)]
Weight = Annotated[float, NumberRule("between 0 and 1", lambda v: 0 <= v <= 1)]
Weights = Annotated[
    float | Sequence[float],
    NumberRule("a number between 0 and 1, or one per group", lambda v: 0 <= v <= 1, several=True),
]
#: A probability that epsilon does not hold.
Delta = Annotated[float, NumberRule("in [0, 1); 0 is pure privacy", lambda v: 0 <= v < 1)]
#: Any finite number.
Finite = Annotated[float, NumberRule("a finite number", np.isfinite)]
#: The same, for the outcome or for each of several.
Levels = Annotated[ArrayLike, NumberRule("a finite number, or several", np.isfinite, several=True)]
#: Coefficients that are known before any data: as given, or as the schema's experts see them.
Experts = Annotated[ArrayLike | Literal["experts"] | None, _experts]
#: A whole number from 1.
Count = Annotated[int, NumberRule("a whole number of at least 1", lambda v: v >= 1, whole=True)]
AutoCount = Annotated[
    int | Literal["auto"],
    NumberRule("'auto' or a whole number of at least 1", lambda v: v >= 1, whole=True, auto=True),
]
#: A whole number that may be zero.
Spare = Annotated[int, NumberRule("a whole number of at least 0", lambda v: v >= 0, whole=True)]
#: A declared label set.
Labels = ArrayLike | None
#: Who reads the rows of one organisation.
RowEngine = Annotated[Any, check_engine]
#: Where a price is charged; None is the process's own.
Payer = Annotated[Ledger | None, _instance(Ledger, words="a confrere.Ledger")]
#: What raw columns mean.
Meaning = Annotated[
    PublicSchema | SchemaEncoder | None,
    _instance(PublicSchema, SchemaEncoder, words="a PublicSchema, one of its encoders"),
]


class _OwnSignature:
    """The parameters of a class, as its constructor has them."""

    def __get__(self, instance: object, owner: Any) -> inspect.Signature:
        whole = inspect.signature(owner.__init__)
        return whole.replace(parameters=list(whole.parameters.values())[1:])


class KnownParameters:
    """What every estimator says about a parameter that it does not have: the nearest one."""

    # ``__new__`` below would hide the constructor's own.
    __signature__ = _OwnSignature()

    def __new__(cls, *args: Any, **parameters: Any) -> Self:  # noqa: ARG004
        """Refuse unknown parameters before the constructor does, which names no other."""
        known = inspect.signature(cls.__init__).parameters
        for name in parameters.keys() - known.keys():
            if near := get_close_matches(name, known, n=1):
                raise TypeError(
                    f"{cls.__name__} has no parameter {name!r}; did you mean {near[0]!r}?"
                )
        return super().__new__(cls)


@dataclass_transform(kw_only_default=True, eq_default=False)
def estimator(kind: _Kind) -> _Kind:
    """Make a class of parameters, with what its bases say of those that it says nothing about."""
    own = kind.__doc__ or ""
    made: Any = dataclass(kw_only=True, eq=False, repr=False)(kind)
    made.own_doc = own
    bases = [getattr(base, "own_doc", "") for base in made.__mro__]
    for title, names in (
        ("Parameters", list(made.__dataclass_fields__)),
        ("Attributes", re.findall(r"^    (\w+_) : ", "\n".join(bases[1:]), re.MULTILINE)),
    ):
        said, rest = _said(own, title), []
        for name in (name for name in names if name not in said):
            text = next((t for t in (_said(base, title).get(name) for base in bases) if t), None)
            if text is not None:
                rest.append(text if title == "Attributes" else _with_default(made, name, text))
        head = f"    {title}\n    {'-' * len(title)}\n"
        if rest and head not in own:
            text, notes, others = own.partition("    Notes\n    -----\n")
            own = f"{text.rstrip()}\n\n{head}\n{notes}{others}"
        before, _, after = own.partition(head)
        entries, gap, others = ("", "\n", after) if after[:1] == "\n" else after.partition("\n\n")
        if rest:
            own = before + head + "\n".join(filter(None, [entries.rstrip(), *rest])) + gap + others
    made.__doc__ = own
    return made  # type: ignore[no-any-return]


def _said(doc: str, title: str) -> dict[str, str]:
    """Return the entries of one section of a docstring, by the first of their names."""
    _, _, after = doc.partition(f"    {title}\n    {'-' * len(title)}\n")
    section = after.partition("\n\n")[0]
    entries = re.findall(r"^    \w.*\n(?:        .*\n?)*", section, re.MULTILINE)
    named = {}
    for entry in entries:
        for name in entry.split(" : ")[0].split("\n")[0].split(","):
            named[name.strip()] = entry.rstrip("\n")
    return named


def _with_default(kind: Any, name: str, entry: str) -> str:
    """Return an entry with the default that a class has."""
    default = kind.__dataclass_fields__[name].default
    head, *text = entry.split("\n")
    told = "optional" if default is None else f"default={default!r}".replace("'", '"')
    return "\n".join([head if default is MISSING else f"{head}, {told}", *text])


def check_parameters(estimator: Any) -> None:
    """Refuse the first parameter that its annotation does not allow, naming it; touches no data.

    What was left as it is declared needs no look.
    """
    kind: Any = type(estimator)
    for name, check in _checks(kind).items():
        given = getattr(estimator, name)
        if given is not kind.__dataclass_fields__[name].default:
            check(given, name)


@cache
def _checks(kind: Any) -> dict[str, Check]:
    hints = get_type_hints(kind, include_extras=True)
    found = {name: _check_of(hints[name]) for name in kind.__dataclass_fields__}
    return {name: check for name, check in found.items() if check is not None}


def _check_of(hint: Any) -> Check | None:
    if get_origin(hint) is Annotated:
        check: Check = get_args(hint)[-1]
        return check
    return one_of(get_args(hint)) if get_origin(hint) is Literal else None


def one_of(choices: tuple[str, ...], **renamed: str) -> Check:
    """Return a check that a value is one of these; ``renamed`` has the new name of an old one."""

    def check(value: Any, name: str) -> None:
        if isinstance(value, str) and value in renamed:
            raise InvalidParameter(f"{name}: {value!r} is called {renamed[value]!r}.")
        if not isinstance(value, str) or value not in choices:
            raise InvalidParameter(f"{name} must be one of {', '.join(map(repr, choices))}.")

    return check
