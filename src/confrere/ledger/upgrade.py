"""Take over a ledger of the first format, which was a SQLite database: same rows, same hashes."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from confrere.errors import InvalidParameter, NotALedger
from confrere.files import write_new
from confrere.ledger.chain import Kind, Row, audit

_APPLICATION_ID = int.from_bytes(b"cnfr")


def upgrade(path: str | os.PathLike[str]) -> Path:
    """Write a ledger of the first format as one of this version, in its place.

    Every row keeps its number, content and hash, so that receipts and kept heads stay valid. An
    account that did not say what it counts says it next: ``Ledger.declare``, or ``confrere ledger
    open``. Stop whatever uses the ledger first.

    Parameters
    ----------
    path : path-like

    Returns
    -------
    Path
        Where the old file lies now; it must not be charged any more.

    Raises
    ------
    NotALedger
        If it is no ledger of the first format.
    LedgerTampered
        If its chain is broken; nothing is changed then.
    """
    file = Path(path).resolve()
    old = file.with_name(f"{file.name}.format-1")
    try:
        rows = _rows(file)
    except (OSError, sqlite3.Error) as error:
        raise NotALedger(f"{file}: it is no ledger of the first format ({error}).") from error
    audit(rows, head=None)
    if old.exists():
        raise InvalidParameter(f"{old.name} is there already; put it elsewhere first.")
    file.rename(old)
    write_new(file, b"".join(row.line for row in rows))
    return old


def _rows(file: Path) -> list[Row]:
    uri = f"{file.as_uri()}?mode=rw"
    with closing(sqlite3.connect(uri, uri=True, isolation_level=None)) as database:
        (application,) = database.execute("PRAGMA application_id").fetchone()
        if application != _APPLICATION_ID:
            raise NotALedger(f"{file}: it is a database of another application.")
        # Merges the write-ahead log, and fails while another process uses the file.
        database.execute("PRAGMA journal_mode = DELETE").fetchone()
        database.execute("BEGIN EXCLUSIVE")
        found = database.execute("SELECT * FROM rows ORDER BY seq").fetchall()
    rows = [Row(seq, Kind(kind), *rest) for seq, kind, *rest in found]
    return [Row.parse(row.line.rstrip(b"\n"), row.seq) for row in rows]
