"""A study that learns facts of its schema first, over all parties, and pays for them."""

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from confrere import Ledger
from confrere.cli import app
from confrere.release import load_release
from confrere_federation.studies import running as protocols


def bounds_only(text, more="[facts]\nepsilon = 0.5\n"):
    """The example's study without means, deviations and the base rate."""
    text = re.sub(r", mean = [\d.]+, sd = [\d.]+", "", text).replace(", base_rate = 0.12", "")
    return text.replace("[federation]", f"{more}\n[federation]")


@pytest.fixture
def here(folder, monkeypatch):
    """A study with bounds only, and parties that allow what it asks for."""
    monkeypatch.chdir(folder)
    study = Path("study.toml")
    study.write_text(bounds_only(study.read_text()).replace("epsilon = 2.0", "epsilon = 3.0"))
    return folder


def run(*arguments, code=0):
    result = CliRunner().invoke(app, [*map(str, arguments), "--json"])
    assert result.exit_code == code, (result.stdout, result.stderr)
    return json.loads(result.stdout)


@pytest.mark.parametrize("method", ["average", "sums", "plr", "simcomb"])
def test_every_party_pays_for_facts_and_model_and_the_card_says_both(here, method):
    study = Path("study.toml")
    study.write_text(study.read_text().replace('name = "average"', f'name = "{method}"'))
    assert run("cost", "study.toml")["data"]["costs"][0]["guarantee"]["epsilon"] == 1.5
    answer = run("fit", "study.toml", "--yes", "--out", "out")
    for name in ("main", "branch-1", "branch-2"):
        book = Ledger(f"local/{name}.ledger")
        assert book.spent(f"{name}/checkups-2010") == 1.5
        assert len(book.entries()) == 2
    for made in answer["data"]["releases"]:
        assert made["epsilon"] == 1.5
        release = load_release(made["folder"])
        schema = release.model.encoder.schema
        assert schema.features[0].mean == pytest.approx(50, abs=12)
        assert len(schema.paid[0].receipts) == 3
        assert "what was paid for facts of the schema included" in release.card.accounting.method
        run("verify", made["folder"], "--ledger", "local/main.ledger")
        run("predict", made["folder"], "local/main.csv", "--out", f"{made['name']}.csv")


def test_a_run_that_was_killed_after_the_facts_goes_on_with_them(here, monkeypatch):
    learning = protocols.with_quorum

    def killed(protocol, quorum):
        learned = yield from learning(protocol, quorum)
        if Ledger("local/main.ledger").entries():  # and no dry run
            raise KeyboardInterrupt
        return learned

    with monkeypatch.context() as patch:
        patch.setattr(protocols, "with_quorum", killed)
        result = CliRunner().invoke(app, ["fit", "study.toml", "--yes", "--out", "out"])
        assert result.exit_code != 0
    assert Ledger("local/main.ledger").spent("main/checkups-2010") == 0.5
    run("fit", "study.toml", "--yes", "--out", "again")
    assert Ledger("local/main.ledger").spent("main/checkups-2010") == 1.5


def test_facts_that_were_learned_serve_the_next_study_and_are_in_its_price(here):
    made = run("fit", "study.toml", "--yes", "--out", "out")["data"]["releases"][0]
    schema = load_release(made["folder"]).model.encoder.schema
    text = Path("study.toml").read_text().replace("[facts]\nepsilon = 0.5\n", "")
    head, rest = text.split("[data]")
    tail = rest[rest.index("\n[method]") :]
    Path("next.toml").write_text(head.replace("diabetes-2026", "next") + schema.to_toml() + tail)
    priced = run("cost", "next.toml")["data"]
    assert priced["epsilon_per_unit"] == 1.5
    assert priced["costs"][1]["guarantee"]["epsilon"] == 1.0
    card = run("fit", "next.toml", "--yes", "--out", "next")["data"]["releases"][0]
    assert card["epsilon"] == 1.5
    run("verify", card["folder"], "--ledger", "local/main.ledger")
    assert Ledger("local/main.ledger").spent("main/checkups-2010") == 2.5
