"""Several organisations, one model: a protocol among parties whose rows are all here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Protocol

from confrere.arrays import Floats
from confrere.kernel.guarantee import Guarantee
from confrere.kernel.streams import RandomSource
from confrere.model import Facts, Linear
from confrere.plans.base_plan import LabelledTable, Plan, Term
from confrere.plans.checked_average import CheckedAveraging
from confrere.plans.linear_plan import Coordinates, linear_model
from confrere.plans.party_rows import PartyRows, Sizes

Method = Literal["average", "ofpa", "ofaa", "laplace", "sums"]


class Collaboration(Protocol):
    """What parties release, and what is made of it."""

    @property
    def frame(self) -> Coordinates:
        """The public coordinates."""

    @property
    def rounds(self) -> int:
        """How often parties release."""

    def guarantee(self, sizes: Sizes) -> Guarantee:
        """Return what is promised, for parties of these public sizes."""

    def run(self, parties: PartyRows, sizes: Sizes, source: RandomSource) -> Floats:
        """Return the weights."""

    def terms(self, parties: PartyRows, sizes: Sizes) -> list[Term]:
        """Return the mechanisms and what they see."""


@dataclass(frozen=True, eq=False)
class CollaborativePlan(Plan[Linear]):
    """A protocol among parties of known sizes, all of whose rows are here.

    Attributes
    ----------
    method : str
        How the catalogue calls it.
    protocol : Collaboration
        What parties release and what is made of it.
    sizes : Sizes
        The parties.
    """

    method: Method
    protocol: Collaboration
    sizes: Sizes

    def guarantee(self) -> Guarantee:
        """Return the price, for every party and thus for every record."""
        return self.protocol.guarantee(self.sizes)

    def detail(self) -> dict[str, Any]:
        """Return what the ledger notes."""
        return {
            "method": self.method,
            "parties": len(self.sizes.counts),
            "rounds": self.protocol.rounds,
        }

    def run(self, data: LabelledTable, source: RandomSource) -> Linear:
        """Return the released model of rows as given."""
        parties, known = PartyRows.of(data), None
        if isinstance(self.protocol, CheckedAveraging):
            weights, known = self.protocol.run_checked(parties, self.sizes, source)
        else:
            weights = self.protocol.run(parties, self.sizes, source)
        facts = Facts(
            method=self.method,
            parties=len(self.sizes.counts),
            rounds=self.protocol.rounds,
            n_samples=self.sizes.total,
            prior=known,
            **self.protocol.frame.learned_with(),
        )
        return linear_model(self.protocol.frame, weights, facts, data.names)

    def terms(self, data: LabelledTable) -> list[Term]:
        """Return every party's release: what is made of them is post-processing."""
        return self.protocol.terms(PartyRows.of(data), self.sizes)

    def run_many(self, data: LabelledTable, source: RandomSource, count: int) -> Floats:
        """Return the numbers that ``count`` independent runs release, one run per row."""
        if isinstance(self.protocol, CheckedAveraging):
            return self.protocol.run_many(PartyRows.of(data), self.sizes, source, count)
        return super().run_many(data, source, count)

    @property
    def batched(self) -> bool:
        """Rounds follow one another."""
        return self.protocol.rounds == 1
