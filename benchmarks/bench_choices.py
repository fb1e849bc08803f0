"""What ``choose`` takes beside all that it offers, on organisations made of tables.

``python -m benchmarks choices``. The rule was chosen on those here and on the first and second of
:mod:`benchmarks.organisations`, which confirmed the rules before it (``before`` in the record), and
is confirmed by the third. World A has five hospitals, eight normal columns with declared means and
straight log-odds; world B eight, bends and categories, and bounds alone. Goes on where it stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console
from sklearn.metrics import roc_auc_score

from benchmarks import prior_tables
from benchmarks.bench_forms import SHAPES
from benchmarks.measured import RECORDS, fill, markdown, read_record, write_record
from benchmarks.organisations import FIRST, SECOND, THIRD, Organisations
from confrere import CollaborativeClassifier
from confrere.data.features import Feature
from confrere.planning import choose
from confrere.schema import Category, Flag, Label, Number, PublicSchema
from confrere.simulation import SeededSource

EPSILONS, SPLITS, DRAWS = (0.1, 0.5, 1.0, 3.0), 3, 2  # five and four of the first 26
STATES = ("Ohio", "Arizona", "Maine", "Georgia", "Oklahoma", "Nevada")
#: Smaller organisations are left out.
FEWEST = 60
#: With declared signs or without.
WAYS: dict[str, tuple[str, bool]] = {
    "average": ("average", False),
    "sums": ("sums", False),
    "with experts": ("average", True),
    "sums with experts": ("sums", True),
}
#: What is offered.
SAID = {"without signs": ("average", "sums"), "with signs": tuple(WAYS)}


def _by(name: str, column: str, n: int) -> Organisations:
    rows, y, schema = prior_tables.TABLES[name][0]()
    party = rows[column].astype(str).to_numpy()
    kept = [f for f in schema.features if f.column != column]
    return rows, np.asarray(y) > 0, party, replace(schema, features=kept), n


def _states() -> Organisations:
    rows, y, party, schema, n = _by("BRFSS 2022", "State", 9000)
    some = np.isin(party, STATES)
    return rows[some].reset_index(drop=True), y[some], party[some], schema, n


def _wages() -> Organisations:
    rows = prior_tables._r("AER", "CPS1988")
    rows = rows.assign(high=np.where(rows["wage"] > 600, "yes", "no"))
    features = [
        Number("education", bounds=(0, 18), mean=13, sd=3, sign=1),
        Number("experience", bounds=(-5, 65), mean=18, sd=12, sign=1),
        Flag("ethnicity", true=("afam",), false=("cauc",), share=0.1, sign=-1),
        Flag("smsa", true=("yes",), false=("no",), share=0.75, sign=1),
        Flag("parttime", true=("yes",), false=("no",), share=0.1, sign=-1),
    ]
    label = Label("high", positive="yes", negative="no", base_rate=0.4)
    party = rows["region"].astype(str).to_numpy()
    high = (rows["high"] == "yes").to_numpy()
    return rows, high, party, PublicSchema(features, outcome=label), 12_000


def _telephone() -> Organisations:
    rows = prior_tables._r("modeldata", "wa_churn").dropna().reset_index(drop=True)

    def flag(column: str, sign: int = 0) -> Flag:
        return Flag(column, true=(1,), false=(0,), sign=sign)

    def service(column: str, sign: int = 0) -> Category:
        values = ("No", "Yes", "No internet service")
        return Category(column, values=values, sign={"Yes": sign, "No": -sign} if sign else 0)

    protected = ("online_security", "online_backup", "device_protection", "tech_support")
    contracts = ("Month-to-month", "One year", "Two year")
    features = [
        flag("female"),
        flag("senior_citizen", 1),
        flag("partner", -1),
        flag("dependents", -1),
        Number("tenure", bounds=(0, 72), sign=-1),
        flag("phone_service"),
        Category("multiple_lines", values=("No phone service", "No", "Yes")),
        Category(
            "internet_service",
            values=("DSL", "Fiber optic", "No"),
            sign={"Fiber optic": 1, "No": -1},
        ),
        *(service(column, -1) for column in protected),
        service("streaming_tv"),
        service("streaming_movies"),
        Category("contract", values=contracts, sign={contracts[0]: 1, contracts[2]: -1}),
        flag("paperless_billing", 1),
        Number("monthly_charges", bounds=(15, 125), sign=1),
        Number("total_charges", bounds=(0, 9000), sign=-1),
    ]
    label = Label("churn", positive="Yes", negative="No", base_rate=0.25)
    party = rows["payment_method"].astype(str).to_numpy()
    gone = (rows["churn"] == "Yes").to_numpy()
    return rows, gone, party, PublicSchema(features, outcome=label), 5200


def _flights() -> Organisations:
    rows = prior_tables._r("nycflights13", "flights").dropna(subset=["arr_delay"])
    rows = rows.sample(40_000, random_state=1).reset_index(drop=True)
    late = np.where(rows["arr_delay"] >= 15, "yes", "no")
    rows = rows.assign(late=late, month=rows["month"].astype(str))
    months = {"6": 1, "7": 1, "12": 1, "9": -1, "10": -1, "11": -1}
    features = [
        Category("month", values=tuple(map(str, range(1, 13))), sign=months),
        Number("hour", bounds=(5, 23), mean=13, sd=5, sign=1),
        Number("distance", bounds=(0, 5000), mean=1000, sd=700),
        Number("day", bounds=(1, 31), mean=16, sd=9),
        Category("origin", values=("EWR", "JFK", "LGA"), sign={"EWR": 1, "JFK": -1}),
    ]
    label = Label("late", positive="yes", negative="no", base_rate=0.22)
    party = rows["carrier"].astype(str).to_numpy()
    return rows, late == "yes", party, PublicSchema(features, outcome=label), 15_000


def _dealt(rng: Any, sizes: tuple[int, ...], score: Any, rows: Any, features: Any) -> Organisations:
    labels = rng.uniform(size=len(score)) < 1 / (1 + np.exp(-score))
    shares = np.array(sizes) / sum(sizes)
    party = rng.choice(len(sizes), len(score), p=shares).astype(str)
    label = Label("y", positive=1, negative=0, base_rate=0.35)
    return rows, labels, party, PublicSchema(features, outcome=label), sum(sizes)


def world_a(seed: int = 3101) -> Organisations:
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(13_000, 8))
    slopes = rng.uniform(0.3, 1.2, 8) * rng.choice([-1, 1], 8)
    score = z @ slopes
    means, sds = rng.uniform(20, 80, 8), rng.uniform(5, 15, 8)
    rows = pd.DataFrame(means + sds * z, columns=[f"x{j}" for j in range(8)])
    features = [
        Number(
            f"x{j}",
            bounds=(round(mean - 5 * sd), round(mean + 5 * sd)),
            mean=round(mean),
            sd=round(sd),
            sign=int(np.sign(slope)),
        )
        for j, (mean, sd, slope) in enumerate(zip(means, sds, slopes, strict=True))
    ]
    scaled = 1.2 * score / score.std() - 0.8
    return _dealt(rng, (2800, 1800, 1100, 800, 500), scaled, rows, features)


def world_b(seed: int = 3102) -> Organisations:
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(20_400, 6))
    shapes = ("U", "line", "step", "peak", "saturating", "U")
    slopes = rng.uniform(0.6, 1.4, 6) * rng.choice([-1, 1], 6)
    score = sum(slopes[j] * SHAPES[shapes[j]](z[:, j]) for j in range(6))
    rows = pd.DataFrame({f"x{j}": 50 + 10 * z[:, j] for j in range(6)})
    signs = [
        0 if s in ("U", "peak") else int(np.sign(b)) for s, b in zip(shapes, slopes, strict=True)
    ]
    features: list[Feature] = [
        Number(f"x{j}", bounds=(0, 100), sign=sign) for j, sign in enumerate(signs)
    ]
    for column, levels in (("a", 4), ("b", 6)):
        effects, place = rng.normal(size=levels), rng.integers(0, levels, len(z))
        values = tuple(f"{column}{k}" for k in range(levels))
        score = score + effects[place]
        rows[column] = np.array(values)[place]
        known = {v: int(np.sign(e)) for v, e in zip(values, effects, strict=True) if abs(e) > 0.5}
        features.append(Category(column, values=values, sign=known))
    scaled = 1.4 * (score - np.mean(score)) / np.std(score) - 0.9
    sizes = (3600, 2600, 2200, 1800, 1500, 1200, 900, 600)
    return _dealt(rng, sizes, scaled, rows, features)


TABLES: dict[str, Callable[[], Organisations]] = {
    "BRFSS 2022, 6 states": _states,
    "Bank by job": lambda: _by("Bank", "job", 8000),
    "credit by education": lambda: _by("credit default", "EDUCATION", 8000),
    "wages by region": _wages,
    "telephone by payment": _telephone,
    "flights by carrier": _flights,
    "world A": world_a,
    "world B": world_b,
}


def main() -> None:
    record = read_record("choices") if (RECORDS / "choices.json").exists() else {}
    for name, make in {**TABLES, **FIRST, **SECOND, **THIRD}.items():
        if name not in record:
            record[name] = _measured(make())
            write_record("choices", record)
    fill("choose.md", "within", table_of(record))
    Console().print(table_of(record), markup=False)


def _measured(given: Organisations) -> dict[str, Any]:
    """Return every way's areas by epsilon, and what is chosen without signs and with them."""
    rows, y, party, schema, n = given
    large = pd.Series(party).map(pd.Series(party).value_counts()).to_numpy() >= FEWEST
    rows, y, party = rows[large].reset_index(drop=True), y[large], party[large]
    n = min(n, int(0.75 * len(y)))
    bare = [replace(feature, sign=0, importance=None) for feature in schema.features]
    plain = replace(schema, features=bare)
    first = np.random.default_rng(1000).permutation(len(y))[:n]
    sizes = pd.Series(party[first]).value_counts().tolist()
    found: dict[str, Any] = {"sizes": sizes}
    for epsilon in EPSILONS:
        how: dict[str, Any] = {"n_samples": sizes, "epsilon": epsilon, "trust": "coordinator"}
        cell: dict[str, Any] = {
            "without signs": choose(schema=plain, **how).best.name,
            "with signs": choose(schema=schema, **how).best.name,
        }
        for way, (method, signs) in WAYS.items():
            told, prior = (schema, "auto") if signs else (plain, None)
            model = CollaborativeClassifier(
                epsilon, told, method=method, prior=prior, random_state=0
            )
            cell[way] = [
                area for split in range(SPLITS) for area in _areas(model, rows, y, party, n, split)
            ]
        found[f"{epsilon:g}"] = cell
    return found


def _areas(model: Any, rows: pd.DataFrame, y: Any, party: Any, n: int, split: int) -> list[float]:
    order = np.random.default_rng(1000 + split).permutation(len(y))
    train, test = order[:n], order[n : n + 5000]
    outcome = model.schema.outcome
    labels = np.where(y, outcome.positive[0], outcome.negative[0])[train]
    plan, data = model.prepare(rows.iloc[train], labels, party=party[train])
    fresh = plan.encoder.transform(rows.iloc[test])
    made = (plan.run(data, SeededSource(17 * split + draw)) for draw in range(DRAWS))
    return [round(float(roc_auc_score(y[test], one.decision_function(fresh))), 4) for one in made]


def table_of(record: dict[str, Any]) -> str:
    """Return one row per organisation that confirms, and how near the best what is chosen is."""
    lines = []
    for name in THIRD:
        one, cells = record[name], {way: [] for way in WAYS}
        for epsilon in EPSILONS:
            cell = one[f"{epsilon:g}"]
            taken = {_taken(cell[said], said) for said in SAID}
            for way in WAYS:
                shown = f"{np.mean(cell[way]):.3f}"[1:]
                cells[way].append(f"**{shown}**" if way in taken else shown)
        sizes = np.array(one["sizes"])
        size = f"{len(sizes)}, K = {sizes.sum() ** 2 / (sizes**2).sum():.1f}, {sizes.sum():,}"
        lines.append([name, size, *(" ".join(cells[way]) for way in WAYS)])
    head = ["organisations", "how many, records", *(f"{way}, ε = .1 .5 1 3" for way in WAYS)]
    told = [
        f"Within .005 of the best offered: {_near(record, THIRD)}.",
        f"On the 26 that the rule was chosen on: {_near(record, {**TABLES, **FIRST, **SECOND})}.",
        f"Rules before it, on eight new to them: {_near(record, SECOND, 'before')};",
        f"on ten: {_near(record, FIRST, 'before')}.",
    ]
    return f"{markdown(head, lines)}\n\n{' '.join(told)}"


def _taken(best: str, said: str) -> str:
    return f"{best} with experts" if (best, said) == ("sums", "with signs") else best


def _near(record: dict[str, Any], names: Iterable[str], rule: str = "") -> str:
    told = []
    for said, offered in SAID.items():
        lost = []
        for name in names:
            for epsilon in EPSILONS:
                cell = record[name][f"{epsilon:g}"]
                means = {way: float(np.mean(cell[way])) for way in WAYS}
                taken = _taken((cell[rule] if rule else cell)[said], said)
                lost.append(max(means[way] for way in offered) - means[taken])
        near = sum(one <= 0.005 for one in lost)
        mean = f"{np.mean(lost):.4f}"[1:]
        told.append(f"{said} {near} of {len(lost)}, {mean} behind it on average")
    return "; ".join(told)
