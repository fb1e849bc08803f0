"""A cell means the same whatever stands in other rows, from every reader.

What a cell means is asked of the cell alone, as a text. Tables of it and others, through readers
that guess types by all cells of a column and readers that do not, encode it to the same bits.
"""

import io
import sqlite3
from contextlib import closing
from functools import cache, partial

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from confrere import PrivateLogisticRegression
from confrere.data.cells import declared_classes, encode_labels
from confrere.data.tables import Sql, open_table
from confrere.errors import InvalidData
from confrere.schema import Category, Flag, Label, Number, Ordered, PublicSchema

BIG = 9007199254740993
KINDS = {
    "number, a text in na": (
        Number("c", bounds=(-2, 10), na=("?",), missing="center"),
        ["1", "2.0", "-1", "?", "", "1e1", "03", "5", "-0", "inf", "1e400"],
    ),
    "number, a number in na": (
        Number("c", bounds=(-2, 10), na=(-1, "?"), missing="indicator"),
        ["1", "-1", "-1.0", "?", "", "3", "true", "False"],
    ),
    "number, a number's text in na": (
        Number("c", bounds=(-2, 10), na=("-1", "?"), missing="indicator"),
        ["1", "-1", "-1.0", "?", "", "3", "NAN", "-inf"],
    ),
    "dates": (
        Number("c", bounds=(0, 4000), dates="days since 2015-01-01", missing="indicator"),
        ["2015-01-01", "2020-02-29", "1999-12-31", "2031-01-01", "", "2017-07-01"],
    ),
    "moments, a date in na": (
        Number("c", bounds=(0, 9), dates="years since 2015-01-01", na="1900-01-01", missing=4.5),
        ["2019-01-01 12:30:15", "2015-06-30T00:00:00", "1900-01-01", "", "2016-01-01 00:00"],
    ),
    "dates, texts and numbers in na": (
        Number("c", bounds=(0, 900), dates="hours since 2024-02-01", na=("?", 9), missing="center"),
        ["2024-02-03", "2024-02-29", "?", "9", "7", "never", "2024-02-03T04:05:06+02:00"],
    ),
    "category of whole numbers": (
        Category("c", values=(1, 2, 3), unknown="other"),
        ["1", "2", "3", "1.0", "02", "+2", "x", "7", "true", "0x2"],
    ),
    "category of texts of whole numbers": (
        Category("c", values=("01", "02", "3"), unknown="other"),
        ["01", "02", "3", "1", "x"],
    ),
    "category of decimals": (
        Category("c", values=(1.5, 2.25, 0.3), unknown="zeros"),
        ["1.5", "1.50", "2.25", "0.30000000000000004", "x", "9"],
    ),
    "category of truth texts": (
        Category("c", values=("true", "false", "maybe"), unknown="zeros"),
        ["true", "false", "maybe", "True", "tRUE", "1", "0.0"],
    ),
    "category of TRUE texts": (
        Category("c", values=("TRUE", "FALSE", "unsure"), unknown="zeros"),
        ["TRUE", "FALSE", "unsure"],
    ),
    "category of yes and no": (
        Category("c", values=("yes", "no"), unknown="zeros", missing="indicator"),
        ["yes", "no", "", "other", "1"],
    ),
    "category of letters": (
        Category("c", values=("t", "f", "y"), unknown="zeros", missing="center"),
        ["t", "f", "y", "", "n", "T"],
    ),
    "flag": (Flag("c", missing="center"), ["True", "False", "true", "1", "0", "1.0", ""]),
    "flag of words": (
        Flag("c", true=("yes", "1"), false=("no", "0"), missing="center"),
        ["yes", "no", "1", "0", "1.0", "", "FALSE"],
    ),
    "levels of whole numbers": (
        Ordered("c", levels=(1, 2, 3), missing="center"),
        ["1", "2", "3", "", "2.0"],
    ),
    "levels beyond 2**53": (
        Ordered("c", levels=(BIG, BIG + 2), missing="center"),
        [str(BIG), str(BIG + 2), ""],
    ),
    "category beyond 2**53": (
        Category("c", values=(10**18 + 1, 5), unknown="zeros", missing="indicator"),
        [str(10**18 + 1), str(10**18 + 3), "", "5", "1e18"],
    ),
    "category of powers": (
        Category("c", values=("1e5", "2e5", "abc"), unknown="zeros"),
        ["1e5", "2e5", "abc", "100000", "1E+05"],
    ),
    "category of infinities": (
        Category("c", values=("inf", "low"), unknown="zeros", missing="center"),
        ["inf", "low", "Infinity", "-inf", "Nan", "nan"],
    ),
    "category with spaces around": (
        Category("c", values=("a", "b"), unknown="zeros", missing="center"),
        ["a", "b", " a", "b ", " ", "NULL", "None", "NA", "n/a", "None "],
    ),
}
LABELS = {
    "one word": (Label("c", positive=("yes",)), ["yes", "no", "1", "-1", "0", "7", "x"]),
    "two words": (Label("c", positive=("yes",), negative=("no",)), ["yes", "no", "1", "-1", " no"]),
    "one number": (Label("c", positive=(1,)), ["1", "0", "1.0", "-1", "x", "True", "false"]),
    "two of": (Label("c", positive=(2,)), ["1", "2", "2.0", "-1", "x"]),
    "classes": (Label("c", classes=(1, 2, 3)), ["1", "2.0", "3", "03"]),
    "words": (Label("c", classes=("a", "b", "3")), ["a", "b", "3", "3.0", "b "]),
}

POOLS = KINDS | LABELS


def in_pandas(**options):
    return lambda lines, _: pd.read_csv(io.StringIO(lines), **options)


def in_arrow(**options):
    def read(lines, _):
        convert = pa_csv.ConvertOptions(strings_can_be_null=True, **options)
        return pa_csv.read_csv(io.BytesIO(lines.encode()), convert_options=convert)

    return read


def objects(lines, _):
    """Every cell has the type that a reader guesses of it alone."""
    head, *rows = lines.splitlines()
    tables = [pd.read_csv(io.StringIO(f"{head}\n{row}\n")) for row in rows]
    alone = [[table[name].item() for name in table] for table in tables]
    return pd.DataFrame(alone, columns=head.split(","), dtype=object)


def csv_file(lines, folder):
    (folder / "t.csv").write_text(lines, encoding="utf-8")
    return open_table(folder / "t.csv").whole()


def parquet(lines, folder):
    pq.write_table(in_arrow()(lines, folder), folder / "t.parquet")
    return open_table(folder / "t.parquet").whole()


def sqlite(lines, folder):
    (folder / "t.db").unlink(missing_ok=True)
    with closing(sqlite3.connect(folder / "t.db")) as opened, opened:
        opened.execute("CREATE TABLE t (c, z)")  # without a type, every cell has its own
        cells = objects(lines, folder)
        plain = np.where(cells.notna(), cells, None).tolist()
        opened.executemany("INSERT INTO t VALUES (?, ?)", plain)
    return Sql(f"sqlite:///{folder}/t.db", "SELECT * FROM t").whole()


def in_duckdb(options):
    def read(lines, folder):
        (folder / "d.csv").write_text(lines, encoding="utf-8")
        query = f"SELECT * FROM read_csv('{folder}/d.csv', header = true, delim = ',', {options})"
        return Sql("duckdb://", query).whole()

    return read


GUESSES = "duckdb, types guessed"
READERS = {
    "pandas": in_pandas(),
    "pandas, texts": in_pandas(dtype=str, keep_default_na=False),
    "pandas, Arrow": in_pandas(dtype_backend="pyarrow"),
    "pandas, nullable": in_pandas(dtype_backend="numpy_nullable"),
    "pandas, category": in_pandas(dtype={"c": "category"}),
    "pandas, objects": objects,
    "polars": lambda lines, _: pl.read_csv(io.StringIO(lines), infer_schema_length=None),
    "polars, texts": lambda lines, _: pl.read_csv(io.StringIO(lines), infer_schema=False),
    "arrow": in_arrow(),
    "arrow, texts": in_arrow(column_types={"c": pa.string()}),
    "arrow, dictionary": in_arrow(auto_dict_encode=True),
    "csv file": csv_file,
    "parquet": parquet,
    "sqlite": sqlite,
    "duckdb, texts": in_duckdb("all_varchar = true"),
    GUESSES: in_duckdb("auto_detect = true"),
}


def encoded(declared, table):
    """Return what becomes of a table's rows, or the refusal."""
    try:
        table = table() if callable(table) else table
        if isinstance(declared, Label):
            return declared.encode(declared.column_of(table)).tolist()
        schema = PublicSchema((declared, Number("z", bounds=(0, 1))))
        return [row.tobytes() for row in schema.encoder(form="linear").transform(table)]
    except InvalidData as refusal:
        return refusal


@cache  # of one kind there are few cells, and many tables of them
def alone(kind, cell):
    table = pd.DataFrame({"c": pd.Series([cell], dtype=object), "z": [0.5]})
    found = encoded(POOLS[kind][0], table)
    return found if isinstance(found, InvalidData) else found[0]


def differences(kind, reader, seed, folder):
    """Encode a random column twice, its first cell replaced; return what is not as it should be."""
    declared, pool = POOLS[kind]
    rng = np.random.default_rng([seed, *reader.encode(), *kind.encode()])
    few = rng.choice(pool, size=rng.integers(1, len(pool) + 1), replace=False)
    cells = rng.choice(few, size=rng.integers(2, 6)).tolist()
    for column in (cells, [str(rng.choice(pool)), *cells[1:]]):
        lines = "c,z\n" + "".join(f"{cell},0.5\n" for cell in column)
        found = encoded(declared, partial(READERS[reader], lines, folder))
        expected = [alone(kind, cell) for cell in column]
        refused = [one for one in expected if isinstance(one, InvalidData)]
        if isinstance(found, InvalidData):
            # A column of nothing but truth values, and what a database guesses (words for truth
            # values, dates), is refused by its type; all else is some row's own fault.
            truth = {cell.strip().lower() for cell in column} <= {"true", "false", ""}
            of_type = truth and "type of truth values" in str(found)
            if not refused and not of_type and reader != GUESSES:
                yield column, str(found)
        elif refused or found != expected:
            yield column, [a == b for a, b in zip(found, expected, strict=True)]


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("kind", POOLS)
def test_a_cell_means_the_same_whatever_else_is_in_the_column(kind, reader, tmp_path):
    assert [*differences(kind, reader, 0, tmp_path)] == []


@pytest.mark.slow
@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("kind", POOLS)
def test_a_cell_means_the_same_in_fifteen_thousand_tables(kind, reader, tmp_path):
    for seed in range(1, 21):
        assert (seed, *differences(kind, reader, seed, tmp_path)) == (seed,)


def assert_learned_alike(schema, one, other):
    """A fit computes with the same of all records but the last, which alone is another one."""
    _, mine = PrivateLogisticRegression(schema=schema).prepare(one, None)
    _, theirs = PrivateLogisticRegression(schema=schema).prepare(other, None)
    assert np.array_equal(mine.X.toarray()[:-1], theirs.X.toarray()[:-1])
    assert np.array_equal(mine.codes[:-1], theirs.codes[:-1])


def test_one_question_mark_does_not_change_what_minus_one_means():
    schema = PublicSchema(
        (
            Number("x", bounds=(-1, 10), na=("?", "-1"), missing="center"),
            Number("z", bounds=(0, 1)),
        ),
        outcome=Label("y", positive=(1,)),
    )
    rows = ["-1,0.5,1"] * 200 + ["10,0.5,0"] * 199
    one, other = (
        pd.read_csv(io.StringIO("\n".join(["x,z,y", *rows, last])))
        for last in ("10,.5,0", "?,.5,0")
    )
    encoder = schema.encoder(form="linear")
    assert one["x"].dtype != other["x"].dtype
    assert np.array_equal(encoder.transform(one)[:-1], encoder.transform(other)[:-1])
    assert_learned_alike(schema, one, other)


def test_one_label_does_not_change_what_the_others_mean():
    features = (Number("x", bounds=(0, 1)), Number("z", bounds=(0, 1)))
    schema = PublicSchema(features, outcome=Label("y", positive=("yes",)))
    x = np.linspace(0, 1, 400)
    one = pd.DataFrame({"x": x, "z": 0.5, "y": np.where(x > 0.3, 1, -1)})
    other = one.astype({"y": object})
    other.loc[399, "y"] = "yes"
    assert schema.label(one).tolist() == schema.label(other).tolist()
    assert_learned_alike(schema, one, other)


@pytest.mark.parametrize("last", [1, 1.0, True, "1", "1.0", "true", np.float64(1), np.str_("1")])
def test_one_label_of_a_list_does_not_change_the_others(last):
    labels = [0, 1, 1, 0]
    for classes in ([0, 1], ["0", "1"], [False, True]):
        known = declared_classes(classes, [*labels, last], simulated=False)
        for y in (np.array([*labels, last], dtype=object), np.asarray([*labels, last])):
            assert encode_labels(y, known).tolist() == [*labels, 1]
    rows = np.linspace(-1, 1, 5)[:, None]
    asked = {"epsilon": 1.0, "data_norm": 1.0, "random_state": 0, "classes": [0, 1]}
    one = PrivateLogisticRegression(**asked).fit(rows, [*labels, 1])
    other = PrivateLogisticRegression(**asked).fit(rows, [*labels, last])
    assert np.array_equal(one.coef_, other.coef_)
    assert one.classes_.dtype == other.classes_.dtype
    if not isinstance(last, str):
        found = declared_classes(None, [*labels, last], simulated=False)
        assert found.dtype == np.int64
