"""What everyone may know about one column: numbers, levels, flags, categories, and the label."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from confrere.data.cells import (
    MISSING,
    UNKNOWN,
    Cells,
    Value,
    as_cells,
    codes_of,
    column_names,
    declared_columns,
    is_table,
    meaning,
    read_places,
    refuse,
)
from confrere.data.encoding import (
    FINE,
    HAIR,
    HATS,
    KNOTS_REACH,
    POINTS,
    REACH,
    SPREAD,
    WHOLE,
    AnyColumn,
    BodyBlock,
    Curve,
    NumberColumn,
    OneHotColumn,
    ScoreColumn,
    checked_curve,
    checked_quantiles,
    count_hats,
    line_at,
    once,
)
from confrere.errors import InvalidData, SchemaError

INDICATOR = "indicator"
CENTER = "center"


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


def fact(check: Callable[[str, str, Any], Any], **default: Any) -> Any:
    """Return a field whose value, if there is one, is what ``check`` makes of the declared one."""
    return field(metadata={"check": check}, **default)


def settle(declared: Any) -> None:
    """Check the column's name and every fact by itself."""
    if not isinstance(declared.column, str) or not declared.column:
        what = "the label" if isinstance(declared, Label) else "every feature"
        raise SchemaError(f"{what} needs a column name: a non-empty text.")
    for one in fields(declared):
        value, check = getattr(declared, one.name), one.metadata.get("check")
        if check is not None and value is not None:
            object.__setattr__(declared, one.name, check(declared.column, one.name, value))


@dataclass(frozen=True, kw_only=True)
class Feature(ABC):
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
    na: tuple[Value, ...] = ()
    missing: Value | None = None
    missing_share: float | None = fact(declared_share, default=None)
    importance: float | Mapping[Value, float] | tuple[float, ...] | None = None
    sign: int | Mapping[Value, int] | tuple[int, ...] = 0

    kind: ClassVar[str]

    def __post_init__(self) -> None:
        settle(self)
        self._settle()
        if isinstance(self.na, tuple | list | np.ndarray) and not len(self.na):
            self._set("na", ())
        else:
            self._set("na", declared_values(self.column, "na", self.na, differ=False))
        if self.missing_share is not None and not self.has_indicator:
            raise self._error('missing_share needs missing = "indicator"')
        if self.missing is not None and not self._is_rule(self.missing):
            self._set("missing", self._settle_missing(self.missing))
        self._set("importance", self._settle_weight("importance", self.importance))
        self._set("sign", self._settle_weight("sign", 0 if self.sign is None else self.sign))

    # What a kind of feature adds: checks of its facts against each other, and of the value that
    # stands for a missing one; what becomes of its cells, without those that are missing.

    @abstractmethod
    def _settle(self) -> None: ...

    @abstractmethod
    def _settle_missing(self, value: object) -> Value: ...

    @abstractmethod
    def _column(self) -> AnyColumn: ...

    def _own_names(self) -> tuple[str, ...]:
        """Return the names of the encoded columns, without the indicator."""
        return (self.column,)

    def _own_variance(self) -> float:
        """Return the variance of each after scaling, as the declared facts imply it."""
        return 1.0

    @abstractmethod
    def _body_column(self, curves: bool) -> tuple[AnyColumn, BodyBlock]:
        """Return the same with numbers in an interval or at corners, and what they are."""

    def declared_values(self) -> tuple[Value, ...]:
        """Return the values that the table may hold; none where any number may stand."""
        return ()

    # What every kind shares.

    @property
    def has_indicator(self) -> bool:
        """Whether a missing value gets an encoded column of its own."""
        return self._is_rule(self.missing, INDICATOR)

    @staticmethod
    def _is_rule(missing: object, *rules: str) -> bool:
        return isinstance(missing, str) and missing in (rules or (INDICATOR, CENTER))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the encoded columns."""
        return self._own_names() + ((f"{self.column}=missing",) if self.has_indicator else ())

    @property
    def variances(self) -> tuple[float, ...]:
        """Variance of each encoded column that the declared facts imply."""
        own = (self._own_variance(),) * len(self._own_names())
        return own + ((1.0,) if self.has_indicator else ())

    @property
    def importances(self) -> tuple[float, ...] | None:
        """Importance of each encoded column, or None where none is declared."""
        if self.importance is None:
            return None
        own = self._spread(self.importance)
        return own + ((max(own),) if self.has_indicator else ())

    @property
    def signs(self) -> tuple[int, ...]:
        """Expected sign of each encoded column; 0 where nobody knows."""
        return self._spread(self.sign) + ((0,) if self.has_indicator else ())

    @once
    def compiled(self) -> AnyColumn:
        """Return what becomes of the column, in the language that a release carries."""
        return self._column().with_missing(self.missing, self.missing_share)

    @once
    def in_body(self, curves: bool) -> tuple[AnyColumn, BodyBlock]:
        """Return what becomes of the column where noise is shaped like the rows.

        Magnitudes of its encoded numbers add up to one at most: a missing value has a corner of its
        own, or is the centre. ``curves`` says whether numbers whose curve is left to the public
        rule become hats.
        """
        column, block = self._body_column(curves)
        if self.has_indicator:
            return column.with_corner(), replace(block, size=block.size + 1)
        return column.with_missing(self.missing), block

    @once
    def body_names(self, curves: bool) -> tuple[str, ...]:
        """Return the names of the encoded columns of :meth:`in_body`."""
        smooth = self.in_body(curves)[1].smooth
        own = tuple(f"{self.column}~{j + 1}" for j in range(smooth)) or self._own_names()
        return own + ((f"{self.column}=missing",) if self.has_indicator else ())

    def to_dict(self) -> dict[str, Any]:
        """Return the declared facts as plain values; what was not declared is left out."""
        facts: dict[str, Any] = {"column": self.column, "kind": self.kind}
        shared = {fact.name for fact in fields(Feature)}
        for fact in sorted(fields(self), key=lambda fact: fact.name in shared):
            value = getattr(self, fact.name)
            if fact.name != "column" and value != fact.default:
                facts[fact.name] = list(value) if isinstance(value, tuple) else value
        return facts

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

    def _set(self, key: str, value: object) -> None:
        object.__setattr__(self, key, value)

    def _error(self, what: str) -> SchemaError:
        return SchemaError(f"column {self.column!r}: {what}.")


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
    mean, sd : float, optional
        Public mean and standard deviation of ``t(x)`` (of the logarithm, if ``log``): both or none.
    log : bool, default=False
        Whether the logarithm is taken: for amounts and counts with a long tail.
    curve : "auto", bool or list of float, default="auto"
        Whether the number may matter in a curve and not in a straight line: yes, no, by the public
        rule of the estimator, or with these knots, from the lowest to the highest. Otherwise
        there are eight knots between the bounds, or as many as there are whole numbers.
    quantiles : list of float, optional
        Public quantiles at equal shares, from the lower bound to the upper: the knots of a curve
        whose knots are not declared.
    na, missing, missing_share, importance, sign
        See :class:`~confrere.data.features.Feature`.
    """

    bounds: tuple[float, float] = fact(declared_bounds)
    mean: float | None = fact(declared_number, default=None)
    sd: float | None = fact(declared_number, default=None)
    log: bool = fact(declared_truth, default=False)
    curve: Curve = "auto"
    quantiles: tuple[float, ...] | None = None

    kind: ClassVar[str] = "number"

    def _settle(self) -> None:
        where = "bounds (on the logarithmic scale)" if self.log else "bounds"
        self._check_moments(*self._range(), where)
        try:
            self._set("curve", checked_curve(self.curve, self.bounds))
            if self.quantiles is not None:
                self._set("quantiles", checked_quantiles(self.quantiles, self.bounds))
        except ValueError as problem:
            raise self._error(str(problem)) from None

    def _settle_missing(self, value: object) -> Value:
        number = declared_number(self.column, "missing", value)
        if not self.bounds[0] <= number <= self.bounds[1]:
            raise self._error("the value for missing lies outside the bounds")
        return number

    def _own_variance(self) -> float:
        # Between bounds alone nothing favours a value: the uniform law on [-1, 1].
        return 1.0 if self.sd is not None else 1 / 3

    def _range(self) -> tuple[float, float]:
        lo, hi = self.bounds
        return (0.0, float(np.log1p(hi - lo))) if self.log else (lo, hi)

    def _column(self) -> NumberColumn:
        low, high = self._range()
        centre, scale = (low + high) / 2, (high - low) / 2
        if self.mean is not None and self.sd is not None:
            centre, scale = self.mean, self.sd
        grid, steps = self._grid()
        return NumberColumn(
            column=self.column,
            na=tuple(int(token) if isinstance(token, bool) else token for token in self.na),
            clip=self.bounds,
            log=self.log,
            grid=grid,
            steps=steps,
            centre=(centre,),
            scale=(scale,),
        )

    def _grid(self) -> tuple[tuple[float, ...], int]:
        """Return where points lie closer or farther apart, and the steps between: of facts alone.

        Whole numbers between whole bounds are points, unless more is known of where records are:
        then there are as many between knots as beyond them.
        """
        low, high = self._range()
        whole = not self.log and low.is_integer() and high.is_integer() and high - low <= WHOLE
        steps = int(WHOLE // (high - low) * (high - low)) if whole else 1
        finest = math.inf if self.sd is None else self.sd / FINE
        if whole and (high - low) / steps <= finest and self.quantiles is None:
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
        if self.quantiles is not None:
            return self.quantiles
        hats = count_hats(*self.bounds)
        # A knot per whole number, or as many as may be where most records are.
        low, high = self._range() if hats < HATS else self._reached(KNOTS_REACH)
        knots = [self._raw(place) for place in np.linspace(low, high, hats)]
        return tuple(np.clip(knots, *self.bounds).tolist())

    def _reached(self, deviations: float) -> tuple[float, float]:
        """Return where most records are, within the bounds; between them if nobody knows."""
        low, high = self._range()
        middle, sd = self.mean or 0.0, self.sd or math.inf
        reach = max(deviations * sd, 1e-6 * (high - low))  # knots must differ
        return max(low, middle - reach), min(high, middle + reach)

    def within_bounds(self, places: Sequence[float]) -> tuple[float, ...]:
        """Return raw numbers at places from 0, the lower bound, to 1, the upper one."""
        low, high = self._range()
        inside = [self._raw(low + (high - low) * place) for place in places]
        found = np.where(np.asarray(places) >= 1, self.bounds[1], np.clip(inside, *self.bounds))
        return tuple(found.tolist())

    def _raw(self, place: float) -> float:
        return self.bounds[0] + math.expm1(place) if self.log else place

    def _place(self, value: float) -> float:
        return math.log1p(value - self.bounds[0]) if self.log else value

    def _body_column(self, curves: bool) -> tuple[NumberColumn, BodyBlock]:
        column, known = self._column(), self.mean is not None
        bottom, top = self._reached(REACH)
        middle = (bottom + top) / 2 if self.mean is None else self.mean
        places = tuple(self._place(knot) for knot in self.knots(curves))
        if not places and self.log and known:
            places = (bottom, top)  # a clip would move where the logarithm starts
        if places:
            m, line = len(places), line_at(places, middle, top, bottom)
            hats = replace(column, knots=places, centre=(0.0,) * m, scale=(1.0,) * m)
            return hats, BodyBlock(m, "curve", 1 / m, line, known)
        scale = max(top - middle, middle - bottom) * (1 + HAIR)
        straight = replace(column, clip=(bottom, top), centre=(middle,), scale=(scale,))
        return straight if known else column, BodyBlock(1, "number", SPREAD)


@dataclass(frozen=True, kw_only=True)
class Discrete(Feature):
    """A column with a declared list of values."""

    @abstractmethod
    def _places(self) -> dict[Any, int]:
        """Return each declared value's row of the table."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self._meant() & {meaning(token) for token in self.na}:
            raise self._error("na names a value that is declared too")

    def declared_values(self) -> tuple[Value, ...]:
        """Return the values that the table may hold, beside those that mean missing."""
        return tuple(self._places())

    def _meant(self) -> set[str | float | None]:
        return {meaning(value) for value in self._places()}

    def _codes(self) -> dict[str, int]:
        return codes_of(self._places(), self.na)

    def _scored(self, scores: tuple[float, ...], centre: float, scale: float) -> ScoreColumn:
        named = {"column": self.column, "codes": self._codes(), "scores": scores}
        return ScoreColumn(**named, centre=(centre,), scale=(scale,))  # type: ignore[arg-type]

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

    def _settle(self) -> None:
        self._set("levels", self._settle_values("levels", self.levels))
        if len(self.levels) < 2:
            raise self._error("levels must name at least two values")
        if self.scores is not None and len(self.scores) != len(self.levels):
            raise self._error("scores must be one number per level")
        if any(np.diff(self._scores()) <= 0):
            raise self._error("scores must increase")
        self._check_moments(self._scores()[0], self._scores()[-1], "scores")
        if self.mean is not None and self.shares is not None:
            raise self._error("declare shares, or mean and sd, not both")
        self._check_shares(len(self.levels))

    def _scores(self) -> NDArray[np.float64]:
        return np.array(
            range(len(self.levels)) if self.scores is None else self.scores, dtype=float
        )

    def _scale(self) -> tuple[float, float, float]:
        """Return centre, scale and the variance that is left after scaling."""
        scores = self._scores()
        if self.mean is not None and self.sd is not None:
            return self.mean, self.sd, 1.0
        if self.shares is not None:
            weights = np.array(self.shares) / sum(self.shares)
            mean = float(weights @ scores)
            return mean, float(np.sqrt(weights @ (scores - mean) ** 2)), 1.0
        half = float(scores[-1] - scores[0]) / 2
        # Nothing favours a level: each is as likely as the others.
        middle = float(scores[0] + scores[-1]) / 2
        return middle, half, float(np.mean((scores - middle) ** 2)) / half**2

    def _places(self) -> dict[Value, int]:
        return {level: place for place, level in enumerate(self.levels)}

    def _column(self) -> ScoreColumn:
        centre, scale, _ = self._scale()
        return self._scored(tuple(self._scores().tolist()), centre, scale)

    def _body_column(self, curves: bool) -> tuple[ScoreColumn, BodyBlock]:  # noqa: ARG002
        centre, scale, _ = self._scale()
        known = self.mean is not None or self.shares is not None
        within = np.clip((self._scores() - centre) / (REACH * scale if known else scale), -1, 1)
        spread = SPREAD if known else float(np.mean(within**2))
        column = replace(self._column(), scores=tuple(within.tolist()), centre=(0.0,), scale=(1.0,))
        return column, BodyBlock(1, "number", spread)

    def _own_variance(self) -> float:
        return self._scale()[2]


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

    def _settle(self) -> None:
        self._set("true", self._settle_values("true", self.true))
        self._set("false", self._settle_values("false", self.false))
        self._settle_values("true and false", self.true + self.false)
        # 1 and 0 are equal to the defaults, which are not written: one schema, one encoding.
        for side, default in (("true", (True,)), ("false", (False,))):
            if getattr(self, side) == default:
                self._set(side, default)

    def _places(self) -> dict[Value, int]:
        return dict.fromkeys(self.false, 0) | dict.fromkeys(self.true, 1)

    def _column(self) -> ScoreColumn:
        share = 0.5 if self.share is None else self.share
        return self._scored((0.0, 1.0), share, float(np.sqrt(share * (1 - share))))

    def _body_column(self, curves: bool) -> tuple[ScoreColumn, BodyBlock]:  # noqa: ARG002
        # From end to end of the interval: an answer is as far from the other as noise allows. What
        # is rare often matters much, so its share says nothing about how much it can.
        ends = replace(self._column(), centre=(0.5,), scale=(0.5,))
        return ends, BodyBlock(1, "flag", 1.0)


ZEROS = "zeros"


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

    def to_dict(self) -> dict[str, Any]:
        """Return the declared facts; importances and signs as tables of value to number."""
        facts = super().to_dict()
        for key in ("importance", "sign"):
            if isinstance(facts.get(key), list):
                named = zip(self._buckets(), facts[key], strict=True)
                facts[key] = {str(bucket): number for bucket, number in named}
        return facts

    def _places(self) -> dict[Value, int]:
        return {bucket: place for place, bucket in enumerate(self._buckets())}

    def _column(self) -> OneHotColumn:
        count = len(self._buckets())
        shares = np.array((1 / count,) * count if self.shares is None else self.shares)
        column = OneHotColumn(
            column=self.column,
            codes=self._codes(),
            centre=tuple(shares.tolist()),
            scale=tuple(np.sqrt(shares * (1 - shares)).tolist()),
        )
        return self._collecting(column)

    def _collecting(self, column: OneHotColumn) -> OneHotColumn:
        """Return the column with what becomes of values that are not declared."""
        if self.unknown is None:
            return column
        zeros = (0.0,) * len(self._buckets())
        elsewhere = zeros if self.unknown == ZEROS else column.vector(self.unknown)
        return replace(column, unknown=elsewhere)

    def _body_column(self, curves: bool) -> tuple[OneHotColumn, BodyBlock]:  # noqa: ARG002
        count = len(self._buckets())
        zeros, ones = (0.0,) * count, (1.0,) * count
        column = replace(self._column(), centre=zeros, scale=ones, unknown=None)
        return self._collecting(column), BodyBlock(count, "category", 1 / count)

    def _own_names(self) -> tuple[str, ...]:
        return tuple(f"{self.column}={bucket}" for bucket in self._buckets())


#: What the other side of a lone declared value is called, where there is a word for it.
_YES = ("1", "yes", "Yes", "YES", "y", "Y", "true", "True", "TRUE")
_NO = ("0", "no", "No", "NO", "n", "N", "false", "False", "FALSE")
_OPPOSITES: dict[Value, Value] = {1: 0, **dict(zip(_YES, _NO, strict=True))}


@final
@dataclass(frozen=True, kw_only=True)
class Label:
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
        settle(self)
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

    def to_dict(self) -> dict[str, Any]:
        """Return the declared facts as plain values."""
        facts = {fact.name: getattr(self, fact.name) for fact in fields(self)}
        return {
            key: list(value) if isinstance(value, tuple) else value
            for key, value in facts.items()
            if value is not None
        }

    def _error(self, what: str) -> SchemaError:
        return SchemaError(f"label {self.column!r}: {what}.")
