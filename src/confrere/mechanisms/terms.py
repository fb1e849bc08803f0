"""What an exact audit asks of a mechanism: the density of each thing that it noises.

Mechanisms answer from the laws and the computations of their own ``sample``. Releases with noise
of their own are terms of their own, whose losses of privacy add up. Nothing here is for real data.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from confrere.arrays import Floats
from confrere.kernel.norms import Law
from confrere.mechanisms.measurements import LatticeStep


@dataclass(frozen=True, eq=False)
class NoisedPoint:
    """A point with noise on it: the loss between two is their distance times the rate, exactly.

    Attributes
    ----------
    point : (size,) array
        Before noise, in the coordinates of the noise.
    law : Law
        Of the noise.
    step : LatticeStep, optional
        The output step that follows.
    unturned : callable, optional
        From releases to the coordinates of the noise, where they are not the same.
    """

    point: Floats
    law: Law
    step: LatticeStep | None = None
    unturned: Callable[[Floats], Floats] | None = None

    @property
    def size(self) -> int:
        """Number of coordinates of the noise."""
        return len(self.point)

    def noise(self, released: Floats) -> Floats:
        """Return the noise that led to a release, in the coordinates of the noise."""
        return np.asarray(released - self.point)

    def loss(self, other: NoisedPoint) -> float:
        """Return the largest log density ratio; ``other`` is on other data."""
        return -self.law.log_density(self.point - other.point)
