"""Facts that are paid for, beside declared ones and beside bounds alone, at one total epsilon.

``python -m benchmarks facts`` fills docs/facts.md. Pure epsilon. A tenth of it goes to facts, the
rest to the fit; shares and the rule for what is believed were chosen on Bank Marketing, before the
others were looked at. Declared facts are the true ones, of the whole table.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console
from sklearn.metrics import roc_auc_score

from benchmarks.measured import fill, markdown, read_record, write_record
from confrere import PrivateLogisticRegression
from confrere.data.fact_counts import FactCounts
from confrere.data.features import Feature
from confrere.schema import Category, Flag, Number, Ordered, PublicSchema
from confrere_research import loaders

DRAWS = 10
SHARE = 0.1
EPSILONS = (0.3, 1.0, 3.0)
SIZES = (2_000, 20_000)
TESTED = 10_000
TABLES = {
    "Bank Marketing": "load_bank_marketing",
    "credit default": "load_credit_default",
    "BRFSS 2015": "load_brfss2015",
    "BRFSS 2022": "load_brfss2022",
}
#: What a schema is made from, and whether noise is made for a ball or for the schema's body.
ARMS = ("bounds alone", "learned", "declared")
NOISES = ("ball", "auto")


def main() -> None:
    write_record("facts", {name: measured(name) for name in TABLES})
    record = read_record("facts")
    for noise in NOISES:
        fill("facts.md", f"facts with {noise}", table_of(record, noise))
        Console().print(table_of(record, noise), markup=False)


def bounds_alone(schema: PublicSchema) -> PublicSchema:
    """Return the schema of somebody who has no public table: bounds and values, nothing else."""
    return PublicSchema(tuple(_bare(feature) for feature in schema.features))


def _bare(feature: Feature) -> Feature:
    known: dict[str, Any] = {"importance": None, "sign": 0, "missing_share": None}
    if isinstance(feature, Number | Ordered):
        known |= {"mean": None, "sd": None}
    if isinstance(feature, Ordered | Category):
        known["shares"] = None
    if isinstance(feature, Flag):
        known["share"] = None
    return replace(feature, **known)


def measured(name: str, share: float = SHARE, sizes: tuple[int, ...] = SIZES) -> dict[str, Any]:
    """Return the AUC of every draw, for all sizes, prices, kinds of noise and schemas."""
    data = getattr(loaders, TABLES[name])()
    X, y = data.train.X, np.asarray(data.train.y)
    order = np.random.default_rng(0).permutation(len(y))
    schema = bounds_alone(data.schema)
    counts = FactCounts(schema)
    true, _ = counts.learned(counts.sums(X).astype(float), len(y), 1e-9)
    test = order[:TESTED]
    found: dict[str, Any] = {"columns": len(schema.columns), "sums": counts.size}
    for n in sizes:
        train = order[TESTED : TESTED + n]
        for epsilon in EPSILONS:
            for draw in range(DRAWS):
                learned = schema.learn(X.iloc[train], epsilon=share * epsilon, random_state=draw)
                arms = {
                    "bounds alone": (schema, epsilon),
                    "learned": (learned, (1 - share) * epsilon),
                    "declared": (true, epsilon),
                }
                for noise in NOISES:
                    for arm, (facts, price) in arms.items():
                        model = PrivateLogisticRegression(
                            epsilon=price,
                            schema=facts,
                            geometry="l2" if noise == "ball" else "auto",
                            classes=[0, 1],
                            random_state=100 + draw,
                        )
                        place = f"{noise}, {n}, {epsilon:g}, {arm}"
                        found.setdefault(place, []).append(
                            _auc(model, X.iloc[train], y[train], X.iloc[test], y[test])
                        )
    return found


def _auc(model: Any, X: pd.DataFrame, y: Any, tested: pd.DataFrame, truth: Any) -> float:
    scores = model.fit(X, y).decision_function(tested)
    return round(float(roc_auc_score(truth, scores)), 5)


def table_of(record: dict[str, Any], noise: str) -> str:
    head = ["table", "rows", "epsilon", *ARMS, "learned against bounds"]
    rows = []
    for name, cells in record.items():
        places = [key.split(", ")[1:3] for key in cells if key.startswith(f"{noise}, ")]
        for n, epsilon in dict.fromkeys(map(tuple, places)):
            arms = [np.array(cells[f"{noise}, {n}, {epsilon}, {arm}"]) for arm in ARMS]
            gain = arms[1] - arms[0]
            error = gain.std(ddof=1) / math.sqrt(len(gain))
            shown = [f"{arm.mean():.3f}" for arm in arms]
            rows.append([name, f"{int(n):,}", epsilon, *shown, f"{gain.mean():+.3f} ± {error:.3f}"])
    return markdown(head, rows)


if __name__ == "__main__":
    main()
