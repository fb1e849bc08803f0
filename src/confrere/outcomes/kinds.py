"""What a schema says of an outcome that is a number, and what is learned of it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, final

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from confrere.arrays import Floats
from confrere.data.cells import Container, as_cells, column_names, is_table, read_numbers, refuse
from confrere.data.features import Outcome, Real
from confrere.errors import InvalidData
from confrere.kernel.accountants import Loss
from confrere.methods.geometry import JACOBIAN
from confrere.methods.plan import Target
from confrere.model.models import Link
from confrere.outcomes.losses import LARGEST_COUNT, Huber, LogCosh, Poisson

#: Of a spread that nobody declares: bounds are so many of it apart.
BOUNDS_APART = 6.0
#: Width of the loss, in spreads of the outcome; and the mean curvature at it.
WIDTH, CURVATURE = 0.5, 0.45
#: A schema's geometry takes a score's variance for that where columns are at their ends. Chosen on
#: two tables, confirmed on three.
AT_ENDS = 8.0
#: Over epsilon the ridge at which curvature costs nothing; for Huber's loss, a seventh of epsilon.
FLOOR, FLOOR_OF_HUBER = 4.0, 1 / JACOBIAN
#: Variance of people's log means, where counts are learned.
LOG_MEANS = 1.0
#: The mean from which on a count's loss is linear, in largest counts: the Jacobian is free there.
CAP = 0.5


@dataclass(frozen=True)
class Response(Link):
    """What a score says of a number: ``slope z + shift``, or its exponential, inside bounds."""

    exponential: bool = False
    low: float = 0.0
    high: float = 1.0

    fewest = 0
    gives = "the mean, inside declared bounds"

    @property
    @override
    def ratios(self) -> str:  # type: ignore[override]
        return "rates" if self.exponential else ""

    @override
    def probabilities(self, u: Floats) -> Floats:
        # What is predicted, of scores that are stretched and shifted already.
        found = np.exp(np.minimum(u, math.log(self.high))) if self.exponential else u
        return np.asarray(np.clip(found, self.low, self.high))


class NumberOutcome:
    """What outcomes that are numbers have in common."""

    column: str

    def numbers(self, cells: Container, column: str) -> Floats:
        """Return the numbers of a column; refuse what is none."""
        found, strange = read_numbers(column, as_cells(cells, column))
        refuse(column, strange, "something that is no number; write numbers or leave the row out")
        absent = np.isnan(found)
        refuse(column, absent, "no number; drop them by a rule that does not look at others")
        return found

    @property
    def size(self) -> int:
        """Number of places."""
        return 1

    def places(self, cells: Container) -> NDArray[np.intp]:
        """Return 0 for numbers, -1 where one is missing, -2 where there is something else."""
        found, strange = read_numbers(self.column, as_cells(cells, self.column))
        return np.where(np.isnan(found), np.where(strange, -2, -1), 0)


@final
@dataclass(frozen=True, kw_only=True)
class Quantity(NumberOutcome, Outcome):
    """An outcome that is a quantity: a price, a length of stay, a concentration.

    Parameters
    ----------
    column : str
        Name in the table.
    bounds : pair of float
        Smallest and largest meaningful value; what lies outside is moved to the nearest of them.
    mean, sd : float, optional
        Public mean and standard deviation: the model starts there, and learns on that scale.
    """

    bounds: tuple[Real, Real]
    mean: Real | None = None
    sd: Real | None = None

    kind: ClassVar[str] = "quantity"

    def __post_init__(self) -> None:
        super().__post_init__()
        low, high = self.bounds
        ordered = low < high and math.isfinite(high - low)
        self._refuse(not ordered, "the lower bound must be below the upper one")
        inside = self.mean is None or low <= self.mean <= high
        self._refuse(not inside, "mean must lie within the bounds")
        self._refuse(self.sd is not None and not 0 < self.sd < math.inf, "sd must be above 0")

    @property
    def _scale(self) -> tuple[float, float]:
        return (self.bounds[1] + self.bounds[0]) / 2, (self.bounds[1] - self.bounds[0]) / 2

    @override
    def encode(self, values: Container) -> Floats:
        (middle, half), given = self._scale, self.numbers(values, self.column)
        return np.clip((np.clip(given, *self.bounds) - middle) / half, -1.0, 1.0)

    def target(
        self,
        *,
        width: float | Literal["auto"] = "auto",  # In units of the outcome
        loss: str = "log-cosh",
        **_: Container,
    ) -> Target:
        """Return what is learned of it; no data."""
        middle, half = self._scale
        spread = 2 / BOUNDS_APART if self.sd is None else self.sd / half
        c = WIDTH * spread if width == "auto" else float(width) / half
        made: Loss = (Huber if loss == "huber" else LogCosh)(c)
        low, high = self.bounds
        link = Response(slope=half, shift=middle, low=low, high=high)
        level = 0.0 if self.mean is None else (self.mean - middle) / half
        floor = FLOOR_OF_HUBER if loss == "huber" else FLOOR
        return Target(made, level, floor, link, AT_ENDS * spread**2, CURVATURE)


@final
@dataclass(frozen=True, kw_only=True)
class Count(NumberOutcome, Outcome):
    """An outcome that is a count: visits, days, claims.

    Parameters
    ----------
    column : str
        Name in the table.
    most : float
        Largest count; larger ones are taken for it.
    exposure : str, optional
        Column that says for how long, or of how many, it was counted: a part of the record.
    exposures : pair of float, default=(1, 1)
        Smallest and largest exposure; what lies outside is moved to the nearest of them.
    mean : float, optional
        Public mean count at an exposure of one: the model starts there.
    """

    most: Real
    exposure: str | None = None
    exposures: tuple[Real, Real] = (1.0, 1.0)
    mean: Real | None = None

    kind: ClassVar[str] = "count"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._refuse(not 0 < self.most <= LARGEST_COUNT, f"most must be up to {LARGEST_COUNT:g}")
        low, high = self.exposures
        self._refuse(not 0 < low <= high < math.inf, "exposures must be above 0, the smaller first")
        alone = self.exposure is None and low != high
        self._refuse(alone, "exposures need the column that says them: exposure")
        self._refuse(self.mean is not None and not 0 < self.mean < math.inf, "mean must be above 0")

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of a table that say it."""
        return (self.column,) if self.exposure is None else (self.column, self.exposure)

    @override
    def column_of(self, table: Container) -> Container:
        if self.exposure is None:
            return super().column_of(table)
        if is_table(table):
            if column_names(table).count(self.exposure) != 1:
                raise InvalidData(f"the count needs a table with one column {self.exposure!r}.")
            exposed = replace(self, column=self.exposure, exposure=None, exposures=(1.0, 1.0))
            return super().column_of(table), exposed.column_of(table)
        raise InvalidData(
            f"give the table that has the column {self.exposure!r}, not counts alone."
        )

    @override
    def encode(self, values: Container) -> Floats:
        cells, exposed = values if isinstance(values, tuple) else (values, None)
        counts = np.clip(self.numbers(cells, self.column), 0.0, self.most)
        low, high = map(math.log, self.exposures)
        offsets = np.full(len(counts), low)
        if exposed is not None:
            given = np.clip(self.numbers(exposed, str(self.exposure)), *self.exposures)
            offsets = np.clip(np.log(given), low, high)
        return np.column_stack([counts, offsets])

    def target(self, *, cap: float | Literal["auto"] = "auto", **_: Container) -> Target:
        """Return what is learned of it; no data."""
        low, high = map(math.log, self.exposures)
        top = CAP * self.most if cap == "auto" else float(cap)
        loss = Poisson(self.most, top, (low, high))
        typical = 1.0 if self.mean is None else self.mean
        seen = min(typical * math.exp((low + high) / 2), top)
        link = Response(exponential=True, low=0.0, high=self.most)
        # At its floor the Jacobian is free, or costs a seventh of epsilon if a cap is that high.
        floor = top * max(1 / JACOBIAN if 2 * top > self.most else 0.0, 2 * self.most / top)
        return Target(loss, math.log(typical), floor, link, LOG_MEANS, seen)
