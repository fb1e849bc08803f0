"""Facts of a schema over all parties as one sum: nobody's own means are seen.

Every party adds the sums of its own records, and a share of integer noise whose sum has an exact
law. Proof: docs/proofs/learned_facts.md and docs/proofs/secure_sums.md, "Counts".
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confrere.errors import InvalidMessage, SchemaError
from confrere.federation.counting import ask_sizes
from confrere.federation.federation import Federation
from confrere.federation.operation import PartyFacts
from confrere.federation.party import LocalParty
from confrere.federation.payload import Payload
from confrere.federation.summed_counts import count_sum, read_count, settings_of_count
from confrere.federation.summing import install_sum
from confrere.guarantee import Neighbours
from confrere.mechanisms.secure_sum import SecureSum
from confrere.schema import PublicSchema
from confrere.schema.column_sums import STEPS
from confrere.schema.fact_counts import FactCounts
from confrere.schema.paid_facts import PaidFacts

Floats = NDArray[np.float64]

#: Sizes are asked for once by facts, and by what comes after in its own steps.
_SIZES_STEP = 1

#: What reading a stranger's schema may raise.
_UNREADABLE = (
    SchemaError,
    TypeError,
    ValueError,
    ArithmeticError,
    LookupError,
    AttributeError,
    RecursionError,
)


@dataclass(frozen=True, eq=False)
class RawRows:
    """What a party can count, and encode anew, where facts are learned before a model is.

    Parameters
    ----------
    counts : FactCounts
        What is counted.
    sums : array of int
        The sums of its own records, without noise.
    encode : callable
        From a schema to its rows, encoded by it.
    """

    counts: FactCounts
    sums: NDArray[np.int64]
    encode: Callable[[PublicSchema], Floats]


def fact_sum(values: Mapping[str, Any], counts: FactCounts) -> SecureSum:
    """Return the sum of everybody's sums, which one record moves by the counts' sensitivity."""
    whole = count_sum(values, Neighbours.REPLACE_ONE)
    return replace(
        whole,
        size=counts.size,
        sensitivity=float(counts.sensitivity),
        largest=float(values["largest"] * STEPS),
    )


def learn_together(
    federation: Federation,
    schema: PublicSchema,
    *,
    epsilon: float,
    colluding: int = 1,
    reserve: int = 0,
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
    colluding, reserve : int
        How many parties may pool what they know, and how many lost sums are paid for.
    quorum, timeout
        As for :meth:`~confrere.federation.Federation.sum`.

    Returns
    -------
    PublicSchema
        With everyone's receipts in ``paid``.
    """
    counts = FactCounts(schema)
    sizes = ask_sizes(federation, step=_SIZES_STEP, quorum=quorum, timeout=timeout).counts
    n_parties = len(federation.parties())
    asked = settings_of_count(epsilon, n_parties, colluding, reserve, quorum, max(sizes.values()))
    mechanism = fact_sum(asked, counts)
    request = Payload(asked, {"schema": _written(schema)})
    summed = federation.sum(FACTS.name, request, mechanism, to=list(sizes), timeout=timeout)
    n_samples = sum(sizes[name] for name in summed.roster)
    learned, what = counts.learned(summed.value, n_samples, mechanism.deviation)
    receipts = {name: paid[0].to_dict() for name, paid in summed.receipts.items() if paid}
    if receipts:  # in a rehearsal nobody has paid
        learned = replace(learned, paid=(*schema.paid, PaidFacts(what, receipts)))
    federation.use_schema(learned)
    return learned


def _written(schema: PublicSchema) -> NDArray[np.uint8]:
    """Return a schema as bytes of JSON: of many columns, it is longer than a text may be."""
    text = json.dumps(schema.to_dict(), sort_keys=True, separators=(",", ":"))
    return np.frombuffer(text.encode(), dtype=np.uint8)


def _counts(written: NDArray[Any]) -> FactCounts:
    """Read the schema of a request; the sensitivity follows from it, and is nobody's word."""
    try:
        return FactCounts(PublicSchema.from_dict(json.loads(written.tobytes())))
    except _UNREADABLE:
        raise InvalidMessage("schema is not one whose facts can be learned.") from None


def _mechanism(request: Payload, facts: PartyFacts) -> SecureSum:  # noqa: ARG001
    if request.arrays.keys() != {"schema"}:
        raise InvalidMessage("facts are learned of a schema, and take no other array.")
    return fact_sum(read_count(request, frozenset()), _counts(request.arrays["schema"]))


def _vector(request: Payload, party: LocalParty) -> Floats:
    raw = party.raw
    if raw is None or not np.array_equal(_written(raw.counts.schema), request.arrays["schema"]):
        raise InvalidMessage("this party has no raw rows of that schema to count.")
    return raw.sums.astype(np.float64)


FACTS = install_sum("facts_of_all", _mechanism, _vector, many_classes=True)
