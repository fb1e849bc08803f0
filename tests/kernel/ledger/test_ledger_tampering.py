"""Whatever is done to the file behind the ledger's back, somebody notices."""

import json
from hashlib import sha256

import pytest

from confrere.errors import LedgerTampered, NotALedger
from confrere.kernel.guarantee import Guarantee
from confrere.kernel.ledger import Row, Store, canonical
from confrere.ledger import Ledger

N_ROWS = 10
COLUMNS = ("seq", "kind", "time", "body", "previous", "hash")


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """A ledger of rows of all kinds, with a charge at the end."""
    ledger = Ledger(tmp_path_factory.mktemp("original") / "books.ledger")
    ledger.open_account("a", epsilon=0.5)
    ledger.open_account("b", unit="party")
    first = ledger.charge("a", Guarantee(0.4), purpose="fit", key="k")
    ledger.mark_released(first, digest="00ff")
    second = ledger.charge("b", Guarantee(0.5, unit="party"), purpose="fit")
    ledger._store.mark(second, code="SolverFailed")
    ledger.raise_cap("a", epsilon=1.0, reason="a second study")
    ledger.freeze("b", reason="done")
    ledger.charge("a", Guarantee(0.3), purpose="fit")
    assert ledger.verify() == N_ROWS
    return ledger.path.read_bytes()


@pytest.fixture
def book(original, path):
    path.write_bytes(original)
    return path


def read(path):
    return [
        dict(zip(COLUMNS, json.loads(line), strict=True)) for line in path.read_bytes().splitlines()
    ]


def write(path, rows):
    """Put another file in the ledger's place, as an editor does."""
    lines = [canonical([row[column] for column in COLUMNS]) + "\n" for row in rows]
    replace_by(path, "".join(lines).encode())


def replace_by(path, content):
    draft = path.with_name("draft")
    draft.write_bytes(content)
    draft.replace(path)


def tamper(path, act):
    rows = read(path)
    act(rows)
    write(path, rows)


def rewrite(rows, seq, *, upto, **facts: object):
    """Change facts of one row and forge the hashes from there on, up to and with row ``upto``."""
    row = rows[seq - 1]
    row["body"] = canonical(json.loads(row["body"]) | facts)
    relink(rows, seq, upto=upto)


def relink(rows, seq, *, upto):
    previous = rows[seq - 2]["hash"] if seq > 1 else "0" * 64
    for number in range(seq, upto + 1):
        row = rows[number - 1]
        row |= {"seq": number, "previous": previous}
        unsealed = [row[column] for column in COLUMNS[:-1]]
        row["hash"] = previous = sha256(canonical(unsealed).encode()).hexdigest()


def _unopened(path):
    """A handle that has seen nothing yet, and has no witness."""
    ledger = Ledger.__new__(Ledger)
    ledger._store = Store(path, None)
    return ledger


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
    tamper(book, lambda rows: rows[seq - 1].update({column: value}))
    for reader in (ledger, _unopened(book)):
        with pytest.raises((LedgerTampered, NotALedger), match=r"row \d+|not a ledger"):
            reader.verify()
    with pytest.raises((LedgerTampered, NotALedger)):
        Ledger(book)


@pytest.mark.parametrize(
    "line",
    [b"", b"{}", b"[]", b"7", b"null", b"\xff\xfe", b"[4", b'["a"]', b"[NaN]", b"[" * 100_000],
    ids=len,
)
def test_a_line_that_is_no_row_shows(book, line):
    lines = book.read_bytes().split(b"\n")
    lines[3] = line
    replace_by(book, b"\n".join(lines))
    with pytest.raises(LedgerTampered, match="row 4"):
        Ledger(book)


@pytest.mark.parametrize("seq", range(2, N_ROWS))
def test_a_removed_row_shows_when_the_others_close_up(book, seq):
    def remove(rows):
        rows.pop(seq - 1)
        for number, row in enumerate(rows, start=1):
            row["seq"] = number

    tamper(book, remove)
    with pytest.raises(LedgerTampered, match=f"row {seq} "):
        _unopened(book).verify()


@pytest.mark.parametrize("seq", range(2, N_ROWS + 2))
def test_an_inserted_row_shows(book, seq):
    """A forged charge, well hashed and well linked to what stands before it."""

    def insert(rows):
        before = Row(**rows[seq - 2])
        facts = json.loads(rows[3]["body"])
        forged = Row.sealed("charge", facts | {"key": "forged"}, after=before)
        rows.insert(seq - 1, {column: getattr(forged, column) for column in COLUMNS})

    tamper(book, insert)
    with pytest.raises(LedgerTampered, match=r"row \d+"):
        _unopened(book).verify()


@pytest.mark.parametrize("seq", range(2, N_ROWS))
def test_a_row_forged_with_its_own_hash_shows_in_the_next(book, seq):
    tamper(book, lambda rows: (rows[seq - 1].update(time="2001"), relink(rows, seq, upto=seq)))
    with pytest.raises(LedgerTampered, match=f"row {seq + 1} does not follow"):
        _unopened(book).verify()


@pytest.mark.parametrize(
    ("seq", "facts"),
    [
        (10, {"spent": {"epsilon": "0.1", "delta": "0"}}),
        (10, {"spent": {"epsilon": "0.8", "delta": "0"}}),
        (10, {"spent": {"epsilon": "0.7", "delta": "1"}}),
        (10, {"spent": {"epsilon": "nothing", "delta": "0"}}),
        (10, {"spent": None}),
        (10, {"account": "nobody"}),
        (10, {"account": "b"}),
        (10, {"guarantee": Guarantee(0.9).to_dict()}),
        (10, {"guarantee": Guarantee(0.3, unit="party").to_dict()}),
        (10, {"guarantee": {"epsilon": -1.0}}),
        (10, {"key": "k"}),
        (4, {"spent": {"epsilon": "0.1", "delta": "0"}}),
        (2, {"epsilon": 0.3}),
        (3, {"name": "a"}),
        (7, {"charge": 10}),
        (7, {"charge": 3}),
        (7, {"charge": 4}),
        (8, {"epsilon": 0.4}),
        (8, {"epsilon": 0.6}),
        (8, {"account": "b"}),
        (9, {"account": "a"}),
        (10, {"forged": True}),
    ],
)
def test_a_rewritten_chain_whose_sums_do_not_add_up_shows(book, seq, facts):
    """Every hash is right; the books are not."""
    tamper(book, lambda rows: rewrite(rows, seq, upto=N_ROWS, **facts))
    with pytest.raises(LedgerTampered, match=r"row \d+ contradicts"):
        _unopened(book).verify()


def test_a_second_genesis_shows(book, audit):
    rows = [Row(**row) for row in read(book)[:2]]
    genesis = Row.sealed("genesis", {"format": 2, "ledger_id": "x"}, after=rows[1])
    with pytest.raises(LedgerTampered, match="row 3 contradicts"):
        audit([*rows, genesis])


def test_a_gap_in_the_numbers_shows_though_the_hashes_fit(book, audit):
    with Ledger(book)._store.reading() as log:
        rows = [*map(log.row, (1, 2, 3))]
    later = Row.sealed(rows[2].kind, rows[2].facts, after=rows[1]._replace(seq=7))
    assert (later.seq, later.previous) == (8, rows[1].hash)
    with pytest.raises(LedgerTampered, match="row 3 was changed"):
        audit([*rows[:2], later])
    with pytest.raises(LedgerTampered, match="every row was removed"):
        audit([], b'[1,"genesis",')


def test_every_earlier_head_is_in_the_chain(book):
    ledger = Ledger(book)
    with ledger._store.reading() as log:
        heads = [log.row(1 + k).hash for k in range(N_ROWS)]
    assert heads[-1] == ledger.head()
    assert [ledger.verify(head=head) for head in heads] == [N_ROWS] * N_ROWS


class TestChargingOnATamperedLedger:
    @pytest.mark.parametrize("column", ["time", "body", "previous", "hash"])
    @pytest.mark.parametrize("seq", range(1, N_ROWS + 1))
    def test_nothing_is_spent(self, book, seq, column):
        value = CHANGED[column] if column != "body" else '{"name":"a","epsilon":100.0}'
        tamper(book, lambda rows: rows[seq - 1].update({column: value}))
        content = book.read_bytes()
        with pytest.raises(LedgerTampered, match=f"books.ledger: row {seq}"):
            _unopened(book).charge("a", Guarantee(0.1), purpose="fit")
        assert book.read_bytes() == content

    @pytest.mark.parametrize("in_place", [False, True])
    def test_a_handle_notices_rows_cut_or_rewritten_since_it_last_looked(self, book, in_place):
        for act in (
            lambda rows: rows.pop(),
            lambda rows: rewrite(rows, 4, upto=N_ROWS, purpose="something harmless"),
        ):
            ledger = _unopened(book)
            ledger.head()
            before = book.read_bytes()
            if in_place:
                copy = book.with_name("copy")
                copy.write_bytes(before)
                tamper(copy, act)
                book.write_bytes(copy.read_bytes())
            else:
                tamper(book, act)
            with pytest.raises(LedgerTampered, match="rolled back"):
                ledger.charge("a", Guarantee(0.1), purpose="fit")
            book.write_bytes(before)

    def test_a_row_changed_in_place_shows_when_it_is_needed(self, book):
        """The process has read it before; it is read, and checked, again."""
        ledger = Ledger(book)
        content = book.read_bytes()
        with book.open("r+b") as file:
            file.write(content.replace(b'\\"epsilon\\":0.5,', b'\\"epsilon\\":9.5,', 1))
        with pytest.raises(LedgerTampered, match="row 2"):
            ledger.charge("a", Guarantee(0.1), purpose="fit")

    def test_another_ledger_in_its_place_shows(self, book, tmp_path):
        ledger = Ledger(book)
        Ledger(tmp_path / "other").path.replace(book)
        with pytest.raises(LedgerTampered, match="another ledger was put in its place"):
            ledger.head()


def test_a_damaged_file_is_an_error_of_ours(book, original):
    """Bytes overwritten anywhere show."""
    for offset in range(0, len(original), 97):
        damaged = bytearray(original)
        damaged[offset : offset + 3] = bytes(255 - byte for byte in damaged[offset : offset + 3])
        replace_by(book, bytes(damaged))
        if offset >= len(original.rstrip(b"\n").rpartition(b"\n")[0]) and b"\n" not in damaged[-3:]:
            continue  # The last line without its end is what a kill leaves.
        with pytest.raises((NotALedger, LedgerTampered)):
            _unopened(book).verify()


class TestWhatAKillLeaves:
    """An append that was not acknowledged: whatever part of it is there is not a row."""

    def test_any_part_of_the_last_line_is_as_none(self, book, original):
        whole = original[:-1].rpartition(b"\n")[0] + b"\n"
        line = original[len(whole) :]
        for length in [*range(0, len(line), 7), len(line) - 1]:
            replace_by(book, whole + line[:length])
            ledger = _unopened(book)
            assert ledger.verify() == N_ROWS - 1
            assert ledger.spent("a") == 0.4
            ledger.charge("a", Guarantee(0.1), purpose="life goes on")
            assert ledger.verify() == N_ROWS
            assert book.read_bytes().startswith(whole)

    @pytest.mark.parametrize("rest", [b"\0" * 300, b"\0" * 300 + b'"]\n', b'[10,"charge\0\0\0"]\n'])
    def test_room_without_content_is_as_none(self, book, original, rest):
        replace_by(book, original[:-1].rpartition(b"\n")[0] + b"\n" + rest)
        ledger = _unopened(book)
        assert ledger.spent("a") == 0.4
        ledger.charge("a", Guarantee(0.1), purpose="life goes on")
        assert ledger.verify() == N_ROWS
