"""The noised mean of what parties upload, none longer than a public bound.

Proof: docs/proofs/party_average.md.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from confrere.errors import InvalidData
from confrere.guarantee import Guarantee, check_epsilon
from confrere.mechanisms.party_release import Floats, on_grid, party_noise
from confrere.noise.sources import RandomSource

_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, kw_only=True)
class PartyMean(ABC):
    """Clip, add up, divide by the public number of parties, add noise.

    Parameters
    ----------
    epsilon : float
        The price.
    n_parties : int
        Public number of parties M; one that is left out counts as zero.
    n_features : int
        Number of columns of an upload.
    n_classes : int, default=2
        More than two have a K x d matrix whose columns sum to zero.
    """

    epsilon: float
    n_parties: int
    n_features: int
    n_classes: int = 2

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        if self.n_parties < 1 or self.n_features < 1:
            raise InvalidData("an average needs at least one party and one column.")

    @property
    @abstractmethod
    def norm(self) -> float:
        """The norm that no upload exceeds once it is clipped."""

    @abstractmethod
    def guarantee(self) -> Guarantee:
        """Return the price, without touching data."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one upload."""
        return (self.n_features,) if self.n_classes == 2 else (self.n_classes, self.n_features)

    @property
    def sensitivity(self) -> float:
        """Largest L2 move of the computed mean between neighbours."""
        return 2 * self.norm / self.n_parties + self._rounding

    @property
    def rho(self) -> float:
        """Rate of the noise."""
        return self.epsilon / self.sensitivity

    @property
    def deviation(self) -> float:
        """Standard deviation of one coordinate of the noise."""
        return math.sqrt(self.n_features * (self.n_classes - 1) + 1) / self.rho

    @property
    def _rounding(self) -> float:
        # A float sum of M vectors, in any order, is off by at most M units of each.
        return 2 * (self.n_parties + 8) * _EPS * self.norm

    def clipped(self, uploads: Floats, *, directions: bool = False) -> Floats:
        """Return uploads, one per party, as they are added up: none is longer than :attr:`norm`.

        Parameters
        ----------
        uploads : (m, ...) array
            What parties sent.
        directions : bool, default=False
            Bring every upload that is not zero to that norm.
        """
        if uploads.shape[1:] != self.shape or not np.all(np.isfinite(uploads)):
            raise InvalidData("an upload must be finite, with one number per weight.")
        if uploads.ndim == 3:
            uploads = uploads - uploads.mean(axis=1, keepdims=True)
        flat = uploads.reshape(len(uploads), -1)
        # In two steps, so that no square overflows; a hair less than the bound, for rounding.
        largest = np.abs(flat).max(axis=1, keepdims=True)
        flat = flat / np.where(largest > 0, largest, 1.0)
        lengths = np.linalg.norm(flat, axis=1, keepdims=True)
        hair = 1 - 4 * (flat.shape[1] + 4) * _EPS
        longest = self.norm * hair / np.maximum(lengths, 1.0)
        factors = longest if directions else np.minimum(largest, longest)
        return np.asarray((flat * factors).reshape(uploads.shape))

    def run(self, total: Floats, *, source: RandomSource) -> Floats:
        """Return the noised mean, from the sum of the clipped uploads."""
        if total.shape != self.shape:
            raise InvalidData("the sum of the uploads does not have the shape of one.")
        if not np.linalg.norm(total) <= self.n_parties * self.norm * (1 + 1e-6):
            raise InvalidData("the uploads were not clipped before they were added up.")
        mean = total / self.n_parties
        if mean.ndim == 2:
            mean = mean - mean.mean(axis=0)
        return on_grid(np.asarray(mean + party_noise(self.rho, mean, source)), 1 / self.rho)
