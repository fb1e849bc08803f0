"""Noise on the one statistic through which parties' votes enter the risk.

Proof: docs/proofs/statistic.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from confrere.errors import InvalidData
from confrere.guarantee import Guarantee, check_epsilon
from confrere.maths.sensitivity import auxiliary_radius, statistic_sensitivity
from confrere.maths.voting import vote_statistic
from confrere.maths.weighted_risk import statistic_rounding
from confrere.mechanisms.party_release import Floats, on_grid, party_guarantee, party_noise
from confrere.mechanisms.party_tally import Tally
from confrere.noise.sources import RandomSource
from confrere.rows.ball import certify_rows

THEOREM = "docs/proofs/statistic.md"

Radius = Literal["ellipsoid", "spectral", "unit"]

#: Squared axes of the ellipsoid are raised by this share of the longest.
_FLATTEST = 1e-6


@dataclass(frozen=True, kw_only=True, eq=False)
class PartyStatistic:
    """Release ``s = (1/N) sum_i alpha_i x_i`` with noise; whatever follows is post-processing.

    Parameters
    ----------
    epsilon : float
        The price.
    n_parties : int
        Public number of parties M.
    rows : (N, d) array
        Public auxiliary rows in the unit ball.
    n_classes : int, default=2
        More than two have a K x d matrix.
    radius : {"ellipsoid", "spectral", "unit"}, default="ellipsoid"
        Shape of the noise. A party moves s by ``X'delta/N`` with ``|delta_i| <= 1/M``: within the
        ellipsoid of ``X'X/N``, within a ball around it, or within the ball that any rows allow.
    """

    epsilon: float
    n_parties: int
    rows: Floats
    n_classes: int = 2
    radius: Radius = "ellipsoid"

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
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
    def _gram(self) -> Floats:
        return np.asarray(self.rows.T @ self.rows / len(self.rows))

    @property
    def _off(self) -> float:
        """Bound on the error of the computed ellipsoid's squared axes, over the longest."""
        spread = float(np.trace(self._gram) / np.linalg.norm(self._gram, 2))
        return 8 * sum(self.rows.shape) * float(np.finfo(np.float64).eps) * spread

    @property
    def sensitivity(self) -> float:
        """Largest move, between neighbours, of the computed statistic over the axes."""
        axes, _ = self.shape
        move = statistic_sensitivity(self.n_parties, n_classes=self.n_classes)
        slack = 0.0 if self.radius != "ellipsoid" else self._off / max(_FLATTEST, 4 * self._off)
        return move * (1 + slack) + 2 * statistic_rounding(len(self.rows)) / float(axes.min())

    @property
    def rho(self) -> float:
        """Rate of the noise in units of the axes."""
        return self.epsilon / self.sensitivity

    @property
    def deviation(self) -> float:
        """Standard deviation of one coordinate of the noise, in units of the axes."""
        dimension = self.rows.shape[1] * (self.n_classes - 1)
        return math.sqrt(dimension + 1) / self.rho

    def guarantee(self) -> Guarantee:
        """Return the price, without touching data."""
        return party_guarantee(self.epsilon, THEOREM, auxiliary="auxiliary rows")

    def run(self, tally: Tally, *, source: RandomSource) -> Floats:
        """Return the noised statistic: ``(d,)`` for two classes, ``(K, d)`` for more."""
        if tally.n_parties != self.n_parties or tally.n_classes != self.n_classes:
            raise InvalidData("the tally is of other parties or classes than were declared.")
        statistic = vote_statistic(self.rows, tally.fractions)
        if statistic.ndim == 2:
            # Its columns' sums are the mean of x, public; rounding must not say otherwise.
            even = self.rows.mean(axis=0) / self.n_classes
            statistic = statistic - statistic.mean(axis=0) + even
        axes, directions = self.shape
        noise = (party_noise(self.rho, statistic, source) * axes) @ directions.T
        return on_grid(statistic + noise, float(axes.min()) / self.rho)
