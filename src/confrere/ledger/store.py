"""The ledger's file: made whole or not at all, opened for one transaction at a time.

A connection lives as long as one transaction. That costs a millisecond and buys three things:
nothing SQLite keeps per process (locks above all) survives into a forked child; a file replaced
or removed behind our back is noticed; and between two transactions all of the ledger is in one
plain file, the write-ahead log having been merged and removed.
"""

from __future__ import annotations

import os
import sqlite3
import stat
import tempfile
import threading
import uuid
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from functools import partial
from pathlib import Path

from confrere.errors import LedgerError, LedgerTampered, NotALedger
from confrere.ledger import schema
from confrere.ledger.chain import FORMAT, Kind, Row
from confrere.ledger.table import Table

BUSY_SECONDS = 60.0

# Threads queue here rather than in SQLite. A fork waits until no connection is open: a child that
# inherits one shares its bookkeeping of locks, and could then lose its own charges.
ONE_AT_A_TIME = threading.RLock()
os.register_at_fork(
    before=ONE_AT_A_TIME.acquire,
    after_in_parent=ONE_AT_A_TIME.release,
    after_in_child=ONE_AT_A_TIME.release,
)


class Store:
    """One ledger file.

    Parameters
    ----------
    path : Path
        Absolute.
    durable : bool
        Whether a commit waits until the disk has it.
    ledger_id : str, optional
        Which ledger the file must be; by default the one found first.
    """

    def __init__(self, path: Path, *, durable: bool, ledger_id: str | None = None) -> None:
        self.path = path
        self.durable = durable
        self.ledger_id = ledger_id
        self._seen: Row | None = None

    def create_if_missing(self) -> None:
        """Make the file, readable by its owner only, unless it is there."""
        try:
            with ONE_AT_A_TIME:
                if not self.path.exists():
                    _create(self.path)
        except (OSError, sqlite3.Error) as error:
            raise NotALedger(
                f"{self.path}: cannot be created ({error}); its folder must exist and be writable."
            ) from error

    def reading(self) -> AbstractContextManager[Table]:
        """Show one consistent state of the rows, checked at both ends."""
        return self._transaction("BEGIN")

    def writing(self) -> AbstractContextManager[Table]:
        """Be the only writer; what was appended is on disk when the block ends without error."""
        return self._transaction("BEGIN IMMEDIATE")

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[Table]:
        # A connection closed without COMMIT, whatever the reason, has changed nothing.
        with ONE_AT_A_TIME, self._named(), closing(self._connect()) as connection:
            connection.execute(f"PRAGMA synchronous = {'FULL' if self.durable else 'OFF'}")
            connection.execute("PRAGMA fullfsync = ON")
            connection.execute(begin)
            table = Table(connection)
            self._recognise(table)
            yield table
            connection.execute("COMMIT")
            self._seen = table.tail

    def _connect(self) -> sqlite3.Connection:
        try:
            mode = self.path.stat().st_mode
        except OSError as error:
            raise NotALedger(f"there is no such file ({error.strerror}).") from error
        if not stat.S_ISREG(mode):
            raise NotALedger("it is not a file.")
        if not os.access(self.path, os.W_OK) or not os.access(self.path.parent, os.W_OK):
            raise NotALedger("it, or its folder, is read-only; a ledger must be writable.")
        # mode=rw: SQLite must never make an empty database where a ledger has gone missing.
        uri = f"{self.path.as_uri()}?mode=rw"
        connection = sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS, isolation_level=None)
        # Damaged text is read as it is, for its row's hash to tell.
        connection.text_factory = partial(str, encoding="utf-8", errors="surrogateescape")
        return connection

    def _recognise(self, table: Table) -> None:
        if self.ledger_id not in (None, table.ledger_id):
            raise LedgerTampered("another ledger was put in its place.")
        self.ledger_id = table.ledger_id
        if self._seen is not None and table.at(self._seen.seq) != self._seen:
            raise LedgerTampered(
                f"row {self._seen.seq}, which was there before, is gone: the file was rolled back."
            )

    @contextmanager
    def _named(self) -> Iterator[None]:
        """Put the file's name into every complaint about it, and SQLite's into our words."""
        try:
            yield
        except (NotALedger, LedgerTampered) as error:
            raise type(error)(f"{self.path}: {error}") from error
        except UnicodeDecodeError as error:  # SQLite quotes damaged bytes in its own messages
            raise LedgerTampered(f"{self.path}: the file is damaged.") from error
        except sqlite3.Error as error:
            kind, words = _meaning(error)
            raise kind(f"{self.path}: {words} ({error})") from error


def _create(path: Path) -> None:
    # Made under another name, then linked: nobody ever sees half a ledger, and of two
    # processes that make it at the same time the second finds the first one's.
    handle, draft = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    os.close(handle)
    try:
        genesis = Row.sealed(
            Kind.GENESIS, {"format": FORMAT, "ledger_id": uuid.uuid4().hex}, after=None
        )
        with closing(sqlite3.connect(draft, isolation_level=None)) as connection:
            schema.create(connection, genesis)
        with suppress(FileExistsError):
            os.link(draft, path)
    finally:
        Path(draft).unlink()
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _meaning(error: sqlite3.Error) -> tuple[type[LedgerError], str]:
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    if code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CANTOPEN):
        return NotALedger, "it is not a database, or cannot be opened"
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM):
        return NotALedger, "it cannot be written, and nothing was spent"
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_ERROR):
        return LedgerTampered, "the file is damaged"
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return LedgerError, f"another process held it for {BUSY_SECONDS:g} s; try again"
    return LedgerError, "the operation was not completed; see what the ledger says before retrying"
