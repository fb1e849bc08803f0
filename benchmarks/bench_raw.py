"""Every bar of rows as codes: fits beside others, rows of files, predictions, passes and workers.

``python -m benchmarks raw`` needs a quiet machine: ratios are of CPU time in turns, and those of
passes of wall time, once workers hold their codes. ``CONFRERE_RAW_ROWS`` says how many rows a file
has whose passes are timed, and that is predicted, by default ten million; a hundred million take 2
GB in ``CONFRERE_SPILL``, or in the folder for temporary files, and as much again for their codes.
``CONFRERE_RAW_MOST`` leaves out fits of more rows, and ``CONFRERE_RAW_PARTS`` all parts but some.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from rich.console import Console

from benchmarks.bench_scale import RAW, SIZES, array_fit, raw_fit, table_costs
from benchmarks.measured import markdown
from benchmarks.scale_rows import raw_schema, raw_table, watched
from confrere import PrivateLogisticRegression
from confrere.data.tables import DaskCluster
from confrere.rows import open_table
from confrere.solver.row_blocks import SolverRows

ROWS = int(os.environ.get("CONFRERE_RAW_ROWS", 10_000_000))
MOST = int(os.environ.get("CONFRERE_RAW_MOST", 10**9))
GROUP = 1_000_000

#: What was measured, the number, and the bar that it should not exceed; a bar below zero is one
#: that it should not stay under.
Line = tuple[str, float, float]


def main() -> None:
    parts = {"fits": fits, "files": files, "arrays": arrays, "predict": predict, "passes": passes}
    chosen = os.environ.get("CONFRERE_RAW_PARTS", " ".join(parts)).split()
    lines = []
    for part in chosen:
        for what, found, bar in parts[part]():
            good = found >= -bar if bar < 0 else found <= bar
            told = f"{'at least' if bar < 0 else 'at most'} {abs(bar):g}"
            lines.append([what, f"{found:.3g}", told, "met" if good else "MISSED"])
            Console().print("  ".join(lines[-1]))
    Console().print(markdown(["what", "measured", "bar", ""], lines))


def fits() -> Iterator[Line]:
    """Whole fits of data frames beside scikit-learn's pipeline."""
    for n, bar in RAW:
        if n <= MOST:
            one = raw_fit(n, bar)
            yield f"raw table of {n:,} rows, to the pipeline", one["ratio"], bar
            if one["bytes_a_row"] is not None:
                yield f"raw table of {n:,} rows, bytes a row", one["bytes_a_row"], 60


def files() -> Iterator[Line]:
    """Rows of files as codes, and predicted."""
    yield "CSV as codes, us a row", table_costs("CSV")["codes"], 2.5
    yield "Parquet predicted, us a row", table_costs("Parquet")["predicting"], 1.0


def arrays() -> Iterator[Line]:
    """Whole fits of arrays beside the faster of scikit-learn's."""
    for n, d, entries, bar in SIZES:
        if n <= MOST:
            kind = f", {entries} entries a row" if entries else ""
            yield (
                f"array of {n:,} x {d:,}{kind}, to sklearn",
                array_fit(n, d, entries, bar)["ratio"],
                bar,
            )


def predict() -> Iterator[Line]:
    """The command ``predict`` of a file and of one with a tenth of its rows: each a process."""
    with tempfile.TemporaryDirectory(dir=os.environ.get("CONFRERE_SPILL")) as folder:
        place, found = Path(folder), []
        model = PrivateLogisticRegression(epsilon=1.0, schema=raw_schema())
        model.fit(raw_table(5_000).to_pandas()).to_release().save(
            place / "release", allow_uncapped=True
        )
        for rows in (ROWS // 10, ROWS):
            write(place / "rows.parquet", rows)
            command = ["predict", "release", "rows.parquet", "--out", "predicted.parquet"]
            program = "from confrere.cli import app; app()"
            started = subprocess.Popen([sys.executable, "-c", program, *command], cwd=place)
            _, status, used = os.wait4(started.pid, 0)
            assert status == 0
            found.append((rows, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024))
    (few, first, before), (many, last, after) = found
    yield f"confrere predict, us a row beyond {few:,}", 1e6 * (last - first) / (many - few), 1.0
    yield f"confrere predict of {many:,} rows, MB beyond {few:,}", after - before, 64


def passes() -> Iterator[Line]:
    """Fits of a Parquet file by the loop and by one and two workers."""
    lines = []
    with tempfile.TemporaryDirectory(dir=os.environ.get("CONFRERE_SPILL")) as folder:
        file = Path(folder) / "rows.parquet"
        write(file, ROWS)
        for workers in (0, 1, 2):
            lines.append(fitted(file, workers))
            Console().print(lines[-1])
    head = [*lines[0]]
    Console().print(markdown(head, [[str(one[name]) for name in head] for one in lines]))
    ratio = lines[1]["wall of passes, s"] / max(lines[2]["wall of passes, s"], 0.01)
    yield "two Dask workers beside one, wall of passes", ratio, -1.6


def write(file: Path, rows: int) -> None:
    """Write rows in groups, without holding them all."""
    first = raw_table(min(GROUP, rows), seed=0)
    with pa.parquet.ParquetWriter(file, first.schema) as writer:
        for number, start in enumerate(range(0, rows, GROUP)):
            writer.write_table(raw_table(min(GROUP, rows - start), seed=number), GROUP)


def fitted(file: Path, workers: int) -> dict[str, Any]:
    """Return what a fit takes here, by the loop or by so many workers, and by reading alone."""
    schema, table = raw_schema(), open_table(file)
    start = time.process_time()
    n = sum(len(batch) for batch in table.read([*schema.columns, "y"]))
    reading = time.process_time() - start
    passes, wall, summed = 0, 0.0, SolverRows.sum

    def timed(this: Any, *args: Any) -> Any:
        nonlocal passes, wall
        begin = time.perf_counter()
        found = summed(this, *args)
        passes, wall = passes + (this.n == n), wall + (this.n == n) * (time.perf_counter() - begin)
        return found

    SolverRows.sum = timed  # type: ignore[method-assign]
    cluster = DaskCluster(workers=workers) if workers else None
    engine = "loop" if cluster is None else cluster
    with watched("RssAnon") as memory:
        busy, start = _busy(cluster), time.process_time()
        model = PrivateLogisticRegression(
            epsilon=1.0, schema=schema, random_state=0, engine=engine
        ).fit(open_table(file))
        cpu, busy = time.process_time() - start, _busy(cluster) - busy
    SolverRows.sum = summed  # type: ignore[method-assign]
    if cluster is not None:
        cluster.close()
    return {
        "rows": n,
        "workers": workers,
        "CPU here, s": round(cpu, 2),
        "CPU of workers, s": round(busy, 2),
        "us a row": round(1e6 * (cpu + busy) / n, 3),
        "reading, us a row": round(1e6 * reading / n, 3),
        "passes": passes,
        "wall of passes, s": round(wall, 2),
        "ns a row and pass": round(1e9 * wall / n / passes, 1),
        "peak here, MB": (memory[1] - memory[0]) // 2**20,
        "first coefficient": float(np.round(model.coef_[0, 0], 12)),
    }


def _busy(cluster: DaskCluster | None) -> float:
    return 0.0 if cluster is None else float(sum(cluster.client.run(time.process_time).values()))


if __name__ == "__main__":
    main()
