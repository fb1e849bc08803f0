"""Votes and averages of many parties with the sensitivities that their paper prints.

Loose, not false: the published constants bound l'(t) and l'(-t) apart, and weights by 1/lambda; the
attained ones are up to 190 times smaller. Only to redraw figures: whatever is fitted here is
seeded, so that nothing of it can be released.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

from confrere.errors import InvalidParameter
from confrere.estimators import MultipartyClassifier
from confrere.methods.plan import PublicFacts
from confrere.methods.votes import MultipartyPlan, PartyTotal, Voting

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


@dataclass(frozen=True, kw_only=True, eq=False)
class PrintedVoting(Voting):
    """Votes and weights of parties as published."""

    @cached_property
    def mechanism(self) -> PartyTotal:
        """What noises what parties send, whatever the auxiliary rows."""
        made, n_parties = super().mechanism, self.n_parties
        if self.method == "weights":
            printed = printed_average_sensitivity(made.alpha, n_parties, n_classes=self.n_classes)
        else:
            printed = printed_soft_sensitivity(
                made.alpha,
                1 if self.method == "vote" else n_parties,
                n_classes=self.n_classes,
                private_auxiliary=len(self.rows) if self.auxiliary_private else None,
            )
        return replace(made, moved=printed)


class PrintedMultiparty(MultipartyClassifier):
    """:class:`confrere.MultipartyClassifier` with the published sensitivities, simulated only."""

    _protocol: ClassVar[type[Voting]] = PrintedVoting

    def plan(self, facts: PublicFacts) -> MultipartyPlan:
        """Return the plan; refuse what the paper does not print, or what would be real."""
        if self.method not in ("soft", "vote", "weights") or self.delta:
            raise InvalidParameter(
                "method: sensitivities are printed for 'soft', 'vote' and 'weights', without "
                "delta; use MultipartyClassifier."
            )
        if self.random_state is None:
            raise InvalidParameter(
                "random_state must be a seed: what is printed is only simulated here."
            )
        return super().plan(facts)
