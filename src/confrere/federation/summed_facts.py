"""Facts of a schema over all parties as one sum: nobody's own means are seen.

Every party adds the sums of its own records, and a share of integer noise whose sum has an exact
law. Proof: docs/proofs/learned_facts.md and docs/proofs/secure_sums.md, "Counts".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confrere.arrays import Floats
from confrere.errors import InvalidMessage, InvalidParameter
from confrere.federation.counting import ask_sizes
from confrere.federation.federation import Federation
from confrere.federation.operation import PartyFacts
from confrere.federation.party import LocalParty
from confrere.federation.payload import Payload
from confrere.federation.sent_schema import UNREADABLE, received_schema, sent_schema
from confrere.federation.summed_counts import count_sum, read_count, settings_of_count
from confrere.federation.summing import install_sum
from confrere.guarantee import Neighbours, Unit
from confrere.mechanisms.secure_sum import Colluding, SecureSum
from confrere.schema import PublicSchema
from confrere.schema.column_sums import STEPS
from confrere.schema.fact_counts import FactCounts
from confrere.schema.paid_facts import PaidFacts

#: Sizes are asked for once by facts, and by what comes after in its own steps.
_SIZES_STEP = 1

#: A party's number of records at most, where it is not public and nothing else is said.
MOST_HIDDEN = 1 << 20


class Hides(StrEnum):
    """What facts are learned without telling: a record, that it is there, or all of a party's."""

    RECORD = "record"
    PRESENCE = "presence"
    PARTY = "party"

    @classmethod
    def of(cls, unit: Unit, neighbours: Neighbours) -> Hides:
        """Return what a promise of this unit and relation asks for."""
        known = {(one.unit, one.neighbours): one for one in cls}
        if (unit, neighbours) not in known:
            raise InvalidParameter(
                "unit and neighbours: facts are learned per record, replaced or added and removed, "
                "or per party, replaced; declare them."
            )
        return known[unit, neighbours]

    @property
    def unit(self) -> Unit:
        """Whose data change."""
        return Unit.PARTY if self is Hides.PARTY else Unit.RECORD

    @property
    def neighbours(self) -> Neighbours:
        """How."""
        return Neighbours.ADD_REMOVE if self is Hides.PRESENCE else Neighbours.REPLACE_ONE


@dataclass(frozen=True, eq=False)
class RawRows:
    """What a party can count, and encode anew, where facts are learned before a model is.

    Parameters
    ----------
    counts : FactCounts
        What is counted.
    sums : array of int
        The sums of its own records, without noise.
    n_samples : int
        How many records those are.
    encode : callable
        From a schema to its rows, encoded by it.
    """

    counts: FactCounts
    sums: NDArray[np.int64]
    n_samples: int
    encode: Callable[[PublicSchema], Floats]


def fact_sum(values: Mapping[str, Any], counts: FactCounts) -> SecureSum:
    """Return the sum of everybody's sums, which one record moves by the counts' sensitivity.

    Where a record may come or go the number of records is one more sum; where whole parties are
    hidden everybody adds means.
    """
    hides = Hides(values["hides"])
    whole = count_sum(values, hides.neighbours)
    moved = {
        Hides.RECORD: counts.sensitivity,
        Hides.PRESENCE: counts.longest + STEPS,
        Hides.PARTY: counts.party_sensitivity,
    }[hides]
    return replace(
        whole,
        size=counts.size + (hides is Hides.PRESENCE),
        sensitivity=float(moved),
        largest=float(values["largest"] * STEPS),
        unit=hides.unit,
    )


def learn_together(
    federation: Federation,
    schema: PublicSchema,
    *,
    epsilon: float,
    unit: Unit = Unit.RECORD,
    neighbours: Neighbours = Neighbours.REPLACE_ONE,
    most_records: int = MOST_HIDDEN,
    colluding: Colluding = "auto",
    reserve: int = 1,
    quorum: float = 1.0,
    timeout: float | None = None,
) -> PublicSchema:
    """Learn the facts that a schema lacks from the records of all parties.

    Everyone is told the schema that comes out, and encodes its rows by it from then on.

    Parameters
    ----------
    federation : Federation
    schema : PublicSchema
        What it declares is not learned again.
    epsilon : float
        What each party spends.
    unit, neighbours
        What is hidden: a record that is replaced, or that comes or goes, in which case the number
        of records is counted with the rest; or all records of a party, in which case facts are
        means over parties of their means, and nobody tells how many records it has.
    most_records : int, default=1048576
        Where records may come or go, a public bound on a party's number of them: sums beyond it
        are cut.
    colluding, reserve : int
        How many parties may pool what they know, by default a minority of those of a sum, and how
        many lost sums are paid for.
    quorum, timeout
        As for :meth:`~confrere.federation.Federation.sum`.

    Returns
    -------
    PublicSchema
        With everyone's receipts in ``paid``.
    """
    counts, hides = FactCounts(schema), Hides.of(unit, neighbours)
    names = federation.parties()
    sizes = dict.fromkeys(names, 1 if hides is Hides.PARTY else most_records)
    if hides is Hides.RECORD:
        told = ask_sizes(federation, step=_SIZES_STEP, quorum=quorum, timeout=timeout)
        sizes = dict(told.counts)
    largest = max(sizes.values())
    asked = settings_of_count(epsilon, len(names), colluding, reserve, quorum, largest)
    asked["hides"] = str(hides)
    mechanism = fact_sum(asked, counts)
    request = Payload(asked, {"schema": sent_schema(schema)})
    summed = federation.sum(FACTS.name, request, mechanism, to=list(sizes), timeout=timeout)
    n_samples = float(sum(sizes[name] for name in summed.roster))
    if hides is Hides.PRESENCE:
        n_samples = max(1.0, float(summed.value[-1]) / STEPS)
    total = summed.value[: counts.size]
    learned, what = counts.learned(total, n_samples, mechanism.deviation)
    receipts = {name: paid[0].to_dict() for name, paid in summed.receipts.items() if paid}
    if receipts:  # in a rehearsal nobody has paid
        learned = replace(learned, paid=(*schema.paid, PaidFacts(what, receipts)))
    federation.use_schema(learned)
    return learned


def _counts(written: NDArray[Any]) -> FactCounts:
    """Read the schema of a request; the sensitivity follows from it, and is nobody's word."""
    try:
        return FactCounts(received_schema(written))
    except UNREADABLE:
        raise InvalidMessage("schema is not one whose facts can be learned.") from None


def _mechanism(request: Payload, facts: PartyFacts) -> SecureSum:  # noqa: ARG001
    if request.arrays.keys() != {"schema"}:
        raise InvalidMessage("facts are learned of a schema, and take no other array.")
    values = read_count(request, frozenset({"hides"}))
    if values["hides"] not in tuple(Hides):
        raise InvalidMessage("hides must say what one answer hides.")
    if values["hides"] == Hides.PARTY and values["largest"] != 1:
        raise InvalidMessage("largest must be 1: whole parties add means.")
    return fact_sum(values, _counts(request.arrays["schema"]))


def _vector(request: Payload, party: LocalParty) -> Floats:
    raw = party.raw
    if raw is None or not np.array_equal(sent_schema(raw.counts.schema), request.arrays["schema"]):
        raise InvalidMessage("this party has no raw rows of that schema to count.")
    hides, sums = Hides(request.values["hides"]), raw.sums
    if hides is Hides.PARTY:
        sums = raw.counts.means(sums, raw.n_samples)
    elif hides is Hides.PRESENCE:
        sums = np.append(sums, STEPS * raw.n_samples)
    return sums.astype(np.float64)


FACTS = install_sum("facts_of_all", _mechanism, _vector, many_classes=True)
