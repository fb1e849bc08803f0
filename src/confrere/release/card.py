"""The card: what was released about whom, at what price, under which assumptions.

A card is one JSON document. Its shape is said here and nowhere else; ``card.schema.json`` is made
from it, for partners. Beyond the shape it must be consistent with itself: what a receipt says is
what the card says, and what was seeded is never "released".

A release's card has its numbers from receipts and its words from curators.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import numpy as np
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

from confrere.errors import ConfrereError, InvalidParameter, InvalidRelease
from confrere.kernel.guarantee import Unit, at_most, exact, minus
from confrere.ledger import Ledger, Receipt
from confrere.model import Model
from confrere.model.strict_json import canonical_bytes, validated
from confrere.model.summary import TermLine
from confrere.release.folder import sha256
from confrere.release.spending import NOT_STATED, Spending, facts_of_spending
from confrere.trust import TRUST, Trust

if TYPE_CHECKING:
    from confrere.release.release import Release


SCHEMA = "confrere-card/5"

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


class CardPart(BaseModel):
    """A table of a card: its keys and no others."""

    model_config = STRICT


class Product(CardPart):
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


class Seen(CardPart):
    """Somebody who sees something; without an epsilon they are printed NOT PROTECTED."""

    who: Text
    sees: Text
    epsilon: Epsilon | None
    delta: Delta | None


class PartyPrice(CardPart):
    """What one organisation paid."""

    party: Text
    epsilon: Epsilon
    delta: Delta
    recorded: bool


class AcrossParties(CardPart):
    """In how many organisations' data one unit may be, and why."""

    assumption: Text
    parties_per_unit: PositiveInt


class CardPromise(CardPart):
    """What is promised, about which change of the data, and against whom."""

    definition: Literal["pure differential privacy", "approximate differential privacy"]
    unit: Literal["record", "party"]
    unit_detail: Text
    adjacency: Literal["replace-one", "add-remove"]
    max_rows_per_unit: PositiveInt
    across_parties: AcrossParties
    epsilon: Epsilon
    delta: Delta
    scope: Text
    per_party: list[PartyPrice]
    adversaries: Annotated[list[Seen], Field(min_length=2)]


Share = Annotated[float, Field(ge=0, le=1)]


class Measure(CardPart):
    """One number with its interval."""

    name: Text
    value: float
    low: float
    high: float

    def __str__(self) -> str:
        """Return it for people; an interval that excludes nothing is none."""
        if (self.low, self.high) == (0, 1):
            return "not measurable at this epsilon"
        return f"{self.value:.3f} ({self.low:.3f} to {self.high:.3f})"


class CalibrationRange(CardPart):
    """Records whose predicted probability lies in a range: how many, and the share of positives."""

    from_: Share = Field(alias="from")
    to: Share
    records: float
    value: float
    low: float
    high: float


class Quality(CardPart):
    """What an evaluation found."""

    records: Annotated[int, Field(gt=0)]
    confidence: Annotated[float, Field(gt=0, lt=1)]
    positive: Text | None = None
    measures: list[Measure] = Field(default_factory=list)
    calibration: list[CalibrationRange] = Field(default_factory=list)
    terms: list[TermLine] = Field(default_factory=list)  #: Of a model that is read
    note: Line = ""  #: What they may be read as

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> Self:
        """Return what was found, from plain values."""
        return cls.model_validate_json(canonical_bytes(found))

    def digest(self) -> str:
        """Return the hash that the ledger's row holds."""
        return quality_digest(self.model_dump(mode="json"))


def quality_digest(found: Mapping[str, Any]) -> str:
    """Return the hash of what an evaluation found, as plain values; without what it did not."""
    return sha256(canonical_bytes({key: one for key, one in found.items() if one}))


class CardTrust(CardPart):
    """Who has to be trusted with what; ``kind`` as :class:`~confrere.trust.Trust` says it."""

    kind: Annotated[str, _pattern(TRUST)] | None = None
    model: Text
    assumptions: Texts


class Mechanism(CardPart):
    """The proof, the source of the noise, and what the proof takes as public."""

    theorem: Text
    noise: Literal["operating system", "seeded"]
    public: Texts


class GuaranteeForm(CardPart):
    """A guarantee, as plain values."""

    epsilon: Epsilon
    delta: Delta
    unit: Literal["record", "party"]
    neighbours: Literal["replace-one", "add-remove"]
    theorem: Line
    public: Texts
    assumptions: Texts


class ApprovalForm(CardPart):
    """Who agreed to a charge, as plain values."""

    name: Text
    reason: Text
    time: Time
    justification: Text | None = None


class ReceiptForm(CardPart):
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


class PaidForm(CardPart):
    """What one organisation paid, as plain values."""

    guarantee: GuaranteeForm
    receipts: list[ReceiptForm]


class Accounting(CardPart):
    """Every receipt, and how the price follows from them."""

    method: Text
    guarantee: GuaranteeForm
    receipt: ReceiptForm | None
    parties: dict[Text, PaidForm]


class PriorSpend(CardPart):
    """The account's budget just before and just after the charge; of a year, if the cap is."""

    account: Text
    before: Annotated[float, Field(ge=0)]
    after: Epsilon
    cap: Epsilon | None
    left: Annotated[float, Field(ge=0)] | None
    year: int | None = None


class Risk(CardPart):
    """What an attacker can find, in numbers and in words."""

    false_alarm_rate: Annotated[float, Field(gt=0, lt=1)]
    detection_rate: Annotated[float, Field(gt=0, le=1)]
    text: Text


class LedgerHead(CardPart):
    """Where the ledger stood when the release was paid."""

    ledger_id: Text
    row: Annotated[int, Field(ge=0)]
    hash: Text


class Card(CardPart):
    """A valid card: of the right shape, and consistent with its receipts.

    Raises
    ------
    InvalidRelease
        Naming the key that is wrong, never its value.
    """

    schema_: Literal["confrere-card/5"] = Field(alias="schema")
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
    quality: Quality | None  #: What was asked of the same records, with the fit
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
                raise _contradiction("guarantee.adversaries have other costs than the release")
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


@dataclass(frozen=True)
class Adversary:
    """Somebody who sees something; ``protected=False`` is printed NOT PROTECTED."""

    who: str
    sees: str
    protected: bool


@dataclass(frozen=True)
class CardNotes:
    """Everything on a card that a ledger does not know."""

    #: ``title``, ``purpose``, ``not_for``: what was made, what for, and what not.
    title: str | None = None
    purpose: str | None = None
    not_for: tuple[str, ...] = ()
    curators: tuple[Curator, ...] = ()  #: Who answers for it
    unit_detail: str | None = None  #: What a record is, for a reader: "one patient"
    max_rows_per_unit: int = 1  #: Records of one unit at most: the price is multiplied by it
    parties_per_unit: int = 1  #: Organisations in whose data one unit may be: prices are added
    across_parties: str | None = None  #: Why that number is right
    adversaries: tuple[Adversary, ...] = ()  #: Who else sees what
    #: Who has to be trusted with what, and that in the words that policies are made of.
    trust: str | None = None
    trust_kind: Trust | None = None
    #: In words, after what the library itself knows.
    unprotected: tuple[str, ...] = ()
    preprocessing: tuple[str, ...] = ()
    post_processing: tuple[str, ...] = ()
    tuning: str | None = None  #: How parameters were chosen, and who paid
    utility: tuple[Utility, ...] = ()
    justification: str | None = None  #: Why this epsilon, if not as those say who approved charges
    approvals: tuple[Approval, ...] = ()  #: Who agreed, besides those
    study_sha256: str | None = None
    replaces: str | None = None  #: ``release_id`` of the one that this one replaces


_EVERYONE = Adversary(
    "anyone who receives this release", "every file of it, and whatever else they know", True
)
_HOLDER = Adversary("the organisation that holds the data", "its own data", False)


def build_card(
    release: Release,  # What leaves
    notes: CardNotes | None = None,  # What curators say about it
    *,
    # The ledger that was charged: the card then shows the budget before and after.
    ledger: Ledger | None = None,
    created: datetime | None = None,  # When the card was made; now by default
) -> Card:
    """Return the card of ``release``."""
    said, spending = notes or CardNotes(), release.spending
    link, *before = processing(release.model)
    counts = {"rows": said.max_rows_per_unit, "parties": said.parties_per_unit}
    facts = facts_of_spending(spending, **counts, simulated=release.simulated)
    price = {name: facts[f"guarantee.{name}"] for name in ("epsilon", "delta")}
    seen = [
        {"who": one.who, "sees": one.sees}
        | (price if one.protected and not release.simulated else dict.fromkeys(price))
        for one in (_EVERYONE, *said.adversaries, _HOLDER)
    ]
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "release_id": release.release_id,
        "created": (created or datetime.now(UTC)).astimezone(UTC).isoformat(timespec="seconds"),
        "product": {
            "title": said.title or f"A model of kind {release.kind}",
            "kind": release.kind,
            "purpose": said.purpose or NOT_STATED,
            "not_for": list(said.not_for),
        },
        "curators": [asdict(one) for one in said.curators],
        "guarantee": {
            "unit_detail": said.unit_detail or _unit_detail(spending.guarantee.unit),
            "max_rows_per_unit": said.max_rows_per_unit,
            "across_parties": {
                "assumption": said.across_parties or _across_parties(said.parties_per_unit),
                "parties_per_unit": said.parties_per_unit,
            },
            "adversaries": seen,
        },
        "trust": {
            "kind": None if said.trust_kind is None else str(said.trust_kind),
            "model": said.trust or _trust(spending),
        },
        "mechanism": {},
        "accounting": spending.to_dict(),
        "prior_spend": None if ledger is None else prior_spend(ledger, spending),
        "preprocessing": [*before, *said.preprocessing],
        "tuning": said.tuning or NOT_STATED,
        "post_processing": [link, *said.post_processing],
        "implementation": _implementation(),
        "utility": [asdict(one) for one in said.utility],
        "quality": release.quality and release.quality.model_dump(mode="json"),
        "justification": said.justification or _justification(spending),
        "approvals": [asdict(one) for one in (*said.approvals, *_approvals(spending))],
        "study_sha256": said.study_sha256,
        "files": {},
        "replaces": said.replaces,
    }
    for place, value in facts.items():
        part, _, key = place.partition(".")
        if key:
            document[part][key] = value
        else:
            document[part] = value
    document["unprotected"] = [*facts["unprotected"], *said.unprotected]
    return Card.from_dict(document)


def prior_spend(ledger: Ledger, spending: Spending) -> dict[str, Any]:
    """Return the account's budget just before and just after the charges, from the ledger itself.

    Raises InvalidParameter if the ledger has no such charge.
    """
    receipt = spending.receipt
    entries = [] if receipt is None else ledger.entries(receipt.account)
    if receipt is None or _key(receipt) not in {(entry.row, entry.hash) for entry in entries}:
        raise InvalidParameter("ledger: it has no charge for this release; give the one charged.")
    rows = [one.row for one in spending.charges()]
    last = next(entry for entry in entries if entry.row == max(rows))
    earlier = [one for one in entries if one.row < min(rows) and one.year == last.year]
    account = next(one for one in ledger.accounts() if one.name == receipt.account)
    caps = [change.epsilon for change in account.history if change.row < receipt.row]
    cap = next((one for one in reversed(caps) if one is not None), None)
    return {
        "account": receipt.account,
        "before": max((entry.counted for entry in earlier), default=0.0),
        "after": last.counted,
        "cap": cap,
        "left": None if cap is None else at_most(minus(exact(cap), exact(last.counted))),
        "year": last.year,
    }


def _approvals(spending: Spending) -> Iterator[Approval]:
    """Yield who approved the charges, each once, with the account that they approved it for."""
    seen = set()
    for receipt in spending.receipts():
        told = receipt.approval
        if told is not None and (told, receipt.account) not in seen:
            seen.add((told, receipt.account))
            role = f"approved it for account {receipt.account}"
            yield Approval(told.name, role, told.time[:10], told.reason, told.justification)


def _justification(spending: Spending) -> str | None:
    """Return why this epsilon, where all who approved it say the same."""
    told = {one.justification for one in _approvals(spending) if one.justification is not None}
    if len(told) > 1:
        return "each organisation gives its own: see the approvals"
    return next(iter(told), None)


def _key(receipt: Receipt) -> tuple[int, str]:
    return receipt.row, receipt.hash


def _unit_detail(unit: Unit) -> str:
    if unit is Unit.RECORD:
        return "whoever one row of the data is about"
    return "all data of one organisation"


def _across_parties(parties_per_unit: int) -> str:
    if parties_per_unit == 1:
        return "nobody is in the data of two organisations"
    return (
        f"a person may be in the data of up to {parties_per_unit} organisations; the largest "
        "privacy costs are added"
    )


def _trust(spending: Spending) -> str:
    if spending.guarantee.unit is Unit.PARTY or len(spending.parties) > 1:
        return "not stated: ask the curators who computed the release and what they saw"
    return "the organisation that holds the data computed the release; nobody else saw the data"


def processing(model: Model) -> list[str]:
    """Say how scores become probabilities, and then what happened to rows before a model."""
    if not model.classes:
        return [f"predictions: {model.link.gives}", *_preprocessing(model)]
    link = model.told_link()
    told = {"share": "shares of votes", "softmax": "softmax"}.get(str(link))
    if told is None:
        told = "the logistic function" if link["cap"] == 1 else "the loss's own link"
        told += ", moved to the base rate" if link["slope"] != 1 or link["shift"] else ""
    return [f"probabilities: {told}", *_preprocessing(model)]


def _preprocessing(model: Model) -> Iterator[str]:
    facts = model.facts
    if facts.loss is not None and facts.ridge is not None:
        norm, law = "schema's" if facts.body else "L2", "Gaussian" if facts.sigma else "pure"
        scale = facts.sigma or 1 / (facts.rho or 1.0)
        yield f"{facts.loss} loss, ridge {facts.ridge:.6g} on its sum, {facts.n_samples} rows"
        yield f"{law} noise of scale {scale:.6g} in the {norm} norm"
    if (data_norm := facts.data_norm) is not None:
        yield f"rows are clipped to the declared norm {data_norm:g}, which no data were asked for"
    if model.encoder is not None:
        yield f"features follow the public schema {model.encoder.schema.fingerprint()}"
        for paid in model.encoder.schema.paid:
            yield f"facts of the schema were learned from records: {_short(str(paid))}"
    if (prior := facts.prior) is not None:
        yield (
            f"learned near a prior, believed {prior.factor:.2f} times as far as it was declared: "
            f"checked on the records for epsilon {prior.epsilon:g}, standard error "
            f"{prior.sigma:.2f}"
        )
        if not prior.verifiable:
            yield "prior not verifiable at this budget: if it is wrong, so may the model be"


def _short(text: str, most: int = 600) -> str:
    return text if len(text) <= most else f"{text[: most // 2]} ... {text[-most // 2 :]}"


def _implementation() -> dict[str, str]:
    try:
        own = version("confrere")
    except PackageNotFoundError:
        own = "unreleased"
    return {
        "package": "confrere",
        "version": own,
        "python": platform.python_version(),
        "numpy": np.__version__,
    }
