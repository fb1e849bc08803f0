"""Build the card of a release: the numbers from its receipts, the words from its curators."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

import numpy as np

from confrere.errors import InvalidParameter
from confrere.guarantee import Unit, at_most, exact, minus
from confrere.ledger import Ledger, Receipt
from confrere.model import Model
from confrere.release.card import SCHEMA, Approval, Card, Curator, Utility
from confrere.release.spending import NOT_STATED, Spending, facts_of_spending
from confrere.trust import Trust

if TYPE_CHECKING:
    from confrere.release.release import Release


@dataclass(frozen=True)
class Adversary:
    """Somebody who sees something; ``protected=False`` is printed NOT PROTECTED."""

    who: str
    sees: str
    protected: bool


@dataclass(frozen=True)
class CardNotes:
    """Everything on a card that a ledger does not know.

    Parameters
    ----------
    title, purpose : str, optional
        What was made, and what for.
    not_for : tuple of str
        What it must not be used for.
    curators : tuple of Curator
        Who answers for it.
    unit_detail : str, optional
        What a record is, for a reader: "one patient".
    max_rows_per_unit : int, default=1
        Records of one unit at most; the price is multiplied by it.
    parties_per_unit : int, default=1
        Organisations in whose data one unit may be; their prices are added.
    across_parties : str, optional
        Why that number is right.
    adversaries : tuple of Adversary
        Who else sees what.
    trust : str, optional
        Who has to be trusted with what.
    trust_kind : Trust, optional
        The same in the words that policies and grants are made of.
    unprotected, preprocessing, post_processing : tuple of str
        In words, after what the library itself knows.
    tuning : str, optional
        How parameters were chosen, and who paid.
    utility : tuple of Utility
        Quality.
    justification : str, optional
        Why this epsilon; by default what those say who approved the charges.
    approvals : tuple of Approval
        Who agreed, besides those who approved the charges.
    study_sha256 : str, optional
        The study file's hash.
    replaces : str, optional
        ``release_id`` of the release that this one replaces.
    """

    title: str | None = None
    purpose: str | None = None
    not_for: tuple[str, ...] = ()
    curators: tuple[Curator, ...] = ()
    unit_detail: str | None = None
    max_rows_per_unit: int = 1
    parties_per_unit: int = 1
    across_parties: str | None = None
    adversaries: tuple[Adversary, ...] = ()
    trust: str | None = None
    trust_kind: Trust | None = None
    unprotected: tuple[str, ...] = ()
    preprocessing: tuple[str, ...] = ()
    tuning: str | None = None
    post_processing: tuple[str, ...] = ()
    utility: tuple[Utility, ...] = ()
    justification: str | None = None
    approvals: tuple[Approval, ...] = ()
    study_sha256: str | None = None
    replaces: str | None = None


_EVERYONE = Adversary(
    who="anyone who receives this release",
    sees="every file of it, and whatever else they know",
    protected=True,
)
_HOLDER = Adversary(
    who="the organisation that holds the data", sees="its own data", protected=False
)


def build_card(
    release: Release,
    notes: CardNotes | None = None,
    *,
    ledger: Ledger | None = None,
    created: datetime | None = None,
) -> Card:
    """Return the card of ``release``.

    Parameters
    ----------
    release : Release
        What leaves.
    notes : CardNotes, optional
        What curators say about it.
    ledger : Ledger, optional
        The ledger that was charged: the card then shows the budget before and after.
    created : datetime, optional
        When the card was made; now by default.
    """
    said = notes or CardNotes()
    spending = release.spending
    facts = facts_of_spending(
        spending,
        rows=said.max_rows_per_unit,
        parties=said.parties_per_unit,
        simulated=release.simulated,
    )
    epsilon, delta = facts["guarantee.epsilon"], facts["guarantee.delta"]
    seen = [
        {
            "who": one.who,
            "sees": one.sees,
            "epsilon": epsilon if one.protected and not release.simulated else None,
            "delta": delta if one.protected and not release.simulated else None,
        }
        for one in (_EVERYONE, *said.adversaries, _HOLDER)
    ]
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "release_id": release.release_id,
        "created": (created or datetime.now(UTC)).astimezone(UTC).isoformat(timespec="seconds"),
        "product": {
            "title": said.title or f"A classifier of kind {release.kind}",
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
        "prior_spend": None if ledger is None else prior_spend(ledger, spending.receipt),
        "preprocessing": [*preprocessing(release.model), *said.preprocessing],
        "tuning": said.tuning or NOT_STATED,
        "post_processing": list(said.post_processing),
        "implementation": _implementation(),
        "utility": [asdict(one) for one in said.utility],
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


def prior_spend(ledger: Ledger, receipt: Receipt | None) -> dict[str, Any]:
    """Return the account's budget just before and just after the charge, from the ledger itself.

    Raises
    ------
    InvalidParameter
        If the ledger has no such charge.
    """
    entries = [] if receipt is None else ledger.entries(receipt.account)
    own = [entry for entry in entries if receipt and (entry.row, entry.hash) == _key(receipt)]
    if receipt is None or not own:
        raise InvalidParameter("ledger: it has no charge for this release; give the one charged.")
    year, after = own[0].year, own[0].counted
    earlier = [entry for entry in entries if entry.row < receipt.row and entry.year == year]
    account = next(one for one in ledger.accounts() if one.name == receipt.account)
    caps = [change.epsilon for change in account.history if change.row < receipt.row]
    cap = next((one for one in reversed(caps) if one is not None), None)
    return {
        "account": receipt.account,
        "before": max((entry.counted for entry in earlier), default=0.0),
        "after": after,
        "cap": cap,
        "left": None if cap is None else at_most(minus(exact(cap), exact(after))),
        "year": year,
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
        "prices are added"
    )


def _trust(spending: Spending) -> str:
    if spending.guarantee.unit is Unit.PARTY or len(spending.parties) > 1:
        return "not stated: ask the curators who computed the release and what they saw"
    return "the organisation that holds the data computed the release; nobody else saw the data"


def preprocessing(model: Model) -> Iterator[str]:
    """Say what a model itself knows about what happened to rows before it was learned."""
    data_norm = model.facts.data_norm
    if data_norm is not None:
        yield f"rows are clipped to the declared norm {data_norm:g}, which no data were asked for"
    if model.encoder is not None:
        yield f"features follow the public schema {model.encoder.schema.fingerprint()}"
        for paid in model.encoder.schema.paid:
            yield f"facts of the schema were learned from records: {_short(str(paid))}"
    prior = model.facts.prior
    if prior is not None:
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
