"""A ledger of the first format, a SQLite database, is taken over row by row."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from confrere.errors import CompositionError, InvalidParameter, LedgerTampered, NotALedger
from confrere.guarantee import Guarantee
from confrere.ledger import Ledger, upgrade
from confrere.ledger.chain import Kind, Row, seal

COUNTED = {"unit": None, "neighbours": None}


@pytest.fixture
def old(path: Path) -> Path:
    """A file as the first format wrote it: five rows, of which one account says nothing."""
    rows = [Row.sealed(Kind.GENESIS, {"format": 1, "ledger_id": "ab" * 16}, after=None)]

    def add(kind: Kind, **facts: object) -> None:
        rows.append(Row.sealed(kind, facts, after=rows[-1]))

    def charge(account: str, guarantee: Guarantee, key: str | None) -> None:
        spent = {"epsilon": str(guarantee.epsilon), "delta": "0.0"}
        facts = {"detail": {}, "simulated": False, "purpose": "fit", "key": key, "spent": spent}
        add(Kind.CHARGE, account=account, guarantee=guarantee.to_dict(), **facts)

    add(Kind.ACCOUNT, name="study", epsilon=1.0, delta=0.0, **COUNTED)
    add(Kind.ACCOUNT, name="told", epsilon=1.0, delta=0.0, unit="party", neighbours="replace-one")
    charge("study", Guarantee(0.25), "k")
    add(Kind.RELEASED, charge=4, digest="00ff")
    charge("told", Guarantee(0.5, unit="party"), None)
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute(f"PRAGMA application_id = {int.from_bytes(b'cnfr')}")
        database.execute("PRAGMA user_version = 1")
        database.execute("PRAGMA journal_mode = WAL")
        database.execute(
            "CREATE TABLE rows (seq INTEGER PRIMARY KEY, kind, time, body, previous, hash)"
        )
        for row in rows:
            columns = [row.seq, str(row.kind), row.time, row.body, row.previous, row.hash]
            database.execute("INSERT INTO rows VALUES (?, ?, ?, ?, ?, ?)", columns)
    return path


def test_rows_keep_their_hashes(old: Path) -> None:
    with pytest.raises(NotALedger, match="confrere ledger upgrade"):
        Ledger(old)
    with closing(sqlite3.connect(old)) as database:
        (head,) = database.execute("SELECT hash FROM rows ORDER BY seq DESC LIMIT 1").fetchone()
    aside = upgrade(old)
    ledger = Ledger(old)
    assert ledger.head() == head
    assert ledger.verify() == 6
    assert [entry.state for entry in ledger.entries()] == ["released", "open"]
    assert (ledger.spent("study"), ledger.spent("told")) == (0.25, 0.5)
    assert aside.name == "books.ledger.format-1"
    with pytest.raises(NotALedger):
        upgrade(old)


def test_an_account_that_says_nothing_answers_nothing_until_declared(old: Path) -> None:
    upgrade(old)
    ledger = Ledger(old)
    with pytest.raises(CompositionError, match=r"does not say what it counts.*ledger open"):
        ledger.charge("study", Guarantee(0.1), purpose="fit")
    with pytest.raises(CompositionError):
        ledger.affords("study", Guarantee(0.1))
    with pytest.raises(InvalidParameter, match=r"was charged per record .replace-one. before"):
        ledger.declare("study", unit="record", neighbours="label-only", reason="cheaper")
    ledger.declare("study", unit="record", neighbours="replace-one", reason="what it was")
    with pytest.raises(InvalidParameter, match=r"counts per record .* already"):
        ledger.declare("study", unit="party", neighbours="replace-one", reason="another")
    ledger.charge("study", Guarantee(0.1), purpose="fit")
    ledger.open_account("study", epsilon=1.0)
    ledger.charge("told", Guarantee(0.5, unit="party"), purpose="fit")
    assert ledger.accounts()[0].history[-1].reason == "what it was"
    assert ledger.verify() == 9


def test_a_broken_chain_is_not_taken_over(old: Path) -> None:
    with closing(sqlite3.connect(old)) as database, database:
        database.execute("UPDATE rows SET body = replace(body, '0.25', '0.05') WHERE seq = 4")
    with pytest.raises(LedgerTampered, match="row 4"):
        upgrade(old)
    assert old.read_bytes().startswith(b"SQLite")


def test_sums_are_checked_too(old: Path) -> None:
    with closing(sqlite3.connect(old)) as database, database:
        time, body, previous = database.execute(
            "SELECT time, body, previous FROM rows WHERE seq = 6"
        ).fetchone()
        body = body.replace(
            '"spent":{"delta":"0.0","epsilon":"0.5"}', '"spent":{"delta":"0.0","epsilon":"0.1"}'
        )
        new = seal(6, "charge", time, body, previous)
        database.execute("UPDATE rows SET body = ?, hash = ? WHERE seq = 6", (body, new))
    with pytest.raises(LedgerTampered, match="row 6 contradicts"):
        upgrade(old)


@pytest.mark.parametrize("content", [b"", b"text", b"SQLite format 3\0" + b"\0" * 100])
def test_what_is_no_old_ledger_is_left_alone(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(NotALedger):
        upgrade(path)
    assert path.read_bytes() == content
