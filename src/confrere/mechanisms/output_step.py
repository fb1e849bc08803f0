"""The output step: pay for a solver that is not exact and for floats that are not reals.

Proof: docs/proofs/output_step.md.

A certified solver returns a point within ``radius`` of the true minimiser, but *which* point it
returns depends on the data in ways that no density describes; noise that is added in floats leaves
traces of the point in its low bits. So what would be released is rounded to a public lattice and
integer noise is added, calibrated to twice the radius plus one lattice step per coordinate. What
leaves are exact multiples of a power of two.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from confrere.arrays import Floats
from confrere.kernel.accountants import gaussian_mu
from confrere.kernel.guarantee import check_epsilon
from confrere.kernel.norms import L2, Gaussian, Pure
from confrere.kernel.streams import (
    RandomSource,
    in_sum_zero_space,
    sum_zero_basis,
)
from confrere.mechanisms.measurements import LatticeStep

#: Share of epsilon that pays for floats where noise is added to a computed point.
ROUNDING_SHARE = 1e-3

#: Radius of the output step behind added noise, over the longest sum: far above the rounding of
#: doubles, far below the noise, and lattice steps stay whole numbers that doubles hold.
_FINENESS = 2.0**-40

#: Rows that are added up before others: sums in two stages are rounded less often.
_BLOCK = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedNoise:
    """Noise of density ``exp(-rho ||b||)`` on a computed point, then the output step.

    Parameters
    ----------
    epsilon : float
        The whole price.
    delta : float, default=0.0
        With one the noise is Gaussian: see docs/proofs/output_perturbation.md.
    sensitivity : float
        Largest L2 move, between neighbours, of the point as it is computed.
    reach : float
        No computed point is longer.
    size : int
        Number of coordinates.
    """

    epsilon: float
    sensitivity: float
    reach: float
    size: int
    delta: float = 0.0

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)

    @property
    def law(self) -> Pure | Gaussian:
        """The law of the noise."""
        budget = self.epsilon * (1 - ROUNDING_SHARE)
        if self.delta > 0:
            return Gaussian(self.sensitivity / gaussian_mu(budget, self.delta), self.size)
        return Pure(L2(self.size), budget / self.sensitivity)

    @property
    def deviation(self) -> float:
        """Standard deviation of one coordinate of the noise."""
        return (1.0 if self.delta else math.sqrt(self.size + 1)) / self.law.rate

    @property
    def output_step(self) -> LatticeStep:
        """The step that pays for the floats of the noise and of the sum."""
        return LatticeStep(
            epsilon=self.epsilon * ROUNDING_SHARE,
            radius=_FINENESS * (self.reach + self.law.longest),
            size=self.size,
        )

    def release(self, points: Floats, source: RandomSource) -> Floats:
        """Return every row of ``points`` with noise of its own."""
        noise = self.law.draw(source, len(points))
        return self.output_step.release(points + noise, source)

    def release_many(self, point: Floats, source: RandomSource, count: int) -> Floats:
        """Return ``count`` releases of one point, one per row."""
        return self.release(np.tile(point, (count, 1)), source)


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


def row_products(left: Floats, right: Floats) -> Floats:
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
