"""What noise is put on: functions of data whose value the kernel releases as a point.

What a function computes is a vector in the coordinates of its noise; what follows the noise touches
no data. Each says how far one unit moves its value, rounding included.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from confrere.arrays import Floats
from confrere.kernel.accountants import check_delta
from confrere.kernel.guarantee import (
    ASSUMPTIONS,
    FACTS,
    FLOATS,
    Guarantee,
    Neighbours,
    Unit,
    check_epsilon,
    check_relation,
)
from confrere.kernel.streams import Measurement, RandomSource, in_sum_zero_space, sum_zero_basis
from confrere.mechanisms.measurements import NoisedPoint, Part, Point
from confrere.mechanisms.secure_sum import SecureSum, SharedNoise, sum_assumptions

#: Rows that are added up before others: sums in two stages are rounded less often.
_BLOCK = 4096

_OWN = "what a party sends depends on its own data alone"
_PARTIES = (
    _OWN,
    "whoever adds up what parties send adds the noise, and keeps the sums to itself",
    FLOATS,
)


class Noised(Measurement[Any, list[Floats]]):
    """A function of data whose value is released with noise on it."""

    n_classes: int

    @property
    @abstractmethod
    def noise(self) -> Point | SharedNoise:
        """What the value is released by."""

    @abstractmethod
    def value(self, *data: Any) -> Floats | NDArray[np.int64]:
        """Return what is noised, in the coordinates of the noise."""

    def turned(self, released: Floats) -> Floats:
        """Return releases, one per row, in the shape that is wanted: post-processing."""
        return from_coordinates(released, self.n_classes)

    def unturned(self, released: Floats) -> Floats:
        """Return releases in the coordinates of the noise, where that is another basis."""
        return released

    @override
    def sample(self, rows: Any, stream: RandomSource, count: int = 1) -> list[Floats]:
        value, noise = self._value(rows), self.noise
        if isinstance(noise, Point):
            (released,) = noise.sample(value, stream, count)
        else:
            released = noise.release_many(value.astype(np.float64), stream, count)
        return [self.turned(released)]

    def densities(self, rows: Any) -> list[NoisedPoint]:
        """Return what is noised, for an exact audit."""
        value, noise = self._value(rows), self.noise
        if isinstance(noise, Point):
            return [replace(one, unturned=self.unturned) for one in noise.densities(value)]
        return [NoisedPoint(value.astype(np.float64), noise.law, unturned=self.unturned)]

    def _value(self, rows: Any) -> Floats | NDArray[np.int64]:
        return self.value(*rows) if isinstance(rows, tuple) else self.value(rows)


@dataclass(frozen=True, kw_only=True)
class PartyTotal(Noised):
    """A total to which every party adds a bounded part."""

    theorem: ClassVar[str]
    #: What is public about auxiliary rows, where there are any.
    auxiliary: ClassVar[str | None] = "auxiliary rows"

    epsilon: float  #: The price
    n_parties: int  #: Public number of parties M
    n_classes: int = 2
    #: How many parties may pool what they know: the shares of the others make the noise. 0: a
    #: trusted coordinator adds it.
    colluding: int = 0
    fewest: int | None = None  #: Of shares: the fewest parties of a sum; all of them by default
    releases: int = 1  #: Of shares: how many sums the price is for
    delta: float = 0.0  #: With one the noise is Gaussian

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        if self.delta:
            check_delta(self.delta, self.n_parties, "party")

    @property
    @abstractmethod
    def sensitivity(self) -> float:
        """Largest move of the computed total between neighbours, in the noise's norm."""

    @property
    def deviation(self) -> float:
        """Standard deviation of one coordinate of the noise."""
        noise = self.noise
        return noise.deviations[0] if isinstance(noise, Point) else noise.deviation

    @override
    def guarantee(self, units: int = 1) -> Guarantee:
        one = party_guarantee(
            self.epsilon,
            self.theorem,
            auxiliary=self.auxiliary,
            colluding=self.colluding,
            n_parties=self.n_parties,
            delta=self.delta,
        )
        return one.guarantee(units)

    def noise_on(
        self,
        size: int,  # Numbers of the total
        reach: float,  # No computed total is longer
        largest: float,  # Bound on the absolute entries of one party's part
        law: Literal["l2", "integer"] = "l2",
    ) -> Point | SharedNoise:
        """Return noise that a trusted coordinator adds, or that is made of the parties' shares."""
        if not self.colluding:
            parts = () if law == "integer" else (Part(size, reach),)
            return Point(promise=self.guarantee(), sensitivity=self.sensitivity, parts=parts)
        return SharedNoise(
            SecureSum(
                epsilon=self.epsilon,
                law="gaussian" if self.delta else law,
                delta=self.delta,
                size=size,
                sensitivity=float(self.sensitivity),
                n_parties=self.n_parties,
                fewest=self.fewest,
                colluding=self.colluding,
                releases=self.releases,
                largest=largest,
                unit=Unit.PARTY,
            )
        )


def coordinates(point: Floats) -> Floats:
    """Return a vector as it is, and a matrix by its coordinates where columns sum to zero."""
    if point.ndim == 1:
        return point
    return np.asarray((sum_zero_basis(len(point)).T @ point).ravel())


def from_coordinates(released: Floats, n_classes: int) -> Floats:
    """Return vectors, or matrices whose columns sum to zero, from one row of coordinates each."""
    if n_classes == 2:
        return released
    return np.stack([in_sum_zero_space(each, n_classes) for each in released])


def row_products(left: Any, right: Any) -> Floats:
    """Return ``left' right``: within blocks of rows, written down, and then over blocks."""
    blocks = [slice(at, at + _BLOCK) for at in range(0, max(1, left.shape[0]), _BLOCK)]
    parts = [np.asarray(left[one]).T @ np.asarray(right[one]) for one in blocks]
    return np.asarray(parts[0] if len(parts) == 1 else np.sum(parts, axis=0))


def roundings(n_rows: int) -> int:
    """Return how often a term of :func:`row_products` of so many rows is rounded at the most."""
    return n_rows if n_rows <= _BLOCK else _BLOCK + math.ceil(n_rows / _BLOCK)


def coordinate_rounding(reach: float, n_classes: int) -> float:
    """Bound the error of :func:`coordinates` in floats, for matrices of at most that norm."""
    return 0.0 if n_classes == 2 else 4 * n_classes * 2.0**-52 * reach


def counts(
    epsilon: float,  # The price of all counts together
    # Largest sum of absolute changes of the counts when one record is changed: 1 for the number of
    # records with some property, 2 for a histogram with any number of cells.
    sensitivity: int,
    neighbours: Neighbours = Neighbours.REPLACE_ONE,
    # What is taken to be known, besides what the relation itself makes public.
    public: tuple[str, ...] = ("label set", "the model", "the grid of scores"),
) -> Point:
    """Return integer noise on counts of records: docs/proofs/private_evaluation.md."""
    sizes = ("number of records",) if neighbours is Neighbours.REPLACE_ONE else ()
    promise = Guarantee(
        epsilon=epsilon,
        neighbours=check_relation(neighbours),
        theorem="docs/proofs/private_evaluation.md",
        public=(*sizes, *public),
        assumptions=ASSUMPTIONS,
    )
    return Point(promise=promise, sensitivity=sensitivity)


def party_guarantee(
    epsilon: float,
    theorem: str,
    *,
    auxiliary: str | None,
    jointly: bool = False,
    colluding: int = 0,
    n_parties: int | None = None,
    delta: float = 0.0,
) -> Guarantee:
    """Return a promise to whole parties.

    ``auxiliary`` says what is public about the auxiliary rows; ``jointly``, whether one of them may
    change together with the party; ``colluding``, how many parties may pool what they know where
    their shares make the noise: 0 where a trusted coordinator adds it.
    """
    trusted = (_OWN, *sum_assumptions(colluding, n_parties)) if colluding else _PARTIES
    also = ("one auxiliary row may change together with the party",) if jointly else ()
    known = () if auxiliary is None else (auxiliary,)
    return Guarantee(
        epsilon=epsilon,
        delta=delta,
        unit=Unit.PARTY,
        neighbours=Neighbours.REPLACE_ONE,
        theorem=theorem,
        public=("number of parties", *FACTS, *known),
        assumptions=(*trusted, *also),
    )
