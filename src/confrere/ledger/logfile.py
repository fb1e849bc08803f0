"""The rows of one file, whatever it is called: one descriptor, one lock, appended line by line.

All of a ledger is in one inode, and the lock is the inode's. Nothing beside the file, where a
second name (a hard link, a file mounted by itself) would look in vain, is needed to read it: after
a kill in the middle of an append the last line is incomplete, and was never acknowledged.
"""

from __future__ import annotations

import fcntl
import os
import stat
import threading
import time
from array import array
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from confrere.errors import LedgerError, LedgerTampered, NotALedger
from confrere.ledger.chain import FIRST_BYTES, Kind, Row
from confrere.ledger.row_index import RowIndex

BUSY_SECONDS = 60.0

# Threads queue here rather than at the file. A fork waits until no transaction is under way.
ONE_AT_A_TIME = threading.RLock()

#: Open files are few: a descriptor, and where its rows lie, is all that is kept.
_MOST_KEPT = 32

#: Rows that are not parsed again if their bytes are the same: every charge looks at the same few.
_MOST_KNOWN = 64
_CHUNK = 1 << 22

#: File systems whose locks do not reach every machine or container that can write to them.
_NETWORKED = {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "virtiofs"}
_NETWORKED |= {f"fuse.{name}" for name in ("sshfs", "rclone", "s3fs", "gcsfuse", "grpcfuse")}


class LogFile:
    """One open inode.

    Lines are checked against their hash and the line before as they are read, once; rows that are
    looked up again are read again, and checked unless their bytes are those that were.

    Attributes
    ----------
    index : RowIndex
        What the rows say.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._depth = 0
        self._exclusive = False
        self._offsets = array("Q")
        self._end = 0
        self._tail: Row | None = None
        self._tail_line = b""
        self._known: dict[int, tuple[bytes, Row]] = {}
        self.index = RowIndex(self.row)

    # -- the lock ------------------------------------------------------------------------------

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

    @property
    def in_use(self) -> bool:
        """Whether a transaction is under way."""
        return self._depth > 0

    def close(self) -> None:
        """Give the descriptor back."""
        os.close(self._descriptor)

    # -- reading -------------------------------------------------------------------------------

    def catch_up(self) -> None:
        """Read what others have appended, and notice what was taken away."""
        size = os.fstat(self._descriptor).st_size
        tail = self._tail
        if tail is not None and (size < self._end or self._line(tail.seq) != self._tail_line):
            raise rolled_back(tail.seq)
        if size == self._end:
            if tail is None:
                raise NotALedger("the file is empty.")
            return
        for line, end in _lines(self._descriptor, self._end):
            if not self._offsets:
                _check_beginning(line)
            try:
                row = Row.parse(line, len(self._offsets) + 1)
            except LedgerTampered:
                if end == size and b"\0" in line:
                    break  # A line that the disk had room for and no content: never acknowledged.
                raise
            if not row.follows(self._tail):
                raise LedgerTampered(f"row {row.seq} does not follow from the row before it.")
            self._enter(row, line + b"\n", end)
        if self._tail is None:
            _check_beginning(os.pread(self._descriptor, 100, 0))
            raise LedgerTampered("every row was removed.")

    def _enter(self, row: Row, line: bytes, end: int) -> None:
        try:
            self.index.enter(row)
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise LedgerTampered(f"row {row.seq} contradicts the rows before it.") from error
        self._offsets.append(self._end)
        self._end = end
        self._tail = row
        self._tail_line = line
        self._remember(row, line)

    @property
    def tail(self) -> Row:
        """The last row."""
        if self._tail is None:
            raise LedgerTampered("every row was removed.")
        return self._tail

    def at(self, seq: int) -> Row | None:
        """Return the row of that number, read again and checked."""
        if not 1 <= seq <= len(self._offsets):
            return None
        line = self._line(seq)
        known = self._known.get(seq)
        if known is not None and known[0] == line:
            return known[1]  # The same bytes were checked before.
        row = Row.parse(line.removesuffix(b"\n"), seq)
        self._remember(row, line)
        return row

    def _remember(self, row: Row, line: bytes) -> None:
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        self._known[row.seq] = line, row

    def row(self, seq: int) -> Row:
        """Return a row that the index knows of."""
        row = self.at(seq)
        if row is None:
            raise rolled_back(seq)
        return row

    def rows(self) -> Iterator[Row]:
        """Yield every row from the disk, in its order, trusting no index."""
        for number, (line, _) in enumerate(_lines(self._descriptor, 0), start=1):
            if number > len(self._offsets):
                return
            yield Row.parse(line, number)

    def _line(self, seq: int) -> bytes:
        start = self._offsets[seq - 1]
        end = self._offsets[seq] if seq < len(self._offsets) else self._end
        return os.pread(self._descriptor, end - start, start)

    # -- writing -------------------------------------------------------------------------------

    def append(
        self, kind: Kind, facts: Mapping[str, Any], *, durable: bool, time: str | None = None
    ) -> Row:
        """Seal ``facts`` to the tail; when this returns, the disk has them if it is to."""
        row = Row.sealed(kind, facts, after=self._tail, time=time)
        line = row.line
        try:
            if os.fstat(self._descriptor).st_size > self._end:
                os.ftruncate(self._descriptor, self._end)  # What a kill left of a line.
            written = os.pwrite(self._descriptor, line, self._end)
            if written < len(line):
                written += os.pwrite(self._descriptor, line[written:], self._end + written)
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
            full = getattr(fcntl, "F_FULLFSYNC", None)
            if full is not None:
                fcntl.fcntl(self._descriptor, full)
            else:
                os.fdatasync(self._descriptor)
        except OSError as error:
            raise LedgerError(
                f"the disk did not confirm the last row ({error}); see what the ledger says "
                "before retrying."
            ) from error


def rolled_back(seq: int) -> LedgerTampered:
    """Say that a row which was there is not any more."""
    return LedgerTampered(f"row {seq}, which was there before, is gone: the file was rolled back.")


# -- one open file per process and inode -------------------------------------------------------

_kept: OrderedDict[tuple[int, int, int], LogFile] = OrderedDict()


def _forget() -> None:
    # In a forked child: descriptors shared with the parent would share its locks.
    for log in _kept.values():
        log.close()
    _kept.clear()
    ONE_AT_A_TIME.release()


os.register_at_fork(
    before=ONE_AT_A_TIME.acquire,
    after_in_parent=ONE_AT_A_TIME.release,
    after_in_child=_forget,
)


@contextmanager
def transaction(path: Path, *, exclusive: bool) -> Iterator[LogFile]:
    """Hold the lock of the file that ``path`` names now, with all its rows read."""
    with ONE_AT_A_TIME:
        while True:
            log = _opened(path, identity := _identity(path))
            with log.locked(exclusive=exclusive):
                if _identity(path) != identity:
                    continue  # Replaced while we waited for the lock.
                log.catch_up()
                yield log
                return


def _identity(path: Path) -> tuple[int, int, int]:
    try:
        found = path.stat()
    except OSError as error:
        raise NotALedger(f"there is no such file ({error.strerror}).") from error
    if not stat.S_ISREG(found.st_mode):
        raise NotALedger("it is not a file.")
    return os.getpid(), found.st_dev, found.st_ino


def _opened(path: Path, identity: tuple[int, int, int]) -> LogFile:
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
        log = _kept[identity] = LogFile(descriptor)
        for key in [key for key, one in _kept.items() if not one.in_use][:-_MOST_KEPT]:
            _kept.pop(key).close()
    _kept.move_to_end(identity)
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
    if line.startswith(b"SQLite format 3\0"):
        raise NotALedger(
            "it is a database. If it is a ledger of confrere 0.1, take over its rows first, with "
            "`confrere ledger upgrade` of version 0.2: what was spent stays spent."
        )
    if not line.startswith(FIRST_BYTES):
        raise NotALedger("it is not a ledger.")
