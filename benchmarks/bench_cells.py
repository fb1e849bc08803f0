"""Cells against votes of many parties: the papers' items, and data for the rule.

Settings of cells, and the rule for when to use them, were chosen on the data of :data:`OTHERS`:
data that no reproduced item uses, and training rows alone of two that are used, cut in other ways.
Draws are paired: all methods see the same parties, public rows and test rows. Needs the data sets
(``CONFRERE_DATA``).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from rich.console import Console
from sklearn.decomposition import PCA
from sklearn.metrics import roc_auc_score

from benchmarks.measured import fill, markdown, write_record
from confrere import MultipartyClassifier
from confrere.planning import choose_votes
from confrere_research import load_specs
from confrere_research.loaders import (
    load_brfss2015,
    load_har,
    load_kdd99,
    load_mnist,
    load_phishing,
)
from confrere_research.problems import make_problem
from confrere_research.problems.shapes import ManyParties, Rows

Found = dict[str, dict[str, list[float]]]

METHODS = ("statistic", "cells")

#: Items and epsilons; their best methods are run, with the settings that the item gives them.
ITEMS = {"M1": (0.1, 0.3, 1.0, 3.0), "M2": (0.1, 1.0), "M3": (0.1, 1.0)}
ITEM_DRAWS = 10

EPSILONS = (0.3, 1.0, 3.0)
DRAWS = 3

#: Name, number of parties, of rows each, of public rows, and of public components if any.
OTHERS = (
    ("digits 1 to 7", 1000, 6, 1000, 50),
    ("digits 4 and 5", 800, 6, 1000, 50),
    ("activities of other people", 800, 5, 900, 50),
    ("families of attacks", 1000, 7, 1500, None),
    ("attacks of new kinds", 2000, 11, 2000, None),
    ("general health", 1000, 6, 1000, None),
    ("diabetes", 1000, 9, 2000, None),
    ("phishing", 800, 6, 2000, None),
    ("a cloud, two classes", 2000, 6, 2000, None),
    ("a cloud, a class of 8%", 2000, 6, 2000, None),
    ("a cloud, four classes", 1000, 6, 1000, None),
    ("twelve clusters, four classes", 1000, 6, 1000, None),
)


def main() -> None:
    record: dict[str, Any] = {"items": [], "others": []}
    for item, epsilons in ITEMS.items():
        record["items"].append(_item(item, epsilons))
        Console().print(_told(record["items"][-1]["found"]))
    for name, n_parties, each, n_public, components in OTHERS:
        found: Found = {method: {f"{e:g}": [] for e in EPSILONS} for method in METHODS}
        start = time.process_time()
        for draw in range(DRAWS):
            problem = drawn(name, n_parties, each, n_public, components, draw)
            n_classes = int(problem.test.y.max()) + 1
            # New kinds move the border that is needed, which ranks do not show.
            metric = "AUC" if n_classes == 2 and "new" not in name else "accuracy"
            for method, by_epsilon in found.items():
                for epsilon in EPSILONS:
                    options = {"method": method, "classes": range(n_classes)}
                    score = _score(problem, epsilon, draw, metric, **options)
                    by_epsilon[f"{epsilon:g}"].append(score)
        assert problem.auxiliary is not None
        chosen = {
            f"{epsilon:g}": choose_votes(
                problem.auxiliary, n_parties=n_parties, n_classes=n_classes, epsilon=epsilon
            )
            for epsilon in EPSILONS
        }
        record["others"].append(
            {
                "data": name,
                "parties": n_parties,
                "classes": n_classes,
                "metric": metric,
                "clustered": {e: round(one.clustered, 3) for e, one in chosen.items()},
                "chosen": {e: one.method for e, one in chosen.items()},
                "found": found,
                "cpu": _since(start),
            }
        )
        Console().print(name, _told(found))
    write_record("cells", record)
    fill("algorithms/multiparty.md", "cells", table_of(record))
    fill("algorithms/multiparty.md", "the rule for cells", rule_of(record))


def _item(item: str, epsilons: tuple[float, ...]) -> dict[str, Any]:
    """Run the best methods of an item."""
    spec = load_specs()[item]
    best = [method for method in spec.methods if method.variant == "best"]
    found: Found = {method.name: {f"{e:g}": [] for e in epsilons} for method in best}
    start = time.process_time()
    for draw in range(ITEM_DRAWS):
        for data in {repr(dict(m.data)): m.data for m in best}.values():
            problem: Any = make_problem(spec.problem, {**spec.data, **data}, draw)
            for method in (m for m in best if m.data == data):
                for epsilon in epsilons:
                    score = _score(problem, epsilon, draw, "accuracy", **method.options)
                    found[method.name][f"{epsilon:g}"].append(score)
    return {"item": item, "title": spec.title, "found": found, "cpu": _since(start)}


def _score(problem: ManyParties, epsilon: float, draw: int, metric: str, **options: Any) -> float:
    model = MultipartyClassifier(epsilon=epsilon, random_state=draw, **options)
    model.fit(problem.train.X, problem.train.y, party=problem.party, auxiliary=problem.auxiliary)
    if metric == "AUC":
        score = roc_auc_score(problem.test.y, model.decision_function(problem.test.X))
    else:
        score = model.score(problem.test.X, problem.test.y)
    return round(float(score), 5)


def _told(found: Found) -> dict[str, Any]:
    return {m: {e: f"{np.mean(s):.3f}" for e, s in by.items()} for m, by in found.items()}


def drawn(
    name: str, n_parties: int, each: int, n_public: int, components: int | None, draw: int
) -> ManyParties:
    """Return parties, public rows and test rows of one of the other data sets."""
    train, test = table(name)
    order = np.random.default_rng(draw).permutation(len(train))
    private, public = np.split(order, [n_parties * each])
    rows = [train.X[private], train.X[public[:n_public]], test.X]
    if components is not None:
        pca = PCA(components, svd_solver="covariance_eigh").fit(rows[1])
        rows = [pca.transform(X) for X in rows]
    norm = float(np.linalg.norm(rows[1], axis=1).max())
    clipped = [X / np.maximum(norm, np.linalg.norm(X, axis=1, keepdims=True)) for X in rows]
    return ManyParties(
        Rows(clipped[0], train.y[private]),
        Rows(clipped[2], test.y),
        np.repeat(np.arange(n_parties), each),
        auxiliary=clipped[1],
    )


@cache
def table(name: str) -> tuple[Rows, Rows]:
    """Return rows to learn from and to test; never test rows of a reproduced item."""
    return TABLES[name](name)


def _digits(name: str) -> tuple[Rows, Rows]:
    data: Any = load_mnist()
    wanted = (4, 5) if "and" in name else range(1, 8)
    parts = []
    for part in (data.train, data.test):
        mine = np.isin(part.y, list(wanted))
        parts.append(Rows(part.X[mine] / 255.0, np.searchsorted(list(wanted), part.y[mine])))
    return parts[0], parts[1]


def _halves(X: Any, y: Any, n_test: int) -> tuple[Rows, Rows]:
    order = np.random.default_rng(0).permutation(len(y))
    test, train = order[:n_test], order[n_test:]
    return Rows(X[train], y[train]), Rows(X[test], y[test])


def _diabetes(name: str) -> tuple[Rows, Rows]:
    data: Any = load_brfss2015()
    some = np.random.default_rng(1).permutation(len(data.train.y))[:60_000]
    frame, schema = data.train.X.iloc[some], data.schema
    y = np.asarray(data.train.y)[some]
    if name == "general health":
        y = frame["GenHlth"].to_numpy().astype(int) - 1
        kept = [one for one in schema.features if one.column != "GenHlth"]
        schema = replace(schema, features=kept)
    return _halves(schema.encoder(weighted=False).transform(frame), y, 10_000)


def _phishing(name: str) -> tuple[Rows, Rows]:  # noqa: ARG001
    data: Any = load_phishing()
    return _halves(np.asarray(data.train.X, dtype=float), np.asarray(data.train.y), 2500)


def _activities(name: str) -> tuple[Rows, Rows]:  # noqa: ARG001
    """Return official training rows only: those of six people are tested on."""
    rows: Any = load_har().train
    held = np.random.default_rng(0).permutation(np.unique(rows.groups))[:6]
    tested = np.isin(rows.groups, held)
    X = np.asarray(rows.X, dtype=float)
    return Rows(X[~tested], rows.y[~tested]), Rows(X[tested], rows.y[tested])


#: Kinds of attacks of the training rows, by family; what is left is the last one.
FAMILIES = (
    ("normal",),
    ("smurf", "pod"),
    ("back", "land", "neptune", "teardrop"),
    ("ipsweep", "nmap", "portsweep", "satan"),
)
#: Kinds that only test rows have, in "attacks of new kinds".
NEW_KINDS = ("satan", "warezclient", "back", "ipsweep")


def _attacks(name: str) -> tuple[Rows, Rows]:
    """Return official training rows only."""
    rows: Any = load_kdd99().train
    rng = np.random.default_rng(0)
    if name == "families of attacks":
        family = np.full(len(rows.groups), len(FAMILIES))
        for label, kinds in enumerate(FAMILIES):
            family[np.isin(rows.groups, kinds)] = label
        each = [rng.permutation(np.flatnonzero(family == label))[:4000] for label in range(5)]
        some = np.concatenate(each)
        return _halves(rows.X[some].toarray().astype(float), family[some], 3000)
    order = rng.permutation(len(rows.groups))
    new = np.isin(rows.groups[order], NEW_KINDS)
    known = order[~new][:48_000]
    tested = np.concatenate([known[:8000], order[new][:2000]])
    return tuple(  # type: ignore[return-value]
        Rows(rows.X[some].toarray().astype(float), rows.y[some]) for some in (known[8000:], tested)
    )


def _cloud(name: str) -> tuple[Rows, Rows]:
    rng = np.random.default_rng(5)
    spread = np.linspace(2, 0.5, 30)
    X = rng.normal(size=(40_000, 30)) * spread
    n_classes = 4 if "four" in name else 2
    scores = X / spread @ rng.normal(size=(30, n_classes)) / np.sqrt(15)
    scores[:, 0] += 3.0 if "8%" in name else 0.0
    y = (2 * scores + rng.gumbel(size=scores.shape)).argmax(axis=1)
    return _halves(X, y, 10_000)


def _clusters(name: str) -> tuple[Rows, Rows]:  # noqa: ARG001
    rng = np.random.default_rng(6)
    centres, place = rng.normal(size=(12, 30)), rng.integers(0, 12, size=40_000)
    return _halves(centres[place] + rng.normal(size=(40_000, 30)), place % 4, 10_000)


TABLES: dict[str, Callable[[str], tuple[Rows, Rows]]] = {
    "digits 1 to 7": _digits,
    "digits 4 and 5": _digits,
    "activities of other people": _activities,
    "families of attacks": _attacks,
    "attacks of new kinds": _attacks,
    "general health": _diabetes,
    "diabetes": _diabetes,
    "phishing": _phishing,
    "a cloud, two classes": _cloud,
    "a cloud, a class of 8%": _cloud,
    "a cloud, four classes": _cloud,
    "twelve clusters, four classes": _clusters,
}


def _since(start: float) -> float:
    return round(time.process_time() - start, 1)


def table_of(record: dict[str, Any]) -> str:
    """Return what the items gave: mean and standard deviation over the draws."""
    rows = []
    for one in record["items"]:
        for method, scores in one["found"].items():
            cells = [_spread(scores[e]) if e in scores else "" for e in ("0.1", "0.3", "1", "3")]
            rows.append([f"{one['item']}, {one['title'].partition(':')[0]}", method, *cells])
    return markdown(["accuracy", "method", "ε = 0.1", "0.3", "1", "3"], rows)


def rule_of(record: dict[str, Any]) -> str:
    """Return what the other data gave, with what the rule says."""
    rows = []
    for one in record["others"]:
        for e in one["chosen"]:
            means = {method: np.mean(scores[e]) for method, scores in one["found"].items()}
            rows.append(
                [
                    f"{one['data']} ({one['metric']})",
                    e,
                    f"{one['clustered'][e]:.2f}",
                    *(f"{means[method]:.3f}" for method in METHODS),
                    one["chosen"][e],
                    f"{means[one['chosen'][e]] - max(means.values()):.3f}",
                ]
            )
    head = ["data", "ε", "clustered", *METHODS, "rule", "less than the best"]
    return markdown(head, rows)


def _spread(scores: list[float]) -> str:
    return f"{np.mean(scores):.3f} ± {np.std(scores, ddof=1):.3f}"
