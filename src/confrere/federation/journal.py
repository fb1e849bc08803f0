"""A coordinator that can be killed: what was gathered is on disk before it is used.

Parties answer a question once and re-send it for ever, so a protocol started again under the same
run asks the same questions and spends nothing; but only if it *does* ask the same. Where a quorum
let a round go on without someone, the next question depends on who had answered. The journal
keeps the answers that were used, and gives them back.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path

from confrere.errors import FederationError
from confrere.federation.expected import Expect
from confrere.federation.federation import Federation, PartyError, new_run
from confrere.federation.payload import Payload

_TABLES = """
CREATE TABLE IF NOT EXISTS journal (run TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS gathered (
    operation TEXT, step INTEGER, party TEXT, question TEXT NOT NULL, answer BLOB,
    PRIMARY KEY (operation, step, party)
);
"""


class Journalled(Federation):
    """A federation whose gathered answers survive the coordinator.

    Parameters
    ----------
    connect : callable
        ``run -> Federation``: makes the engine for a run; called once, with the journal's run.
    path : path-like
        The journal; made if it is not there. Whoever has it can resume the run.
    """

    def __init__(self, connect: Callable[[str], Federation], path: str | os.PathLike[str]) -> None:
        self._path = Path(path).resolve()
        with closing(self._connect()) as db:
            db.executescript(_TABLES)
            db.execute("BEGIN IMMEDIATE")
            row = db.execute("SELECT run FROM journal").fetchone()
            if row is None:
                row = (new_run(),)
                db.execute("INSERT INTO journal VALUES (?)", row)
            db.execute("COMMIT")
        super().__init__(row[0])
        self._inner = connect(self.run)
        if self._inner.run != self.run:
            raise FederationError("connect must make a federation of the run it is given.")

    def parties(self) -> list[str]:
        """Return the names of the parties that can be asked now."""
        return self._inner.parties()

    def ask(
        self,
        operation: str,
        payload: Payload,
        *,
        to: Sequence[str] | None = None,
        step: int = 0,
        timeout: float | None = None,
    ) -> Mapping[str, Payload | PartyError]:
        """Ask; nothing is kept of single questions."""
        return self._inner.ask(operation, payload, to=to, step=step, timeout=timeout)

    def gather(
        self,
        operation: str,
        payload: Payload,
        *,
        to: Sequence[str] | None = None,
        step: int = 0,
        timeout: float | None = None,
        quorum: float = 1.0,
        expect: Expect | None = None,
    ) -> Mapping[str, Payload]:
        """Give back what was gathered before, or gather it and keep it."""
        kept = self._kept(operation, step, payload.digest)
        if kept:
            return kept
        answers = super().gather(
            operation, payload, to=to, step=step, timeout=timeout, quorum=quorum, expect=expect
        )
        with closing(self._connect()) as db:
            db.execute("BEGIN IMMEDIATE")
            db.executemany(
                "INSERT INTO gathered VALUES (?, ?, ?, ?, ?)",
                [(operation, step, n, payload.digest, a.encode()) for n, a in answers.items()],
            )
            db.execute("COMMIT")
        return answers

    def _kept(self, operation: str, step: int, question: str) -> dict[str, Payload]:
        with closing(self._connect()) as db:
            rows = db.execute(
                "SELECT party, question, answer FROM gathered WHERE operation = ? AND step = ? "
                "ORDER BY rowid",
                (operation, step),
            ).fetchall()
        if any(asked != question for _, asked, _ in rows):
            raise FederationError(
                f"{self._path}: the journal is of a run that asked something else; use another "
                "journal for other settings."
            )
        return {party: Payload.decode(content) for party, _, content in rows}

    def _connect(self) -> sqlite3.Connection:
        try:
            db = sqlite3.connect(self._path, isolation_level=None, timeout=60.0)
            db.execute("PRAGMA synchronous = FULL")
        except sqlite3.Error as error:
            raise FederationError(f"{self._path}: not a journal ({error}).") from error
        return db
