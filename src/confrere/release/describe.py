"""Build the card of a release: the numbers from its receipts, the words from its curators."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

import numpy as np

from confrere.errors import InvalidParameter
from confrere.guarantee import Unit
from confrere.ledger import Ledger, Receipt
from confrere.ledger.amounts import at_least, at_most, exact, minus, plus
from confrere.release.card import SCHEMA, Card, ledger_head, per_party, status
from confrere.release.notes import Adversary, CardNotes
from confrere.release.pricing import Spending
from confrere.release.risk import risk_in_words, shown

if TYPE_CHECKING:
    from confrere.release.model import Release

_NOT_STATED = "not stated"

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
    unit, neighbours = spending.guarantee.unit, spending.guarantee.neighbours
    epsilon, delta = spending.price(said.max_rows_per_unit, said.parties_per_unit)
    seeded = release.simulated
    return Card(
        schema=SCHEMA,
        release_id=release.release_id,
        created=(created or datetime.now(UTC)).astimezone(UTC).isoformat(timespec="seconds"),
        product={
            "title": said.title or f"A classifier of kind {release.kind}",
            "kind": release.kind,
            "purpose": said.purpose or _NOT_STATED,
            "not_for": list(said.not_for),
        },
        curators=[asdict(curator) for curator in said.curators],
        guarantee={
            "definition": f"{'pure' if delta == 0 else 'approximate'} differential privacy",
            "unit": str(unit),
            "unit_detail": said.unit_detail or _unit_detail(unit),
            "adjacency": str(neighbours),
            "max_rows_per_unit": said.max_rows_per_unit,
            "across_parties": {
                "assumption": said.across_parties or _across_parties(said.parties_per_unit),
                "parties_per_unit": said.parties_per_unit,
            },
            "epsilon": epsilon,
            "delta": delta,
            "scope": "this release alone; what was released before adds to it",
            "per_party": per_party(spending),
            "adversaries": [
                {
                    "who": one.who,
                    "sees": one.sees,
                    "epsilon": epsilon if one.protected and not seeded else None,
                    "delta": delta if one.protected and not seeded else None,
                }
                for one in (_EVERYONE, *said.adversaries, _HOLDER)
            ],
        },
        unprotected=[*_unprotected(spending, said), *said.unprotected],
        trust={
            "model": said.trust or _trust(spending),
            "assumptions": list(spending.guarantee.assumptions),
        },
        mechanism={
            "theorem": spending.guarantee.theorem or _NOT_STATED,
            "noise": "seeded" if seeded else "operating system",
            "public": list(spending.guarantee.public),
        },
        accounting={"method": _method(spending, said), **spending.to_dict()},
        prior_spend=None if ledger is None else prior_spend(ledger, spending.receipt),
        preprocessing=[*_preprocessing(release), *said.preprocessing],
        tuning=said.tuning or _NOT_STATED,
        post_processing=list(said.post_processing),
        implementation=_implementation(),
        utility=[asdict(one) for one in said.utility],
        risk_in_words=risk_in_words(epsilon, delta, unit, neighbours),
        justification=said.justification,
        approvals=[asdict(approval) for approval in said.approvals],
        study_sha256=said.study_sha256,
        ledger_head=ledger_head(spending),
        files={},
        replaces=said.replaces,
        status=status(spending, seeded),
    )


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
    before = max((entry.spent for entry in entries if entry.row < receipt.row), default=0.0)
    after = own[0].spent
    cap = next(one.epsilon for one in ledger.accounts() if one.name == receipt.account)
    return {
        "account": receipt.account,
        "before": before,
        "after": after,
        "cap": cap,
        "left": None if cap is None else at_most(minus(exact(cap), exact(after))),
    }


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
    if spending.guarantee.unit is Unit.PARTY or spending.parties:
        return "not stated: ask the curators who computed the release and what they saw"
    return "the organisation that holds the data computed the release; nobody else saw the data"


def _method(spending: Spending, notes: CardNotes) -> str:
    if not spending.recorded:
        method = "what the mechanisms prove; no ledger recorded all of it"
    elif spending.parties:
        method = "what each organisation's ledger recorded"
    else:
        method = "what the ledger recorded"
    if spending.parties and notes.parties_per_unit == 1:
        method += "; the largest price counts, since nobody is in the data of two organisations"
    elif notes.parties_per_unit > 1:
        method += f"; the {notes.parties_per_unit} largest prices are added"
    if notes.max_rows_per_unit > 1:
        method += f"; times {notes.max_rows_per_unit} records of one unit (group privacy)"
    return method


def _unprotected(spending: Spending, notes: CardNotes) -> Iterator[str]:
    yield "conclusions about people in general, which the data of others would give as well"
    if spending.guarantee.public:
        yield f"facts taken as public: {', '.join(spending.guarantee.public)}"
    prices = list(spending.prices().values())
    if len(prices) > notes.parties_per_unit:
        everywhere = exact(0.0)
        for paid in prices:
            everywhere = plus(everywhere, exact(paid.epsilon) * notes.max_rows_per_unit)
        yield (
            f"the promised epsilon, for anyone in the data of more than {notes.parties_per_unit} "
            f"of the {len(prices)} organisations: in all of them epsilon is the sum, "
            f"{shown(at_least(everywhere))}"
        )


def _preprocessing(release: Release) -> Iterator[str]:
    data_norm = release.model.facts.data_norm
    if data_norm is not None:
        yield f"rows are clipped to the declared norm {data_norm:g}, which no data were asked for"
    if release.model.encoder is not None:
        yield f"features follow the public schema {release.model.encoder.schema.fingerprint()}"


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
