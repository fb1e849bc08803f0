"""The rows of a ledger inside one transaction: look up, append. No row is read unchecked."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from typing import Any

from confrere.errors import LedgerTampered
from confrere.ledger import schema
from confrere.ledger.chain import Kind, Row

_COLUMNS = "SELECT seq, kind, time, body, previous, hash FROM rows"
# Left alone, SQLite would look for the few accounts among all rows.
_ACCOUNTS = f"{_COLUMNS} INDEXED BY account_name WHERE kind = 'account' ORDER BY seq"
_BY_NAME = f"{_COLUMNS} WHERE kind = 'account' AND json_extract(body, '$.name') = ?"
_BY_KEY = f"{_COLUMNS} WHERE kind = 'charge' AND json_extract(body, '$.key') = ?"
_BY_ACCOUNT = f"{_COLUMNS} WHERE kind = 'charge' AND json_extract(body, '$.account') = ?"
_MARKS = f"{_COLUMNS} WHERE kind IN ('released', 'failed')"


class Table:
    """A ledger's rows, seen from inside one transaction of an open connection."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        schema.check(connection)
        self._connection = connection
        self.genesis = self._ends("seq")
        self.tail = self._ends("seq DESC")
        if not self.genesis.follows(None):
            raise LedgerTampered(f"row {self.genesis.seq} does not start a chain.")
        before = self.at(self.tail.seq - 1)
        if not self.tail.follows(before):
            raise LedgerTampered(f"row {self.tail.seq} does not follow from the row before it.")

    def _ends(self, order: str) -> Row:
        row = self._one(f"{_COLUMNS} ORDER BY {order} LIMIT 1")
        if row is None:
            raise LedgerTampered("every row was removed.")
        return row

    @property
    def ledger_id(self) -> str:
        """Which ledger this is: a random name, given when the file was made."""
        return str(self.genesis.facts["ledger_id"])

    def append(self, kind: Kind, facts: Mapping[str, Any]) -> Row:
        """Seal ``facts`` to the tail; they count once the transaction commits."""
        row = Row.sealed(kind, facts, after=self.tail)
        self._connection.execute("INSERT INTO rows VALUES (?, ?, ?, ?, ?, ?)", row.columns)
        self.tail = row
        return row

    def at(self, seq: int) -> Row | None:
        """Return the row of that number."""
        return self._one(f"{_COLUMNS} WHERE seq = ?", seq)

    def account(self, name: str) -> Row | None:
        """Return the row that opened an account."""
        return self._one(_BY_NAME, name)

    def accounts(self) -> list[Row]:
        """Return the rows that opened accounts."""
        return list(self._many(_ACCOUNTS))

    def last_charge(self, account: str) -> Row | None:
        """Return an account's last charge, which has its running totals."""
        return self._one(f"{_BY_ACCOUNT} ORDER BY seq DESC LIMIT 1", account)

    def charge_of(self, key: str) -> Row | None:
        """Return the charge made under an idempotency key."""
        return self._one(_BY_KEY, key)

    def charges(self, account: str | None) -> Iterator[Row]:
        """Yield the charges of one account, or of all, in their order."""
        if account is None:
            return self._many(f"{_COLUMNS} WHERE kind = 'charge' ORDER BY seq")
        return self._many(f"{_BY_ACCOUNT} ORDER BY seq", account)

    def mark_of(self, charge: int) -> Row | None:
        """Return the row that says how a charge ended."""
        return self._one(f"{_MARKS} AND json_extract(body, '$.charge') = ?", charge)

    def marks(self) -> Iterator[Row]:
        """Yield the rows that say how charges ended."""
        return self._many(f"{_MARKS} ORDER BY seq")

    def rows(self) -> Iterator[Row]:
        """Yield every row, in its order."""
        return self._many(f"{_COLUMNS} ORDER BY seq")

    def is_sound(self) -> bool:
        """Whether SQLite finds its own pages, and the indexes, in agreement with the rows."""
        (finding,) = self._connection.execute("PRAGMA integrity_check(1)").fetchone()
        return bool(finding == "ok")

    def _one(self, query: str, *values: int | str) -> Row | None:
        return next(self._many(query, *values), None)

    def _many(self, query: str, *values: int | str) -> Iterator[Row]:
        return map(Row.read, self._connection.execute(query, values))
