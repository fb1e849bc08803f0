"""How far a coordinator or a party is: one small file, for people and for ``confrere status``."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from confrere.errors import EngineFailed, StudyError
from confrere.files import read_plain, write_whole

STATUS = "status.json"

#: What parties are asked, for people.
OPERATION_WORDS = {
    "size": "how many records there are",
    "check": "how well the agreed expectation fits the records here, with noise",
    "objective": "coefficients learned from the records here, with noise",
    **dict.fromkeys(("learn", "output"), "a model learned from the records here, with noise"),
    "coefficients": "sums over the records here, with noise",
    "ready": "whether it is there for the next sum",
    **dict.fromkeys(("minimiser", "gradient"), "a part of a model update, by secure aggregation"),
    "party_share": "a part of what all parties send together, by secure aggregation",
    "cohort": "counts of the records here for Table 1, with noise",
    "cohort_of_all": "a part of counts over the records of all, by secure aggregation",
    "ballot": "votes of the classifier here on public rows, without noise",
    "upload": "weights of the classifier here, without noise",
    "shares": "shares of classes over public cells, without noise",
}

#: Bytes of it that are read: of a folder that somebody else has made, too.
_LARGEST = 1 << 24

#: States of a party that has a line to its coordinator, or needs none any more.
_REPLIED = "replied, not checked yet"
#: After so many seconds without a word a run that has not ended is shown as silent.
_SILENT_SECONDS = 120
_CONNECTED = ("connected", "asked", _REPLIED, "answered", "released", "left out", "dropped")


class Progress:
    """The truth while waiting, told when it changes; who and which study stay as they are."""

    def __init__(
        self, folder: Path, tell: Callable[[str], None] | None = None, **facts: object
    ) -> None:
        self._path = folder / STATUS
        self._tell = tell
        self._facts = facts
        self._said = ""

    def say(self, state: str, **more: object) -> None:
        """Note a state; told aloud, with time and level, unless it was the last one too."""
        told = {**self._facts, "state": state, **more}
        at = datetime.now(UTC).isoformat(timespec="seconds")
        _write(self._path, json.dumps(told | {"at": at}).encode(), lasting=state == "released")
        said = json.dumps(told)
        if self._tell is not None and said != self._said:
            level = "ERROR" if state.startswith("failed") else "INFO"
            self._tell(f"{at} {level} {self._facts.get('party', 'coordinator')}: {state}")
        self._said = said


def _write(path: Path, content: bytes, *, lasting: bool) -> None:
    """Put a file in place of another; the disk is waited for only where a start depends on it."""
    if lasting:
        write_whole(path, content)
    else:
        draft = path.with_name(f".{path.name}")
        draft.write_bytes(content)
        draft.replace(path)


def read_progress(folder: Path) -> dict[str, object] | None:
    try:
        found = json.loads(read_plain(folder / STATUS, _LARGEST) or b"")
    except (OSError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


class Reply(NamedTuple):
    """How a party stands in a step, and what it has paid."""

    state: str
    epsilon: float | None = None
    row: int | None = None
    code: str | None = None  #: Why it was dropped


@dataclass(frozen=True)
class Step:
    """One question, and how everybody stands in it."""

    operation: str
    step: int
    parties: Mapping[str, Reply]
    until: datetime | None = None

    @property
    def question(self) -> str:
        """What is asked, for people."""
        words = OPERATION_WORDS.get(self.operation, self.operation)
        return f"{words} ({self.step})" if self.step else words


@dataclass(frozen=True)
class Run:
    """What a coordinator's or a party's file says: who is where, asked what, and how many."""

    state: str
    at: datetime  #: The last word
    party: str | None = None
    study_id: str | None = None
    ledger: str | None = None
    account: str | None = None
    parties: Mapping[str, str] = field(default_factory=dict)
    steps: tuple[Step, ...] = ()

    @classmethod
    def read(cls, folder: Path) -> Run | None:
        """Return what lies in a folder; None if it is nobody's.

        Raises StudyError if what is there was not written by a run.
        """
        from pydantic import TypeAdapter  # only for who looks: a party starts without it

        told = read_progress(folder)
        try:
            return None if told is None else TypeAdapter(cls).validate_python(told)
        except ValueError:
            raise StudyError(f"{STATUS}: it is not a run's.") from None

    @property
    def role(self) -> str:
        """Whose file it is."""
        return "coordinator" if self.party is None else "party"

    @property
    def where(self) -> Mapping[str, str]:
        """Where everyone is that the file knows of."""
        return self.parties if self.party is None else {self.party: self.state}

    @property
    def over(self) -> bool:
        """Whether it has ended, well or not."""
        return self.state.startswith(("released", "failed", "left out"))

    @property
    def silent(self) -> bool:
        """Whether a coordinator that has not ended says nothing any more."""
        quiet = (datetime.now(UTC) - self.at).total_seconds() > _SILENT_SECONDS
        return quiet and not self.over and self.party is None

    @property
    def left(self) -> int | None:
        """Seconds for which answers are still waited for."""
        asked = [s for s in self.steps if any(one.state == "asked" for one in s.parties.values())]
        if self.over or not asked or asked[-1].until is None:
            return None
        return max(0, round((asked[-1].until - datetime.now(UTC)).total_seconds()))

    @property
    def asked(self) -> list[str]:
        """Who was asked anything."""
        return sorted({name for step in self.steps for name in step.parties})

    @property
    def counts(self) -> dict[str, int]:
        """How many parties are how far."""
        last = {name: one.state for step in self.steps for name, one in step.parties.items()}
        paid = {n for s in self.steps for n, one in s.parties.items() if one.epsilon is not None}
        return {
            "connected": sum(where.startswith(_CONNECTED) for where in self.where.values()),
            "asked": len(last),
            "answered": sum(where == "answered" for where in last.values()),
            "paid": len(paid),
            "dropped": sum(where == "dropped" for where in last.values()),
        }


def places(
    states: Mapping[str, str], steps: Iterable[Mapping[str, Mapping[str, Mapping[str, str]]]]
) -> dict[str, str]:
    """Return where everyone is: a reply is an answer once it was checked, with those of all."""
    last = {name: one for step in steps for name, one in step["parties"].items()}
    found = dict(states)
    for name, state in states.items():
        told = last.get(name, {})
        if state == "answered" and told.get("state") != "answered":
            dropped = told.get("state") == "dropped"
            found[name] = f"dropped ({told['code']})" if dropped else _REPLIED
    return found


@contextmanager
def private(folder: Path, who: str) -> Iterator[Path]:
    """Be the only one of a kind in a folder that is its owner's alone, with all that is written."""
    before = os.umask(0o077)
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        folder.chmod(0o700)
        # The lock goes with the process, however that ends.
        with (folder / f"{who}.lock").open("ab") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise EngineFailed(
                    f"{folder}: another {who} works in this folder; end it, or give another "
                    "--folder."
                ) from None
            yield folder.resolve()
    finally:
        os.umask(before)
