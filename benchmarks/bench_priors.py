"""A right and a wrong prior beside none, and transfer on real branches: what the check is worth.

``python -m benchmarks.bench_priors signs``, ``... tables`` and ``... branches``. Pure epsilon;
every setting was fixed before. ``signs`` is what declared signs are worth by default, right and
wrong, on the tables of :mod:`benchmarks.prior_tables`. For ``tables`` a right prior is what experts
could know: signs, and importances from 0.5 to 10, read off a half of the table that is taken to be
public and that nothing else uses.
"""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from rich.console import Console
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from benchmarks import prior_tables
from benchmarks.measured import RECORDS, fill, markdown, read_record, write_record
from confrere import (
    CollaborativeClassifier,
    FeatureStackingClassifier,
    PrivateLogisticRegression,
    TransferClassifier,
    TransferStackingClassifier,
)
from confrere.arrays import Floats
from confrere.estimators import designed
from confrere.methods.plan import Names
from confrere.simulation import SeededSource
from confrere_research import loaders
from confrere_research.packaged_schemas import load_schema
from confrere_research.problems import make_problem

DRAWS = 20
EPSILONS = (0.1, 1.0, 3.0)
TABLES = {
    "Bank Marketing": ("load_bank_marketing", 4800),
    "credit default": ("load_credit_default", 4800),
    "BRFSS 2015": ("load_brfss2015", 4800),
    "BRFSS 2022": ("load_brfss2022", 1200),
}
PRIORS = ("none", "right", "negated", "permuted", "random signs")
BRANCHES = (
    ("pooled, no privacy", 1.0),
    ("experts, no data", 1.0),
    ("alone near the experts", 1.0),
    ("near the source", 1.0),
    ("PST-H(W)", 1.0),
    ("average near the experts", 1.0),
    ("average near the experts", 0.1),
    ("the same average without noise", 1.0),
    ("average without noise or ridge", 1.0),
    ("one message near the experts", 1.0),
    ("one message near the experts", 0.1),
    ("one curator of all rows", 1.0),
    ("one curator of all rows", 0.1),
    ("source, released without privacy", 1.0),
    ("near a source without privacy", 1.0),
)

#: What is declared: nothing is believed, signs in the ball, signs as they are and as they are not.
SAID = {
    "nothing": "not used (`prior=None`)",
    "ball": 'right, `geometry="l2"`',
    "right": "right",
    "all wrong": "all reversed",
    "half wrong": "each reversed with probability 1/2",
    "a fifth wrong": "each reversed with probability 1/5",
}
SIGNS_EPSILONS = (0.1, 0.5, 1.0, 3.0)
SPLITS = 5

#: So much epsilon that there is no noise to speak of.
_CLEAR = 1e6


def main(part: str) -> None:
    if part == "tables":
        _keep("tables", Parallel(n_jobs=2)(delayed(_table)(name) for name in TABLES))
    if part == "signs":
        names = [*prior_tables.CHOOSING, *prior_tables.CONFIRMING]
        made = Parallel(n_jobs=2)(delayed(_signs)(name) for name in names)
        _keep("signs", dict(zip(names, made, strict=True)))
    if part == "branches":
        found = Parallel(n_jobs=2)(delayed(_branches)(seed) for seed in range(DRAWS))
        _keep("branches", {f"{m}, {e:g}": [one[m, e] for one in found] for m, e in BRANCHES})
    record = read_record("priors")
    parts = {"signs": signs_of, "tables": tables_of, "branches": branches_of}
    titles = {"signs": "signs", "tables": "priors", "branches": "branches near a prior"}
    for key, made in parts.items():
        if key not in record:
            continue
        name = titles[key]
        fill("priors.md", name, made(record))
        Console().print(made(record), markup=False)


def _keep(name: str, found: Any) -> None:
    there = (RECORDS / "priors.json").exists()
    write_record("priors", {**(read_record("priors") if there else {}), name: found})


def _signs(name: str) -> dict[str, list[float]]:
    """Return the area under the curve of every split, by what is declared and epsilon."""
    load, n = prior_tables.TABLES[name]
    rows, y, schema = load()
    y = schema.label(rows) > 0 if y is None else np.asarray(y) > 0
    outcome, found = schema.outcome, {}
    own = {True: outcome.positive[0], False: outcome.negative[0]}
    for split in range(SPLITS):
        order = np.random.default_rng(1000 + split).permutation(len(y))
        train, test = order[:n], order[n : n + 8000]
        labels = np.array([own[bool(one)] for one in y[train]], dtype=object)
        for said in SAID:
            generator = np.random.default_rng(77 + split)
            told = replace(schema, features=[_turned(f, said, generator) for f in schema.features])
            how: dict[str, Any] = {"random_state": 10 * split + 1, "schema": told}
            how |= {"nothing": {"prior": None}, "ball": {"geometry": "l2"}}.get(said, {})
            for epsilon in SIGNS_EPSILONS:
                model = PrivateLogisticRegression(epsilon=epsilon, **how)
                model.fit(rows.iloc[train], labels.astype(type(own[True])))
                area = roc_auc_score(y[test], model.decision_function(rows.iloc[test]))
                area = area if model.classes_[1] == own[True] else 1 - area
                found.setdefault(f"{said}, {epsilon:g}", []).append(float(area))
    return found


def _turned(feature: Any, said: str, generator: Any) -> Any:
    """Return a column whose signs are wrong with the probability that is asked for."""
    wrong = {"all wrong": 1.0, "half wrong": 0.5, "a fifth wrong": 0.2}.get(said, 0.0)
    given = np.atleast_1d(feature.sign)
    signs = np.where(generator.uniform(size=len(given)) < wrong, -given, given).tolist()
    return replace(feature, sign=tuple(signs) if isinstance(feature.sign, tuple) else signs[0])


def signs_of(record: dict[str, Any]) -> str:
    """Return the mean of six tables for choosing and of six others, and the worst table."""
    rows = []
    for title, names in (
        ("six tables for choosing", prior_tables.CHOOSING),
        ("six others", prior_tables.CONFIRMING),
    ):
        for said in SAID:
            cells = []
            for epsilon in SIGNS_EPSILONS:
                each = [np.mean(record["signs"][one][f"{said}, {epsilon:g}"]) for one in names]
                none = [np.mean(record["signs"][one][f"nothing, {epsilon:g}"]) for one in names]
                worst = f" ({np.min(np.subtract(each, none)):+.3f})" if said != "nothing" else ""
                cells.append(f"{np.mean(each):.3f}{worst}")
            rows.append([title, SAID[said], *cells])
            title = ""
    heads = [f"epsilon {epsilon:g}" for epsilon in SIGNS_EPSILONS]
    return markdown(["tables", "signs", *heads], rows)


def _table(name: str) -> dict[str, Any]:
    """Return every prior's AUCs at every epsilon, on rows that made no prior."""
    loader, n = TABLES[name]
    data = getattr(loaders, loader)()
    order = np.random.default_rng(0).permutation(len(data.train.y))
    public, train, test = np.split(order[: n + 24_000], [12_000, n + 12_000])
    X, y = data.schema.encoder().transform(data.train.X.iloc[order]), data.train.y[order]
    place = np.argsort(order)
    rows = {k: X[place[v]] for k, v in (("public", public), ("train", train), ("test", test))}
    labels = {k: y[place[v]] for k, v in (("public", public), ("train", train), ("test", test))}
    clear = LogisticRegression(C=1.0, max_iter=500).fit(rows["public"], labels["public"])
    seen = clear.coef_[0]
    importance = np.maximum(0.5, np.round(10 * np.abs(seen) / np.abs(seen).max()))
    right = np.sign(seen) * importance
    generator = np.random.default_rng(1)
    said = {
        "right": right,
        "negated": -right,
        "permuted": generator.permutation(right),
        "random signs": importance * generator.choice([-1.0, 1.0], len(right)),
    }
    rate = float(labels["public"].mean())
    cells = {}
    for prior in PRIORS:
        for epsilon in EPSILONS:
            cells[f"{prior}, {epsilon:g}"] = _drawn(
                None if prior == "none" else said[prior], rate, epsilon, rows, labels
            )
    experts = {k: float(roc_auc_score(labels["test"], rows["test"] @ v)) for k, v in said.items()}
    return {"table": name, "n": n, "d": len(right), "rate": rate, "zero data": experts, **cells}


def _drawn(
    said: Floats | None, rate: float, epsilon: float, rows: dict[str, Any], labels: dict[str, Any]
) -> dict[str, Any]:
    """Return the AUC of every draw, and what the check found."""
    odds = math.log(rate / (1 - rate))
    settings: dict[str, Any] = {"epsilon": epsilon, "prior_intercept": odds, "random_state": 0}
    if said is not None:
        size = np.abs(said)
        settings["prior"] = math.sqrt(len(said)) * said / np.linalg.norm(said)
        scale = size * math.sqrt(len(size) / float(size @ size))
        settings["prior"] /= np.where(scale > 0, scale, 1.0)
        rows = {part: each * scale for part, each in rows.items()}
    model = designed(PrivateLogisticRegression(), **settings)
    plan, table = model.prepare(rows["train"], labels["train"])
    runs = plan.run_many(table, SeededSource(7), DRAWS)
    names = Names((0, 1), tuple(table.features))
    aucs, factors, sigma = [], [], None
    for run in runs:
        released = {"weights": run[1:], "prior": run[:1]} if said is not None else {"weights": run}
        model = plan.assemble(released, names)
        aucs.append(float(roc_auc_score(labels["test"], model.decision_function(rows["test"]))))
        if said is not None:
            factors.append(model.facts.prior.factor)
            sigma = model.facts.prior.sigma
    return {"auc": aucs, "factor": float(np.mean(factors)) if factors else None, "sigma": sigma}


def _branches(seed: int) -> dict[tuple[str, float], float]:
    """Return the mean AUC over the sixteen branches of every method, for one draw.

    Rows are encoded as ``schema=`` and ``prior="experts"`` do it: weighted by importance before
    they are clipped, when they are learned from and when they are scored; for stacks not weighted.
    """
    problem, flat = (
        make_problem("states as hospitals", {"encoding": how}, seed)
        for how in ("weighted", "public")
    )
    schema = load_schema("brfss2022")
    odds = {"prior_intercept": problem.base_log_odds}
    experts = {"prior": schema.encoder(weighted=True).expert_prior(), **odds}
    targets = problem.targets

    def mean(models: list[Any], where: Any = problem) -> float:
        pairs = zip(where.targets, models, strict=True)
        scores = [roc_auc_score(t.test.y, m.decision_function(t.test.X)) for t, m in pairs]
        return float(np.mean(scores))

    def each(make: Any, where: Any = problem) -> list[Any]:
        return [
            make(random_state=1000 * seed + place).fit(target.train.X, target.train.y)
            for place, target in enumerate(where.targets)
        ]

    y = problem.source.y
    source = designed(PrivateLogisticRegression(random_state=10**6 + seed), **experts)
    stack = FeatureStackingClassifier(
        importance=problem.importance, random_state=10**6 + seed, prior=schema.expert_prior()
    )
    designed(stack, **odds)
    near = source.fit(problem.source.X, y).to_release()
    pst = stack.fit(flat.source.X, y).to_release()
    centres = [problem.source, *(target.train for target in targets)]
    pooled = np.vstack([c.X for c in centres]), np.concatenate([c.y for c in centres])
    party = np.repeat(np.arange(len(centres)), [len(c) for c in centres])
    clear = LogisticRegression(C=10.0, max_iter=1000).fit(*pooled)
    direction = experts["prior"]
    found = {
        ("pooled, no privacy", 1.0): mean([clear] * len(targets)),
        ("experts, no data", 1.0): float(
            np.mean([roc_auc_score(t.test.y, t.test.X @ direction) for t in targets])
        ),
        ("alone near the experts", 1.0): mean(
            each(lambda **k: designed(PrivateLogisticRegression(**k), **experts))
        ),
        ("near the source", 1.0): mean(each(lambda **k: TransferClassifier(source=near, **k))),
        ("PST-H(W)", 1.0): mean(
            each(lambda **k: TransferStackingClassifier(source=pst, **k), flat), flat
        ),
    }
    for epsilon in (1.0, 0.1):
        model = CollaborativeClassifier(epsilon=epsilon, random_state=seed)
        designed(model, **experts)
        model.fit(*pooled, party=party)
        found["average near the experts", epsilon] = mean([model] * len(targets))
        model = CollaborativeClassifier(method="sums", epsilon=epsilon, random_state=seed)
        designed(model, **experts).fit(*pooled, party=party)
        found["one message near the experts", epsilon] = mean([model] * len(targets))
        # What no number of parties can be expected to beat: all rows in one hand, one noise.
        model = PrivateLogisticRegression(epsilon=epsilon, random_state=seed)
        designed(model, **experts)
        found["one curator of all rows", epsilon] = mean([model.fit(*pooled)] * len(targets))
    # What the main hospital's records could tell at best.
    model = PrivateLogisticRegression(epsilon=_CLEAR, random_state=seed)
    bare = designed(model, **experts).fit(problem.source.X, y)
    found["source, released without privacy", 1.0] = mean([bare] * len(targets))
    told = bare.to_release()
    found["near a source without privacy", 1.0] = mean(
        each(lambda **k: TransferClassifier(source=told, **k))
    )
    # What noise takes, and what the ridge that it calls for does.
    count = len(pooled[1])
    for name, ridge in (
        ("the same average without noise", 2.0),
        ("average without noise or ridge", 0.01),
    ):
        settings = {**experts, "prior_check": False, "alpha": ridge * len(centres) / count}
        model = CollaborativeClassifier(epsilon=_CLEAR, random_state=seed)
        designed(model, **settings)
        found[name, 1.0] = mean([model.fit(*pooled, party=party)] * len(targets))
    return found


def _shown(values: list[float]) -> str:
    error = np.std(values, ddof=1) / math.sqrt(len(values))
    return f"{np.mean(values):.3f} ± {error:.3f}"


def tables_of(record: dict[str, Any]) -> str:
    """Return one row per table and prior."""
    rows = []
    for one in record["tables"]:
        where = f"{one['table']}, {one['n']} rows, d = {one['d']}"
        for prior in PRIORS:
            cells = [one[f"{prior}, {epsilon:g}"] for epsilon in EPSILONS]
            checked = [
                "" if c["factor"] is None else f" ({c['factor']:.2f}, {c['sigma']:.2f})"
                for c in cells
            ]
            zero = one["zero data"].get(prior)
            rows.append(
                [
                    where,
                    prior,
                    "—" if zero is None else f"{zero:.3f}",
                    *(_shown(c["auc"]) + told for c, told in zip(cells, checked, strict=True)),
                ]
            )
            where = ""
    return markdown(
        ["table", "prior", "it alone, no data", *(f"epsilon {e:g}" for e in EPSILONS)], rows
    )


def branches_of(record: dict[str, Any]) -> str:
    """Return one row per method."""
    found = record["branches"]
    rows = [[m, f"{e:g}", _shown(found[f"{m}, {e:g}"])] for m, e in BRANCHES]
    return markdown(["method", "epsilon", f"mean AUC of 16 branches, {DRAWS} draws"], rows)


if __name__ == "__main__":
    main(sys.argv[1])
