"""What a declared base rate is worth: for probabilities, and for ranking.

``python -m benchmarks base_rate``. One organisation without any other prior, and an average of ten;
pure epsilon, noise of a ball.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from rich.console import Console
from sklearn.metrics import log_loss, roc_auc_score

from benchmarks.bench_forms import loaded
from benchmarks.measured import fill, markdown, write_record
from confrere import CollaborativeClassifier, PrivateLogisticRegression
from confrere.estimators import designed
from confrere_research.loaders import load_brfss2015

TABLES = {"Bank Marketing": 4800, "credit default": 4800, "BRFSS 2015": 4800, "BRFSS 2022": 1200}
EPSILONS, DRAWS, TOGETHER = (0.1, 0.5, 1.0, 3.0), 12, 10


def main() -> None:
    record: dict[str, Any] = {}
    for table, n in TABLES.items():
        X, y = _encoded(table, n * TOGETHER + 8000)
        for parties in (1, TOGETHER):
            for epsilon in EPSILONS:
                record[f"{table} | {parties} | {epsilon:g}"] = _measured(X, y, n, parties, epsilon)
    write_record("base_rate", record)
    fill("priors.md", "base rate", table_of(record))
    Console().print(table_of(record), markup=False)


def _encoded(table: str, count: int) -> tuple[Any, Any]:
    if table == "BRFSS 2015":
        data = load_brfss2015()
        rows, labels, schema = data.train.X, data.train.y == 1, data.schema
    else:
        rows, labels, schema = loaded(table)  # type: ignore[assignment]
    assert schema is not None
    order = np.random.default_rng(0).permutation(len(labels))[:count]
    return schema.encoder().transform(rows.iloc[order]), np.asarray(labels)[order].astype(int)


def _measured(X: Any, y: Any, n: int, parties: int, epsilon: float) -> dict[str, Any]:
    """Return AUC and log loss of every draw, without and with the base rate."""
    rate = float(y.mean())
    train = min(n * parties, len(y) - 8000)
    found: dict[str, Any] = {"records": train}
    for name, odds in (("without", 0.0), ("with", math.log(rate / (1 - rate)))):
        aucs, losses = [], []
        for draw in range(DRAWS):
            settings = {"epsilon": epsilon, "prior_intercept": odds, "random_state": draw}
            if parties == 1:
                model = designed(PrivateLogisticRegression(), **settings).fit(X[:train], y[:train])
            else:
                party = np.arange(train) % parties
                model = designed(CollaborativeClassifier(), **settings)
                model.fit(X[:train], y[:train], party=party)
            chances = model.predict_proba(X[-8000:])[:, 1]
            aucs.append(float(roc_auc_score(y[-8000:], chances)))
            losses.append(float(log_loss(y[-8000:], chances)))
        found[name] = {"auc": aucs, "log loss": losses}
    return found


def table_of(record: dict[str, Any]) -> str:
    """Return one row per table and number of parties."""
    lines = []
    for table in TABLES:
        for parties in (1, TOGETHER):
            cells = [record[f"{table} | {parties} | {epsilon:g}"] for epsilon in EPSILONS]
            shown = [" → ".join(_shown(cell[k]) for k in ("without", "with")) for cell in cells]
            lines.append([f"{table}, {cells[0]['records']:,}", str(parties), *shown])
    return markdown(["table, records", "parties", *(f"epsilon {e:g}" for e in EPSILONS)], lines)


def _shown(found: dict[str, list[float]]) -> str:
    return f"{np.mean(found['auc']):.3f} ({np.mean(found['log loss']):.2f})"
