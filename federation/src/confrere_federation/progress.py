"""How far a coordinator or a party is: one small file, for people and for ``confrere status``."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from confrere.errors import EngineFailed
from confrere.files import read_plain, write_whole
from confrere.kernel.ledger import lock

STATUS = "status.json"

#: What parties are asked, for people.
OPERATION_WORDS = {
    "size": "how many records there are",
    "check": "how well the agreed expectation fits the records here, with noise",
    "objective": "coefficients learned from the records here, with noise",
    **dict.fromkeys(("learn", "output"), "a model learned from the records here, with noise"),
    **dict.fromkeys(("coefficients", "intervals"), "sums over the records here, with noise"),
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

#: States of a party that has a line to its coordinator, or needs none any more. What it replied was
#: checked where a step says that it has answered.
CONNECTED = ("connected", "asked", "replied", "answered", "released", "left out")


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
        """Note a state; told aloud, with time and level, unless it was told last."""
        told = {**self._facts, "state": state, **more}
        at = datetime.now(UTC).isoformat(timespec="seconds")
        _write(self._path, json.dumps(told | {"at": at}).encode(), lasting=state == "released")
        if self._tell is not None and state != self._said:
            level = "ERROR" if state.startswith("failed") else "INFO"
            self._tell(f"{at} {level} {self._facts.get('party', 'coordinator')}: {state}")
        self._said = state


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


@contextmanager
def private(folder: Path, who: str) -> Iterator[Path]:
    """Be the only one of a kind in a folder that is its owner's alone, with all that is written."""
    if not hasattr(os, "geteuid"):  # Windows, where no mode makes a folder one's own alone
        raise EngineFailed(f"a {who} runs on Linux or macOS; models are fitted on Windows, too.")
    before = os.umask(0o077)
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        folder.chmod(0o700)
        # The lock goes with the process, however that ends.
        with (folder / f"{who}.lock").open("ab") as file:
            try:
                lock(file.fileno())
            except BlockingIOError:
                raise EngineFailed(
                    f"{folder}: another {who} works in this folder; end it, or give another "
                    "--folder."
                ) from None
            yield folder.resolve()
    finally:
        os.umask(before)
