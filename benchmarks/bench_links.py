"""Probabilities before and after: the logistic function, and the link that models carry.

``python -m benchmarks links``. A cell is a table, an epsilon and a split; facts are means, shares
and a base rate of two digits, without signs. Ranking is the same in both; what differs is said by
the log loss, by the mean distance of ten groups of equal size from what is observed in them, by the
slope of a logistic regression on the log odds, and by how many cases are predicted for each that is
there. The rule was looked at on six tables; six others confirm it, once.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from rich.console import Console
from scipy import optimize, special
from sklearn.metrics import log_loss, roc_auc_score

from benchmarks.bench_forms import declared, known_of, loaded
from benchmarks.measured import fill, markdown, write_record
from confrere import PrivateLogisticRegression, PublicSchema
from confrere.schema import Label

EPSILONS, SPLITS, LITTLE_NOISE = (0.1, 0.5, 1.0, 3.0), 4, 30.0
CHOSEN = {
    "Bank Marketing": 4_000,
    "credit default": 4_000,
    "BRFSS 2022": 4_000,
    "BRFSS 2022, depression": 2_000,
    "phishing": 2_000,
    "connections, intruders": 2_000,
}
CONFIRMED = {
    "BRFSS 2015, blood pressure": 2_000,
    "BRFSS 2015, heart disease": 8_000,
    "BRFSS 2022, stroke": 4_000,
    "Bank Marketing, later calls": 4_000,
    "connections, probes": 4_000,
    "breast cancer": 400,
}
CONTROLS = ("Bank Marketing", "credit default", "BRFSS 2022", "BRFSS 2015, heart disease")
GROUPS = {"looked at": CHOSEN, "confirmed on": CONFIRMED}


def main() -> None:
    record: dict[str, Any] = {}
    for table, n in (CHOSEN | CONFIRMED).items():
        for epsilon in (*EPSILONS, LITTLE_NOISE) if table in CONTROLS else EPSILONS:
            found = [measured(table, n, epsilon, split) for split in range(SPLITS)]
            record[f"{table} | {epsilon:g}"] = found
            Console().print(table, epsilon, _mean(found, "before"), _mean(found, "after"))
    write_record("links", record)
    fill("probabilities.md", "links", table_of(record))
    fill("probabilities.md", "links, little noise", control_of(record))


_loaded = lru_cache(1)(loaded)


def measured(table: str, n: int, epsilon: float, split: int) -> dict[str, Any]:
    """Return what one fit says of others before and after, and which link it has."""
    rows, labels, schema = _loaded(table)
    features = declared(rows, "means") if schema is None else known_of(schema, rows, "means")
    rate = float(f"{labels.mean():.2g}")
    known = PublicSchema(features, Label("outcome", positive=1, negative=0, base_rate=rate))
    order = np.random.default_rng(split).permutation(len(labels))
    train, test = order[:n], order[n:][:10_000]
    X, y = rows[[feature.column for feature in features]], labels.astype(int)
    settings: dict[str, Any] = {"epsilon": epsilon, "schema": known, "random_state": split}
    model = PrivateLogisticRegression(**settings).fit(X.iloc[train], y[train])
    link, scores = model.model_.link, model.decision_function(X.iloc[test])
    found = {"kept": round(model.model_.facts.kept or 0.0, 3), "cap": link.cap, "slope": link.slope}
    found["before"] = quality(y[test], special.expit((scores - link.shift) / link.slope))
    found["after"] = quality(y[test], model.predict_proba(X.iloc[test])[:, 1])
    if epsilon == LITTLE_NOISE:
        plain = PrivateLogisticRegression(**settings, purpose="inference").fit(
            X.iloc[train], y[train]
        )
        found["logistic"] = quality(y[test], plain.predict_proba(X.iloc[test])[:, 1])
    return found


def quality(y: Any, p: Any) -> dict[str, float]:
    """Return what probabilities are worth."""
    odds = special.logit(np.clip(p, 1e-12, 1 - 1e-12))
    parts = np.array_split(np.argsort(p, kind="stable"), 10)
    away = sum(len(part) * abs(y[part].mean() - p[part].mean()) for part in parts) / len(y)

    def loss(at: Any) -> float:
        return float(np.mean(np.logaddexp(0, (1 - 2 * y) * (at[0] + at[1] * odds))))

    told = {
        "log loss": log_loss(y, np.clip(p, 1e-12, 1 - 1e-12)),
        "away": away,
        "slope": optimize.minimize(loss, [0.0, 1.0], method="BFGS").x[1],
        "predicted / observed": p.mean() / y.mean(),
        "area": roc_auc_score(y, p),
    }
    return {name: round(float(value), 4) for name, value in told.items()}


def _mean(found: list[dict[str, Any]], when: str) -> dict[str, float]:
    return {name: float(np.mean([one[when][name] for one in found])) for name in found[0][when]}


def table_of(record: dict[str, Any]) -> str:
    """Return means over splits, one row per table: before → after at every epsilon."""
    lines = []
    for group, tables in GROUPS.items():
        for table in tables:
            for name in ("log loss", "away", "predicted / observed"):
                cells = [record[f"{table} | {epsilon:g}"] for epsilon in EPSILONS]
                before, after = ([_mean(c, w)[name] for c in cells] for w in ("before", "after"))
                shown = [f"{one:.3f} → {two:.3f}" for one, two in zip(before, after, strict=True)]
                lines.append([f"{table} ({group})", name, *shown])
    return markdown(["table", "measure", *(f"epsilon {e:g}" for e in EPSILONS)], lines)


def control_of(record: dict[str, Any]) -> str:
    """Return what both losses say where there is hardly any noise."""
    ways = {"before": "sigmoid", "after": "own link", "logistic": 'purpose="inference"'}
    lines = []
    for table in CONTROLS:
        found = record[f"{table} | {LITTLE_NOISE:g}"]
        told = [_mean(found, way) for way in ways]
        lines.append(
            [table, *(f"{one['log loss']:.3f} ({one['predicted / observed']:.2f})" for one in told)]
        )
    return markdown(["log loss (predicted / observed)", *ways.values()], lines)
