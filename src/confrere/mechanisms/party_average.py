"""The noised mean of parties' own weights, each clipped to the longest that a solution can be.

Proof: docs/proofs/party_average.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from confrere.errors import InvalidData, InvalidParameter
from confrere.maths.randomness import RandomSource
from confrere.maths.sensitivity import average_sensitivity, largest_norm
from confrere.mechanisms.objective_perturbation import Calibration
from confrere.mechanisms.party_release import Floats, on_grid, party_guarantee, party_noise
from confrere.privacy import Guarantee, check_epsilon

THEOREM = "docs/proofs/party_average.md"

_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, kw_only=True)
class PartyAverage:
    """Average what parties upload, none longer than a public bound, then add noise.

    Parameters
    ----------
    epsilon : float
        The price.
    n_parties : int
        Public number of parties M; one that is left out counts as zero.
    n_features : int
        Number of weights of a class.
    alpha : float
        Ridge of the parties' own problems, on the mean loss.
    n_classes : int, default=2
        More than two have a K x d matrix whose columns sum to zero.
    normalise : bool, default=False
        Average directions: every upload is brought to norm one.
    calibration : {"tight", "printed"}, default="tight"
        ``"printed"`` is the published sensitivity: sound, with more noise.
    """

    epsilon: float
    n_parties: int
    n_features: int
    alpha: float
    n_classes: int = 2
    normalise: bool = False
    calibration: Calibration = "tight"

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        check_epsilon(self.alpha, "alpha")
        if self.n_parties < 1 or self.n_features < 1:
            raise InvalidData("an average needs at least one party and one column.")
        if self.normalise and self.calibration != "tight":
            raise InvalidParameter(
                "calibration='printed' is about weights as they are: set normalise=False."
            )

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
        if self.calibration == "printed":
            exact = average_sensitivity(
                self.alpha, self.n_parties, n_classes=self.n_classes, bound="printed"
            )
        else:
            exact = 2 * self.norm / self.n_parties
        # A float sum of M vectors, in any order, is off by at most M units of each.
        return exact + 2 * (self.n_parties + 8) * _EPS * self.norm

    def guarantee(self) -> Guarantee:
        """Return the price, without touching data."""
        return party_guarantee(self.epsilon, THEOREM, auxiliary=None)

    def clipped(self, weights: Floats) -> Floats:
        """Return uploads, one per party, as they are added up: none is longer than :attr:`norm`."""
        if weights.shape[1:] != self.shape or not np.all(np.isfinite(weights)):
            raise InvalidData("an upload must be finite, with one number per weight.")
        if weights.ndim == 3:
            weights = weights - weights.mean(axis=1, keepdims=True)
        flat = weights.reshape(len(weights), -1)
        # In two steps, so that no square overflows; a hair less than the bound, for rounding.
        largest = np.abs(flat).max(axis=1, keepdims=True)
        flat = flat / np.where(largest > 0, largest, 1.0)
        lengths = np.linalg.norm(flat, axis=1, keepdims=True)
        hair = 1 - 4 * (flat.shape[1] + 4) * _EPS
        longest = self.norm * hair / np.maximum(lengths, 1.0)
        factors = longest if self.normalise else np.minimum(largest, longest)
        return np.asarray((flat * factors).reshape(weights.shape))

    def run(self, total: Floats, *, source: RandomSource) -> Floats:
        """Return the noised mean, from the sum of the clipped uploads."""
        if total.shape != self.shape:
            raise InvalidData("the sum of the uploads does not have the shape of one.")
        if not np.linalg.norm(total) <= self.n_parties * self.norm * (1 + 1e-6):
            raise InvalidData("the uploads were not clipped before they were added up.")
        mean = total / self.n_parties
        if mean.ndim == 2:
            mean = mean - mean.mean(axis=0)
        scale = self.sensitivity / self.epsilon
        return on_grid(np.asarray(mean + party_noise(1 / scale, mean, source)), scale)
