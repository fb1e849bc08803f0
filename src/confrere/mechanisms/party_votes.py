"""The model trained on what the parties vote, as it is noised (002, Algorithms 1 and 2).

Proof: docs/proofs/multiparty.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from typing_extensions import override

from confrere.arrays import Floats
from confrere.errors import InvalidData, InvalidParameter
from confrere.kernel.guarantee import Guarantee, check_bound
from confrere.kernel.norms import certify_rows
from confrere.maths.voting import (
    Tally,
    largest_norm,
    minimise_weighted,
    soft_sensitivity,
    statistic_rounding,
    vote_statistic,
    weighted_tolerance,
)
from confrere.mechanisms.measurements import TOLERANCE, Part, Point
from confrere.mechanisms.noised import PartyTotal, coordinate_rounding, coordinates, party_guarantee


@dataclass(frozen=True, kw_only=True)
class PartyVotes(PartyTotal):
    """Minimise the risk of voted auxiliary rows, then add noise to the minimiser."""

    theorem = "docs/proofs/multiparty.md"

    n_auxiliary: int  #: Public number of auxiliary rows
    n_features: int
    alpha: float  #: Ridge on the mean loss
    #: Fractions of the votes, or their majority: one vote can turn a majority on every row.
    labels: Literal["soft", "vote"] = "soft"
    #: From :func:`~confrere.maths.voting.auxiliary_radius`, if the rows are public.
    radius: float = 1.0
    auxiliary_private: bool = False  #: Whether one row may change together with the party

    def __post_init__(self) -> None:
        super().__post_init__()
        check_bound(self.alpha, "alpha")
        if self.n_auxiliary < 1 or self.n_features < 1:
            raise InvalidData("auxiliary needs at least one row and one column.")
        if self.labels not in ("soft", "vote"):
            raise InvalidParameter("labels must be 'soft' or 'vote'.")

    @property
    def tolerance(self) -> float:
        """Certified bound on the gradient of the summed risk before noise."""
        # No votes have a longer statistic, rounding included: certifying it always succeeds.
        smallest = weighted_tolerance(
            self.n_auxiliary,
            self.n_features,
            alpha=self.alpha,
            statistic_norm=1 + statistic_rounding(self.n_auxiliary),
            n_classes=self.n_classes,
        )
        return max(TOLERANCE, smallest)

    @property
    def exact(self) -> float:
        """Largest L2 move of the exact minimiser between neighbours."""
        # Between ties one party decides every label, as if it were alone.
        return soft_sensitivity(
            self.alpha,
            1 if self.labels == "vote" else self.n_parties,
            n_classes=self.n_classes,
            radius=self.radius,
            private_auxiliary=self.n_auxiliary if self.auxiliary_private else None,
        )

    @property
    @override
    def sensitivity(self) -> float:
        # Each of the two answers is off by the certified gradient, and its risk by rounding.
        off = self.tolerance / self.n_auxiliary + statistic_rounding(self.n_auxiliary)
        rounding = coordinate_rounding(self._reach, self.n_classes)
        return self.exact + 2 * off / self.alpha + 2 * rounding

    @property
    def _reach(self) -> float:
        """No minimiser is longer, solver and rounding included."""
        off = self.tolerance / self.n_auxiliary + statistic_rounding(self.n_auxiliary)
        return largest_norm(self.alpha, self.n_classes) + off / self.alpha

    @property
    @override
    def noise(self) -> Point:
        parts = (Part(self.n_features * (self.n_classes - 1), self._reach),)
        return Point(promise=self.guarantee(), sensitivity=self.sensitivity, parts=parts)

    @override
    def guarantee(self) -> Guarantee:
        known = "number of auxiliary rows" if self.auxiliary_private else "auxiliary rows"
        return party_guarantee(
            self.epsilon,
            self.theorem,
            auxiliary=known,
            jointly=self.auxiliary_private,
            delta=self.delta,
        )

    @override
    def value(self, tally: Tally, rows: Floats) -> Floats:
        """Return the minimiser, in the coordinates of the noise."""
        if tally.n_parties != self.n_parties or tally.n_classes != self.n_classes:
            raise InvalidData("the tally is of other parties or classes than were declared.")
        if rows.shape != (self.n_auxiliary, self.n_features):
            raise InvalidData("auxiliary does not have the declared number of rows and columns.")
        certify_rows(rows)
        labels = tally.fractions if self.labels == "soft" else tally.majority
        statistic = vote_statistic(rows, labels)
        return coordinates(
            minimise_weighted(rows, statistic, alpha=self.alpha, tolerance=self.tolerance)
        )
