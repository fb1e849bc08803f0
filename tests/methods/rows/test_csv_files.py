"""CSV files are read by what is declared; whatever is wrong is one line that shows no value."""

import pytest

from confrere.errors import InvalidData
from confrere.rows import Dialect, open_table
from confrere.schema import Category, Flag, Label, Number, Ordered, PublicSchema

SCHEMA = PublicSchema(
    [
        Number("age", bounds=(0, 100), na=["?"], missing="center"),
        Category("drinks", values=["none", "some"], unknown="other"),
        Ordered("grade", levels=[1, 2, 3]),
        Flag("smoker"),
    ],
    Label("ill", positive="yes", negative="no"),
)
HEADER = "id,age,drinks,grade,smoker,ill\n"


def written(tmp_path, text, encoding="utf-8"):
    file = tmp_path / "table.csv"
    file.write_bytes(text if isinstance(text, bytes) else text.encode(encoding))
    return file


def test_how_a_file_is_written_is_seen_in_its_first_line_and_said(tmp_path):
    rows = 'id;age;drinks;grade;smoker;ill\n1;40,5;some;1;1;yes\n2;"1,5";süß;2;0;no\n'
    table = open_table(written(tmp_path, rows))
    assert table.seen == (
        "table.csv was read as rows separated by semicolons, with a decimal comma, in UTF-8"
    )
    assert table.whole()["age"].to_pylist() == ["40.5", "1.5"]
    with pytest.raises(InvalidData, match="encoding = "):
        open_table(written(tmp_path, rows, "cp1252")).whole()
    told = open_table(tmp_path / "table.csv", dialect=Dialect(encoding="cp1252", decimal="."))
    assert told.whole()["drinks"].to_pylist() == ["some", "süß"]
    assert told.whole()["age"].to_pylist() == ["40,5", "1,5"]
    tabs = open_table(written(tmp_path, rows.replace(";", "\t")))
    assert tabs.names == ["id", "age", "drinks", "grade", "smoker", "ill"]


def test_a_row_is_never_taken_for_names(tmp_path):
    file = written(tmp_path, GOOD + GOOD)
    with pytest.raises(InvalidData, match="header = "):
        open_table(file)
    names = ("id", "age", "drinks", "grade", "smoker", "ill")
    table = open_table(file, dialect=Dialect(header=names)).whole()
    assert table["age"].to_pylist() == ["40", "40"]
    assert SCHEMA.label(table).tolist() == [1, 1]
    years = open_table(written(tmp_path, "2019,2020\na,b\n"), dialect=Dialect(header=True))
    assert years.whole().to_pylist() == [{"2019": "a", "2020": "b"}]


GOOD = "1,40,some,1,1,yes\n"
BAD = {
    "\n": "is empty",
    HEADER: "no rows",
    HEADER + GOOD + "2,40,some,1,1\n": "more or fewer cells",
    HEADER + GOOD + "2,40,some,1,1,yes,S3CRET\n": "more or fewer cells",
    HEADER.replace("id", "age") + GOOD: "the column 'age' twice",
    HEADER + '1,40,"S3CRET,1,1,yes\n': "more or fewer cells",
    HEADER + '1,40,some,1,1,"S3CRET\n' + GOOD: "a quote that is not closed",
    HEADER + '1,40,"=HYPERLINK(""S3CRET"")",1,1,yes\n': "'drinks': some rows have a spreadsheet's",
    HEADER + "1,@S3CRET,some,1,1,yes\n": "'age': some rows have no number",
    HEADER + '1,"' + "9\n" * 3_000_000 + '"': "more or fewer cells",
    HEADER.encode() + "1,40,S3CRET é,1,1,yes\n".encode("latin-1"): "UTF-8",
    HEADER.replace("id", "\0").encode(): "not a text file",
}


def _learned(file):
    rows = open_table(file).whole(["age", "drinks", "grade", "smoker", "ill"])
    return SCHEMA.encoder().transform(rows), SCHEMA.label(rows)


@pytest.mark.parametrize("content", BAD, ids=[str(what) for what in BAD.values()])
def test_bad_files_are_one_line_that_shows_no_value(tmp_path, content):
    file = written(tmp_path, content)
    with pytest.raises(InvalidData, match=BAD[content]) as caught:
        _learned(file)
    assert "S3CRET" not in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("ends", ["\n", "\r\n"])
@pytest.mark.parametrize(
    ("note", "closed"),
    [
        ('"two\nlines, ""one"" cell"', True),
        ('5" pipe', True),
        ('"never closed', False),
        ('"closed by ""one"" of another row', False),
    ],
)
@pytest.mark.parametrize("last", [True, False])
def test_a_quote_that_is_not_closed_swallows_no_rows(tmp_path, ends, note, closed, last):
    rows = [(str(age), text) for age, text in [(1, "a"), (2, note), (3, "b"), (4, '"c"'), (5, "")]]
    lines = [("age", "note"), *rows]
    text = ends.join(",".join(line if last else line[::-1]) for line in lines) + ends * 2
    (tmp_path / "rows.csv").write_bytes(text.encode())
    table = open_table(tmp_path / "rows.csv")
    if closed:
        assert table.whole(["age"])["age"].to_pylist() == list("12345")
    else:
        with pytest.raises(InvalidData, match=r"rows\.csv"):
            table.whole(["age"])
