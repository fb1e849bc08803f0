"""What a parameter may be, said by its annotation and checked before anything is spent.

A constraint is an ``Annotated`` type whose last word is a function that refuses wrong values;
``Literal`` types refuse what they do not name. Errors say the parameter's name.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from typing import Annotated, Any, Literal, Self, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import ArrayLike

from confrere.errors import InvalidParameter
from confrere.kernel.guarantee import check_bound, check_epsilon, check_positive
from confrere.ledger import Ledger
from confrere.rows.engines import check_engine
from confrere.schema import PublicSchema, SchemaEncoder

Check = Callable[[Any, str], object]


def _finite(value: Any, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        raise InvalidParameter(f"{name} must be a number, got a {type(value).__name__}.")
    if not math.isfinite(value):
        raise InvalidParameter(f"{name} must be finite.")
    return float(value)


def _bounds(value: Any, name: str) -> None:
    for each in np.atleast_1d(np.asarray(value, dtype=np.float64)):
        check_bound(each, name)


def _alpha(value: Any, name: str) -> None:
    if not (isinstance(value, str) and value == "auto"):
        check_bound(value, name)


def _alphas(value: Any, name: str) -> None:
    if isinstance(value, Mapping):
        raise InvalidParameter(f"{name} must be one number, or a list of them in order.")
    if isinstance(value, str) or np.ndim(value) == 0:
        _alpha(value, name)
    else:
        if np.ndim(value) != 1 or not np.size(value):
            raise InvalidParameter(f"{name} must be one number, or a list of them.")
        for one in np.asarray(value, dtype=object):
            _alpha(one, name)


def _fraction(value: Any, name: str) -> None:
    if not 0 < _finite(value, name) < 1:
        raise InvalidParameter(f"{name} must lie strictly between 0 and 1.")


def _auto_fraction(value: Any, name: str) -> None:
    if not (isinstance(value, str) and value == "auto"):
        _fraction(value, name)


def _share(value: Any, name: str) -> None:
    if not 0 <= _finite(value, name) < 1:
        raise InvalidParameter(f"{name} must be at least 0 and below 1.")


def _spare(value: Any, name: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 0:
        raise InvalidParameter(f"{name} must be a whole number of at least 0.")


def _delta(value: Any, name: str) -> None:
    if not 0 <= _finite(value, name) < 1:
        raise InvalidParameter(f"{name} must lie in [0, 1); 0 is pure privacy.")


def _weight(value: Any, name: str) -> None:
    if not 0 <= _finite(value, name) <= 1:
        raise InvalidParameter(f"{name} must lie between 0 and 1.")


def _weights(value: Any, name: str) -> None:
    each = np.atleast_1d(np.asarray(value, dtype=np.float64))
    if each.ndim != 1 or not np.all((each >= 0) & (each <= 1)):
        raise InvalidParameter(f"{name} must be a number between 0 and 1, or one per group.")


def _count(value: Any, name: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise InvalidParameter(f"{name} must be at least 1.")


def _auto_count(value: Any, name: str) -> None:
    if not (isinstance(value, str) and value == "auto"):
        _count(value, name)


def _opinion(value: Any, name: str) -> None:
    if isinstance(value, str) and value != "experts":
        raise InvalidParameter(f'{name} must be "experts" or one number per column.')


def _levels(value: Any, name: str) -> None:
    for each in np.atleast_1d(np.asarray(value, dtype=object)):
        _finite(each, name)


def _ledger(value: Any, name: str) -> None:
    if value is not None and not isinstance(value, Ledger):
        raise InvalidParameter(f"{name} must be a confrere.Ledger or None.")


def _schema(value: Any, name: str) -> None:
    if value is not None and not isinstance(value, PublicSchema | SchemaEncoder):
        raise InvalidParameter(f"{name} must be a PublicSchema, one of its encoders, or None.")


#: A price.
Epsilon = Annotated[float, check_epsilon]
#: A number above zero; the second one may be infinite.
Bound = Annotated[float, check_bound]
Positive = Annotated[float, check_positive]
#: The same, one or several.
Bounds = Annotated[float | Sequence[float], _bounds]
#: A ridge on the mean loss, or the public rule.
Ridge = Annotated[float | Literal["auto"], _alpha]
#: The same, for all columns or groups or for each.
Ridges = Annotated[float | Literal["auto"] | ArrayLike, _alphas]
#: Strictly between 0 and 1; from 0 and below 1; from 0 to 1.
Fraction = Annotated[float, _fraction]
AutoFraction = Annotated[float | Literal["auto"], _auto_fraction]
Share = Annotated[float, _share]
Weight = Annotated[float, _weight]
Weights = Annotated[float | Sequence[float], _weights]
#: A probability that epsilon does not hold.
Delta = Annotated[float, _delta]
#: Any finite number.
Finite = Annotated[float, _finite]
#: The same, for the outcome or for each of several.
Levels = Annotated[ArrayLike, _levels]
#: Coefficients that are known before any data: as given, or as the schema's experts see them.
Experts = Annotated[ArrayLike | Literal["experts"] | None, _opinion]
#: A whole number from 1.
Count = Annotated[int, _count]
AutoCount = Annotated[int | Literal["auto"], _auto_count]
#: A whole number that may be zero.
Spare = Annotated[int, _spare]
#: A declared label set.
Labels = ArrayLike | None
#: Who reads the rows of one organisation.
RowEngine = Annotated[Any, check_engine]
#: Where a price is charged; None is the process's own.
Payer = Annotated[Ledger | None, _ledger]

#: What raw columns mean.
Meaning = Annotated[PublicSchema | SchemaEncoder | None, _schema]


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


def check_parameters(estimator: Any) -> None:
    """Refuse the first parameter that its annotation does not allow; touches no data.

    What was left as it is declared needs no look.

    Raises
    ------
    InvalidParameter
        Naming it.
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
