"""A coordinator that can be killed: what was gathered is on disk before it is used.

Parties answer a question once and re-send it for ever, so a protocol started again under the same
run asks the same questions and spends nothing; but only if it *does* ask the same. Where a quorum
let a round go on without someone, the next question depends on who had answered. The journal
keeps the answers that were used, and gives them back. Only answers that were found valid get here,
those to a sum together: a journal cannot hold one that a run would fail on again. Tries of a sum
that were lost are noted as such, so that a run goes on after them.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

from confrere.errors import FederationError
from confrere.federation.messages import new_run
from confrere.ledger import Receipt

_TABLES = """
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
                db.executescript(_TABLES)
                db.execute("BEGIN IMMEDIATE")
                yield db
                db.execute("COMMIT")
        except sqlite3.Error as error:
            raise FederationError(f"{self.path}: not a journal ({error}).") from error
