"""A private choice of settings against one that is not paid for, and against none.

Everything at epsilon 1 in all, on an account with that cap. "Not paid for" is cross-validation of
the private model on the private data, as the papers do it: its epsilon is really larger.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

import numpy as np
from rich.console import Console
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV

from benchmarks.measured import fill, markdown, write_record
from benchmarks.tables import Drawn, draw, importances
from confrere import Ledger, PrivateLogisticRegression
from confrere_research.private_selection import PrivateSelection

SIZES = {"MNIST, 0 against 8": 9_000, "BRFSS 2022": 40_000, "Bank Marketing": 36_000}
EPSILON = 1.0
REPEATS = 10
GRIDS = {"ridge": "ridge: five `alpha`", "kind": "kind: loss, and importances or not"}
CHOICES = {
    "none": "none: the defaults",
    "parts": '`strategy="parts"`',
    "random-stopping": '`strategy="random-stopping"`',
    "cross-validation": "cross-validated, **not paid for**",
}


def main() -> None:
    record: dict[str, Any] = {
        "epsilon": EPSILON,
        "sizes": SIZES,
        "repeats": REPEATS,
        "results": [
            _measured(table, grid, choice)
            for table in SIZES
            for grid in GRIDS
            for choice in CHOICES
            if (grid, choice) != ("kind", "none")
        ],
    }
    write_record("selection", record)
    fill("algorithms/papers.md", "selection", table_of(record))
    Console().print(table_of(record), markup=False)


def grid_of(name: str, table: str) -> dict[str, list[Any]]:
    """Return the candidates: what papers tune, or what does not depend on n and epsilon."""
    if name == "ridge":
        return {"alpha": [1e-4, 1e-3, 1e-2, 1e-1, 1.0]}
    return {"loss": ["logistic", "capped"], "feature_scale": [None, importances(table).tolist()]}


def _measured(table: str, grid: str, choice: str) -> dict[str, Any]:
    start = time.process_time()
    found: dict[str, list[float]] = {"auc": [], "spent": [], "chosen": []}
    for repeat in range(REPEATS):
        data = draw(table, SIZES[table], repeat)
        model, chosen, spent = _fitted(grid_of(grid, table), choice, data, repeat)
        scores = model.decision_function(data.X_test)
        found["auc"].append(round(float(roc_auc_score(data.y_test, scores)), 5))
        found["spent"].append(spent)
        found["chosen"].append(chosen)
    seconds = round((time.process_time() - start) / REPEATS, 2)
    return {"table": table, "grid": grid, "choice": choice, **found, "cpu_seconds": seconds}


def _fitted(
    grid: dict[str, list[Any]], choice: str, data: Drawn, seed: int
) -> tuple[Any, int, float]:
    """Return the model, the position of what was chosen, and what the ledger says was spent."""
    ledger = Ledger()
    ledger.open_account("study", epsilon=EPSILON)
    paying = {"ledger": ledger, "account": "study", "random_state": seed}
    model = PrivateLogisticRegression(epsilon=EPSILON, data_norm=data.norm, classes=[0, 1])
    position = -1
    if choice in ("parts", "random-stopping"):
        model = PrivateSelection(
            model, grid, epsilon=EPSILON, strategy=choice, classes=[0, 1], **paying
        )
    elif choice == "cross-validation":
        # On a ledger that nobody caps: this is what is not paid for.
        model.set_params(ledger=Ledger(), random_state=seed)
        search = GridSearchCV(model, grid, scoring="roc_auc", cv=5, refit=False)
        search.fit(data.X, data.y)
        position = int(search.best_index_)
        model.set_params(**search.best_params_)
    model.set_params(**paying).fit(data.X, data.y)
    position = getattr(model, "best_index_", position)
    return model, position, float(ledger.spent("study"))


def table_of(record: dict[str, Any]) -> str:
    """Return the documentation's table."""
    tables = list(record["sizes"])
    found = {(one["table"], one["grid"], one["choice"]): one for one in record["results"]}
    rows = []
    for grid, what in GRIDS.items():
        for choice, how in CHOICES.items():
            mine = [
                found[table, grid, choice] for table in tables if (table, grid, choice) in found
            ]
            if mine:
                charged = max(max(one["spent"]) for one in mine)
                rows.append(
                    ["" if choice == "none" else what, how, f"{charged:g}", *map(_cell, mine)]
                )
    sizes = [f"{table} ({n})" for table, n in record["sizes"].items()]
    return markdown(["candidates", "choice", "charged", *sizes], rows)


def _cell(one: dict[str, Any]) -> str:
    return f"{statistics.mean(one['auc']):.4f} ± {np.std(one['auc'], ddof=1):.4f}"
