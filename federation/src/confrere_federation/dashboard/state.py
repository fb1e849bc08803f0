"""What a dashboard shows, gathered from its folders: read again whenever a file has changed.

What lies in the folders: ledgers, studies, releases and runs. Budgets over all ledgers: what was
spent, what is left, and what one person has paid in all. Runs: who was asked what and how that
ended, live; and the counts that programs may read. What needs studies, releases and numbers says
:mod:`~confrere_federation.dashboard.facts`, and it is remembered as long as the files that it is
about stay as they are. No table is opened.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import TypeAdapter, ValidationError

from confrere.errors import ConfrereError
from confrere.kernel.guarantee import at_least, plus
from confrere.kernel.ledger import FIRST_BYTES
from confrere.ledger import Account, LedgerReader, witnessed
from confrere_federation.progress import CONNECTED, OPERATION_WORDS, STATUS, read_progress

#: What is shown of something: plain values.
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
    if path.suffix == ".ledger" or path.suffix == "":
        # A file that is called a ledger is shown as what it is, even if it is none.
        is_one = _part(path, len(FIRST_BYTES)) == FIRST_BYTES or path.suffix == ".ledger"
        return "ledgers" if is_one else None
    return None


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


#: Ledgers of so many charges at most have their sums checked whenever they are shown.
SMALL = 2_000


class Book:
    """A ledger as it stands; of one that cannot be believed nothing is shown but why."""

    fault: str | None = None
    witness: str | None = None  #: What speaks against it elsewhere
    ledger_id = head = ""
    charges = 0
    #: Rows whose sums were checked just now; None where there are many, which takes longer.
    verified: int | None = None
    accounts: Sequence[Account] = ()
    by_study: Mapping[tuple[str, str, str], Decimal] = {}  #: By account, study id and hash

    def __init__(self, place: Place) -> None:
        self.place, self.name = place, place.path.name
        try:
            reader = self.reader
            charges, accounts, studies = reader.count(), reader.accounts(), reader.by_study()
            self.verified = reader.verify() if charges <= SMALL else None
            self.witness = witnessed(place.path)["complaint"]
            self.ledger_id, self.head, self.charges = reader.ledger_id, reader.head(), charges
            self.accounts, self.by_study = accounts, studies
        except (ConfrereError, OSError) as error:
            self.fault = " ".join(str(error).split()) or type(error).__name__

    @property
    def reader(self) -> LedgerReader:
        return LedgerReader.look(self.place.path)


def _verified(path: Path) -> Facts:
    try:
        return {"rows": LedgerReader.look(path).verify()}
    except (ConfrereError, OSError) as error:
        return {"fault": " ".join(str(error).split()) or type(error).__name__}


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


#: How often a watched run's file is looked at, and how long silence may last on the line.
_TICK_SECONDS = 1.0
_SILENCE_TICKS = 15

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
    def asked(self) -> list[str]:
        return sorted({name for step in self.steps for name in step.parties})

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


async def changes(
    place: Place, page: Callable[[], str], gone: Callable[[], Awaitable[bool]]
) -> AsyncIterator[str]:
    """Yield server-sent events: the run's part of the page whenever its file has changed."""
    seen: object = None
    silence = 0
    while not await gone():
        now = state_of(place.path / STATUS, place.path / "line.log")
        silence += 1
        if now != seen:
            seen, silence = now, 0
            text = await asyncio.to_thread(page)
            data = "".join(f"data: {line}\n" for line in text.splitlines())
            yield f"event: run\n{data}\n"
        elif silence >= _SILENCE_TICKS:
            silence = 0
            yield ": nothing new\n\n"
        await asyncio.sleep(_TICK_SECONDS)


def metrics(counts: Mapping[str, int], runs: Sequence[Run]) -> str:
    """Return counts in Prometheus' text form; no names, no costs, nothing about data."""
    found, ended = dict(counts), Counter((run.role, run.ending) for run in runs)
    for role in ("coordinator", "party"):
        for state in ("running", "released", "failed"):
            found[f'runs{{role="{role}",state="{state}"}}'] = ended[role, state]
    for state in ("connected", "asked", "answered", "paid", "dropped"):
        told = (run.counts[state] for run in runs if run.party is None)
        found[f'run_parties{{state="{state}"}}'] = sum(told)
    lines = []
    for name, value in found.items():
        family = name.partition("{")[0]
        kind = f"# TYPE confrere_{family} {'counter' if family.endswith('_total') else 'gauge'}"
        lines += [] if kind in lines else [kind]
        lines.append(f"confrere_{name} {value}")
    return "\n".join(lines) + "\n"


_MOST_REMEMBERED = 500
_LOOK_AGAIN_SECONDS = 2.0
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
        self.folders = tuple(folders)
        self.ask_passphrase = ask_passphrase or (lambda _: None)
        self._lock, self._one_at_a_time = threading.Lock(), threading.Lock()
        self._looked: tuple[float, Contents] | None = None
        aside = ThreadPoolExecutor(1)
        self._checked = lru_cache(_MOST_REMEMBERED)(lambda path, _: aside.submit(_verified, path))
        self._book = lru_cache(_MOST_REMEMBERED)(lambda place, _: Book(place))
        self._told = lru_cache(_MOST_REMEMBERED)(lambda name, path, _: self.do(name, path))

    def contents(self) -> Contents:
        with self._lock:
            if self._looked is None or time.monotonic() - self._looked[0] > _LOOK_AGAIN_SECONDS:
                self._looked = (time.monotonic(), look_through(self.folders))
            return self._looked[1]

    def place(self, kind: str, name: str) -> Place | None:
        places: list[Place] = getattr(self.contents(), kind)
        return next((one for one in places if one.id == name), None)

    def books(self) -> list[Book]:
        return [self.book(place) for place in self.contents().ledgers]

    def book(self, place: Place) -> Book:
        """Return one ledger, read again if its file or the day has changed."""
        return self._book(place, (state_of(place.path), datetime.now(UTC).date()))

    def verified(self, book: Book) -> Facts | None:
        """Return whether every row and sum of a ledger is right; None while that is worked out."""
        if book.verified is not None:
            return {"rows": book.verified}
        begun = self._checked(book.place.path, book.head)
        return begun.result() if begun.done() else None

    def do(self, function: str, path: str, *args: str, **more: Any) -> Facts:
        """Have a function of :mod:`~confrere_federation.dashboard.facts` called."""
        from confrere_federation.dashboard import facts  # takes seconds, and memory

        with self._one_at_a_time:
            found: Facts = getattr(facts, function)(path, *args, **more)
        return found

    def study(self, place: Place) -> Facts:
        told = self._told("study_facts", str(place.path), self._around(place.path))
        return {"place": place, "name": place.path.name, **told}

    def studies(self) -> list[Facts]:
        return [self.study(place) for place in self.contents().studies]

    def states(self) -> list[str]:
        """Return how every study stands at every party that is here."""
        return [one["state"] for each in self.studies() for one in each.get("parties", {}).values()]

    def release(self, place: Place) -> Facts:
        inside = sorted(place.path.rglob("*"))[:_MOST_FILES]
        told = self._told("release_facts", str(place.path), state_of(*inside))
        return {"place": place, "name": place.path.name, **told}

    def releases(self) -> list[Facts]:
        return [self.release(place) for place in self.contents().releases]

    def runs(self) -> list[tuple[Place, Run | None]]:
        """Return every run; None of one whose file cannot be read."""
        return [(place, Run.read(place.path)) for place in self.contents().runs]

    def paid_rows(self) -> dict[tuple[str, int], Facts]:
        """Return which release a ledger's row paid for, by the ledger's own name and the row."""
        return {
            (receipt["ledger_id"], receipt["row"]): one
            for one in self.releases()
            for receipt in one.get("receipts", ())
        }

    def units(self) -> dict[str, tuple[str, int]]:
        """Return whom known studies are about, and how many rows one has, by their hashes."""
        known = (one for one in self.studies() if "fault" not in one)
        found = {one["sha256"]: (one["unit"], one["rows"]) for one in known}
        for one in self.releases():
            card = one.get("card")
            if card is not None and card["study_sha256"]:
                unit = card["guarantee"]["unit_detail"].removeprefix("one ")
                rows = card["guarantee"]["max_rows_per_unit"]
                found.setdefault(card["study_sha256"], (unit, rows))
        return found

    @staticmethod
    def approval_name(study: Facts, party: str) -> str:
        """Return where an approval goes: beside the study, named for its party among several."""
        return "approval.json" if len(study["parties"]) == 1 else f"approval-{party}.json"

    def _around(self, path: Path) -> object:
        """Return what changes when a study, what lies beside it, or a ledger does."""
        files: list[Path] = []
        for folder in (path.parent, path.parent / "local"):
            with suppress(OSError):
                files += sorted(folder.iterdir())
        ledgers = [place.path for place in self.contents().ledgers]
        day = datetime.now(UTC).date()
        return day, state_of(path, *files[:_MOST_FILES], *ledgers)
