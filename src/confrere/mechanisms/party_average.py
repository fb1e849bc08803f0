"""The noised mean of what parties upload, none longer than a public bound: weights, directions.

Proof: docs/proofs/party_average.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from confrere.arrays import Floats
from confrere.errors import InvalidData
from confrere.kernel.guarantee import check_bound
from confrere.kernel.streams import RandomSource
from confrere.maths.voting import largest_norm
from confrere.mechanisms.output_step import (
    AddedNoise,
    coordinate_rounding,
    coordinates,
    from_coordinates,
)
from confrere.mechanisms.party_total import PartyTotal
from confrere.mechanisms.secure_sum import SharedNoise
from confrere.mechanisms.terms import NoisedPoint
from confrere.rows.frame import into_ball

_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, kw_only=True)
class PartyAverage(PartyTotal):
    """Clip the weights that parties upload, divide their sum by all parties' number, add noise.

    Parameters
    ----------
    epsilon, n_parties, n_classes, colluding, fewest, releases, delta
        As for :class:`PartyTotal`. A party that is left out counts as zero; more than two classes
        have a K x d matrix whose columns sum to zero.
    n_features : int
        Number of columns of an upload.
    alpha : float
        Ridge of the parties' own problems, on the mean loss.
    normalise : bool, default=False
        Average directions: every upload is brought to norm one.
    """

    theorem = "docs/proofs/party_average.md"
    auxiliary = None

    n_features: int
    alpha: float
    normalise: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.n_parties < 1 or self.n_features < 1:
            raise InvalidData("an average needs at least one party and one column.")
        check_bound(self.alpha, "alpha")

    @property
    def norm(self) -> float:
        """The norm that no upload exceeds once it is clipped."""
        return 1.0 if self.normalise else largest_norm(self.alpha, self.n_classes)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one upload."""
        return (self.n_features,) if self.n_classes == 2 else (self.n_classes, self.n_features)

    @property
    def sensitivity(self) -> float:
        """Largest L2 move of the computed mean between neighbours."""
        return 2 * self.norm / self.n_parties + self.rounding

    @property
    def noise(self) -> AddedNoise | SharedNoise:
        """The noise on the mean."""
        size = self.n_features * (self.n_classes - 1)
        if not self.colluding:
            return self.added_noise(size, self.norm)
        return self.shared_noise(size, 2 * self.norm / self.n_parties)

    @property
    def deviation(self) -> float:
        """Standard deviation of one coordinate of the noise."""
        return self.noise.deviation

    @property
    def rounding(self) -> float:
        """What floats may add to the move."""
        # A float sum of M vectors, in any order, is off by at most M units of each.
        summing = 2 * (self.n_parties + 8) * _EPS * self.norm
        return summing + 2 * coordinate_rounding(self.norm, self.n_classes)

    def clipped(self, uploads: Floats) -> Floats:
        """Return uploads, one per party, as they are added up: none is longer than :attr:`norm`."""
        if uploads.shape[1:] != self.shape or not np.all(np.isfinite(uploads)):
            raise InvalidData("an upload must be finite, with one number per weight.")
        if uploads.ndim == 3:
            with np.errstate(over="ignore", invalid="ignore"):
                uploads = uploads - uploads.mean(axis=1, keepdims=True)
        flat = into_ball(uploads.reshape(len(uploads), -1), self.norm, unit=self.normalise)
        return np.asarray(self.norm * flat).reshape(uploads.shape)

    def run(self, total: Floats, *, source: RandomSource) -> Floats:
        """Return the noised mean, from the sum of the clipped uploads."""
        return np.asarray(self.sample(total, source=source, count=1)[0])

    def sample(self, total: Floats, *, source: RandomSource, count: int = 1) -> Floats:
        """Return ``count`` independent releases; more than one needs a seeded source."""
        source = source.book(self.guarantee(), count)
        released = self.noise.release_many(self._point(total), source, count)
        return from_coordinates(released, self.n_classes)

    def terms(self, total: Floats) -> list[NoisedPoint]:
        """Return what is noised, for an exact audit."""
        return [NoisedPoint(self._point(total), self.noise.law, self.noise.output_step)]

    def part(self, upload: Floats) -> Floats:
        """Return what one party adds to the sum: its clipped upload over all parties' number."""
        return coordinates(self.clipped(upload[None])[0] / self.n_parties)

    def of_parts(self, released: Floats) -> Floats:
        """Return the mean from the noised sum of all parts; who is not there counts as zero."""
        return np.asarray(from_coordinates(released[None], self.n_classes)[0])

    def _point(self, total: Floats) -> Floats:
        if total.shape != self.shape:
            raise InvalidData("the sum of the uploads does not have the shape of one.")
        if not float(np.linalg.norm(total)) <= self.n_parties * self.norm * (1 + 1e-6):
            raise InvalidData("the uploads were not clipped before they were added up.")
        return coordinates(total / self.n_parties)
