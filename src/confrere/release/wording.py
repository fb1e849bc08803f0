"""What receipts say on a card: numbers rounded up, never down, in words true to the relation."""

from __future__ import annotations

import math
from collections.abc import Iterator
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import Any

from confrere.guarantee import Guarantee, Neighbours, Unit
from confrere.ledger.amounts import at_least, exact, plus
from confrere.release.spending import Spending

NOT_STATED = "not stated"

#: How proofs name the number of rows, which add-remove neighbours hide.
COUNTED = "number of records"
ALL_FEATURES = "all features"

#: What the attacker in the words is willing to get wrong.
FALSE_ALARM = 0.01

_SECRET = {
    (Unit.RECORD, Neighbours.REPLACE_ONE): "one person's record, and whether it is the one",
    (Unit.RECORD, Neighbours.ADD_REMOVE): "one person's record, and whether it is there as",
    (Unit.RECORD, Neighbours.LABEL_ONLY): "one person's label, and whether it is the one",
    (Unit.PARTY, Neighbours.REPLACE_ONE): "one organisation's data, and whether they are those",
    (Unit.PARTY, Neighbours.ADD_REMOVE): "one organisation's data, and whether they are there as",
    (Unit.PARTY, Neighbours.LABEL_ONLY): "one organisation's labels, and whether they are those",
}


def shown(value: float) -> str:
    """Return at most four significant digits, rounded up: a price is never shown as less."""
    return _digits(value, ROUND_CEILING)


def shown_down(value: float) -> str:
    """Return at most four significant digits, rounded down: for what is left to spend."""
    return _digits(value, ROUND_FLOOR)


def _digits(value: float, rounding: str) -> str:
    rounded = Context(prec=4, rounding=rounding).create_decimal(repr(float(value)))
    return f"{rounded.normalize():f}" if abs(rounded) < Decimal("1e9") else f"{rounded:.3e}"


def detection_bound(epsilon: float, delta: float = 0.0, false_alarm: float = FALSE_ALARM) -> float:
    """Return the largest share of people found by any test with that share of false alarms.

    ``min(e^eps a + delta, 1 - e^-eps (1 - a - delta))``: both ends of the trade-off that
    (epsilon, delta)-differential privacy leaves open.
    """
    steep = math.exp(min(epsilon, 700.0)) * false_alarm + delta
    flat = 1 - math.exp(-epsilon) * max(0.0, 1 - false_alarm - delta)
    return min(steep, flat, 1.0)


def risk_in_words(
    epsilon: float, delta: float, unit: Unit, neighbours: Neighbours
) -> dict[str, Any]:
    """Return the numbers and the sentences of a card's ``risk_in_words``."""
    found = detection_bound(epsilon, delta)
    per_hundred = shown(100 * found)
    text = (
        f"Suppose an attacker knows everything about the data except {_SECRET[unit, neighbours]} "
        f"they suspect. If they accept false alarms in {shown(100 * FALSE_ALARM)} case of 100, "
        f"this release lets them be right in at most {per_hundred} of 100; without it, by "
        f"guessing, in {shown(100 * FALSE_ALARM)} of 100. "
    )
    odds = f"by a factor of at most {shown(math.exp(min(epsilon, 700.0)))}"
    if delta > 0:
        odds += f", except with probability {shown(delta)}"
    text += f"Whatever they believed before, the release changes their odds {odds}."
    if found >= 0.5:
        text += " This bound alone excludes little: look at what else limits the attacker."
    return {"false_alarm_rate": FALSE_ALARM, "detection_rate": found, "text": text}


def facts_of_spending(
    spending: Spending, *, rows: int, parties: int, simulated: bool
) -> dict[str, Any]:
    """Return what the receipts alone say on a card, by the place where it stands.

    Parameters
    ----------
    spending : Spending
        What was promised and paid.
    rows, parties : int
        Records of one unit at most, and organisations in whose data it may be.
    simulated : bool
        Whether the noise was seeded.
    """
    proved = spending.guarantee
    epsilon, delta = spending.price(rows, parties)
    return {
        "guarantee.definition": f"{'pure' if delta == 0 else 'approximate'} differential privacy",
        "guarantee.unit": str(proved.unit),
        "guarantee.adjacency": str(proved.neighbours),
        "guarantee.epsilon": epsilon,
        "guarantee.delta": delta,
        "guarantee.scope": "this release alone; what was released before adds to it",
        "guarantee.per_party": spending.per_party(),
        "unprotected": [*not_protected(spending, rows, parties)],
        "trust.assumptions": list(proved.assumptions),
        "mechanism.theorem": proved.theorem or NOT_STATED,
        "mechanism.noise": "seeded" if simulated else "operating system",
        "mechanism.public": public_facts(proved),
        "accounting.method": _method(spending, rows, parties),
        "risk_in_words": risk_in_words(epsilon, delta, proved.unit, proved.neighbours),
        "ledger_head": spending.head(),
        "status": spending.status(simulated),
    }


def public_facts(guarantee: Guarantee) -> list[str]:
    """Return what a proof takes as known to everyone, under the relation that it is for."""
    stated = list(guarantee.public)
    if guarantee.neighbours is Neighbours.ADD_REMOVE:
        return [f"declared {COUNTED}" if f == COUNTED else f for f in stated]
    if guarantee.neighbours is Neighbours.LABEL_ONLY and ALL_FEATURES not in stated:
        return [*stated, ALL_FEATURES]
    return stated


def not_protected(spending: Spending, rows: int, parties: int) -> Iterator[str]:
    """Say what the promise leaves open, under the relation that it is for."""
    proved = spending.guarantee
    yield "conclusions about people in general, which the data of others would give as well"
    if proved.neighbours is Neighbours.LABEL_ONLY:
        yield "features: only labels are hidden, whatever else is known of a record"
    elif proved.neighbours is Neighbours.REPLACE_ONE:
        whose = "organisations there are" if proved.unit is Unit.PARTY else "records there are"
        yield f"how many {whose}: the promise is about one of them being another"
    if proved.public:
        yield f"facts taken as public: {', '.join(public_facts(proved))}"
    if spending.uncapped:
        yield "what else is released from the same data: no lasting ledger caps it"
    prices = list(spending.prices().values())
    if len(prices) > parties:
        everywhere = exact(0.0)
        for paid in prices:
            everywhere = plus(everywhere, exact(paid.epsilon) * rows)
        yield (
            f"the promised epsilon, for anyone in the data of more than {parties} of the "
            f"{len(prices)} organisations: in all of them epsilon is the sum, "
            f"{shown(at_least(everywhere))}"
        )


def _method(spending: Spending, rows: int, parties: int) -> str:
    if not spending.recorded:
        method = "what the mechanisms prove; no ledger recorded all of it"
    elif spending.parties:
        method = "what each organisation's ledger recorded"
    else:
        method = "what the ledger recorded"
    if spending.parties and parties == 1:
        method += "; the largest price counts, since nobody is in the data of two organisations"
    elif parties > 1:
        method += f"; the {parties} largest prices are added"
    if rows > 1:
        method += f"; times {rows} records of one unit (group privacy)"
    return method
