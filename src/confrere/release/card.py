"""The card: what was released about whom, at what price, under which assumptions.

A card is one JSON document. Its shape is said here and nowhere else; ``card.schema.json`` is made
from it, for partners. Beyond the shape it must be consistent with itself: what a receipt says is
what the card says, and what was seeded is never "released".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PositiveInt,
    StringConstraints,
    TypeAdapter,
    ValidationError,
    model_validator,
)

from confrere.errors import ConfrereError, InvalidRelease
from confrere.ledger import Receipt
from confrere.model.strict_json import validated
from confrere.release.spending import Spending, facts_of_spending
from confrere.trust import TRUST

SCHEMA = "confrere-card/3"

#: Differential privacy bounds a risk; nothing in a card may claim that there is none.
_FORBIDDEN = re.compile("anonym", re.IGNORECASE)
_CONTROL = re.compile(r"[\x00-\x1f\x7f\u2028\u2029]")


def _plain_words(text: str) -> str:
    if _FORBIDDEN.search(text):
        raise ValueError(
            "it calls something anonymous; differential privacy bounds a risk and does not make "
            "it zero: say what is protected, and by how much"
        )
    if _CONTROL.search(text):
        raise ValueError("it holds line breaks or control characters: one line each")
    return text


def _pattern(pattern: str) -> Any:
    return StringConstraints(pattern=pattern)


Line = Annotated[str, StringConstraints(max_length=2000), AfterValidator(_plain_words)]
Text = Annotated[Line, StringConstraints(min_length=1)]
Texts = list[Text]
Epsilon = Annotated[float, Field(gt=0)]
Delta = Annotated[float, Field(ge=0, lt=1)]
Sha256 = Annotated[str, _pattern(r"^[0-9a-f]{64}$")]
ReleaseId = Annotated[str, _pattern(r"^[0-9a-f]{32}$")]
Time = Annotated[
    str,
    _pattern(r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]+)?([+]00:00|Z)$"),
]


STRICT = ConfigDict(
    extra="forbid",
    strict=True,
    frozen=True,
    allow_inf_nan=False,
    serialize_by_alias=True,
    hide_input_in_errors=True,
)


class _Part(BaseModel):
    model_config = STRICT


class Product(_Part):
    """What was made, and what for."""

    title: Text
    kind: Text
    purpose: Text
    not_for: Texts


@dataclass(frozen=True)
class Curator:
    """Who answers for a release."""

    __pydantic_config__ = STRICT

    name: Text
    contact: Text | None = None


@dataclass(frozen=True)
class Approval:
    """Who agreed to a release, when (``YYYY-MM-DD``), why, and why to this epsilon."""

    __pydantic_config__ = STRICT

    name: Text
    role: Text
    date: Annotated[str, _pattern(r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$")]
    reason: Text | None = None
    justification: Text | None = None


@dataclass(frozen=True)
class Utility:
    """One measure of quality, beside what no privacy and what no data would give.

    A score computed on private data is itself a release: ``basis`` says why this one is not, or
    that it was paid for.
    """

    __pydantic_config__ = STRICT

    metric: Text
    value: float
    measured_on: Text
    basis: Literal["public data", "synthetic data", "charged to the ledger"]
    non_private: float | None = None
    zero_data: float | None = None


class Seen(_Part):
    """Somebody who sees something; without an epsilon they are printed NOT PROTECTED."""

    who: Text
    sees: Text
    epsilon: Epsilon | None
    delta: Delta | None


class PartyPrice(_Part):
    """What one organisation paid."""

    party: Text
    epsilon: Epsilon
    delta: Delta
    recorded: bool


class AcrossParties(_Part):
    """In how many organisations' data one unit may be, and why."""

    assumption: Text
    parties_per_unit: PositiveInt


class CardPromise(_Part):
    """What is promised, about which change of the data, and against whom."""

    definition: Literal["pure differential privacy", "approximate differential privacy"]
    unit: Literal["record", "party"]
    unit_detail: Text
    adjacency: Literal["replace-one", "add-remove", "label-only"]
    max_rows_per_unit: PositiveInt
    across_parties: AcrossParties
    epsilon: Epsilon
    delta: Delta
    scope: Text
    per_party: list[PartyPrice]
    adversaries: Annotated[list[Seen], Field(min_length=2)]


class CardTrust(_Part):
    """Who has to be trusted with what; ``kind`` as :class:`~confrere.trust.Trust` says it."""

    kind: Annotated[str, _pattern(TRUST)] | None = None
    model: Text
    assumptions: Texts


class Mechanism(_Part):
    """The proof, the source of the noise, and what the proof takes as public."""

    theorem: Text
    noise: Literal["operating system", "seeded"]
    public: Texts


class GuaranteeForm(_Part):
    """A guarantee, as plain values."""

    epsilon: Epsilon
    delta: Delta
    unit: Literal["record", "party"]
    neighbours: Literal["replace-one", "add-remove", "label-only"]
    theorem: Line
    public: Texts
    assumptions: Texts


class ApprovalForm(_Part):
    """Who agreed to a charge, as plain values."""

    name: Text
    reason: Text
    time: Time
    justification: Text | None = None


class ReceiptForm(_Part):
    """A receipt, as plain values."""

    ledger_id: Text
    row: Annotated[int, Field(ge=0)]
    account: Text
    guarantee: GuaranteeForm
    purpose: Line
    time: Time
    hash: Text
    simulated: bool
    study: Text | None = None
    study_sha256: Sha256 | None = None
    uncapped: bool = False
    approval: ApprovalForm | None = None


class PaidForm(_Part):
    """What one organisation paid, as plain values."""

    guarantee: GuaranteeForm
    receipts: list[ReceiptForm]


class Accounting(_Part):
    """Every receipt, and how the price follows from them."""

    method: Text
    guarantee: GuaranteeForm
    receipt: ReceiptForm | None
    parties: dict[Text, PaidForm]


class PriorSpend(_Part):
    """The account's budget just before and just after the charge; of a year, if the cap is."""

    account: Text
    before: Annotated[float, Field(ge=0)]
    after: Epsilon
    cap: Epsilon | None
    left: Annotated[float, Field(ge=0)] | None
    year: int | None = None


class Risk(_Part):
    """What an attacker can find, in numbers and in words."""

    false_alarm_rate: Annotated[float, Field(gt=0, lt=1)]
    detection_rate: Annotated[float, Field(gt=0, le=1)]
    text: Text


class LedgerHead(_Part):
    """Where the ledger stood when the release was paid."""

    ledger_id: Text
    row: Annotated[int, Field(ge=0)]
    hash: Text


class Card(_Part):
    """A valid card: of the right shape, and consistent with its receipts.

    Raises
    ------
    InvalidRelease
        Naming the key that is wrong, never its value.
    """

    schema_: Literal["confrere-card/3"] = Field(alias="schema")
    release_id: ReleaseId
    created: Time
    product: Product
    curators: list[Curator]
    guarantee: CardPromise
    unprotected: Annotated[Texts, Field(min_length=1)]
    trust: CardTrust
    mechanism: Mechanism
    accounting: Accounting
    prior_spend: PriorSpend | None
    preprocessing: Texts
    tuning: Text
    post_processing: Texts
    implementation: dict[Text, Text]
    utility: list[Utility]
    risk_in_words: Risk
    justification: Text | None
    approvals: list[Approval]
    study_sha256: Sha256 | None
    ledger_head: LedgerHead | None
    files: dict[Text, Sha256]
    replaces: ReleaseId | None
    status: Literal["released", "simulated", "unrecorded"]

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        promise = self.guarantee
        try:
            expected = facts_of_spending(
                self.spending,
                rows=promise.max_rows_per_unit,
                parties=promise.across_parties.parties_per_unit,
                simulated=self.mechanism.noise == "seeded",
            )
        except ConfrereError as error:
            raise _contradiction(str(error).rstrip(".")) from error
        found = self.to_dict()
        for place, value in expected.items():
            here: Any = found
            for key in place.split("."):
                here = here[key]
            # People may add to what the library says is not protected; not take away.
            if (here[: len(value)] if place == "unprotected" else here) != value:
                raise _contradiction(f"{place} is not the one that its receipts give")
        self._check_adversaries()
        self._check_budget()
        return self

    def _check_adversaries(self) -> None:
        promise = self.guarantee
        price = (None, None) if self.simulated else (promise.epsilon, promise.delta)
        for one in promise.adversaries:
            if (one.epsilon, one.delta) not in ((None, None), price):
                raise _contradiction("guarantee.adversaries have other prices than the release")
        first, last = promise.adversaries[0], promise.adversaries[-1]
        if (first.epsilon, last.epsilon) != (price[0], None):
            raise _contradiction("guarantee.adversaries leave out a receiver or the holder")

    def _check_budget(self) -> None:
        budget, receipt = self.prior_spend, self.accounting.receipt
        if budget is not None and (
            receipt is None
            or budget.account != receipt.account
            or budget.after < max(budget.before, receipt.guarantee.epsilon)
            or (budget.cap is None) != (budget.left is None)
        ):
            raise _contradiction("prior_spend does not fit its receipt")

    @property
    def epsilon(self) -> float:
        """What one unit pays."""
        return self.guarantee.epsilon

    @property
    def spending(self) -> Spending:
        """What was promised and paid, as values."""
        return Spending.from_dict(self.accounting.model_dump())

    @property
    def simulated(self) -> bool:
        """Whether the noise was seeded, so that nobody is protected."""
        return self.status == "simulated"

    def changed(self, **values: Any) -> Card:
        """Return the card with other values, checked again."""
        return Card.from_dict({**self.to_dict(), **values})

    def to_dict(self) -> dict[str, Any]:
        """Return the document, in the order of the fields."""
        return self.model_dump(mode="json")

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Card:
        """Read what :meth:`to_dict` wrote."""
        if isinstance(document, Mapping) and document.get("schema") not in (None, SCHEMA):
            raise InvalidRelease(
                f"the card is of another version than {SCHEMA}: update confrere, or ask again."
            )
        return validated(_CARD, document, "card")


_CARD = TypeAdapter(Card)


def presentable(receipt: Receipt) -> bool:
    """Whether a card can hold a receipt: texts of other organisations are in it."""
    try:
        ReceiptForm.model_validate(receipt.to_dict())
    except ValidationError:
        return False
    return True


def card_schema() -> dict[str, Any]:
    """Return the JSON schema of ``card.json``, for partners."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **Card.model_json_schema(),
        "title": "The card of a confrere release",
    }


def _contradiction(what: str) -> InvalidRelease:
    return InvalidRelease(f"the card contradicts itself: {what}; do not rely on it.")
