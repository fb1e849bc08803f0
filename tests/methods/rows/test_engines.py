"""Threads and clusters give the bits of one loop, also when a worker dies."""

import os
import signal
import threading
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.base import clone

from confrere import AddRemove, PrivateLogisticRegression
from confrere.data import tables as engines_module
from confrere.data.frame import BoundedRows
from confrere.data.tables import DaskCluster, Parquet, Threads, opened_engine, spill_folder
from confrere.errors import InvalidParameter, NotInstalled
from confrere.kernel.measurements import partition_rows
from confrere.schema import Category, Label, Number, PublicSchema
from confrere.solver import row_blocks as row_blocks_module


@pytest.fixture(autouse=True)
def small_partitions(tmp_path, monkeypatch):
    monkeypatch.setenv("CONFRERE_SPILL", str(tmp_path / "spill"))
    monkeypatch.setattr(row_blocks_module, "partition_rows", lambda d, sparse=False: 2048)


def made(n=20_000, d=5):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d)).astype(np.float32)
    X[7] *= 1e35
    return X, (rng.random(n) < 1 / (1 + np.exp(-X[:, 0]))).astype(int)


def weights(X, y, engine, **settings):
    model = PrivateLogisticRegression(
        epsilon=1.0, data_norm=3.0, random_state=1, engine=engine, **settings
    )
    model = clone(model).fit(X, y)
    return np.append(model.coef_, model.intercept_)


@pytest.mark.parametrize(
    "settings",
    [{}, {"classes": [0, 1, 2], "purpose": "inference"}, {"neighbours": AddRemove(20_000)}],
    ids=str,
)
def test_threads_give_the_same_bits(settings):
    X, y = made()
    expected = weights(X, y, None, **settings)
    for engine in ("loop", "joblib", Threads(1), Threads(3)):
        assert np.array_equal(weights(X, y, engine, **settings), expected)


class OneProcess:
    """A client that computes where it is, and forgets some results."""

    def __init__(self, fails=lambda number: False):
        self.fails = fails

    def submit(self, work, number, pure):
        fails = self.fails

        class Future:
            def result(self):
                if fails(number):
                    raise OSError("a worker died")
                copy = __import__("cloudpickle").loads(__import__("cloudpickle").dumps(work))
                found = tuple(np.asarray(each) for each in copy(number))
                for each in found:
                    each.flags.writeable = False
                return found

        return Future()

    def close(self):
        pass


def clusterless(client):
    engine = object.__new__(DaskCluster)
    engine.client, engine._cluster, engine._kept = client, None, {}
    engine._folder = engines_module.SpillFolder()
    return engine


def test_what_workers_are_sent_is_small_and_lost_results_are_made_again():
    X, y = made()
    expected = weights(X, y, None)
    with clusterless(OneProcess(fails=lambda number: number % 3 == 1)) as engine:
        assert np.array_equal(weights(X, y, engine), expected)
        framed = BoundedRows(X, 1.0, engine=engine)
        sent = __import__("cloudpickle").dumps(engine.keep(framed))
        assert framed.shrink.nbytes == 8 * len(X)
        assert len(sent) < 5000
        assert np.array_equal(engine.keep(framed)[0:9], framed[0:9])
    assert list(spill_folder().glob("rows-*")) == []


def coded_weights(table, engine=None, label=True, **more):
    outcome = Label("y", positive=1) if label else None
    features = [Number("a", bounds=(-2, 2)), Category("b", values=("x", "y"), missing="indicator")]
    settings = {"schema": PublicSchema(features, outcome=outcome), "random_state": 1} | more
    model = PrivateLogisticRegression(epsilon=1.0, engine=engine, **settings)
    model.fit(table, None if label else "y")
    return np.append(model.coef_, model.intercept_)


def grouped(folder, n=20_000):
    X, y = made(n)
    b = pa.array(np.where(X[:, 1] > 1, None, np.where(X[:, 2] > 0, "x", "y")))
    pq.write_table(
        pa.table({"a": X[:, 0], "b": b, "y": y}), folder / "r.parquet", row_group_size=3000
    )
    return Parquet(folder / "r.parquet")


@pytest.mark.parametrize("label", [True, False])
def test_whoever_works_for_an_engine_encodes_row_groups(tmp_path, label):
    table = grouped(tmp_path)
    expected = coded_weights(table, label=label)
    fails = OneProcess(fails=lambda number: number % 3 == 1)
    for engine in ("joblib", Threads(3), clusterless(OneProcess()), clusterless(fails)):
        assert np.array_equal(coded_weights(table, engine, label), expected)


@pytest.mark.parametrize("engine", [None, "joblib"])
def test_where_their_number_is_hidden_no_rows_are_rows_whoever_reads(tmp_path, engine):
    grouped(tmp_path)
    nothing = pq.read_table(tmp_path / "r.parquet").slice(0, 0)
    with pq.ParquetWriter(tmp_path / "e.parquet", nothing.schema) as file:
        file.write_table(nothing)
        file.write_table(nothing)
    hidden = {"neighbours": AddRemove(100)}
    assert coded_weights(Parquet(tmp_path / "e.parquet"), engine, **hidden).shape == (5,)


def test_wrong_engines_are_named(monkeypatch):
    X, y = made(100)
    for wrong in ("spark", 3, "http://host"):
        with pytest.raises(InvalidParameter, match="engine"):
            weights(X, y, wrong)
    monkeypatch.setitem(__import__("sys").modules, "distributed", None)
    with pytest.raises(NotInstalled, match=r"confrere\[dask\]"):
        weights(X, y, "dask")
    with opened_engine(None) as engine:
        assert engine is None


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_cluster_gives_the_same_bits_also_when_a_worker_is_killed(tmp_path, monkeypatch):
    pytest.importorskip("distributed")
    # Other processes have partitions of the usual size.
    monkeypatch.setattr(row_blocks_module, "partition_rows", partition_rows)
    X, y = made(150_000, 250)
    table = grouped(tmp_path, 100_000)
    expected, coded = weights(X, y, None), coded_weights(table)
    with DaskCluster(workers=2) as cluster:
        assert np.array_equal(weights(X, y, cluster), expected)
        assert np.array_equal(coded_weights(table, cluster), coded)
        victims = [
            info["pid"] for info in cluster.client.run(lambda: {"pid": os.getpid()}).values()
        ]

        def kill():
            time.sleep(0.3)
            os.kill(victims[0], signal.SIGKILL)

        killer = threading.Thread(target=kill)
        killer.start()
        rounds = 0
        while killer.is_alive() or rounds < 2:
            assert np.array_equal(coded_weights(table, cluster), coded)
            assert np.array_equal(weights(X, y, cluster), expected)
            rounds += 1
        killer.join()
        assert victims[0] not in cluster.client.run(os.getpid).values()
