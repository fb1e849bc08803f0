"""Table 1 from the command line: paid once, a page, a table and a schema; or nothing at all."""

from pathlib import Path

import pytest

from confrere.ledger import Ledger
from confrere.schema import Flag, Label, Number, PublicSchema


@pytest.fixture
def asked(folder):
    """A table and a schema of bounds alone, an account of 1.5, and a command line."""
    # So many that noise from the system, which no seed repeats, stays far within the tolerances.
    rows = (f"{30 + k % 40},{'ny'[k % 4 == 0]},{k % 5}" for k in range(40_000))
    Path("people.csv").write_text("\n".join(["age,smoker,ill", *rows]))
    features = [Number("age", bounds=(18, 100)), Flag("smoker", true="y", false="n")]
    schema = PublicSchema(features, outcome=Label("ill", positive=0))
    Path("bounds.toml").write_text(schema.to_toml())
    Ledger("own.ledger").open_account("people", epsilon=1.5)
    told = ("--schema", "bounds.toml", "--epsilon", "1", "--ledger", "own.ledger")
    return ("table1", "people.csv", *told)


def test_table1_is_paid_for_and_written(asked, line):
    book = Ledger("own.ledger")
    line.json(*asked, typed="2\n", code=7)
    assert book.left("people") == 1.5
    told = line.json(*asked, typed="1\n")
    assert book.left("people") == 0.5
    assert "<table" in Path("table1.html").read_text()
    assert Path("table1.csv").read_text().count("\n") == 1 + len(told["data"]["table"])
    schema = PublicSchema.from_toml(Path("table1.toml"))
    assert schema.features[0].mean == pytest.approx(49.5, abs=1)
    assert schema.features[0].sd == pytest.approx(11.5, abs=1)
    assert schema.features[1].share == pytest.approx(0.25, abs=0.02)
    assert schema.outcome.base_rate == pytest.approx(0.2, abs=0.02)
    assert schema.paid[0].receipts["people"]["row"] == book.entries("people")[0].row
    assert "Facts that were paid for" in line("schema", "show", "table1.toml").stdout
    line.json(*asked, typed="1\n", code=4)
    assert book.left("people") == 0.5


def test_what_was_paid_for_is_shown_if_it_cannot_be_written(asked, line):
    result = line(*asked, "--yes", "--out", "nowhere/table1.html")
    assert "cannot be written" in result.stderr
    assert PublicSchema.from_toml(result.stdout[result.stdout.index("[data]") :]).paid
