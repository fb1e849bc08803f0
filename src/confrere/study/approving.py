"""Agree to a study, or refuse it: who did, why, and why this epsilon."""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from confrere.errors import ConfrereError, StudyError
from confrere.federation.grant import Grant
from confrere.files import write_new
from confrere.ledger import ChargeApproval, Decision, Ledger
from confrere.release.card import Text as CardText
from confrere.release.signing import (
    PrivateKey,
    PublicKey,
    public_line,
    read_private_key,
    read_public_key,
)
from confrere.study.budget import check_data
from confrere.study.local_file import Local, standing_refusal
from confrere.study.priced_plan import make_plan
from confrere.study.sessions import make_grant
from confrere.study.study_file import Study

#: How the name of a grant ends that was taken back.
_WITHDRAWN = "-withdrawn"

_CARD_TEXT: TypeAdapter[str] = TypeAdapter(CardText)


def approval_of(
    *, name: str, reason: str, justification: str | None = None, now: datetime | None = None
) -> ChargeApproval:
    """Return who agrees and why, in words that a card can hold.

    Raises
    ------
    StudyError
        If a text cannot stand on a card. That is found before anything is spent.
    """
    for key, text in {"name": name, "reason": reason, "justification": justification}.items():
        try:
            if text is not None:
                _CARD_TEXT.validate_python(text)
        except ValidationError as error:
            why = error.errors()[0]["msg"].removeprefix("Value error, ")
            raise StudyError(f"{key}: {why}.") from None
    when = (now or datetime.now(UTC)).astimezone(UTC).isoformat(timespec="seconds")
    return ChargeApproval(name=name, reason=reason, time=when, justification=justification)


def approve_study(
    study: Study,
    local: Local,
    *,
    key: PrivateKey,
    grant: Path,
    name: str,
    reason: str,
    justification: str | None = None,
    attempts: int = 1,
    days: float = 30.0,
) -> Grant:
    """Write what a party agrees to, signed by its key; an earlier study's grant is put aside.

    Parameters
    ----------
    study : Study
        The party's own copy.
    local : Local
        Its local file, whose policy must allow it.
    key : private key
        The party's.
    grant : Path
        The file to write; one for the same study is not replaced.
    name, reason : str
        Who agrees, and why.
    justification : str, optional
        Why this epsilon; by default what the study says.
    attempts, days
        As for :func:`make_grant`.
    """
    why = justification or study.promise.justification
    said = approval_of(name=name, reason=reason, justification=why)
    opened = read_private_key(key)
    own = study.party(local.party).key
    # A key in a study may have a comment.
    if own is not None and public_line(opened.public_key()) != public_line(read_public_key(own)):
        raise StudyError(f"key_path: it is not the key that the study names for {local.party}.")
    make_plan(study, {local.party: local}).check()
    check_data(local)
    agreed = make_grant(
        study,
        local,
        approved_by=said.name,
        reason=said.reason,
        justification=said.justification,
        attempts=attempts,
        days=days,
    )
    _put_aside(grant, opened.public_key(), study)
    lift_refusal(study, local, agreed.approval)
    _write_grant(grant, agreed.document(opened, study.content))
    return agreed


def refuse_study(
    study: Study, local: Local, *, name: str, reason: str, grant: Path | None = None
) -> Decision:
    """Say no to a study in the party's ledger, and put aside what was granted for it.

    From then on nothing is charged and nothing answered for it: not by who holds an earlier grant,
    nor by a party that is running. :func:`approve_study` lifts it.

    Parameters
    ----------
    study : Study
    local : Local
    name, reason : str
        Who refuses, and why.
    grant : Path, optional
        Where a grant may lie; others of this study beside it are put aside too.

    Returns
    -------
    Decision
        "withdrawn" if it had been granted or charged before.
    """
    party = study.party(local.party)
    said = approval_of(name=name, reason=reason)
    ledger = Ledger(local.ledger_path)
    granted = []
    if grant is not None and party.key is not None:
        places = dict.fromkeys([grant, *sorted(grant.parent.glob("grant*.json"))])
        found = {place: _granted(place, party.key) for place in places}
        granted = [p for p, g in found.items() if g and g.study_sha256 == study.sha256]
    charged = any(sha256 == study.sha256 for _, _, sha256 in ledger.by_study())
    # The row first: it is what stops, whatever becomes of the files.
    ledger.refuse(
        (study.id, study.sha256),
        name=said.name,
        reason=said.reason,
        withdrawn=bool(granted) or charged,
    )
    standing = ledger.refusal(study.sha256)
    assert standing is not None
    for place in granted:
        if not place.stem.endswith(_WITHDRAWN):
            place.rename(place.with_name(f"{place.stem}-{standing.row}{_WITHDRAWN}.json"))
    return standing


def lift_refusal(study: Study, local: Local, approval: ChargeApproval) -> None:
    """Say yes again in the party's ledger, where a no stands."""
    if standing_refusal(study, local) is not None:
        Ledger(local.ledger_path).agree_again((study.id, study.sha256), approval)


def _granted(path: Path, key: PublicKey) -> Grant | None:
    try:
        return Grant.load(path, key)
    except ConfrereError:
        return None


@dataclass(frozen=True)
class Earlier:
    """What a party agreed to before.

    Attributes
    ----------
    grant : Grant
    study : bytes or None
        The study's own text, if the file has it as it was agreed to.
    """

    grant: Grant
    study: bytes | None


def earlier_grants(folder: Path, key: PublicKey) -> Iterator[Earlier]:
    """Yield every grant in a folder that the key signed, the last one first."""
    found = []
    for path in folder.glob("grant*.json"):
        try:
            content = path.read_bytes()
            agreed = Grant.read(content, key)
            text = json.loads(content).get("study")
        except (OSError, ValueError, ConfrereError):
            continue
        known = text.encode("utf-8", "replace") if isinstance(text, str) else None
        if known is not None and hashlib.sha256(known).hexdigest() != agreed.study_sha256:
            known = None  # the signature is over the grant, which names the text by its hash
        found.append(Earlier(agreed, known))
    yield from sorted(found, key=lambda one: one.grant.approved_at, reverse=True)


def changed_facts(before: bytes, after: bytes) -> list[tuple[str, Any, Any]]:
    """Return every key in which two study files differ, with both values; None where it is not."""
    old, new = (dict(_flat(tomllib.loads(text.decode()))) for text in (before, after))
    keys = [*new, *(key for key in old if key not in new)]
    return [(key, old.get(key), new.get(key)) for key in keys if old.get(key) != new.get(key)]


def _flat(value: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, inside in value.items():
            yield from _flat(inside, f"{place}.{key}" if place else key)
    elif isinstance(value, list) and value and all(isinstance(one, Mapping) for one in value):
        for number, inside in enumerate(value):
            yield from _flat(inside, f"{place}.{inside.get('name', number)}")
    else:
        yield place, value


def _put_aside(path: Path, key: PublicKey, study: Study) -> None:
    """Keep what was agreed to before under another name; refuse if it is the same study's."""
    if not path.exists():
        return
    before = Grant.load(path, key)
    if before.study_sha256 == study.sha256 and before.expires > datetime.now(UTC):
        raise StudyError(f"grant: {path.name} is there already; give another file with --grant.")
    when = before.approved_at.astimezone(UTC).strftime("%Y%m%dT%H%M%S")
    aside = path.with_name(f"{path.stem}-{when}-{before.study_sha256[:8]}.json")
    path.rename(aside)


def _write_grant(path: Path, content: bytes) -> None:
    """Make a file unless it is there: of two who approve, one does."""
    try:
        write_new(path, content, mode=0o644)
    except FileExistsError:
        raise StudyError(f"grant: {path.name} is there already; nothing was written.") from None
    except OSError as error:
        raise StudyError(f"grant: {path.name} cannot be written ({error.strerror}).") from None
