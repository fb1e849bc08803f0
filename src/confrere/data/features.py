"""What everyone may know about one column, and what becomes of its cells by that alone.

A raw cell is one of its column's *vertices*: a declared value, no value, any other one, or of a
number the nearest point of a public grid; which one, hangs on the declared facts alone. A vertex
has basis numbers ``b``: a clipped number or its logarithm, hats over knots, a score, or ones and
zeros, which are centred and scaled, ``(b - centre) / scale``. There is nothing else that can be
said, and all of it is declared. A release carries it: whoever reads plain JSON can encode a row.
Where noise is shaped like the rows, columns are intervals, corners, or hats that make a curve.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import wraps
from typing import Any, ClassVar, Literal, TypeAlias, TypeVar, cast, final

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from confrere.arrays import Floats
from confrere.data.cells import (
    MISSING,
    UNITS,
    UNKNOWN,
    Cells,
    Value,
    as_cells,
    codes_of,
    column_names,
    declared_columns,
    is_table,
    meaning,
    moment,
    read_dates,
    read_numbers,
    read_places,
    refuse,
)
from confrere.errors import InvalidData, SchemaError

_Rule = TypeVar("_Rule", bound=Callable[..., Any])


def once(rule: _Rule) -> _Rule:
    """Remember what a rule says, on the object itself: an equal one may mean other texts."""

    @wraps(rule)
    def asked(about: Any, *facts: object) -> object:
        known = about.__dict__.setdefault("_said", {})
        key = (rule.__qualname__, facts)
        if key not in known:
            known[key] = rule(about, *facts)
        return known[key]

    return cast(_Rule, asked)


#: Rules for a missing cell that are no values of the column, and one for an undeclared value.
INDICATOR, CENTER, ZEROS = "indicator", "center", "zeros"

#: Hats of a curve whose knots are not declared, and the most that may be declared.
HATS, MOST_HATS = 8, 64

#: Beyond so many standard deviations a straight line is bent to a constant: noise is as long as the
#: longest rows, so what is rare is cut off for what is common. And how far knots of a curve reach.
REACH, KNOTS_REACH = 1.5, 2.5

#: Mean square of a number between -1 and 1: uniform between bounds, and about the same where it is
#: cut at :data:`REACH` standard deviations.
SPREAD = 1 / 3

#: Points of a number's grid; between whole bounds so many steps at most, of which a declared
#: deviation has as many at least.
POINTS, WHOLE, FINE = 1024, 1000, 32

#: A scale is longer by this share, so that rounding keeps numbers within one.
HAIR = 1e-12

#: How columns are encoded: for a ball, or for a body, with straight lines or with curves.
Form: TypeAlias = Literal["standardised", "linear", "curves"]

#: A column in the closed language, as plain values.
Told: TypeAlias = dict[str, Any]

#: In microseconds: before it every moment has a date, and doubles tell a minute from the next.
_LAST_DAY = 1_900 * UNITS["years"]

_NO_NUMBER = "no number, as is declared; name such texts in na, or declare another kind"
_NO_VALUE = "no value, and the schema does not say what missing means"


@dataclass(frozen=True, slots=True)
class BodyBlock:
    """The encoded columns of one raw column.

    ``spread`` is the mean square of one of its ``size`` columns, as the declared facts imply it.
    Where noise is shaped like the rows, magnitudes of its columns add up to one at most. Where the
    first ones are neighbouring hats of a curve, ``line`` is what a straight line is at their knots,
    from -1 to 1, and ``known`` says whether mean and deviation of the number are declared.
    """

    size: int
    kind: Literal["number", "flag", "category", "curve"]
    spread: float
    line: tuple[float, ...] = ()
    known: bool = False

    @property
    def smooth(self) -> int:
        """How many of the first ones are hats."""
        return len(self.line)


@dataclass(frozen=True, eq=False)
class Encoded:
    """What becomes of one raw column in one form."""

    names: tuple[str, ...]  #: Of the encoded columns
    block: BodyBlock
    table: Floats  #: The numbers of every vertex: a row each
    #: The same in the closed language that a release carries. ``centre`` and ``scale`` are of the
    #: basis numbers, ``present`` is what follows them where the cell has a value: the indicator of
    #: a missing one, or nothing. ``missing`` and ``unknown`` are all numbers of a cell that has no
    #: value, or none that is declared; None refuses it.
    told: Told


#: What becomes of the vertices of one raw column that have a value, before it is scaled: numbers,
#: centre, scale, the block, and what else is told of it.
Basis: TypeAlias = tuple[Floats, Sequence[float], Sequence[float], BodyBlock, Told]


def declared_number(column: str, key: str, value: object) -> float:
    """Return ``value`` as a finite float, or name the column and the key that need one."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise SchemaError(f"column {column!r}: {key} must be a finite number.")
    return float(value) + 0.0  # -0.0 and 0.0 are one fact


def declared_share(column: str, key: str, value: object) -> float:
    """Return ``value`` if it is strictly between 0 and 1: a constant has no scale."""
    share = declared_number(column, key, value)
    if not 0 < share < 1:
        raise SchemaError(f"column {column!r}: {key} must lie strictly between 0 and 1.")
    return share


def declared_list(check: Callable[[str, str, object], float]) -> Callable[..., tuple[float, ...]]:
    """Return what checks a list, and all that is in it."""

    def checked(column: str, key: str, values: object) -> tuple[float, ...]:
        if isinstance(values, str | Mapping) or not isinstance(values, Sequence | np.ndarray):
            raise SchemaError(f"column {column!r}: {key} must be a list of numbers.")
        return tuple(check(column, key, value) for value in values)

    return checked


def declared_value(column: str, key: str, value: object) -> Value:
    """Return a text, number or truth value; whole floats become integers, so 1.0 and 1 are one."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and math.isfinite(value) and value.is_integer():
        return int(value)
    if isinstance(value, str | bool | int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    raise SchemaError(f"column {column!r}: {key} must hold texts, numbers or truth values.")


def declared_values(
    column: str, key: str, values: object, *, differ: bool = True
) -> tuple[Value, ...]:
    """Return a non-empty tuple of values; a lone value stands for itself.

    Unless they need not ``differ``, each means something, and something else than the others.
    """
    if isinstance(values, str) or not isinstance(values, Sequence | np.ndarray):
        values = (values,)
    found = tuple(declared_value(column, key, value) for value in values)
    if not found:
        raise SchemaError(f"column {column!r}: {key} must not be empty.")
    meant = [meaning(value) for value in found]
    if differ and None in meant:
        raise SchemaError(
            f"column {column!r}: {key} names a text that means no value, in files and elsewhere; "
            "write the value in another way."
        )
    if differ and len({*meant}) < len(meant):
        raise SchemaError(
            f"column {column!r}: {key} names a value twice; texts of one number or truth value "
            "are one, and so are whole numbers beyond 2**53 that doubles do not tell apart."
        )
    return found


def declared_tokens(column: str, key: str, values: object) -> tuple[Value, ...]:
    """Return what stands for no value: anything, or nothing."""
    if isinstance(values, tuple | list | np.ndarray) and not len(values):
        return ()
    return declared_values(column, key, values, differ=False)


def declared_bounds(column: str, key: str, bounds: object) -> tuple[float, float]:
    """Return a pair of numbers, the lower one first."""
    if isinstance(bounds, str) or not isinstance(bounds, Sequence) or len(bounds) != 2:
        raise SchemaError(f"column {column!r}: {key} must be a pair: smallest, largest.")
    lo, hi = (declared_number(column, key, bound) for bound in bounds)
    if not lo < hi or not np.isfinite(hi - lo):
        raise SchemaError(f"column {column!r}: the lower bound must be below the upper one.")
    return lo, hi


def declared_truth(column: str, key: str, value: object) -> bool:
    """Return whether it is so."""
    if not isinstance(value, bool):
        raise SchemaError(f"column {column!r}: {key} must be true or false.")
    return value


def declared_dates(column: str, key: str, value: object) -> str:
    """Return what dates are counted in: ``"days since 2020-01-01"``."""
    words = value.split(" since ") if isinstance(value, str) else []
    if len(words) != 2 or words[0] not in UNITS or not math.isfinite(moment(words[1])):
        told = f'{", ".join(UNITS)} since a day, such as "days since 2020-01-01"'
        raise SchemaError(f"column {column!r}: {key} must be {told}.")
    return " since ".join(words)


def fact(check: Callable[[str, str, Any], Any], **default: Any) -> Any:
    """Return a field whose value, if there is one, is what ``check`` makes of the declared one."""
    return field(metadata={"check": check}, **default)


class Declared:
    """A column's name with facts, each of which is checked by itself."""

    column: str
    kind: ClassVar[str] = ""  #: As schemas write it

    def __post_init__(self) -> None:
        if not isinstance(self.column, str) or not self.column:
            raise SchemaError("every feature and the label need a column name: a non-empty text.")
        for one in fields(cast(Any, self)):
            value, check = getattr(self, one.name), one.metadata.get("check")
            if check is not None and value is not None:
                self._set(one.name, check(self.column, one.name, value))

    def to_dict(self) -> dict[str, Any]:
        """Return the declared facts as plain values; what was not declared is left out."""
        facts: dict[str, Any] = {"column": self.column} | ({"kind": self.kind} if self.kind else {})
        shared = {fact.name for fact in fields(Feature)}
        own = fields(cast(Any, self))
        for fact in sorted(own, key=lambda fact: fact.name in shared):
            value = getattr(self, fact.name)
            if fact.name != "column" and value != fact.default:
                facts[fact.name] = list(value) if isinstance(value, tuple) else value
        return facts

    def _set(self, key: str, value: object) -> None:
        object.__setattr__(self, key, value)

    def _error(self, what: str) -> SchemaError:
        return SchemaError(f"column {self.column!r}: {what}.")


@dataclass(frozen=True, kw_only=True)
class Feature(Declared, ABC):
    """One column with its public facts.

    Parameters
    ----------
    column : str
        Name in the table.
    na : value or list of values, optional
        What the table writes where a value is missing, beside empty cells: ``["?", -1]``.
    missing : "center", value or "indicator", optional
        What a missing value becomes: all zeros (the public centre); a declared value of the column;
        or all zeros next to one more encoded column that says so. Without it, missing is an error.
    missing_share : float, default=0.5
        Public share of missing values; centre and scale of the indicator column.
    importance : float, optional
        Public weight >= 0, in any unit; declared for every feature of a schema or for none.
    sign : {-1, 0, 1}, default=0
        Whether experts expect the label to be likelier (1) or rarer (-1) as the feature grows.
    """

    column: str = field(kw_only=False)
    na: tuple[Value, ...] = fact(declared_tokens, default=())
    missing: Value | None = None
    missing_share: float | None = fact(declared_share, default=None)
    importance: float | Mapping[Value, float] | tuple[float, ...] | None = None
    sign: int | Mapping[Value, int] | tuple[int, ...] = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        self._settle()
        if self.missing_share is not None and not self.has_indicator:
            raise self._error('missing_share needs missing = "indicator"')
        if self.missing not in (None, INDICATOR, CENTER):
            self._set("missing", self._settle_missing(self.missing))
        self._set("importance", self._settle_weight("importance", self.importance))
        self._set("sign", self._settle_weight("sign", 0 if self.sign is None else self.sign))

    # What a kind of feature adds: checks of its facts against each other, and of the value that
    # stands for a missing one; which vertex a cell is; what becomes of vertices that have a value.

    @abstractmethod
    def _settle(self) -> None: ...

    @abstractmethod
    def _settle_missing(self, value: object) -> Value: ...

    @property
    @abstractmethod
    def size(self) -> int:
        """Number of vertices; the last is that of a missing cell."""

    @abstractmethod
    def vertices(self, cells: Cells) -> NDArray[np.intp]:
        """Return which vertex each cell is; refuse those that the schema does not allow."""

    @abstractmethod
    def _encoded(self, form: Form) -> Basis:
        """Return what becomes of declared values, or points."""

    def _own_names(self) -> tuple[str, ...]:
        """Return the names of the encoded columns, without the indicator."""
        return (self.column,)

    def _vertex(self, value: Value) -> int:
        """Return which vertex a declared value is."""
        return int(self.vertices(as_cells([value]))[0])

    def _unknown(self, own: Floats) -> Floats | None:  # noqa: ARG002
        """Return what becomes of a value that is not declared, if it is allowed."""
        return None

    @property
    def known(self) -> tuple[Value, ...]:
        """The values that the table may hold; none where any number may stand."""
        return ()

    # What every kind shares.

    @property
    def has_indicator(self) -> bool:
        """Whether a missing value gets an encoded column of its own."""
        return self.missing == INDICATOR

    @once
    def encoded(self, form: Form) -> Encoded:
        """Return what becomes of the column.

        In a body magnitudes of its encoded numbers add up to one at most: a missing value has a
        corner of its own, or is the centre.
        """
        basis, centre, scale, block, more = self._encoded(form)
        own = (basis - np.array(centre)) / np.array(scale)
        zeros = np.zeros(own.shape[1])
        missing: Floats | None = zeros
        if self.has_indicator:
            p = 0.5 if self.missing_share is None else self.missing_share
            deviation = float(np.sqrt(p * (1 - p)))
            shaped = form != "standardised"
            absent, present = (1.0, 0.0) if shaped else ((1.0 - p) / deviation, -p / deviation)
            missing, block = np.append(zeros, absent), replace(block, size=block.size + 1)
            own = np.column_stack([own, np.full(len(own), present)])
        elif self.missing is None:
            missing = None
        elif self.missing != CENTER:
            missing = own[self._vertex(self.missing)]
        unknown = self._unknown(own)
        table = np.zeros((self.size, own.shape[1]))
        table[: len(own)] = own
        for last, numbers in enumerate((missing, unknown), start=1):
            table[-last] = table[-last] if numbers is None else numbers
        told = {
            "column": self.column,
            "centre": list(centre),
            "scale": list(scale),
            "present": own[0, len(centre) :].tolist(),
            "missing": None if missing is None else missing.tolist(),
            **more,
        }
        if unknown is not None:
            told["unknown"] = unknown.tolist()
        hats = tuple(f"{self.column}~{j + 1}" for j in range(block.smooth))
        return Encoded((hats or self._own_names()) + self._indicator, block, table, told)

    @property
    def _indicator(self) -> tuple[str, ...]:
        return (f"{self.column}=missing",) * self.has_indicator

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the standardised columns."""
        return self._own_names() + self._indicator

    @property
    def variances(self) -> tuple[float, ...]:
        """Variance of each standardised column that the declared facts imply."""
        own = (self.encoded("standardised").block.spread,) * len(self._own_names())
        return own + (1.0,) * self.has_indicator

    @property
    def importances(self) -> tuple[float, ...] | None:
        """Importance of each standardised column, or None where none is declared."""
        if self.importance is None:
            return None
        own = self._spread(self.importance)
        return own + (max(own),) * self.has_indicator

    @property
    def signs(self) -> tuple[int, ...]:
        """Expected sign of each standardised column; 0 where nobody knows."""
        return self._spread(self.sign) + (0,) * self.has_indicator

    def _spread(self, weight: Any) -> tuple[Any, ...]:
        return weight if isinstance(weight, tuple) else (weight,) * len(self._own_names())

    def _settle_weight(self, key: str, weight: Any) -> Any:
        if weight is None:
            return None
        number = declared_number(self.column, key, weight)
        if key == "importance":
            if number < 0:
                raise self._error("importance must be >= 0")
            return number
        if number not in (-1, 0, 1):
            raise self._error("sign must be -1, 0 or 1")
        return int(number)

    def _check_moments(self, low: float, high: float, where: str) -> None:
        """Check a mean and a deviation, if the feature declares them."""
        mean, sd = getattr(self, "mean", None), getattr(self, "sd", None)
        if (mean is None) != (sd is None):
            raise self._error("mean and sd go together: declare both or neither")
        if mean is not None and not low <= mean <= high:
            raise self._error(f"mean lies outside the {where}")
        if sd is not None and sd <= 0:
            raise self._error("sd must be above 0")


@final
@dataclass(frozen=True, kw_only=True)
class Number(Feature):
    r"""A number, clipped to its bounds, centred and scaled.

    With ``t(x) = x``, or ``t(x) = log(1 + x - lo)`` if ``log``, a value becomes
    ``(t(clip(x, lo, hi)) - mean) / sd``. Where no mean and standard deviation are declared, the
    middle and the half-width of ``[t(lo), t(hi)]`` take their place.

    Parameters
    ----------
    column : str
        Name in the table.
    bounds : pair of float
        Smallest and largest meaningful value; what lies outside is moved to the nearest of them.
    dates : str, optional
        Cells are dates or moments, and the number is counted from one of them: in
        ``"hours since 2020-01-01"``, days, or years of 365.25 days.
    mean, sd : float, optional
        Public mean and standard deviation of ``t(x)`` (of the logarithm, if ``log``): both or none.
    log : bool, default=False
        Whether the logarithm is taken: for amounts and counts with a long tail.
    curve : "auto", bool or list of float, default="auto"
        Whether the number may matter in a curve and not in a straight line: yes, no, by the public
        rule of the estimator, or with these knots, from the lowest to the highest. Otherwise
        there are eight knots between the bounds, or as many as there are whole numbers.
    na, missing, missing_share, importance, sign
        See :class:`~confrere.data.features.Feature`.
    """

    bounds: tuple[float, float] = fact(declared_bounds)
    dates: str | None = fact(declared_dates, default=None)
    mean: float | None = fact(declared_number, default=None)
    sd: float | None = fact(declared_number, default=None)
    log: bool = fact(declared_truth, default=False)
    curve: bool | Literal["auto"] | tuple[float, ...] = "auto"

    kind: ClassVar[str] = "number"

    @override
    def _settle(self) -> None:
        where = "bounds (on the logarithmic scale)" if self.log else "bounds"
        self._check_moments(*self.range(), where)
        if self.dates is not None:
            unit, since = self._clock()
            if max(abs(since + unit * bound) for bound in self.bounds) > _LAST_DAY:
                raise self._error("dates: the bounds must be within 1,900 years of 1970")
        if not isinstance(self.curve, bool) and str(self.curve) != "auto":
            if isinstance(self.curve, str):
                raise self._error('curve must be true, false, "auto" or a list of knots')
            knots = declared_list(declared_number)(self.column, "curve", self.curve)
            inside = all(self.bounds[0] <= knot <= self.bounds[1] for knot in knots)
            if not 2 <= len(knots) <= MOST_HATS or not inside or any(np.diff(knots) <= 0):
                many = f"2 to {MOST_HATS} increasing numbers within the bounds"
                raise self._error(f"the knots of a curve must be {many}")
            self._set("curve", knots)

    @override
    def _settle_missing(self, value: object) -> Value:
        number = declared_number(self.column, "missing", value)
        if not self.bounds[0] <= number <= self.bounds[1]:
            raise self._error("the value for missing lies outside the bounds")
        return number

    def range(self) -> tuple[float, float]:
        """Return the bounds, on the scale of the logarithm if there is one."""
        lo, hi = self.bounds
        return (0.0, float(np.log1p(hi - lo))) if self.log else (lo, hi)

    def moments(self) -> tuple[float, float]:
        """Return centre and scale: as declared, or the middle and the half-width of the bounds."""
        if self.mean is not None and self.sd is not None:
            return self.mean, self.sd
        low, high = self.range()
        return (low + high) / 2, (high - low) / 2

    @property
    @override
    def size(self) -> int:
        grid, steps = self._grid()
        return (len(grid) - 1) * steps + 2

    @override
    def vertices(self, cells: Cells) -> NDArray[np.intp]:
        x, strange = self.read(cells)
        refuse(self.column, strange, _NO_NUMBER)
        absent = np.isnan(x)
        if self.missing is None:
            refuse(self.column, absent, _NO_VALUE)
        return np.where(absent, self.size - 1, self.nearest(x))

    @override
    def _vertex(self, value: Any) -> int:
        return int(self.nearest(np.array([value]))[0])

    def nearest(self, x: Floats) -> NDArray[np.intp]:
        """Return the points that numbers are moved to; anything where one is missing."""
        u = np.clip(x, *self.bounds)
        u = np.log1p(u - self.bounds[0]) if self.log else u
        ends, steps = self._grid()
        grid = np.array(ends)
        at: Any = np.searchsorted(grid[1:-1], u, side="right") if len(ends) > 2 else 0
        with np.errstate(invalid="ignore"):
            # What a reader of the release computes, operation by operation.
            share = np.clip((u - grid[at]) / np.diff(grid)[at], 0.0, 1.0)
            return np.asarray(at * steps + np.rint(share * steps).astype(np.intp))

    def read(self, cells: Cells) -> tuple[Floats, NDArray[np.bool_]]:
        """Return numbers, NaN where one is missing, and where there is none but something else."""
        if self.dates is None:
            return read_numbers(self.column, cells, self.na)
        return read_dates(self.column, cells, self.na, *self._clock())

    def _clock(self) -> tuple[int, int]:
        """Return the microseconds of a unit, and when counting begins."""
        unit, _, since = (self.dates or "").partition(" since ")
        return UNITS[unit], int(moment(since))

    def points(self) -> Floats:
        """Return the points of the grid: between its neighbours lie equal steps."""
        ends, steps = self._grid()
        grid = np.array(ends)
        inner = grid[:-1, None] + np.arange(steps) / steps * np.diff(grid)[:, None]
        return np.append(inner, grid[-1])

    @once
    def _grid(self) -> tuple[tuple[float, ...], int]:
        """Return where points lie closer or farther apart, and the steps between: of facts alone.

        Whole numbers between whole bounds are points, unless more is known of where records are:
        then there are as many between knots as beyond them.
        """
        low, high = self.range()
        whole = not self.log and low.is_integer() and high.is_integer() and high - low <= WHOLE
        steps = int(WHOLE // (high - low) * (high - low)) if whole else 1
        finest = math.inf if self.sd is None else self.sd / FINE
        if whole and (high - low) / steps <= finest:
            return (low, high), steps
        places = {low, high, *self._reached(KNOTS_REACH), *map(self._place, self.knots(True))}
        places |= set() if self.mean is None else {self.mean}
        inside = sorted(place for place in places if low <= place <= high)
        return tuple(inside), (POINTS - 1) // (len(inside) - 1)

    def knots(self, curves: bool) -> tuple[float, ...]:
        """Return the knots in raw units, or nothing where a line stays straight."""
        if isinstance(self.curve, tuple):
            return self.curve
        if not (curves if self.curve == "auto" else self.curve):
            return ()
        lo, hi = self.bounds
        whole = lo.is_integer() and hi.is_integer() and 3 <= hi - lo + 1 < HATS
        # A knot per whole number (between 0 and 1 there are rates, not two of them), or as many as
        # may be where most records are.
        low, high = self.range() if whole else self._reached(KNOTS_REACH)
        places = np.linspace(low, high, int(hi - lo + 1) if whole else HATS)
        return tuple(np.clip([self._raw(place) for place in places], lo, hi).tolist())

    def _reached(self, deviations: float) -> tuple[float, float]:
        """Return where most records are, within the bounds; between them if nobody knows."""
        low, high = self.range()
        middle, sd = self.mean or 0.0, self.sd or math.inf
        reach = max(deviations * sd, 1e-6 * (high - low))  # knots must differ
        return max(low, middle - reach), min(high, middle + reach)

    def _raw(self, place: float) -> float:
        return self.bounds[0] + math.expm1(place) if self.log else place

    def _place(self, value: float) -> float:
        return math.log1p(value - self.bounds[0]) if self.log else value

    @override
    def _encoded(self, form: Form) -> Basis:
        known, shaped = self.mean is not None, form != "standardised"
        (centre, scale), clip, u = self.moments(), self.bounds, self.points()
        bottom, top = self._reached(REACH)
        knots = tuple(map(self._place, self.knots(form == "curves"))) if shaped else ()
        if not knots and shaped and known:
            if self.log:
                knots = (bottom, top)  # a clip would move where the logarithm starts
            else:
                clip, scale = (bottom, top), max(top - centre, centre - bottom) * (1 + HAIR)
        u = u if self.log else np.clip(u, *clip)
        told = self._told(clip, knots)
        if not knots:
            block = BodyBlock(1, "number", 1.0 if known and not shaped else SPREAD)
            return (u[:, None], (centre,), (scale,), block, told)
        m, middle = len(knots), centre if known else (bottom + top) / 2
        block = BodyBlock(m, "curve", 1 / m, line_at(knots, middle, top, bottom), known)
        return (_hats(u, knots), (0.0,) * m, (1.0,) * m, block, told)

    def _told(self, clip: tuple[float, float], knots: tuple[float, ...]) -> Told:
        grid, steps = self._grid()
        return {
            "kind": self.kind,
            "na": [int(token) if isinstance(token, bool) else token for token in self.na],
            "clip": list(clip),
            "log": self.log,
            "grid": list(grid),
            "steps": steps,
            "knots": list(knots),
            **({} if self.dates is None else {"dates": list(self._clock())}),
        }


def line_at(
    places: tuple[float, ...], middle: float, top: float, bottom: float
) -> tuple[float, ...]:
    """Return what a straight line around a middle is at knots, cut where a line is cut.

    Knots that nobody expected may lie all on one side: then from the first of them to the last.
    """
    cut = np.clip(places, bottom, top)
    if not cut[0] < cut[-1]:
        cut, middle = np.array(places), (places[0] + places[-1]) / 2
    return tuple(((cut - middle) / np.abs(cut - middle).max()).tolist())


def _hats(u: Floats, knots: tuple[float, ...]) -> Floats:
    """Return hats at numbers: 1 at a knot, 0 at others, linear between, constant beyond all."""
    hats = np.ones((len(u), len(knots)))
    for j, gap in enumerate(np.diff(knots)):
        np.minimum(hats[:, j + 1], (u - knots[j]) / gap, out=hats[:, j + 1])
        np.minimum(hats[:, j], (knots[j + 1] - u) / gap, out=hats[:, j])
    return np.maximum(hats, 0.0)


@dataclass(frozen=True, kw_only=True)
class Discrete(Feature):
    """A column with a declared list of values: a text becomes a score, or one at its place."""

    @abstractmethod
    def _places(self) -> dict[Any, int]:
        """Return each declared value's row of the table."""

    @override
    def __post_init__(self) -> None:
        super().__post_init__()
        if self._meant() & {meaning(token) for token in self.na}:
            raise self._error("na names a value that is declared too")

    @property
    @override
    def known(self) -> tuple[Value, ...]:
        return tuple(self._places())

    def _meant(self) -> set[str | float | None]:
        return {meaning(value) for value in self._places()}

    @once
    def codes(self) -> dict[str, int]:
        """Return the place of every text that stands for a declared value; -1 means missing."""
        return codes_of(self._places(), self.na)

    @property
    @override
    def size(self) -> int:
        """Declared values, any other one, no value."""
        return max(self._places().values()) + 3

    @override
    def vertices(self, cells: Cells) -> NDArray[np.intp]:
        places = read_places(self.column, cells, self.codes())
        if getattr(self, "unknown", None) is None:
            refuse(self.column, places == UNKNOWN, "a value that is not declared")
        if self.missing is None:
            refuse(self.column, places == MISSING, _NO_VALUE)
        # No value is -1, the last; any other one is -2.
        places[places < 0] += self.size
        return places

    def _told(self, kind: str, **more: object) -> Told:
        return {"codes": self.codes(), "unknown": None, "kind": kind, **more}

    def _scored(self, scores: Floats, centre: float, scale: float, block: BodyBlock) -> Basis:
        told = self._told("score", scores=scores.tolist())
        return (scores[:, None], (centre,), (scale,), block, told)

    @override
    def _settle_missing(self, value: object) -> Value:
        found = declared_value(self.column, "missing", value)
        if meaning(found) not in self._meant():
            raise self._error("the value for missing is not a declared one")
        return found

    def _check_shares(self, count: int, *, whole: bool = True) -> None:
        """Check one share per value; rounded figures may miss the whole by two hundredths."""
        shares = getattr(self, "shares", None)
        if shares is None:
            return
        if len(shares) != count or sum(shares) > 1.02 or (whole and sum(shares) < 0.98):
            raise self._error(f"shares must be {count} numbers that add up to 1")

    def _settle_values(self, key: str, values: object) -> tuple[Value, ...]:
        found = declared_values(self.column, key, values)
        for rule in (INDICATOR, CENTER):
            if self.missing is not None and rule in found:
                raise self._error(f'a value named "{rule}" cannot be told from missing = "{rule}"')
        return found


@final
@dataclass(frozen=True, kw_only=True)
class Ordered(Discrete):
    """Levels in order, as one number: their rank or a declared score.

    A score becomes ``(score - mean) / sd`` with the mean and the standard deviation that are
    declared or follow from ``shares``; otherwise with the middle and the half-width of the scores.

    Parameters
    ----------
    column : str
        Name in the table.
    levels : list of values
        From the lowest to the highest.
    scores : list of float, optional
        One number per level, increasing; 0, 1, 2, ... unless declared.
    shares : list of float, optional
        Public share of each level.
    mean, sd : float, optional
        Public mean and standard deviation of the scores, instead of ``shares``.
    na, missing, missing_share, importance, sign
        See :class:`~confrere.data.features.Feature`.
    """

    levels: tuple[Value, ...]
    scores: tuple[float, ...] | None = fact(declared_list(declared_number), default=None)
    shares: tuple[float, ...] | None = fact(declared_list(declared_share), default=None)
    mean: float | None = fact(declared_number, default=None)
    sd: float | None = fact(declared_number, default=None)

    kind: ClassVar[str] = "ordered"

    @override
    def _settle(self) -> None:
        self._set("levels", self._settle_values("levels", self.levels))
        if len(self.levels) < 2:
            raise self._error("levels must name at least two values")
        if self.scores is not None and len(self.scores) != len(self.levels):
            raise self._error("scores must be one number per level")
        ranks = self.ranks()
        if any(np.diff(ranks) <= 0):
            raise self._error("scores must increase")
        self._check_moments(ranks[0], ranks[-1], "scores")
        if self.mean is not None and self.shares is not None:
            raise self._error("declare shares, or mean and sd, not both")
        self._check_shares(len(self.levels))

    def ranks(self) -> Floats:
        """Return the scores of the levels."""
        return np.array(self.scores or range(len(self.levels)), dtype=float)

    def moments(self) -> tuple[float, float]:
        """Return centre and scale: as declared, or the middle and the half-width of the scores."""
        scores = self.ranks()
        if self.mean is not None and self.sd is not None:
            return self.mean, self.sd
        if self.shares is not None:
            weights = np.array(self.shares) / sum(self.shares)
            mean = float(weights @ scores)
            return mean, float(np.sqrt(weights @ (scores - mean) ** 2))
        return float(scores[0] + scores[-1]) / 2, float(scores[-1] - scores[0]) / 2

    @override
    def _places(self) -> dict[Value, int]:
        return {level: place for place, level in enumerate(self.levels)}

    @override
    def _encoded(self, form: Form) -> Basis:
        scores, (centre, scale) = self.ranks(), self.moments()
        known = self.mean is not None or self.shares is not None
        if form == "standardised":
            # Where nothing favours a level each is as likely as the others.
            even = float(np.mean((scores - centre) ** 2)) / scale**2
            return self._scored(
                scores, centre, scale, BodyBlock(1, "number", 1.0 if known else even)
            )
        within = np.clip((scores - centre) / (REACH * scale if known else scale), -1, 1)
        spread = SPREAD if known else float(np.mean(within**2))
        return self._scored(within, 0.0, 1.0, BodyBlock(1, "number", spread))


@final
@dataclass(frozen=True, kw_only=True)
class Flag(Discrete):
    """Yes or no, as ``(x - share) / sqrt(share (1 - share))`` with x = 1 for yes and 0 for no.

    Parameters
    ----------
    column : str
        Name in the table.
    true, false : value or list of values, default=True and False
        What the table writes for yes and for no; True also stands for 1 and False for 0.
    share : float, default=0.5
        Public share of yes; unless declared, yes is 1 and no is -1.
    na, missing, missing_share, importance, sign
        See :class:`~confrere.data.features.Feature`.
    """

    true: tuple[Value, ...] = (True,)
    false: tuple[Value, ...] = (False,)
    share: float | None = fact(declared_share, default=None)

    kind: ClassVar[str] = "flag"

    @override
    def _settle(self) -> None:
        for side, default in (("true", (True,)), ("false", (False,))):
            found = self._settle_values(side, getattr(self, side))
            # 1 and 0 are equal to the defaults, which are not written: one schema, one encoding.
            self._set(side, default if found == default else found)
        self._settle_values("true and false", self.true + self.false)

    @override
    def _places(self) -> dict[Value, int]:
        return dict.fromkeys(self.false, 0) | dict.fromkeys(self.true, 1)

    @override
    def _encoded(self, form: Form) -> Basis:
        # In a body from end to end of the interval: an answer is as far from the other as noise
        # allows. What is rare often matters much, so its share says nothing about how much it can.
        share = 0.5 if self.share is None or form != "standardised" else self.share
        scale = float(np.sqrt(share * (1 - share)))
        return self._scored(np.array([0.0, 1.0]), share, scale, BodyBlock(1, "flag", 1.0))


@final
@dataclass(frozen=True, kw_only=True)
class Category(Discrete):
    """One of several values without an order: one encoded column per value.

    A column becomes ``(x - share) / sqrt(share (1 - share))`` with x = 1 for its value, else 0.

    Parameters
    ----------
    column : str
        Name in the table.
    values : list of values
        All that may appear.
    unknown : str, optional
        What any other value becomes: ``"zeros"`` (every encoded column at its public centre), a
        declared value, or the name of one more value that collects them. Without it, an error.
    shares : list of float, optional
        Public share of each encoded column, in order; equal shares unless declared.
    importance : float or table of value to float, optional
        For all values at once, or for each of them.
    sign : table of value to {-1, 0, 1}, optional
        Expected sign per value; values that are left out have none.
    na, missing, missing_share
        See :class:`~confrere.data.features.Feature`.
    """

    values: tuple[Value, ...]
    unknown: str | None = fact(declared_value, default=None)
    shares: tuple[float, ...] | None = fact(declared_list(declared_share), default=None)

    kind: ClassVar[str] = "category"

    @override
    def _settle(self) -> None:
        self._set("values", self._settle_values("values", self.values))
        if self.unknown == ZEROS and ZEROS in self.values:
            raise self._error('a value named "zeros" cannot be told from unknown = "zeros"')
        self._settle_values("values and unknown", self._buckets())
        if len(self._buckets()) < 2:
            raise self._error("values must name at least two values")
        self._check_shares(len(self._buckets()), whole=self.unknown != ZEROS)

    def _buckets(self) -> tuple[Value, ...]:
        # What has an encoded column: the values, then the collecting one if it is new.
        if self.unknown is None or self.unknown == ZEROS or self.unknown in self.values:
            return self.values
        return (*self.values, self.unknown)

    def unknown_place(self) -> int | None:
        """Return which encoded column collects undeclared values, if one does."""
        return None if self.unknown is None else self._places().get(self.unknown)

    @override
    def _settle_weight(self, key: str, weight: Any) -> Any:
        if isinstance(weight, Mapping):
            weight = self._from_table(key, weight)
        if isinstance(weight, tuple | list):
            if len(weight) != len(self._buckets()):
                raise self._error(f"{key} must be given for every value")
            settle = super()._settle_weight
            settled = tuple(settle(key, number) for number in weight)
            return settled if key == "importance" or any(settled) else 0
        if key == "sign" and weight != 0:
            raise self._error("the sign of a category is a table: value = -1, 0 or 1")
        return super()._settle_weight(key, weight)

    def _from_table(self, key: str, table: Mapping[Any, Any]) -> tuple[Any, ...]:
        written = {str(value): number for value, number in table.items()}
        buckets = [str(bucket) for bucket in self._buckets()]
        if not set(written) <= set(buckets):
            raise self._error(f"{key} names a value that is not declared")
        if key == "importance" and len(written) < len(buckets):
            raise self._error("importance must be given for every value, or once for all")
        return tuple(written.get(bucket, 0) for bucket in buckets)

    @override
    def to_dict(self) -> dict[str, Any]:
        facts = super().to_dict()
        for key in ("importance", "sign"):
            if isinstance(facts.get(key), list):
                named = zip(self._buckets(), facts[key], strict=True)
                facts[key] = {str(bucket): number for bucket, number in named}
        return facts

    @override
    def _places(self) -> dict[Value, int]:
        return {bucket: place for place, bucket in enumerate(self._buckets())}

    @override
    def _encoded(self, form: Form) -> Basis:
        count, told = len(self._buckets()), self._told("one-hot")
        if form != "standardised":
            block = BodyBlock(count, "category", 1 / count)
            return (np.eye(count), (0.0,) * count, (1.0,) * count, block, told)
        shares = np.array((1 / count,) * count if self.shares is None else self.shares)
        scale = np.sqrt(shares * (1 - shares)).tolist()
        return (np.eye(count), shares.tolist(), scale, BodyBlock(count, "category", 1.0), told)

    @override
    def _unknown(self, own: Floats) -> Floats | None:
        place, count = self.unknown_place(), len(self._buckets())
        if self.unknown is None or place is not None:
            return None if place is None else own[place]
        return np.append(np.zeros(count), own[0, count:])

    @override
    def _own_names(self) -> tuple[str, ...]:
        return tuple(f"{self.column}={bucket}" for bucket in self._buckets())


#: What the other side of a lone declared value is called, where there is a word for it.
_YES = ("1", "yes", "Yes", "YES", "y", "Y", "true", "True", "TRUE")
_NO = ("0", "no", "No", "NO", "n", "N", "false", "False", "FALSE")
_OPPOSITES: dict[Value, Value] = {1: 0, **dict(zip(_YES, _NO, strict=True))}


@final
@dataclass(frozen=True, kw_only=True)
class Label(Declared):
    """What is to be predicted: two sides, or several classes.

    Parameters
    ----------
    column : str
        Name in the table.
    positive : value or list of values
        What counts as 1.
    negative : value or list of values, optional
        What counts as -1; unless declared, every other value does. Where all declared labels are
        words, the numbers 1 and -1 stand for the sides.
    base_rate : float, optional
        Public share of the positive side.
    classes : list of values, optional
        All classes, instead of ``positive``.
    """

    column: str = field(kw_only=False)
    positive: tuple[Value, ...] | None = fact(declared_values, default=None)
    negative: tuple[Value, ...] | None = fact(declared_values, default=None)
    base_rate: float | None = fact(declared_share, default=None)
    classes: tuple[Value, ...] | None = fact(declared_values, default=None)

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.positive is None) == (self.classes is None):
            raise self._error("declare positive (two sides) or classes (several), one of them")
        if self.classes is not None:
            if self.negative is not None or self.base_rate is not None:
                raise self._error("negative and base_rate belong to positive, not to classes")
            if len(self.classes) < 2:
                raise self._error("classes must name at least two values")
        if self.positive is not None and self.negative is not None:
            declared_values(self.column, "positive and negative", self.positive + self.negative)

    @property
    def known(self) -> tuple[Value, ...]:
        """All declared labels: the classes, or the positive ones and then the negative ones."""
        return self.classes or (self.positive or ()) + (self.negative or ())

    @property
    def names(self) -> tuple[Value, ...]:
        """What predictions are called: of -1 and of 1, or the sorted classes."""
        if self.classes is not None:
            return tuple(sorted(self.classes))
        assert self.positive is not None
        if len(self.positive) == 1 and self.negative is None:
            value = self.positive[0]
            if isinstance(value, bool):
                return (not value, value)
            if value in _OPPOSITES:
                return (_OPPOSITES[value], value)
        positive = " or ".join(map(str, self.positive))
        if self.negative is None:
            return (f"not {positive}", positive)
        sides = (self.negative, self.positive)
        if all(len(side) == 1 for side in sides) and len({type(side[0]) for side in sides}) == 1:
            return (self.negative[0], self.positive[0])
        return (" or ".join(map(str, self.negative)), positive)

    def places(self, values: Any) -> NDArray[np.intp]:
        """Return which of the known labels each cell is: -1 where it is missing, -2 if it is none.

        The numbers 1 and -1 stand for the sides where all declared labels are texts of no number.
        """
        known = self.known
        codes = codes_of({value: place for place, value in enumerate(known)}, ())
        if self.classes is None:
            other = len(known)
            if not any(isinstance(meaning(value), float) for value in known):
                codes |= {"1": 0, "-1": other}
            elif self.negative is None and codes.keys() & {"0", "1"}:
                codes = {"0": other, "1": other, **codes}  # both truth values have a side
        return read_places(self.column, as_cells(values, self.column), codes)

    def encode(self, values: Any) -> NDArray[Any]:
        """Return -1 and 1, or the declared classes; refuse missing and undeclared values."""
        places = self.places(values)
        absent = places == MISSING
        refuse(self.column, absent, "no label; drop them by a rule that does not look at others")
        if self.classes is not None or self.negative is not None:
            refuse(self.column, places == UNKNOWN, "a label that is not declared")
        if self.classes is not None:
            named: NDArray[Any] = np.array(self.classes)[places]
            return named
        sides = (places >= 0) & (places < len(self.positive or ()))
        return np.where(sides, 1, -1)

    def column_of(self, table: Any) -> Cells:
        """Return the label's column of a table; a lone column is taken to be that one."""
        if not is_table(table):
            return as_cells(table, self.column)
        if column_names(table).count(self.column) != 1:
            raise InvalidData(f"the label needs a data frame with one column {self.column!r}.")
        return declared_columns(table, [self.column])[self.column]
