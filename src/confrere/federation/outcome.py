"""What a protocol ends with: public weights, and every receipt behind them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from confrere.arrays import Floats
from confrere.errors import InvalidMessage
from confrere.federation.expected import receipt_of
from confrere.federation.federation import StackedAnswers
from confrere.federation.operation import coordinates_of, framed
from confrere.federation.payload import Payload
from confrere.guarantee import Guarantee, in_sequence
from confrere.ledger import Receipt
from confrere.model import PriorFacts
from confrere.plans.linear_plan import Coordinates
from confrere.plans.party_rows import over_parties


@dataclass(frozen=True, eq=False)
class Outcome:
    """A model of several parties: post-processing of what each of them released.

    Parameters
    ----------
    frame : Frame or BodyFrame
        The coordinates that ``weights`` are in.
    weights : (d,) or (K, d) array
        The released model; one row per class of more than two.
    sizes : mapping of str to int
        The parties in it and their number of records, declared or privately counted.
    receipts : mapping of str to tuple of Receipt
        What each party paid, in order.
    prior : PriorFacts, optional
        What a check of a prior has shown.
    """

    frame: Coordinates
    weights: Floats
    sizes: Mapping[str, int]
    receipts: Mapping[str, tuple[Receipt, ...]]
    prior: PriorFacts | None = None

    @property
    def coef(self) -> Floats:
        """Coefficients of two classes, for rows as encoded."""
        return self.frame.coefficients(self.weights)[0]

    @property
    def intercept(self) -> float:
        """Intercept of two classes, for rows as encoded."""
        return self.frame.coefficients(self.weights)[1]

    @property
    def guarantee(self) -> Guarantee:
        """In sequence within a party, in parallel over parties: they hold disjoint records."""
        return guarantee_of(self.receipts)

    @property
    def simulated(self) -> bool:
        """Whether any party's noise was seeded."""
        return any(receipt.simulated for paid in self.receipts.values() for receipt in paid)

    def to_payload(self) -> Payload:
        """Return everything as one payload, to be kept or sent."""
        paid = {name: [r.to_dict() for r in receipts] for name, receipts in self.receipts.items()}
        values: dict[str, Any] = {"sizes": dict(self.sizes), "receipts": paid}
        if self.prior is not None:
            values["prior"] = asdict(self.prior)
        return framed(self.frame, values, weights=self.weights)

    @classmethod
    def from_payload(cls, payload: Payload) -> Outcome:
        """Read what :meth:`to_payload` wrote."""
        try:
            receipts = {
                name: tuple(Receipt.from_dict(r) for r in paid)
                for name, paid in payload.values["receipts"].items()
            }
            frame = coordinates_of(payload)
            known = payload.values.get("prior")
            prior = None if known is None else PriorFacts(**known)
            return cls(frame, payload.arrays["weights"], payload.values["sizes"], receipts, prior)
        except (KeyError, AttributeError, TypeError) as error:
            raise InvalidMessage("this payload is not an outcome.") from error


def guarantee_of(receipts: Mapping[str, tuple[Receipt, ...]]) -> Guarantee:
    """Return what a person in one party's data is promised about everything released."""
    distinct = {tuple((r.ledger_id, r.row) for r in paid): paid for paid in receipts.values()}
    totals = [
        paid[0].guarantee if len(paid) == 1 else in_sequence(r.guarantee for r in paid)
        for paid in distinct.values()
    ]
    return totals[0] if len(totals) == 1 else over_parties(totals, len(receipts))


def receipts_in(answers: Mapping[str, Payload]) -> dict[str, tuple[Receipt, ...]]:
    """Return the receipt that came with every answer; members of a group share one."""
    if isinstance(answers, StackedAnswers):
        return dict.fromkeys(answers, _receipts(answers.whole))
    return {name: _receipts(answer) for name, answer in answers.items()}


def _receipts(answer: Payload) -> tuple[Receipt, ...]:
    receipt = receipt_of(answer)
    return () if receipt is None else (receipt,)


def joined(
    earlier: Mapping[str, tuple[Receipt, ...]], later: Mapping[str, tuple[Receipt, ...]]
) -> dict[str, tuple[Receipt, ...]]:
    """Append receipts, party by party; one that several answers share counts once."""
    return {
        name: tuple(dict.fromkeys(earlier.get(name, ()) + later.get(name, ())))
        for name in {**earlier, **later}
    }
