"""Counts of records with integer noise.

Proof: docs/proofs/private_evaluation.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from confrere.errors import InvalidData
from confrere.guarantee import Guarantee, Neighbours, check_epsilon
from confrere.mechanisms.objective_perturbation import ASSUMPTIONS
from confrere.noise.samplers import discrete_laplace
from confrere.noise.sources import RandomSource

THEOREM = "docs/proofs/private_evaluation.md"


@dataclass(frozen=True, kw_only=True)
class PrivateCounts:
    """Discrete Laplace noise on integer counts.

    Parameters
    ----------
    epsilon : float
        The price of all counts together.
    sensitivity : int
        Largest sum of absolute changes of the counts when one record is replaced: 1 for the number
        of records with some property, 2 for a histogram with any number of cells.
    neighbours : Neighbours
        Replace-one or label-only: both replace a record by another.
    """

    epsilon: float
    sensitivity: int
    neighbours: Neighbours = Neighbours.REPLACE_ONE

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)

    @property
    def scale(self) -> float:
        """Scale of the noise: ``k`` has probability proportional to ``exp(-|k|/scale)``."""
        return self.sensitivity / self.epsilon

    def guarantee(self) -> Guarantee:
        """Return the price, without touching data."""
        return Guarantee(
            epsilon=self.epsilon,
            neighbours=self.neighbours,
            theorem=THEOREM,
            public=("number of records", "label set", "the model", "the grid of scores"),
            assumptions=ASSUMPTIONS,
        )

    def run(self, counts: NDArray[np.integer], *, source: RandomSource) -> NDArray[np.int64]:
        """Return the noised counts."""
        if not np.issubdtype(counts.dtype, np.integer):
            raise InvalidData("counts must be integers.")
        return np.asarray(counts + discrete_laplace(self.scale, counts.shape, source))
