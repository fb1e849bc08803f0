"""What curves leave to boosted trees, without any privacy: the most that trees could add.

``python -m benchmarks trees`` fills docs/algorithms/papers.md. Additive curves are logistic
regression on the columns that a private fit with curves learns from; trees are scikit-learn's.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from benchmarks.bench_cohort import TABLES
from benchmarks.measured import fill, markdown, read_record, write_record
from confrere.data.features import Feature
from confrere.schema import Category, Flag, Number, Ordered, PublicSchema
from confrere_research import loaders

TESTED = 10_000
REPEATS = 5
#: Those with many numbers, where trees and curves could differ most.
MEASURED = ("Bank Marketing", "credit default")


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


def main() -> None:
    write_record("trees", {name: measured(name) for name in MEASURED})
    fill("algorithms/papers.md", "trees", table_of(read_record("trees")))
    Console().print(table_of(read_record("trees")), markup=False)


def measured(name: str) -> dict[str, Any]:
    """Return the AUC of straight lines, of curves and of trees, on rows that none has seen."""
    data = getattr(loaders, TABLES[name])()
    X, y = data.train.X, np.asarray(data.train.y)
    schema = bounds_alone(data.schema)
    whole = {
        "lines": schema.encoder(form="linear").transform(X),
        "curves": schema.encoder(form="curves").transform(X),
        "trees": _for_trees(X, schema.columns),
    }
    found: dict[str, Any] = {"rows": len(y) - TESTED, **{kind: [] for kind in whole}}
    for repeat in range(REPEATS):
        order = np.random.default_rng(repeat).permutation(len(y))
        test, train = order[:TESTED], order[TESTED:]
        for kind, rows in whole.items():
            model: Any = LogisticRegression(C=100.0, max_iter=200)
            if kind == "trees":
                model = HistGradientBoostingClassifier(
                    categorical_features="from_dtype", early_stopping=True, random_state=repeat
                )
            table = rows if isinstance(rows, pd.DataFrame) else pd.DataFrame(rows)
            scores = model.fit(table.iloc[train], y[train]).predict_proba(table.iloc[test])[:, 1]
            found[kind].append(round(float(roc_auc_score(y[test], scores)), 5))
    return found


def _for_trees(X: pd.DataFrame, columns: tuple[str, ...]) -> pd.DataFrame:
    table = X[list(columns)].copy()
    for name in table:
        if not pd.api.types.is_numeric_dtype(table[name].dtype):
            table[name] = table[name].astype("category")
    return table


def table_of(record: dict[str, Any]) -> str:
    rows = []
    for name, cells in record.items():
        means = [float(np.mean(cells[kind])) for kind in ("lines", "curves", "trees")]
        left = f"{means[2] - means[1]:+.3f}"
        rows.append([name, f"{cells['rows']:,}", *(f"{mean:.3f}" for mean in means), left])
    head = ["table", "rows", "straight lines", "curves", "boosted trees", "trees beyond curves"]
    return markdown(head, rows)


if __name__ == "__main__":
    main()
