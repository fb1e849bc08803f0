"""The noised mean of what parties upload, none longer than a public bound: weights, directions.

Proof: docs/proofs/party_average.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from typing_extensions import override

from confrere.arrays import Floats
from confrere.data.frame import into_ball
from confrere.errors import InvalidData
from confrere.kernel.guarantee import check_bound
from confrere.maths.voting import largest_norm
from confrere.mechanisms.measurements import Point
from confrere.mechanisms.noised import (
    PartyTotal,
    coordinate_rounding,
    coordinates,
    from_coordinates,
)
from confrere.mechanisms.secure_sum import SharedNoise

_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, kw_only=True)
class PartyAverage(PartyTotal):
    """Clip the weights that parties upload, divide their sum by all parties' number, add noise.

    A party that is left out counts as zero; more than two classes have a K x d matrix whose columns
    sum to zero.
    """

    theorem = "docs/proofs/party_average.md"
    auxiliary = None

    n_features: int  #: Number of columns of an upload
    alpha: float  #: Ridge of the parties' own problems, on the mean loss
    normalise: bool = False  #: Average directions: every upload is brought to norm one

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
    @override
    def noise(self) -> Point | SharedNoise:
        size = self.n_features * (self.n_classes - 1)
        return self.noise_on(size, self.norm, 2 * self.norm / self.n_parties)

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

    def part(self, upload: Floats) -> Floats:
        """Return what one party adds to the sum: its clipped upload over all parties' number."""
        return coordinates(self.clipped(upload[None])[0] / self.n_parties)

    def of_parts(self, released: Floats) -> Floats:
        """Return the mean from the noised sum of all parts; who is not there counts as zero."""
        return np.asarray(from_coordinates(released[None], self.n_classes)[0])

    @override
    def value(self, total: Floats) -> Floats:
        """Return the mean, from the sum of the clipped uploads."""
        if total.shape != self.shape:
            raise InvalidData("the sum of the uploads does not have the shape of one.")
        if not float(np.linalg.norm(total)) <= self.n_parties * self.norm * (1 + 1e-6):
            raise InvalidData("the uploads were not clipped before they were added up.")
        return coordinates(total / self.n_parties)
