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


@pytest.mark.parametrize(
    "words",
    [
        ["open", "books.ledger", "other", "--epsilon", "1"],
        ["raise", "books.ledger", "study", "--epsilon", "2"],
        ["freeze", "books.ledger", "study"],
        ["witness", "books.ledger", "--reset"],
    ],
)
def test_nothing_goes_without_a_reason(line, book, words):
    head = book.head()
    line("ledger", *words, code=3)
    line("ledger", *words, "--reason", "", code=2)
    assert book.head() == head


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


def test_show_has_the_last_charges_first_and_pages(line, book):
    book.open_account("many")
    for number in range(45):
        book.charge("many", Guarantee(0.01), purpose=f"fit {number}")
    book.charge("study", Guarantee(0.1), purpose="other")
    first = line.json("ledger", "show", "books.ledger")["data"]
    assert (first["page"], first["pages"], first["charges"]) == (1, 3, 46)
    assert [one["purpose"] for one in first["entries"]][:3] == ["other", "fit 44", "fit 43"]
    words = ("--account", "many", "--rows", "10", "--page", "5")
    last = line.json("ledger", "show", "books.ledger", *words)["data"]
    assert [one["purpose"] for one in last["entries"]] == [f"fit {n}" for n in (4, 3, 2, 1, 0)]
    assert line.json("ledger", "show", "books.ledger", "--page", "9")["data"]["entries"] == []
    for wrong in (["--rows", "0"], ["--page", "0"], ["--rows", "x"]):
        line("ledger", "show", "books.ledger", *wrong, code=2)
