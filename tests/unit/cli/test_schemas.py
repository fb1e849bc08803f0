"""schema new and draft: from names and from public tables."""

from pathlib import Path

from confrere.schema import Category, Number, PublicSchema


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


def test_a_new_schema_asks_for_the_rest_until_it_makes_sense(line, folder):
    table = Path("local/main.csv")
    table.write_text(table.read_text().split("\n")[0] + "\nS3CRET,S3CRET\n")
    typed = ["diabetes", "yes", "", "numbr", "number", "18", "number", "18..100", "", "", ""]
    result = line("schema", "new", "--header", table, typed="\n".join(typed) + "\n")
    schema = PublicSchema.from_toml(result.stdout)
    assert schema.features == (Number("age", bounds=(18, 100)),)
    assert "LOW..HIGH, like 18..100" in result.stderr
    assert "mean and sd of age: " in result.stderr
    assert "S3CRET" not in result.stdout + result.stderr


def test_a_column_that_the_header_lacks_is_refused(line, folder):
    flag = ("--column", "agee=number:1..2")
    result = line("schema", "new", "--header", "local/main.csv", *flag, code=2)
    assert "agee" in result.stderr
    Path("twice.csv").write_text("a,a\n1,2\n")
    answer = line.json("schema", "new", "--header", "twice.csv", code=3)
    assert "different names" in answer["message"]


def test_a_draft_takes_codes_for_categories_and_keeps_the_frequent_ones(line, folder):
    rows = ["icd,age,name"]
    rows += [f"{k % 30 if k % 3 else 5},{20 + k % 50},n{k}" for k in range(600)]
    Path("public.csv").write_text("\n".join(rows))
    options = ("--this-table-is-public", "--category", "icd", "--max-categories", "5")
    result = line("schema", "draft", "public.csv", *options)
    schema = PublicSchema.from_toml(result.stdout)
    icd, age = schema.features
    assert isinstance(icd, Category)
    assert len(icd.values) == 4
    assert icd.unknown == "other"
    assert isinstance(age, Number)
    assert "importance of icd, age" in result.stderr
