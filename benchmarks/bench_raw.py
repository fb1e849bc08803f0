"""Raw rows of a Parquet file: what a row costs beside reading it, and two Dask workers beside one.

``python -m benchmarks raw`` needs a quiet machine for its wall times: of the passes over all rows,
once workers hold their codes. CPU is that of the processes that fit. ``CONFRERE_RAW_ROWS`` says how
many rows, by default five million; a hundred million take 2 GB in ``CONFRERE_SPILL``, or in the
folder for temporary files, and as much again for their codes.
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from rich.console import Console

from benchmarks.measured import markdown
from benchmarks.scale_rows import raw_schema, raw_table, watched
from confrere import PrivateLogisticRegression
from confrere.data.engines import DaskCluster
from confrere.rows import open_table
from confrere.solver.row_blocks import SolverRows

ROWS = int(os.environ.get("CONFRERE_RAW_ROWS", 5_000_000))
GROUP = 1_000_000


def main() -> None:
    lines = []
    with tempfile.TemporaryDirectory(dir=os.environ.get("CONFRERE_SPILL")) as folder:
        file = Path(folder) / "rows.parquet"
        write(file, ROWS)
        for workers in (0, 1, 2):
            lines.append(fitted(file, workers))
            Console().print(lines[-1])
    head = [*lines[0]]
    first = lines[1]["wall of passes, s"]
    told = f"two workers beside one: {first / lines[2]['wall of passes, s']:.2f} (bar 1.6)"
    Console().print(markdown(head, [[str(one[name]) for name in head] for one in lines]))
    Console().print(told)


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
