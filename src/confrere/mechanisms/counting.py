"""A count with integer noise.

Proof: docs/proofs/counting.md.
"""

from __future__ import annotations

from dataclasses import dataclass

from confrere.maths.noise import discrete_laplace
from confrere.maths.randomness import RandomSource
from confrere.mechanisms.objective_perturbation import ASSUMPTIONS
from confrere.privacy import Guarantee, Neighbours, check_epsilon

THEOREM = "docs/proofs/counting.md"


@dataclass(frozen=True, kw_only=True)
class NoisyCount:
    """Two-sided geometric noise on a count that one record moves by at most one.

    Parameters
    ----------
    epsilon : float
        The price.
    neighbours : Neighbours
        The relation that the guarantee speaks of.
    """

    epsilon: float
    neighbours: Neighbours = Neighbours.REPLACE_ONE

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)

    def guarantee(self) -> Guarantee:
        """Return the price, without touching data."""
        return Guarantee(
            epsilon=self.epsilon,
            neighbours=self.neighbours,
            theorem=THEOREM,
            public=("number of features", "label set", "every parameter"),
            assumptions=ASSUMPTIONS,
        )

    def run(self, count: int, *, source: RandomSource) -> int:
        """Return the noised count; it may be negative."""
        return int(count + discrete_laplace(1 / self.epsilon, (1,), source)[0])
