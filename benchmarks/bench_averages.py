"""Averages of several organisations: noise of a ball beside noise shaped like the rows.

``python -m benchmarks averages``. Bank clients and credit clients, dealt to equal parties; every
party releases once at pure epsilon.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from rich.console import Console
from sklearn.metrics import roc_auc_score

from benchmarks.bench_forms import loaded
from benchmarks.measured import RECORDS, fill, markdown, read_record, write_record
from confrere import CollaborativeClassifier

TABLES = {"Bank Marketing": 36_000, "credit default": 22_000}
PARTIES, EPSILONS, DRAWS = (3, 10, 30), (0.5, 1.0, 3.0), 8
NOISES = ("ball", "schema")


def main() -> None:
    record = read_record("averages") if (RECORDS / "averages.json").exists() else {}
    for table, n in TABLES.items():
        rows, labels, schema = loaded(table)
        order = np.random.default_rng(0).permutation(len(labels))
        assert schema is not None
        assert schema.outcome is not None
        said = np.where(labels, schema.outcome.positive[0], schema.outcome.negative[0])
        rows = rows.assign(**{schema.outcome.column: said})
        train, test = rows.iloc[order[:n]], rows.iloc[order[n : n + 8000]]
        truth = labels[order[n : n + 8000]]
        for parties in PARTIES:
            for epsilon in EPSILONS:
                for noise in NOISES:
                    key = f"{table} | {parties} | {epsilon:g} | {noise}"
                    if key in record:
                        continue
                    geometry: Any = "l2" if noise == "ball" else "schema"
                    made = CollaborativeClassifier(epsilon, schema, geometry=geometry)
                    record[key] = [
                        _auc(made.set_params(random_state=draw), train, test, truth, parties)
                        for draw in range(DRAWS)
                    ]
                    write_record("averages", record)
    fill("geometry.md", "averages", table_of(record))
    Console().print(table_of(record), markup=False)


def _auc(model: Any, train: Any, test: Any, truth: Any, parties: int) -> float:
    """Return the AUC of one draw, on rows that nobody learned from."""
    model.fit(train, party=np.arange(len(train)) % parties)
    return float(roc_auc_score(truth, model.decision_function(test)))


def table_of(record: dict[str, Any]) -> str:
    """Return one row per number of parties: ball and schema, side by side."""
    lines = []
    for table, n in TABLES.items():
        for parties in PARTIES:
            cells = []
            for epsilon in EPSILONS:
                both = [record[f"{table} | {parties} | {epsilon:g} | {noise}"] for noise in NOISES]
                cells.append(" → ".join(map(_shown, both)))
            lines.append([f"{table}, {n:,}", str(parties), *cells])
    return markdown(["table, records", "parties", *(f"epsilon {e:g}" for e in EPSILONS)], lines)


def _shown(values: list[float]) -> str:
    error = np.std(values, ddof=1) / math.sqrt(len(values))
    return f"{np.mean(values):.3f} ({error:.3f})"
