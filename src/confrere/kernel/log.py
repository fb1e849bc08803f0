"""An append-only file of rows: each sealed to the one before, one writer, on disk before it counts.

A row is one line of the file: ``[seq,"kind","time","body","previous","hash"]``, JSON without
spaces. ``hash`` is SHA-256 of the same line up to ``previous``, closed by ``]``, in hex;
``previous`` is the hash of the row before; ``body`` is the canonical JSON of the row's facts.

All of it is in one inode, and the lock is the inode's: a second name (a hard link, a file mounted
by itself) finds it all. After a kill in an append the last line is incomplete, and no row.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import stat
import struct
import sys
import threading
import time
from abc import ABC, abstractmethod
from array import array
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, Self, TypeVar

from confrere.errors import ConfrereError, LedgerError, LedgerTampered, NotALedger
from confrere.files import write_new

FIRST_BYTES = b'[1,"genesis",'
BUSY_SECONDS = 60.0

# Threads queue here rather than at the file. A fork waits until no transaction is under way.
ONE_AT_A_TIME = threading.RLock()

_BEFORE_GENESIS = "0" * 64
#: Length of what follows the sealed part of a line: a comma, the quoted hash, a bracket.
_SEAL = 1 + 66 + 1
#: Open files are few: a descriptor, and where its rows lie, is all that is kept.
_MOST_KEPT = 32
_CHUNK = 1 << 22
#: Bytes from here on, beyond every row, are locks of what rows stand for.
_BEYOND = 2**60
#: File systems whose locks do not reach every machine or container that can write to them.
_NETWORKED = {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "virtiofs"}
_NETWORKED |= {f"fuse.{name}" for name in ("sshfs", "rclone", "s3fs", "gcsfuse", "grpcfuse")}

_encoder = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)


def canonical(value: object) -> str:
    """Write plain values as JSON in the one way that is hashed: sorted, compact, ASCII."""
    return _encoder.encode(value)


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


_decoder = json.JSONDecoder(parse_constant=_no_number)


def read(text: str) -> Any:
    """Read one JSON value, and nothing that JSON does not have."""
    try:
        value, end = _decoder.raw_decode(text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    if end != len(text):
        raise ValueError("more than one value")
    return value


def now() -> str:
    """Return the time, in UTC, as rows hold it."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


def seal(seq: int, kind: str, time: str, body: str, previous: str) -> str:
    """Return the hash that seals a row to the one before."""
    return hashlib.sha256(canonical([seq, kind, time, body, previous]).encode()).hexdigest()


class Row(NamedTuple):
    """One sealed row, as the file holds it; a tuple, since a long ledger has many to make."""

    seq: int
    kind: str
    time: str
    body: str
    previous: str
    hash: str

    @classmethod
    def sealed(
        cls, kind: str, facts: Mapping[str, Any], *, after: Row | None, time: str | None = None
    ) -> Self:
        """Make the row that follows ``after``, now; the first one follows nothing."""
        seq, previous = (after.seq + 1, after.hash) if after else (1, _BEFORE_GENESIS)
        unsealed = seq, kind, time or now(), canonical(facts), previous
        return cls(*unsealed, seal(*unsealed))

    @classmethod
    def parse(cls, line: bytes, seq: int) -> Self:
        """Read the line of row ``seq``, refusing one that its own hash does not seal."""
        found = hashlib.sha256(line[:-_SEAL] + b"]").hexdigest()
        try:
            row = cls._make(read(line.decode()))
        except (ValueError, TypeError) as error:
            raise LedgerTampered(f"row {seq} was changed: it is no row.") from error
        texts = type(row[1]) is type(row[2]) is type(row[3]) is type(row[4]) is str
        if row.hash != found or row.seq != seq or not texts:
            raise LedgerTampered(f"row {seq} was changed: its hash does not fit its content.")
        return row

    @property
    def line(self) -> bytes:
        """What the file holds, with the newline that ends it."""
        return canonical(self).encode() + b"\n"

    @property
    def facts(self) -> dict[str, Any]:
        """What the row says, as plain values."""
        facts: dict[str, Any] = read(self.body)
        return facts


def rolled_back(seq: int) -> LedgerTampered:
    """Say that a row which was there is not any more."""
    return LedgerTampered(f"row {seq}, which was there before, is gone: the file was rolled back.")


def write_all(descriptor: int, content: bytes, start: int) -> None:
    """Write all of it: a signal or a disk that fills up may cut a write short."""
    while content:
        written = os.pwrite(descriptor, content, start)
        content, start = content[written:], start + written


def create(path: Path, facts: Mapping[str, Any]) -> None:
    """Make a file of one row, readable by its owner only, unless it is there."""
    try:
        with suppress(FileExistsError):  # Another process was quicker: its file it is.
            write_new(path, Row.sealed("genesis", facts, after=None).line)
    except OSError as error:
        raise NotALedger(
            f"cannot be created ({error}); its folder must exist and be writable."
        ) from error


_CONTRADICTIONS = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


class LogFile(ABC):
    """One open inode: rows are checked against their hash and the row before as they are read."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor, self._depth, self._exclusive = descriptor, 0, False
        self._offsets, self._end = array("Q"), 0
        self._tail: Row | None = None
        self._tail_line = b""

    @abstractmethod
    def enter(self, row: Row) -> None:
        """Take in the next row; raises what wrong facts raise."""

    @contextmanager
    def locked(self, *, exclusive: bool) -> Iterator[None]:
        """Hold the inode's lock, shared to read and alone to write."""
        if self._depth and exclusive and not self._exclusive:
            raise LedgerError("a ledger cannot be written while the same thread reads it.")
        if not self._depth:
            _lock(self._descriptor, fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH)
            self._exclusive = exclusive
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
            if not self._depth:
                fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def catch_up(self) -> None:
        """Read what others have appended, and notice what was taken away."""
        size = os.fstat(self._descriptor).st_size
        tail = self._tail
        if tail is not None and (size < self._end or self._line(tail.seq) != self._tail_line):
            raise rolled_back(tail.seq)
        if not size:
            raise NotALedger("the file is empty.")
        for line, end in _lines(self._descriptor, self._end):
            if not self._offsets:
                _check_beginning(line)
            try:
                row = Row.parse(line, len(self._offsets) + 1)
            except LedgerTampered:
                if end == size and b"\0" in line:
                    break  # A line that the disk had room for and no content: never acknowledged.
                raise
            last = (0, _BEFORE_GENESIS) if self._tail is None else (self._tail.seq, self._tail.hash)
            if (row.seq - 1, row.previous) != last:
                raise LedgerTampered(
                    f"row {row.seq} does not follow from the row before it: rows were removed, "
                    "inserted or moved."
                )
            self._enter(row, line + b"\n", end)
        if self._tail is None:
            _check_beginning(os.pread(self._descriptor, 100, 0))
            raise LedgerTampered("every row was removed.")

    def _enter(self, row: Row, line: bytes, end: int) -> None:
        try:
            self.enter(row)
        except NotALedger:
            raise
        except (ConfrereError, *_CONTRADICTIONS) as error:
            raise LedgerTampered(f"row {row.seq} contradicts the rows before it.") from error
        self._offsets.append(self._end)
        self._end, self._tail, self._tail_line = end, row, line

    @property
    def tail(self) -> Row:
        """The last row."""
        assert self._tail is not None
        return self._tail

    def at(self, seq: int) -> Row | None:
        """Return the row of that number, read again and checked; None if there is none."""
        if not 1 <= seq <= len(self._offsets):
            return None
        return Row.parse(self._line(seq).removesuffix(b"\n"), seq)

    def row(self, seq: int) -> Row:
        """Return a row that was there, read again and checked."""
        found = self.at(seq)
        if found is None:
            raise rolled_back(seq)
        return found

    def rows(self, after: int = 0) -> Iterator[Row]:
        """Yield every row after a number from the disk, in its order, trusting no index."""
        start = self._offsets[after] if after < len(self._offsets) else self._end
        for number, (line, _) in enumerate(_lines(self._descriptor, start), start=after + 1):
            if number > len(self._offsets):
                return
            yield Row.parse(line, number)

    def _line(self, seq: int) -> bytes:
        start = self._offsets[seq - 1]
        end = self._offsets[seq] if seq < len(self._offsets) else self._end
        return os.pread(self._descriptor, end - start, start)

    def append(
        self, kind: str, facts: Mapping[str, Any], *, durable: bool, time: str | None = None
    ) -> Row:
        """Seal ``facts`` to the tail; when this returns, the disk has them if it is to."""
        row = Row.sealed(kind, facts, after=self._tail, time=time)
        line = row.line
        try:
            if os.fstat(self._descriptor).st_size > self._end:
                os.ftruncate(self._descriptor, self._end)  # What a kill left of a line.
            write_all(self._descriptor, line, self._end)
        except OSError as error:
            with suppress(OSError):
                os.ftruncate(self._descriptor, self._end)
            raise LedgerError(f"it cannot be written, and nothing was spent ({error}).") from error
        if durable:
            self.sync()
        self._enter(row, line, self._end + len(line))
        return row

    def sync(self) -> None:
        """Wait until the disk has what was written, by whomever."""
        try:
            if hasattr(fcntl, "F_FULLFSYNC"):
                fcntl.fcntl(self._descriptor, fcntl.F_FULLFSYNC)
            else:
                os.fdatasync(self._descriptor)
        except OSError as error:
            raise LedgerError(
                f"the disk did not confirm the last row ({error}); see what the ledger says "
                "before retrying."
            ) from error


# One open file per process and inode.
_kept: OrderedDict[tuple[int, int, int], LogFile] = OrderedDict()
_L = TypeVar("_L", bound=LogFile)


def _forget() -> None:
    # In a forked child: descriptors shared with the parent would share its locks.
    for log in _kept.values():
        os.close(log._descriptor)
    _kept.clear()
    ONE_AT_A_TIME.release()


os.register_at_fork(
    before=ONE_AT_A_TIME.acquire, after_in_parent=ONE_AT_A_TIME.release, after_in_child=_forget
)


@contextmanager
def transaction(path: Path, of: type[_L], *, exclusive: bool) -> Iterator[_L]:
    """Hold the lock of the file that ``path`` names now, with all its rows read."""
    with ONE_AT_A_TIME:
        while True:
            log = _opened(path, identity := _identity(path), of)
            with log.locked(exclusive=exclusive):
                if _identity(path) != identity:
                    continue  # Replaced while we waited for the lock.
                log.catch_up()
                yield log
                return


@contextmanager
def held(path: Path, number: int) -> Iterator[None]:
    """Be the only process at work on something; who waits goes on if the other is killed.

    The lock is one of the inode's bytes on Linux; elsewhere a file's beside it, which stays: two
    could wait for two files of one name.
    """
    bytewise = sys.platform == "linux"  # others name such locks, and lay them out otherwise
    beside = path if bytewise else path.with_name(f".{path.name}.{number}")
    made = 0 if bytewise else os.O_CREAT
    descriptor = os.open(beside, os.O_RDWR | os.O_CLOEXEC | made, 0o600)

    def lock(kind: int, how: int) -> None:
        if bytewise:
            place = struct.pack("hhqqi4x", kind, os.SEEK_SET, _BEYOND + number, 1, 0)
            fcntl.fcntl(descriptor, fcntl.F_OFD_SETLKW, place)
        else:
            fcntl.flock(descriptor, how)

    try:
        lock(fcntl.F_WRLCK, fcntl.LOCK_EX)
        yield
        lock(fcntl.F_UNLCK, fcntl.LOCK_UN)  # a forked process has the descriptor too
    finally:
        os.close(descriptor)


def _identity(path: Path) -> tuple[int, int, int]:
    try:
        found = path.stat()
    except OSError as error:
        raise NotALedger(f"there is no such file ({error.strerror}).") from error
    if not stat.S_ISREG(found.st_mode):
        raise NotALedger("it is not a file.")
    return os.getpid(), found.st_dev, found.st_ino


def _opened(path: Path, identity: tuple[int, int, int], of: type[_L]) -> _L:
    log = _kept.get(identity)
    if log is None:
        kind = _file_system(identity[1])
        if kind in _NETWORKED:
            raise NotALedger(
                f"it lies on {kind}, whose locks do not hold between machines: a cap could be "
                "spent twice. Keep it on a disk of one machine."
            )
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except OSError as error:
            raise NotALedger(
                f"it cannot be opened for writing ({error.strerror}); a ledger must be writable."
            ) from error
        log = _kept[identity] = of(descriptor)
        for key in [key for key, one in _kept.items() if not one._depth][:-_MOST_KEPT]:
            os.close(_kept.pop(key)._descriptor)
    _kept.move_to_end(identity)
    if not isinstance(log, of):
        raise NotALedger("it is a file of another kind.")
    return log


def _file_system(device: int) -> str | None:
    """Return the name of a device's file system, where the system tells."""
    number = f"{os.major(device)}:{os.minor(device)}"
    try:
        lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    for line in lines:
        left, _, right = line.partition(" - ")
        if left.split()[2] == number:
            return right.split()[0]
    return None


def _lock(descriptor: int, how: int) -> None:
    deadline = time.monotonic() + BUSY_SECONDS
    pause = 0.001
    while True:
        try:
            fcntl.flock(descriptor, how | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if time.monotonic() > deadline:
                raise LedgerError(
                    f"another process held it for {BUSY_SECONDS:g} s; try again."
                ) from error
            time.sleep(pause)
            pause = min(1.5 * pause, 0.01)
        except OSError as error:
            raise NotALedger(
                f"its file system cannot lock it ({error.strerror}), so that a cap could be spent "
                "twice. Keep it on a disk of this machine."
            ) from error
        else:
            return


def _lines(descriptor: int, start: int) -> Iterator[tuple[bytes, int]]:
    """Yield every whole line from ``start`` on, and where it ends; not what follows the last."""
    rest, position = b"", start
    while chunk := os.pread(descriptor, _CHUNK, position):
        position += len(chunk)
        *lines, rest = (rest + chunk).split(b"\n")
        end = position - len(rest) - sum(map(len, lines)) - len(lines)
        for line in lines:
            end += len(line) + 1
            yield line, end


def _check_beginning(line: bytes) -> None:
    if not line.startswith(FIRST_BYTES):
        raise NotALedger("it is not a ledger.")
