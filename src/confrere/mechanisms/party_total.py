"""What noised totals of whole parties have in common: the unit, and who makes the noise."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal

from confrere.kernel.guarantee import Guarantee, Unit, check_epsilon, party_guarantee
from confrere.maths.accountants import check_delta
from confrere.mechanisms.output_step import AddedNoise
from confrere.mechanisms.secure_sum import SecureSum, SharedNoise


@dataclass(frozen=True, kw_only=True)
class PartyTotal(ABC):
    """A total to which every party adds a bounded part, and its noise.

    Parameters
    ----------
    epsilon : float
        The price.
    n_parties : int
        Public number of parties M.
    n_classes : int, default=2
        Number of classes.
    colluding : int, default=0
        How many parties may pool what they know: the shares of the others make the noise. 0: a
        trusted coordinator adds it.
    fewest : int, optional
        Where shares make the noise: the fewest parties of a sum; all of them by default.
    releases : int, default=1
        Where shares make the noise: how many sums the price is for.
    delta : float, default=0.0
        With one the noise is Gaussian.
    """

    theorem: ClassVar[str]
    #: What is public about auxiliary rows, where there are any.
    auxiliary: ClassVar[str | None] = "auxiliary rows"

    epsilon: float
    n_parties: int
    n_classes: int = 2
    colluding: int = 0
    fewest: int | None = None
    releases: int = 1
    delta: float = 0.0

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
        """Return noise that is made of the parties' own shares.

        Parameters
        ----------
        size : int
            Numbers of the total.
        largest : float
            Bound on the absolute entries of one party's part.
        law : {"l2", "integer"}, default="l2"
            As for :class:`~confrere.mechanisms.secure_sum.SecureSum`, without a delta.
        """
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
