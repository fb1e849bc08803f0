"""verify, predict, release, ledger, schema, keys: what one does with what there is."""

from dataclasses import replace
from pathlib import Path

import pytest

from confrere.release import CardNotes, load_release
from confrere.release.folder import write_folder
from confrere.release.release import release_files


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


def test_release_onnx_writes_the_graph_of_the_release(line, fitted):
    line("release", "onnx", fitted, "--out", "model.onnx")
    assert Path("model.onnx").read_bytes() == load_release(fitted).to_onnx()
    line("release", "onnx", "nowhere", code=5)


def test_release_show_has_a_scorecard_where_points_add_up(line, fitted):
    assert "schema" in line("release", "show", fitted, "--scorecard", code=3).stderr


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


def test_methods_are_listed_by_a_command_and_versions_by_another(line):
    answer = line.json("methods")
    assert {m["name"] for m in answer["data"]["methods"]} >= {"plr", "pst-h", "average", "vote"}
    assert "pst-h" in line("methods").stdout
    assert "numpy" in line("version").stdout
