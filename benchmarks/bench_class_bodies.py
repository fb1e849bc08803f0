"""Several classes: noise of a ball, and noise shaped like the rows.

``python -m benchmarks class_bodies``, through the classifier itself: the area for one class against
the others, its mean over the classes, of three splits. How the rate is dealt out, and that numbers
stay lines, was chosen with a look at some outcomes; others confirm it. Goes on where it stopped.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from rich.console import Console
from sklearn import datasets
from sklearn.metrics import roc_auc_score

from benchmarks.bench_forms import declared, known_of, loaded
from benchmarks.measured import RECORDS, fill, markdown, read_record, write_record
from confrere import PrivateLogisticRegression, PublicSchema
from confrere_research.loaders import load_har

EPSILONS, SPLITS, TESTED = (0.5, 1.0, 3.0), 3, 6_000
#: Of a table another column is the outcome, if it is named.
CHOSEN = (
    "Bank Marketing, marital",
    "Bank Marketing, education",
    "Bank Marketing, job",
    "BRFSS 2022, GeneralHealth",
    "BRFSS 2022, SmokerStatus",
    "credit default, MARRIAGE",
    "credit default, EDUCATION",
    "HAR",
    "digits",
)
CONFIRMED = ("Bank Marketing, poutcome", "BRFSS 2022, LastCheckupTime", "BRFSS 2015, Education")
RECORDED = 8_000


def table(name: str) -> tuple[pd.DataFrame, NDArray[np.intp], PublicSchema]:
    """Return rows, classes that one in a hundred records has at least, and what is declared."""
    where, _, column = name.partition(", ")
    if column:
        rows, _, schema = loaded(where)
        assert schema is not None
        kinds = rows[column].astype(str)
        features = [f for f in known_of(schema, rows, "bounds") if f.column != column]
    elif name == "HAR":
        signals = load_har()
        some = np.random.default_rng(3).choice(signals.train.X.shape[1], 60, replace=False)
        rows = pd.DataFrame(np.asarray(signals.train.X)[:, np.sort(some)]).rename(columns=str)
        kinds, features = pd.Series(signals.train.y), declared(rows, "bounds")
    else:
        digits = datasets.load_digits(as_frame=True)
        rows, kinds, features = digits.data, digits.target, declared(digits.data, "bounds")
    common = kinds.map(kinds.value_counts(normalize=True)) >= 0.01
    codes = pd.factorize(kinds[common.to_numpy()], sort=True)[0]
    used = rows.loc[common.to_numpy(), [f.column for f in features]].reset_index(drop=True)
    return used, np.asarray(codes, dtype=np.intp), PublicSchema(features)


def area(noise: Any, epsilon: float, found: Any, split: int) -> float:
    """Return the mean area of one class against the others on rows that were not learned from."""
    rows, y, schema = found
    order = np.random.default_rng(split).permutation(len(y))
    n = min(RECORDED, 3 * len(y) // 4)
    train, test = order[:n], order[n : n + TESTED]
    classes = list(range(int(y.max()) + 1))
    model = PrivateLogisticRegression(
        epsilon=epsilon,
        schema=schema,
        geometry="l2" if noise == "ball" else noise,
        classes=classes,
        random_state=split,
    ).fit(rows.iloc[train], y[train])
    scores = model.decision_function(rows.iloc[test])
    return float(np.mean([roc_auc_score(y[test] == k, scores[:, k]) for k in classes]))


def main() -> None:
    record = read_record("class_bodies") if (RECORDS / "class_bodies.json").exists() else {}
    for name in CHOSEN + CONFIRMED:
        if name in record:
            continue
        found = table(name)
        record[name] = {
            noise: [
                [round(area(noise, epsilon, found, split), 4) for split in range(SPLITS)]
                for epsilon in EPSILONS
            ]
            for noise in ("ball", "auto")
        } | {"classes": int(found[1].max()) + 1}
        write_record("class_bodies", record)
    fill("classes.md", "class_bodies", table_of(record))
    Console().print(table_of(record), markup=False)


def table_of(record: dict[str, Any]) -> str:
    """Return one row per outcome, ball and body side by side."""
    lines = [
        [
            name + ("" if name in CHOSEN else " (confirmed)"),
            str(record[name]["classes"]),
            *(
                " / ".join(f"{np.mean(record[name][noise][e]):.3f}" for noise in ("ball", "auto"))
                for e in range(len(EPSILONS))
            ),
        ]
        for name in CHOSEN + CONFIRMED
    ]
    return markdown(["outcome", "K", *(f"ε = {e:g}" for e in EPSILONS)], lines)
