"""Every party adds to sums that nobody sees into, and a share of the noise of one sum.

Models: one message of each party, or rounds of gradients. Counts of records, or of a public model's
errors, over all parties: one price per record, whatever the number of parties; a count of each
party with noise of its own would have their number times the variance, and tell how each of them
fares. Facts of a schema: nobody's own means are seen.

Proofs: docs/proofs/secure_sums.md, docs/proofs/learned_facts.md.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from confrere.arrays import Floats
from confrere.errors import InvalidMessage, InvalidParameter, SchemaError
from confrere.federation.federation import Federation
from confrere.federation.messages import MOST_RECORDS, Payload
from confrere.federation.operation import PartyFacts, check_price, coordinates_of, framed
from confrere.federation.party import LocalParty
from confrere.federation.protocols import (
    FederatedEvaluation,
    Outcome,
    ask_sizes,
    check_model,
    count_errors,
    joined,
    scored_by,
)
from confrere.federation.summing import Summed, install_sum
from confrere.kernel.guarantee import Neighbours, Unit
from confrere.mechanisms.secure_sum import (
    Colluding,
    SecureSum,
    check_tries,
    colluders_of,
    fewest_of,
)
from confrere.plans.party_rows import Sizes
from confrere.plans.sums_plan import GradientRounds, OneMessage, Sums
from confrere.schema import PublicSchema
from confrere.schema.fact_counts import STEPS, FactCounts
from confrere.schema.public_schema import PaidFacts

#: What reading a stranger's schema may raise.
UNREADABLE = (
    SchemaError,
    TypeError,
    ValueError,
    ArithmeticError,
    LookupError,
    AttributeError,
    RecursionError,
)


def sent_schema(schema: PublicSchema) -> NDArray[np.uint8]:
    """Return a schema as bytes of JSON: of many columns, it is longer than a text may be."""
    text = json.dumps(schema.to_dict(), sort_keys=True, separators=(",", ":"))
    return np.frombuffer(text.encode(), dtype=np.uint8)


def received_schema(written: NDArray[Any]) -> PublicSchema:
    """Read the schema of a request.

    Raises
    ------
    InvalidMessage
        If it is none.
    """
    try:
        return PublicSchema.from_dict(json.loads(written.tobytes()))
    except UNREADABLE:
        raise InvalidMessage("schema is not one that can be read.") from None


_SUM_COMMON = frozenset(
    {"frame", "epsilon", "cap", "colluding", "reserve", "quorum", "sizes", "spacing"}
)
_ONE = _SUM_COMMON | {"alpha"}
_ROUND = _SUM_COMMON | {"delta", "rounds", "round"}


def add_up(
    federation: Federation,
    plan: OneMessage | GradientRounds,
    *,
    quorum: float = 1.0,
    timeout: float | None = None,
) -> Outcome:
    """Run the protocol.

    Parameters
    ----------
    federation : Federation
        Whom to ask, and under which run.
    plan : OneMessage or GradientRounds
        What to ask.
    quorum : float, default=1.0
        Share of the parties that must take part in every sum; the noise is made for it.
    timeout : float, optional
        Seconds to wait for a question.

    Returns
    -------
    Outcome
        Weights of all parties in the last sum.
    """
    # Who does not tell its size must not lower the number of those who may collude.
    colluding = colluders_of(plan.colluding, len(federation.parties()), quorum)
    plan = replace(plan, quorum=float(quorum), colluding=colluding)
    sizes = ask_sizes(federation, quorum=quorum, timeout=timeout)
    plan = plan.at(sizes)
    mechanism = plan.mechanism(sizes)
    names = list(sizes.counts)
    if isinstance(plan, OneMessage):
        asked = _request(plan, sizes, mechanism, plan.told)
        summed = federation.sum(MINIMISER.name, asked, mechanism, to=names, timeout=timeout)
        weights = plan.weights_of(_whole(summed, sizes), sizes)
        return _outcome(plan, weights, sizes, summed, dict(summed.receipts))
    descent = plan.descent(sizes)
    receipts: dict[str, Any] = {}
    for number in range(plan.rounds):
        asked = _request(plan, sizes, mechanism, descent.weights, round=number)
        summed = federation.sum(
            GRADIENT.name,
            asked,
            mechanism,
            to=names,
            timeout=timeout,
            later=plan.rounds - number - 1,
        )
        receipts = joined(receipts, summed.receipts)
        descent.take(_whole(summed, sizes))
    return _outcome(plan, descent.average, sizes, summed, receipts)


def _outcome(
    plan: Sums, weights: Floats, sizes: Sizes, summed: Summed, receipts: dict[str, Any]
) -> Outcome:
    counts = {name: sizes.counts[name] for name in summed.roster}
    return Outcome(plan.space, np.asarray(weights), counts, receipts)


def _whole(summed: Summed, sizes: Sizes) -> Floats:
    """Return a sum as if everyone were in it: those who are stand for those who are not."""
    there = sum(sizes.counts[name] for name in summed.roster)
    return np.asarray(summed.value * (sizes.total / there))


def _request(
    plan: Sums, sizes: Sizes, mechanism: SecureSum, weights: Floats | None, **more: Any
) -> Payload:
    values: dict[str, Any] = {
        "epsilon": float(plan.epsilon),
        "cap": float(plan.cap),
        "colluding": int(mechanism.colluders),
        "reserve": int(plan.reserve),
        "quorum": float(plan.quorum),
        "sizes": {name: int(count) for name, count in sizes.counts.items()},
        "spacing": float(mechanism.spacing),
        **more,
    }
    if isinstance(plan, OneMessage):
        values["alpha"] = plan.alpha if plan.alpha == "auto" else float(plan.alpha)
    else:
        values |= {"delta": float(plan.delta), "rounds": int(plan.rounds)}
    return framed(plan.space, values, weights=weights)


def _read(
    request: Payload, facts: PartyFacts, known: frozenset[str]
) -> tuple[dict[str, Any], Sizes]:
    """Read what all requests have; what does not fit is refused."""
    values, arrays = dict(request.values), {"feature_scale", "roots", "weights"}
    if values.keys() != known or not request.arrays.keys() <= arrays:
        raise InvalidMessage("the request has missing or unknown fields.")
    frame = coordinates_of(request)
    if facts.n_features != frame.n_features:
        raise InvalidMessage("the request is for rows of another number of columns.")
    weights = request.arrays.get("weights")
    shape = (frame.size,) if facts.n_classes == 2 else (facts.n_classes, frame.size)
    if weights is not None and (weights.dtype != np.float64 or weights.shape != shape):
        raise InvalidMessage("weights must be one float64 per coordinate.")
    check_price(values["epsilon"])
    for name in ("cap", "quorum", "spacing"):
        if type(values[name]) is not float or not values[name] > 0:
            raise InvalidMessage(f"{name} must be a float above 0.")
    for name in ("colluding", "reserve"):
        if type(values[name]) is not int:
            raise InvalidMessage(f"{name} must be an int.")
    if not values["cap"] <= 1:
        raise InvalidMessage("cap must be at most 1, the largest slope of the loss.")
    counts = values["sizes"]
    fit = isinstance(counts, dict) and all(type(n) is int and n > 0 for n in counts.values())
    if not fit or not counts:
        raise InvalidMessage("sizes must be a number of records for every party.")
    settings = {n: values[n] for n in ("epsilon", "cap", "colluding", "reserve", "quorum")}
    return settings | {"n_classes": facts.n_classes, "frame": frame}, Sizes(counts)


def _one_message(request: Payload, facts: PartyFacts) -> tuple[OneMessage, Sizes]:
    settings, sizes = _read(request, facts, _ONE)
    alpha = request.values["alpha"]
    if alpha != "auto" and not (type(alpha) is float and alpha > 0):
        raise InvalidMessage("alpha must be 'auto' or a float above 0.")
    return OneMessage(**settings, alpha=alpha, prior=request.arrays.get("weights")), sizes


def _gradient_rounds(request: Payload, facts: PartyFacts) -> tuple[GradientRounds, Sizes]:
    settings, sizes = _read(request, facts, _ROUND)
    values = request.values
    if type(values["delta"]) is not float or "weights" not in request.arrays:
        raise InvalidMessage("a gradient is asked for with a delta, at weights.")
    if type(values["rounds"]) is not int or type(values["round"]) is not int:
        raise InvalidMessage("round and rounds must be ints.")
    if not 0 <= values["round"] < values["rounds"]:
        raise InvalidMessage("round must be one of the rounds.")
    return GradientRounds(**settings, delta=values["delta"], rounds=values["rounds"]), sizes


def _checked(mechanism: SecureSum, request: Payload) -> SecureSum:
    # Uploads on different lattices would add up to nothing.
    if request.values["spacing"] != mechanism.spacing:
        raise InvalidMessage("spacing is not the one that follows from the request.")
    return mechanism


def _sum_minimisers(request: Payload, facts: PartyFacts) -> SecureSum:
    plan, sizes = _one_message(request, facts)
    return _checked(plan.mechanism(sizes), request)


def _minimiser(request: Payload, party: LocalParty) -> Floats:
    plan, sizes = _one_message(request, party.facts)
    return plan.message(plan.space.rows(party.X), party.y, sizes, len(party.y))


def _sum_gradients(request: Payload, facts: PartyFacts) -> SecureSum:
    plan, sizes = _gradient_rounds(request, facts)
    return _checked(plan.mechanism(sizes), request)


def _gradient(request: Payload, party: LocalParty) -> Floats:
    plan, _ = _gradient_rounds(request, party.facts)
    return plan.message(plan.space.rows(party.X), party.y, request.arrays["weights"])


MINIMISER = install_sum("minimiser", _sum_minimisers, _minimiser, many_classes=True)
GRADIENT = install_sum("gradient", _sum_gradients, _gradient, many_classes=True)


_COUNT_KINDS: Mapping[str, type] = {
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
    if values.keys() != _COUNT_KINDS.keys() | more:
        raise InvalidMessage("the request has missing or unknown fields.")
    for name, kind in _COUNT_KINDS.items():
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


def _fact_counts(written: NDArray[Any]) -> FactCounts:
    """Read the schema of a request; the sensitivity follows from it, and is nobody's word."""
    try:
        return FactCounts(received_schema(written))
    except UNREADABLE:
        raise InvalidMessage("schema is not one whose facts can be learned.") from None


def _facts_mechanism(request: Payload, facts: PartyFacts) -> SecureSum:  # noqa: ARG001
    if request.arrays.keys() != {"schema"}:
        raise InvalidMessage("facts are learned of a schema, and take no other array.")
    values = read_count(request, frozenset({"hides"}))
    if values["hides"] not in tuple(Hides):
        raise InvalidMessage("hides must say what one answer hides.")
    if values["hides"] == Hides.PARTY and values["largest"] != 1:
        raise InvalidMessage("largest must be 1: whole parties add means.")
    return fact_sum(values, _fact_counts(request.arrays["schema"]))


def _facts_vector(request: Payload, party: LocalParty) -> Floats:
    raw = party.raw
    if raw is None or not np.array_equal(sent_schema(raw.counts.schema), request.arrays["schema"]):
        raise InvalidMessage("this party has no raw rows of that schema to count.")
    hides, sums = Hides(request.values["hides"]), raw.sums
    if hides is Hides.PARTY:
        sums = raw.counts.means(sums, raw.n_samples)
    elif hides is Hides.PRESENCE:
        sums = np.append(sums, STEPS * raw.n_samples)
    return sums.astype(np.float64)


FACTS = install_sum("facts_of_all", _facts_mechanism, _facts_vector, many_classes=True)
