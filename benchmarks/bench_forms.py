"""The public rule for noise shaped like the rows against the best choice in hindsight.

``python -m benchmarks forms``, through the classifier itself. A cell is a table with so many
records, an epsilon, and bounds alone or means and deviations as well; its contestants are the ball,
straight lines in a body, and curves. The model behind the rule, its constants among it, was chosen
on some tables; tables and outcomes that nobody had looked at confirm it, once. Cells in which next
to nothing can be learned are counted, and told apart. Goes on where it stopped.

Before them come worlds that are made, six straight and six bent, for a law: what the rule takes is
never worse with more epsilon, and where means are declared never .003 below straight lines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from rich.console import Console
from sklearn import datasets
from sklearn.metrics import roc_auc_score

from benchmarks.measured import RECORDS, fill, markdown, read_record, write_record
from confrere import PrivateLogisticRegression, PublicSchema
from confrere.data.features import Feature
from confrere.demo import ruijin_like
from confrere.methods.allowance import allowance
from confrere.methods.geometry import choose_form
from confrere.methods.plan import Names
from confrere.schema import Category, Flag, Number, Ordered
from confrere.simulation import SeededSource
from confrere_research.loaders import (
    load_bank_marketing,
    load_brfss2015,
    load_brfss2022,
    load_credit_default,
    load_iscx_urls,
    load_kdd99,
    load_phishing,
)
from confrere_research.loaders.iscx_urls import LEXICAL

EPSILONS = (0.1, 0.5, 1.0, 3.0)
FACTS = ("bounds", "means")
DRAWS = 20
FORMS = {"ball": ("l2", False), "lines": ("schema", False), "curves": ("schema", True)}
#: Where ``n epsilon pi (1 - pi)`` is less than this, noise hides nearly everything.
SEEN = 20.0
#: Tables and numbers of records: those that the rule was chosen on, and others.
CHOSEN = {
    "addresses": (500,),
    "digits": (1_300,),
    "Bank Marketing": (500, 8_000),
    "credit default": (500, 8_000),
    "BRFSS 2022": (1_000,),
    "phishing": (500,),
    "simulated hospital": (8_000,),
    "BRFSS 2022, heart attack": (1_000, 8_000),
    "BRFSS 2022, depression": (2_000,),
    "Bank Marketing, later calls": (500,),
    "Bank Marketing, housing loan": (2_000,),
    "credit default, married": (2_000,),
    "BRFSS 2022, stroke": (4_000,),
    "BRFSS 2022, arthritis": (1_000,),
    "Bank Marketing, personal loan": (4_000,),
    "credit default, graduate": (2_000,),
    "connections, intruders": (2_000,),
}
CONFIRMED = {
    "BRFSS 2015, blood pressure": (2_000,),
    "BRFSS 2015, heart disease": (8_000,),
    "BRFSS 2022, lungs": (4_000,),
    "Bank Marketing, single": (2_000,),
    "credit default, women": (4_000,),
    "connections, probes": (4_000,),
    "digits, even": (1_000,),
    "breast cancer": (400,),
}
GROUPS = {"chosen on": CHOSEN, "chosen on none of it": CONFIRMED}
TABLES = CHOSEN | CONFIRMED
LOADERS = {
    "Bank Marketing": load_bank_marketing,
    "Bank Marketing, later calls": partial(load_bank_marketing, version="additional"),
    "credit default": load_credit_default,
    "BRFSS 2022": load_brfss2022,
    "BRFSS 2015": load_brfss2015,
}
#: Other outcomes than a table's own: a column, and what counts.
OUTCOMES = {
    "BRFSS 2022, heart attack": ("HadHeartAttack", "Yes"),
    "BRFSS 2022, depression": ("HadDepressiveDisorder", "Yes"),
    "BRFSS 2022, stroke": ("HadStroke", "Yes"),
    "BRFSS 2022, arthritis": ("HadArthritis", "Yes"),
    "Bank Marketing, housing loan": ("housing", "yes"),
    "Bank Marketing, personal loan": ("loan", "yes"),
    "credit default, married": ("MARRIAGE", 1),
    "credit default, graduate": ("EDUCATION", 1),
    "BRFSS 2015, blood pressure": ("HighBP", 1),
    "BRFSS 2015, heart disease": ("HeartDiseaseorAttack", 1),
    "BRFSS 2022, lungs": ("HadCOPD", "Yes"),
    "Bank Marketing, single": ("marital", "single"),
    "credit default, women": ("SEX", 2),
}
ATTACKS = {
    "connections, intruders": ("warezclient", "guess_passwd", "warezmaster", "imap", "ftp_write"),
    "connections, probes": ("portsweep", "ipsweep", "satan", "nmap"),
}
#: What a number does to the log odds, in its deviations.
SHAPES: dict[str, Callable[[NDArray[Any]], NDArray[Any]]] = {
    "line": lambda z: z,
    "U": lambda z: (z**2 - 1) / np.sqrt(2),
    "step": lambda z: 2.0 * (z > 0.3) - 0.8,
    "saturating": lambda z: 1.6 * np.tanh(1.5 * z),
    "peak": lambda z: 2.4 * np.exp(-2 * (z - 0.5) ** 2) - 1.1,
}
#: Records, numbers, levels of a category besides, what is declared, shapes in turn.
WORLDS: dict[str, tuple[int, int, int, str, tuple[str, ...]]] = {
    "straight 1": (7_000, 8, 0, "means", ("line",)),
    "straight 2": (2_000, 4, 0, "means", ("line",)),
    "straight 3": (20_000, 12, 0, "means", ("line",)),
    "straight 4": (3_000, 15, 6, "means", ("line",)),
    "straight 5": (7_000, 8, 0, "bounds", ("line",)),
    "straight 6": (8_000, 5, 4, "bounds", ("line",)),
    "bent 1": (14_400, 6, 5, "bounds", ("U", "step", "line", "peak")),
    "bent 2": (6_000, 6, 0, "bounds", ("step",)),
    "bent 3": (2_000, 4, 0, "bounds", ("line", "U", "step", "saturating")),
    "bent 4": (8_000, 8, 0, "means", ("line", "U", "step", "saturating")),
    "bent 5": (8_000, 5, 0, "means", ("U",)),
    "bent 6": (8_000, 6, 0, "means", ("saturating",)),
}
STEPS = (0.1, 0.2, 0.3, 0.5, 1.0, 2.0, 3.0)
#: Worlds of a kind, and draws of the noise in each.
TRIES, EACH = 4, 5
Loaded = tuple[pd.DataFrame, NDArray[np.bool_], PublicSchema | None]


def loaded(name: str) -> Loaded:
    """Return a table, its labels, and what is declared about it if somebody has."""
    if name == "addresses":
        data = load_iscx_urls()
        lexical = np.asarray(data.train.X[:, -len(LEXICAL) :].todense(), dtype=np.float64)
        kinds = np.asarray(data.train.y)
        return pd.DataFrame(lexical, columns=list(LEXICAL)), kinds != kinds[0], None
    if name == "simulated hospital":
        world = ruijin_like(11)
        return world.main.X.to_pandas(), np.asarray(world.main.y) == 1, world.schema
    if name in LOADERS:
        found = LOADERS[name]()
        return found.train.X, found.train.y == 1, found.schema
    if name in OUTCOMES:
        column, positive = OUTCOMES[name]
        rows, _, schema = loaded(name.partition(",")[0])
        assert schema is not None
        others = PublicSchema([f for f in schema.features if f.column != column])
        return rows, (rows[column] == positive).to_numpy(), others
    if name in ATTACKS:
        connections = load_kdd99()
        some = np.random.default_rng(0).permutation(connections.train.X.shape[0])[:100_000]
        names = [c for c in connections.feature_names if not c.startswith("service=")]
        wanted = [connections.feature_names.index(c) for c in names]
        dense = connections.train.X[some][:, wanted].toarray().astype(np.float64)
        attack = np.isin(np.asarray(connections.train.groups)[some], ATTACKS[name])
        # Floods of equal connections would be most of the rows.
        flood = np.isin(np.asarray(connections.train.groups)[some], ("smurf", "neptune"))
        return pd.DataFrame(dense[~flood], columns=names), attack[~flood], None
    if name == "phishing":
        pages = load_phishing()
        rules = np.asarray(pages.train.X, dtype=np.float64)
        return pd.DataFrame(rules, columns=list(pages.feature_names)), pages.train.y == 1, None
    if name == "breast cancer":
        cells = datasets.load_breast_cancer(as_frame=True)
        return cells.data, (cells.target == 0).to_numpy(), None
    digits = datasets.load_digits(as_frame=True)
    even = digits.target % 2 == 0 if name == "digits, even" else digits.target >= 5
    return digits.data, even.to_numpy(), None


def known_of(schema: PublicSchema, rows: pd.DataFrame, facts: str) -> list[Feature]:
    """Return what a schema declares, with bounds alone or with means and deviations."""
    found: list[Feature] = []
    for feature in schema.features:
        plain = replace(feature, importance=None, sign=0)
        if isinstance(plain, Number):
            values = np.clip(rows[plain.column].to_numpy(dtype=np.float64), *plain.bounds)
            values = np.log1p(values - plain.bounds[0]) if plain.log else values
            sd = max(float(values.std()), 1e-3 * float(np.ptp(values)))
            means = {"mean": float(values.mean()), "sd": sd}
            plain = replace(plain, **(means if facts == "means" else {"mean": None, "sd": None}))
        elif facts == "bounds":
            plain = _bare(plain)
        found.append(plain)
    return found


def _bare(feature: Feature) -> Feature:
    if isinstance(feature, Flag):
        return replace(feature, share=None)
    if isinstance(feature, Ordered):
        return replace(feature, shares=None, mean=None, sd=None)
    return replace(feature, shares=None) if isinstance(feature, Category) else feature


def declared(rows: pd.DataFrame, facts: str) -> list[Feature]:
    """Return what somebody who knows the field would declare: bounds in two digits, and means."""
    features: list[Feature] = []
    for column in rows:
        values = rows[column].to_numpy(dtype=np.float64)
        if len(np.unique(values)) == 2:
            high = float(values.max())
            share = round(float(np.mean(values == high)), 2)
            features.append(
                Flag(
                    str(column),
                    true=(high,),
                    false=(float(values.min()),),
                    share=min(max(share, 0.01), 0.99) if facts == "means" else None,
                )
            )
            continue
        low, high = _outwards(float(values.min()), -1), _outwards(float(values.max()), 1)
        if low == high:
            continue  # a pixel that is never on
        known = {}
        if facts == "means":
            sd = float(f"{max(values.std(), 1e-3 * (high - low)):.2g}")
            known = {"mean": min(max(float(f"{values.mean():.2g}"), low), high), "sd": sd}
        features.append(Number(str(column), bounds=(low, high), **known))
    return features


def _outwards(value: float, side: int) -> float:
    step = 10.0 ** (np.floor(np.log10(abs(value))) - 1) if value else 1.0
    return float(f"{(np.ceil if side > 0 else np.floor)(value / step) * step:.6g}")


def cells() -> Iterator[tuple[str, int, float, str]]:
    """Yield every cell."""
    for table, sizes in TABLES.items():
        for n in sizes:
            for epsilon in EPSILONS:
                for facts in FACTS:
                    yield table, n, epsilon, facts


def world(name: str, seed: int) -> tuple[Loaded, int]:
    """Return a made table with 20,000 rows more than the records, and how many these are."""
    n, count, levels, facts, shapes = WORLDS[name]
    rng = np.random.default_rng([seed, n, count])
    z = rng.normal(size=(n + 20_000, count))
    slopes = rng.uniform(0.5, 1.5, count) * rng.choice([-1, 1], count)
    turned = [SHAPES[shapes[j % len(shapes)]](z[:, j]) for j in range(count)]
    score = np.column_stack(turned) @ slopes
    rows = pd.DataFrame({f"x{j}": 50 + 10 * z[:, j] for j in range(count)})
    known = {"mean": 50.0, "sd": 10.0} if facts == "means" else {}
    features: list[Feature] = [Number(str(x), bounds=(0.0, 100.0), **known) for x in rows]
    if levels:
        place = rng.integers(0, levels, len(z))
        score = score + rng.normal(size=levels)[place]
        rows["c"] = np.array([f"v{k}" for k in range(levels)])[place]
        features.append(Category("c", values=tuple(f"v{k}" for k in range(levels))))
    score = 1.6 * (score - np.mean(score)) / np.std(score) - 0.7
    labels = rng.uniform(size=len(z)) < 1 / (1 + np.exp(-score))
    return (rows, labels, PublicSchema(features)), n


def in_world(table: Loaded, n: int, epsilon: float, curve: Any, draws: int) -> list[float]:
    """Return the areas of what the rule takes, or of straight lines."""
    rows, labels, schema = table
    assert schema is not None
    own = [replace(f, curve=curve) if isinstance(f, Number) else f for f in schema.features]
    model = PrivateLogisticRegression(
        epsilon=epsilon, schema=PublicSchema(own), classes=[0, 1], geometry="auto", random_state=0
    )
    form = choose_form(PublicSchema(own), "auto", allowance(epsilon, n))
    places = np.arange(len(labels))
    return areas(model, form, rows, labels, places[:n], places[n:], draws)


def falls(by_epsilon: Sequence[Sequence[float]]) -> list[tuple[int, float, float]]:
    """Return where a step of epsilon loses more than .001 and two standard errors."""
    steps = np.diff(np.array(by_epsilon), axis=0)
    means, errors = steps.mean(axis=1), steps.std(axis=1, ddof=1) / np.sqrt(steps.shape[1])
    lost = np.flatnonzero(means < -np.maximum(0.001, 2 * errors))
    return [(int(k), float(means[k]), float(errors[k])) for k in lost]


def worlds() -> None:
    record = read_record("worlds") if (RECORDS / "worlds.json").exists() else {}
    for name in WORLDS:
        if name in record:
            continue
        found: dict[str, list[list[float]]] = {"rule": [], "lines": []}
        tables = [world(name, seed) for seed in range(TRIES)]
        for epsilon in STEPS:
            for what, curve in (("rule", "auto"), ("lines", False)):
                each = [in_world(*table, epsilon, curve, EACH) for table in tables]
                found[what].append([area for areas_ in each for area in areas_])
        record[name] = found
        write_record("worlds", record)
        Console().print(name, falls(found["rule"]))
    rows = []
    for name, found in record.items():
        means = {what: np.mean(found[what], axis=1) for what in found}
        fell = [
            f"{STEPS[k]:g} to {STEPS[k + 1]:g} {d:.3f} ({e:.3f})"
            for k, d, e in falls(found["rule"])
        ]
        n, count, levels, facts, _ = WORLDS[name]
        size = f"{n:,} x {count}" + (f" and {levels} levels" if levels else "")
        told = [" ".join(f"{area:.3f}"[1:] for area in means[what]) for what in ("rule", "lines")]
        below = float(np.min(means["rule"] - means["lines"]))
        rows.append([name, size, facts, *told, f"{below:.4f}", ", ".join(fell) or "nowhere"])
    head = ["world", "records", "declared", "the rule", "lines", "worst below lines", "falls"]
    fill("geometry.md", "worlds", markdown(head, rows))


def main() -> None:
    worlds()
    record = read_record("forms") if (RECORDS / "forms.json").exists() else {}
    tables: dict[str, Any] = {}
    for table, n, epsilon, facts in cells():
        key = f"{table} | {n} | {epsilon:g} | {facts}"
        if key in record:
            continue
        if table not in tables:
            tables = {table: loaded(table)}
        record[key] = _measured(tables[table], n, epsilon, facts)
        write_record("forms", record)
        Console().print(f"{key}: {record[key]['chosen']}, {_regret(record[key]):+.4f}")
    fill("geometry.md", "forms", table_of(record))
    Console().print(table_of(record), markup=False)


def _measured(table: Loaded, n: int, epsilon: float, facts: str) -> dict[str, Any]:
    """Return every form's areas, and which one the rule takes."""
    rows, labels, schema = table
    order = np.random.default_rng(0).permutation(len(labels))
    train, test = order[:n], order[n : n + 10_000]
    features = declared(rows, facts) if schema is None else known_of(schema, rows, facts)
    used = rows[[feature.column for feature in features]]
    found: dict[str, Any] = {}
    for form, (noise, curve) in FORMS.items():
        own = [replace(f, curve=curve) if isinstance(f, Number) else f for f in features]
        model = PrivateLogisticRegression(
            epsilon=epsilon,
            schema=PublicSchema(own),
            classes=[0, 1],
            geometry=noise,
            random_state=0,
        )
        found[form] = areas(model, _form(form), used, labels, train, test, DRAWS)
    rule = choose_form(PublicSchema(features), "auto", allowance(epsilon, n))
    chosen = next(form for form in FORMS if _form(form) == rule)
    rate = float(np.mean(labels[train]))
    seen = n * epsilon * rate * (1 - rate)
    return {"auc": found, "chosen": chosen, "seen": round(seen, 1)}


def areas(
    model: PrivateLogisticRegression,
    form: Any,
    rows: pd.DataFrame,
    labels: NDArray[np.bool_],
    train: NDArray[np.intp],
    test: NDArray[np.intp],
    draws: int,
) -> list[float]:
    """Return the area on test rows for so many draws of a model's noise."""
    plan, data = model.prepare(rows.iloc[train], labels[train].astype(int))
    encoder = model.schema.encoder(form=form)
    assert encoder.names == tuple(data.features)
    fresh, names = encoder.transform(rows.iloc[test]), Names((0, 1), tuple(data.features))
    made = (
        plan.assemble({"weights": run}, names)
        for run in plan.run_many(data, SeededSource(1), draws)
    )
    return [
        round(float(roc_auc_score(labels[test], one.decision_function(fresh))), 4) for one in made
    ]


def _form(form: str) -> Any:
    return {"ball": "standardised", "lines": "linear", "curves": "curves"}[form]


def _regret(cell: dict[str, Any]) -> float:
    means = {form: float(np.mean(areas)) for form, areas in cell["auc"].items()}
    return max(means.values()) - means[cell["chosen"]]


def _error(cell: dict[str, Any]) -> float:
    """Return the standard error of the difference between the best and the chosen one."""
    best = max(cell["auc"], key=lambda form: float(np.mean(cell["auc"][form])))
    if best == cell["chosen"]:
        return 0.0
    parts = [np.var(cell["auc"][form], ddof=1) / DRAWS for form in (best, cell["chosen"])]
    return float(np.sqrt(sum(parts)))


def table_of(record: dict[str, Any]) -> str:
    """Return one row per table and number of records."""
    lines = []
    for title, tables in GROUPS.items():
        every = []
        for table, sizes in tables.items():
            for n in sizes:
                places = [f"{table} | {n} | {e:g} | {f}" for e in EPSILONS for f in FACTS]
                mine = [record[place] for place in places]
                every += mine
                lines.append(_line(f"{table}, {n:,}", mine))
        lines.append(_line(f"**{title}**", every))
        clear = [cell for cell in every if cell["seen"] >= SEEN]
        lines.append(_line(f"**of these, n ε π(1−π) ≥ {SEEN:g}**", clear))
    head = ["table, records", "cells", "mean regret", "worst (its standard error)", "over the ball"]
    return markdown([*head, "worst below it"], lines)


def _line(name: str, mine: list[dict[str, Any]]) -> list[str]:
    regrets = [_regret(cell) for cell in mine]
    worst = mine[int(np.argmax(regrets))]
    gains = [float(np.mean(c["auc"][c["chosen"]]) - np.mean(c["auc"]["ball"])) for c in mine]
    return [
        name,
        f"{len(mine)}",
        f"{np.mean(regrets):.4f}",
        f"{max(regrets):.3f} ({_error(worst):.3f})",
        f"{np.mean(gains):+.4f}",
        f"{min(0.0, *gains):.3f}",
    ]


if __name__ == "__main__":
    main()
