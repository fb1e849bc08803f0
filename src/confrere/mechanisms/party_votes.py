"""Output perturbation of the model trained on what the parties vote (002, Algorithms 1 and 2).

Proof: docs/proofs/multiparty.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from confrere.arrays import Floats
from confrere.errors import InvalidData, InvalidParameter
from confrere.kernel.accountants import check_delta
from confrere.kernel.guarantee import Guarantee, check_bound, check_epsilon
from confrere.kernel.norms import certify_rows
from confrere.kernel.streams import RandomSource
from confrere.maths.voting import (
    Tally,
    largest_norm,
    minimise_weighted,
    soft_sensitivity,
    statistic_rounding,
    vote_statistic,
    weighted_tolerance,
)
from confrere.mechanisms.measurements import TOLERANCE
from confrere.mechanisms.output_step import (
    AddedNoise,
    coordinate_rounding,
    coordinates,
    from_coordinates,
)
from confrere.mechanisms.party_total import party_guarantee
from confrere.mechanisms.terms import NoisedPoint

THEOREM = "docs/proofs/multiparty.md"


@dataclass(frozen=True, kw_only=True)
class PartyVotes:
    """Minimise the risk of voted auxiliary rows, then add noise to the minimiser.

    Parameters
    ----------
    epsilon : float
        The price.
    n_parties : int
        Public number of parties.
    n_auxiliary, n_features : int
        Public sizes of the auxiliary rows.
    alpha : float
        Ridge on the mean loss.
    labels : {"soft", "vote"}, default="soft"
        Fractions of the votes, or their majority: one vote can turn a majority on every row.
    n_classes : int, default=2
        More than two use the softmax loss.
    radius : float, default=1.0
        From :func:`~confrere.maths.voting.auxiliary_radius`, if the rows are public.
    auxiliary_private : bool, default=False
        Whether one auxiliary row may change together with the party.
    delta : float, default=0.0
        With one the noise is Gaussian.
    """

    epsilon: float
    n_parties: int
    n_auxiliary: int
    n_features: int
    alpha: float
    labels: Literal["soft", "vote"] = "soft"
    n_classes: int = 2
    radius: float = 1.0
    auxiliary_private: bool = False
    delta: float = 0.0

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        if self.delta:
            check_delta(self.delta, self.n_parties, "party")
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
    def sensitivity(self) -> float:
        """Largest L2 move of the solver's answer between neighbours."""
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
    def noise(self) -> AddedNoise:
        """The noise on the minimiser."""
        return AddedNoise(
            epsilon=self.epsilon,
            sensitivity=self.sensitivity,
            reach=self._reach,
            size=self.n_features * (self.n_classes - 1),
            delta=self.delta,
        )

    def guarantee(self) -> Guarantee:
        """Return the price, without touching data."""
        known = "number of auxiliary rows" if self.auxiliary_private else "auxiliary rows"
        return party_guarantee(
            self.epsilon,
            THEOREM,
            auxiliary=known,
            jointly=self.auxiliary_private,
            delta=self.delta,
        )

    def run(self, tally: Tally, rows: Floats, *, source: RandomSource) -> Floats:
        """Return the noised minimiser: ``(d,)`` for two classes, ``(K, d)`` for more."""
        return np.asarray(self.sample(tally, rows, source=source, count=1)[0])

    def sample(self, tally: Tally, rows: Floats, *, source: RandomSource, count: int = 1) -> Floats:
        """Return ``count`` independent releases; more than one needs a seeded source."""
        source = source.book(self.guarantee(), count)
        released = self.noise.release_many(self._point(tally, rows), source, count)
        return from_coordinates(released, self.n_classes)

    def terms(self, tally: Tally, rows: Floats) -> list[NoisedPoint]:
        """Return what is noised, for an exact audit."""
        return [NoisedPoint(self._point(tally, rows), self.noise.law, self.noise.output_step)]

    def _point(self, tally: Tally, rows: Floats) -> Floats:
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
