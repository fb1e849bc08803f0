"""Tables from anywhere give the same bits, and what is wrong with them is said without values."""

import multiprocessing
import os
import signal
import sqlite3
import stat
import time
from contextlib import closing
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from confrere import PrivateLogisticRegression
from confrere.data import tables as tables_module
from confrere.data.tables import (
    Csv,
    Frames,
    MappedRows,
    RowTable,
    SpillFolder,
    Sql,
    open_table,
    spill_folder,
)
from confrere.errors import InvalidData, InvalidParameter
from confrere.kernel.measurements import Objective
from confrere.ledger import Ledger
from confrere.schema import Category, Label, Number, PublicSchema
from tests.methods.rows.postgres import postgres

COLUMNS = ["age", "dose", "lab"]


@pytest.fixture(autouse=True)
def own_spill(tmp_path, monkeypatch):
    monkeypatch.setenv("CONFRERE_SPILL", str(tmp_path / "spill"))


def made(n=500, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3)) / 3
    y = (rng.random(n) < 1 / (1 + np.exp(-3 * X[:, 0]))).astype(int)
    return X, y


def frame_of(X, y):
    return pd.DataFrame(X, columns=COLUMNS).assign(ill=y)


def declared(*features):
    """A schema of the three columns; numbers unless they are something else."""
    told = {one.column: one for one in features}
    numbers = [told.get(name) or Number(name, bounds=(-1, 1)) for name in COLUMNS]
    return PublicSchema(numbers, Label("ill", positive=1, negative=0))


def read_whole(table):
    return [len(batch) for batch in table.read()]


def weights(X, y=None, **settings):
    model = PrivateLogisticRegression(epsilon=1.0, random_state=3, **settings).fit(X, y)
    return np.append(model.coef_, model.intercept_)


@pytest.fixture(params=["memory", "file"])
def kept(request, monkeypatch):
    """Rows that are decoded stay in memory, or go to a file."""
    if request.param == "file":
        monkeypatch.setattr(tables_module, "_IN_MEMORY", 100)
    monkeypatch.setattr(tables_module, "BATCH", 128)


def tables(folder, frame):
    """The same rows from everywhere, by name."""
    pl = pytest.importorskip("polars")
    duckdb = pytest.importorskip("duckdb")
    pytest.importorskip("sqlalchemy")
    frame.to_csv(folder / "rows.csv", index=False)
    frame.to_parquet(folder / "rows.parquet", index=False)
    (folder / "many").mkdir()
    for k, part in enumerate(np.array_split(np.arange(len(frame)), 3)):
        frame.iloc[part].to_parquet(folder / "many" / f"part-{k}.parquet", index=False)
    with closing(sqlite3.connect(folder / "rows.db")) as opened, opened:
        frame.to_sql("people", opened, index_label="nr")
    with duckdb.connect(str(folder / "rows.duckdb")) as opened:
        opened.execute("CREATE TABLE people AS SELECT * FROM frame")
    query = f"SELECT {', '.join(COLUMNS)}, ill FROM people"
    return {
        "pandas": Frames(frame),
        "polars": Frames(pl.from_pandas(frame)),
        "pyarrow": Frames(pa.Table.from_pandas(frame, preserve_index=False)),
        "csv": open_table(folder / "rows.csv"),
        "parquet": open_table(folder / "rows.parquet"),
        "folder": open_table(folder / "many"),
        "duckdb": open_table(f"duckdb:///{folder}/rows.duckdb", sql=query),
        "duckdb over parquet": Sql("duckdb://", f"SELECT * FROM '{folder}/rows.parquet'"),
        "sqlite": Sql(f"sqlite:///{folder}/rows.db", f"{query} ORDER BY nr"),
        "sqlalchemy": Sql(f"sqlite+pysqlite:///{folder}/rows.db", f"{query} ORDER BY nr"),
    }


def test_postgresql_gives_the_same_bits(kept, monkeypatch):
    sqlalchemy = pytest.importorskip("sqlalchemy")
    dbapi = pytest.importorskip("adbc_driver_postgresql.dbapi")
    X, y = made()
    with postgres() as address:
        frame = pa.Table.from_pandas(frame_of(X, y).assign(nr=range(500)), preserve_index=False)
        with dbapi.connect(address) as opened, opened.cursor() as cursor:
            cursor.adbc_ingest("people", frame)
            opened.commit()
        query = f"SELECT {', '.join(COLUMNS)}, ill FROM people ORDER BY nr"
        told = {"schema": declared()}
        expected = weights(frame_of(X, y), **told)
        assert np.array_equal(weights(Sql(address, query), **told), expected)
        if sqlalchemy and pytest.importorskip("psycopg"):
            other = address.replace("postgresql://", "postgresql+psycopg://")
            assert np.array_equal(weights(Sql(other, query), **told), expected)
        # A password comes from the environment, and a lost server is told without it.
        monkeypatch.setenv("SECRET", "hunter2")
        secret = Sql("postgresql://tester:${SECRET}@/postgres?host=/nowhere", query)
    for table in (secret, Sql(address, query)):
        with pytest.raises(InvalidData, match="cannot be read") as refusal:
            read_whole(table)
        assert "hunter2" not in repr(refusal.value) + repr(table)
        assert refusal.value.__cause__ is None


@pytest.mark.parametrize("n", [500, 2500])  # written down, and as codes
@pytest.mark.parametrize("settings", [{}, {"geometry": "l2"}])
def test_a_schema_learns_the_same_bits_from_everywhere(tmp_path, kept, monkeypatch, n, settings):
    X, y = made(n)
    ward = np.where(X[:, 2] > 0, "north", "south").astype(object)
    frame = frame_of(X, y).assign(dose=ward, lab=(X[:, 1] > 0.1).astype(int))
    features = (
        Number("age", bounds=(-1, 1), curve=True),
        Category("dose", values=("north", "south")),
        Category("lab", values=(0, 1, 2), missing="indicator"),
    )
    settings = {**settings, "schema": declared(*features)}
    expected = weights(frame, **settings)
    assert len(expected) == (8 if "geometry" in settings else 10)
    kinds = [{"dose": "category", "lab": "category"}, {"dose": "string", "lab": "Int64"}]
    kinds += [
        {"dose": "string[pyarrow]", "lab": "int8[pyarrow]"},
        {"lab": "float64"},
        {"ill": bool},
    ]
    for kind in kinds:
        assert np.array_equal(weights(frame.astype(kind), **settings), expected), kind
    for name, table in tables(tmp_path, frame).items():
        assert np.array_equal(weights(table, **settings), expected), name
        native = getattr(table, "frame", frame)
        assert np.array_equal(weights(native, **settings), expected), name
    with pytest.raises(InvalidData, match="'dose'"):
        weights(Frames(frame.drop(columns="dose")), **settings)
    monkeypatch.setattr("confrere.data.frame.FEW", n + 1)  # the same rows, written down
    assert np.array_equal(weights(frame, **settings), expected)
    assert list(spill_folder().glob("rows-*")) == []


def test_wrong_tables_are_refused_before_anything_is_spent(tmp_path):
    X, y = made()
    frame = frame_of(X, y)
    ledger = Ledger(tmp_path / "l.ledger")
    ledger.open_account("a")
    (tmp_path / "no.parquet").write_text("age\n12345\n")
    (tmp_path / "empty").mkdir()
    (tmp_path / "mixed").mkdir()
    frame.to_parquet(tmp_path / "mixed" / "a.parquet", index=False)
    frame.astype({"age": "float32"}).to_parquet(tmp_path / "mixed" / "b.parquet", index=False)
    wrong = [
        (lambda: open_table(tmp_path / "no.parquet"), "no Parquet file"),
        (lambda: open_table(tmp_path / "empty"), "holds no"),
        (lambda: open_table(tmp_path / "mixed"), "b.parquet has other columns"),
        (lambda: Frames(frame.assign(lab="no. 12345")), "'lab': some rows have no number"),
        (lambda: Frames(frame.assign(lab=np.nan)), "'lab': some rows have no value"),
        (lambda: Frames(frame.drop(columns="ill")), "no column 'ill'"),
        (lambda: Sql(f"sqlite:///{tmp_path}/none.db", "SELECT 12345 FROM x"), "cannot be read"),
        (lambda: Sql("duckdb://", "SELECT 12345 FROM nothing"), "cannot be read"),
    ]
    settings = {"epsilon": 1.0, "budget": ledger["a"]}
    model = PrivateLogisticRegression(schema=declared(), **settings)
    for make, words in wrong:
        with pytest.raises(InvalidData, match=words) as refusal:
            model.fit(make())
        assert "12345" not in str(refusal.value)
    assert ledger.spent("a") == 0
    unlabelled = PublicSchema(declared().features)
    with pytest.raises(InvalidParameter, match="name of the table's label"):
        PrivateLogisticRegression(schema=unlabelled, **settings).fit(Frames(frame), y)
    with pytest.raises(InvalidParameter, match="schema must say"):
        PrivateLogisticRegression(**settings).fit(Frames(frame), "ill")
    with pytest.raises(InvalidParameter, match="NOT_SET"):
        model.fit(Sql("postgresql://x:${NOT_SET}@h/d", "SELECT 1"))
    with pytest.raises(InvalidParameter, match="address"):
        Sql("rows.db", "SELECT 1")


def test_what_changes_while_it_is_read_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(tables_module, "BATCH", 25)
    X, y = made()
    frame = frame_of(X, y)
    frame.to_csv(tmp_path / "rows.csv", index=False)
    late = Csv(tmp_path / "rows.csv")
    with (tmp_path / "rows.csv").open("a") as file:
        file.write("0,0,0,1\n")
    with pytest.raises(InvalidData, match="changed since"):
        read_whole(late)
    batches = Csv(tmp_path / "rows.csv").read()
    next(batches)
    with (tmp_path / "rows.csv").open("a") as file:
        file.write("0,0,0,1\n")
    with pytest.raises(InvalidData, match="changed while"):
        list(batches)

    class Shorter(RowTable):
        name, rows = "the table", 400

        def batches(self, columns=None):
            yield pa.Table.from_pandas(frame[:300])

    with pytest.raises(InvalidData, match="another number of rows"):
        read_whole(Shorter())
    X.tofile(tmp_path / "rows.f64")
    source = MappedRows(tmp_path / "rows.f64", np.float64, X.shape)
    (X + 1).tofile(tmp_path / "rows.f64")
    os.utime(tmp_path / "rows.f64", (0, 0))  # however coarse a disk's clock is
    with pytest.raises(InvalidData, match="changed"):
        source[0:3]


def test_a_memory_map_that_is_written_to_during_a_fit_fails_after_the_charge(tmp_path, monkeypatch):
    X, y = made()
    ledger = Ledger(tmp_path / "own.ledger", witness=tmp_path / "witness")
    ledger.open_account("study", epsilon=10.0)
    model = PrivateLogisticRegression(epsilon=1.0, budget=ledger["study"])
    X.tofile(tmp_path / "rows.f64")
    rows = np.memmap(tmp_path / "rows.f64", dtype=np.float64, mode="r", shape=X.shape)
    assert model.fit(rows, y).simulated_ is False
    assert np.array_equal(weights(rows, y), weights(X, y))
    whole = Objective.sample

    def disturbed(self, *args, **kwargs):
        found = whole(self, *args, **kwargs)
        (2 * X).tofile(tmp_path / "rows.f64")
        os.utime(tmp_path / "rows.f64", (0, 0))
        return found

    monkeypatch.setattr(Objective, "sample", disturbed)
    with pytest.raises(InvalidData, match="written to while"):
        model.fit(rows, y)
    assert [entry.state for entry in ledger.entries()] == ["released", "failed"]
    assert ledger.spent("study") == 2.0


def test_the_file_is_private_checked_for_room_and_removed(tmp_path, monkeypatch):
    folder = SpillFolder()
    rows = folder.keep("rows", np.ones((10, 3)))
    assert stat.S_IMODE(rows.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.path.stat().st_mode) == 0o700
    assert stat.S_IMODE(spill_folder().stat().st_mode) == 0o700
    place = rows.path
    del folder
    assert place.exists()  # the rows still need it
    del rows
    assert not place.exists()

    folder = SpillFolder()
    with pytest.raises(InvalidData, match="CONFRERE_SPILL"):
        folder.append("rows", np.ones((1, 3)), 10**15)
    (folder.path / "full").symlink_to("/dev/full")
    with pytest.raises(InvalidData, match="No space left"):
        folder.append("full", np.ones((1, 3)))
    monkeypatch.setenv("CONFRERE_SPILL", "/proc/nowhere")
    with pytest.raises(InvalidData, match="CONFRERE_SPILL"):
        SpillFolder()


def _spill_and_wait(place, pipe):
    os.environ["CONFRERE_SPILL"] = place
    rows = SpillFolder().keep("rows", np.ones((10, 3)))
    pipe.send(str(rows.path))
    time.sleep(60)


def test_what_a_kill_leaves_behind_is_removed_by_the_next(tmp_path):
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe()
    child = context.Process(target=_spill_and_wait, args=(str(tmp_path / "spill"), there))
    child.start()
    left = Path(here.recv())
    mine = SpillFolder()
    assert left.exists()  # its owner lives
    os.kill(child.pid, signal.SIGKILL)
    child.join()
    assert left.exists()
    SpillFolder()
    assert not left.exists()
    assert mine.path.exists()
