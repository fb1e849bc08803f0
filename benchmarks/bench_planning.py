"""What a plan expects against what fits reach, over sizes and prices, in one picture."""

from __future__ import annotations

from typing import Any

import numpy as np
from rich.console import Console
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from benchmarks.measured import DOCS, fill, markdown, write_record
from benchmarks.tables import draw
from confrere import PrivateLogisticRegression
from confrere.planning import plan
from confrere_research.figures import COLOURS, MARKERS, house_style, new_figure

EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)
REPEATS = 10
#: Records, and the declared base rate. The exponent for plain rows was set with these tables.
TABLES = {
    "MNIST, 0 against 8": ((500, 2_000, 9_000), 0.5),
    "BRFSS 2022": ((1_000, 10_000, 100_000), 0.14),
    "Bank Marketing": ((1_000, 6_000, 36_000), 0.12),
    "Credit Default": ((1_000, 5_000, 24_000), 0.22),
}


def main() -> None:
    results = [
        found
        for table, (sizes, base_rate) in TABLES.items()
        for found in _measured(table, sizes, base_rate)
    ]
    record = {"repeats": REPEATS, "results": results}
    write_record("planning", record)
    fill("planning.md", "planning", table_of(record))
    draw_picture(record)
    Console().print(table_of(record), markup=False)


def _measured(table: str, sizes: tuple[int, ...], base_rate: float) -> list[dict[str, Any]]:
    best = round(float(np.mean([_best_area(table, sizes[-1], repeat) for repeat in range(3)])), 4)
    found = []
    for n in sizes:
        reached: dict[float, list[float]] = {epsilon: [] for epsilon in EPSILONS}
        for repeat in range(REPEATS):
            data = draw(table, n, repeat)
            for epsilon in EPSILONS:
                model = PrivateLogisticRegression(
                    epsilon=epsilon, data_norm=data.norm, classes=[0, 1], random_state=repeat
                ).fit(data.X, data.y)
                scores = model.decision_function(data.X_test)
                reached[epsilon].append(round(float(roc_auc_score(data.y_test, scores)), 5))
        d = data.X.shape[1]
        for epsilon in EPSILONS:
            made = plan(n_samples=n, n_features=d, epsilon=epsilon, auc=best, base_rate=base_rate)
            found.append(
                {
                    "table": table,
                    "n": n,
                    "d": d,
                    "epsilon": epsilon,
                    "auc": best,
                    "base_rate": base_rate,
                    "planned": round(made.expected.auc, 5),
                    "reached": reached[epsilon],
                }
            )
    return found


def _best_area(table: str, n: int, repeat: int) -> float:
    """Return what a linear model without privacy reaches: the guess that a plan is given."""
    data = draw(table, n, repeat)
    spread = data.X.std(axis=0) + 1e-12
    areas = []
    for strength in (0.001, 0.01, 0.1):
        model = LogisticRegression(C=strength, max_iter=500).fit(data.X / spread, data.y)
        scores = model.decision_function(data.X_test / spread)
        areas.append(float(roc_auc_score(data.y_test, scores)))
    return max(areas)


def table_of(record: dict[str, Any]) -> str:
    """Return the documentation's table: how far plans are off, by table and price."""
    rows = []
    for table in [*dict.fromkeys(one["table"] for one in record["results"]), "all"]:
        mine = [one for one in record["results"] if table in (one["table"], "all")]
        cells = [_off([o for o in mine if o["epsilon"] == e]) for e in EPSILONS]
        chance = (
            np.mean([np.std(one["reached"], ddof=1) for one in mine]) / record["repeats"] ** 0.5
        )
        rows.append([table, *cells, _off(mine), f"{chance:.3f}"])
    head = ["mean absolute error of the expected AUC", *(f"ε = {e:g}" for e in EPSILONS)]
    return markdown([*head, "all", "of it chance, about"], rows)


def _off(results: list[dict[str, Any]]) -> str:
    return f"{np.mean([abs(one['planned'] - np.mean(one['reached'])) for one in results]):.3f}"


def draw_picture(record: dict[str, Any]) -> None:
    """Draw planned against reached, one marker per table, larger ones for more records."""
    with house_style():
        figure = new_figure(1)
        axes = figure.subplots()
        axes.plot([0.48, 1], [0.48, 1], color="0.6", lw=0.8, zorder=0, label="as planned")
        tables = list(dict.fromkeys(one["table"] for one in record["results"]))
        for table, colour, marker in zip(tables, COLOURS, MARKERS, strict=False):
            mine = [one for one in record["results"] if one["table"] == table]
            reached = np.array([one["reached"] for one in mine])
            axes.errorbar(
                [one["planned"] for one in mine],
                reached.mean(axis=1),
                yerr=reached.std(axis=1, ddof=1) / reached.shape[1] ** 0.5,
                ls="none",
                marker=marker,
                ms=3.5,
                color=colour,
                elinewidth=0.6,
                label=table,
            )
        axes.set(xlim=(0.48, 1.01), ylim=(0.48, 1.01), aspect="equal")
        axes.set(xlabel="AUC that the plan expects", ylabel=f"AUC reached, mean of {REPEATS}")
        axes.legend(loc="upper left")
        figure.savefig(DOCS / "images" / "planning.png")
