"""Several classes: one model of all against one model per class at its part of epsilon.

``python -m benchmarks classes`` fills docs/classes.md. Pure epsilon, accuracy on the test part.
Rows are principal components of public rows, which are used for nothing else. One against the rest
has one model per class, each at epsilon over the number of classes, near the share that a class has
if all are alike. The ridge's floor, what the high level of stacks learns from, and from how many
rows, were chosen on training rows of both and on other tables.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from sklearn.base import clone

from benchmarks.measured import fill, markdown, read_record, write_record
from confrere import (
    CollaborativeClassifier,
    FeatureStackingClassifier,
    PrivateLogisticRegression,
    SampleStackingClassifier,
)
from confrere.arrays import Floats
from confrere.estimators import designed
from confrere_research import loaders

DRAWS = 10
EPSILONS = (0.5, 1.0, 3.0)
PARTIES = 5
#: Components, public rows, and rows that are learned from.
SIZES = {"MNIST": (50, 5_000, 20_000), "HAR": (30, 1_500, 5_500)}


@dataclass(frozen=True, eq=False)
class Table:
    """Rows in public components."""

    X: Floats
    y: NDArray[np.intp]
    tested: Floats
    truth: NDArray[np.intp]
    data_norm: float

    @cached_property
    def classes(self) -> list[int]:
        """All labels, from 0 on."""
        return list(range(int(self.truth.max()) + 1))


def load(name: str) -> Table:
    """Return a data set in the principal components of its public rows."""
    size, public, learned = SIZES[name]
    data = loaders.load_mnist() if name == "MNIST" else loaders.load_har()
    X, y = np.asarray(data.train.X, dtype=np.float64), np.asarray(data.train.y, dtype=np.intp)
    order = np.random.default_rng(0).permutation(len(y))
    known, used = X[order[:public]], order[public : public + learned]
    centre = known.mean(axis=0)
    axes = np.linalg.svd(known - centre, full_matrices=False)[2][:size].T
    low = int(y.min())
    return Table(
        (X[used] - centre) @ axes,
        y[used] - low,
        (np.asarray(data.test.X, dtype=np.float64) - centre) @ axes,
        np.asarray(data.test.y, dtype=np.intp) - low,
        float(np.median(np.linalg.norm((known - centre) @ axes, axis=1))),
    )


def models(table: Table) -> dict[str, Any]:
    """Return what is compared, by name."""
    return {
        "one regression": PrivateLogisticRegression(data_norm=table.data_norm),
        f"average of {PARTIES}": CollaborativeClassifier(data_norm=table.data_norm),
        "PST-S": SampleStackingClassifier(data_norm=table.data_norm, n_groups=3),
        "PST-S with votes": SampleStackingClassifier(
            data_norm=table.data_norm, n_groups=3, combiner="vote"
        ),
        "PST-F": FeatureStackingClassifier(data_norm=table.data_norm, n_groups=3),
    }


def fitted(model: Any, table: Table, y: NDArray[np.intp]) -> Any:
    """Return the model, fitted; rows of parties are dealt out."""
    if isinstance(model, CollaborativeClassifier):
        return model.fit(table.X, y, party=np.arange(len(y)) % PARTIES)
    return model.fit(table.X, y)


def together(model: Any, table: Table, epsilon: float, seed: int) -> float:
    """Return the accuracy of one model of all classes."""
    made = clone(model).set_params(epsilon=epsilon, classes=table.classes, random_state=seed)
    return float(fitted(made, table, table.y).score(table.tested, table.truth))


def against_the_rest(model: Any, table: Table, epsilon: float, seed: int) -> float:
    """Return the accuracy of the highest of one model per class."""
    count = len(table.classes)
    made = designed(
        clone(model), epsilon=epsilon / count, classes=[0, 1], prior_intercept=-math.log(count - 1)
    )
    scores = [
        fitted(
            clone(made).set_params(random_state=seed * count + label),
            table,
            (table.y == label).astype(np.intp),
        ).decision_function(table.tested)
        for label in table.classes
    ]
    return float((np.argmax(scores, axis=0) == table.truth).mean())


ARMS = {"one against the rest": against_the_rest, "together": together}


def main() -> None:
    write_record("classes", {name: measured(load(name)) for name in SIZES})
    table = table_of(read_record("classes"))
    fill("classes.md", "classes", table)
    Console().print(table, markup=False)


def measured(table: Table) -> dict[str, list[float]]:
    """Return the accuracies of all draws."""
    found: dict[str, list[float]] = {}
    for name, model in models(table).items():
        for arm, ask in ARMS.items():
            for epsilon in EPSILONS:
                found[f"{name}, {arm}, {epsilon:g}"] = [
                    round(ask(model, table, epsilon, seed), 4) for seed in range(DRAWS)
                ]
    return found


def table_of(record: dict[str, dict[str, list[float]]]) -> str:
    """Return the table of means."""
    head = ["table", "model", *(f"ε = {epsilon:g}" for epsilon in EPSILONS)]
    rows = []
    for name, cells in record.items():
        for which in dict.fromkeys(key.rpartition(", ")[0] for key in cells):
            means = [np.mean(cells[f"{which}, {epsilon:g}"]) for epsilon in EPSILONS]
            rows.append([name, which, *(f"{mean:.3f}" for mean in means)])
    return markdown(head, rows)
