"""The card of what a run of a study gave: its words, its encoding and its hash."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from confrere.errors import InvalidRelease
from confrere.ledger import Ledger
from confrere.model import Encoder
from confrere.release import Adversary, CardNotes, Release, Utility
from confrere.study.protocols import Learned
from confrere.study.study_file import Study
from confrere.study.study_trust import trust_of
from confrere.trust import Trust, TrustKind


def described(
    study: Study, learned: Learned, *, ledger: Ledger | None = None, n_here: int = 1
) -> Release:
    """Return the release of a model with the study's encoding, words and hash.

    Parameters
    ----------
    study : Study
    learned : Learned
    ledger : Ledger, optional
        The one that was charged, where one party paid: the card shows the budget.
    n_here : int, default=1
        How many organisations' data were read by one process.
    """
    release = learned.release
    known = study if learned.schema is None else study.with_schema(learned.schema)
    model = replace(release.model, encoder=Encoder.of(known.encoder()))
    return replace(release, model=model, _card=None).describe(
        _notes(study, learned, len(release.parties), n_here), ledger=ledger
    )


def check_words(study: Study, release: Release) -> None:
    """Refuse a card of a study that says something else about whom it protects, and what for.

    Whoever saves a release writes its card; how many rows a unit has decides about the price.

    Raises
    ------
    InvalidRelease
    """
    promise, card = study.promise, release.card
    said = card.guarantee
    told: dict[str, tuple[Any, Any]] = {
        "product.title": (card.product.title, study.title),
        "product.purpose": (card.product.purpose, study.purpose),
        "guarantee.unit_detail": (said.unit_detail, f"one {promise.unit}"),
        "guarantee.max_rows_per_unit": (said.max_rows_per_unit, promise.max_rows_per_unit),
        "guarantee.across_parties": (
            said.across_parties.parties_per_unit,
            _places(study, len(release.parties)),
        ),
    }
    kind = card.trust.kind
    if kind is not None and not Trust.parse(kind).allows(trust_of(study)):
        told["trust.kind"] = (kind, str(trust_of(study)))
    differing = [place for place, (given, agreed) in told.items() if given != agreed]
    if differing:
        raise InvalidRelease(
            f"card.json does not say what the study says: {', '.join(differing)}; do not use it."
        )


def _places(study: Study, n_parties: int) -> int:
    """Return in how many organisations' data a unit may be, of those that paid."""
    return min(study.promise.parties_per_unit, max(1, n_parties))


def _notes(study: Study, learned: Learned, n_parties: int, n_here: int) -> CardNotes:
    promise = study.promise
    operator = Adversary(
        who="whoever ran the study on one machine",
        sees="the data of all organisations, and each one's own release",
        protected=False,
    )
    return CardNotes(
        title=study.title,
        purpose=study.purpose,
        unit_detail=f"one {promise.unit}",
        max_rows_per_unit=promise.max_rows_per_unit,
        parties_per_unit=_places(study, n_parties),
        adversaries=(operator,) if n_here > 1 else (),
        trust=_trust(study, n_here),
        trust_kind=trust_of(study, n_here),
        preprocessing=(_bounded(study), *_without(study, learned)),
        tuning="none on the data: every parameter stands in the study file",
        utility=_utility(learned),
        justification=promise.justification,
        study_sha256=study.sha256,
    )


def _trust(study: Study, n_here: int) -> str:
    if n_here > 1:
        return f"one process read the data of {n_here} organisations; its operator is trusted"
    needed = trust_of(study)
    if needed.kind is TrustKind.COORDINATOR:
        return "the coordinator saw what parties sent, without noise, and is trusted to add it"
    if needed.kind is TrustKind.SUM:
        return (
            "each organisation added a share of the noise to sums that nobody could see into; "
            f"for each of them that is {needed.words}"
        )
    return "each organisation computed on its own data; nobody else saw them"


def _without(study: Study, learned: Learned) -> tuple[str, ...]:
    """Say which organisations of the study have no part in what all made together."""
    if study.method.shape not in ("together", "votes"):
        return ()
    away = [party.name for party in study.payers if party.name not in learned.receipts]
    if not away:
        return ()
    return (f"without {', '.join(away)}: in the study, and no answer of theirs was used",)


def _bounded(study: Study) -> str:
    promise = study.promise
    if promise.unit_column is None:
        return f"that a {promise.unit} has {promise.max_rows_per_unit} row at most is assumed"
    return f"rows of a {promise.unit} beyond {promise.max_rows_per_unit} were dropped"


def _utility(learned: Learned) -> tuple[Utility, ...]:
    if learned.evaluation is None:
        return ()
    return (
        Utility(
            metric="share of records that it gets wrong, counted with noise",
            value=learned.evaluation.error_rate,
            measured_on="the rows that it was learned from, at every party",
            basis="charged to the ledger",
        ),
    )
