"""verify, predict, release, ledger, schema, keys: what one does with what there is."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnxruntime
import pandas as pd
import pytest

from confrere.errors import NotInstalled
from confrere.extras import research
from confrere.release import CardNotes, load_release
from confrere.release.folder import write_folder
from confrere.release.release import release_files
from confrere.schema import Category, Number, PublicSchema
from confrere_research.packaged_schemas import load_schema


def test_verify_with_study_and_ledger(line, fitted):
    answer = line.json("verify", fitted, "--study", "study.toml", "--ledger", "local/main.ledger")
    assert len(answer["data"]["checked"]) == 5
    assert "give --key" in answer["message"]


@pytest.mark.parametrize(
    ("words", "place"),
    [
        ({"max_rows_per_unit": 2}, "guarantee.max_rows_per_unit"),
        ({"purpose": "anything"}, "product.purpose"),
        ({"unit_detail": "one ward"}, "guarantee.unit_detail"),
    ],
)
def test_verify_compares_the_card_with_what_the_study_says(line, fitted, words, place):
    """Whoever saves a release writes the card, and all sums with it."""
    real, study = load_release(fitted), Path("study.toml").read_bytes()
    notes = CardNotes(study_sha256=real.card.study_sha256, **words)
    if "purpose" not in words:
        notes = replace(notes, title=real.card.product.title, purpose=real.card.product.purpose)
    card = real.describe(notes).card
    write_folder("forged", release_files(real.model, card, study=study), {})
    line("verify", "forged")
    assert place in line("verify", "forged", "--study", "study.toml", code=5).stderr


def test_verify_refuses_a_changed_file_another_study_and_another_ledger(line, fitted):
    Path("other.toml").write_text("schema = 1\n")
    assert "another study" in line("verify", fitted, "--study", "other.toml", code=5).stderr
    line("keys", "new", "k")
    line("fit", "study.toml", "--yes", "--out", "two", "--ledger", "two.ledger")
    answer = line.json("verify", fitted, "--ledger", "two.ledger", code=5)
    assert "no charge of this release" in answer["message"]
    (fitted / "model.json").write_text((fitted / "model.json").read_text().replace("1", "2", 1))
    assert line.json("verify", fitted, code=5)["error_code"] == "InvalidRelease"


def test_release_show_page_and_sign(line, fitted):
    shown = line("release", "show", fitted).stdout
    assert "NOT PROTECTED" in shown
    assert "not for denying care" in shown
    assert line.json("release", "show", fitted)["data"]["status"] == "released"
    line("release", "page", fitted, "--out", "page.html")
    assert "<html" in Path("page.html").read_text()
    made = line.json("keys", "new", "main.key", "--comment", "main")["data"]
    assert line("keys", "show", "main.key.pub").stdout.strip() == made["fingerprint"]
    line("release", "sign", fitted, "--party", "main", "--key", "main.key")
    line("verify", fitted, "--key", "main=main.key.pub")
    line("release", "sign", fitted, "--party", "../up", "--key", "main.key", code=3)


def test_release_onnx_predicts_the_raw_rows_that_predict_does(line, fitted):
    line("release", "onnx", fitted, "--out", "model.onnx")
    session = onnxruntime.InferenceSession("model.onnx", providers=["CPUExecutionProvider"])
    table = pd.read_csv("local/branch-1.csv").head(200)
    kinds = {"tensor(double)": float, "tensor(string)": str, "tensor(int64)": int}
    given = {
        one.name: table[[one.name]].astype(kinds[one.type]).to_numpy()
        for one in session.get_inputs()
    }
    names = [one.name for one in session.get_outputs()]
    answers = dict(zip(names, session.run(None, given), strict=True))
    told = line.json("predict", fitted, "local/branch-1.csv")["data"]["predictions"]
    expected = np.array(told["probability of yes"][:200])
    np.testing.assert_allclose(answers["probability"][:, 1], expected, rtol=1e-12, atol=1e-12)
    line("release", "onnx", "nowhere", code=5)


def test_ledger_show_verify_export(line, fitted):
    shown = line("ledger", "show", "local/main.ledger").stdout
    assert "main/checkups-2010" in shown
    answer = line.json("ledger", "show", "local/main.ledger", "--account", "main/checkups-2010")
    (entry,) = answer["data"]["entries"]
    assert entry["state"] == "released"
    assert line("ledger", "show", "local/main.ledger", "--account", "x", code=3)
    head = answer["data"]["head"]
    assert line.json("ledger", "verify", "local/main.ledger", "--head", head)["data"]["rows"] == 5
    answer = line.json("ledger", "verify", "local/main.ledger", "--head", "0" * 64, code=5)
    assert answer["error_code"] == "LedgerTampered"
    exported = line("ledger", "export", "local/main.ledger").stdout
    assert json.loads(exported)["head"] == head
    line("ledger", "export", "local/main.ledger", "--format", "csv", "--out", "l.csv")
    assert len(Path("l.csv").read_text().splitlines()) == 2


def test_schema_show_fingerprint_diff_and_draft(line, folder):
    assert "Glu0" in line("schema", "show", "study.toml").stdout
    printed = line("schema", "fingerprint", "brfss2022").stdout.strip()
    assert printed == load_schema("brfss2022").fingerprint()
    assert "mean the same" in line("schema", "diff", "study.toml", "study.toml").stdout
    Path("b.toml").write_text(Path("study.toml").read_text().replace("mean = 52", "mean = 53"))
    answer = line.json("schema", "diff", "study.toml", "b.toml", code=3)
    assert answer["data"]["differences"] == ["age.mean: 52.0 here, 53.0 there"]
    draft = ("schema", "draft", "local/main.csv", "--label", "diabetes", "--positive", "yes")
    assert "public data only" in line(*draft, code=2).stderr
    public = "--this-table-is-public"
    result = line(*draft, public, "--exclude", "patient_id", "--out", "d.toml")
    assert "right only if it is public" in result.stderr
    assert "smoker" in line("schema", "show", "d.toml").stdout
    line("schema", "show", "nowhere.toml", code=3)


def test_audit_by_densities_does_not_refute_what_is_proved(line):
    answer = line.json("audit", "plr", "--exact")
    assert 0 < answer["data"]["epsilon"] <= answer["data"]["claimed"] == 1.0
    assert not answer["data"]["refuted"]


def test_audit_by_sampling_counts(line, folder):
    words = ("audit", "plr", "--runs", "400", "--records", "runs.jsonl")
    assert "not refuted" in line(*words).stdout
    assert Path("runs.jsonl").is_file()


def test_audit_of_one_promise_goes_through_its_rows(line):
    answer = line.json("audit", "total")
    assert answer["message"] == "not refuted: total, in 2 rows"
    (found,) = answer["data"]["audits"]
    assert all(row["shares"]["ratio"] <= 1 + 1e-9 for row in found["rows"])
    line("audit", "total", "--exact", code=2)


def test_a_refuted_claim_ends_with_code_5(line, monkeypatch):
    from confrere.audit import ExactAudit
    from confrere.cli.commands import audit

    monkeypatch.setattr(audit, "exact_audit", lambda *_: ExactAudit(1.5, 1.0, "somewhere"))
    answer = line.json("audit", "plr", "--exact", code=5)
    assert answer["message"].startswith("REFUTED")


def test_plan_says_what_a_schema_brings(line, folder):
    """The rule by which estimators choose lines or curves, and whether a delta is spent."""
    bounds = [Number(f"n{j}", bounds=(0, 1)) for j in range(4)]
    schema = PublicSchema([*bounds, Category("job", values=("a", "b", "c"))])
    Path("schema.toml").write_text(schema.to_toml())
    facts = ("plan", "--features", "40", "--schema", "schema.toml", "--records")
    for n, form in (("300", "lines"), ("100000", "curves")):
        found = line.json(*facts, n)["data"]["schema"]
        assert found["used"] in found["expected"]
        assert (found["used"]["form"], found["ball"]) == (form, False)
    assert "of the signal" in line(*facts, "300").stdout
    line("plan", "--records", "300", "--features", "40", "--schema", "none.toml", code=3)


def test_plan_chooses_between_an_average_and_sums(line, folder):
    facts = ("plan", "--records", "500", "--features", "20", "--epsilon", "0.5", "--parties", "50")
    pure = line.json(*facts)["data"]
    assert pure["choose"] == "one message"
    assert pure["settings"] == {"method": "sums", "epsilon": 0.5}
    assert "rounds" not in pure["ways"]
    allowed = line.json(*facts, "--delta", "1e-6")["data"]
    assert allowed["choose"] == "rounds"
    assert "choose" not in line.json("plan", "--records", "500", "--features", "20")["data"]
    votes = line.json(*facts, "--auxiliary", "1000", "--classes", "6")["data"]["votes"]
    assert votes["cells"] == 12
    assert votes["privacy_term"] > 0
    assert "votes" not in line.json(*facts)["data"]


def test_without_the_papers_it_is_said_how_to_install_them(line, folder, monkeypatch):
    for name in [name for name in sys.modules if name.startswith("confrere_research")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "confrere_research", None)
    with pytest.raises(NotInstalled, match="pip install confrere-research"):
        research("commands")
    line("schema", "show", "brfss2022", code=3)
    assert "Glu0" in line("schema", "show", "study.toml").stdout


def test_version_names_every_method(line):
    answer = line.json("version")
    assert {m["name"] for m in answer["data"]["methods"]} >= {"plr", "pst-h", "average", "vote"}
    assert "numpy" in line("version").stdout


def test_quality_that_was_paid_for_is_shown(line, folder):
    study = folder / "study.toml"
    text = study.read_text().replace("epsilon = 2.0", "epsilon = 3.0")
    study.write_text(text + "\n[evaluation]\nepsilon = 0.5\n")
    for file in (folder / "local").glob("*.toml"):
        wider = file.read_text().replace('"learn"]', '"learn", "errors"]')
        file.write_text(wider.replace("max_epsilon_per_run = 1.0", "max_epsilon_per_run = 2.0"))
    made = line.json("fit", "study.toml", "--yes")["data"]["releases"][0]["folder"]
    shown = " ".join(line("release", "show", made).stdout.split())
    assert "share of records that it gets wrong" in shown
    assert "charged to the ledger" in shown
    assert "not measured" not in shown
