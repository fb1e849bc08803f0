"""Columns with a declared list of values: ordered levels, flags and categories.

Each is a table with one row of scaled numbers per declared value; encoding looks rows up.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from confrere.errors import SchemaError
from confrere.schema.cells import Value, codes_of, meaning
from confrere.schema.curves import REACH, SPREAD, BodyBlock
from confrere.schema.encoding import OneHotColumn, ScoreColumn
from confrere.schema.feature import (
    CENTER,
    INDICATOR,
    Feature,
    declared_number,
    declared_share,
    declared_value,
    declared_values,
)


def declared_shares(column: str, shares: object, count: int, *, whole: bool) -> tuple[float, ...]:
    """Return ``count`` shares; rounded figures may miss the whole by two hundredths."""
    if isinstance(shares, str | Mapping) or not isinstance(shares, Sequence | np.ndarray):
        raise _shares_error(column, count)
    found = tuple(declared_share(column, "shares", share) for share in shares)
    if len(found) != count or sum(found) > 1.02 or (whole and sum(found) < 0.98):
        raise _shares_error(column, count)
    return found


def _shares_error(column: str, count: int) -> SchemaError:
    return SchemaError(f"column {column!r}: shares must be {count} numbers that add up to 1.")


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

    def _settle_missing(self, value: object) -> Value:
        found = declared_value(self.column, "missing", value)
        if meaning(found) not in self._meant():
            raise self._error("the value for missing is not a declared one")
        return found

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
        See :class:`~confrere.schema.feature.Feature`.
    """

    levels: tuple[Value, ...]
    scores: tuple[float, ...] | None = None
    shares: tuple[float, ...] | None = None
    mean: float | None = None
    sd: float | None = None

    kind: ClassVar[str] = "ordered"

    def _settle(self) -> None:
        self._set("levels", self._settle_values("levels", self.levels))
        if len(self.levels) < 2:
            raise self._error("levels must name at least two values")
        if self.scores is not None:
            asked: object = self.scores
            if not isinstance(asked, Sequence | np.ndarray) or len(asked) != len(self.levels):
                raise self._error("scores must be one number per level")
            scores = tuple(declared_number(self.column, "scores", score) for score in asked)
            if any(np.diff(scores) <= 0):
                raise self._error("scores must increase")
            self._set("scores", scores)
        if (self.mean is None) != (self.sd is None):
            raise self._error("mean and sd go together: declare both or neither")
        if self.mean is not None:
            if self.shares is not None:
                raise self._error("declare shares, or mean and sd, not both")
            self._set("mean", declared_number(self.column, "mean", self.mean))
            self._set("sd", declared_number(self.column, "sd", self.sd))
            if self.sd is None or self.sd <= 0:
                raise self._error("sd must be above 0")
            if not self._scores()[0] <= self.mean <= self._scores()[-1]:
                raise self._error("mean lies outside the scores")
        if self.shares is not None:
            count = len(self.levels)
            self._set("shares", declared_shares(self.column, self.shares, count, whole=True))

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
        return ScoreColumn(
            column=self.column,
            codes=self._codes(),
            scores=tuple(self._scores().tolist()),
            centre=(centre,),
            scale=(scale,),
        )

    def _body_column(self, curves: bool) -> tuple[ScoreColumn, BodyBlock]:  # noqa: ARG002
        centre, scale, _ = self._scale()
        known = self.mean is not None or self.shares is not None
        within = np.clip((self._scores() - centre) / (REACH * scale if known else scale), -1, 1)
        spread = SPREAD if known else float(np.mean(within**2))
        column = replace(self._column(), scores=tuple(within.tolist()), centre=(0.0,), scale=(1.0,))
        return column, BodyBlock(1, "number", spread)

    def _own_names(self) -> tuple[str, ...]:
        return (self.column,)

    def _own_variances(self) -> tuple[float, ...]:
        return (self._scale()[2],)


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
        See :class:`~confrere.schema.feature.Feature`.
    """

    true: tuple[Value, ...] = (True,)
    false: tuple[Value, ...] = (False,)
    share: float | None = None

    kind: ClassVar[str] = "flag"

    def _settle(self) -> None:
        self._set("true", self._settle_values("true", self.true))
        self._set("false", self._settle_values("false", self.false))
        self._settle_values("true and false", self.true + self.false)
        # 1 and 0 are equal to the defaults, which are not written: one schema, one encoding.
        for side, default in (("true", (True,)), ("false", (False,))):
            if getattr(self, side) == default:
                self._set(side, default)
        if self.share is not None:
            self._set("share", declared_share(self.column, "share", self.share))

    def _places(self) -> dict[Value, int]:
        return dict.fromkeys(self.false, 0) | dict.fromkeys(self.true, 1)

    def _column(self) -> ScoreColumn:
        share = 0.5 if self.share is None else self.share
        return ScoreColumn(
            column=self.column,
            codes=self._codes(),
            scores=(0.0, 1.0),
            centre=(share,),
            scale=(float(np.sqrt(share * (1 - share))),),
        )

    def _body_column(self, curves: bool) -> tuple[ScoreColumn, BodyBlock]:  # noqa: ARG002
        # From end to end of the interval: an answer is as far from the other as noise allows. What
        # is rare often matters much, so its share says nothing about how much it can.
        ends = replace(self._column(), centre=(0.5,), scale=(0.5,))
        return ends, BodyBlock(1, "flag", 1.0)

    def _own_names(self) -> tuple[str, ...]:
        return (self.column,)

    def _own_variances(self) -> tuple[float, ...]:
        return (1.0,)


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
        See :class:`~confrere.schema.feature.Feature`.
    """

    values: tuple[Value, ...]
    unknown: str | None = None
    shares: tuple[float, ...] | None = None

    kind: ClassVar[str] = "category"

    def _settle(self) -> None:
        self._set("values", self._settle_values("values", self.values))
        if self.unknown is not None:
            self._set("unknown", declared_value(self.column, "unknown", self.unknown))
            if self.unknown == ZEROS and ZEROS in self.values:
                raise self._error('a value named "zeros" cannot be told from unknown = "zeros"')
        self._settle_values("values and unknown", self._buckets())
        if len(self._buckets()) < 2:
            raise self._error("values must name at least two values")
        if self.shares is not None:
            whole = self.unknown != ZEROS
            count = len(self._buckets())
            self._set("shares", declared_shares(self.column, self.shares, count, whole=whole))

    def _buckets(self) -> tuple[Value, ...]:
        """Return what has an encoded column: the values, then the collecting one if it is new."""
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

    def _own_variances(self) -> tuple[float, ...]:
        return (1.0,) * len(self._buckets())
