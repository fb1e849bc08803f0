"""What needs studies, releases and numbers: plain values in, plain values out.

It runs in a process of its own, which is the only one of the desk that opens a party's table (for
the report that is the party's own) and a key (for a grant). Errors come back as one line. Releases
are files that a stranger may have written: a folder is believed once its sums, its signatures and
its parts agree.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import wraps
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from confrere.data.features import Category, Flag, Ordered
from confrere.data.schema import PublicSchema
from confrere.errors import ConfrereError, InvalidData, SignatureError, StudyError
from confrere.estimators.predictions import predict
from confrere.ledger import LedgerReader
from confrere.model import Linear
from confrere.planning import plan
from confrere.release import Release, load_rehearsal, read_additions, read_folder
from confrere.release.signing import fingerprint, has_passphrase, read_private_key
from confrere.release.spending import risk_in_words
from confrere_federation.desk.gathered import Facts
from confrere_federation.studies.running import check_table, has_answered, make_plan, price_of
from confrere_federation.studies.sessions import (
    Earlier,
    approve_study,
    changed_facts,
    earlier_grants,
    make_grant,
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
    "errors_of_all": "a part of how many records the model gets wrong, by secure aggregation",
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
        "trust_words": trust_words(study),
        "risk": risk_in_words(price.epsilon, price.delta, price.unit, price.neighbours)["text"],
        "parties": {name: _standing(study, file, local) for name, local in locals_.items()},
    }


def _standing(study: Study, file: Path, local: Local) -> Facts:
    """Say how a study stands at one party: its price there, and waiting, agreed, refused or so."""
    prices = make_plan(study, {local.party: local}).prices
    (price,) = [one for one in prices if one.party == local.party]
    told, fault = price.to_dict(), None
    try:
        price.check()
    except ConfrereError as error:
        fault = str(error)
    return {
        "account": price.account,
        "ledger": str(local.ledger_path.resolve()),
        **{name: told[name] for name in ("spent", "left", "left_after", "limit", "limit_by")},
        "not_covered": fault,
        **_decided(study, file, local),
        **({} if study.engine == "local" else _questions(study, local)),
        "key_locked": local.key_path is not None and has_passphrase(local.key_path),
        "has_key": local.key_path is not None,
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
        state = "expired" if grant.expires <= datetime.now(UTC) else "agreed"
        if has_answered(local, grant.runs):
            state = "answered"
        expires = grant.expires.isoformat()
        said = {"justification": None, **grant.approval.to_dict(), "expires": expires}
    changes = None if before is None else _changes(before, study)
    return {"state": state, "said": said, "changes": changes}


def _changes(before: Earlier, study: Study) -> Facts:
    def text(value: object) -> str | None:
        return None if value is None else json.dumps(value, ensure_ascii=False, default=str)

    told = [] if before.study is None else changed_facts(before.study, study.content)
    return {
        "approved": before.grant.approved_at.isoformat()[:10],
        "study": before.grant.study_id,
        "epsilon": before.grant.epsilon_per_run,
        "known": before.study is not None,
        "keys": [[key, text(old), text(new)] for key, old, new in told],
    }


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
    # ``path``, ``party``, ``sha256``: the study's file, who decides, and the hash of what was
    # shown to them.
    path: str,
    party: str,
    sha256: str,
    *,
    agree: bool,
    # ``name``, ``reason`` and, to agree, ``justification``.
    words: Mapping[str, Any],
    grant: str,  # The file to write
    passphrase: str | None = None,  # Of the party's key
) -> Facts:
    """Write a grant, signed by the party's key, or say no in its ledger: at any time."""
    file = Path(path)
    study = read_study(file)
    if study.sha256 != sha256:
        raise StudyError("the study has changed since it was shown; look at it again.")
    local = gather_locals(study, file)[party]
    if not agree:
        return {"state": refuse_study(study, local, grant=Path(grant), **words).said}
    if local.key_path is None:
        raise StudyError("key_path: the local file names no key to sign with.")
    key = read_private_key(local.key_path, passphrase)
    approve_study(study, local, key=key, grant=Path(grant), **words)
    return {"state": "agreed", "grant": grant}


@plainly
def forecast(values: Mapping[str, Any]) -> Facts:
    """Return what to expect of a private model, from public sizes alone."""
    sizes = {name: int(values[name]) for name in ("n", "d", "parties")}
    found = plan(**{**values, **sizes})
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


#: Points of a curve, and curves on a page.
_POINTS, _MOST_CURVES = 25, 24


@plainly
def release_facts(path: str) -> Facts:
    """Return everything that a release's page shows."""
    folder = read_folder(path)
    release = load_rehearsal(path)
    model, card = release.model, release.card
    schema = None if model.encoder is None else model.encoder.schema
    facts: Facts = {
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
        "weights": _weights(release),
        "inputs": [] if schema is None else _inputs(schema),
        "quality": _quality(path),
    }
    if schema is not None:
        typical = {one["column"]: _middle(one) for one in facts["inputs"]}
        facts["curves"] = _curves(release, schema, typical)
    return facts


@plainly
def tried(
    path: str,
    values: Mapping[str, str],  # Raw values by column, as typed; an empty one is missing
) -> Facts:
    """Return what a release says of one person, and how that changes with each column."""
    release = load_rehearsal(path)
    encoder = release.model.encoder
    if encoder is None:
        raise InvalidData("this release takes encoded rows: it does not say what columns mean.")
    schema = encoder.schema
    row = {one["column"]: _typed(one, values.get(one["column"], "")) for one in _inputs(schema)}
    (found,) = predict(release, [row]).to_pylist()
    return {
        "predicted": str(found.pop("predicted")),
        "probabilities": {
            name.removeprefix("probability of "): chance for name, chance in found.items()
        },
        "curves": _curves(release, schema, row),
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
    """Yield which row of which ledger paid, for whom, and who approved it."""
    if release.receipt is not None:
        yield {"party": "", **release.receipt.to_dict()}
    for party, paid in release.spending.to_dict()["parties"].items():
        for receipt in paid["receipts"]:
            yield {"party": party, **receipt}


def _weights(release: Release) -> list[tuple[str, float]]:
    """Return what a linear model gives each encoded column, the weightiest first."""
    model = release.model
    if not isinstance(model, Linear) or np.atleast_2d(model.coef).shape[0] != 1:
        return []
    found = zip(model.features, np.ravel(model.coef), strict=True)
    return sorted(((n, float(w)) for n, w in found), key=lambda one: -abs(one[1]))[:_MOST_CURVES]


def _inputs(schema: PublicSchema) -> list[Facts]:
    """Return what a form asks for: raw columns, as declared."""

    def values(feature: Any) -> list[Any] | None:
        match feature:
            case Category():
                return list(feature.values)
            case Ordered():
                return list(feature.levels)
            case Flag():
                return [*feature.false, *feature.true]
        return None

    return [
        {
            "column": feature.column,
            "kind": feature.kind,
            "bounds": getattr(feature, "bounds", None),
            "mean": getattr(feature, "mean", None),
            "values": values(feature),
            "may_miss": feature.missing is not None,
        }
        for feature in schema.features
    ]


def _middle(column: Facts) -> Any:
    if column["values"]:
        return column["values"][0]
    low, high = column["bounds"] or (0.0, 1.0)
    return (low + high) / 2 if column["mean"] is None else column["mean"]


def _typed(column: Facts, text: str) -> Any:
    """Read what was typed: one of the declared values, or a number."""
    if text == "":
        if column["may_miss"]:
            return None
        raise InvalidData(f"{column['column']}: is missing; give a value.")
    if column["values"]:
        for value in column["values"]:
            if str(value) == text:
                return value
        raise InvalidData(f"{column['column']}: must be one of the declared values.")
    try:
        return float(text)
    except ValueError:
        raise InvalidData(f"{column['column']}: must be a number.") from None


def _curves(release: Release, schema: PublicSchema, row: Mapping[str, Any]) -> list[Facts]:
    """Return the last class's probability as each column changes and the others stay."""

    def places(one: Facts) -> list[Any]:
        low, high = one["bounds"] or (0.0, 1.0)
        return one["values"] or [float(x) for x in np.linspace(low, high, _POINTS)]

    asked = {one["column"]: places(one) for one in _inputs(schema)[:_MOST_CURVES]}
    rows = [{**row, name: place} for name, points in asked.items() for place in points]
    told = iter(predict(release, rows).columns[-1].to_pylist())
    curves = []
    for one in _inputs(schema)[:_MOST_CURVES]:
        name, number = one["column"], not one["values"]
        points = [(place if number else str(place), next(told)) for place in asked[name]]
        at = row[name] if number else str(row[name])
        curves.append({"column": name, "points": points, "at": at, "number": number})
    return curves


def _quality(path: str) -> list[Facts]:
    """Return what was measured later, and signed."""
    folder = read_folder(path)
    try:
        found = read_additions(folder)
    except ConfrereError as error:
        return [{"fault": f"what was added later does not verify: {error}"}]
    return [
        {
            "party": one.addition.party,
            "measured_on": one.addition.measured_on,
            "epsilon": one.addition.receipt.guarantee.epsilon,
            "measures": [measure.model_dump() for measure in one.addition.quality.measures],
        }
        for one in found
    ]


def _work(line: Connection, idle: float) -> None:
    """Answer until nobody asks any more, or the desk is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the desk ends it
    last = time.monotonic()
    try:
        while time.monotonic() - last < idle:
            if not line.poll(idle):
                return
            function, args, facts = line.recv()
            try:
                answer = getattr(sys.modules[__name__], function)(*args, **facts)
            except Exception as error:  # what it was about must not end it
                answer = {"fault": f"unexpected {type(error).__name__}."}
            line.send(answer)
            last = time.monotonic()
    except (EOFError, OSError):
        return


if __name__ == "__main__":
    _work(Connection(int(sys.argv[1])), float(sys.argv[2]))
