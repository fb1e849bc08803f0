"""evaluate: priced, charged, signed beside the release, and refused before anything is spent."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from confrere import Ledger, PrivateLogisticRegression
from confrere.release import generate_key, load_release
from tests.methods.evaluation.test_infer import SCHEMA as INFERENCE
from tests.methods.evaluation.test_infer import cohort
from tests.methods.evaluation.test_infer import fitted as fitted_for_inference


@pytest.fixture
def key(folder):
    generate_key(folder / "main.key", "main")
    return f"main={folder / 'main.key'}"


def options(**more):
    known = {"epsilon": 0.5, "ledger": "local/main.ledger", **more}
    return [word for name, value in known.items() for word in (f"--{name}", value)]


def test_quality_is_paid_for_signed_and_verified(line, fitted, key):
    before = {path.name: path.read_bytes() for path in fitted.iterdir() if path.is_file()}
    args = (fitted, "local/main.csv", *options(key=key))
    result = line("evaluate", *args, typed="0.5\n")
    assert "Type 0.5 to approve this privacy cost" in result.stderr
    assert "accuracy" in result.stdout
    assert Ledger("local/main.ledger").spent("main/checkups-2010") == 1.5
    assert {p.name: p.read_bytes() for p in fitted.iterdir() if p.is_file()} == before
    checked = line.json("verify", fitted, "--ledger", "local/main.ledger")["data"]["checked"]
    assert any("measured its quality and signed that" in one for one in checked)
    shown = line.json("release", "show", fitted)["data"]["additions"]
    assert [m["name"] for m in shown[0]["quality"]["measures"]] == ["accuracy", "auc"]
    assert shown[0]["quality"]["positive"] == "yes"
    line("release", "page", fitted, "--out", "card.html")
    assert "Measured later by main" in Path("card.html").read_text()
    place = next((fitted / "additions").glob("*.json"))
    place.write_bytes(place.read_bytes().replace(b'"accuracy"', b'"accurate"'))
    assert line.json("verify", fitted, code=5)["error_code"] == "SignatureError"


def test_a_release_without_a_schema_needs_to_be_told_the_label(line, folder):
    ledger = Ledger("local/main.ledger")
    ledger.open_account("a", epsilon=5.0)
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(400, 2)) / 9, columns=["u", "v"])
    y = (X["u"] > 0).astype(int)
    PrivateLogisticRegression(budget=ledger).fit(X, y).to_release().save("r")
    X.assign(ill=y).to_csv("t.csv", index=False)
    assert "--label" in line.json("evaluate", "r", "t.csv", *options(), "--yes", code=3)["message"]
    line("evaluate", "r", "t.csv", *options(label="ill"), "--yes")
    assert load_release("r").receipt.row != ledger.entries()[-1].row


@pytest.mark.parametrize(("epsilon", "estimable"), [(9.0, True), (0.01, False)])
def test_odds_ratios_are_paid_for_added_and_shown(line, key, epsilon, estimable):
    ledger, table = Ledger("local/main.ledger"), cohort(0)
    ledger.open_account("a", epsilon=20.0)
    made = fitted_for_inference(table, epsilon=epsilon, random_state=None, budget=ledger)
    made.to_release().save("r")
    table.to_parquet("t.parquet")
    asked = ("evaluate", "r", "t.parquet", *options(key=key), "--odds-ratios")
    answer = line.json(*asked, "--yes")
    terms = {one["term"]: one for one in answer["data"]["quality"]["terms"]}
    assert (terms["male"]["odds_ratio"] is not None) == estimable
    line("verify", "r", "--ledger", "local/main.ledger")
    shown = line("release", "show", "r").stdout
    # Among those that need more records, or all of them do.
    assert ("male (" in shown or "no intervals are known" in shown) != estimable
    line("release", "page", "r", "--out", "page.html")
    page = Path("page.html").read_text(encoding="utf-8")
    assert ('<th class="number">odds ratio</th>' in page) == estimable
    assert "for ε&#8239;=&#8239;0.5 of their own" in page
    assert ledger.spent("a") == epsilon + 0.5


def test_how_far_intervals_will_reach_is_said_before_anything_is_spent(line):
    Path("schema.toml").write_text(INFERENCE.to_toml(), encoding="utf-8")
    asked = ("plan", "--features", 9, "--schema", "schema.toml", "--odds-ratios", "--records")
    few, many = (line.json(*asked, n)["data"]["odds_ratios"] for n in (200, 20_000))
    assert "times the records would do" in few["note"]
    told = {one["term"]: one for one in many["terms"]}
    assert told["male"]["coefficient"] is None
    assert 0 < told["male"]["high"] < 0.5
    line("plan", "--records", 200, "--features", 9, "--odds-ratios", code=3)
