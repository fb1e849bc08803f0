"""Mechanisms that add noise to a point: the point and the law, for audits.

Whatever such a mechanism releases has density ``exp(-rate ||w - point||)`` up to a constant, in
units of the noise's axes. So the loss of privacy between two data sets is the distance of their
points times the rate, exactly; and a thousand releases need one point. Nothing here is for real
data: the point itself is no release.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from confrere.errors import InvalidParameter
from confrere.mechanisms.functional import FunctionalMechanism
from confrere.mechanisms.output_perturbation import OutputPerturbation
from confrere.mechanisms.party_mean import PartyMean
from confrere.mechanisms.party_statistic import PartyStatistic
from confrere.mechanisms.party_votes import PartyVotes
from confrere.noise.samplers import l2_noise
from confrere.noise.sources import RandomSource

Floats = NDArray[np.float64]

#: Spacing of the grids that releases lie on, in units of the noise.
_FINENESS = 1e-6

AdditiveMechanism = (
    OutputPerturbation | FunctionalMechanism | PartyVotes | PartyStatistic | PartyMean
)


@dataclass(frozen=True, eq=False)
class Noised:
    """A point and the law of the noise on it.

    Attributes
    ----------
    point : (d,) or (K, d) array
        Before noise.
    rate : float
        The noise has density ``exp(-rate ||b||)`` in units of the axes.
    axes, directions : (d,) and (d, d) arrays, or None
        Axes of an ellipsoid and where they point; None is a ball.
    """

    point: Floats
    rate: float
    axes: Floats | None = None
    directions: Floats | None = None

    def loss(self, other: Noised) -> float:
        """Return the largest log density ratio, or a hair less; ``other`` is on other data."""
        move = self.point - other.point
        if self.axes is not None and self.directions is not None:
            move = (move @ self.directions) / self.axes
        # Points are known up to the grid of the release, whose steps are this part of the noise.
        off = _FINENESS * math.sqrt(move.size)
        return max(0.0, self.rate * float(np.linalg.norm(move)) - off)

    def draw(self, count: int, source: RandomSource) -> Floats:
        """Return ``(count, d)`` releases; grids far below the noise are left out."""
        if self.point.ndim != 1:
            raise InvalidParameter("n_classes must be 2: matrices are not drawn together.")
        if not source.simulated:
            raise InvalidParameter("source must be seeded: this is for simulation only.")
        noise = l2_noise(self.rate, len(self.point), source, count=count)
        if self.axes is not None and self.directions is not None:
            noise = (noise * self.axes) @ self.directions.T
        return np.asarray(self.point + noise)


def before_noise(mechanism: AdditiveMechanism, *data: object) -> list[Noised]:
    """Return what ``mechanism.run(*data)`` noises: one point, or one for every part of epsilon.

    The mechanism itself is run, with noise so small that the grid of its release hides it.
    """
    released = mechanism.run(*data, source=_Silent())  # type: ignore[arg-type]
    if isinstance(mechanism, FunctionalMechanism):
        linear, quadratic = released
        return [
            Noised(linear, mechanism.linear_rate),
            Noised(quadratic, mechanism.quadratic_rate),
        ]
    point = np.asarray(released)
    if isinstance(mechanism, PartyStatistic):
        return [Noised(point, mechanism.rho, *mechanism.shape)]
    return [Noised(point, mechanism.epsilon / mechanism.sensitivity)]


class _Silent(RandomSource):
    """Uniforms next below one: their logarithms, of which all lengths are made, all but vanish."""

    simulated = True

    def _words(self, count: int) -> NDArray[np.uint64]:
        return np.full(count, np.iinfo(np.uint64).max, dtype=np.uint64)
