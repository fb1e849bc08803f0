"""Noise on the one statistic through which parties' votes enter the risk.

Proof: docs/proofs/statistic.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from confrere.arrays import Floats
from confrere.errors import InvalidData
from confrere.kernel.norms import certify_rows
from confrere.maths.voting import (
    Tally,
    auxiliary_radius,
    statistic_rounding,
    statistic_sensitivity,
    vote_statistic,
)
from confrere.mechanisms.measurements import Point
from confrere.mechanisms.noised import (
    PartyTotal,
    coordinate_rounding,
    coordinates,
    from_coordinates,
)
from confrere.mechanisms.secure_sum import SharedNoise

Radius = Literal["ellipsoid", "spectral", "unit"]

#: Squared axes of the ellipsoid are raised by this share of the longest.
_FLATTEST = 1e-6

_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, kw_only=True, eq=False)
class PartyStatistic(PartyTotal):
    """Release ``s = (1/N) sum_i alpha_i x_i`` with noise; whatever follows is post-processing."""

    theorem = "docs/proofs/statistic.md"

    rows: Floats  #: Public auxiliary rows in the unit ball
    #: Shape of the noise. A party moves s by ``X'delta/N`` with ``|delta_i| <= 1/M``: within the
    #: ellipsoid of ``X'X/N``, within a ball around it, or within the ball that any rows allow.
    radius: Radius = "ellipsoid"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rows.ndim != 2 or self.rows.size == 0:
            raise InvalidData("auxiliary needs at least one row and one column.")
        certify_rows(self.rows)
        if not np.any(self.rows):
            raise InvalidData("auxiliary has rows of zeros only: votes on them say nothing.")

    @cached_property
    def shape(self) -> tuple[Floats, Floats]:
        """Axes ``(d,)`` and orthonormal directions ``(d, d)`` of the noise."""
        n_features = self.rows.shape[1]
        if self.radius != "ellipsoid":
            ball = auxiliary_radius(self.rows, self.radius)
            return np.full(n_features, ball), np.eye(n_features)
        values, directions = np.linalg.eigh(self._gram)
        # Longer axes contain the ellipsoid: a floor under the flat ones costs a hair, and keeps
        # rounding small in its norm.
        floor = max(_FLATTEST, 4 * self._off) * values[-1]
        return np.sqrt(np.maximum(values, 0.0) + floor), directions

    @cached_property
    def _roots(self) -> tuple[Floats, Floats]:
        """The ellipsoid's symmetric root, and its inverse.

        They are unique, where directions of one length are not: parties on different machines
        compute the same coordinates.
        """
        axes, directions = self.shape
        return (directions * axes) @ directions.T, (directions / axes) @ directions.T

    @cached_property
    def _gram(self) -> Floats:
        return np.asarray(self.rows.T @ self.rows / len(self.rows))

    @property
    def _off(self) -> float:
        """Bound on the error of the computed ellipsoid's squared axes, over the longest."""
        spread = float(np.trace(self._gram) / np.linalg.norm(self._gram, 2))
        return 8 * sum(self.rows.shape) * _EPS * spread

    @property
    def sensitivity(self) -> float:
        """Largest move, between neighbours, of the computed statistic over the axes."""
        axes, _ = self.shape
        move = statistic_sensitivity(self.n_parties, n_classes=self.n_classes)
        slack = 0.0 if self.radius != "ellipsoid" else self._off / max(_FLATTEST, 4 * self._off)
        # The computed inverse root is off by d^2 roundings of its largest entry at the most.
        slack += 2 * len(axes) ** 2 * _EPS * float(axes.max() / axes.min())
        # Summing, and then a product with the inverse root.
        off = statistic_rounding(len(self.rows)) + statistic_rounding(len(axes))
        off += coordinate_rounding(1.0, self.n_classes)
        return move * (1 + slack) + 2 * off / float(axes.min())

    @property
    @override
    def noise(self) -> Point | SharedNoise:
        """The noise in units of the axes."""
        axes, _ = self.shape
        reach, size = 2 / float(axes.min()), len(axes) * (self.n_classes - 1)
        return self.noise_on(size, reach, reach / self.n_parties)

    @override
    def turned(self, released: Floats) -> Floats:
        # Noise and output step are in units of the axes; turning them back touches no data.
        statistics = from_coordinates(released, self.n_classes) @ self._roots[0]
        if self.n_classes == 2:
            return np.asarray(statistics)
        # Its columns' sums are the mean of x, public.
        return np.asarray(statistics + self.rows.mean(axis=0) / self.n_classes)

    @override
    def unturned(self, released: Floats) -> Floats:
        return np.asarray(released @ self._roots[1])

    @override
    def value(self, tally: Tally) -> Floats:
        """Return the statistic in units of the axes, of more classes where columns sum to zero."""
        if tally.n_parties != self.n_parties or tally.n_classes != self.n_classes:
            raise InvalidData("the tally is of other parties or classes than were declared.")
        statistic = vote_statistic(self.rows, tally.fractions)
        return coordinates(statistic @ self._roots[1])

    def part(self, ballot: NDArray[np.bool_] | NDArray[np.int64]) -> Floats:
        """Return what one party adds to the sum: its votes, less an even split.

        Of more than two classes a ballot holds codes.
        """
        two = self.n_classes == 2
        votes = ballot.astype(np.float64) if two else np.eye(self.n_classes)[ballot]
        statistic = vote_statistic(self.rows, votes - 1 / self.n_classes)
        return coordinates(statistic @ self._roots[1]) / self.n_parties

    def of_parts(self, released: Floats) -> Floats:
        """Return the statistic from the noised sum of all parts; who is not there is split."""
        (statistic,) = from_coordinates(released[None], self.n_classes)
        even = self.rows.mean(axis=0) / self.n_classes
        return np.asarray(statistic @ self._roots[0] + even)
