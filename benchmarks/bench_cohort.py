"""Error bars of Table 1: how often they cover what the records give without noise.

``python -m benchmarks cohort`` fills docs/facts.md. The knots, the bars and what is measurable were
chosen on simulated patients; these tables were looked at once.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import Any

import numpy as np
from rich.console import Console

from benchmarks.measured import fill, markdown, read_record, write_record
from confrere.assurance.cohort import CohortCounts, CohortSummary
from confrere.schema import Label
from confrere_research import loaders

TABLES = {
    "Bank Marketing": "load_bank_marketing",
    "credit default": "load_credit_default",
    "BRFSS 2015": "load_brfss2015",
    "BRFSS 2022": "load_brfss2022",
}
DRAWS = 200
SIZES = (4_000, 20_000)
EPSILONS = (0.5, 1.0)
KINDS = {"n": "sizes", "mean": "means", "sd": "spreads", "missing": "missing"}
BANDS = ("quartile 1", "median", "quartile 3")


def main() -> None:
    write_record("cohort", {name: measured(name) for name in TABLES})
    table = table_of(read_record("cohort"))
    fill("facts.md", "cohort", table)
    Console().print(table, markup=False)


def measured(name: str) -> dict[str, Any]:
    """Return the share of bars that cover, by kind, and of numbers that were measurable."""
    data = getattr(loaders, TABLES[name])()
    schema = replace(data.schema, outcome=Label("outcome", positive=[1], negative=[-1]))
    order = np.random.default_rng(0).permutation(len(data.train.y))
    found: dict[str, Any] = {}
    for n in SIZES:
        rows = order[:n]
        labels = np.where(np.asarray(data.train.y)[rows] == 1, 1, -1)
        table = data.train.X.iloc[rows].assign(outcome=labels)
        counts = CohortCounts(schema)
        exact = counts.sums(table).astype(float)
        truth = {(e.group, e.column, e.statistic): e.value for e in counts.estimates(exact, 1e-9)}
        for epsilon in EPSILONS:
            inside: dict[str, list[bool]] = defaultdict(list)
            asked = told = 0
            for draw in range(DRAWS):
                made = CohortSummary(epsilon, schema, random_state=draw).fit(table)
                for e in made.estimates_:
                    true = truth[e.group, e.column, e.statistic]
                    asked += 1
                    if e.value is None or e.low is None or e.high is None or true is None:
                        continue
                    told += 1
                    kind = "quartiles" if e.statistic in BANDS else KINDS.get(e.statistic, "shares")
                    inside[kind].append(bool(e.low <= true <= e.high))
            covered = {kind: round(float(np.mean(hits)), 4) for kind, hits in inside.items()}
            found[f"{n} {epsilon:g}"] = {"covered": covered, "measurable": round(told / asked, 4)}
    return found


def table_of(record: dict[str, Any]) -> str:
    kinds = ("sizes", "means", "spreads", "shares", "missing", "quartiles")
    rows = []
    for name, cells in record.items():
        for cell, found in cells.items():
            n, epsilon = cell.split()
            shown = (
                f"{found['covered'][kind]:.3f}" if kind in found["covered"] else ""
                for kind in kinds
            )
            rows.append([name, f"{int(n):,}", epsilon, *shown, f"{found['measurable']:.0%}"])
    return markdown(["table", "records", "epsilon", *kinds, "measurable"], rows)
