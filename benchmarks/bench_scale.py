"""Whole fits against scikit-learn and diffprivlib, extra memory, and rows that no memory holds.

Times are CPU seconds of one core, the contestants in turns, the median of the rounds. A fit of ours
is the whole of it: validation, ledger on disk, noise, certificate, model. scikit-learn has the same
ridge and its default tolerance. ``python -m benchmarks scale`` prints the tables and fills
docs/scale.md; ``python -m benchmarks.bench_scale large [ROWS]`` runs what takes minutes and
gigabytes.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import resource
import statistics
import sys
import tempfile
import threading
import time
import types
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from rich.console import Console
from scipy import sparse
from sklearn.linear_model import LogisticRegression

from benchmarks.measured import fill, markdown, read_record, write_record
from confrere import PrivateLogisticRegression
from confrere.ledger import Ledger
from confrere.maths.logistic import sigmoid
from confrere.maths.solver.row_blocks import SolverRows
from confrere.rows.engines import DaskCluster, Threads
from confrere.rows.row_tables import Parquet
from confrere.rows.spill import MappedRows

#: Rows, columns, CSR entries per row (0: dense), and what the ratio should be at most.
SIZES = [
    (300, 10, 0, 1.5),
    (3_000, 50, 0, 1.5),
    (50_000, 50, 0, 1.0),
    (500_000, 50, 0, 0.5),
    (2_000_000, 10, 0, 0.5),
    (3_000, 1_000, 0, 1.5),
    (50_000, 500, 0, 1.5),
    (50_000, 10_000, 50, 1.2),
    (50_000, 100_000, 50, 1.2),
]
ROUNDS = 7


def main() -> None:
    warnings.simplefilter("ignore")
    console = Console()
    record: dict[str, Any] = {"rounds": ROUNDS, "fits": [], "memory": []}
    with tempfile.TemporaryDirectory() as folder:
        os.environ["CONFRERE_WITNESS"] = f"{folder}/witness"
        ledger = Ledger(Path(folder) / "bench.ledger")
        ledger.open_account("bench", epsilon=1e6)
        for n, d, entries, target in SIZES:
            record["fits"].append(_fit(n, d, entries, target, ledger))
            console.print(record["fits"][-1])
            write_record("scale", record)
    for dtype in ("float32", "float64"):
        record["memory"].append({"type": dtype, "extra": _extra_memory(dtype)})
        console.print(record["memory"][-1])
    write_record("scale", record)
    fill("scale.md", "fits", fits_table(record))
    fill("scale.md", "memory", memory_table(record))


def problem(n: int, d: int, dtype: Any = np.float64, seed: int = 0) -> tuple[Any, Any]:
    """Rows of norm at most one and noisy labels, made without a second copy of the rows."""
    rng = np.random.default_rng(seed)
    X = np.empty((n, d), dtype=dtype)
    y = np.empty(n, dtype=np.int8)
    truth = 20 * rng.standard_normal(d)
    for start in range(0, n, 65_536):
        X[start : start + 65_536], y[start : start + 65_536] = part(
            rng, min(65_536, n - start), d, truth
        )
    return X, y


def part(rng: np.random.Generator, n: int, d: int, truth: Any) -> tuple[Any, Any]:
    """Some rows and labels of a problem."""
    block = rng.standard_normal((n, d)) * np.linspace(1, 0.1, d)
    block /= np.maximum(np.linalg.norm(block, axis=1, keepdims=True), np.sqrt(d))
    return block, rng.random(n) < sigmoid(block @ truth)


def sparse_problem(n: int, d: int, entries: int) -> tuple[Any, Any]:
    """CSR rows of norm one, with so many entries each."""
    rng = np.random.default_rng(0)
    columns = np.sort(rng.integers(d, size=(n, entries)), axis=1)
    X = sparse.csr_array(
        (np.ones(n * entries), columns.ravel(), np.arange(n + 1) * entries), shape=(n, d)
    )
    X.sum_duplicates()
    X.data /= np.sqrt(entries)
    y = rng.random(n) < sigmoid(X @ (3 * rng.standard_normal(d)))
    return X, y.astype(np.int8)


def _fit(n: int, d: int, entries: int, target: float, ledger: Ledger) -> dict[str, Any]:
    X, y = sparse_problem(n, d, entries) if entries else problem(n, d)
    ours = PrivateLogisticRegression(epsilon=1.0, ledger=ledger, account="bench").fit(X, y)
    C = 1 / ours.model_.facts.ridge
    contestants: dict[str, Callable[[], object]] = {
        "ours": lambda: ours.fit(X, y),
        "lbfgs": lambda: LogisticRegression(C=C).fit(X, y),
    }
    if not entries:
        newton = LogisticRegression(C=C, solver="newton-cholesky")
        contestants["newton-cholesky"] = lambda: newton.fit(X, y)
        theirs = _diffprivlib(C)
        if theirs is not None:
            contestants["diffprivlib"] = lambda: theirs.fit(X, y)
    times = in_turns(contestants, ROUNDS)
    faster = min(times["lbfgs"], times.get("newton-cholesky", np.inf))
    return {
        "rows": n,
        "columns": d,
        "entries": entries,
        "milliseconds": {name: round(1e3 * seconds, 3) for name, seconds in times.items()},
        "ratio": round(times["ours"] / faster, 3),
        "target": target,
        "to_diffprivlib": (
            round(times["ours"] / times["diffprivlib"], 3) if "diffprivlib" in times else None
        ),
    }


def _diffprivlib(C: float) -> Any:
    # Its forests do not load with this scikit-learn, and nobody asks for them here.
    forest: Any = types.ModuleType("diffprivlib.models.forest")
    forest.DecisionTreeClassifier = forest.RandomForestClassifier = None
    sys.modules.setdefault("diffprivlib.models.forest", forest)
    try:
        from diffprivlib.models import LogisticRegression as Theirs  # type: ignore[import-not-found]
    except ImportError:
        return None
    return Theirs(epsilon=1.0, data_norm=1.0, C=C)


def in_turns(contestants: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Return the median CPU seconds of each."""
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for act in contestants.values():
        act()
    for _ in range(rounds):
        for name, act in contestants.items():
            start = time.process_time()
            act()
            times[name].append(time.process_time() - start)
    return {name: statistics.median(each) for name, each in times.items()}


def _extra_memory(dtype: str) -> float:
    """Peak memory of a fit beyond the rows, as a share of the rows, in a process of its own."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return round(pool.apply(_peak, (dtype,)), 3)


def _peak(dtype: str) -> float:
    X, y = problem(1_000_000, 100, dtype)
    small = PrivateLogisticRegression(epsilon=1.0, random_state=0)
    small.fit(X[:5000], y[:5000])
    gc.collect()
    process = psutil.Process()
    before = peak = process.memory_info().rss
    done = threading.Event()

    def watch() -> None:
        nonlocal peak
        while not done.wait(0.002):
            peak = max(peak, process.memory_info().rss)

    watcher = threading.Thread(target=watch)
    watcher.start()
    PrivateLogisticRegression(epsilon=1.0, random_state=0).fit(X, y)
    done.set()
    watcher.join()
    return (peak - before) / X.nbytes


def fits_table(record: dict[str, Any]) -> str:
    """Return the table of whole fits."""
    head = ["rows x columns", "ours, ms", "lbfgs, ms", "newton-cholesky, ms", "diffprivlib, ms"]
    head += ["ours / faster of scikit-learn", "wanted"]
    lines = []
    for one in record["fits"]:
        kind = f" (CSR, {one['entries']} per row)" if one["entries"] else ""
        times = one["milliseconds"]
        names = ("ours", "lbfgs", "newton-cholesky", "diffprivlib")
        cells = [f"{times[name]:,.1f}" if name in times else "-" for name in names]
        size = f"{one['rows']:,} x {one['columns']:,}{kind}"
        lines.append([size, *cells, f"{one['ratio']:.2f}", f"{one['target']:g}"])
    return markdown(head, lines)


def memory_table(record: dict[str, Any]) -> str:
    """Return the table of extra memory."""
    lines = [[one["type"], f"{one['extra']:.2f}"] for one in record["memory"]]
    return markdown(["1,000,000 x 100 of type", "peak beyond the rows, as a share of them"], lines)


# -- what takes minutes and gigabytes ----------------------------------------------------------


def large(rows: int, columns: int = 100) -> None:
    """Fit rows from a memory map, from Parquet and by a cluster; write the record."""
    console = Console()
    record: dict[str, Any] = {"columns": columns, "maps": [], "engines": []}
    with tempfile.TemporaryDirectory(dir=os.environ.get("CONFRERE_SPILL")) as folder:
        place = Path(folder)
        os.environ["CONFRERE_SPILL"] = f"{folder}/spill"
        for n in sorted({1_000_000, rows // 3, rows}):
            y = _write(place / "rows.f32", n, columns)
            record["maps"].append(_in_child(_map_run, str(place / "rows.f32"), n, columns, y))
            console.print(record["maps"][-1])
        _write_parquet(place, rows, columns, y)
        record["parquet"] = _in_child(_parquet_run, folder)
        console.print(record["parquet"])
        record["engines"] = _engines(place / "rows.f32", min(rows, 4_000_000), columns, y)
        console.print(record["engines"])
    write_record("large", record)
    fill("scale.md", "large", large_table(record))
    fill("scale.md", "engines", engines_table(record))


def _write(path: Path, n: int, d: int) -> Any:
    rng = np.random.default_rng(0)
    truth = 20 * rng.standard_normal(d)
    y = np.empty(n, dtype=np.int8)
    with path.open("wb") as file:
        for start in range(0, n, 65_536):
            block, y[start : start + 65_536] = part(rng, min(65_536, n - start), d, truth)
            block.astype(np.float32).tofile(file)
    return y


def _write_parquet(folder: Path, n: int, d: int, y: Any) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = np.memmap(folder / "rows.f32", dtype=np.float32, mode="r", shape=(n, d))
    names = [f"x{j}" for j in range(d)]
    writer = None
    for start in range(0, n, 262_144):
        block = np.asarray(rows[start : start + 262_144])
        table = pa.table({name: block[:, j] for j, name in enumerate(names)})
        table = table.append_column("y", pa.array(y[start : start + 262_144]))
        writer = writer or pq.ParquetWriter(folder / "rows.parquet", table.schema)
        writer.write_table(table)
    assert writer is not None
    writer.close()


def _in_child(act: Callable[..., Any], *args: Any) -> Any:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(act, args)


class _Passes:
    """Counts passes over all rows."""

    def __init__(self, rows: int) -> None:
        self.count = 0
        before = SolverRows.sum

        def counted(this: Any, *args: Any) -> Any:
            self.count += this.n == rows
            return before(this, *args)

        SolverRows.sum = counted  # type: ignore[method-assign]


def _measured(X: Any, y: Any, rows: int) -> dict[str, Any]:
    passes = _Passes(rows)
    model = PrivateLogisticRegression(epsilon=1.0, random_state=0)
    cpu, wall = time.process_time(), time.perf_counter()
    model.fit(X, y)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    status = Path("/proc/self/status").read_text(encoding="ascii")
    anonymous = next(line for line in status.splitlines() if line.startswith("RssAnon"))
    return {
        "cpu_seconds": round(cpu, 2),
        "wall_seconds": round(wall, 2),
        "passes": passes.count + 2,  # the finite check and the norms read all rows too
        "anonymous_megabytes": int(anonymous.split()[1]) // 1024,
        "peak_megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "coef": model.coef_[0, :3].tolist(),
    }


def _map_run(path: str, n: int, d: int, y: Any) -> dict[str, Any]:
    X = np.memmap(path, dtype=np.float32, mode="r", shape=(n, d))
    found = _measured(X, y, n)
    start = time.process_time(), time.perf_counter()
    for first in range(0, n, 65_536):
        np.asarray(X[first : first + 65_536]).view(np.int32).max()
    reading = time.process_time() - start[0], time.perf_counter() - start[1]
    return {
        "rows": n,
        **found,
        "nanoseconds_per_row_and_pass": round(1e9 * found["cpu_seconds"] / n / found["passes"], 1),
        "read_cpu_seconds": round(reading[0], 2),
        "read_wall_seconds": round(reading[1], 2),
    }


def _parquet_run(folder: str) -> dict[str, Any]:
    table = Parquet(Path(folder) / "rows.parquet")
    assert table.rows is not None
    return {"rows": table.rows, **_measured(table, "y", table.rows)}


def _engines(path: Path, n: int, d: int, y: Any) -> list[dict[str, Any]]:
    source = MappedRows(path, np.float32, (len(y), d)) if len(y) == n else None
    if source is None:
        whole = np.memmap(path, dtype=np.float32, mode="r", shape=(len(y), d))
        source = (
            MappedRows(path.with_name("some.f32"), np.float32, (n, d))
            if (np.asarray(whole[:n]).tofile(path.with_name("some.f32")) is None)
            else None
        )
    found: list[dict[str, Any]] = []
    expected = None
    for name, make in (
        ("loop", lambda: None),
        ("2 threads", lambda: Threads(2)),
        ("Dask, 1 worker", lambda: DaskCluster(workers=1)),
        ("Dask, 2 workers", lambda: DaskCluster(workers=2)),
    ):
        engine = make()
        model = PrivateLogisticRegression(epsilon=1.0, random_state=0, engine=engine)
        start = time.perf_counter()
        model.fit(source, y[:n])
        seconds = time.perf_counter() - start
        expected = model.coef_ if expected is None else expected
        same = bool(np.array_equal(model.coef_, expected))
        found.append({"engine": name, "wall_seconds": round(seconds, 2), "same_bits": same})
        if isinstance(engine, DaskCluster):
            engine.close()
    return found


def large_table(record: dict[str, Any]) -> str:
    """Return the table of rows beyond memory."""
    head = ["rows x columns, from", "CPU s", "wall s", "passes", "ns per row and pass"]
    head += ["anonymous memory, MB"]
    lines = []
    for one in [*record["maps"], record["parquet"]]:
        place = "memory map" if "read_cpu_seconds" in one else "Parquet"
        each = 1e9 * one["cpu_seconds"] / one["rows"] / one["passes"]
        lines.append(
            [
                f"{one['rows']:,} x {record['columns']}, {place}",
                f"{one['cpu_seconds']:.1f}",
                f"{one['wall_seconds']:.1f}",
                str(one["passes"]),
                f"{each:.0f}",
                str(one["anonymous_megabytes"]),
            ]
        )
    return markdown(head, lines)


def engines_table(record: dict[str, Any]) -> str:
    """Return the table of engines."""
    first = record["engines"][0]["wall_seconds"]
    lines = [
        [
            one["engine"],
            f"{one['wall_seconds']:.1f}",
            f"{one['wall_seconds'] / first:.2f}",
            "yes" if one["same_bits"] else "no",
        ]
        for one in record["engines"]
    ]
    return markdown(["engine", "wall s", "to the loop", "same bits"], lines)


if __name__ == "__main__":
    if sys.argv[1:2] == ["large"]:
        large(int(float(sys.argv[2])) if len(sys.argv) > 2 else 10_000_000)
    elif sys.argv[1:2] == ["fill"]:
        fill("scale.md", "fits", fits_table(read_record("scale")))
        fill("scale.md", "memory", memory_table(read_record("scale")))
    else:
        main()
