"""Table 1 as a study: counted by every party, and of use as public statistics of the next one."""

import re
from pathlib import Path

import pytest

from confrere import Ledger, PublicSchema
from confrere.errors import InvalidRelease, StudyError
from confrere.release import load_release
from confrere_federation.studies.study_file import study_from_bytes
from tests.faces.cli.conftest import Line

PARTIES = ("main", "branch-1", "branch-2")


@pytest.fixture
def here(folder, monkeypatch):
    """A study that declares bounds alone, by parties that allow what it asks for."""
    monkeypatch.chdir(folder)
    text = re.sub(r", mean = [\d.]+, sd = [\d.]+", "", Path("study.toml").read_text())
    text = text.replace(", base_rate = 0.12", "").replace("epsilon = 2.0", "epsilon = 3.0")
    Path("study.toml").write_text(text)
    return text


run = Line().json


def table_of(text, trust="own noise"):
    named = f'name = "table1"\ntrust = "{trust}"'
    Path("table.toml").write_text(text.replace('name = "average"', named))
    (made,) = run("fit", "table.toml", "--yes", "--out", "out")["data"]["releases"]
    return Path(made["folder"])


@pytest.mark.parametrize("trust", ["own noise", "sum"])
def test_the_table_is_the_public_statistics_of_the_next_study_with_its_receipts(here, trust):
    folder = table_of(here, trust)
    sites = {line.split(",")[0] for line in (folder / "table1.csv").read_text().splitlines()[1:]}
    assert sites == ({"all"} if trust == "sum" else {"all", *PARTIES})
    assert "Table 1" in folder.with_name(f"{folder.name}.html").read_text()
    run("verify", folder, "--ledger", "local/main.ledger", "--study", "table.toml")
    with pytest.raises(InvalidRelease, match="no model"):
        load_release(folder)
    learned = (folder / "table1.toml").read_text()
    schema = PublicSchema.from_toml(learned)
    assert schema.features[0].mean == pytest.approx(50, abs=12)
    assert schema.paid[0].receipts.keys() == set(PARTIES)
    head, rest = here.split("[data]")
    tail = rest[rest.index("\n[method]") :]
    Path("next.toml").write_text(head.replace("diabetes-2026", "next") + learned + tail)
    told = run("cost", "next.toml")["data"]
    assert told["epsilon_per_unit"] == 2.0
    assert told["costs"][1]["guarantee"]["epsilon"] == 1.0
    card = run("fit", "next.toml", "--yes", "--out", "next")["data"]["releases"][0]
    assert card["epsilon"] == 2.0
    method = load_release(card["folder"]).card.accounting.method
    assert "what was paid for facts of the schema included" in method
    run("verify", card["folder"], "--ledger", "local/main.ledger")
    assert Ledger("local/main.ledger").spent("main/checkups-2010") == 2.0


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("[federation]", "[facts]\nepsilon = 0.5\n[federation]", 'method.name = "table1"'),
        ('name = "average"', 'name = "TABLE1"\nclipping = "rms"', r"method\.clipping"),
        ('name = "average"', 'name = "table1"\ntrust = "anybody"', "trust must be"),
        ('name = "average"', 'name = "table1"\nsites = 3', r"method\.sites"),
        ('privacy_unit = "record"', 'privacy_unit = "party"', "table1 guarantees record"),
        ('name = "branch-1"', 'name = "all"', r"party\.name.*'all' names everybody"),
    ],
)
def test_what_a_table_cannot_be_is_refused_by_its_key(here, old, new, said):
    text = here.replace(old, new, 1)
    text = text.replace('name = "average"', 'name = "table1"')
    with pytest.raises(StudyError, match=said):
        study_from_bytes(text.encode())


def test_an_outcome_of_several_classes_is_counted(here):
    text = here.replace('positive = ["yes"]', 'classes = ["no", "yes", "not known"]')
    lines = (table_of(text) / "table1.csv").read_text().splitlines()
    assert any("not known" in line for line in lines)
