"""A study's word for the data counts for nothing: all names of a table pay from one budget."""

from __future__ import annotations

from pathlib import Path

import pytest

from confrere.kernel.guarantee import Guarantee
from confrere.ledger import Ledger


def month(number: int, name: str) -> str:
    """Write the study of a month, which calls everybody's data something else."""
    text = Path("base.toml").read_text().replace("checkups-2010", name)
    Path("study.toml").write_text(text.replace("diabetes-2026", f"s{number}"))
    return "study.toml"


@pytest.fixture
def lifetime_of_one(folder):
    Path("study.toml").rename("base.toml")
    for local in Path("local").glob("*.toml"):
        text = local.read_text()
        assert "lifetime_epsilon = 3.0" in text
        local.write_text(text.replace("lifetime_epsilon = 3.0", "lifetime_epsilon = 1.0"))
    return folder


def test_one_table_under_three_names_pays_once(line, lifetime_of_one):
    line("fit", month(1, "checkups-2010"), "--yes")
    for number, name in enumerate(("checkups-2010", "checkups-A", "checkups-B"), start=2):
        told = line.json("price", month(number, name), code=4)
        assert "0 left under" in told["message"]
        line("fit", "study.toml", "--yes", code=4)
    ledger = Ledger("local/main.ledger")
    assert [(one.name, one.spent) for one in ledger.accounts()] == [("main/checkups-2010", 1.0)]


@pytest.mark.parametrize("name", ["checkups-2010", "january", "march"])
def test_a_ledger_with_an_account_for_every_name_is_counted_as_one(line, folder, name):
    """Version 0.2 opened an account for every name that studies gave the data."""
    book = Ledger("local/main.ledger")
    for earlier in ("january", "february"):
        book.open_account(f"main/{earlier}", epsilon=3.0)
        book.charge(f"main/{earlier}", Guarantee(0.75), purpose="earlier")
    Path("study.toml").rename("base.toml")
    line("fit", month(1, name), "--yes")
    assert {one.name: one.spent for one in book.accounts()} == {
        "main/january": 1.75,
        "main/february": 0.75,
    }
    told = line.json("fit", month(2, name), "--yes", code=4)  # 2.5 of 3 are gone
    assert "0.5 left under" in told["message"]


def test_an_owner_s_no_to_one_name_is_a_no_to_all(line, folder):
    Path("study.toml").rename("base.toml")
    line("fit", month(1, "checkups-2010"), "--yes")
    line("ledger", "freeze", "local/main.ledger", "main/checkups-2010", "--reason", "board")
    told = line.json("fit", month(2, "other"), "--yes", code=4)
    assert told["error_code"] == "AccountFrozen"


@pytest.mark.parametrize(
    ("period", "words"), [(None, "cap in the ledger"), ("year", "for this year")]
)
def test_a_refusal_by_the_ledger_says_how_its_cap_is_raised(line, folder, period, words):
    book = Ledger("local/main.ledger")
    book.open_account("main/checkups-2010", epsilon=0.5, period=period)
    said = line.json("price", "study.toml", code=4)["message"]
    assert words in said
    assert "confrere ledger raise" in said
    line("ledger", "raise", "local/main.ledger", "main/checkups-2010", "--epsilon", 1, "--reason=x")
    line("price", "study.toml")
