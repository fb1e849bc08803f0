"""What needs studies, releases and numbers: plain values in, plain values out.

It runs in a process of its own, which is the only one of the desk that opens a party's table (for
the report that is the party's own) and a key (for a grant). Errors come back as one line.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import wraps
from pathlib import Path
from typing import Any

from confrere.errors import ConfrereError, StudyError
from confrere.ledger import LedgerReader
from confrere.planning import plan
from confrere.release.signing import has_passphrase, read_private_key
from confrere.release.spending import risk_in_words
from confrere.study import (
    Local,
    Study,
    approve_study,
    changed_facts,
    check_table,
    earlier_grants,
    gather_locals,
    make_grant,
    make_plan,
    read_study,
    refuse_study,
    standing_refusal,
)
from confrere.study.priced_plan import price_of
from confrere.study.running import has_answered
from confrere.study.study_file import trust_of

Facts = dict[str, Any]

#: What operations are, for people.
_QUESTIONS = {
    "size": "how many records there are",
    "check": "how well the agreed expectation fits the records here, with noise",
    "objective": "coefficients learned from the records here, with noise",
    "learn": "a model learned from the records here, with noise",
    "coefficients": "sums over the records here, with noise",
    "output": "a model learned from the records here, with noise",
    "errors": "how many records the finished model gets wrong, with noise",
    "ready": "whether it is there for the next sum",
    "minimiser": "a part of a model update, by secure aggregation",
    "gradient": "a part of a model update, by secure aggregation",
    "party_share": "a part of what all parties send together, by secure aggregation",
    "errors_of_all": "a part of how many records the finished model gets wrong, by secure "
    "aggregation",
    "facts_of_all": "a part of counts over the records of all, by secure aggregation",
    "ballot": "votes of the classifier here on public rows, without noise",
    "upload": "weights of the classifier here, without noise",
    "shares": "shares of classes over public cells, without noise",
}


def plainly(function: Callable[..., Facts]) -> Callable[..., Facts]:
    """Let a function answer with its error in one line, instead of raising it."""

    @wraps(function)
    def answer(*args: Any, **facts: Any) -> Facts:
        try:
            return function(*args, **facts)
        except ConfrereError as error:
            return {"fault": " ".join(str(error).split())}
        except OSError as error:
            return {"fault": f"a file cannot be read ({error.strerror or type(error).__name__})."}
        except (ValueError, RecursionError) as error:
            return {"fault": f"a file is not as it must be ({type(error).__name__})."}

    return answer


@plainly
def study_facts(path: str) -> Facts:
    """Return a study in words, and how it stands at every party that lives here."""
    file = Path(path)
    study = read_study(file)
    locals_ = gather_locals(study, file)
    promise, price = study.promise, price_of(study)
    return {
        "id": study.id,
        "sha256": study.sha256,
        "title": study.title,
        "purpose": study.purpose,
        "method": study.method.name,
        "simulated": study.simulated,
        "engine": study.engine,
        "epsilon": price.epsilon,
        "delta": price.delta,
        "protects": str(promise.protects),
        "relation": str(promise.relation),
        "unit": promise.unit,
        "rows": promise.max_rows_per_unit,
        "parties_per_unit": promise.parties_per_unit,
        "justification": promise.justification,
        "columns": list(study.schema.columns),
        "label": study.schema.outcome.column if study.schema.outcome else "",
        "members": [{"name": p.name, "dataset": p.dataset, "role": p.role} for p in study.parties],
        "quorum": study.quorum,
        "promised": make_plan(study, locals_).promised,
        "trust": str(trust_of(study)),
        "trust_words": trust_of(study).words,
        "risk": risk_in_words(price.epsilon, price.delta, price.unit, price.neighbours)["text"],
        "parties": {name: _standing(study, file, local) for name, local in locals_.items()},
    }


def _standing(study: Study, file: Path, local: Local) -> Facts:
    """Say how a study stands at one party: waiting, agreed, refused or answered."""
    facts = {**_price(study, local), **_decided(study, file, local)}
    if study.engine == "flower":
        facts |= _questions(study, local)
    facts["key_locked"] = local.key_path is not None and has_passphrase(local.key_path)
    facts["has_key"] = local.key_path is not None
    return facts


def _price(study: Study, local: Local) -> Facts:
    party = study.party(local.party)
    (price,) = [p for p in make_plan(study, {party.name: local}).prices if p.party == party.name]
    told = price.to_dict()
    fault = None
    try:
        price.budget.check(price.guarantee)
    except ConfrereError as error:
        fault = str(error)
    return {
        "account": price.account,
        "ledger": str(local.ledger_path.resolve()),
        **{name: told[name] for name in ("spent", "left", "left_after", "limit", "limit_by")},
        "not_covered": fault,
    }


def _decided(study: Study, file: Path, local: Local) -> Facts:
    """Return who agreed or refused, when and why; and what differs from what was agreed last."""
    key = study.party(local.party).key
    grants = [] if key is None else list(earlier_grants(file.parent, key))
    agreed = next((g for g in grants if g.grant.study_sha256 == study.sha256), None)
    before = next((g for g in grants if g.grant.study_sha256 != study.sha256), None)
    refusal = standing_refusal(study, local)
    state = "waiting"
    said: Facts = {}
    if refusal is not None:
        state, said = refusal.said, {"name": refusal.name, "reason": refusal.reason}
        said |= {"time": refusal.time, "justification": None}
    elif agreed is not None:
        grant = agreed.grant
        over = grant.expires <= datetime.now(UTC)
        state = "expired" if over else "agreed"
        if has_answered(local, grant.runs):
            state = "answered"
        said = {**grant.approval.to_dict(), "expires": grant.expires.isoformat()}
        said.setdefault("justification", None)
    return {"state": state, "said": said, "changes": _changes(before, study)}


def _changes(before: Any, study: Study) -> Facts | None:
    if before is None:
        return None
    known = before.study is not None
    told = changed_facts(before.study, study.content) if known else []
    return {
        "approved": before.grant.approved_at.isoformat()[:10],
        "study": before.grant.study_id,
        "epsilon": before.grant.epsilon_per_run,
        "known": known,
        "keys": [[key, _text(old), _text(new)] for key, old, new in told],
    }


def _text(value: Any) -> str | None:
    return None if value is None else json.dumps(value, ensure_ascii=False, default=str)


@plainly
def report(path: str, party: str) -> Facts:
    """Return a party's own look at its own table; counts without noise, which stay here."""
    study = read_study(path)
    local = gather_locals(study, Path(path))[party]
    return check_table(study, local.table()).to_dict()


def _questions(study: Study, local: Local) -> Facts:
    """Return what would be asked, in words, and why it cannot be if it cannot."""
    try:
        grant = make_grant(study, local, approved_by="nobody", reason="none")
    except ConfrereError as error:
        return {"questions": [], "not_allowed": " ".join(str(error).split())}
    asked = [
        {
            "what": _QUESTIONS.get(request.operation, request.operation),
            "operation": request.operation,
            "times": request.steps,
            "epsilon": request.epsilon,
            "delta": request.delta,
        }
        for request in grant.requests
    ]
    return {"questions": asked, "not_allowed": None}


@plainly
def decide(
    path: str,
    party: str,
    sha256: str,
    *,
    agree: bool,
    words: Mapping[str, str],
    grant: str,
    passphrase: str | None = None,
) -> Facts:
    """Write a grant, signed by the party's key, or say no in its ledger: at any time.

    Parameters
    ----------
    path, party, sha256 : str
        The study's file, who decides, and the hash of what was shown to them.
    agree : bool
    words : mapping of str to str
        ``name``, ``reason`` and, to agree, ``justification``.
    grant : str
        The file to write.
    passphrase : str, optional
        Of the party's key.
    """
    file = Path(path)
    study = read_study(file)
    if study.sha256 != sha256:
        raise StudyError("the study has changed since it was shown; look at it again.")
    local = gather_locals(study, file)[party]
    if not agree:
        said = {"name": words["name"], "reason": words["reason"]}
        return {"state": refuse_study(study, local, grant=Path(grant), **said).said}
    if local.key_path is None:
        raise StudyError("key_path: the local file names no key to sign with.")
    key = read_private_key(local.key_path, passphrase)
    approve_study(
        study,
        local,
        key=key,
        grant=Path(grant),
        name=words["name"],
        reason=words["reason"],
        justification=words["justification"],
    )
    return {"state": "agreed", "grant": grant}


@plainly
def forecast(values: Mapping[str, float]) -> Facts:
    """Return what to expect of a private model, from public sizes alone."""
    found = plan(
        n=int(values["n"]),
        d=int(values["d"]),
        epsilon=values["epsilon"],
        parties=int(values["parties"]),
        auc=values["auc"],
        base_rate=values["base_rate"],
    )
    prices = sorted({0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, values["epsilon"]})
    curve = [(price, found.resized(found.n, price).expected_auc()) for price in prices]
    return {
        "expected": found.expected_auc(),
        "without_noise": found.auc_without_noise(),
        "margin": found.margin,
        "spread": found.margin_spread,
        "curve": curve,
    }


@plainly
def composed(path: str, account: str | None, delta: float) -> Facts:
    """Return what all charges of an account promise together, at one delta."""
    from confrere.accounting import total

    entries = LedgerReader.look(path).entries(account)
    if not entries:
        return {"epsilon": 0.0, "delta": delta}
    found = total(entries, delta=delta)
    return {"epsilon": found.epsilon, "delta": found.delta}


@plainly
def verified(path: str) -> Facts:
    """Check every row and every sum of a ledger."""
    return {"rows": LedgerReader.look(path).verify()}
