"""One organisation with bounds alone: noise of a ball, and noise shaped like the rows.

``python -m benchmarks bodies``, pure and with a delta, through the classifier itself. Goes on where
it stopped.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from rich.console import Console

from benchmarks.bench_forms import areas, loaded
from benchmarks.measured import RECORDS, fill, markdown, read_record, write_record
from confrere import PrivateLogisticRegression, PublicSchema
from confrere.methods.allowance import allowance
from confrere.methods.geometry import choose_form

TABLES = (
    ("Bank Marketing", 36_000),
    ("Bank Marketing", 4_800),
    ("credit default", 22_000),
    ("BRFSS 2022", 20_000),
)
EPSILONS, DELTA, DRAWS = (0.1, 0.5, 1.0, 3.0), 1e-5, 20
WAYS: dict[str, dict[str, Any]] = {
    "ball": {"geometry": "l2"},
    "schema": {},
    "ball, delta": {"geometry": "l2", "delta": DELTA},
}


def main() -> None:
    record = read_record("bodies") if (RECORDS / "bodies.json").exists() else {}
    for table, n in TABLES:
        keys = {(e, way): f"{table} | {n} | {e:g} | {way}" for e in EPSILONS for way in WAYS}
        if all(key in record for key in keys.values()):
            continue
        rows, labels, declared = loaded(table)
        assert declared is not None
        schema = PublicSchema([replace(f, importance=None, sign=0) for f in declared.features])
        rows = rows[list(schema.columns)]
        order = np.random.default_rng(0).permutation(len(labels))
        train, test = order[:n], order[n : n + 8_000]
        for (epsilon, way), key in keys.items():
            if key in record:
                continue
            setting = WAYS[way]
            form = choose_form(schema, setting.get("geometry", "auto"), allowance(epsilon, n))
            model = PrivateLogisticRegression(
                epsilon=epsilon, schema=schema, classes=[0, 1], random_state=0, **setting
            )
            record[key] = areas(model, form, rows, labels, train, test, DRAWS)
            write_record("bodies", record)
    write_record("bodies", record)
    fill("geometry.md", "bodies", table_of(record))
    Console().print(table_of(record), markup=False)


def table_of(record: dict[str, Any]) -> str:
    """Return one row per table, number of records and way."""
    lines = [
        [
            f"{table}, {n:,}",
            way,
            *(_shown(record[f"{table} | {n} | {e:g} | {way}"]) for e in EPSILONS),
        ]
        for table, n in TABLES
        for way in WAYS
    ]
    return markdown(["table, records", "noise", *(f"epsilon {e:g}" for e in EPSILONS)], lines)


def _shown(areas: list[float]) -> str:
    return f"{np.mean(areas):.3f} ({np.std(areas, ddof=1) / math.sqrt(len(areas)):.3f})"
