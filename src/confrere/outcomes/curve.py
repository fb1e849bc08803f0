"""Survival curves of noised counts, with the band that noise and sampling ask for.

A person is one count: the cell of its group, of the piece of time in which it was last seen, and of
how that ended. Integer noise is put on all cells at once, and all that is drawn follows from them.
Whoever leaves in a piece was at risk in half of it (the life table): where pieces are fine that is
Kaplan and Meier's curve.

Proof: docs/proofs/survival_curve.md.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass, fields
from typing import Any, Self

import numpy as np
from scipy import optimize
from typing_extensions import override

from confrere.arrays import Floats, Integers
from confrere.data.cells import declared_columns
from confrere.data.features import Category
from confrere.errors import InvalidParameter
from confrere.extras import extra
from confrere.kernel.guarantee import (
    ASSUMPTIONS,
    Guarantee,
    Neighbours,
    check_epsilon,
    check_relation,
)
from confrere.kernel.measurements import Point
from confrere.ledger import Budget, Ledger, charged
from confrere.outcomes.times import TimeToEvent
from confrere.simulation import Seed
from confrere.views import Panel, Shown, Table

THEOREM = "docs/proofs/survival_curve.md"

#: A curve goes on while so many are at risk, in deviations of the noise of their number.
_MEASURABLE = 5.0

#: Paths that say how far a curve strays, and their seed: nothing private is in them.
_PATHS, _PUBLIC_SEED = 4_000, 1


@dataclass(frozen=True)
class SurvivalEstimate:
    """A point of a curve: the share that no event has met by then, of one group."""

    group: str
    time: float
    at_risk: float  #: How many were seen up to the piece that ends then
    events: float  #: In that piece
    survival: float
    #: Where 95 of 100 intervals hold the truth of the population.
    low: float
    high: float
    #: Where 95 of 100 bands hold it at all times together.
    band_low: float
    band_high: float


@dataclass(frozen=True)
class SurvivalCounts:
    """What is counted for curves: how many cells there are and which one a person fills."""

    outcome: TimeToEvent
    by: Category | None = None

    @property
    def groups(self) -> tuple[str, ...]:
        """What curves are called."""
        return ("all",) if self.by is None else tuple(map(str, self.by.known))

    @property
    def shape(self) -> tuple[int, int]:
        """Groups, or none of those; pieces with an event, pieces without one, and after them."""
        pieces = len(self.outcome.pieces)
        return (1 if self.by is None else self.by.size), 2 * pieces + 1

    def point(self, epsilon: float, neighbours: Neighbours) -> Point:
        """Return the measurement: integer noise on all cells at once."""
        replaced = neighbours is Neighbours.REPLACE_ONE
        promise = Guarantee(
            epsilon=check_epsilon(epsilon),
            neighbours=check_relation(neighbours),
            theorem=THEOREM,
            public=(*["number of records"] * replaced, "pieces of time", "groups"),
            assumptions=ASSUMPTIONS,
        )
        return Point(promise=promise, sensitivity=1 + replaced)

    def sums(self, table: Any) -> Integers:
        """Return the exact counts, group by group; for the owner alone."""
        signed, edges = self.outcome.encode(self.outcome.column_of(table)), self.outcome.pieces
        cell = np.searchsorted(edges, np.abs(signed)) + len(edges) * (signed < 0)
        cell += signed == -edges[-1]
        if self.by is not None:
            group = self.by.vertices(declared_columns(table, [self.by.column])[self.by.column])
            cell += group * self.shape[1]
        return np.bincount(cell, minlength=math.prod(self.shape))

    def estimates(self, noised: Floats, deviation: float) -> Iterator[SurvivalEstimate]:
        """Yield every curve from noised counts: post-processing, of any numbers."""
        cells = np.asarray(noised, dtype=np.float64).reshape(self.shape)
        for group, own in zip(self.groups, cells, strict=False):
            for time, told in zip(self.outcome.pieces, _curve(own, deviation), strict=False):
                yield SurvivalEstimate(group, time, *told)


def _curve(cells: Floats, noise: float) -> list[list[float]]:
    """Return at risk, events, survival, interval and band at the ends of the first pieces."""
    pieces = len(cells) // 2
    # Who is at risk in a piece: those whom an event meets there or later, those who leave later,
    # and half of those who leave there.
    later = np.tri(pieces).T
    exposed = np.hstack([later, later - np.eye(pieces) / 2, np.ones((pieces, 1))])
    risk = exposed @ cells
    counted = risk >= _MEASURABLE * noise * np.linalg.norm(exposed, axis=1)
    shown = int(np.argmin(np.append(counted, False)))
    if not shown:
        return []
    exposed, risk, met = exposed[:shown], risk[:shown], cells[:shown]
    raw = np.cumprod(1 - np.clip(met / risk, -0.5, 0.99))
    curve = np.clip(optimize.isotonic_regression(raw, increasing=False).x, 1e-9, 1.0)
    # How far logarithms of curves stray: by Greenwood's variance, and by the noise of counts.
    hazard = 1 - curve / np.append(1.0, curve[:-1])
    # Not even of a piece that nobody's event fell into it is known that there is no hazard.
    hazard = np.clip(hazard + 1 / risk, 0.0, 0.99)
    pull = hazard / ((1 - hazard) * risk)
    moved = pull[:, None] * exposed
    moved[:, :shown] -= np.diag(1 / ((1 - hazard) * risk))
    paths = np.random.default_rng(_PUBLIC_SEED)
    steps = np.sqrt(pull) * paths.normal(size=(_PATHS, shown))
    steps += paths.laplace(scale=noise / math.sqrt(2), size=(_PATHS, len(cells))) @ moved.T
    strays = np.abs(np.cumsum(steps, axis=1))
    deviation = np.sqrt(np.mean(strays**2, axis=0))
    ends = []
    for far in (
        np.quantile(strays, 0.95, axis=0),
        deviation * np.quantile((strays / deviation).max(axis=1), 0.95),
    ):
        # The truth falls, so that an end holds at later, or earlier, times as well.
        away = far * curve
        ends.append(np.maximum.accumulate(np.clip(curve - away, 0, 1)[::-1])[::-1])
        ends.append(np.minimum.accumulate(np.clip(curve + away, 0, 1)))
    points: list[list[float]] = np.column_stack([risk, met, curve, *ends]).tolist()
    return points


class SurvivalCurve(Shown):
    """Kaplan and Meier's curve of noised counts, one per group.

    Parameters
    ----------
    epsilon : float, default=1.0
        Price of all curves together.
    outcome : TimeToEvent
        Which columns say when, and whether; at the ends of its pieces the curve is known.
    budget : Budget or Ledger, optional
        Who pays; see :class:`confrere.PrivateLogisticRegression`.
    by : Category, optional
        A column whose declared values have a curve each.
    neighbours : {"replace-one", "add-remove"}, default="replace-one"
        Which change of the data is hidden.
    random_state : int, optional
        A seed makes a simulation.

    Attributes
    ----------
    estimates_ : list of SurvivalEstimate
        Every point that can be told, with its interval and band.
    counts_ : array
        The noised counts, cell by cell: all that was released.
    receipt_ : Receipt
        What was paid.
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        outcome: TimeToEvent | None = None,
        budget: Budget | Ledger | None = None,
        *,
        by: Category | None = None,
        neighbours: str = "replace-one",
        random_state: Seed | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.outcome = outcome
        self.budget = budget
        self.by = by
        self.neighbours = neighbours
        self.random_state = random_state

    @property
    def _counts(self) -> SurvivalCounts:
        if not isinstance(self.outcome, TimeToEvent):
            raise InvalidParameter("outcome must be a TimeToEvent: it says what is counted.")
        if not isinstance(self.by, Category | None):
            raise InvalidParameter("by must be a Category, or None for one curve.")
        return SurvivalCounts(self.outcome, self.by)

    @property
    def _point(self) -> Point:
        return self._counts.point(self.epsilon, check_relation(self.neighbours))

    def privacy_cost(self) -> Guarantee:
        """Return what the curves cost, without touching data."""
        return self._point.guarantee()

    def fit(self, table: Any) -> Self:
        """Count, put noise on all counts at once, and draw the curves.

        Unit: record. Neighbours: replace one row of ``table``, or add or remove one. Guarantee:
        ``epsilon``-DP, pure. Spends: ``epsilon`` of ``budget`` before noise is drawn. Proof:
        docs/proofs/survival_curve.md.
        """
        point, guarantee = self._point, self.privacy_cost()
        exact, purpose = self._counts.sums(table), "draw survival curves"
        with charged(self.budget, guarantee, self.random_state, purpose=purpose) as ticket:
            (self.counts_,) = ticket.draw(point, exact)[0]
            self.receipt_ = ticket.receipt
        self._draw(point.deviations[0])
        return self

    def _draw(self, deviation: float) -> None:
        self.deviation_ = deviation
        self.estimates_ = list(self._counts.estimates(self.counts_, deviation))

    @classmethod
    def pooled(cls, curves: Sequence[Self]) -> Self:
        """Return the curves of all organisations together, whose people are others each.

        Post-processing: each has counted with noise of its own, and paid for that.
        """
        asked = {(each.outcome, each.by, each.neighbours) for each in curves}
        if len(asked) != 1:
            raise InvalidParameter(
                "curves must be several, with one outcome, the same groups and neighbours."
            )
        ((outcome, by, neighbours),) = asked
        made = cls(max(each.epsilon for each in curves), outcome, by=by, neighbours=neighbours)
        made.counts_ = np.sum([each.counts_ for each in curves], axis=0)
        made._draw(math.hypot(*(each.deviation_ for each in curves)))
        return made

    def to_csv(self) -> str:
        """Return the curves as text: a line per point."""
        file = io.StringIO()
        writer = csv.writer(file)
        writer.writerow(one.name for one in fields(SurvivalEstimate))
        for each in self.estimates_:  # the same text from the last bits of any machine
            writer.writerow(f"{v:.6g}" if isinstance(v, float) else v for v in astuple(each))
        return file.getvalue()

    def plot(self, axes: Any = None) -> Any:
        """Draw the curves with their bands, and return the axes; needs matplotlib."""
        axes = extra("plot", "matplotlib.pyplot").subplots()[1] if axes is None else axes
        for group in dict.fromkeys(one.group for one in self.estimates_):
            own = [astuple(one)[1:] for one in self.estimates_ if one.group == group]
            time, _, _, curve, _, _, low, high = np.array([(0, 0, 0, *[1] * 5), *own]).T
            axes.step(time, curve, where="post", label=group)
            axes.fill_between(time, low, high, step="post", alpha=0.2)
        axes.set(ylim=(0, 1), xlabel=self._counts.outcome.column, ylabel="without the event")
        axes.legend()
        return axes

    @override
    def view(self) -> Panel:
        names = ("group", "time", "at risk", "without the event", "95% interval")
        rows = [
            (
                one.group,
                f"{one.time:g}",
                f"{one.at_risk:.0f}",
                f"{one.survival:.3f}",
                f"{one.low:.3f} to {one.high:.3f}",
            )
            for one in self.estimates_
        ]
        note = f"epsilon {self.epsilon:g} for all curves; noise and sampling are in the intervals"
        return Panel("Survival", [Table(names, rows, names[1:])], note)
