"""One home per organisation: every study finds the same ledger, whatever it calls the data."""

import re
from pathlib import Path

import pytest

from confrere.ledger import Ledger

PARTIES = ("main", "branch-1", "branch-2")


@pytest.fixture
def homes(line, folder, monkeypatch):
    """A home for every party of the example, and a local file that names its data set."""
    monkeypatch.delenv("CONFRERE_HOME", raising=False)
    for party in PARTIES:
        table = f"checkups=local/{party}.csv"
        line("home", f"at-{party}", "--data", table, "--unit-column", "patient_id")
    Path("study.toml").rename("base.toml")
    return folder


def month(number: int, *, party: str = "main") -> list[str]:
    """Write a month's study with a folder in every home; return the words that fit it."""
    text = Path("base.toml").read_text().replace("checkups-2010", f"month-{number}")
    text = text.replace("diabetes-2026", f"s{number}").replace('name = "main"', f'name = "{party}"')
    study = Path(f"s{number}.toml")
    study.write_text(text)
    words = [str(study), "--out", f"out-{number}"]
    for home in PARTIES:
        place = Path(f"at-{home}/studies/s{number}")
        place.mkdir(parents=True, exist_ok=True)
        name = party if home == "main" else home
        (place / "local.toml").write_text(f'party = "{name}"\ndataset = "checkups"\n')
        words += ["--local", str(place / "local.toml")]
    return words


def test_four_months_by_one_home_keep_one_cap(line, homes):
    policy = Path("at-main/policy.toml")
    assert "lifetime_epsilon = 3.0" in policy.read_text()
    # The study's own caps are wide: the home's limit is to decide.
    base = Path("base.toml")
    base.write_text(re.sub(r"cap = \{ epsilon = \d", "cap = { epsilon = 9", base.read_text()))
    for number in (1, 2, 3):
        study, *words = month(number)
        words = [one for one in words if one != "--out" and not one.startswith("out-")]
        spent = [p["spent"] for p in line.json("cost", study, *words)["data"]["costs"]]
        assert spent == [number - 1.0] * 3
        line("fit", *month(number), "--yes")
    told = line.json("fit", *month(4), "--yes", code=4)
    assert "0 left under" in told["message"]
    for party in PARTIES:
        (account,) = Ledger(f"at-{party}/ledgers/checkups.ledger").accounts()
        assert (account.name, account.spent) == (f"{party}/checkups", 3.0)
    told = line.json("home", "at-main")["data"]
    assert [one["spent"] for one in told["datasets"]["checkups"]["accounts"]] == [3.0]
    policy.write_text(policy.read_text().replace("= 3.0", "= 4.0"))
    told = line.json("fit", *month(4), "--yes", code=4)  # raised in one place only
    assert "cap in the ledger" in told["message"]


class TestASecondLedger:
    def test_by_a_local_file_without_a_home(self, line, homes):
        line("fit", *month(1), "--yes")
        month(2)
        told = line.json("fit", "s2.toml", "--out", "out", "--yes", code=5)  # local/ is beside it
        assert "counted in another ledger already" in told["message"]

    def test_by_two_names_for_one_table(self, line, homes):
        told = line.json("home", "at-main", "--data", "other=local/main.csv", code=3)
        assert "checkups and other are one table" in told["message"]
        assert '"other"' not in Path("at-main/datasets.toml").read_text()

    def test_by_the_environment(self, line, homes, monkeypatch):
        monkeypatch.setenv("CONFRERE_LEDGER", "new.ledger")
        line("fit", *month(1), "--yes")
        assert Path("at-main/ledgers/checkups.ledger").is_file()
        assert not Path("new.ledger").exists()

    def test_by_a_ledger_that_was_removed(self, line, homes):
        line("fit", *month(1), "--yes")
        Path("at-main/ledgers/checkups.ledger").unlink()
        told = line.json("fit", *month(2), "--yes", code=5)
        assert "the file was deleted, moved or replaced" in told["message"]


@pytest.mark.parametrize(
    ("line_of", "words"),
    [
        ('unit_column = "visit_id"', "counts by another column"),
        (f'unit_column = "patient_id"\nsha256 = "{"0" * 64}"', "is not the one that datasets.toml"),
    ],
)
def test_what_the_home_says_of_a_table_must_hold(line, homes, line_of, words):
    datasets = Path("at-main/datasets.toml")
    told = datasets.read_text().rsplit("unit_column", 1)[0]
    datasets.write_text(told + line_of + "\n")
    assert words in line.json("fit", *month(1), "--yes", code=3)["message"]
    assert not list(Path("at-main").rglob("*.ledger"))


# A study's word for the data counts for nothing: all names of a table pay from one budget.


def study_of(number: int, name: str) -> str:
    """Write the study of a study_of, which calls everybody's data something else."""
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
    line("fit", study_of(1, "checkups-2010"), "--yes")
    for number, name in enumerate(("checkups-2010", "checkups-A", "checkups-B"), start=2):
        told = line.json("cost", study_of(number, name), code=4)
        assert "0 left under" in told["message"]
        line("fit", "study.toml", "--yes", code=4)
    ledger = Ledger("local/main.ledger")
    assert [(one.name, one.spent) for one in ledger.accounts()] == [("main/checkups-2010", 1.0)]
