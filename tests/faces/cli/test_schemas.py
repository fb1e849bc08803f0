"""schema new: from names, and what columns are declared by."""

from pathlib import Path

from confrere.schema import PublicSchema


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
