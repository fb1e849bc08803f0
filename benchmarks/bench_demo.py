"""What the demonstration shows, and how much of it is the noise of one draw.

Three simulated worlds, twenty draws of all noise in each: ``python -m benchmarks demo``.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from rich.console import Console

from benchmarks.measured import fill, markdown, read_record, write_record
from confrere.demo.demonstration import World, drawn, open_world

DRAWS, WORLDS = 20, (0, 1, 2)
GAINS = {
    "near the source against alone": ("transfer", "alone"),
    "PST-H against alone": ("pst-h", "alone"),
    "average against near the source": ("together", "transfer"),
}


def main() -> None:
    found = {str(seed): _world(open_world(seed)) for seed in WORLDS}
    write_record("demo", {"draws": DRAWS, "worlds": found})
    table = table_of(read_record("demo"))
    fill("algorithms/transfer.md", "demo", table)
    Console().print(table, markup=False)


def _world(world: World) -> dict[str, list[float]]:
    """Return every method's mean over the branches, draw by draw."""
    runs = [drawn(world) for _ in range(DRAWS)]
    return {m: [float(np.mean(list(run[m].values()))) for run in runs] for m in runs[0]}


def table_of(record: dict[str, Any]) -> str:
    """Return one row per world: what alone reaches, and the gains."""
    lines = []
    for seed, found in record["worlds"].items():
        gains = [np.subtract(found[a], found[b]) for a, b in GAINS.values()]
        lines.append([seed, f"{np.mean(found['alone']):.3f}", *map(_shown, gains)])
    return markdown(["world", "alone", *GAINS], lines)


def _shown(gains: Any) -> str:
    spread = float(np.std(gains, ddof=1))
    return f"{np.mean(gains):+.4f} ± {spread / math.sqrt(len(gains)):.4f} ({spread:.4f})"
