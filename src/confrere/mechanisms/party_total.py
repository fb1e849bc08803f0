"""What noised totals of whole parties have in common: the unit, and who makes the noise."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal

from confrere.kernel.accountants import check_delta
from confrere.kernel.guarantee import FACTS, FLOATS, Guarantee, Neighbours, Unit, check_epsilon
from confrere.mechanisms.output_step import AddedNoise
from confrere.mechanisms.secure_sum import SecureSum, SharedNoise, sum_assumptions

_OWN = "what a party sends depends on its own data alone"
_PARTIES = (
    _OWN,
    "whoever adds up what parties send adds the noise, and keeps the sums to itself",
    FLOATS,
)


def party_guarantee(
    epsilon: float,
    theorem: str,
    *,
    auxiliary: str | None,
    jointly: bool = False,
    colluding: int = 0,
    n_parties: int | None = None,
    delta: float = 0.0,
) -> Guarantee:
    """Return a promise to whole parties.

    ``auxiliary`` says what is public about the auxiliary rows; ``jointly``, whether one of them may
    change together with the party; ``colluding``, how many parties may pool what they know where
    their shares make the noise: 0 where a trusted coordinator adds it.
    """
    trusted = (_OWN, *sum_assumptions(colluding, n_parties)) if colluding else _PARTIES
    also = ("one auxiliary row may change together with the party",) if jointly else ()
    known = () if auxiliary is None else (auxiliary,)
    return Guarantee(
        epsilon=epsilon,
        delta=delta,
        unit=Unit.PARTY,
        neighbours=Neighbours.REPLACE_ONE,
        theorem=theorem,
        public=("number of parties", *FACTS, *known),
        assumptions=(*trusted, *also),
    )


@dataclass(frozen=True, kw_only=True)
class PartyTotal(ABC):
    """A total to which every party adds a bounded part, and its noise."""

    theorem: ClassVar[str]
    #: What is public about auxiliary rows, where there are any.
    auxiliary: ClassVar[str | None] = "auxiliary rows"

    epsilon: float  #: The price
    n_parties: int  #: Public number of parties M
    n_classes: int = 2
    #: How many parties may pool what they know: the shares of the others make the noise. 0: a
    #: trusted coordinator adds it.
    colluding: int = 0
    #: ``fewest``, ``releases``: where shares make the noise, the fewest parties of a sum (all of
    #: them by default), and how many sums the price is for.
    fewest: int | None = None
    releases: int = 1
    delta: float = 0.0  #: With one the noise is Gaussian

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        if self.delta:
            check_delta(self.delta, self.n_parties, "party")

    @property
    @abstractmethod
    def sensitivity(self) -> float:
        """Largest move of the computed total between neighbours, in the noise's norm."""

    def guarantee(self) -> Guarantee:
        """Return the price, without touching data."""
        return party_guarantee(
            self.epsilon,
            self.theorem,
            auxiliary=self.auxiliary,
            colluding=self.colluding,
            n_parties=self.n_parties,
            delta=self.delta,
        )

    def added_noise(self, size: int, reach: float) -> AddedNoise:
        """Return noise that a trusted coordinator adds to a point no longer than ``reach``."""
        return AddedNoise(
            epsilon=self.epsilon,
            sensitivity=self.sensitivity,
            reach=reach,
            size=size,
            delta=self.delta,
        )

    def shared_noise(
        self, size: int, largest: float, law: Literal["l2", "integer"] = "l2"
    ) -> SharedNoise:
        """Return noise of the parties' own shares, of ``size`` numbers of at most ``largest``."""
        return SharedNoise(
            SecureSum(
                epsilon=self.epsilon,
                law="gaussian" if self.delta else law,
                delta=self.delta,
                size=size,
                sensitivity=float(self.sensitivity),
                n_parties=self.n_parties,
                fewest=self.fewest,
                colluding=self.colluding,
                releases=self.releases,
                largest=largest,
                unit=Unit.PARTY,
            )
        )
