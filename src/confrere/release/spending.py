"""What one unit pays for a release, from what the ledgers recorded.

Never from a person: what people may state is how many rows a unit has at most and in how many
organisations' data it may be, and both only make the price higher.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from confrere.errors import InvalidParameter
from confrere.guarantee import Guarantee, Unit, in_sequence
from confrere.ledger import Receipt
from confrere.ledger.amounts import at_least, exact, plus

#: What a party paid: one receipt, one for each of its answers, or a price that no ledger recorded.
Paid = Receipt | tuple[Receipt, ...] | Guarantee


@dataclass(frozen=True)
class Spending:
    """What was promised and what was paid.

    Parameters
    ----------
    guarantee : Guarantee
        What the mechanism proves.
    receipt : Receipt or None
        What a ledger recorded for it.
    parties : mapping of str to Receipt, tuple of Receipt, or Guarantee
        Where several organisations' data are in the release: what each one paid, several receipts
        together if it answered several times; a bare guarantee where no ledger recorded it.
    """

    guarantee: Guarantee
    receipt: Receipt | None = None
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

    def price(self, max_rows_per_unit: int = 1, parties_per_unit: int = 1) -> tuple[float, float]:
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
            "parties": {name: _to_dict(paid) for name, paid in self.parties.items()},
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
    total = exact(0.0)
    for amount in sorted(amounts, reverse=True)[:places]:
        total = plus(total, exact(amount))
    return at_least(total)


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
    receipts = _receipts(paid)
    if len(receipts) == 1:
        return receipts[0].guarantee
    return in_sequence(receipt.guarantee for receipt in receipts)


def _to_dict(paid: Paid) -> dict[str, Any]:
    return {
        "guarantee": _guarantee(paid).to_dict(),
        "receipts": [receipt.to_dict() for receipt in _receipts(paid)],
    }


def _count(value: object, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InvalidParameter(f"{name} must be a whole number >= 1.")
    return value
