"""The tables of a ledger file, and the check that a file has them, untouched."""

from __future__ import annotations

import sqlite3

from confrere.errors import LedgerTampered, NotALedger
from confrere.ledger.chain import FORMAT, Row

APPLICATION_ID = int.from_bytes(b"cnfr")

# The triggers stop accidents; it is the hashes that show intent. The indexes are on what the
# hashed bodies say, so that there is no second copy of a fact to disagree with the first.
_OBJECTS = {
    "rows": """CREATE TABLE rows (
        seq INTEGER PRIMARY KEY,
        kind TEXT NOT NULL,
        time TEXT NOT NULL,
        body TEXT NOT NULL,
        previous TEXT NOT NULL,
        hash TEXT NOT NULL
    )""",
    "account_name": """CREATE UNIQUE INDEX account_name
        ON rows (json_extract(body, '$.name')) WHERE kind = 'account'""",
    "charge_account": """CREATE INDEX charge_account
        ON rows (json_extract(body, '$.account'), seq) WHERE kind = 'charge'""",
    "charge_key": """CREATE UNIQUE INDEX charge_key
        ON rows (json_extract(body, '$.key')) WHERE kind = 'charge'""",
    "mark_charge": """CREATE UNIQUE INDEX mark_charge
        ON rows (json_extract(body, '$.charge')) WHERE kind IN ('released', 'failed')""",
    "no_update": """CREATE TRIGGER no_update BEFORE UPDATE ON rows
        BEGIN SELECT RAISE(ABORT, 'a ledger is append-only'); END""",
    "no_delete": """CREATE TRIGGER no_delete BEFORE DELETE ON rows
        BEGIN SELECT RAISE(ABORT, 'a ledger is append-only'); END""",
    "only_append": """CREATE TRIGGER only_append BEFORE INSERT ON rows
        WHEN NEW.seq IS NOT (SELECT ifnull(max(seq), 0) + 1 FROM rows)
        BEGIN SELECT RAISE(ABORT, 'a ledger is append-only'); END""",
}


def create(connection: sqlite3.Connection, genesis: Row) -> None:
    """Turn an empty database into a ledger whose only row is ``genesis``."""
    connection.execute("BEGIN IMMEDIATE")
    for statement in _OBJECTS.values():
        connection.execute(statement)
    connection.execute("INSERT INTO rows VALUES (?, ?, ?, ?, ?, ?)", genesis.columns)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {FORMAT}")
    connection.execute("COMMIT")
    connection.execute("PRAGMA journal_mode = WAL")


def check(connection: sqlite3.Connection) -> None:
    """Refuse a database that is no ledger, or whose tables, indexes or triggers were changed."""
    (application_id,) = connection.execute("PRAGMA application_id").fetchone()
    if application_id != APPLICATION_ID:
        raise NotALedger("it is a database of another application.")
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version != FORMAT:
        raise NotALedger(f"it has format {version}; this version of confrere reads {FORMAT}.")
    # ANALYZE, which does no harm, adds tables of SQLite's own.
    found = connection.execute(
        "SELECT name, sql FROM sqlite_master WHERE type <> 'table' OR name NOT LIKE 'sqlite_stat_'"
    )
    if dict(found.fetchall()) != _OBJECTS:
        raise LedgerTampered("its tables, indexes or triggers were changed.")
