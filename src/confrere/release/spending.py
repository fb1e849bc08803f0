"""What one unit pays for a release, from what the ledgers recorded.

Never from a person: what people may state is how many rows a unit has at most and in how many
organisations' data it may be, and both only make the price higher. Cards say it in numbers rounded
up, never down, and in words true to the relation.

What a schema's makers paid for its facts is in the total of every release with it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from confrere.data.encoding import SchemaEncoder
from confrere.data.schema import PublicSchema
from confrere.errors import InvalidParameter, SchemaError
from confrere.kernel.guarantee import Guarantee, Neighbours, Unit, added, at_least, exact, plus
from confrere.ledger import Receipt
from confrere.ledger.compose import Together
from confrere.model import Encoder
from confrere.views import shown

#: What a party paid: one receipt, one for each of its answers, or a price that no ledger recorded.
Paid = Receipt | tuple[Receipt, ...] | Guarantee


@dataclass(frozen=True)
class Spending:
    """What was promised and what was paid."""

    guarantee: Guarantee  #: What the mechanism proves
    receipt: Receipt | None = None  #: What a ledger recorded for it
    #: Where several organisations' data are in the release: what each one paid, several receipts
    #: together if it answered several times; a bare guarantee where no ledger recorded it.
    parties: Mapping[str, Paid] = field(default_factory=dict)

    def __post_init__(self) -> None:
        parties = {name: _plainest(paid) for name, paid in sorted(self.parties.items())}
        object.__setattr__(self, "parties", MappingProxyType(parties))
        for paid in self._paid():
            if (paid.unit, paid.neighbours) != (self.guarantee.unit, self.guarantee.neighbours):
                raise InvalidParameter(
                    "receipt: it is for another unit or other neighbours than the guarantee; "
                    "give the receipt of this release."
                )
        epsilon, delta = self._recorded_price()
        if epsilon < self.guarantee.epsilon or delta < self.guarantee.delta:
            raise InvalidParameter(
                "receipt: it covers less than the guarantee; charge the whole price to the "
                "ledger before the release."
            )

    @property
    def recorded(self) -> bool:
        """Whether a ledger has every part of the price."""
        if self.parties:
            return all(_receipts(paid) for paid in self.parties.values())
        return self.receipt is not None

    @property
    def simulated(self) -> bool:
        """Whether a receipt says that the noise was seeded."""
        return any(paid.simulated for paid in self.receipts())

    @property
    def uncapped(self) -> bool:
        """Whether nothing limits what else is spent on the same data, by a receipt's word."""
        return any(paid.uncapped for paid in self.receipts())

    def privacy_cost(
        self, max_rows_per_unit: int = 1, parties_per_unit: int = 1
    ) -> tuple[float, float]:
        """Return epsilon and delta of one unit.

        A unit in several organisations' data pays the sum of the largest prices; one with
        several records pays for each of them (group privacy).
        """
        rows = _count(max_rows_per_unit, "max_rows_per_unit")
        places = _count(parties_per_unit, "parties_per_unit")
        if self.guarantee.unit is Unit.PARTY and (rows, places) != (1, 1):
            raise InvalidParameter(
                "max_rows_per_unit and parties_per_unit must be 1: the unit is a whole party."
            )
        if places > max(1, len(self.parties)):
            raise InvalidParameter(
                f"parties_per_unit is {places}, and the release names {len(self.parties)} "
                "parties; name what each of them paid in parties=."
            )
        epsilon, delta = self._summed_price(places)
        if rows > 1:
            epsilon, delta = (
                at_least(exact(epsilon) * rows),
                delta and delta * _growth(epsilon, rows),
            )
        if delta >= 1 or math.isinf(epsilon):
            raise InvalidParameter("max_rows_per_unit: with so many rows nothing is promised.")
        return epsilon, delta

    def status(self, simulated: bool) -> str:
        """Return what a release may call itself: seeded noise is never released."""
        if simulated or self.simulated:
            return "simulated"
        return "released" if self.recorded else "unrecorded"

    def per_party(self) -> list[dict[str, Any]]:
        """Return each party's price, as a card lists it."""
        return [
            {
                "party": name,
                "epsilon": paid.epsilon,
                "delta": paid.delta,
                "recorded": self.parties[name] is not paid,
            }
            for name, paid in self.prices().items()
        ]

    def head(self) -> dict[str, Any] | None:
        """Return where the ledger stood when the release was paid."""
        receipt = self.receipt
        if receipt is None:
            return None
        return {"ledger_id": receipt.ledger_id, "row": receipt.row, "hash": receipt.hash}

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for the card."""
        return {
            "guarantee": self.guarantee.to_dict(),
            "receipt": None if self.receipt is None else self.receipt.to_dict(),
            "parties": {
                name: {
                    "guarantee": _guarantee(paid).to_dict(),
                    "receipts": [receipt.to_dict() for receipt in _receipts(paid)],
                }
                for name, paid in self.parties.items()
            },
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Spending:
        """Read what :meth:`to_dict` wrote."""
        receipt = values["receipt"]
        return cls(
            guarantee=Guarantee.from_dict(values["guarantee"]),
            receipt=None if receipt is None else Receipt.from_dict(receipt),
            parties={
                name: tuple(map(Receipt.from_dict, paid["receipts"]))
                or Guarantee.from_dict(paid["guarantee"])
                for name, paid in values["parties"].items()
            },
        )

    def prices(self) -> dict[str, Guarantee]:
        """Return what each party paid."""
        return {name: _guarantee(paid) for name, paid in self.parties.items()}

    def receipts(self) -> list[Receipt]:
        """Return every receipt, the release's own first."""
        own = () if self.receipt is None else (self.receipt,)
        return [*own, *(receipt for paid in self.parties.values() for receipt in _receipts(paid))]

    def charges(self) -> list[Receipt]:
        """Return what one organisation alone paid for this release.

        Facts of the schema were paid for before.
        """
        if self.receipt is None:
            return []
        every = (_receipts(paid) for paid in self.parties.values())
        together = next((each for each in every if self.receipt in each), (self.receipt,))
        return [one for one in together if not one.purpose.startswith(FACTS_PURPOSES)]

    def _paid(self) -> list[Guarantee]:
        own = [] if self.receipt is None else [self.receipt.guarantee]
        return own + list(self.prices().values())

    def _recorded_price(self) -> tuple[float, float]:
        """Return what one record pays by the records; what is proved where there are none."""
        if self.receipt is not None:
            return self.receipt.guarantee.epsilon, self.receipt.guarantee.delta
        paid = list(self.prices().values()) or [self.guarantee]
        return max(part.epsilon for part in paid), max(part.delta for part in paid)

    def _summed_price(self, places: int) -> tuple[float, float]:
        """Return what a record in ``places`` organisations' data pays: the largest prices."""
        paid = self.prices().values()
        epsilon, delta = self._recorded_price()
        return (
            max(epsilon, _largest((part.epsilon for part in paid), places)),
            max(delta, _largest((part.delta for part in paid), places)),
        )


def _largest(amounts: Iterable[float], places: int) -> float:
    return added(sorted(amounts, reverse=True)[:places])


def _growth(epsilon: float, rows: int) -> float:
    """Return ``sum_{k < rows} exp(k epsilon)``, rounded up: what a group's delta grows by."""
    if rows * epsilon > 700:
        return math.inf
    return math.expm1(rows * epsilon) / math.expm1(epsilon) * (1 + 1e-14)


def _receipts(paid: Paid) -> tuple[Receipt, ...]:
    if isinstance(paid, Guarantee):
        return ()
    return paid if isinstance(paid, tuple) else (paid,)


def _plainest(paid: Paid) -> Paid:
    """Return what was paid, one receipt as itself; refuse to count a charge twice."""
    if not isinstance(paid, tuple):
        return paid
    if not paid or len({(receipt.ledger_id, receipt.row) for receipt in paid}) < len(paid):
        raise InvalidParameter("parties: a party's receipts must be of different charges.")
    return paid[0] if len(paid) == 1 else paid


def _guarantee(paid: Paid) -> Guarantee:
    if isinstance(paid, Guarantee):
        return paid
    first, *more = (receipt.guarantee for receipt in _receipts(paid))
    return Together([first, *more]).guarantee() if more else first


def _count(value: object, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InvalidParameter(f"{name} must be a whole number >= 1.")
    return value


NOT_STATED = "not stated"

#: What ledgers call charges for facts that a schema carries from then on.
FACTS_PURPOSES = ("learn facts of a schema", "describe a cohort", "answer cohort")

#: How proofs name the number of rows, which add-remove neighbours hide.
COUNTED = "number of records"

#: What the attacker in the words is willing to get wrong.
FALSE_ALARM = 0.01

_SECRET = {
    (Unit.RECORD, Neighbours.REPLACE_ONE): "one person's record, and whether it is the one",
    (Unit.RECORD, Neighbours.ADD_REMOVE): "one person's record, and whether it is there as",
    (Unit.PARTY, Neighbours.REPLACE_ONE): "one organisation's data, and whether they are those",
    (Unit.PARTY, Neighbours.ADD_REMOVE): "one organisation's data, and whether they are there as",
}


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
    per_hundred = math.ceil(100 * found - 1e-9)  # people, up to the next whole one
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
    spending: Spending,  # What was promised and paid
    *,
    # ``rows``, ``parties``: records of one unit at most, and organisations in whose data it may
    # be.
    rows: int,
    parties: int,
    simulated: bool,  # Whether the noise was seeded
) -> dict[str, Any]:
    """Return what the receipts alone say on a card, by the place where it stands."""
    proved = spending.guarantee
    epsilon, delta = spending.privacy_cost(rows, parties)
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
    return stated


def not_protected(spending: Spending, rows: int, parties: int) -> Iterator[str]:
    """Say what the promise leaves open, under the relation that it is for."""
    proved = spending.guarantee
    yield "conclusions about people in general, which the data of others would give as well"
    if proved.neighbours is Neighbours.REPLACE_ONE:
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
    if any(receipt.purpose.startswith(FACTS_PURPOSES) for receipt in spending.receipts()):
        method += ", what was paid for facts of the schema included"
    if len(spending.parties) > 1 and parties == 1:
        method += "; the largest cost counts, since nobody is in the data of two organisations"
    elif parties > 1:
        method += f"; the {parties} largest costs are added"
    if rows > 1:
        method += f"; times {rows} records of one unit (group privacy)"
    return method


def receipts_for_facts(schema: PublicSchema | None) -> tuple[Receipt, ...]:
    """Return the receipts that a schema carries.

    Raises SchemaError if what it carries is no receipt.
    """
    paid = () if schema is None else schema.paid
    try:
        return tuple(Receipt.from_dict(one) for each in paid for one in each.receipts.values())
    except (TypeError, ValueError, KeyError, AttributeError):
        raise SchemaError("paid.receipts: a receipt is not in the form that is written.") from None


def schema_of(encoder: SchemaEncoder | Encoder | None) -> PublicSchema | None:
    """Return the schema of what encodes raw tables, if anything does."""
    return None if encoder is None else encoder.schema


def seeded_facts(schema: PublicSchema | None) -> bool:
    """Whether facts were learned with seeded noise, so that nothing with them may leave."""
    return schema is not None and any(one.simulated for one in schema.paid)


def with_facts(
    parties: Mapping[str, Paid],  # Who paid for the model, if not one organisation alone
    receipt: Receipt | None,  # What one organisation paid alone
    schema: PublicSchema | None,  # What the model reads
) -> dict[str, Paid]:
    """Return who paid what for a release, with what was paid for the facts of its schema.

    Who paid for both, from one account, paid the sum. Whoever else paid for facts stands beside
    them: other people are in their data.
    """
    facts = receipts_for_facts(schema)
    told = dict(parties)
    if not facts:
        return told
    if not told and receipt is not None:
        told = {receipt.account: receipt}
    for one in facts:
        if any(_row(one) == _row(other) for paid in told.values() for other in _receipts(paid)):
            continue  # of this very run
        name = next((n for n, paid in told.items() if _same_account(one, paid)), None)
        if name is None:
            told[_free(f"facts of {one.account}", told)] = one
        else:
            told[name] = (one, *_receipts(told[name]))
    return told


def promised_with(schema: PublicSchema | None, guarantee: Guarantee) -> Guarantee:
    """Return a promise that says what was paid before, for facts of the schema.

    Raises InvalidParameter: before anything is spent, if the two prices do not add up.
    """
    for one in receipts_for_facts(schema):
        then = one.guarantee
        if (then.unit, then.neighbours) != (guarantee.unit, guarantee.neighbours):
            raise InvalidParameter(
                f"schema: its facts were paid for per {then.unit}, {then.neighbours}; this is for "
                f"{guarantee.unit}, {guarantee.neighbours}, and the two do not add up. Declare the "
                "facts, or use a schema without them. Nothing was spent."
            )
    paid = () if schema is None else schema.paid
    told = [f"facts of the schema, paid for with epsilon {one.epsilon:g}" for one in paid]
    return replace(guarantee, public=(*guarantee.public, *told)) if told else guarantee


def _row(receipt: Receipt) -> tuple[str, int]:
    return receipt.ledger_id, receipt.row


def _same_account(receipt: Receipt, paid: Paid) -> bool:
    return any(
        (one.ledger_id, one.account) == (receipt.ledger_id, receipt.account)
        for one in _receipts(paid)
    )


def _free(name: str, taken: Mapping[str, Paid]) -> str:
    return name if name not in taken else _free(f"{name}, again", taken)
