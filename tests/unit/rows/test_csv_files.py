"""CSV files are read by what is declared; whatever is wrong is one line that shows no value."""

import csv

import numpy as np
import pandas as pd
import pytest

from confrere.errors import InvalidData
from confrere.rows import row_tables
from confrere.rows.row_tables import read_table
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


def test_cells_are_read_by_what_is_declared(tmp_path):
    text = HEADER + "007,41,none,1,true,yes\n008,?,NA,2.0,0,no\n\n009,,wine,3,False,yes\n"
    for encoding in ("utf-8", "utf-8-sig"):  # with a byte order mark too
        table = read_table(written(tmp_path, text, encoding), schema=SCHEMA, texts={"id"})
        assert table["id"].tolist() == ["007", "008", "009"]
        assert table["grade"].tolist() == ["1", "2.0", "3"]  # as they are written
        assert table["age"].tolist() == ["41", "?", None]
        assert SCHEMA.label(table).tolist() == [1, -1, 1]
    with pytest.raises(InvalidData, match="'drinks': some rows have no value"):
        SCHEMA.encoder().transform(table)
    rows = SCHEMA.encoder().transform(table.iloc[[0, 2]])
    plain = {"age": [41, None], "drinks": ["none", "beer"], "grade": [1, 3], "smoker": [1, 0]}
    assert rows.tolist() == SCHEMA.encoder().transform(pd.DataFrame(plain)).tolist()


def test_undeclared_columns_are_numbers_if_all_cells_are(tmp_path):
    table = read_table(written(tmp_path, "a,b,c,d,e\n1,1.5,x,,NA\n2,2,3,4,y\n"))
    assert table.dtypes["a"] == np.int64
    assert table["b"].tolist() == [1.5, 2]
    assert table["c"].tolist() == ["x", "3"]
    assert np.isnan(table["d"][0])
    assert table["e"].isna().tolist() == [True, False]
    assert list(read_table(tmp_path / "table.csv", {"b", "nowhere"})) == ["b"]


GOOD = "1,40,some,1,1,yes\n"
BAD = {
    "": "is empty",
    "\n": "is empty",
    HEADER: "no rows",
    HEADER + GOOD + "2,40,some,1,1\n": "row 2 has 5 cells",
    HEADER + GOOD + "2,40,some,1,1,yes,S3CRET\n": "row 2 has 7 cells",
    HEADER.replace("id", "age") + GOOD: "the column 'age' more than once",
    HEADER.replace(",", ";") + GOOD.replace(",", ";"): "semicolons",
    HEADER + '1,40,"S3CRET,1,1,yes\n': "quote",
    HEADER + "1,40,some\0S3CRET,1,1,yes\n": "not a text file",
    HEADER + '1,40,"=HYPERLINK(""S3CRET"")",1,1,yes\n': "'drinks': some rows have a spreadsheet's",
    HEADER + "1,@S3CRET,some,1,1,yes\n": "'age': some rows have a spreadsheet's",
    HEADER + f"1,40,{'S3CRET' * 50_000},1,1,yes\n": "a cell is too long",
    HEADER.encode() + "1,40,S3CRET é,1,1,yes\n".encode("latin-1"): "UTF-8",
    (HEADER + GOOD).encode("utf-16"): "UTF-8",
}


@pytest.mark.parametrize("content", BAD, ids=[str(what) for what in BAD.values()])
def test_bad_files_are_one_line_that_shows_no_value(tmp_path, content):
    file = written(tmp_path, content)
    with pytest.raises(InvalidData, match=BAD[content]) as caught:
        read_table(file, {"age", "drinks", "grade", "smoker", "ill"}, SCHEMA)
    assert "S3CRET" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_endless_cell_is_not_taken_into_memory(tmp_path, monkeypatch):
    read = []

    def counted(name, file):
        for line in real(name, file):
            read.append(len(line))
            yield line

    real = row_tables._lines
    monkeypatch.setattr(row_tables, "_lines", counted)
    # As long as a line may be, and longer: in one line, and in one cell of many lines.
    file = written(tmp_path, HEADER + "1," + "9" * (row_tables.MAX_LINE + 10))
    with pytest.raises(InvalidData, match="a line of more than"):
        read_table(file, schema=SCHEMA)
    file = written(tmp_path, HEADER + '1,"' + "9\n" * 2_000_000 + '"')
    with pytest.raises(InvalidData, match="too long"):
        read_table(file, schema=SCHEMA)
    assert sum(read) < 3 * csv.field_size_limit()
