"""The head of the chain, kept in a second place, so that a ledger cannot quietly go back.

A hash chain shows changes inside it. It does not show that rows were cut from its end, that an
older copy was put back, that it was rebuilt, or that the file was deleted and made anew: all these
are whole chains. So the last row's number and hash are also kept in a folder that a backup of the
ledger does not touch, and compared at every opening and before every charge. The witness may be
behind, if a kill came before it was told: a head that is in the chain is fine. A head that is not
in the chain means that rows which were there are gone.

Beside the head lies what every account had spent: when the owner goes on from a file in which rows
are gone, what they had charged is not, since what it paid for has left.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from confrere.errors import LedgerError, WitnessMismatch
from confrere.guarantee import at_least, exact, minus
from confrere.ledger.logfile import LogFile

#: A head fits a sector, so that it is written whole or not at all.
_RECORD = 512
#: An account's name may be long.
_LONG_RECORD = 2048
#: How blanks are written in the system's list of mounts.
_OCTAL = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True, slots=True)
class Head:
    """The last row that was seen.

    Attributes
    ----------
    ledger_id : str
    row : int
    hash : str
    time : str
        When it was seen, in UTC.
    """

    ledger_id: str
    row: int
    hash: str
    time: str


@dataclass(frozen=True, slots=True)
class Spent:
    """What an account had spent, and what it was.

    Attributes
    ----------
    ledger_id : str
    account : str
    epsilon, delta : float
        All that was charged to it, never less.
    facts : mapping
        Caps, unit, neighbours and period: what opens it again, should its own row be gone.
    """

    ledger_id: str
    account: str
    epsilon: float
    delta: float
    facts: Mapping[str, Any]


def witness_folder(folder: str | os.PathLike[str] | None = None) -> Path:
    """Return where heads are kept.

    ``folder`` if given; else what the environment variable ``CONFRERE_WITNESS`` names; else
    ``confrere/witness`` in the user's state folder (``XDG_STATE_HOME``, or ``~/.local/state``).
    """
    chosen = os.fspath(folder) if folder is not None else os.environ.get("CONFRERE_WITNESS")
    if chosen:
        return Path(chosen).expanduser().absolute()
    state = os.environ.get("XDG_STATE_HOME")
    return (Path(state) if state else Path.home() / ".local" / "state") / "confrere" / "witness"


def shared_storage(ledger: Path, witness: Path) -> Literal["mount", "device"] | None:
    """Say what a ledger's folder and its witness have in common.

    On one mount, whoever puts back a volume puts back both, and nothing is noticed. Two mounts of
    one device (two volumes on a disk) are put back apart, but for a snapshot of all of it.

    Parameters
    ----------
    ledger, witness : Path
        Their folders; what is not there yet is where its nearest parent is.
    """
    first, second = (_there(folder) for folder in (ledger, witness))
    if _mount_of(first) == _mount_of(second):
        return "mount"
    return "device" if first.stat().st_dev == second.stat().st_dev else None


def _there(folder: Path) -> Path:
    return next(one for one in (folder.absolute(), *folder.absolute().parents) if one.exists())


def _mount_of(folder: Path) -> Path:
    """Return the mount point of a folder; on Linux mounts of one device differ by their place."""
    real = folder.resolve()
    try:
        lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return next(one for one in (real, *real.parents) if one.is_mount())
    points = [Path(_OCTAL.sub(lambda m: chr(int(m[1], 8)), line.split(" ")[4])) for line in lines]
    inside = [one for one in points if real.is_relative_to(one)]
    return max(inside, key=lambda one: len(one.parts), default=Path(real.anchor))


@lru_cache
def _head_file(folder: Path, ledger_id: str) -> Path:
    return folder / f"{_hashed(ledger_id)}.head"


@lru_cache
def _spent_file(folder: Path, ledger_id: str, account: str) -> Path:
    return folder / f"{_hashed(ledger_id)}.{_hashed(account)}.spent"


def _hashed(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()[:32]


class Witness:
    """Heads of ledgers, one small file each, and which ledger a path held.

    Parameters
    ----------
    folder : Path
        Made, for its owner only, when there is something to keep.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def file_of(self, ledger_id: str) -> Path:
        """Return the file that keeps a ledger's head."""
        return _head_file(self.folder, ledger_id)

    def head_of(self, ledger_id: str) -> Head | None:
        """Return the last head that was kept, if any."""
        values = self._read(self.file_of(ledger_id))
        return None if values is None else Head(**values)

    def ledger_at(self, path: Path) -> str | None:
        """Return which ledger a path held when it was last opened."""
        values = self._read(self._path_file(path))
        return None if values is None else str(values["ledger_id"])

    def check(self, log: LogFile, path: Path) -> None:
        """Compare a ledger with what was kept of it.

        Raises
        ------
        WitnessMismatch
            If rows that were there are gone, or another ledger was there.
        """
        head = self.head_of(log.index.ledger_id)
        if head is None:
            return
        row = log.at(head.row)
        if row is None:
            raise self._mismatch(
                path,
                head,
                f"now it has {log.tail.seq}: an older copy was put back, or rows "
                "were cut from its end",
            )
        if row.hash != head.hash:
            raise self._mismatch(path, head, "now that row is another one: the chain was rebuilt")

    def check_place(self, ledger_id: str | None, path: Path) -> None:
        """Refuse a path that held another ledger; ``ledger_id`` is None for one not made yet."""
        before = self.ledger_at(path)
        if before in (None, ledger_id):
            return
        head = self.head_of(before) if before is not None else None
        now = "now there is none" if ledger_id is None else "now there is another one"
        raise self._mismatch(path, head, f"{now}: the file was deleted, moved or replaced")

    def keep(self, log: LogFile) -> None:
        """Keep the last row of a ledger."""
        row = log.tail
        head = {
            "ledger_id": log.index.ledger_id,
            "row": row.seq,
            "hash": row.hash,
            "time": row.time,
        }
        self._write(self.file_of(log.index.ledger_id), head)

    def keep_spent(self, log: LogFile, accounts: Iterable[str]) -> None:
        """Keep what accounts of a ledger have spent."""
        ledger_id = log.index.ledger_id
        for account in accounts:
            balance = log.index.balance(account)
            told = {
                "ledger_id": ledger_id,
                "account": account,
                "epsilon": balance.spent,
                "delta": at_least(balance.delta_spent),
                "facts": balance.facts,
            }
            self._write(_spent_file(self.folder, ledger_id, account), told, _LONG_RECORD)

    def lacks_spent(self, log: LogFile) -> list[str]:
        """Return accounts of which nothing is kept: an older version kept heads only."""
        ledger_id = log.index.ledger_id
        names = [account.name for account in log.index.accounts()]
        return [one for one in names if not _spent_file(self.folder, ledger_id, one).exists()]

    def spent_of(self, ledger_id: str) -> list[Spent]:
        """Return what accounts of a ledger had spent."""
        files = sorted(self.folder.glob(f"{_hashed(ledger_id)}.*.spent"))
        return [Spent(**values) for values in map(self._read, files) if values is not None]

    def lost(self, log: LogFile, path: Path) -> list[Spent]:
        """Return what accounts had spent that the file does not show, as far as is known.

        Of a file that is shorter than it was, the difference. Of a chain that was rebuilt, or a
        ledger that another one was put in the place of, all of it: nothing says that what the file
        shows is the same.
        """
        own, before = log.index.ledger_id, self.ledger_at(path)
        found = [] if before in (None, own) else self.spent_of(str(before))
        head = self.head_of(own)
        row = None if head is None else log.at(head.row)
        if head is None or (row is not None and row.hash == head.hash):
            return found
        for kept in self.spent_of(own):
            shown = (Decimal(0), Decimal(0))
            if row is None and log.index.has(kept.account):
                balance = log.index.balance(kept.account)
                shown = (exact(balance.spent), exact(at_least(balance.delta_spent)))
            epsilon = at_least(minus(exact(kept.epsilon), shown[0]))
            delta = at_least(minus(exact(kept.delta), shown[1]))
            if epsilon > 0:
                found.append(replace(kept, epsilon=epsilon, delta=max(0.0, delta)))
        return found

    def keep_place(self, ledger_id: str, path: Path) -> None:
        """Keep which ledger a path holds."""
        if self.ledger_at(path) != ledger_id:
            now = datetime.now(UTC).isoformat(timespec="microseconds")
            self._write(self._path_file(path), {"ledger_id": ledger_id, "time": now})

    def check_source(self, source: str, ledger_id: str | None, path: Path) -> None:
        """Refuse data that are counted in another ledger; ``source`` tells them from others.

        Raises
        ------
        WitnessMismatch
            Naming that ledger.
        """
        known = self._read(self._source_file(source))
        if known is not None and known["ledger_id"] != ledger_id and known["path"] != str(path):
            raise WitnessMismatch(
                f"these data are counted in another ledger already, {known['path']}: a second one "
                "would forget what was spent there. Nothing was spent."
            ).hinting("name the home that they are in: CONFRERE_HOME=FOLDER, and see confrere home")

    def keep_source(self, source: str, ledger_id: str, path: Path) -> None:
        """Keep in which ledger data are counted."""
        told = {"ledger_id": ledger_id, "path": str(path)}
        self._write(self._source_file(source), told, _LONG_RECORD)

    def _source_file(self, source: str) -> Path:
        return self.folder / f"{_hashed(source)}.data"

    def _path_file(self, path: Path) -> Path:
        return self.folder / f"{hashlib.sha256(os.fsencode(path)).hexdigest()[:32]}.path"

    def _read(self, file: Path) -> dict[str, Any] | None:
        try:
            text = file.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None  # What cannot be there is refused when it is to be kept.
        except OSError as error:
            raise LedgerError(f"the witness {file} cannot be read ({error.strerror}).") from error
        if not text:
            return None  # Killed between making the file and writing it.
        try:
            values: dict[str, Any] = json.loads(text)
            if not isinstance(values["ledger_id"], str):
                raise TypeError
        except (ValueError, TypeError, LookupError) as error:
            raise LedgerError(
                f"the witness {file} is damaged. Remove it if you know why; the next opening of "
                "its ledger keeps what it finds."
            ) from error
        return values

    def _write(self, file: Path, values: dict[str, Any], size: int = _RECORD) -> None:
        record = json.dumps(values, ensure_ascii=False).encode().ljust(size - 1) + b"\n"
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC
            try:
                descriptor = os.open(file, flags, 0o600)
            except FileNotFoundError:
                self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                descriptor = os.open(file, flags, 0o600)
            try:
                os.pwrite(descriptor, record, 0)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise LedgerError(
                f"the head cannot be kept in {self.folder} ({error.strerror}): name another "
                "folder, outside backups of the ledger, in the environment variable "
                "CONFRERE_WITNESS."
            ) from error

    def _mismatch(self, path: Path, head: Head | None, found: str) -> WitnessMismatch:
        had = (
            "it held a ledger"
            if head is None
            else (f"the ledger had row {head.row} ({head.hash[:12]}) on {head.time[:19]}")
        )
        return WitnessMismatch(
            f"{had}, as {self.folder} remembers; {found}. What was charged in between would be "
            "forgotten. Put the newest copy back. Only if its owner knows why: `confrere ledger "
            f"witness {path.name} --reset --reason ...` goes on from here, writes that down in "
            "the chain, and books what is missing as spent."
        )
