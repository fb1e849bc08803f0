"""schema new and draft: from names and from public tables."""

from pathlib import Path

import pytest

from confrere import Ledger
from confrere.cli.commands import schemas
from confrere.schema import Flag, Label, Number, PublicSchema


def test_a_new_schema_from_flags_reads_no_data(line, folder):
    columns = ["age=number:18..100", "smoker=category:never|former|current"]
    flags = [word for column in columns for word in ("--column", column)]
    label = ("--label", "diabetes", "--positive", "yes")
    answer = line.json("schema", "new", *flags, *label, "--out", "new.toml")
    schema = PublicSchema.from_toml(Path("new.toml"))
    assert schema.columns == ("age", "smoker")
    assert schema.outcome.positive == ("yes",)
    assert answer["data"]["fingerprint"] == schema.fingerprint()
    assert answer["data"]["missing_facts"][0]["fact"] == "importance"
    again = line.json("schema", "new", *flags, *label, "--out", "new.toml", code=3)
    assert "new.toml is there already" in again["message"]


def _account(line, epsilon):
    told = ("--unit", "record", "--neighbours", "replace-one", "--reason", "agreed")
    line("ledger", "open", "own.ledger", "people", "--epsilon", epsilon, *told)


def _bounds_only():
    # So many that noise from the system, which no seed repeats, stays far within the tolerances.
    Path("people.csv").write_text(
        "age,smoker,ill\n"
        + "\n".join(f"{30 + k % 40},{'ny'[k % 4 == 0]},{k % 5}" for k in range(40_000))
    )
    features = [Number("age", bounds=(18, 100)), Flag("smoker", true="y", false="n")]
    schema = PublicSchema(features, outcome=Label("ill", positive=0))
    Path("bounds.toml").write_text(schema.to_toml())


def test_facts_are_learned_for_a_price_that_the_schema_shows(line, folder):
    _bounds_only()
    _account(line, 1)
    paid = ("--schema", "bounds.toml", "--ledger", "own.ledger")
    args = ("schema", "learn", "people.csv", *paid, "--epsilon", "0.5")
    answer = line.json(*args, "--yes", "--out", "learned.toml")
    assert Ledger("own.ledger").spent("people") == 0.5
    schema = PublicSchema.from_toml(Path("learned.toml"))
    assert schema.features[0].mean == pytest.approx(49.5, abs=1)
    assert schema.features[1].share == pytest.approx(0.25, abs=0.02)
    assert schema.outcome.base_rate == pytest.approx(0.2, abs=0.02)
    assert answer["data"]["paid"]["learned"]["age"] == ["mean", "sd"]
    shown = line("schema", "show", "learned.toml")
    assert "Facts that were paid for" in shown.stdout
    assert line.json("schema", "show", "learned.toml")["data"]["paid"]
    result = line(*args, typed="0.5\n")
    assert "Type 0.5 to spend it" in result.stderr
    assert "in the total of every release" in result.stderr
    assert PublicSchema.from_toml(result.stdout).paid


def test_facts_that_were_paid_for_are_shown_if_their_file_cannot_be_written(
    line, folder, monkeypatch
):
    _bounds_only()
    _account(line, 1)
    monkeypatch.setattr(schemas, "_refuse_taken", lambda out: None)  # it went away meanwhile
    paid = ("--schema", "bounds.toml", "--ledger", "own.ledger", "--epsilon", "0.5", "--yes")
    result = line("schema", "learn", "people.csv", *paid, "--out", "nowhere/learned.toml")
    assert "cannot be written" in result.stderr
    assert PublicSchema.from_toml(result.stdout).paid
    assert Ledger("own.ledger").spent("people") == 0.5
