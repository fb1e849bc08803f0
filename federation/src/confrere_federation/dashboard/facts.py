"""What needs studies, releases and numbers: paths in, plain values out.

No table is opened, and a key for an approval alone. Errors come back as one line. Releases are
files that a stranger may have written: a folder is believed once its sums, its signatures and its
parts agree.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import wraps
from pathlib import Path

from confrere.errors import ConfrereError, SignatureError, StudyError
from confrere.release import Release, load_rehearsal, read_additions, read_folder
from confrere.release.additions import Addition
from confrere.release.signing import fingerprint, has_passphrase, read_private_key
from confrere.release.spending import risk_in_words
from confrere.views import Table
from confrere_federation.dashboard.state import Facts
from confrere_federation.parties.party import SignedApproval
from confrere_federation.studies.running import (
    PartyCost,
    approve_study,
    asked_in,
    changed_facts,
    earlier_approvals,
    has_answered,
    make_approval,
    make_plan,
    refuse_study,
)
from confrere_federation.studies.study_file import (
    Local,
    Study,
    gather_locals,
    read_study,
    standing_refusal,
    study_from_bytes,
    trust_of,
    trust_words,
)


def plainly(function: Callable[..., Facts]) -> Callable[..., Facts]:
    """Let a function answer with its error in one line, instead of raising it."""

    @wraps(function)
    def answer(*args: object, **facts: object) -> Facts:
        try:
            return function(*args, **facts)
        except ConfrereError as error:
            return {"fault": " ".join(str(error).split())}
        except (OSError, ValueError, RecursionError) as error:
            why = getattr(error, "strerror", None) or type(error).__name__
            return {"fault": f"a file cannot be read ({why})."}
        except Exception as error:  # whatever a stranger's file brings about
            return {"fault": f"unexpected {type(error).__name__}."}

    return answer


@plainly
def study_facts(path: str) -> Facts:
    file = Path(path)
    study = read_study(file)
    locals_ = gather_locals(study, file)
    privacy, plan = study.privacy, make_plan(study, locals_)
    cost = plan.costs[0].guarantee
    told = ("id", "sha256", "title", "purpose", "simulated", "engine", "quorum")
    return {name: getattr(study, name) for name in told} | {
        "method": study.method.name,
        "epsilon": cost.epsilon,
        "delta": cost.delta,
        "privacy_unit": str(privacy.privacy_unit),
        "relation": str(privacy.neighbours),
        "unit": privacy.unit,
        "rows": privacy.max_rows_per_unit,
        "parties_per_unit": privacy.parties_per_unit,
        "justification": privacy.justification,
        "columns": list(map(study.titled, study.schema.columns)),
        "label": study.titled(study.schema.outcome.column) if study.schema.outcome else "",
        "members": [{"name": p.name, "dataset": p.dataset, "role": p.role} for p in study.parties],
        "epsilon_per_unit": plan.epsilon_per_unit,
        "trust": str(trust_of(study)),
        "trust_words": trust_words(study),
        "risk": risk_in_words(cost.epsilon, cost.delta, cost.unit, cost.neighbours)["text"],
        "parties": {
            one.party: _standing(study, file, locals_[one.party], one)
            for one in plan.costs
            if one.here
        },
    }


def _standing(study: Study, file: Path, local: Local, cost: PartyCost) -> Facts:
    """Say how a study stands at one party: its cost there, and waiting, agreed, refused or so."""
    fault = None
    try:
        cost.check()
    except ConfrereError as error:
        fault = str(error)
    return {
        **cost.to_dict(),
        "ledger": str(local.ledger_path.resolve()),
        "not_covered": fault,
        **_decided(study, file, local),
        **({} if study.engine == "local" else _questions(study, local)),
        "key_locked": local.key_path is not None and has_passphrase(local.key_path),
        "has_key": local.key_path is not None,
    }


def _decided(study: Study, file: Path, local: Local) -> Facts:
    """Return who agreed or refused, when and why; and what differs from what was agreed last."""
    key = study.party(local.party).key
    approvals = [] if key is None else list(earlier_approvals(file.parent, key))
    approval = next((one for one, _ in approvals if one.study_sha256 == study.sha256), None)
    before = next((each for each in approvals if each[0].study_sha256 != study.sha256), None)
    refusal = standing_refusal(study, local)
    state = "waiting"
    said: Facts = {}
    if refusal is not None:
        state, said = refusal.said, {"name": refusal.name, "reason": refusal.reason}
        said |= {"time": refusal.time, "justification": None}
    elif approval is not None:
        state = "expired" if approval.expires <= datetime.now(UTC) else "agreed"
        if has_answered(local, approval.runs):
            state = "answered"
        expires = approval.expires.isoformat()
        said = {"justification": None, **approval.approval.to_dict(), "expires": expires}
    changes = None if before is None else _changes(*before, study)
    return {"state": state, "said": said, "changes": changes}


def _changes(before: SignedApproval, content: bytes | None, study: Study) -> Facts:
    def text(value: object) -> str:
        said = json.dumps(value, ensure_ascii=False, default=str)
        return "not there" if value is None else said

    told = [] if content is None else changed_facts(content, study.content)
    return {
        "approved": before.approved_at.isoformat()[:10],
        "study": before.study_id,
        "epsilon": before.epsilon_per_run,
        "known": content is not None,
        "keys": Table(("key", "was", "is"), [(key, text(a), text(b)) for key, a, b in told]),
    }


def _questions(study: Study, local: Local) -> Facts:
    """Return what would be asked, in words, and why it cannot be if it cannot."""
    try:
        approval = make_approval(study, local, approved_by="nobody", reason="none")
    except ConfrereError as error:
        return {"questions": [], "not_allowed": " ".join(str(error).split())}
    return {"questions": asked_in(approval), "not_allowed": None}


@plainly
def decide(
    # ``path``, ``party``, ``sha256``: the study's file, who decides, and the hash of what was
    # shown to them.
    path: str,
    party: str,
    sha256: str,
    *,
    agree: bool,
    # ``name``, ``reason`` and, to agree, ``justification``.
    words: Facts,
    approval: str,  # The file to write
    passphrase: str | None = None,  # Of the party's key
) -> Facts:
    file = Path(path)
    study = read_study(file)
    if study.sha256 != sha256:
        raise StudyError("the study has changed since it was shown; look at it again.")
    local = gather_locals(study, file)[party]
    if not agree:
        return {"state": refuse_study(study, local, approval=Path(approval), **words).said}
    if local.key_path is None:
        raise StudyError("key_path: the local file names no key to sign with.")
    key = read_private_key(local.key_path, passphrase)
    approve_study(study, local, key=key, approval=Path(approval), **words)
    return {"state": "agreed", "approval": approval}


@plainly
def release_facts(path: str) -> Facts:
    folder = read_folder(path)
    release = load_rehearsal(path)
    model, card = release.model, release.card
    schema = None if model.encoder is None else model.encoder.schema
    try:
        added, fault = read_additions(folder), ""
    except ConfrereError as error:
        added, fault = (), f"what was added later does not verify: {error}"
    told = release.terms(added)
    return {
        "card": card.to_dict(),
        "digest": model.digest(),
        "signatures": _signatures(path, folder.signers, folder.files.get("study.toml")),
        "receipts": list(_receipts(release)),
        "people": {
            "records": model.facts.n_samples,  # where that is public
            "parties": model.facts.parties or len(release.parties) or 1,
        },
        "columns": list(model.features) if schema is None else list(schema.columns),
        "classes": [str(label) for label in model.labels],
        "model": None if told is None else {"note": told.note, **vars(told.table)},
        "quality": [{"fault": fault}] if fault else [_measured(one.addition) for one in added],
    }


def _signatures(path: str, signers: Mapping[str, str], study: bytes | None) -> list[Facts]:
    """Say who signed, and whether it is with the key that the study names for them."""
    keys: dict[str, str] = {}
    with suppress(ConfrereError):
        if study is not None:
            keys = {p.name: p.key for p in study_from_bytes(study).parties if p.key}
    found = {party: (used, "signed") for party, used in signers.items()}
    for party, used in signers.items():
        try:
            read_folder(path, require_signature_from={party: keys[party]})
        except KeyError:
            found[party] = used, "signed, by a key that the study does not name"
        except SignatureError:
            found[party] = used, "signed by another key than the study names: do not rely on it"
    found |= {p: (fingerprint(k), "has not signed") for p, k in keys.items() if p not in signers}
    return [{"party": p, "fingerprint": used, "state": s} for p, (used, s) in found.items()]


def _receipts(release: Release) -> Iterator[Facts]:
    if release.receipt is not None:
        yield {"party": "", **release.receipt.to_dict()}
    for party, paid in release.spending.to_dict()["parties"].items():
        for receipt in paid["receipts"]:
            yield {"party": party, **receipt}


def _measured(one: Addition) -> Facts:
    measures = [f"{measure.name} {measure}" for measure in one.quality.measures]
    told = {"party": one.party, "measured_on": one.measured_on}
    return told | {"epsilon": one.receipt.guarantee.epsilon, "measures": measures}
