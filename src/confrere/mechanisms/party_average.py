"""The noised mean of parties' own weights, each clipped to the longest that a solution can be.

Proof: docs/proofs/party_average.md.
"""

from __future__ import annotations

from dataclasses import dataclass

from confrere.errors import InvalidParameter
from confrere.guarantee import Guarantee, check_epsilon
from confrere.maths.sensitivity import average_sensitivity, largest_norm
from confrere.mechanisms.objective_perturbation import Calibration
from confrere.mechanisms.party_mean import PartyMean
from confrere.mechanisms.party_release import Floats, party_guarantee

THEOREM = "docs/proofs/party_average.md"


@dataclass(frozen=True, kw_only=True)
class PartyAverage(PartyMean):
    """Average the weights that parties upload, then add noise.

    Parameters
    ----------
    epsilon, n_parties, n_features, n_classes
        As for :class:`PartyMean`.
    alpha : float
        Ridge of the parties' own problems, on the mean loss.
    normalise : bool, default=False
        Average directions: every upload is brought to norm one.
    calibration : {"tight", "printed"}, default="tight"
        ``"printed"`` is the published sensitivity: sound, with more noise.
    """

    alpha: float
    normalise: bool = False
    calibration: Calibration = "tight"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_epsilon(self.alpha, "alpha")
        if self.normalise and self.calibration != "tight":
            raise InvalidParameter(
                "calibration='printed' is about weights as they are: set normalise=False."
            )

    @property
    def norm(self) -> float:
        """The norm that no upload exceeds once it is clipped."""
        return 1.0 if self.normalise else largest_norm(self.alpha, self.n_classes)

    @property
    def sensitivity(self) -> float:
        """Largest L2 move of the computed mean between neighbours."""
        if self.calibration == "tight":
            return super().sensitivity
        printed = average_sensitivity(
            self.alpha, self.n_parties, n_classes=self.n_classes, bound="printed"
        )
        return printed + self._rounding

    def guarantee(self) -> Guarantee:
        """Return the price, without touching data."""
        return party_guarantee(self.epsilon, THEOREM, auxiliary=None)

    def clipped(self, uploads: Floats, *, directions: bool | None = None) -> Floats:
        """Return uploads as they are added up; directions if the mean is one of directions."""
        return super().clipped(
            uploads, directions=self.normalise if directions is None else directions
        )
