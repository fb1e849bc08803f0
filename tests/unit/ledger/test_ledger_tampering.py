"""Whatever is done to the file behind the ledger's back, somebody notices."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from confrere.errors import LedgerTampered, NotALedger
from confrere.guarantee import Guarantee
from confrere.ledger import Ledger
from confrere.ledger.audit import audit
from confrere.ledger.chain import Row, _seal, canonical

N_ROWS = 8
COLUMNS = ("seq", "kind", "time", "body", "previous", "hash")


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A ledger of eight rows, of all kinds, with a charge at the end."""
    ledger = Ledger(tmp_path_factory.mktemp("original") / "books.ledger")
    ledger.open_account("a", epsilon=1.0)
    ledger.open_account("b")
    first = ledger.charge("a", Guarantee(0.4), purpose="fit", key="k")
    ledger.mark_released(first, digest="00ff")
    second = ledger.charge("b", Guarantee(0.5), purpose="fit")
    ledger.mark_failed(second, code="SolverFailed")
    ledger.charge("a", Guarantee(0.3), purpose="fit")
    assert ledger.verify() == N_ROWS
    return ledger.path.read_bytes()


@pytest.fixture
def book(original: bytes, path: Path) -> Path:
    path.write_bytes(original)
    return path


def tamper(path: Path, act: Callable[[sqlite3.Connection], object]) -> None:
    """Do as somebody who knows SQLite: take the triggers away, act, put them back."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        triggers = connection.execute(
            "SELECT name, sql FROM sqlite_master WHERE type = 'trigger'"
        ).fetchall()
        for name, _ in triggers:
            connection.execute(f"DROP TRIGGER {name}")
        act(connection)
        for _, sql in triggers:
            connection.execute(sql)


def row_at(connection: sqlite3.Connection, seq: int) -> dict:
    values = connection.execute("SELECT * FROM rows WHERE seq = ?", [seq]).fetchone()
    return dict(zip(COLUMNS, values, strict=True))


def rewrite(connection: sqlite3.Connection, seq: int, *, upto: int, **facts: object) -> None:
    """Change facts of one row and forge the hashes from there on, up to and with row ``upto``."""
    row = row_at(connection, seq)
    row["body"] = canonical(json.loads(row["body"]) | facts)
    previous = row["previous"]
    for number in range(seq, upto + 1):
        row = row if number == seq else row_at(connection, number)
        row["previous"] = previous
        row["hash"] = previous = _seal(*(row[column] for column in COLUMNS[:-1]))
        connection.execute(
            "UPDATE rows SET body = :body, previous = :previous, hash = :hash WHERE seq = :seq", row
        )


CHANGED = {
    "seq": 100,
    "kind": "failed",
    "time": "2001-01-01T00:00:00.000000+00:00",
    "body": '{"charge":77}',
    "previous": "f" * 64,
    "hash": "e" * 64,
}


@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("seq", range(1, N_ROWS + 1))
def test_a_change_of_any_field_of_any_row_shows(book, seq, column):
    ledger = Ledger(book)
    value = CHANGED[column] if (seq, column) != (7, "kind") else "released"

    def change(connection: sqlite3.Connection) -> None:
        connection.execute(f"UPDATE rows SET {column} = ? WHERE seq = ?", [value, seq])

    tamper(book, change)
    for reader in (ledger, _unopened(book)):
        with pytest.raises(LedgerTampered, match=r"row \d+|every row|does not start"):
            reader.verify()


def _unopened(path: Path) -> Ledger:
    """A handle that has seen nothing yet, as one from a pickle."""
    ledger = Ledger.__new__(Ledger)
    ledger.__setstate__({"path": str(path), "durable": True, "ledger_id": None})
    return ledger


@pytest.mark.parametrize(
    ("column", "value"),
    [("kind", b"charge"), ("time", 7.5), ("body", 7), ("previous", b"00"), ("hash", 0)],
)
def test_a_field_of_another_type_shows(book, column, value):
    statement = f"UPDATE rows SET {column} = ? WHERE seq = 4"
    tamper(book, lambda connection: connection.execute(statement, [value]))
    with pytest.raises(LedgerTampered, match="row 4"):
        _unopened(book).verify()


@pytest.mark.parametrize("statement", ["X'ff'", "X'7b22ff227d'"])
@pytest.mark.parametrize("column", ["time", "previous"])
def test_text_that_is_no_text_shows(book, column, statement):
    statement = f"UPDATE rows SET {column} = CAST({statement} AS TEXT) WHERE seq = 4"
    tamper(book, lambda connection: connection.execute(statement))
    with pytest.raises(LedgerTampered, match="row 4"):
        _unopened(book).verify()


@pytest.mark.parametrize("seq", range(1, N_ROWS))
def test_a_removed_row_shows(book, seq):
    tamper(book, lambda connection: connection.execute(f"DELETE FROM rows WHERE seq = {seq}"))
    with pytest.raises(LedgerTampered, match=r"row \d+ does not"):
        _unopened(book).verify()


@pytest.mark.parametrize("seq", range(1, N_ROWS))
def test_a_removed_row_shows_when_the_others_close_up(book, seq):
    def remove(connection: sqlite3.Connection) -> None:
        connection.execute(f"DELETE FROM rows WHERE seq = {seq}")
        connection.execute(f"UPDATE rows SET seq = seq - 1 WHERE seq > {seq}")

    tamper(book, remove)
    with pytest.raises(LedgerTampered, match=f"row ({seq}|{N_ROWS - 1}) "):
        _unopened(book).verify()


def test_an_emptied_ledger_shows(book):
    tamper(book, lambda connection: connection.execute("DELETE FROM rows"))
    with pytest.raises(LedgerTampered, match="every row was removed"):
        Ledger(book)


@pytest.mark.parametrize("first", range(1, N_ROWS))
def test_rows_that_changed_places_show(book, first):
    def swap(connection: sqlite3.Connection) -> None:
        for old, new in ((first, 100), (first + 1, first), (100, first + 1)):
            connection.execute(f"UPDATE rows SET seq = {new} WHERE seq = {old}")

    tamper(book, swap)
    with pytest.raises(LedgerTampered, match=r"row \d+"):
        _unopened(book).verify()


@pytest.mark.parametrize("seq", range(2, N_ROWS + 2))
def test_an_inserted_row_shows(book, seq):
    """A forged charge, well hashed and well linked to what stands before it."""

    def insert(connection: sqlite3.Connection) -> None:
        for number in range(N_ROWS, seq - 1, -1):
            connection.execute(f"UPDATE rows SET seq = {number + 1} WHERE seq = {number}")
        before = Row.read(tuple(row_at(connection, seq - 1).values()))
        facts = json.loads(row_at(connection, 4 if seq > 4 else 5)["body"])
        forged = Row.sealed("charge", facts | {"key": "forged"}, after=before)
        connection.execute("INSERT INTO rows VALUES (?, ?, ?, ?, ?, ?)", forged.columns)

    tamper(book, insert)
    with pytest.raises(LedgerTampered, match=r"row \d+"):
        _unopened(book).verify()


@pytest.mark.parametrize("seq", range(1, N_ROWS))
def test_a_row_forged_with_its_own_hash_shows_in_the_next(book, seq):
    tamper(book, lambda connection: rewrite(connection, seq, upto=seq, forged=True))
    with pytest.raises(LedgerTampered, match=f"row {seq + 1} does not follow"):
        _unopened(book).verify()


@pytest.mark.parametrize(
    ("seq", "facts"),
    [
        (8, {"spent": {"epsilon": "0.1", "delta": "0"}}),
        (8, {"spent": {"epsilon": "0.8", "delta": "0"}}),
        (8, {"spent": {"epsilon": "0.7", "delta": "1"}}),
        (8, {"spent": {"epsilon": "nothing", "delta": "0"}}),
        (8, {"spent": None}),
        (8, {"account": "nobody"}),
        (8, {"guarantee": Guarantee(0.9).to_dict()}),
        (8, {"guarantee": Guarantee(0.3, unit="party").to_dict()}),
        (8, {"guarantee": {"epsilon": -1.0}}),
        (4, {"spent": {"epsilon": "0.1", "delta": "0"}}),
        (2, {"epsilon": 0.5}),
        (7, {"charge": 8}),
        (7, {"charge": 3}),
    ],
)
def test_a_rewritten_chain_whose_sums_do_not_add_up_shows(book, seq, facts):
    """Every hash is right; the books are not."""
    tamper(book, lambda connection: rewrite(connection, seq, upto=N_ROWS, **facts))
    with pytest.raises(LedgerTampered, match=r"row \d contradicts"):
        _unopened(book).verify()


def test_a_twin_of_a_key_an_account_or_a_genesis_shows(book):
    """The unique indexes forbid twins; a forger who rebuilt the file without them is found."""
    for seq, kind, facts in [(8, "charge", {"key": "k"}), (3, "account", {"name": "a"})]:

        def twin(connection, seq=seq, kind=kind, facts=facts):
            for index in ("charge_key", "account_name"):
                connection.execute(f"DROP INDEX {index}")
            rewrite(connection, seq, upto=N_ROWS, **facts)

        copy = book.with_name(f"{kind}.ledger")
        copy.write_bytes(book.read_bytes())
        tamper(copy, twin)
        with closing(sqlite3.connect(copy)) as connection:
            rows = [Row.read(row) for row in connection.execute("SELECT * FROM rows")]
        with pytest.raises(LedgerTampered, match=f"row {seq} contradicts"):
            audit(rows, head=None)
        genesis = Row.sealed("genesis", rows[0].facts, after=rows[1])
        with pytest.raises(LedgerTampered, match="row 3 contradicts"):
            audit([*rows[:2], genesis], head=None)


def test_a_gap_in_the_numbers_shows_though_the_hashes_fit(book):
    with Ledger(book)._store.reading() as table:
        rows = list(table.rows())
    later = Row.sealed(rows[2].kind, rows[2].facts, after=replace(rows[1], seq=7))
    assert (later.seq, later.previous) == (8, rows[1].hash)
    with pytest.raises(LedgerTampered, match="row 8 does not follow"):
        audit([*rows[:2], later], head=None)


class TestHead:
    def test_every_earlier_head_is_in_the_chain(self, book):
        ledger = Ledger(book)
        with ledger._store.reading() as table:
            heads = [row.hash for row in table.rows()]
        assert heads[-1] == ledger.head()
        assert [ledger.verify(head=head) for head in heads] == [N_ROWS] * N_ROWS

    def test_an_unknown_head_is_not(self, book):
        with pytest.raises(LedgerTampered, match="head is not in the chain"):
            Ledger(book).verify(head="0" * 64)

    def test_rows_cut_from_the_end_show(self, book):
        head = Ledger(book).head()
        tamper(book, lambda connection: connection.execute("DELETE FROM rows WHERE seq > 6"))
        cut = Ledger(book)
        assert cut.verify() == 6
        with pytest.raises(LedgerTampered, match="head is not in the chain"):
            cut.verify(head=head)

    def test_a_whole_rewritten_chain_shows(self, book):
        head = Ledger(book).head()
        tamper(book, lambda c: rewrite(c, 4, upto=N_ROWS, purpose="something harmless"))
        forged = Ledger(book)
        assert forged.verify() == N_ROWS
        with pytest.raises(LedgerTampered, match="head is not in the chain"):
            forged.verify(head=head)


class TestChargingOnATamperedLedger:
    """Charging looks at both ends and at the account's own rows: cheap, and before any spending."""

    @pytest.mark.parametrize("column", ["time", "body", "previous", "hash"])
    @pytest.mark.parametrize("seq", [1, 2, 7, 8])
    def test_nothing_is_spent(self, book, seq, column):
        ledger = _unopened(book)
        value = CHANGED[column] if column != "body" else '{"name":"a","epsilon":100.0}'
        tamper(
            book, lambda c: c.execute(f"UPDATE rows SET {column} = ? WHERE seq = ?", [value, seq])
        )
        with pytest.raises(LedgerTampered, match=f"books.ledger: row {seq}"):
            ledger.charge("a", Guarantee(0.1), purpose="fit")
        assert _count(book) == N_ROWS

    def test_a_row_missing_before_the_last_shows(self, book):
        tamper(book, lambda connection: connection.execute("DELETE FROM rows WHERE seq = 7"))
        with pytest.raises(LedgerTampered, match="row 8 does not follow"):
            _unopened(book).charge("a", Guarantee(0.1), purpose="fit")

    def test_a_handle_notices_rows_cut_or_rewritten_since_it_last_looked(self, book):
        for act in (
            lambda c: c.execute("DELETE FROM rows WHERE seq = 8"),
            lambda c: rewrite(c, 4, upto=7, purpose="something harmless"),
        ):
            ledger = Ledger(book)
            tamper(book, act)
            with pytest.raises(LedgerTampered, match="rolled back"):
                ledger.charge("a", Guarantee(0.1), purpose="fit")

    def test_a_restored_older_copy_shows(self, book):
        older = book.read_bytes()
        ledger = Ledger(book)
        ledger.charge("a", Guarantee(0.1), purpose="fit")
        book.write_bytes(older)
        with pytest.raises(LedgerTampered, match="row 9, which was there before, is gone"):
            ledger.affords("a", Guarantee(0.1))

    def test_another_ledger_in_its_place_shows(self, book, tmp_path):
        ledger = Ledger(book)
        Ledger(tmp_path / "other").path.replace(book)
        with pytest.raises(LedgerTampered, match="another ledger was put in its place"):
            ledger.head()


class TestSchema:
    @pytest.mark.parametrize(
        "statement",
        [
            "DROP TRIGGER no_update",
            "DROP TRIGGER no_delete",
            "DROP TRIGGER only_append",
            "DROP INDEX charge_account",
            "CREATE TABLE extra (a)",
            "CREATE VIEW extra AS SELECT * FROM rows",
            "CREATE TRIGGER extra BEFORE INSERT ON rows BEGIN SELECT RAISE(IGNORE); END",
            "ALTER TABLE rows ADD COLUMN note TEXT",
        ],
    )
    def test_changed_tables_or_triggers_show_at_once(self, book, statement):
        ledger = Ledger(book)
        with closing(sqlite3.connect(book)) as connection:
            connection.execute(statement)
        with pytest.raises(LedgerTampered, match="tables, indexes or triggers were changed"):
            ledger.charge("a", Guarantee(0.1), purpose="fit")
        assert _count(book) == N_ROWS

    def test_statistics_and_vacuum_do_no_harm(self, book):
        with closing(sqlite3.connect(book)) as connection:
            connection.execute("ANALYZE")
            connection.execute("VACUUM")
        assert Ledger(book).verify() == N_ROWS

    @pytest.mark.parametrize(
        "statement",
        [
            "UPDATE rows SET body = '{}' WHERE seq = 4",
            "UPDATE rows SET seq = 100",
            "DELETE FROM rows",
            "DELETE FROM rows WHERE seq = 8",
            "INSERT INTO rows VALUES (10, 'charge', '', '{}', '', '')",
            "INSERT OR REPLACE INTO rows VALUES (4, 'charge', '', '{}', '', '')",
            "INSERT OR IGNORE INTO rows VALUES (NULL, 'charge', '', '{}', '', '')",
            "REPLACE INTO rows SELECT seq, kind, time, body, previous, hash FROM rows",
        ],
    )
    def test_the_file_itself_refuses_accidents(self, book, statement):
        with (
            closing(sqlite3.connect(book)) as connection,
            pytest.raises(sqlite3.IntegrityError, match="append-only"),
        ):
            connection.execute(statement)
        assert Ledger(book).verify() == N_ROWS

    def test_an_index_that_hides_a_charge_shows(self, book):
        """An emptied index would make an account look unspent."""
        ledger = Ledger(book)
        with closing(sqlite3.connect(book, isolation_level=None)) as connection:
            (whole,) = connection.execute(
                "SELECT sql FROM sqlite_master WHERE name = 'charge_account'"
            ).fetchone()
            connection.execute("DROP INDEX charge_account")
            connection.execute(whole.replace("'charge'", "'nothing'"))
            connection.execute("PRAGMA writable_schema = ON")
            connection.execute(
                "UPDATE sqlite_master SET sql = ? WHERE name = 'charge_account'", [whole]
            )
        assert ledger.spent("a") == 0.0
        with pytest.raises(LedgerTampered, match="an index disagrees"):
            ledger.verify()


def test_a_damaged_file_is_an_error_of_ours(book, original):
    """Bytes overwritten anywhere: either it shows, or it was where nothing is."""
    entries = Ledger(book).entries()
    noticed = 0
    for offset in range(0, len(original), 499):
        damaged = bytearray(original)
        damaged[offset : offset + 16] = bytes(255 - byte for byte in damaged[offset : offset + 16])
        book.write_bytes(damaged)
        ledger = _unopened(book)
        try:
            ledger.verify()
            assert ledger.entries() == entries
        except (NotALedger, LedgerTampered):
            noticed += 1
    assert noticed >= 5


def _count(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        (count,) = connection.execute("SELECT count(*) FROM rows").fetchone()
    return count
