"""verify, predict, release, ledger, schema, keys: what one does with what there is."""

from dataclasses import replace
from pathlib import Path

import pytest

from confrere.kernel.guarantee import Guarantee
from confrere.ledger import Ledger
from confrere.release import CardNotes, load_release
from confrere.release.folder import write_folder
from confrere.release.release import release_files
from confrere.schema import PublicSchema


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


def test_names_of_a_table_without_a_header_are_asked_for_and_no_record_is_taken(line, folder):
    Path("people.csv").write_text("52,never,yes\n61,former,no\n")
    typed = "age,smoker,ill\nill\nyes\nnumber\n18..100\n\n"
    made = line("schema", "new", "--header", "people.csv", typed=typed)
    assert PublicSchema.from_toml(made.stdout).columns == ("age",)
    assert "52" not in made.stderr
    ended = line("schema", "new", "--header", "people.csv", typed="\n" * 9, code=3)
    assert "nothing was typed" in ended.stderr


def test_the_witness_is_shown_and_reset_on_the_owner_s_word(line, folder):
    book = Ledger("books.ledger")
    book.open_account("study", epsilon=1.0)
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
