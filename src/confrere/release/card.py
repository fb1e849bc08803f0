"""The card: what was released about whom, at what price, under which assumptions.

A card is one JSON document whose shape is ``card.schema.json``. Beyond the shape it must be
consistent with itself: its price is the one that its receipts give, and what was seeded is never
"released".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from confrere.errors import ConfrereError, InvalidRelease
from confrere.guarantee import Neighbours, Unit
from confrere.model.strict_json import plain_json
from confrere.release.pricing import Spending
from confrere.release.risk import risk_in_words
from confrere.release.schema import card_schema, violations

SCHEMA = "confrere-card/1"

#: Differential privacy bounds a risk; nothing in a card may claim that there is none.
_FORBIDDEN = re.compile("anonym", re.IGNORECASE)
_CONTROL = re.compile(r"[\x00-\x1f\x7f\u2028\u2029]")


@dataclass(frozen=True)
class Card:
    """A valid card; its fields are those of ``card.schema.json``.

    Raises
    ------
    InvalidRelease
        If the fields break the schema or contradict each other.
    """

    schema: str
    release_id: str
    created: str
    product: dict[str, Any]
    curators: list[dict[str, Any]]
    guarantee: dict[str, Any]
    unprotected: list[str]
    trust: dict[str, Any]
    mechanism: dict[str, Any]
    accounting: dict[str, Any]
    prior_spend: dict[str, Any] | None
    preprocessing: list[str]
    tuning: str
    post_processing: list[str]
    implementation: dict[str, str]
    utility: list[dict[str, Any]]
    risk_in_words: dict[str, Any]
    justification: str | None
    approvals: list[dict[str, Any]]
    study_sha256: str | None
    ledger_head: dict[str, Any] | None
    files: dict[str, str]
    replaces: str | None
    status: str

    def __post_init__(self) -> None:
        try:
            copy = plain_json(self.to_dict())
        except (TypeError, ValueError) as error:
            raise InvalidRelease("the card holds something that is not JSON.") from error
        _check(copy)
        for name, value in copy.items():
            object.__setattr__(self, name, value)

    @property
    def epsilon(self) -> float:
        """What one unit pays."""
        return float(self.guarantee["epsilon"])

    @property
    def spending(self) -> Spending:
        """What was promised and paid, as values."""
        return Spending.from_dict(self.accounting)

    @property
    def simulated(self) -> bool:
        """Whether the noise was seeded, so that nobody is protected."""
        return self.status == "simulated"

    def to_dict(self) -> dict[str, Any]:
        """Return the document, in the schema's order."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Card:
        """Read what :meth:`to_dict` wrote."""
        unknown = set(document) ^ set(cls.__dataclass_fields__)
        if unknown:
            raise InvalidRelease(
                f"the card is not a {SCHEMA}: it lacks fields or has others "
                f"({len(unknown)} of them); ask who made it for a valid one."
            )
        return cls(**document)


def _check(document: dict[str, Any]) -> None:
    """Raise the first rule that the document breaks."""
    for problem in violations(document, card_schema()):
        raise InvalidRelease(f"{problem}. Ask who made the card for a valid one.")
    for text in _texts(document):
        if _FORBIDDEN.search(text):
            raise InvalidRelease(
                "the card calls something anonymous; differential privacy bounds a risk and does "
                "not make it zero: say what is protected, and by how much."
            )
        if _CONTROL.search(text):
            raise InvalidRelease("the card holds line breaks or control characters: one line each.")
    for problem in _contradictions(document):
        raise InvalidRelease(f"the card contradicts itself: {problem}; do not rely on it.")


def _contradictions(card: dict[str, Any]) -> Iterator[str]:
    promise = card["guarantee"]
    try:
        spending = Spending.from_dict(card["accounting"])
        epsilon, delta = spending.price(
            promise["max_rows_per_unit"], promise["across_parties"]["parties_per_unit"]
        )
    except ConfrereError as error:
        yield str(error).rstrip(".")
        return
    if (promise["epsilon"], promise["delta"]) != (epsilon, delta):
        yield "its epsilon or delta is not the one that its receipts give"
    if (promise["unit"], promise["adjacency"]) != (
        str(spending.guarantee.unit),
        str(spending.guarantee.neighbours),
    ):
        yield "its unit or adjacency is not the one of its receipts"
    if (promise["definition"] == "pure differential privacy") != (delta == 0):
        yield "its definition does not fit its delta"
    if promise["per_party"] != per_party(spending):
        yield "its prices per party are not those of their receipts"
    for adversary in promise["adversaries"]:
        if (adversary["epsilon"], adversary["delta"]) not in ((None, None), (epsilon, delta)):
            yield "an adversary's epsilon is neither the release's nor null"
        if card["status"] == "simulated" and adversary["epsilon"] is not None:
            yield "seeded noise protects against nobody, and an adversary has an epsilon"
    if card["risk_in_words"] != risk_in_words(
        epsilon, delta, Unit(promise["unit"]), Neighbours(promise["adjacency"])
    ):
        yield "its risk in words is not the one of its epsilon"
    if card["status"] != status(spending, card["mechanism"]["noise"] == "seeded"):
        yield "its status does not fit its noise and its receipts"
    if card["ledger_head"] != ledger_head(spending):
        yield "its ledger head is not its receipt's"
    budget, receipt = card["prior_spend"], spending.receipt
    if budget is not None and (
        receipt is None
        or budget["account"] != receipt.account
        or budget["after"] < max(budget["before"], receipt.guarantee.epsilon)
    ):
        yield "its budget before and after does not fit its receipt"


def status(spending: Spending, simulated: bool) -> str:
    """Return what a release may call itself: seeded noise is never released."""
    if simulated or spending.simulated:
        return "simulated"
    return "released" if spending.recorded else "unrecorded"


def per_party(spending: Spending) -> list[dict[str, Any]]:
    """Return each party's price, as the card lists it."""
    return [
        {
            "party": name,
            "epsilon": paid.epsilon,
            "delta": paid.delta,
            "recorded": spending.parties[name] is not paid,
        }
        for name, paid in spending.prices().items()
    ]


def ledger_head(spending: Spending) -> dict[str, Any] | None:
    """Return where the ledger stood when the release was paid."""
    receipt = spending.receipt
    if receipt is None:
        return None
    return {"ledger_id": receipt.ledger_id, "row": receipt.row, "hash": receipt.hash}


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, item in value.items():
            yield name
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
