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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache, cached_property
from typing import Annotated, Any, ClassVar, Literal, TypeAlias, cast, final, get_type_hints

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, BeforeValidator, Field, Strict, TypeAdapter, ValidationError
from typing_extensions import override

from confrere.arrays import Floats
from confrere.data.cells import (
    MISSING,
    UNITS,
    UNKNOWN,
    Array,
    Cells,
    Container,
    Value,
    as_cells,
    codes_of,
    column_names,
    declared_columns,
    is_table,
    meaning,
    moment,
    read_numbers,
    read_places,
    refuse,
    spelt,
)
from confrere.errors import InvalidData, SchemaError

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

#: How columns are encoded: for a ball, or for a body with lines (cut, or straight) or with curves.
Form: TypeAlias = Literal["standardised", "linear", "curves", "straight"]

#: A column in the closed language, as plain values.
Told: TypeAlias = dict[str, Any]

#: In microseconds: before it every moment has a date, and doubles tell a minute from the next.
_LAST_DAY = 1_900 * UNITS["years"]

_NO_NUMBER = "no number, as is declared; name such texts in na, or declare another kind"
_NO_VALUE = "no value; declare what becomes of it, missing = 'center', 'indicator' or a value"


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


def plain(value: object) -> Any:
    """Return numbers and lists of numpy as plain ones; -0.0 and 0.0 are one fact."""
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return tuple(map(plain, value))
    if isinstance(value, Mapping):
        return {key: plain(own) for key, own in value.items()}
    return value + 0.0 if type(value) is float else value


def _listed(values: object) -> object:
    return values if isinstance(values, tuple) else (values,)


def _apart(values: tuple[Value, ...]) -> tuple[Value, ...]:
    """Refuse values of which one means nothing, or the same as another; 1.0 becomes 1."""
    meant = [meaning(value) for value in values]
    if not meant:
        raise ValueError("must not be empty")
    if None in meant:
        what = "names a text that means no value, in files and elsewhere"
        raise ValueError(f"{what}; write the value in another way")
    if len({*meant}) < len(meant):
        what = "names a value twice; texts of one number or truth value are one, and so are"
        raise ValueError(f"{what} whole numbers beyond 2**53 that doubles do not tell apart")
    return values


# What facts may be. A lone value stands for a list of it; a constant has no scale.
Real = Annotated[float, Strict(), Field(allow_inf_nan=False)]
Share = Annotated[float, Strict(), Field(gt=0, lt=1)]
Truth = Annotated[bool, Strict()]
Plain = Annotated[
    Annotated[str, Strict()] | Annotated[int, Strict()] | Real | Truth,
    AfterValidator(lambda x: int(x) if isinstance(x, float) and x.is_integer() else x),
]
Title = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f\x7f]+$")]
Tokens = Annotated[tuple[Plain, ...], BeforeValidator(_listed)]
Values = Annotated[Tokens, AfterValidator(_apart)]
_VALUES = TypeAdapter[tuple[Value, ...]](Values)
Weight = Annotated[float, Strict(), Field(ge=0, allow_inf_nan=False)]
Sign = Literal[-1, 0, 1]


#: How pydantic says what is wrong, and how we do.
_WORDS = {
    "or Input should be": "or",
    "Input should": "must",
    "Tuple should": "must",
    "Field required": "must have more items",
    "a valid tuple": "a list",
    "a valid dictionary": "a table",
    "a valid boolean": "true or false",
    "a valid string": "a text",
    "a valid integer": "a whole number",
    "a valid number": "a number",
}


@cache
def _facts_of(kind: type) -> dict[str, TypeAdapter[Any]]:
    hints = get_type_hints(kind, include_extras=True)
    return {one.name: TypeAdapter(hints[one.name]) for one in fields(kind)}


class Declared(ABC):
    """A column's name with facts, each of which is checked by itself."""

    column: str
    title: str | None
    kind: ClassVar[str] = ""  #: As schemas write it; that of a label is not written
    #: The values that the table may hold; none where any number may stand.
    known: tuple[Value, ...] = ()

    @property
    def titled(self) -> str:
        """What people call the column, and its name."""
        return self.column if self.title is None else f"{self.title} ({self.column})"

    @property
    @abstractmethod
    def size(self) -> int:
        """Number of places."""

    @abstractmethod
    def places(self, cells: Cells) -> NDArray[np.intp]:
        """Return the place of each cell: -1 where it is missing, -2 if it is not declared."""

    def __post_init__(self) -> None:
        if not isinstance(self.column, str) or not self.column:
            raise SchemaError("every feature and the label need a column name: a non-empty text.")
        for key, fact in _facts_of(cast(Any, type(self))).items():
            vars(self)[key] = self._checked(fact, key, getattr(self, key))

    def _checked(self, fact: TypeAdapter[Any], key: str, value: object) -> Any:
        try:
            return fact.validate_python(plain(value))
        except ValidationError as problem:
            at = problem.errors()[0]["loc"][:1]  # of a list, the first that is wrong
            wrong = [e for e in problem.errors() if e["loc"][:1] == at or type(at[0]) is str]
            said = [one["msg"].removeprefix("Value error, ") for one in wrong]
            told = " or ".join(dict.fromkeys(said))
            for theirs, ours in _WORDS.items():
                told = told.replace(theirs, ours)
            raise SchemaError(f"column {self.column!r}: {key} {told}.") from None

    def to_dict(self) -> Told:
        """Return the declared facts as plain values; what was not declared is left out."""
        facts: Told = {"column": self.column} | ({"kind": self.kind} if self.kind else {})
        shared = {fact.name for fact in fields(Feature)}
        for fact in sorted(fields(cast(Any, self)), key=lambda fact: fact.name in shared):
            value = getattr(self, fact.name)
            if fact.name != "column" and value != fact.default:
                facts[fact.name] = list(value) if isinstance(value, tuple) else value
        return facts

    def _refuse(self, wrong: object, what: str) -> None:
        if wrong:
            raise SchemaError(f"column {self.column!r}: {what}.")


@dataclass(frozen=True, kw_only=True)
class Feature(Declared):
    """One column with its public facts.

    Parameters
    ----------
    column, title : str
        Name in the table, and what people call it, with its unit.
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
    title: Title | None = None
    na: Tokens = ()
    missing: Plain | None = None
    missing_share: Share | None = None
    importance: Weight | None = None
    sign: Sign = 0

    @override
    def __post_init__(self) -> None:
        super().__post_init__()
        unused = self.missing_share is not None and not self.has_indicator
        self._refuse(unused, 'missing_share needs missing = "indicator"')
        self._settle()

    # What a kind of feature adds: checks of its facts against each other; which of its vertices a
    # cell is, of which the last is that of a missing one; what becomes of those that have a value.
    @abstractmethod
    def _settle(self) -> None: ...

    @abstractmethod
    def _encoded(self, form: Form) -> Basis: ...

    def _own_names(self) -> tuple[str, ...]:
        return (self.column,)

    def vertices(self, cells: Cells) -> NDArray[np.intp]:
        """Return which vertex each cell is; refuse those that the schema does not allow."""
        places = self.places(cells)
        if places.min(initial=0) < 0:
            if not self.collects:
                refuse(self.column, places == UNKNOWN, self.strange)
            if self.missing is None:
                refuse(self.column, places == MISSING, _NO_VALUE)
            places[places < 0] += self.size
        return places

    @abstractmethod
    def vertex(self, value: Value) -> int:
        """Return which vertex a value of the column is."""

    #: What a cell is that is not declared.
    strange: ClassVar[str] = "a value that is not declared; declare it"

    @property
    def collects(self) -> bool:
        """Whether values that are not declared are allowed."""
        return getattr(self, "unknown", None) is not None

    # What every kind shares.

    @property
    def has_indicator(self) -> bool:
        """Whether a missing value gets an encoded column of its own."""
        return self.missing == INDICATOR

    @property
    def _stands_in(self) -> bool:
        """Whether a value of the column stands for a missing one."""
        return self.missing not in (None, INDICATOR, CENTER)

    def block(self, form: Form) -> BodyBlock:
        return self.encoded(form).block

    def encoded(self, form: Form) -> Encoded:
        """Return what becomes of the column, made once."""
        key = f"_{form}"  # on the object itself: an equal one may mean other texts
        if key not in vars(self):
            vars(self)[key] = self._made(form)
        return cast(Encoded, vars(self)[key])

    def _made(self, form: Form) -> Encoded:
        """In a body magnitudes of encoded numbers add up to one at most.

        A missing value has a corner of its own, or is the centre.
        """
        basis, centre, scale, block, more = self._encoded(form)
        own = (basis - np.array(centre)) / np.array(scale)
        zeros, present, unknown = np.zeros(own.shape[1]), [], getattr(self, "unknown", None)
        usual, ends = more.pop("usual", zeros), dict[str, Floats]()
        if self.missing is not None:
            ends["missing"] = own[self.vertex(self.missing)] if self._stands_in else usual
        if self.has_indicator:
            p = self.missing_share or 0.5
            deviation = float(np.sqrt(p * (1 - p)))
            absent, there = (1 - p, -p) if form == "standardised" else (deviation, 0.0)
            present = [there / deviation]
            ends["missing"] = np.append(zeros, absent / deviation)
            own = np.column_stack([own, np.tile(present, len(own))])
        if unknown is not None:
            collected = unknown != ZEROS
            ends["unknown"] = own[self.vertex(unknown)] if collected else np.append(zeros, present)
        table = np.zeros((self.size, own.shape[1]))
        table[: len(own)] = own
        told: Told = {"column": self.column, "centre": list(centre), "scale": list(scale)}
        told |= {"present": present, "missing": None, **more}
        for key, place in (("missing", -1), ("unknown", -2)):
            if key in ends:
                table[place], told[key] = ends[key], ends[key].tolist()
        names = self.names
        if block.line:
            hats = (f"{self.column}~{j + 1}" for j in range(len(block.line)))
            names = (*hats, *names[1:])
        return Encoded(names, replace(block, size=own.shape[1]), table, told)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the standardised columns."""
        return self._own_names() + (f"{self.column}=missing",) * self.has_indicator

    def each(self, weight: object, missing: float) -> tuple[Any, ...]:
        """Return a number per standardised column; values may have one of their own, or share."""
        own = weight if isinstance(weight, tuple) else (weight,) * len(self._own_names())
        return own + (missing,) * self.has_indicator

    @property
    def often(self) -> tuple[float, ...] | None:
        """How often each declared value is expected, as far as that is declared."""
        yes = getattr(self, "share", None)
        return getattr(self, "shares", None) if yes is None else (1 - yes, yes)

    @property
    def importances(self) -> tuple[float, ...] | None:
        """Importance of each standardised column, or None where none is declared."""
        if self.importance is None:
            return None
        return self.each(self.importance, float(np.max(self.importance)))

    def _check_moments(self, low: float, high: float, where: str) -> None:
        mean, sd = getattr(self, "mean", None), getattr(self, "sd", None)
        lone = (mean is None) != (sd is None)
        self._refuse(lone, "mean and sd go together: declare both or neither")
        if mean is not None and sd is not None:
            self._refuse(not low <= mean <= high, f"mean lies outside the {where}")
            self._refuse(sd <= 0, "sd must be above 0")


@final
@dataclass(frozen=True, kw_only=True)
class Number(Feature):
    r"""A number, clipped to its bounds, centred and scaled.

    With ``t(x) = x``, or ``t(x) = log(1 + x - lo)`` if ``log``, a value becomes
    ``(t(clip(x, lo, hi)) - mean) / sd``. Where no mean and standard deviation are declared, the
    middle and the half-width of ``[t(lo), t(hi)]`` take their place.

    Parameters
    ----------
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
    column, title, na, missing, missing_share, importance, sign
        See :class:`~confrere.data.features.Feature`.
    """

    bounds: tuple[Real, Real]
    dates: str | None = None
    mean: Real | None = None
    sd: Real | None = None
    log: Truth = False
    curve: Literal["auto"] | Truth | tuple[Real, ...] = "auto"

    kind: ClassVar[str] = "number"
    strange: ClassVar[str] = _NO_NUMBER

    @override
    def _settle(self) -> None:
        (lo, hi), where = self.bounds, "bounds (on the logarithmic scale)" if self.log else "bounds"
        ordered = lo < hi and math.isfinite(hi - lo)
        self._refuse(not ordered, "the lower bound must be below the upper one")
        self._check_moments(*self.range(), where)
        if self.dates is not None:
            named, _, since = self.dates.partition(" since ")
            known = named in UNITS and math.isfinite(moment(since))
            told = f'{", ".join(UNITS)} since a day, such as "days since 2020-01-01"'
            self._refuse(not known, f"dates must be {told}")
            unit, start = UNITS[named], moment(since)
            last = max(abs(start + unit * bound) for bound in self.bounds)
            self._refuse(last > _LAST_DAY, "dates: the bounds must be within 1,900 years of 1970")
        if isinstance(self.curve, tuple):
            inside = all(lo <= knot <= hi for knot in self.curve)
            rising = 2 <= len(self.curve) <= MOST_HATS and all(np.diff(self.curve) > 0)
            many = f"2 to {MOST_HATS} increasing numbers within the bounds"
            self._refuse(not inside or not rising, f"the knots of a curve must be {many}")
        if self._stands_in:
            missing: Any = self.missing
            text = isinstance(missing, str | bool)
            self._refuse(text, "missing must be a finite number, or a rule")
            self._refuse(not lo <= missing <= hi, "the value for missing lies outside the bounds")
            vars(self)["missing"] = float(missing)

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
        return (len(self._grid[0]) - 1) * self._grid[1] + 2

    @override
    def places(self, cells: Cells) -> NDArray[np.intp]:
        return self.placed(*self.read(cells))

    def placed(self, x: Floats, strange: NDArray[np.bool_]) -> NDArray[np.intp]:
        places, absent = self.nearest(x), np.isnan(x)
        if absent.any():
            places[absent] = np.where(strange[absent], UNKNOWN, MISSING)
        return places

    @override
    def vertex(self, value: Value) -> int:
        return int(self.nearest(np.array([value], dtype=np.float64))[0])

    def nearest(self, x: Floats) -> NDArray[np.intp]:
        """Return the points that numbers are moved to; anything where one is missing."""
        u = np.clip(x, *self.bounds)
        u = np.log1p(u - self.bounds[0]) if self.log else u
        ends, steps = self._grid
        grid = np.array(ends)
        at: Any = np.searchsorted(grid[1:-1], u, side="right") if len(ends) > 2 else 0
        with np.errstate(invalid="ignore"):
            # What a reader of the release computes, operation by operation, in one place.
            share = u - grid[at]
            share /= np.diff(grid)[at]
            np.clip(share, 0.0, 1.0, out=share)
            share *= steps
            places: NDArray[np.intp] = np.rint(share, out=share).astype(np.intp)
        return places if len(ends) == 2 else np.asarray(places + at * steps)

    def read(self, cells: Cells) -> tuple[Floats, NDArray[np.bool_]]:
        """Return numbers, NaN where one is missing, and where there is none but something else."""
        return read_numbers(self.column, cells, self.na, self._clock())

    def _clock(self) -> tuple[int, int] | None:
        """Return the microseconds of a unit, and when counting begins."""
        unit, _, since = (self.dates or "").partition(" since ")
        return None if self.dates is None else (UNITS[unit], int(moment(since)))

    def points(self) -> Floats:
        """Return the points of the grid: between its neighbours lie equal steps."""
        ends, steps = self._grid
        grid = np.array(ends)
        inner = grid[:-1, None] + np.arange(steps) / steps * np.diff(grid)[:, None]
        return np.append(inner, grid[-1])

    @cached_property
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
        # In numpy's last bit it may be another one.
        raw = [lo + math.expm1(place) if self.log else place for place in places]
        return tuple(np.clip(raw, lo, hi).tolist())

    def _reached(self, deviations: float) -> tuple[float, float]:
        """Return where most records are, within the bounds; between them if nobody knows."""
        low, high = self.range()
        middle, sd = self.mean or 0.0, self.sd or math.inf
        reach = max(deviations * sd, 1e-6 * (high - low))  # knots must differ
        return max(low, middle - reach), min(high, middle + reach)

    def _place(self, value: float) -> float:
        return math.log1p(value - self.bounds[0]) if self.log else value

    def raw(self, scaled: Floats) -> Floats:
        """Return numbers as tables have them, from the scale of the logarithm if there is one."""
        return self.bounds[0] + np.expm1(scaled) if self.log else scaled

    @override
    def _encoded(self, form: Form) -> Basis:
        whole, shaped = form == "straight", form != "standardised"
        known = self.mean is not None and not whole
        centre, scale = (replace(self, mean=None, sd=None) if whole else self).moments()
        clip, u = self.bounds, self.points()
        (bottom, top), clock = self._reached(REACH), self._clock()
        bent = self.knots(form == "curves") if shaped and not whole else ()
        knots = tuple(map(self._place, bent))
        if not knots and shaped and known:
            if self.log:
                knots = (bottom, top)  # a clip would move where the logarithm starts
            else:
                clip, scale = (bottom, top), max(top - centre, centre - bottom) * (1 + HAIR)
        u = u if self.log else np.clip(u, *clip)
        told = {
            "kind": self.kind,
            "na": [int(token) if isinstance(token, bool) else token for token in self.na],
            "clip": list(clip),
            "log": self.log,
            "grid": list(self._grid[0]),
            "steps": self._grid[1],
            "knots": list(knots),
            **({} if clock is None else {"dates": list(clock)}),
            **({"usual": (np.array(self.moments()[:1]) - centre) / scale} if whole else {}),
        }
        if not knots:
            spread = 1.0 if known and not shaped else SPREAD
            if whole and self.sd is not None:  # between wide bounds most records are alike
                spread = float(np.clip((self.sd / scale) ** 2, 0.001, SPREAD))
            block = BodyBlock(1, "number", spread)
            return (u[:, None], (centre,), (scale,), block, told)
        # A straight line around the middle, cut where a line is cut. Knots that nobody expected may
        # lie all on one side: then from the first of them to the last.
        cut, middle = np.clip(knots, bottom, top), centre if known else (bottom + top) / 2
        if not cut[0] < cut[-1]:
            cut, middle = np.array(knots), (knots[0] + knots[-1]) / 2
        m, line = len(knots), (cut - middle) / np.abs(cut - middle).max()
        block = BodyBlock(m, "curve", 1 / m, tuple(line.tolist()), known)
        return (_hats(u, knots), (0.0,) * m, (1.0,) * m, block, told)


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

    def _places(self) -> dict[Value, int]:
        return {value: place for place, value in enumerate(self.known)}

    @override
    def _settle(self) -> None:
        meant = {meaning(value) for value in self.known}
        for rule in (INDICATOR, CENTER):
            alike = self.missing is not None and rule in self.known
            self._refuse(alike, f'a value named "{rule}" cannot be told from missing = "{rule}"')
        both = meant & {meaning(token) for token in self.na}
        self._refuse(both, "na names a value that is declared too")
        strange = self._stands_in and meaning(self.missing) not in meant
        self._refuse(strange, "the value for missing is not a declared one")
        # Rounded figures may miss the whole by two hundredths.
        shares, count = self.often, self.size - 2
        least = 0.98 if getattr(self, "unknown", None) != ZEROS else 0
        fair = shares is None or (len(shares) == count and least <= sum(shares) <= 1.02)
        self._refuse(not fair, f"shares must be {count} numbers that add up to 1")

    @cached_property
    def codes(self) -> dict[str, int]:
        """Return the place of every text that stands for a declared value; -1 means missing."""
        return codes_of(self._places(), self.na)

    @property
    @override
    def size(self) -> int:
        """Declared values, any other one, no value."""
        return max(self._places().values()) + 3

    @override
    def places(self, cells: Cells) -> NDArray[np.intp]:
        return read_places(self.column, cells, self.codes)

    @override
    def vertex(self, value: Value) -> int:
        return self.codes[spelt(meaning(value))]

    def _scored(self, scores: Floats, centre: float, scale: float, block: BodyBlock) -> Basis:
        told = {"codes": self.codes, "unknown": None, "kind": "score", "scores": scores.tolist()}
        return (scores[:, None], (centre,), (scale,), block, told)


@final
@dataclass(frozen=True, kw_only=True)
class Ordered(Discrete):
    """Levels in order, as one number: their rank or a declared score.

    A score becomes ``(score - mean) / sd`` with the mean and the standard deviation that are
    declared or follow from ``shares``; otherwise with the middle and the half-width of the scores.

    Parameters
    ----------
    levels : list of values
        From the lowest to the highest.
    scores : list of float, optional
        One number per level, increasing; 0, 1, 2, ... unless declared.
    shares : list of float, optional
        Public share of each level.
    mean, sd : float, optional
        Public mean and standard deviation of the scores, instead of ``shares``.
    column, title, na, missing, missing_share, importance, sign
        See :class:`~confrere.data.features.Feature`.
    """

    levels: Values
    scores: tuple[Real, ...] | None = None
    shares: tuple[Share, ...] | None = None
    mean: Real | None = None
    sd: Real | None = None

    kind: ClassVar[str] = "ordered"

    @override
    def _settle(self) -> None:
        ranks, count = self.ranks(), len(self.levels)
        self._refuse(count < 2, "levels must name at least two values")
        self._refuse(len(ranks) != count, "scores must be one number per level")
        self._refuse(any(np.diff(ranks) <= 0), "scores must increase")
        self._check_moments(ranks[0], ranks[-1], "scores")
        both = self.mean is not None and self.shares is not None
        self._refuse(both, "declare shares, or mean and sd, not both")
        super()._settle()

    def ranks(self) -> Floats:
        return np.array(self.scores or range(len(self.levels)), dtype=float)

    def moments(self) -> tuple[float, float]:
        scores = self.ranks()
        if self.mean is not None and self.sd is not None:
            return self.mean, self.sd
        if self.shares is not None:
            weights = np.array(self.shares) / sum(self.shares)
            mean = float(weights @ scores)
            return mean, float(np.sqrt(weights @ (scores - mean) ** 2))
        return float(scores[0] + scores[-1]) / 2, float(scores[-1] - scores[0]) / 2

    @property
    @override
    def known(self) -> tuple[Value, ...]:  # type: ignore[override]
        return self.levels

    @override
    def _encoded(self, form: Form) -> Basis:
        scores, (centre, scale) = self.ranks(), self.moments()
        known = self.mean is not None or self.shares is not None
        if form == "standardised":
            # Where nothing favours a level each is as likely as the others.
            spread = 1.0 if known else float(np.mean((scores - centre) ** 2)) / scale**2
            return self._scored(scores, centre, scale, BodyBlock(1, "number", spread))
        within = np.clip((scores - centre) / (REACH * scale if known else scale), -1, 1)
        spread = SPREAD if known else float(np.mean(within**2))
        return self._scored(within, 0.0, 1.0, BodyBlock(1, "number", spread))


@final
@dataclass(frozen=True, kw_only=True)
class Flag(Discrete):
    """Yes or no, as ``(x - share) / sqrt(share (1 - share))`` with x = 1 for yes and 0 for no.

    Parameters
    ----------
    true, false : value or list of values, default=True and False
        What the table writes for yes and for no; True also stands for 1 and False for 0.
    share : float, default=0.5
        Public share of yes; unless declared, yes is 1 and no is -1.
    column, title, na, missing, missing_share, importance, sign
        See :class:`~confrere.data.features.Feature`.
    """

    true: Values = (True,)
    false: Values = (False,)
    share: Share | None = None

    kind: ClassVar[str] = "flag"

    @override
    def _settle(self) -> None:
        # 1 and 0 are equal to the defaults, which are not written: one schema, one encoding.
        vars(self)["true"] = (True,) if self.true == (True,) else self.true
        vars(self)["false"] = (False,) if self.false == (False,) else self.false
        self._checked(_VALUES, "true and false", self.true + self.false)
        super()._settle()

    @property
    @override
    def known(self) -> tuple[Value, ...]:  # type: ignore[override]
        return self.false + self.true

    @override
    def _places(self) -> dict[Value, int]:
        return {value: int(value in self.true) for value in self.known}

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

    values: Values
    unknown: Plain | None = None
    shares: tuple[Share, ...] | None = None
    importance: Weight | tuple[Weight, ...] | dict[Plain, Weight] | None = None  # type: ignore[assignment]
    sign: Sign | tuple[Sign, ...] | dict[Plain, Sign] = 0  # type: ignore[assignment]

    kind: ClassVar[str] = "category"

    @override
    def _settle(self) -> None:
        alike = self.unknown == ZEROS and ZEROS in self.values
        self._refuse(alike, 'a value named "zeros" cannot be told from unknown = "zeros"')
        self._checked(_VALUES, "values and unknown", self.known)
        self._refuse(len(self.known) < 2, "values must name at least two values")
        for key in ("importance", "sign"):
            vars(self)[key] = self._by_value(key, getattr(self, key))
        super()._settle()

    @property
    @override
    def known(self) -> tuple[Value, ...]:  # type: ignore[override]
        # What has an encoded column: the values, then the collecting one if it is new.
        if self.unknown is None or self.unknown == ZEROS or self.unknown in self.values:
            return self.values
        return (*self.values, self.unknown)

    def _by_value(self, key: str, weight: object) -> object:
        """Return one weight for all values, or a tuple of one for each."""
        if key == "sign" and not isinstance(weight, dict | tuple):
            self._refuse(weight, "the sign of a category is a table: value = -1, 0 or 1")
        buckets = [str(bucket) for bucket in self.known]
        if isinstance(weight, dict):
            table = {str(value): number for value, number in weight.items()}
            strange = not set(table) <= set(buckets)
            self._refuse(strange, f"{key} names a value that is not declared")
            short = key == "importance" and len(table) < len(buckets)
            self._refuse(short, "importance must be given for every value, or once for all")
            weight = tuple(table.get(bucket, 0) for bucket in buckets)
        some = isinstance(weight, tuple) and len(weight) != len(buckets)
        self._refuse(some, f"{key} must be given for every value")
        flat = key == "sign" and not (isinstance(weight, tuple) and any(weight))
        return 0 if flat else weight

    @override
    def to_dict(self) -> Told:
        facts = super().to_dict()
        for key in ("importance", "sign"):
            if isinstance(facts.get(key), list):
                named = zip(self.known, facts[key], strict=True)
                facts[key] = {str(bucket): number for bucket, number in named}
        return facts

    @override
    def block(self, form: Form) -> BodyBlock:
        # Without one number per pair of values, which a body of too many is never asked for.
        count = len(self.known)
        spread = 1.0 if form == "standardised" else 1 / count
        return BodyBlock(count + self.has_indicator, "category", spread)

    @override
    def _encoded(self, form: Form) -> Basis:
        count, block = len(self.known), self.block(form)
        told: Told = {"codes": self.codes, "unknown": None, "kind": "one-hot"}
        if form != "standardised":
            return (np.eye(count), (0.0,) * count, (1.0,) * count, block, told)
        shares = np.array(self.shares or (1 / count,) * count)
        scale = np.sqrt(shares * (1 - shares)).tolist()
        return (np.eye(count), shares.tolist(), scale, block, told)

    @override
    def _own_names(self) -> tuple[str, ...]:
        return tuple(f"{self.column}={bucket}" for bucket in self.known)


#: What the other side of a lone declared value is called, where there is a word for it.
_YES = ("1", "yes", "Yes", "YES", "y", "Y", "true", "True", "TRUE")
_NO = ("0", "no", "No", "NO", "n", "N", "false", "False", "FALSE")
_OPPOSITES: dict[Value, Value] = {1: 0, **dict(zip(_YES, _NO, strict=True))}


@dataclass(frozen=True, kw_only=True)
class Outcome(Declared):
    """What is to be predicted. A kind of it has facts, and says what becomes of its cells."""

    column: str = field(kw_only=False)
    title: Title | None = None  #: What people call it
    #: What :meth:`encode` gives, sorted, and what each is called; nothing where it gives numbers.
    labels: ClassVar[tuple[Value, ...]] = ()
    names: ClassVar[tuple[Value, ...]] = ()

    @property
    def base_rate(self) -> float | None:
        """Public share of the positive side, where there are two sides and it is declared."""
        return None

    @abstractmethod
    def encode(self, values: Container) -> Array:
        """Return what is learned of what :meth:`column_of` gives; refuse missing and undeclared."""

    def column_of(self, table: Container) -> Container:
        """Return the column of a table; a lone column is taken to be that one."""
        if not is_table(table):
            return as_cells(table, self.column)
        if column_names(table).count(self.column) != 1:
            raise InvalidData(f"the label needs a data frame with one column {self.column!r}.")
        return declared_columns(table, [self.column])[self.column]


@final
@dataclass(frozen=True, kw_only=True)
class Label(Outcome):
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

    positive: Values | None = None
    negative: Values | None = None
    base_rate: Share | None = None
    classes: Values | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        told = "declare positive (two sides) or classes (several), one of them"
        self._refuse((self.positive is None) == (self.classes is None), told)
        if self.classes is not None:
            more = self.negative is not None or self.base_rate is not None
            self._refuse(more, "negative and base_rate belong to positive, not to classes")
            self._refuse(len(self.classes) < 2, "classes must name at least two values")
            mixed = len({isinstance(one, str) for one in self.classes}) > 1
            self._refuse(mixed, "classes must be all texts, or all numbers")
        else:
            self._checked(_VALUES, "positive and negative", self.known)
        vars(self)["labels"] = (-1, 1) if self.classes is None else tuple(sorted(self.classes))

    @property
    def known(self) -> tuple[Value, ...]:  # type: ignore[override]
        """All declared labels: the classes, or the positive ones and then the negative ones."""
        return self.classes or (self.positive or ()) + (self.negative or ())

    @property
    @override
    def size(self) -> int:
        return len(self.known) + 1

    @property
    def names(self) -> tuple[Value, ...]:  # type: ignore[override]
        """What predictions are called: of -1 and of 1, or the sorted classes."""
        if self.positive is None:
            return self.labels
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

    @override
    def places(self, cells: Container) -> NDArray[np.intp]:
        """Return which of the known labels each cell is.

        The numbers 1 and -1 stand for the sides where all declared labels are texts of no number.
        """
        known, other = self.known, len(self.known)
        codes = codes_of({value: place for place, value in enumerate(known)}, ())
        if self.classes is None:
            if not any(isinstance(meaning(value), float) for value in known):
                codes |= {"1": 0, "-1": other}
            elif self.negative is None and codes.keys() & {"0", "1"}:
                codes = {"0": other, "1": other, **codes}  # both truth values have a side
        found = read_places(self.column, as_cells(cells, self.column), codes)
        if self.classes is None and self.negative is None:
            found[found == UNKNOWN] = other
        return found

    @override
    def encode(self, values: Container) -> Array:
        places = self.places(values)
        absent = places == MISSING
        refuse(self.column, absent, "no label; drop them by a rule that does not look at others")
        refuse(self.column, places == UNKNOWN, "a label that is not declared; declare it")
        if self.classes is not None:
            return np.array(self.classes)[places]
        return np.where((places >= 0) & (places < len(self.positive or ())), 1, -1)
