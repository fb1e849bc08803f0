"""Carry out a priced study in one process, and write the card of what it gave.

The local engine is asked like any other. Every party here has its own ledger, answer file and
policy, and pays inside :func:`~confrere_federation.parties.serve`. The plan names the run: carried
out again after a crash it sends what it had answered, and pays nothing more.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confrere.data.fact_counts import FactCounts
from confrere.data.tables import open_table
from confrere.errors import InvalidRelease, QuorumMissed, StudyError
from confrere.ledger import ChargeApproval, Ledger, Receipt
from confrere.methods.priors import check_same_meaning
from confrere.model import Encoder
from confrere.release import (
    Adversary,
    CardNotes,
    Release,
    Simulated,
    Utility,
    card_page,
    load_rehearsal,
    load_release,
    read_private_key,
    sign_release,
)
from confrere.trust import Trust, TrustKind
from confrere_federation.engines.carrier import MAX_MESSAGE
from confrere_federation.parties import Answers, Books, LocalFederation, LocalParty, Policy
from confrere_federation.parties.federation import joined
from confrere_federation.parties.grant import Request
from confrere_federation.parties.signed import rehearse
from confrere_federation.parties.sums import RawRows
from confrere_federation.studies.encoded_rows import Rows, read_rows
from confrere_federation.studies.local_file import Local, standing_refusal
from confrere_federation.studies.priced_plan import StudyPlan, budget_of, open_account, price_of
from confrere_federation.studies.protocols import Given, Learned, protocol_of, trusted_by
from confrere_federation.studies.study_file import Study, read_bytes, trust_of, trust_words


def described(
    study: Study,
    learned: Learned,
    *,
    # The one that was charged, where one party paid: the card shows the budget.
    ledger: Ledger | None = None,
    n_here: int = 1,  # How many organisations' data were read by one process
) -> Release:
    """Return the release of a model with the study's encoding, words and hash."""
    release = learned.release
    return release.describe(_notes(study, learned, len(release.parties), n_here), ledger=ledger)


def check_words(study: Study, release: Release) -> None:
    """Refuse a card of a study that says something else about whom it protects, and what for.

    Whoever saves a release writes its card; how many rows a unit has decides about the price.

    Raises InvalidRelease.
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
            f"for each of them that is {trust_words(study)}"
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


@dataclass(frozen=True)
class Made:
    """What a study gave: a release, and who paid for it."""

    name: str  #: Of its folder: the party's, or the study's if all made it together
    release: Release
    #: Mapping of party to tuple of Receipt. One for each of its answers.
    receipts: Mapping[str, tuple[Receipt, ...]]


def made_of(
    study: Study, learned: Learned, *, ledger: Ledger | None = None, n_here: int = 1
) -> Made:
    """Return a model of a run as a release with the study's words."""
    release = described(study, learned, ledger=ledger, n_here=n_here)
    return Made(learned.name, release, joined(learned.facts, learned.receipts))


@dataclass(frozen=True)
class Runner:
    """A study that is ready to run: everything is checked, nothing is spent.

    Use :func:`prepare`.
    """

    study: Study
    plan: StudyPlan
    locals_: Mapping[str, Local]
    rows: Mapping[str, Rows]
    given: Given
    requests: Mapping[str, tuple[Request, ...]]

    def run(self, approval: ChargeApproval | None = None) -> list[Made]:
        """Ask every party here, and describe what comes of it; each pays before it answers.

        ``approval`` says who agreed to the price, and why.
        """
        study, run, given = self.study, self.plan.plan_id, self.given
        names = list(self.locals_)
        if study.method.shape == "votes" and study.trust == "coordinator":
            beside = self.locals_[names[0]].ledger_path
            given = replace(given, kept=Answers(f"{beside}.releases"))
        parties = [
            local_party(
                study, local, self.rows[name], self._policy(name, approval), given.rows(study)
            )
            for name, local in self.locals_.items()
        ]
        federation = LocalFederation(parties, run=run, study=study.sha256, on_error="raise")
        steps = protocol_of(study, given)(federation.parties())
        found = federation.run_protocol(steps, trusted=trusted_by(study, given))
        return [self._made(learned) for learned in found]

    def _policy(self, name: str, approval: ChargeApproval | None) -> Policy:
        """Return what a party answers: its own study's questions, in this run, at the price."""
        requests, price = self.requests[name], self.plan.prices[0].guarantee
        return Policy(
            operations=frozenset(request.operation for request in requests),
            unit=price.unit,
            neighbours=price.neighbours,
            epsilon_per_run=price.epsilon,
            delta_per_answer=price.delta,
            study=self.study.sha256,
            study_id=self.study.id,
            approval=approval,
            trust=str(trust_of(self.study, len(self.locals_))),
            runs=frozenset([self.plan.plan_id]),
            requests=requests,
        )

    def _made(self, learned: Learned) -> Made:
        ledgers = {name: Ledger(self.locals_[name].ledger_path) for name in learned.receipts}
        alone = next(iter(ledgers.values())) if len(ledgers) == 1 else None
        made = made_of(self.study, learned, ledger=alone, n_here=len(ledgers))
        for name, receipts in learned.receipts.items():
            for receipt in receipts:
                ledgers[name].note_model(receipt, digest=made.release.model.digest())
        return made


def prepare(
    study: Study,
    plan: StudyPlan,  # Its price, agreed to; it names the run
    locals_: Mapping[str, Local],  # Mapping of party to Local. The parties that live here.
    # Mapping of party to Release. In a transfer, what source parties elsewhere have released.
    sources: Mapping[str, Release] | None = None,
    *,
    # The rows that parties vote on; by default a local file says where they are.
    auxiliary: Path | None = None,
    # Go ahead where neither study, policy nor ledger caps what a party may ever spend; the card
    # says so then.
    allow_uncapped: bool = False,
) -> Runner:
    """Check everything that can be checked before a price is paid, and read the data."""
    if study.engine != "local":
        raise StudyError(f"federation.engine: {study.engine!r} runs between machines.").hinting(
            "confrere coordinator STUDY at one of them and confrere party STUDY at every party; "
            'to learn in one process, declare engine = "local"'
        )
    payers = {party.name for party in study.payers}
    here = {n: one for n, one in locals_.items() if one.has_table and n in payers}
    if not here:
        raise StudyError(
            "no party lives here: give its local file with --local, or its table with "
            "--data PARTY=FILE."
        )
    _check_parties(study, here, sources or {})
    for price in plan.prices:
        if price.party not in here:
            continue
        local = here[price.party]
        if local.policy is not None:
            local.policy.check(study, price.party)
        refusal = standing_refusal(study, local)
        if refusal is not None:
            raise refusal.error()
        if not has_answered(local, (plan.plan_id,)):
            price.budget.check(price.guarantee)
        if price.budget.limit is None and not (allow_uncapped or study.simulated):
            raise StudyError(
                f"party.cap: nothing caps what {price.party} may ever spend; give it one in the "
                "study (cap = { epsilon = 3 }), in its policy or by confrere ledger open, or say "
                "--allow-uncapped. Nothing was spent."
            )
    given = Given(sources or {}, auxiliary_rows(study, auxiliary, here))
    requests = requests_of(study, given, list(here))  # what cannot be asked is found before data
    rows = {name: rows_of(study, local) for name, local in here.items()}
    return Runner(study, plan, here, rows, given, requests)


def requests_of(
    study: Study, given: Given, among: Sequence[str] | None = None
) -> Mapping[str, tuple[Request, ...]]:
    """Return every question that a run of the study may ask each party."""
    return rehearse(
        protocol_of(study, given),
        [each.name for each in study.payers] if among is None else among,
        study.sha256,
        len(study.columns),
        n_classes=study.n_classes,
        most=MAX_MESSAGE if study.engine != "local" else None,
    )


def local_party(
    study: Study,
    local: Local,
    rows: Rows,
    policy: Policy,
    auxiliary: NDArray[np.float64] | None = None,
) -> LocalParty:
    """Return a party with its rows and books; its account is open once a limit covers the price.

    Where it is to vote on auxiliary rows and has a classifier of its own, that is trained first.
    """
    party, price = study.party(local.party), price_of(study)
    assert policy.runs is not None
    X, y = rows.coded(study)
    ballot = None
    if local.classifier is not None and auxiliary is not None and study.method.voted:
        ballot = local.classifier.votes(X.toarray(), y, auxiliary, study.n_classes)
    if has_answered(local, policy.runs):
        ledger = Ledger(local.ledger_path)  # who goes on need not afford all of it again
    else:
        ledger = open_account(party, local, price)
    budget = budget_of(party, local, price)
    books = Books(
        ledger=ledger,
        account=budget.account,
        policy=policy,
        answers=Answers(_answer_file(local)),
        limit=budget.for_life,
    )
    return LocalParty(
        party.name,
        X,
        y,
        books,
        study.seed,
        n_classes=study.n_classes,
        ballot=ballot,
        engine=local.engine,
        raw=_raw_rows(study, rows),
        encode=lambda encoder: read_rows(study, local.table(), encoder).coded(study),
        encoding=study.encoder().told(),
    )


def has_answered(local: Local, runs: Iterable[str]) -> bool:
    """Whether a party has answered in one of the runs: then part of the price is paid."""
    path = _answer_file(local)
    if not (local.ledger_path.exists() and path.exists()):
        return False
    answers = Answers(path)
    return any(answers.kept(run) for run in runs)


def _answer_file(local: Local) -> Path:
    # Parties that share a ledger do not share their answers.
    return local.ledger_path.with_name(f"{local.ledger_path.name}.{local.party}.answers")


def rows_of(study: Study, local: Local) -> Rows:
    """Return a party's rows, encoded."""
    counted = study.file.facts is not None
    return read_rows(study, local.table(), counted=counted)


def _raw_rows(study: Study, rows: Rows) -> RawRows | None:
    """Return what a party counts."""
    if rows.sums is None:
        return None
    return RawRows(FactCounts(study.schema), rows.sums, len(rows.y))


def auxiliary_rows(
    study: Study, path: Path | None, locals_: Mapping[str, Local]
) -> Callable[[Study], NDArray[np.float64]] | None:
    """Return what encodes the public rows that the study names by their hash, if it does."""
    if study.file.auxiliary is None:
        return None
    own = [local.auxiliary_path for local in locals_.values() if local.auxiliary_path is not None]
    place = path if path is not None else own[0] if own else None
    if place is None:
        raise StudyError(
            "auxiliary_path: the study learns from public rows; say where they lie, in the local "
            "file or with --auxiliary FILE."
        )
    content = read_bytes(place, "the auxiliary file", largest=1 << 28)
    if hashlib.sha256(content).hexdigest() != study.file.auxiliary.sha256:
        raise StudyError("auxiliary.sha256: the file is not the one that the study names.")
    table = open_table(place).whole(study.schema.columns)
    return lambda known: known.encoder().transform(table)


def _check_parties(study: Study, here: Mapping[str, Local], given: Mapping[str, Release]) -> None:
    """Refuse to begin without those who are needed."""
    together = study.method.shape in ("together", "votes")
    if together and len(here) < study.quorum * len(study.parties):
        away = [party.name for party in study.parties if party.name not in here]
        raise QuorumMissed(
            f"{len(here)} of {len(study.parties)} parties are here, the quorum is "
            f"{study.quorum:g}; give the local files of {', '.join(away)}."
        )
    names = {party.name for party in study.sources}
    for name, release in given.items():
        study.party(name)
        if name not in names:
            raise StudyError(f"source: {name!r} is not a source in the study.")
        _check_source(study, release)
    lacking = [name for name in sorted(names) if name not in here and name not in given]
    if lacking:
        raise StudyError(
            f"source: {', '.join(lacking)} is not here; give its release: --source "
            f"{lacking[0]}=FOLDER."
        )


def _check_source(study: Study, release: Release) -> None:
    check_same_meaning(
        [release],
        features=list(study.columns),
        classes=np.array(study.classes),
        encoder=Encoder.of(study.encoder()),
    )


def refuse_taken(study: Study, folder: Path, parties: list[str]) -> None:
    """Refuse a place where a release is already."""
    names = [study.id] if study.method.shape in ("together", "votes") else parties
    taken = [name for name in names if (folder / name).exists()]
    if taken:
        raise StudyError(f"out: {folder.name} holds {', '.join(taken)} already.").hinting(
            f"see what is there: confrere verify {folder / taken[0]}; a plan that was carried out "
            "gives the same again, into another folder: --out FOLDER"
        )


def check_destination(study: Study, folder: Path, parties: list[str]) -> None:
    """Refuse, before anything is spent, a place where releases could not be written."""
    refuse_taken(study, folder, parties)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise StudyError(f"out: {folder.name} cannot be written ({error.strerror}).") from None


def check_keys(locals_: Mapping[str, Local]) -> None:
    """Refuse, before anything is spent, a key that cannot sign."""
    for local in locals_.values():
        if local.key_path is not None:
            read_private_key(local.key_path)


def reader_for(study: Study) -> Callable[..., Release]:
    """Return what reads this study's releases: those of a simulation are rehearsals."""
    return load_rehearsal if study.simulated else load_release


def save_made(study: Study, made: Made, folder: Path, locals_: Mapping[str, Local]) -> Path:
    """Write a release with its study, signed by every party here that has a key, and its page.

    Returns the release's folder; the card as a page lies beside it.
    """
    # The study's bytes that were read, whatever became of the file.
    if isinstance(made.release, Simulated):
        place = made.release.rehearse(folder / made.name, study=study.content)
    else:
        # Who goes without a cap has said so before anything was spent, and the card says it.
        place = made.release.save(folder / made.name, study=study.content, allow_uncapped=True)
    for name in made.receipts:
        local = locals_.get(name)
        if local is not None and local.key_path is not None:
            sign_release(place, local.key_path, name)
    page = folder / f"{made.name}.html"
    page.write_text(card_page(made.release), encoding="utf-8")
    return place
