"""Counts over all parties as one sum: nobody's own count is seen, and the noise is that of one.

Every party adds its count, and a share of integer noise whose sum has an exact law. One price per
record, whatever the number of parties; a count of each party with noise of its own would have
their number times the variance, and tell how each of them fares.

Proof: docs/proofs/secure_sums.md, "Counts".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from confrere.arrays import Floats
from confrere.errors import InvalidMessage
from confrere.federation.counting import (
    FederatedEvaluation,
    ask_sizes,
    check_model,
    count_errors,
    scored_by,
)
from confrere.federation.expected import MOST_RECORDS
from confrere.federation.federation import Federation
from confrere.federation.operation import PartyFacts, check_price
from confrere.federation.party import LocalParty
from confrere.federation.payload import Payload
from confrere.federation.summing import Summed, install_sum
from confrere.guarantee import Neighbours
from confrere.mechanisms.secure_sum import (
    Colluding,
    SecureSum,
    check_tries,
    colluders_of,
    fewest_of,
)

_KINDS: Mapping[str, type] = {
    "epsilon": float,
    "n_parties": int,
    "colluding": int,
    "reserve": int,
    "quorum": float,
    "largest": int,
}

#: What stands for all parties where their counts are one.
ALL = "all parties"


def count_sum(values: Mapping[str, Any], neighbours: Neighbours) -> SecureSum:
    """Return the sum of counts that one record moves by one."""
    check_tries(values["reserve"], values["quorum"])
    fewest = fewest_of(values["n_parties"], values["quorum"])
    return SecureSum(
        epsilon=values["epsilon"],
        law="integer",
        size=1,
        sensitivity=1.0,
        n_parties=values["n_parties"],
        # Those who are left of a run may be few: never so few that they could all pool.
        fewest=max(fewest, values["colluding"] + 1),
        colluding=values["colluding"],
        releases=1 + values["reserve"],
        largest=float(values["largest"]),
        neighbours=neighbours,
    )


def total_records(
    federation: Federation,
    *,
    epsilon: float,
    colluding: Colluding = "auto",
    reserve: int = 1,
    quorum: float = 1.0,
    timeout: float | None = None,
) -> Summed:
    """Count the records of all parties, under add-remove neighbours: nobody's number is told.

    Parameters
    ----------
    federation : Federation
    epsilon : float
        What each party spends.
    colluding, reserve : int
        How many parties may pool what they know, by default a minority of those of a sum, and how
        many lost sums are paid for.
    quorum, timeout
        As for :meth:`~confrere.federation.Federation.sum`.
    """
    names = federation.parties()
    asked = settings_of_count(epsilon, len(names), colluding, reserve, quorum, MOST_RECORDS)
    mechanism = count_sum(asked, Neighbours.ADD_REMOVE)
    return federation.sum(RECORDS.name, Payload(asked), mechanism, to=names, timeout=timeout)


def evaluate_together(
    federation: Federation,
    coef: ArrayLike,
    intercept: float = 0.0,
    *,
    epsilon: float,
    colluding: Colluding = "auto",
    reserve: int = 1,
    sizes: Mapping[str, int] | None = None,
    quorum: float = 1.0,
    timeout: float | None = None,
) -> FederatedEvaluation:
    """Count, over all parties as one, the errors of a public model.

    Parameters
    ----------
    federation, coef, intercept, epsilon, sizes, quorum, timeout
        As for :func:`confrere.federation.evaluate`.
    colluding, reserve : int
        How many parties may pool what they know, by default a minority of those of a sum, and how
        many lost sums are paid for.
    """
    known = sizes
    if known is None:
        known = ask_sizes(federation, quorum=quorum, timeout=timeout).counts
    asked = settings_of_count(epsilon, len(known), colluding, reserve, quorum, max(known.values()))
    mechanism = count_sum(asked, Neighbours.REPLACE_ONE)
    request = scored_by(coef, intercept, asked)
    summed = federation.sum(ERRORS_OF_ALL.name, request, mechanism, to=list(known), timeout=timeout)
    there = {name: known[name] for name in summed.roster}
    return FederatedEvaluation({ALL: float(summed.value[0])}, there, summed.receipts)


def settings_of_count(
    epsilon: float,
    n_parties: int,
    colluding: Colluding,
    reserve: int,
    quorum: float,
    largest: int,
) -> dict[str, Any]:
    """Return what every request for counts of all parties says."""
    return {
        "epsilon": float(epsilon),
        "n_parties": int(n_parties),
        "colluding": colluders_of(colluding, n_parties, quorum),
        "reserve": int(reserve),
        "quorum": float(quorum),
        "largest": int(largest),
    }


def read_count(request: Payload, more: frozenset[str]) -> Mapping[str, Any]:
    """Read a message; what does not fit is refused."""
    values = request.values
    if values.keys() != _KINDS.keys() | more:
        raise InvalidMessage("the request has missing or unknown fields.")
    for name, kind in _KINDS.items():
        if type(values[name]) is not kind:
            raise InvalidMessage(f"{name} is of the wrong kind.")
    check_price(values["epsilon"])
    if not 1 <= values["largest"] <= MOST_RECORDS:
        raise InvalidMessage("largest is not a number of records.")
    return values


def _sum_records(request: Payload, facts: PartyFacts) -> SecureSum:  # noqa: ARG001
    if request.arrays:
        raise InvalidMessage("a count takes no arrays.")
    return count_sum(read_count(request, frozenset()), Neighbours.ADD_REMOVE)


def _sum_errors(request: Payload, facts: PartyFacts) -> SecureSum:
    values = read_count(request, frozenset({"intercept"}))
    check_model(request, facts)
    return count_sum(values, Neighbours.REPLACE_ONE)


def _counted(
    count: Callable[[Payload, LocalParty], int],
) -> Callable[[Payload, LocalParty], Floats]:
    return lambda request, party: np.array([float(count(request, party))])


RECORDS = install_sum(
    "records_of_all", _sum_records, _counted(lambda _, party: party.facts.n_samples)
)
ERRORS_OF_ALL = install_sum("errors_of_all", _sum_errors, _counted(count_errors))
