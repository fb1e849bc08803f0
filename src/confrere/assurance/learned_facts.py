"""Facts of a schema, learned from private records: counted with integer noise, and paid for.

What a schema declares costs nothing. What is learned here costs an epsilon, which the schema
carries from then on: cards of everything that is fitted with it add it up.

Proof: docs/proofs/learned_facts.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confrere.data.cells import n_rows_of, party_column
from confrere.data.fact_counts import STEPS, FactCounts
from confrere.data.schema import PaidFacts, PublicSchema
from confrere.errors import InvalidData, InvalidParameter
from confrere.kernel.guarantee import (
    ASSUMPTIONS,
    Guarantee,
    Neighbours,
    Unit,
    check_epsilon,
    check_relation,
)
from confrere.kernel.measurements import Point
from confrere.kernel.release import paying
from confrere.kernel.streams import RandomSource
from confrere.ledger import Budget, Ledger, payer
from confrere.methods.asking import party_codes
from confrere.methods.sums import Hides
from confrere.methods.votes import PartyBudget
from confrere.simulation import Seed, SeededSource

THEOREM = "docs/proofs/learned_facts.md"


def counts(
    epsilon: float,  # The price of all counts together
    # Largest sum of absolute changes of the counts when one record is changed: 1 for the number of
    # records with some property, 2 for a histogram with any number of cells.
    sensitivity: int,
    neighbours: Neighbours = Neighbours.REPLACE_ONE,
    # What is taken to be known, besides what the relation itself makes public.
    public: tuple[str, ...] = ("label set", "the model", "the grid of scores"),
) -> Point:
    """Return integer noise on counts of records: docs/proofs/private_evaluation.md."""
    sizes = ("number of records",) if neighbours is Neighbours.REPLACE_ONE else ()
    promise = Guarantee(
        epsilon=epsilon,
        neighbours=check_relation(neighbours),
        theorem="docs/proofs/private_evaluation.md",
        public=(*sizes, *public),
        assumptions=ASSUMPTIONS,
    )
    return Point(promise=promise, sensitivity=sensitivity)


@dataclass(frozen=True)
class FactsPlan:
    """Counts of one organisation's records, as a plan: what they cost, and what they do."""

    counts: FactCounts  #: What is counted
    epsilon: float  #: The price of all of it together
    #: Which change is hidden. Where a record may come or go, the number of records is one more sum.
    neighbours: Neighbours = Neighbours.REPLACE_ONE
    #: Whose data change. Of a party, whose records are hidden all together, means are summed.
    unit: Unit = Unit.RECORD

    def __post_init__(self) -> None:
        _ = self.hides  # or it is said why nothing can

    @cached_property
    def hides(self) -> Hides:
        """Which change is hidden."""
        return Hides.of(self.unit, self.neighbours)

    @property
    def counter(self) -> Point:
        """The mechanism: discrete Laplace noise on all sums at once."""
        return Point(promise=self.guarantee(), sensitivity=self.hides.moved(self.counts))

    @property
    def deviation(self) -> float:
        """Standard deviation of the noise of one sum, in lattice steps."""
        return self.counter.deviations[0]

    def guarantee(self) -> Guarantee:
        """Return the price, without touching data."""
        public = ("bounds", "declared values", "which facts are learned")
        if self.hides is Hides.PARTY:
            made = PartyBudget(epsilon=self.epsilon, n_parties=1).promise("weights")
            return replace(made, theorem=THEOREM, public=("number of parties", *public))
        return replace(counts(self.epsilon, 1, self.neighbours, public).promise, theorem=THEOREM)

    def summed(self, table: Any, party: Any = None) -> tuple[NDArray[np.int64], int]:
        """Return the exact sums of a table, and of how many records they are, or parties."""
        rows = n_rows_of(table)
        if not rows and self.hides is not Hides.PRESENCE:
            raise InvalidData("table has no rows; a minimum of 1 is required.")
        if self.hides is not Hides.PARTY:
            return self.counts.sums(table), rows
        parties, codes = party_codes(party_column(table, party), rows)
        means = self.counts.means(self.counts.sums(table, codes), np.bincount(codes))
        return means.sum(axis=0), len(parties)

    def counted(self, sums: NDArray[np.int64], n_samples: int) -> NDArray[np.int64]:
        """Return all that is noised: the sums, and the number of records where it is hidden."""
        return np.append(sums, STEPS * n_samples) if self.hides is Hides.PRESENCE else sums

    def run(
        self, sums: NDArray[np.int64], n_samples: int, source: RandomSource
    ) -> tuple[PublicSchema, dict[str, tuple[str, ...]]]:
        """Draw the noise; return the schema with what was learned, and what that is.

        Where whole parties are hidden, sums of their means, and how many parties there are.
        """
        counted = self.counted(sums, n_samples)
        noised = source.draw(self.counter, counted)[0][0].astype(np.float64)
        hidden = self.hides is Hides.PRESENCE
        known = max(1.0, float(noised[-1]) / STEPS) if hidden else float(n_samples)
        return self.counts.learned(noised[: self.counts.size], known, self.deviation)


def learn_facts(
    # Bounds and values are declared; what else it declares is not learned again.
    schema: PublicSchema,
    table: Any,  # Private records, with the label's column if its base rate is to be learned
    *,
    epsilon: float,  # Price of all facts together
    neighbours: str = "replace-one",  # Which change is hidden; as in the fits that are to come
    # Whose record it is, or the column that says so: then all records of a party are hidden
    # together, as in :class:`confrere.MultipartyClassifier`, and facts are means over parties of
    # their means.
    party: Any = None,
    # ``budget``, ``random_state``: as in :class:`confrere.PrivateLogisticRegression`.
    budget: Budget | Ledger | None = None,
    random_state: Seed | None = None,
) -> PublicSchema:
    """Return a schema with facts that it lacks, learned from private records.

    The receipt is in ``paid``. A mean and a deviation that the noise drowns are left out: the
    column stays as it was declared, and the price is paid all the same.

    Unit: record, or with ``party`` party. Neighbours: replace one row of ``table``, or add or
    remove one; or replace all rows of a party. Guarantee: ``epsilon``-DP, pure. Spends: ``epsilon``
    of ``budget`` before noise is drawn. Proof: docs/proofs/learned_facts.md.
    """
    if not isinstance(schema, PublicSchema):
        raise InvalidParameter("schema must be a PublicSchema.")
    relation = check_relation(neighbours)
    unit = Unit.RECORD if party is None else Unit.PARTY
    plan = FactsPlan(FactCounts(schema), check_epsilon(epsilon), relation, unit)
    guarantee = plan.guarantee()
    sums, n_samples = plan.summed(table, party)
    book, paid_by = payer(budget, guarantee)
    with paying(
        book,
        paid_by,
        guarantee,
        purpose="learn facts of a schema",
        simulation=None if random_state is None else SeededSource(random_state),
    ) as ticket:
        learned, what = plan.run(sums, n_samples, ticket)
        paid = PaidFacts(what, {ticket.receipt.account: ticket.receipt.to_dict()})
        ticket.made = paid.digest(learned)
    return replace(learned, paid=(*schema.paid, paid))
