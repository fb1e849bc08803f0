"""What everyone may know about one column: what all kinds of features share, and numbers.

A number has declared bounds, and a public mean and standard deviation where they are known.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, final

import numpy as np

from confrere.errors import SchemaError
from confrere.schema.cells import Value, meaning
from confrere.schema.curves import (
    HAIR,
    HATS,
    KNOTS_REACH,
    REACH,
    SPREAD,
    BodyBlock,
    Curve,
    checked_curve,
    checked_quantiles,
    count_hats,
    line_at,
)
from confrere.schema.encoding import AnyColumn, NumberColumn

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
    missing_share: float | None = None
    importance: float | Mapping[Value, float] | tuple[float, ...] | None = None
    sign: int | Mapping[Value, int] | tuple[int, ...] = 0

    kind: ClassVar[str]

    def __post_init__(self) -> None:
        if not isinstance(self.column, str) or not self.column:
            raise SchemaError("every feature needs a column name: a non-empty text.")
        self._settle()
        self._set("na", self._settle_na())
        if self.missing_share is not None:
            if not self.has_indicator:
                raise self._error('missing_share needs missing = "indicator"')
            self._set(
                "missing_share", declared_share(self.column, "missing_share", self.missing_share)
            )
        if self.missing is not None and not self._is_rule(self.missing):
            self._set("missing", self._settle_missing(self.missing))
        self._set("importance", self._settle_weight("importance", self.importance))
        self._set("sign", self._settle_weight("sign", 0 if self.sign is None else self.sign))

    # What a kind of feature adds.

    @abstractmethod
    def _settle(self) -> None:
        """Check and normalise the facts of this kind."""

    @abstractmethod
    def _settle_missing(self, value: object) -> Value:
        """Check the value that stands for a missing one."""

    @abstractmethod
    def _own_names(self) -> tuple[str, ...]:
        """Return the names of the encoded columns, without the indicator."""

    @abstractmethod
    def _own_variances(self) -> tuple[float, ...]:
        """Return the variances, after scaling, that the declared facts imply."""

    @abstractmethod
    def _column(self) -> AnyColumn:
        """Return what becomes of the column's cells, without those that are missing."""

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

    def _settle_na(self) -> tuple[Value, ...]:
        if isinstance(self.na, tuple | list | np.ndarray) and not len(self.na):
            return ()
        return declared_values(self.column, "na", self.na, differ=False)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the encoded columns."""
        return self._own_names() + ((f"{self.column}=missing",) if self.has_indicator else ())

    @property
    def variances(self) -> tuple[float, ...]:
        """Variance of each encoded column that the declared facts imply."""
        return self._own_variances() + ((1.0,) if self.has_indicator else ())

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

    def compiled(self) -> AnyColumn:
        """Return what becomes of the column, in the language that a release carries."""
        return self._column().with_missing(self.missing, self.missing_share)

    def in_body(self, curves: bool) -> tuple[AnyColumn, BodyBlock]:
        """Return what becomes of the column where noise is shaped like the rows.

        Magnitudes of its encoded numbers add up to one at most: a missing value has a corner of
        its own, or is the centre.

        Parameters
        ----------
        curves : bool
            Whether numbers whose curve is left to the public rule become hats.
        """
        column, block = self._body_column(curves)
        if self.has_indicator:
            return column.with_corner(), replace(block, size=block.size + 1)
        return column.with_missing(self.missing), block

    def body_names(self, curves: bool) -> tuple[str, ...]:
        """Return the names of the encoded columns of :meth:`in_body`."""
        smooth = self._body_column(curves)[1].smooth
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
        See :class:`~confrere.schema.feature.Feature`.
    """

    bounds: tuple[float, float]
    mean: float | None = None
    sd: float | None = None
    log: bool = False
    curve: Curve = "auto"
    quantiles: tuple[float, ...] | None = None

    kind: ClassVar[str] = "number"

    def _settle(self) -> None:
        bounds: object = self.bounds
        if isinstance(bounds, str) or not isinstance(bounds, Sequence) or len(bounds) != 2:
            raise self._error("bounds must be a pair: smallest, largest")
        lo, hi = (declared_number(self.column, "bounds", bound) for bound in bounds)
        if not lo < hi or not np.isfinite(hi - lo):
            raise self._error("the lower bound must be below the upper one")
        self._set("bounds", (lo, hi))
        if not isinstance(self.log, bool):
            raise self._error("log must be true or false")
        if (self.mean is None) != (self.sd is None):
            raise self._error("mean and sd go together: declare both or neither")
        if self.mean is not None:
            self._set("mean", declared_number(self.column, "mean", self.mean))
            self._set("sd", declared_number(self.column, "sd", self.sd))
            low, high = self._range()
            if not low <= self.mean <= high:
                scale = " (on the logarithmic scale)" if self.log else ""
                raise self._error(f"mean lies outside the bounds{scale}")
            if self.sd is None or self.sd <= 0:
                raise self._error("sd must be above 0")
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

    def _own_names(self) -> tuple[str, ...]:
        return (self.column,)

    def _own_variances(self) -> tuple[float, ...]:
        # Between bounds alone nothing favours a value: the uniform law on [-1, 1].
        return (1.0 if self.sd is not None else 1 / 3,)

    def _range(self) -> tuple[float, float]:
        lo, hi = self.bounds
        return (0.0, float(np.log1p(hi - lo))) if self.log else (lo, hi)

    def _column(self) -> NumberColumn:
        low, high = self._range()
        centre, scale = (low + high) / 2, (high - low) / 2
        if self.mean is not None and self.sd is not None:
            centre, scale = self.mean, self.sd
        return NumberColumn(
            column=self.column,
            na=tuple(int(token) if isinstance(token, bool) else token for token in self.na),
            clip=self.bounds,
            log=self.log,
            centre=(centre,),
            scale=(scale,),
        )

    def knots(self, curves: bool) -> tuple[float, ...]:
        """Return the knots in raw units, or nothing where a line stays straight.

        Parameters
        ----------
        curves : bool
            What the public rule says.
        """
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
