"""What the owner of a ledger says on the command line: accounts, caps, the witness."""

from pathlib import Path

import pytest

from confrere.kernel.guarantee import Guarantee
from confrere.ledger import Ledger


@pytest.fixture
def book(folder) -> Ledger:
    ledger = Ledger("books.ledger")
    ledger.open_account("study", epsilon=1.0)
    return ledger


def test_the_witness_is_shown_and_reset_on_the_owner_s_word(line, book):
    copy = Path("books.ledger").read_bytes()
    assert line.json("ledger", "witness", "books.ledger")["data"]["agrees"]
    book.charge("study", Guarantee(0.5), purpose="fit")
    Path("books.ledger").unlink()
    Path("books.ledger").write_bytes(copy)
    answer = line.json("ledger", "show", "books.ledger", code=5)
    assert answer["error_code"] == "WitnessMismatch"
    seen = line.json("ledger", "witness", "books.ledger")["data"]
    assert (seen["agrees"], seen["kept"]["row"], seen["found"]["row"]) == (False, 3, 2)
    line("ledger", "witness", "books.ledger", "--reset", "--reason", "restored after a fire")
    assert "witness reset" in line("ledger", "show", "books.ledger").stdout
    (reset,) = line.json("ledger", "show", "books.ledger")["data"]["resets"]
    assert (reset["reason"], reset["row"]) == ("restored after a fire", 3)
    assert line.json("ledger", "witness", "books.ledger")["data"]["agrees"]
    line("ledger", "witness", "none.ledger", code=3)
