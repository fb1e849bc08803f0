"""What a dashboard shows, gathered from its folders: read again whenever a file has changed.

What lies in the folders: ledgers, studies, releases and runs. Budgets over all ledgers: what was
spent, what is left, and what one person has paid in all. Runs: who was asked what and how that
ended. No table is opened, and a key for an approval alone. Releases are files that a stranger may
have written: a folder is believed once its sums, its signatures and its parts agree.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from functools import lru_cache, wraps
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import TypeAdapter, ValidationError

from confrere.errors import ConfrereError, SignatureError, StudyError
from confrere.kernel.guarantee import at_least, plus
from confrere.kernel.ledger import FIRST_BYTES
from confrere.ledger import Account, LedgerReader, witnessed
from confrere.release import load_rehearsal, read_additions, read_folder
from confrere.release.signing import fingerprint, has_passphrase, read_private_key
from confrere.release.spending import risk_in_words, schema_of
from confrere.views import Table
from confrere_federation.parties.party import SignedApproval
from confrere_federation.progress import CONNECTED, OPERATION_WORDS, STATUS, read_progress
from confrere_federation.studies.running import (
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

#: What is shown of something: plain values, and what templates know how to show.
Facts = dict[str, Any]

#: How deep folders are looked through, and how many entries are looked at in all.
_DEPTH, _MOST, _STUDY_BYTES = 4, 20_000, 1 << 20


@dataclass(frozen=True)
class Place:
    path: Path
    shown: str  #: The same for people: from the folder on that the dashboard was given

    @property
    def id(self) -> str:
        """What names it in addresses: follows from the path alone, and says nothing about it."""
        return hashlib.sha256(os.fsencode(self.path)).hexdigest()[:16]


@dataclass
class Contents:
    ledgers: list[Place] = field(default_factory=list)
    studies: list[Place] = field(default_factory=list)
    releases: list[Place] = field(default_factory=list)
    runs: list[Place] = field(default_factory=list)
    gone: list[Path] = field(default_factory=list)  #: Given folders that cannot be read
    cut: bool = False  #: Whether there was more than is looked at


def look_through(folders: Sequence[Path]) -> Contents:
    found, seen = Contents(), set[Path]()
    for folder in folders:
        root = folder.resolve()
        if not os.access(root, os.R_OK | os.X_OK) or not root.is_dir():
            found.gone.append(folder)
            continue
        for path, kind in _walk(root):
            found.cut = found.cut or len(seen) >= _MOST
            if found.cut:
                break
            if kind is not None and path not in seen:
                shown = Path(root.name) / path.relative_to(root)
                getattr(found, kind).append(Place(path, str(shown)))
            seen.add(path)
    return found


def _walk(root: Path) -> Iterator[tuple[Path, str | None]]:
    """Yield everything below a folder with the kind that it is of; links are not followed."""
    for folder, inside, unsorted in os.walk(root, onerror=lambda _: None):
        here, files = Path(folder), sorted(unsorted)
        if "SHA256SUMS" in files and {"card.json", "rehearsal.json"} & set(files):
            yield here, "releases"
            inside.clear()
            continue
        depth = len(here.relative_to(root).parts)
        inside[:] = sorted(n for n in inside if not n.startswith(".")) if depth < _DEPTH else []
        if STATUS in files:
            yield here, "runs"
        for name in files:
            yield here / name, _kind(here / name)


def _kind(path: Path) -> str | None:
    if path.suffix == ".toml":
        text = _part(path, _STUDY_BYTES)
        return "studies" if b"[study]" in text and b"[[party]]" in text else None
    # A file that is called a ledger is shown as what it is, even if it is none.
    is_one = path.suffix == ".ledger" or (
        not path.suffix and _part(path, len(FIRST_BYTES)) == FIRST_BYTES
    )
    return "ledgers" if is_one else None


def _part(path: Path, size: int, *, last: bool = False) -> bytes:
    """Return the beginning or the end of a file."""
    try:  # following no link: a folder from elsewhere must not show files of this machine
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(handle, "rb") as file:
            if last:
                file.seek(max(0, file.seek(0, os.SEEK_END) - size))
            return file.read(size) or b""
    except OSError:
        return b""


def state_of(*paths: Path) -> tuple[tuple[str, int, int], ...]:
    """Return what changes when one of the files does: for what is remembered about them."""
    told = []
    for path in paths:
        with suppress(OSError):
            stat = path.stat()
            told.append((str(path), stat.st_mtime_ns, stat.st_size))
    return tuple(told)


class Book:
    """A ledger as it stands; of one that cannot be believed nothing is shown but why."""

    fault: str | None = None
    witness: str | None = None  #: What speaks against it elsewhere
    ledger_id = head = ""
    charges = rows = 0
    accounts: Sequence[Account] = ()
    by_study: Mapping[tuple[str, str, str], Decimal] = {}  #: By account, study id and hash

    def __init__(self, place: Place) -> None:
        self.place, self.name = place, place.path.name
        try:
            reader = self.reader
            charges, accounts, studies = reader.count(), reader.accounts(), reader.by_study()
            self.rows, self.witness = reader.verify(), witnessed(place.path)["complaint"]
            self.ledger_id, self.head, self.charges = reader.ledger_id, reader.head(), charges
            self.accounts, self.by_study = accounts, studies
        except (ConfrereError, OSError) as error:
            self.fault = " ".join(str(error).split()) or type(error).__name__

    @property
    def reader(self) -> LedgerReader:
        return LedgerReader.look(self.place.path)


@dataclass
class PersonTotal:
    """What one unit has paid in all accounts that count the same way, were it in all of them."""

    unit: str  #: What the accounts count, with ``neighbours``
    neighbours: str
    exact: Decimal = Decimal(0)  #: Epsilon in all
    recent: Decimal = Decimal(0)  #: and since the year began
    accounts: int = 0
    #: Accounts of which some charges name no study that is here: a record is then taken to be one
    #: person's only one.
    unknown: int = 0
    names: set[str] = field(default_factory=set)  #: What studies call one of them: "patient"

    @property
    def people(self) -> str:
        return next(iter(self.names)) if len(self.names) == 1 else self.unit

    @property
    def paid(self) -> float:
        return at_least(self.exact)

    @property
    def this_year(self) -> float:
        return at_least(min(self.recent, self.exact))


def person_totals(
    books: Sequence[Book],
    # From a study's hash to what one unit is called, and its most records: it paid for each.
    studies: Mapping[str, tuple[str, int]],
    year: int | None = None,  # By default this one, in UTC
) -> list[PersonTotal]:
    """Add up what one unit has paid over all accounts of the same unit and relation."""
    this = year or datetime.now(UTC).year
    found: dict[tuple[str, str], PersonTotal] = {}
    for book, account in ((one, account) for one in books for account in one.accounts):
        kind = str(account.unit), str(account.neighbours)
        total = found.setdefault(kind, PersonTotal(*kind))
        own = {sha: e for (name, _, sha), e in book.by_study.items() if name == account.name}
        rows = {sha: studies[sha][1] if sha in studies else 1 for sha in own}
        for sha, epsilon in own.items():
            total.exact = plus(total.exact, epsilon * rows[sha])
        total.names |= {studies[sha][0] for sha in own if sha in studies}
        # Which of a year's charges were whose study's is not kept: the largest factor is safe.
        spent = Decimal(repr(account.years.get(this, 0.0)))
        total.recent = plus(total.recent, spent * max(rows.values(), default=1))
        total.accounts += 1
        total.unknown += not own.keys() <= studies.keys()
    return list(found.values())


#: After so many seconds without a word a run that has not ended is shown as silent.
_SILENT_SECONDS = 120
_LAST_LINES, _LOG_BYTES = 20, 8192


class Reply(NamedTuple):
    """How a party stands in a step, and what it has paid."""

    state: str
    epsilon: float | None = None
    row: int | None = None
    code: str | None = None  #: Why it was dropped


@dataclass(frozen=True)
class RunStep:
    operation: str
    step: int
    parties: Mapping[str, Reply]
    until: datetime | None = None

    @property
    def question(self) -> str:
        words = OPERATION_WORDS.get(self.operation, self.operation)
        return f"{words} ({self.step})" if self.step else words


@dataclass(frozen=True)
class Run:
    """What a coordinator's or a party's file says: who is where, asked what, and how many."""

    state: str
    at: datetime  #: The last word
    party: str | None = None
    study_id: str | None = None
    parties: Mapping[str, str] = field(default_factory=dict)
    steps: tuple[RunStep, ...] = ()

    @classmethod
    def read(cls, folder: Path) -> Run | None:
        """Return what lies in a folder; None if a run did not write it."""
        try:
            return TypeAdapter(cls).validate_python(read_progress(folder))
        except ValidationError:
            return None

    @property
    def role(self) -> str:
        return "coordinator" if self.party is None else "party"

    @property
    def where(self) -> Mapping[str, str]:
        return self.parties if self.party is None else {self.party: self.state}

    @property
    def ending(self) -> str:
        if self.state == "released":
            return self.state
        return "failed" if self.state.startswith(("released", "failed", "left out")) else "running"

    @property
    def silent(self) -> bool:
        """Whether a coordinator that has not ended says nothing any more."""
        quiet = (datetime.now(UTC) - self.at).total_seconds() > _SILENT_SECONDS
        return quiet and self.ending == "running" and self.party is None

    @property
    def left(self) -> int | None:
        """Seconds for which answers are still waited for."""
        asked = [s for s in self.steps if any(one.state == "asked" for one in s.parties.values())]
        if self.ending != "running" or not asked or asked[-1].until is None:
            return None
        return max(0, round((asked[-1].until - datetime.now(UTC)).total_seconds()))

    @property
    def counts(self) -> dict[str, int]:
        last = {name: one.state for step in self.steps for name, one in step.parties.items()}
        paid = {n for s in self.steps for n, one in s.parties.items() if one.epsilon is not None}
        return {
            "connected": sum(where.startswith(CONNECTED) for where in self.where.values()),
            "asked": len(last),
            "answered": sum(where == "answered" for where in last.values()),
            "paid": len(paid),
            "dropped": sum(where == "dropped" for where in last.values()),
        }


def last_lines(folder: Path) -> list[str]:
    """Return the end of a coordinator's log, if it has one."""
    text = _part(folder / "line.log", _LOG_BYTES, last=True).decode("utf-8", "replace")
    return text.splitlines()[-_LAST_LINES:]


_MOST_REMEMBERED = 500
_LOOK_AGAIN_SECONDS = 2
_MOST_FILES = 500

#: Asks for a key's passphrase in the terminal; None if nobody is there to type it.
AskPassphrase = Callable[[str], str | None]


class Dashboard:
    def __init__(
        self,
        folders: Sequence[Path],
        *,
        # Is given what is to be signed; returns what was typed in the terminal.
        ask_passphrase: AskPassphrase | None = None,
    ) -> None:
        self.ask_passphrase = ask_passphrase or (lambda _: None)
        remembered = lru_cache(_MOST_REMEMBERED)
        self._contents = lru_cache(1)(lambda _: look_through(folders))
        self._book = remembered(lambda place, _: Book(place))
        self._told = remembered(
            lambda facts, place, _: {"place": place, "name": place.path.name, **facts(place.path)}
        )

    def contents(self) -> Contents:
        return self._contents(time.monotonic() // _LOOK_AGAIN_SECONDS)

    def place(self, kind: str, name: str) -> Place | None:
        places: list[Place] = getattr(self.contents(), kind)
        return next((one for one in places if one.id == name), None)

    def books(self) -> list[Book]:
        return [self.book(place) for place in self.contents().ledgers]

    def book(self, place: Place) -> Book:
        """Return one ledger, read again if its file or the day has changed."""
        return self._book(place, (state_of(place.path), datetime.now(UTC).date()))

    def study(self, place: Place) -> Facts:
        """Return a study, read again if it, what lies beside it or a ledger has changed."""
        files: list[Path] = []
        for folder in (place.path.parent, place.path.parent / "local"):
            with suppress(OSError):
                files += sorted(folder.iterdir())[:_MOST_FILES]
        ledgers = [one.path for one in self.contents().ledgers]
        around = datetime.now(UTC).date(), state_of(place.path, *files, *ledgers)
        return self._told(study_facts, place, around)

    def studies(self) -> list[Facts]:
        return [self.study(place) for place in self.contents().studies]

    def states(self) -> list[str]:
        """Return how every study stands at every party that is here."""
        return [one["state"] for each in self.studies() for one in each.get("parties", {}).values()]

    def release(self, place: Place) -> Facts:
        inside = sorted(place.path.rglob("*"))[:_MOST_FILES]
        return self._told(release_facts, place, state_of(*inside))

    def releases(self) -> list[Facts]:
        return [self.release(place) for place in self.contents().releases]

    def runs(self) -> list[tuple[Place, Run | None]]:
        """Return every run; None of one whose file cannot be read."""
        return [(place, Run.read(place.path)) for place in self.contents().runs]

    def paid_rows(self) -> dict[tuple[str, int], Facts]:
        """Return which release a ledger's row paid for, by the ledger's own name and the row."""
        return {
            (receipt.ledger_id, receipt.row): one
            for one in self.releases()
            for receipt in one.get("receipts", ())
        }

    def units(self) -> dict[str, tuple[str, int]]:
        """Return whom known studies are about, and how many rows one has, by their hashes."""
        cards = (one["card"] for one in self.releases() if "card" in one)
        found = {
            card.study_sha256: (
                card.guarantee.unit_detail.removeprefix("one "),
                card.guarantee.max_rows_per_unit,
            )
            for card in cards
            if card.study_sha256
        }
        known = (one for one in self.studies() if "fault" not in one)
        return found | {one["sha256"]: (one["unit"], one["rows"]) for one in known}


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
def study_facts(file: Path) -> Facts:
    study = read_study(file)
    locals_ = gather_locals(study, file)
    plan, told = make_plan(study, locals_), study.privacy
    cost, names = plan.costs[0].guarantee, ("id", "sha256", "title", "purpose", "simulated")
    return {name: getattr(study, name) for name in (*names, "engine", "quorum")} | {
        "method": study.method.name,
        "epsilon": cost.epsilon,
        "delta": cost.delta,
        "privacy_unit": str(told.privacy_unit),
        "relation": str(told.neighbours),
        "unit": told.unit,
        "rows": told.max_rows_per_unit,
        "parties_per_unit": told.parties_per_unit,
        "justification": told.justification,
        "columns": [one.titled for one in study.schema.features],
        "label": study.outcome.titled,
        "members": study.parties,
        "epsilon_per_unit": plan.epsilon_per_unit,
        "trust": str(trust_of(study)),
        "trust_words": trust_words(study),
        "risk": risk_in_words(cost.epsilon, cost.delta, cost.unit, cost.neighbours)["text"],
        "parties": {
            one.party: {
                **one.to_dict(),
                "not_covered": plainly(lambda one=one: one.check() or {})().get("fault"),
                **_standing(study, file, locals_[one.party]),
            }
            for one in plan.costs
            if one.here
        },
    }


def _standing(study: Study, file: Path, local: Local) -> Facts:
    """Say whether a study waits, is agreed to or refused at a party, by whom; what it asks."""
    refusal = standing_refusal(study, local)
    approvals = list(earlier_approvals(file.parent, study.party(local.party).key))
    approval = next((one for one, _ in approvals if one.study_sha256 == study.sha256), None)
    before = next((each for each in approvals if each[0].study_sha256 != study.sha256), None)
    state, said = "waiting", refusal or (approval and approval.approval)
    if refusal is not None:
        state = refusal.said
    elif approval is not None:
        state = "expired" if approval.expires <= datetime.now(UTC) else "agreed"
        state = "answered" if has_answered(local, approval.runs) else state
    asked = {} if study.engine == "local" else _questions(study, local)
    return {
        "state": state,
        "said": said,
        "expires": None if approval is None or refusal else approval.expires.isoformat(),
        "changes": None if before is None else _changes(*before, study),
        "questions": asked.get("questions", ()),
        "not_allowed": asked.get("fault"),
        "key_locked": local.key_path is not None and has_passphrase(local.key_path),
        "has_key": local.key_path is not None,
    }


def _changes(before: SignedApproval, content: bytes | None, study: Study) -> Facts:
    def text(value: object) -> str:
        return "not there" if value is None else json.dumps(value, ensure_ascii=False, default=str)

    told = [] if content is None else changed_facts(content, study.content)
    keys = Table(("key", "was", "is"), [(key, text(a), text(b)) for key, a, b in told])
    return {"approval": before, "known": content is not None, "keys": keys}


@plainly
def _questions(study: Study, local: Local) -> Facts:
    """Return what would be asked, in words, or why it cannot be."""
    approval = make_approval(study, local, approved_by="nobody", reason="none")
    return {"questions": asked_in(approval)}


@plainly
def decide(
    file: Path,  # The study's
    party: str,  # Who decides
    sha256: str,  # The hash of what was shown to them
    *,
    agree: bool,
    words: Facts,  # ``name``, ``reason`` and, to agree, ``justification``
    approval: Path,  # The file to write
    passphrase: str | None = None,  # Of the party's key
) -> Facts:
    study = read_study(file)
    if study.sha256 != sha256:
        raise StudyError("the study has changed since it was shown; look at it again.")
    local = gather_locals(study, file)[party]
    if not agree:
        refuse_study(study, local, approval=approval, **words)
        return {}
    if local.key_path is None:
        raise StudyError("key_path: the local file names no key to sign with.")
    key = read_private_key(local.key_path, passphrase)
    approve_study(study, local, key=key, approval=approval, **words)
    return {}


@plainly
def release_facts(path: Path) -> Facts:
    folder, release = read_folder(path), load_rehearsal(path)
    model, schema = release.model, schema_of(release.model.encoder)
    try:
        added, fault = read_additions(folder), ""
    except ConfrereError as error:
        added, fault = (), f"what was added later does not verify: {error}"
    return {
        "card": release.card,
        "signatures": _signatures(path, folder.signers, folder.files.get("study.toml")),
        "receipts": release.spending.receipts(),
        "records": model.facts.n_samples,  # where that is public
        "parties": model.facts.parties or len(release.parties) or 1,
        "columns": model.features if schema is None else [x.titled for x in schema.features],
        "classes": model.labels,
        "model": release.terms(added),
        "quality": [one.addition for one in added],
        "quality_fault": fault,
    }


def _signatures(path: Path, signers: Mapping[str, str], study: bytes | None) -> list[Facts]:
    """Say who signed, and whether it is with the key that the study names for them."""
    keys: dict[str, str] = {}
    with suppress(ConfrereError):
        if study is not None:
            keys = {p.name: p.key for p in study_from_bytes(study).parties if p.key}
    told = []
    for party, used in signers.items():
        state = "signed" if party in keys else "signed, by a key that the study does not name"
        try:
            read_folder(path, require_signature_from={p: k for p, k in keys.items() if p == party})
        except SignatureError:
            state = "signed by another key than the study names: do not rely on it"
        told.append((party, used, state))
    told += [(p, fingerprint(k), "has not signed") for p, k in keys.items() if p not in signers]
    return [dict(zip(("party", "fingerprint", "state"), each, strict=True)) for each in told]
