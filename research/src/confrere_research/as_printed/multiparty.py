"""Votes and averages of many parties with the sensitivities that their paper prints.

Loose, not false: the published constants bound l'(t) and l'(-t) apart, and weights by 1/lambda; the
attained ones are up to 190 times smaller. Only to redraw figures: whatever is fitted here is
seeded, so that nothing of it can be released.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any, ClassVar

from confrere.errors import InvalidParameter
from confrere.estimators import MultipartyClassifier
from confrere.methods.plan import PublicFacts
from confrere.methods.votes import MultipartyPlan, Total, Voting
from confrere.methods.voting import PartyAverage, PartyVotes

#: As the attained sensitivities, these are raised by more than rounding may have taken off.
_RAISED = 1 + 1e-14


def printed_soft_sensitivity(
    alpha: float, n_parties: int, *, n_classes: int = 2, private_auxiliary: int | None = None
) -> float:
    """Return ``2/(M lambda)``, or ``sqrt2/(M lambda)`` for more than two classes.

    Of a majority it is that of a single party. If one of ``private_auxiliary`` rows may change
    together with the party, it grows by ``(N - 1 + M)/N`` (more classes: ``(N - 1 + 2M)/N``).
    """
    # The paper knew l'(t) + l'(-t) = -1 for more classes only.
    move = 2.0 if n_classes == 2 else math.sqrt(2)
    joint = 1.0
    if private_auxiliary is not None:
        turned = (1 if n_classes == 2 else 2) * n_parties
        joint = (private_auxiliary - 1 + turned) / private_auxiliary
    return move * joint / (n_parties * alpha) * _RAISED


def printed_average_sensitivity(alpha: float, n_parties: int, *, n_classes: int = 2) -> float:
    """Return ``2/(M lambda)``, or ``2 sqrt2/(M lambda)`` for more than two classes."""
    return 2 * (1.0 if n_classes == 2 else math.sqrt(2)) / (n_parties * alpha) * _RAISED


@dataclass(frozen=True, kw_only=True)
class PrintedVotes(PartyVotes):
    """The model of votes, with noise for the published sensitivity."""

    @property
    def exact(self) -> float:
        """The published bound, whatever the auxiliary rows."""
        return printed_soft_sensitivity(
            self.alpha,
            1 if self.labels == "vote" else self.n_parties,
            n_classes=self.n_classes,
            private_auxiliary=self.n_auxiliary if self.auxiliary_private else None,
        )


@dataclass(frozen=True, kw_only=True)
class PrintedAverage(PartyAverage):
    """The mean of weights, with noise for the published sensitivity."""

    @property
    def sensitivity(self) -> float:
        """The published bound, and what floats add."""
        printed = printed_average_sensitivity(self.alpha, self.n_parties, n_classes=self.n_classes)
        return printed + self.rounding


@dataclass(frozen=True, kw_only=True, eq=False)
class PrintedVoting(Voting):
    """Votes and weights of parties as published."""

    def mechanism(self, n_parties: int) -> Total:
        """Return what noises what so many parties send."""
        made = super().mechanism(n_parties)
        kind = PrintedAverage if isinstance(made, PartyAverage) else PrintedVotes
        return kind(**_settings(made))


class PrintedMultiparty(MultipartyClassifier):
    """:class:`confrere.MultipartyClassifier` with the published sensitivities, simulated only."""

    _protocol: ClassVar[type[Voting]] = PrintedVoting

    def plan(self, facts: PublicFacts) -> MultipartyPlan:
        """Return the plan; refuse what the paper does not print, or what would be real."""
        if self.method not in ("soft", "vote", "weights") or self.normalise or self.delta:
            raise InvalidParameter(
                "method: sensitivities are printed for 'soft', 'vote' and 'weights', without "
                "normalise and delta; use MultipartyClassifier."
            )
        if self.random_state is None:
            raise InvalidParameter(
                "random_state must be a seed: what is printed is only simulated here."
            )
        return super().plan(facts)


def _settings(mechanism: Any) -> dict[str, Any]:
    return {each.name: getattr(mechanism, each.name) for each in fields(mechanism) if each.init}
