"""Rows of any size for the benchmark ``scale``: made, fitted in a process of their own, removed."""

from __future__ import annotations

import gc
import multiprocessing
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
from scipy.special import expit

from confrere import PrivateLogisticRegression
from confrere.data.tables import DaskCluster, Threads
from confrere.schema import Category, Flag, Label, Number, PublicSchema
from confrere.solver.row_blocks import SolverRows

#: Rows and columns; the cost per row should not grow.
LARGE = [(1_000_000, 100), (3_000_000, 100), (10_000_000, 100), (10_000_000, 20), (100_000_000, 20)]

#: Rows and columns that engines are compared on.
ENGINES = (3_000_000, 100)

_PART = 65_536


def problem(n: int, d: int, dtype: Any = np.float64, seed: int = 0) -> tuple[Any, Any]:
    """Rows of norm at most one and noisy labels, made without a second copy of the rows."""
    X = np.empty((n, d), dtype=dtype)
    y = np.empty(n, dtype=np.int8)
    for start, rows, labels in parts(n, d, seed):
        X[start : start + len(rows)], y[start : start + len(rows)] = rows, labels
    return X, y


def parts(n: int, d: int, seed: int = 0) -> Iterator[tuple[int, Any, Any]]:
    """The rows and labels of a problem, some at a time, and where they begin."""
    rng = np.random.default_rng(seed)
    truth = 20 * rng.standard_normal(d)
    for start in range(0, n, _PART):
        block = rng.standard_normal((min(_PART, n - start), d)) * np.linspace(1, 0.1, d)
        block /= np.maximum(np.linalg.norm(block, axis=1, keepdims=True), np.sqrt(d))
        yield start, block, rng.random(len(block)) < expit(block @ truth)


def in_child(act: Callable[..., Any], *args: Any) -> Any:
    """Return what a process of its own makes of it."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(act, args)


@contextmanager
def watched(field: str) -> Iterator[list[int]]:
    """Give the bytes of memory before, and at the most, of the kind that ``field`` names."""
    process = psutil.Process()

    def now() -> int:
        if field == "rss":
            return int(process.memory_info().rss)
        status = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
        return 1024 * int(next(line for line in status if line.startswith(field)).split()[1])

    gc.collect()
    found = [now(), 0]
    done = threading.Event()

    def watch() -> None:
        while not done.wait(0.01):
            found[1] = max(found[1], now())

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield found
    finally:
        done.set()
        watcher.join()


# -- memory ------------------------------------------------------------------------------------


def extra_memory(dtype: str) -> dict[str, Any]:
    """Return the peak memory of a fit beyond the rows, as a share of the rows."""
    return {"extra": round(in_child(_peak, dtype), 3), "target": 0.3}


def _peak(dtype: str) -> float:
    X, y = problem(1_000_000, 100, dtype)
    PrivateLogisticRegression(epsilon=1.0, random_state=0).fit(X[:5000], y[:5000])
    with watched("rss") as found:
        PrivateLogisticRegression(epsilon=1.0, random_state=0).fit(X, y)
    return float(found[1] - found[0]) / X.nbytes


# -- rows in files -----------------------------------------------------------------------------


def large(n: int, d: int) -> dict[str, Any]:
    """Fit rows of single precision from a memory map."""
    with tempfile.TemporaryDirectory(dir=os.environ.get("CONFRERE_SPILL")) as folder:
        np.save(Path(folder) / "y.npy", _write_map(Path(folder) / "rows.f32", n, d))
        found: dict[str, Any] = in_child(_fit_map, folder, n, d)
    passes, cpu = found["passes"], found["cpu_seconds"]
    found["nanoseconds_per_row_and_pass"] = round(1e9 * cpu / n / passes, 1)
    found["to_reading"] = round(cpu / found["reading_seconds"] / passes, 3)
    return found


def _write_map(path: Path, n: int, d: int) -> Any:
    """Write rows of single precision, and return the labels."""
    y = np.empty(n, dtype=np.int8)
    with path.open("wb", buffering=0) as file:
        for start, rows, labels in parts(n, d):
            file.write(np.ascontiguousarray(rows, dtype=np.float32).data)
            y[start : start + len(rows)] = labels
    return y


def _fit_map(folder: str, n: int, d: int) -> dict[str, Any]:
    path = Path(folder) / "rows.f32"
    reading = _reading(path)
    X = np.memmap(path, dtype=np.float32, mode="r", shape=(n, d))
    return {**_fitted(X, np.load(Path(folder) / "y.npy"), n), "reading_seconds": reading}


def _reading(path: Path) -> float:
    """Return the CPU seconds of reading a file once, the second time: not from the disk."""
    room = bytearray(2**23)
    for _ in range(2):
        start = time.process_time()
        with path.open("rb", buffering=0) as file:
            while file.readinto(room):
                pass
        seconds = time.process_time() - start
    return round(seconds, 3)


def _fitted(X: Any, y: Any, n: int) -> dict[str, Any]:
    passes, summed = 0, SolverRows.sum

    def counted(this: Any, *args: Any) -> Any:
        nonlocal passes
        passes += this.n == n
        return summed(this, *args)

    SolverRows.sum = counted  # type: ignore[method-assign]
    with watched("RssAnon") as memory:
        cpu, wall = time.process_time(), time.perf_counter()
        model = PrivateLogisticRegression(epsilon=1.0, random_state=0).fit(X, y)
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    return {
        "cpu_seconds": round(cpu, 2),
        "wall_seconds": round(wall, 2),
        "passes": passes + 2,  # norms are read off the rows, and whether they are finite
        "peak_megabytes": (memory[1] - memory[0]) // 2**20,
        "coef": model.coef_[0, :3].tolist(),
    }


# -- raw tables --------------------------------------------------------------------------------


def raw_schema() -> PublicSchema:
    """Eight numbers, six categories and four flags."""
    numbers = [Number(f"n{j}", bounds=(0, 100), mean=50, sd=10) for j in range(8)]
    words = [Category(f"c{j}", values=("alpha", "beta", "gamma", "delta")) for j in range(6)]
    flags = [Flag(f"f{j}", true="yes", false="no") for j in range(4)]
    return PublicSchema((*numbers, *words, *flags), outcome=Label("y", positive=1, negative=0))


def raw_table(n: int, seed: int = 0) -> pa.Table:
    """Rows of that schema, as Arrow has them."""
    rng = np.random.default_rng(seed)
    raw: dict[str, Any] = {f"n{j}": rng.normal(50, 10, n).round(3) for j in range(8)}
    raw |= {f"c{j}": rng.choice(["alpha", "beta", "gamma", "delta"], n) for j in range(6)}
    raw |= {f"f{j}": rng.choice(["yes", "no"], n) for j in range(4)}
    odds = (raw["n0"] - raw["n1"]) / 10 + (raw["c0"] == "beta") + (raw["f0"] == "yes") - 1
    return pa.table(raw | {"y": (rng.random(n) < expit(odds)).astype(np.int8)})


def raw_memory(n: int) -> float:
    """Return the peak memory of a fit beyond its data frame, in bytes a row."""
    frame, schema = raw_table(n).to_pandas(), raw_schema()
    model = PrivateLogisticRegression(epsilon=1.0, schema=schema, random_state=0)
    model.fit(frame[:5000])
    with watched("rss") as found:
        model.fit(frame)
    return float(found[1] - found[0]) / n


# -- engines -----------------------------------------------------------------------------------


def engines() -> list[dict[str, Any]]:
    """Fit the same rows by every engine."""
    n, d = ENGINES
    found: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(dir=os.environ.get("CONFRERE_SPILL")) as folder:
        path = Path(folder) / "rows.f32"
        y = _write_map(path, n, d)
        source = np.memmap(path, dtype=np.float32, mode="r", shape=(n, d))
        expected = None
        for name, make in (
            ("loop", lambda: None),
            ("2 threads", lambda: Threads(2)),
            ("Dask, 1 worker", lambda: DaskCluster(workers=1)),
            ("Dask, 2 workers", lambda: DaskCluster(workers=2)),
        ):
            engine = make()
            model = PrivateLogisticRegression(epsilon=1.0, random_state=0, engine=engine)
            start_time = time.perf_counter()
            model.fit(source, y)
            seconds = time.perf_counter() - start_time
            expected = model.coef_ if expected is None else expected
            same = bool(np.array_equal(model.coef_, expected))
            found.append({"engine": name, "wall_seconds": round(seconds, 2), "same_bits": same})
            if isinstance(engine, DaskCluster):
                engine.close()
    return found
