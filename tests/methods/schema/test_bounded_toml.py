"""Files of strangers: what would take a parser gigabytes is refused before it is parsed."""

import pytest

from confrere.data import schema as public_schema
from confrere.data.schema import TooDeep, parse_bounded
from confrere.errors import SchemaError, StudyError
from confrere.schema import PublicSchema
from confrere_federation.studies.study_file import study_from_bytes

LONG = ".".join(["a"] * 200)
ATTACKS = {
    "a key": f"{LONG} = 1",
    "a header": f"[{LONG}]",
    "a list's header": f"[[{LONG}]]",
    "with blanks": " . ".join(["a"] * 200) + " = 1",
    "of numbers": ".".join(["1"] * 200) + " = 1",
    "of numbers, with blanks": " .1.1".join([""] * 100)[1:].strip(".") + " = 1",
    "quoted": ".".join(['"a"'] * 200) + " = 1",
    "quoted, with signs that part words": ".".join(["'='"] * 200) + " = 1",
    "quoted, with more signs": ".".join(['"=a=b="'] * 200) + " = 1",
    "in a table of one line": f"t = {{ {LONG} = 1 }}",
    "behind a string of several lines": f't = {{ x = """\n""", {LONG} = "" }}',
}
NESTED = {"lists": "a = " + "[" * 300 + "]" * 300, "tables": "a = " + "{a=" * 80 + "1" + "}" * 80}


@pytest.mark.parametrize("text", ATTACKS.values(), ids=ATTACKS)
def test_long_keys_never_reach_the_parser(text, monkeypatch):
    monkeypatch.setattr(public_schema.tomllib, "loads", lambda _: pytest.fail("parsed"))
    with pytest.raises(TooDeep, match="more than 32 parts"):
        parse_bounded(f"x = 1\n{text}\n")


@pytest.mark.parametrize("text", [*NESTED.values(), "a = " + "[" * 5000], ids=str)
def test_what_lies_deep_within_itself_is_refused(text):
    with pytest.raises(TooDeep, match="within one another"):
        parse_bounded(text)


def test_so_are_too_many_tables(monkeypatch):
    monkeypatch.setattr(public_schema.tomllib, "loads", lambda _: pytest.fail("parsed"))
    with pytest.raises(TooDeep, match="tables"):
        parse_bounded("[[a]]\n" * 20_001)


def test_studies_and_schemas_say_so(tmp_path):
    with pytest.raises(StudyError, match="not read: line 1 has a key"):
        study_from_bytes(ATTACKS["a key"].encode())
    with pytest.raises(StudyError, match="within one another"):
        study_from_bytes(NESTED["tables"].encode())
    with pytest.raises(SchemaError, match="line 1 has a key"):
        PublicSchema.from_toml(ATTACKS["a key"] + "\n")
