"""Counts of records with integer noise.

Proof: docs/proofs/private_evaluation.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from confrere.errors import InvalidData
from confrere.kernel.guarantee import (
    ASSUMPTIONS,
    Guarantee,
    Neighbours,
    check_epsilon,
    check_relation,
)
from confrere.kernel.norms import L1, Pure
from confrere.kernel.streams import RandomSource, discrete_laplace
from confrere.mechanisms.terms import NoisedPoint

THEOREM = "docs/proofs/private_evaluation.md"


@dataclass(frozen=True, kw_only=True)
class PrivateCounts:
    """Discrete Laplace noise on integer counts.

    Parameters
    ----------
    epsilon : float
        The price of all counts together.
    sensitivity : int
        Largest sum of absolute changes of the counts when one record is changed: 1 for the number
        of records with some property, 2 for a histogram with any number of cells.
    neighbours : Neighbours
        The relation that the guarantee speaks of.
    public : tuple of str, optional
        What is taken to be known, besides what the relation itself makes public.
    """

    epsilon: float
    sensitivity: int
    neighbours: Neighbours = Neighbours.REPLACE_ONE
    public: tuple[str, ...] = ("label set", "the model", "the grid of scores")

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        check_relation(self.neighbours)

    @property
    def scale(self) -> float:
        """Scale of the noise: ``k`` has probability proportional to ``exp(-|k|/scale)``."""
        return self.sensitivity / self.epsilon

    @property
    def deviation(self) -> float:
        """Standard deviation of the noise."""
        rate = 1 / self.scale
        return math.sqrt(2) * math.exp(-rate / 2) / -math.expm1(-rate)

    def guarantee(self) -> Guarantee:
        """Return the price, without touching data."""
        sizes = ("number of records",) if self.neighbours is Neighbours.REPLACE_ONE else ()
        return Guarantee(
            epsilon=self.epsilon,
            neighbours=self.neighbours,
            theorem=THEOREM,
            public=(*sizes, *self.public),
            assumptions=ASSUMPTIONS,
        )

    def run(self, counts: NDArray[np.integer], *, source: RandomSource) -> NDArray[np.int64]:
        """Return the noised counts."""
        return np.asarray(self.sample(counts, source=source, count=1)[0])

    def sample(
        self, counts: NDArray[np.integer], *, source: RandomSource, count: int = 1
    ) -> NDArray[np.int64]:
        """Return ``count`` independent releases; more than one needs a seeded source."""
        return self.noised(counts, source.book(self.guarantee(), count), count)

    def noised(
        self, counts: NDArray[np.integer], source: RandomSource, count: int = 1
    ) -> NDArray[np.int64]:
        """Return the same for whoever has booked what the counts are a part of."""
        if not np.issubdtype(counts.dtype, np.integer):
            raise InvalidData("counts must be integers.")
        return np.asarray(counts + discrete_laplace(self.scale, (count, *counts.shape), source))

    def terms(self, counts: NDArray[np.integer]) -> list[NoisedPoint]:
        """Return the law of the release, for an exact audit."""
        return [NoisedPoint(counts.astype(np.float64), Pure(L1(counts.size), 1 / self.scale))]
