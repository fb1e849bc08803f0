"""The output step: pay for a solver that is not exact and for floats that are not reals.

Proof: docs/proofs/output_step.md.

A certified solver returns a point within ``radius`` of the true minimiser, but *which* point it
returns depends on the data in ways that no density describes. So the point is rounded to a public
lattice and integer noise is added, calibrated to twice the radius plus one lattice step per
coordinate. What leaves are exact multiples of a power of two: no low bit of the solver survives.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from confrere.noise.samplers import discrete_laplace
from confrere.noise.sources import RandomSource

#: More than what probabilities of the integer noise can be off by, in floats.
_ROUNDING = 1 + 1e-5


@dataclass(frozen=True, slots=True)
class LatticeStep:
    """Discrete Laplace noise on a lattice that hides any move of length ``2 radius``.

    Parameters
    ----------
    epsilon : float
        What the step spends.
    radius : float
        Certified distance of the solver's answer from the exact minimiser.
    size : int
        Number of coordinates.
    """

    epsilon: float
    radius: float
    size: int

    @property
    def spacing(self) -> float:
        """The lattice constant, the power of two next below ``radius / sqrt(size)``."""
        return 2.0 ** math.floor(math.log2(self.radius / math.sqrt(self.size)))

    @property
    def scale(self) -> float:
        """Scale of the integer noise: the L1 move in lattice units over epsilon."""
        move = 2 * math.sqrt(self.size) * self.radius / self.spacing + self.size
        return move / self.epsilon * _ROUNDING

    def release(self, point: NDArray[np.float64], source: RandomSource) -> NDArray[np.float64]:
        """Return the rounded and noised point."""
        steps = np.rint(point / self.spacing)
        noise = discrete_laplace(self.scale, point.shape, source)
        return np.asarray((steps + noise) * self.spacing)
