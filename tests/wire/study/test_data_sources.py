"""A party's rows from a file of columns or from a database, read once and in batches."""

import re
import sqlite3
from contextlib import closing

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from confrere.data import tables as tables_module
from confrere.data.cells import UnitCounts
from confrere.data.report import data_report
from confrere.errors import InvalidData
from confrere.rows import open_table
from confrere_federation.studies.running import read_rows
from confrere_federation.studies.study_file import read_local
from tests.wire.study.conftest import ready


@pytest.fixture(autouse=True)
def small_batches(tmp_path, monkeypatch):
    monkeypatch.setenv("CONFRERE_SPILL", str(tmp_path / "spill"))
    monkeypatch.setattr(tables_module, "BATCH", 300)
    monkeypatch.setattr(tables_module, "_IN_MEMORY", 1000)


def moved(folder, line):
    """Say in the local file of a party where its rows are now."""
    file = folder / "local" / "main.toml"
    text = re.sub(r"^(data|data_path|dialect|engine) = .*$", "", file.read_text(), flags=re.M)
    head, policy = text.split("[policy]")
    file.write_text(f"{head}\n{line}\n[policy]{policy}")
    return file


def look(study, table):
    return data_report(study.schema, table, unit_column=study.privacy.unit_column).to_dict()


def test_rows_are_the_same_wherever_they_lie_and_so_is_the_owners_look(edit, folder):
    study, locals_, _ = ready(edit())
    expected = read_rows(study, locals_["main"].table())
    looked = look(study, locals_["main"].table())
    table = pd.read_csv(folder / "local" / "main.csv")
    table.to_parquet(folder / "local" / "rows.parquet", index=False)
    with closing(sqlite3.connect(folder / "rows.db")) as opened, opened:
        table.to_sql("people", opened, index_label="nr")
    sql = 'sql = "SELECT * FROM people ORDER BY nr"'
    for line in (
        'data_path = "rows.parquet"\nengine = "joblib"',
        f'data = {{ connection = "sqlite:///{folder}/rows.db", {sql} }}',
    ):
        local = read_local(moved(folder, line))
        found = read_rows(study, local.table())
        assert np.array_equal(found.X, expected.X)
        assert np.array_equal(found.y, expected.y)
        assert look(study, local.table()) == looked
        moved(folder, 'data_path = "main.csv"')
    parts = folder / "parts"
    parts.mkdir()
    for number, part in enumerate((table[:100], table[100:])):
        part.to_csv(parts / f"{number}.csv", index=False)
    assert look(study, open_table(parts)) == looked
    table[:5].drop(columns=table.columns[0]).to_csv(parts / "2.csv", index=False)
    with pytest.raises(InvalidData, match="no column"):
        look(study, open_table(parts))


def test_a_units_rows_are_counted_across_batches():
    whole = pa.table({"who": ["a", "b", "a", "a", "b", "c", "a"], "x": range(7)})
    kept = UnitCounts("who", 2)
    parts = [kept.bounded(whole.slice(start, 3)) for start in (0, 3, 6)]
    assert pa.concat_tables(parts).equals(UnitCounts("who", 2).bounded(whole))
    assert pa.concat_tables(parts)["x"].to_pylist() == [0, 1, 2, 4, 5]
    numbers, text = (pa.table({"who": who}) for who in ([7, 8], ["7", "x"]))
    kept = UnitCounts("who", 1)
    assert [len(kept.bounded(batch)) for batch in (numbers, text)] == [2, 1]
    assert UnitCounts(None, 1).bounded(whole) is whole
    with pytest.raises(InvalidData, match="no column 'id'"):
        UnitCounts("id", 1).bounded(whole)
    for who in (["a", None], [1.0, np.nan]):
        with pytest.raises(InvalidData, match="belong to nobody"):
            UnitCounts("who", 1).bounded(pa.table({"who": who}))
