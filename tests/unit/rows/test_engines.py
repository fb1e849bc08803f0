"""Threads and clusters give the bits of one loop, also when a worker dies."""

import os
import signal
import threading
import time

import numpy as np
import pytest
from sklearn.base import clone

from confrere import PrivateLogisticRegression
from confrere.data import engines as engines_module
from confrere.data.engines import DaskCluster, Threads, opened_engine
from confrere.data.frame import BoundedRows
from confrere.data.spill import spill_folder
from confrere.errors import InvalidParameter, NotInstalled
from confrere.maths.solver import row_blocks as row_blocks_module


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


@pytest.mark.parametrize("n_classes", [2, 3])
def test_threads_give_the_same_bits(n_classes):
    X, y = made()
    settings = {} if n_classes == 2 else {"classes": [0, 1, 2], "loss": "logistic"}
    expected = weights(X, y, None, **settings)
    for engine in ("loop", "joblib", Threads(1), Threads(3)):
        assert np.array_equal(weights(X, y, engine, **settings), expected)


def test_add_remove_neighbours_have_engines_too():
    X, y = made()
    settings = {"neighbours": "add-remove", "declared_samples": len(y)}
    expected = weights(X, y, None, **settings)
    assert np.array_equal(weights(X, y, Threads(2), **settings), expected)


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
        framed = BoundedRows(X, 1.0, single=True, engine=engine)
        sent = __import__("cloudpickle").dumps(engine.keep(framed))
        assert framed.shrink.nbytes == 4 * len(X)
        assert len(sent) < 5000
        assert np.array_equal(engine.keep(framed)[0:9], framed[0:9])
    assert list(spill_folder().glob("rows-*")) == []


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
def test_a_cluster_gives_the_same_bits_also_when_a_worker_is_killed():
    pytest.importorskip("distributed")
    X, y = made(60_000)
    expected = weights(X, y, None)
    with DaskCluster(workers=2) as cluster:
        assert np.array_equal(weights(X, y, cluster), expected)
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
            assert np.array_equal(weights(X, y, cluster), expected)
            rounds += 1
        killer.join()
        assert victims[0] not in cluster.client.run(os.getpid).values()
