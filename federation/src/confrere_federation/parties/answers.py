"""What was drawn once: on disk before it leaves, and the same bytes ever after.

A party keeps its answers so, and a coordinator that adds noise keeps what it released
(:class:`Answers`). One SQLite file each, with the ledger's habits: a connection lives for one
transaction, a commit waits for the disk, the file is its owner's alone. A question is claimed
before it is paid for and answered once; the row then never changes.

A coordinator between machines keeps what it gathered (:class:`Journal`). Parties answer a question
once and re-send it for ever, so a protocol started again under the same run asks the same questions
and spends nothing; but only if it *does* ask the same. Where a quorum let a round go on without
someone, the next question depends on who had answered. The journal keeps the answers that were
used, and gives them back. Only answers that were found valid get here, those to a sum together: a
journal cannot hold one that a run would fail on again. Tries of a sum that were lost are noted as
such, so that a run goes on after them.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
import uuid
import weakref
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, final

from confrere.errors import FederationError, OperationRefused
from confrere.files import flush_folder
from confrere.kernel.guarantee import exact, plus
from confrere.kernel.log import BUSY_SECONDS, ONE_AT_A_TIME
from confrere.ledger import Receipt
from confrere_federation.parties.messages import new_run

_APPLICATION_ID = int.from_bytes(b"cnfa")
_FORMAT = 2
_IDENTITY = "CREATE TABLE identity (id TEXT NOT NULL)"
_TABLE = """CREATE TABLE answers (
    run TEXT NOT NULL,
    operation TEXT NOT NULL,
    step INTEGER NOT NULL,
    question TEXT NOT NULL,
    epsilon TEXT NOT NULL,
    claimed TEXT NOT NULL,
    answered TEXT,
    answer BLOB,
    failure TEXT,
    PRIMARY KEY (run, operation, step)
) WITHOUT ROWID"""
_FINAL = """CREATE TRIGGER final BEFORE UPDATE ON answers
    WHEN OLD.answer IS NOT NULL OR OLD.failure IS NOT NULL
    BEGIN SELECT RAISE(ABORT, 'an answer does not change'); END"""
_ASKED = (
    "SELECT question, answer, failure FROM answers WHERE run = ? AND operation = ? AND step = ?"
)
_BEGUN = "SELECT 1 FROM answers WHERE run = ? AND operation = ? LIMIT 1"
_WITHDRAW = (
    "DELETE FROM answers WHERE run = ? AND operation = ? AND step = ? "
    "AND answer IS NULL AND failure IS NULL"
)
_FINISH = (
    "UPDATE answers SET answer = ?, failure = ?, answered = ? "
    "WHERE run = ? AND operation = ? AND step = ? AND answer IS NULL AND failure IS NULL"
)


@dataclass(frozen=True, slots=True)
class Key:
    """Which question: asked again, it has the same key."""

    run: str
    operation: str
    step: int

    @property
    def columns(self) -> tuple[str, str, int]:
        """The key as the file has it."""
        return (self.run, self.operation, self.step)

    @property
    def named(self) -> tuple[str, int, str]:
        """The key in the order in which logs say it."""
        return (self.operation, self.step, self.run)


@dataclass(frozen=True, slots=True)
class Claim:
    """What is known of a question: nothing yet, its answer, or why there is none."""

    answer: bytes | None = None
    failure: str | None = None


@final
class Answers:
    """An answer file, of a party or of a coordinator that adds noise.

    Parameters
    ----------
    path : path-like, optional
        The file, made if it is not there. None: a temporary one for simulations, gone with this
        object.

    Attributes
    ----------
    id : str
        Names this file and no other: a new file in its place has another.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        self._durable = path is not None
        if path is None:
            folder = tempfile.mkdtemp(prefix="confrere-")
            weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
            path = Path(folder) / "answers"
        self.path = Path(path).resolve()
        if not self.path.exists():
            self._create()
        with self._transaction() as db:  # A file that is something else is refused here.
            (self.id,) = db.execute("SELECT id FROM identity").fetchone()

    def claim(
        self,
        key: Key,
        *,
        question: str,  # Digest of everything that was asked
        epsilon: float,  # Its price; 0 for public facts
        cap: float | None,  # The most that all questions of the run may cost together
        # Whether the price is for all steps of the operation in the run: the first pays it
        once: bool = False,
    ) -> Claim:
        """Reserve a question, or find what became of it.

        Raises OperationRefused if the key was used for another question, or the run would cost
        more than the cap.
        """
        with self._transaction() as db:
            row = db.execute(_ASKED, key.columns).fetchone()
            if row is not None:
                if row[0] != question:
                    raise OperationRefused(
                        "this step of the run was asked another question before.", "changed"
                    )
                return Claim(row[1], row[2])
            if once and db.execute(_BEGUN, key.columns[:2]).fetchone() is not None:
                epsilon = 0.0
            if cap is not None:
                self._check_cap(db, key.run, epsilon, cap)
            db.execute(
                "INSERT INTO answers VALUES (?, ?, ?, ?, ?, ?, NULL, NULL, NULL)",
                (*key.columns, question, str(exact(epsilon)), _now()),
            )
        return Claim()

    def asked(self, key: Key) -> bool:
        """Whether a question has been claimed, whatever became of it."""
        with self._transaction() as db:
            return db.execute(_ASKED, key.columns).fetchone() is not None

    def withdraw(self, key: Key) -> None:
        """Forget a claim that nothing was paid for."""
        with self._transaction() as db:
            db.execute(_WITHDRAW, key.columns)

    def keep(self, key: Key, answer: bytes) -> bytes:
        """Put an answer on disk and return it, or the one that was there first."""
        return self._finish(key, answer=answer).answer or b""

    def fail(self, key: Key, code: str) -> bytes | None:
        """Note that the question has no answer and never will; return one if it was answered."""
        return self._finish(key, failure=code).answer

    def kept(self, run: str) -> dict[tuple[str, int], bytes]:
        """Return every answer of a run, by operation (or slot) and step."""
        with self._transaction() as db:
            rows = db.execute(
                "SELECT operation, step, answer FROM answers WHERE run = ? AND answer IS NOT NULL",
                (run,),
            ).fetchall()
        return {(operation, step): answer for operation, step, answer in rows}

    def _finish(
        self, key: Key, *, answer: bytes | None = None, failure: str | None = None
    ) -> Claim:
        with self._transaction() as db:
            db.execute(_FINISH, (answer, failure, _now(), *key.columns))
            row = db.execute(_ASKED, key.columns).fetchone()
            if row is None or (answer is not None and row[1] is None):
                raise FederationError("the question was withdrawn or failed while it was answered.")
            return Claim(row[1], row[2])

    def entries(self) -> list[dict[str, Any]]:
        """Return what was asked, when, at which price, and whether it was answered."""
        with self._transaction() as db:
            rows = db.execute(
                "SELECT run, operation, step, question, epsilon, claimed, answered, failure "
                "FROM answers ORDER BY claimed"
            ).fetchall()
        names = (
            "run", "operation", "step", "question", "epsilon", "claimed", "answered", "failure"
        )  # fmt: skip
        return [dict(zip(names, row, strict=True)) for row in rows]

    def _check_cap(self, db: sqlite3.Connection, run: str, epsilon: float, cap: float) -> None:
        total = exact(epsilon)
        for (earlier,) in db.execute("SELECT epsilon FROM answers WHERE run = ?", (run,)):
            total = plus(total, Decimal(earlier))
        if total > exact(cap):
            raise OperationRefused("the run would spend more than this party allows.", "price")

    def _create(self) -> None:
        # Made whole under another name, then linked: nobody ever sees half a file.
        try:
            handle, draft = tempfile.mkstemp(prefix=f".{self.path.name}.", dir=self.path.parent)
        except OSError as error:
            raise FederationError(f"{self.path}: cannot be created ({error}).") from error
        os.close(handle)
        try:
            with closing(sqlite3.connect(draft, isolation_level=None)) as db:
                db.execute(self._synchronous)
                # A group's answer has megabytes, which few large pages take several times sooner.
                db.execute("PRAGMA page_size = 16384")
                for statement in (_TABLE, _FINAL, _IDENTITY):
                    db.execute(statement)
                db.execute("INSERT INTO identity VALUES (?)", (uuid.uuid4().hex,))
                db.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
                db.execute(f"PRAGMA user_version = {_FORMAT}")
            try:
                os.link(draft, self.path)
            except FileExistsError:
                return  # another process was quicker
        finally:
            Path(draft).unlink()
        if self._durable:
            flush_folder(self.path.parent)

    @property
    def _synchronous(self) -> str:
        return f"PRAGMA synchronous = {'FULL' if self._durable else 'OFF'}"

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        try:
            with (
                ONE_AT_A_TIME,
                closing(
                    sqlite3.connect(
                        f"{self.path.as_uri()}?mode=rw",
                        uri=True,
                        timeout=BUSY_SECONDS,
                        isolation_level=None,
                    )
                ) as db,
            ):
                db.execute(self._synchronous)
                db.execute("PRAGMA fullfsync = ON")
                db.execute("BEGIN IMMEDIATE")
                (application,) = db.execute("PRAGMA application_id").fetchone()
                (version,) = db.execute("PRAGMA user_version").fetchone()
                if (application, version) != (_APPLICATION_ID, _FORMAT):
                    raise FederationError(f"{self.path}: it is not an answer file.")
                yield db
                db.execute("COMMIT")
        except sqlite3.Error as error:
            raise FederationError(f"{self.path}: the file could not be used ({error}).") from error


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds")


_JOURNAL_TABLES = """
CREATE TABLE IF NOT EXISTS journal (run TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS gathered (
    operation TEXT, step INTEGER, party TEXT, question TEXT NOT NULL, answer BLOB,
    PRIMARY KEY (operation, step, party)
);
CREATE TABLE IF NOT EXISTS lost (
    operation TEXT, step INTEGER, party TEXT, code TEXT NOT NULL,
    PRIMARY KEY (operation, step, party)
);
CREATE TABLE IF NOT EXISTS heads (
    party TEXT, ledger TEXT NOT NULL, row INTEGER, hash TEXT NOT NULL, PRIMARY KEY (party, row)
);
"""


class Journal:
    """The file of a run: who answered what, and where every party's ledger stood.

    Parameters
    ----------
    path : path-like
        Made, its owner's alone, if it is not there. Whoever has it can resume the run.
    run : str, optional
        Name of the run; that of another is refused. By default the file's own, or a fresh one.

    Attributes
    ----------
    run : str
    """

    def __init__(self, path: str | os.PathLike[str], run: str | None = None) -> None:
        self.path = Path(path).resolve()
        if not self.path.exists():
            self._create()
        with self._writing() as db:
            row = db.execute("SELECT run FROM journal").fetchone()
            if row is None:
                row = (run or new_run(),)
                db.execute("INSERT INTO journal VALUES (?)", row)
        self.run: str = row[0]
        if run not in (None, self.run):
            raise FederationError(f"{self.path}: the journal is of another run; use a new folder.")

    def kept(self, operation: str, step: int, question: str) -> dict[str, bytes]:
        """Return what was gathered in a step, in order; nothing if that is still to be done."""
        with self._writing() as db:
            rows = db.execute(
                "SELECT party, question, answer FROM gathered WHERE operation = ? AND step = ? "
                "ORDER BY rowid",
                (operation, step),
            ).fetchall()
        if any(asked != question for _, asked, _ in rows):
            raise FederationError(
                f"{self.path}: the journal is of a run that asked something else; use another "
                "journal for other settings."
            )
        return {party: content for party, _, content in rows}

    def keep(
        self,
        operation: str,
        step: int,
        question: str,
        answers: Mapping[str, bytes],
        receipts: Mapping[str, Receipt] | None = None,
    ) -> None:
        """Put a step's answers on disk, all or none, and the rows that their receipts name."""
        heads = [(n, r.ledger_id, r.row, r.hash) for n, r in (receipts or {}).items()]
        with self._writing() as db:
            db.executemany(
                "INSERT INTO gathered VALUES (?, ?, ?, ?, ?)",
                [(operation, step, name, question, answer) for name, answer in answers.items()],
            )
            db.executemany("INSERT OR IGNORE INTO heads VALUES (?, ?, ?, ?)", heads)

    def lost(self, operation: str, step: int) -> dict[str, str] | None:
        """Return who was in a try that was lost, and each one's code; None if it was not."""
        with self._writing() as db:
            rows = db.execute(
                "SELECT party, code FROM lost WHERE operation = ? AND step = ? ORDER BY rowid",
                (operation, step),
            ).fetchall()
        return dict(rows) or None

    def lose(self, operation: str, step: int, roster: Mapping[str, str]) -> None:
        """Put on disk that a try is lost: its roster, with a code for who sent nothing."""
        with self._writing() as db:
            db.executemany(
                "INSERT INTO lost VALUES (?, ?, ?, ?)",
                [(operation, step, name, code) for name, code in roster.items()],
            )

    def continues(self, party: str, receipt: Receipt) -> bool:
        """Whether a receipt follows on what the party's ledger was seen to hold.

        A ledger that was restored from a copy, cut or made anew gives a row again, or goes back.
        """
        with self._writing() as db:
            seen = db.execute(
                "SELECT ledger, row, hash FROM heads WHERE party = ? ORDER BY row", (party,)
            ).fetchall()
        if not seen or (receipt.ledger_id, receipt.row, receipt.hash) in seen:
            return True
        ledger, row, _ = seen[-1]
        return bool(receipt.ledger_id == ledger and receipt.row > row)

    def _create(self) -> None:
        try:
            os.close(os.open(self.path, os.O_WRONLY | os.O_CREAT, 0o600))
        except OSError as error:
            raise FederationError(f"{self.path}: cannot be created ({error.strerror}).") from None

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        try:
            with closing(sqlite3.connect(self.path, isolation_level=None, timeout=60.0)) as db:
                db.execute("PRAGMA synchronous = FULL")
                db.executescript(_JOURNAL_TABLES)
                db.execute("BEGIN IMMEDIATE")
                yield db
                db.execute("COMMIT")
        except sqlite3.Error as error:
            raise FederationError(f"{self.path}: not a journal ({error}).") from error
