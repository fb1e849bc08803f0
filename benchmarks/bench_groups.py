"""Stacks over groups of columns: noise of a ball beside noise shaped like the rows.

``python -m benchmarks groups``. PST-F with its defaults, five groups; PST-H near a source that has
the rest of the rows. Bank clients were looked at while it was built, the others were not.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from rich.console import Console
from sklearn.metrics import roc_auc_score

from benchmarks.bench_forms import loaded
from benchmarks.measured import RECORDS, fill, markdown, read_record, write_record
from confrere import FeatureStackingClassifier, TransferStackingClassifier

#: Tables, numbers of records, and of those of a branch beside its source: none is a stack alone.
STACKS = (
    ("Bank Marketing", 36_000, 0),
    ("Bank Marketing", 4_800, 0),
    ("Bank Marketing", 30_000, 1_000),
    ("credit default", 22_000, 0),
    ("credit default", 4_800, 0),
    ("credit default", 20_000, 1_000),
    ("BRFSS 2022", 20_000, 0),
    ("BRFSS 2022", 4_000, 0),
    ("BRFSS 2022", 20_000, 1_000),
    ("simulated hospital", 8_000, 0),
)
EPSILONS, DRAWS, HELD_OUT = (0.5, 1.0, 3.0), 20, 8_000
NOISES = ("ball", "schema")


def main() -> None:
    record = read_record("groups") if (RECORDS / "groups.json").exists() else {}
    for table, n, branch in STACKS:
        rows, labels, schema = loaded(table)
        order = np.random.default_rng(0).permutation(len(labels))
        assert schema is not None
        assert schema.outcome is not None
        said = np.where(labels, schema.outcome.positive[0], schema.outcome.negative[0])
        rows = rows.assign(**{schema.outcome.column: said}).iloc[order]
        test = slice(n + branch, n + branch + HELD_OUT)
        for epsilon in EPSILONS:
            for noise in NOISES:
                key = f"{table} | {n} | {branch} | {epsilon:g} | {noise}"
                if key in record:
                    continue
                settings = {
                    "epsilon": epsilon,
                    "schema": schema,
                    "geometry": {"ball": "l2"}.get(noise, noise),
                }
                record[key] = [
                    _auc(
                        _learned(rows[:n], rows[n : n + branch], settings | {"random_state": draw}),
                        rows[test],
                        labels[order][test],
                    )
                    for draw in range(DRAWS)
                ]
                write_record("groups", record)
    fill("geometry.md", "groups", table_of(record))
    Console().print(table_of(record), markup=False)


def _learned(rows: Any, branch: Any, settings: dict[str, Any]) -> Any:
    """Return a stack, or the stack of a branch that starts from it."""
    stack = FeatureStackingClassifier(**settings).fit(rows)
    if not len(branch):
        return stack
    return TransferStackingClassifier(**settings, source=stack.to_release()).fit(branch)


def _auc(model: Any, test: Any, truth: Any) -> float:
    return float(roc_auc_score(truth, model.decision_function(test)))


def table_of(record: dict[str, Any]) -> str:
    """Return one row per table and number of records: ball and schema, side by side."""
    lines = []
    for table, n, branch in STACKS:
        cells = []
        for epsilon in EPSILONS:
            asked = f"{table} | {n} | {branch} | {epsilon:g}"
            cells.append(" → ".join(_shown(record[f"{asked} | {noise}"]) for noise in NOISES))
        near = f"PST-H, {branch:,} near {n:,}" if branch else f"PST-F, {n:,}"
        lines.append([table, near, *cells])
    return markdown(["table", "stack, records", *(f"epsilon {e:g}" for e in EPSILONS)], lines)


def _shown(values: list[float]) -> str:
    error = np.std(values, ddof=1) / math.sqrt(len(values))
    return f"{np.mean(values):.3f} ({error:.3f})"
