"""The same tables, epsilons and declared facts, here and in other libraries.

``python -m benchmarks rivals`` goes on where it stopped: a cell that is in the record is not
measured again, and what is missing at the end is said. DP-EBM and diffprivlib need an environment
of their own; name its Python::

    python -m venv rivals && rivals/bin/pip install interpret-core diffprivlib "scikit-learn<1.6"
    CONFRERE_RIVALS_PYTHON=rivals/bin/python python -m benchmarks rivals

A rival has its default, and the best of its settings: these are compared on the *test* rows, an
advantage that nobody has in practice. The best one is then drawn afresh. Times are CPU seconds of
one fit with one thread, the least of all draws.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from scipy import optimize, special
from sklearn.metrics import roc_auc_score

from benchmarks.measured import RECORDS, fill, markdown, read_record, write_record
from confrere import AddRemove, PrivateLogisticRegression, PublicSchema
from confrere.arrays import Floats
from confrere.errors import DataSetMissing
from confrere.schema import Number
from confrere_research import loaders

Fit = Callable[[float, Mapping[str, Any], int], float]

EPSILONS = (0.5, 1.0, 3.0)
DELTA = 1e-5
DRAWS = 5
BOOSTED_DRAWS = 3

#: Rows to learn from and to test on. Bank and BRFSS 2015 were among the tables that the public
#: rules of this library were chosen on; the others were not.
TABLES = {
    "Bank Marketing": ("load_bank_marketing", 36_000, 9_000),
    "credit default": ("load_credit_default", 24_000, 6_000),
    "BRFSS 2015": ("load_brfss2015", 20_000, 20_000),
    "BRFSS 2022": ("load_brfss2022", 20_000, 20_000),
    "phishing": ("load_phishing", 8_800, 2_200),
}

#: Ours: defaults, under both relations, without and with a delta.
OURS: dict[str, dict[str, Any]] = {
    "confrere": {},
    "confrere, add-remove": {"neighbours": "add-remove"},
    "confrere, delta": {"delta": DELTA},
    "confrere, delta, add-remove": {"delta": DELTA, "neighbours": "add-remove"},
}

BOOSTED: tuple[dict[str, Any], ...] = (
    {},
    {"max_bins": 16},
    {"max_bins": 8},
    {"max_bins": 64},
    {"max_rounds": 100},
    {"max_rounds": 100, "learning_rate": 0.03},
    {"learning_rate": 0.03},
    {"bin_budget_frac": 0.05},
    {"max_bins": 16, "max_rounds": 100, "learning_rate": 0.03},
    {"max_bins": 8, "max_rounds": 50, "learning_rate": 0.05},
)
DESCENDED = tuple(
    {"steps": steps, "rate": rate, "clip": clip}
    for (steps, rate), clip in itertools.product(
        [(100, 64.0), (50, 64.0), (200, 64.0), (200, 256.0), (400, 256.0)], [1.0, 0.25]
    )
)
REGRESSED: tuple[dict[str, Any], ...] = (
    {},
    *({"C": C} for C in (1e-4, 1e-3, 1e-2, 1e-1, 10.0, 100.0)),
)

#: What each rival promises.
ADJACENCY = {
    "DP-EBM": "delta, add-remove",
    "DP gradient descent": "delta, add-remove",
    "diffprivlib": "pure, replace-one",
}
SETTINGS = {"DP-EBM": BOOSTED, "DP gradient descent": DESCENDED, "diffprivlib": REGRESSED}
COLUMNS = [*OURS, *(f"{rival}, {how}" for rival in SETTINGS for how in ("default", "best"))]


class Rows:
    """One table: raw rows, rows in the unit ball, labels, and what is declared about columns."""

    def __init__(self, name: str) -> None:
        loader, n, n_test = TABLES[name]
        data = getattr(loaders, loader)()
        whole = data.train.X
        if data.schema is None:
            whole = _named(whole)
        self.name, self.schema = name, _declared(data.schema, whole)
        order = np.random.default_rng(0).permutation(len(data.train.y))
        parts = {"train": order[n_test : n_test + n], "test": order[:n_test]}
        self.raw = {
            part: whole.iloc[rows][list(self.schema.columns)] for part, rows in parts.items()
        }
        self.y = {part: data.train.y[rows] for part, rows in parts.items()}
        encoder = self.schema.encoder()
        self.rows = {part: encoder.transform(raw) for part, raw in self.raw.items()}

    def write(self, folder: Path) -> None:
        """Write it down for a program that knows nothing of schemas."""
        numbers = {f.column: f for f in self.schema.features if isinstance(f, Number)}
        columns = {c: "continuous" if c in numbers else "nominal" for c in self.schema.columns}
        bounds = {j: numbers[c].bounds for j, c in enumerate(columns) if c in numbers}
        facts = {"columns": columns, "bounds": bounds}
        (folder / f"{self.name}.json").write_text(json.dumps(facts))
        for part, raw in self.raw.items():
            raw.to_csv(folder / f"{self.name}-{part}.csv", index=False)
        arrays = {f"X_{part}": rows for part, rows in self.rows.items()}
        arrays |= {f"y_{part}": y for part, y in self.y.items()}
        np.savez(folder / f"{self.name}.npz", **arrays)


def _named(X: Any) -> Any:
    import pandas as pd

    return pd.DataFrame(np.asarray(X), columns=[f"x{j}" for j in range(X.shape[1])])


def _declared(schema: PublicSchema | None, whole: Any) -> PublicSchema:
    """Return what is declared about columns, without experts' signs and importances, or a label."""
    if schema is None:  # phishing: its page declares whole numbers from -1 to 1
        return PublicSchema([Number(str(c), bounds=(-1, 1)) for c in whole.columns])
    plain = [replace(feature, importance=None, sign=0) for feature in schema.features]
    return PublicSchema(plain, clip_norm=schema.clip_norm)


def main() -> None:
    record = read_record("rivals") if (RECORDS / "rivals.json").exists() else {}
    missing = []
    with tempfile.TemporaryDirectory() as folder:
        for name in TABLES:
            if all(_key(name, c, e) in record for c in COLUMNS for e in EPSILONS):
                continue
            try:
                _measure(name, record, Path(folder))
            except DataSetMissing as error:
                missing.append(f"{name}: {error}")
    missing += [
        f"{name}, {column}, epsilon {epsilon:g}"
        for name in TABLES
        for column in COLUMNS
        for epsilon in EPSILONS
        if _key(name, column, epsilon) not in record
    ]
    for one in missing:
        Console().print(f"missing: {one}", markup=False)
    for part, made in (("rivals", table_of), ("rivals' times", times_of)):
        fill("peers.md", part, made(record))
    Console().print(table_of(record), markup=False)


def _key(name: str, column: str, epsilon: float) -> str:
    return f"{name} | {column} | {epsilon:g}"


def _measure(name: str, record: dict[str, Any], folder: Path) -> None:
    """Measure what the record lacks of one table, and keep every cell at once."""
    rows = Rows(name)

    def keep(column: str, epsilon: float, found: dict[str, Any]) -> None:
        record[_key(name, column, epsilon)] = {
            "auc": [round(one, 4) for one in found["auc"]],
            "seconds": round(found["seconds"], 3),
            **({"setting": found["setting"]} if "setting" in found else {}),
        }
        write_record("rivals", record)

    for epsilon in EPSILONS:
        for column, settings in OURS.items():
            if _key(name, column, epsilon) not in record:
                keep(column, epsilon, _drawn(_ours(rows), epsilon, settings, range(DRAWS)))
        _rival(rows, "DP gradient descent", epsilon, record, keep, _drawn_with(_descended(rows)))
    python = os.environ.get("CONFRERE_RIVALS_PYTHON")
    if python is None:
        return
    rows.write(folder)
    program = Path(__file__).with_name("rival_fits.py")
    with subprocess.Popen(
        [python, str(program), str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": ""},
    ) as other:
        for epsilon in EPSILONS:
            for rival, kind in (("DP-EBM", "boosting"), ("diffprivlib", "regression")):
                ask = _asked(other, name, kind)
                _rival(rows, rival, epsilon, record, keep, ask)


def _rival(
    rows: Rows,
    rival: str,
    epsilon: float,
    record: dict[str, Any],
    keep: Callable[..., None],
    draw: Callable[..., dict[str, Any]],
) -> None:
    """Measure a rival's default, and the best of its settings with draws of its own."""
    draws = BOOSTED_DRAWS if rival == "DP-EBM" else DRAWS
    if _key(rows.name, f"{rival}, default", epsilon) not in record:
        keep(f"{rival}, default", epsilon, draw(epsilon, SETTINGS[rival][0], range(draws)))
    if _key(rows.name, f"{rival}, best", epsilon) in record:
        return
    tried = [np.mean(draw(epsilon, setting, range(100, 101))["auc"]) for setting in SETTINGS[rival]]
    best = SETTINGS[rival][int(np.argmax(tried))]
    keep(f"{rival}, best", epsilon, {**draw(epsilon, best, range(draws)), "setting": best})


def _asked(other: Any, name: str, kind: str) -> Callable[..., dict[str, Any]]:
    def draw(epsilon: float, setting: Mapping[str, Any], seeds: range) -> dict[str, Any]:
        job = {
            "table": name,
            "rival": kind,
            "epsilon": epsilon,
            "delta": DELTA,
            "setting": dict(setting),
            "seeds": list(seeds),
        }
        other.stdin.write(json.dumps(job) + "\n")
        other.stdin.flush()
        found: dict[str, Any] = json.loads(other.stdout.readline())
        return found

    return draw


def _drawn(
    fit: Callable[..., tuple[Floats, Floats]],
    epsilon: float,
    setting: Mapping[str, Any],
    seeds: range,
) -> dict[str, Any]:
    areas, seconds = [], []
    for seed in seeds:
        start = time.process_time()
        score = fit(epsilon, setting, seed)
        seconds.append(time.process_time() - start)
        areas.append(float(roc_auc_score(*score())))
    return {"auc": areas, "seconds": min(seconds)}


def _drawn_with(fit: Any) -> Callable[..., dict[str, Any]]:
    return lambda epsilon, setting, seeds: _drawn(fit, epsilon, setting, seeds)


def _ours(rows: Rows) -> Any:
    """Fit on the raw table, the map into the declared body included in the time."""

    def fit(epsilon: float, setting: Mapping[str, Any], seed: int) -> Any:
        if "neighbours" in setting:
            setting = {**setting, "neighbours": AddRemove(len(rows.y["train"]))}
        model = PrivateLogisticRegression(
            epsilon=epsilon, schema=rows.schema, classes=[0, 1], random_state=seed, **setting
        ).fit(rows.raw["train"], rows.y["train"])
        return lambda: (rows.y["test"], model.decision_function(rows.raw["test"]))

    return fit


def _descended(rows: Rows) -> Any:
    """Descend by noised sums of clipped gradients, all rows in every step."""
    X = np.hstack([0.9 * rows.rows["train"], np.full((len(rows.y["train"]), 1), 0.4)])
    Z = np.hstack([0.9 * rows.rows["test"], np.full((len(rows.y["test"]), 1), 0.4)])
    signs = np.where(rows.y["train"] == 1, 1.0, -1.0)
    lengths = np.linalg.norm(X, axis=1)

    def fit(epsilon: float, setting: Mapping[str, Any], seed: int) -> Any:
        steps, clip = setting["steps"], setting["clip"]
        sigma = clip * math.sqrt(steps) / gaussian_mu(epsilon, DELTA)
        rng, w = np.random.default_rng(seed), np.zeros(X.shape[1])
        mean = np.zeros_like(w)
        for step in range(steps):
            slopes = special.expit(-signs * (X @ w))
            slopes *= np.minimum(1.0, clip / np.maximum(slopes * lengths, 1e-12))
            gradient = -(slopes * signs) @ X + sigma * rng.normal(size=len(w))
            w = w - setting["rate"] * gradient / len(X)
            if 2 * step >= steps:  # the mean of the second half: less noise than the last point
                mean += w / (steps - math.ceil(steps / 2))
        return lambda: (rows.y["test"], Z @ mean)

    return fit


def gaussian_mu(epsilon: float, delta: float) -> float:
    """Return the mu of a Gaussian mechanism that is exactly (epsilon, delta)."""

    def above(mu: float) -> float:
        lost = special.ndtr(-epsilon / mu + mu / 2)
        return float(lost - math.exp(epsilon) * special.ndtr(-epsilon / mu - mu / 2) - delta)

    return float(optimize.brentq(above, 1e-3, 50))


def _mean(record: Mapping[str, Any], name: str, column: str, epsilon: float) -> float | None:
    found = record.get(_key(name, column, epsilon))
    return None if found is None else float(np.mean(found["auc"]))


def table_of(record: Mapping[str, Any]) -> str:
    """Return the areas, one row per table and epsilon, the best of each in bold."""
    lines = []
    for name, (_, n, _) in TABLES.items():
        for epsilon in EPSILONS:
            means = [_mean(record, name, column, epsilon) for column in COLUMNS]
            best = max((round(m, 3) for m in means if m is not None), default=None)
            cells = [
                "—"
                if m is None
                else (f"**{m:.3f}**" if round(m, 3) == best else f"{m:.3f}").replace("0.", ".")
                for m in means
            ]
            lines.append([f"{name}, {n:,} rows", f"{epsilon:g}", *cells])
    head = [c if c in OURS else f"{c} ({ADJACENCY[c.rpartition(',')[0]]})" for c in COLUMNS]
    return markdown(["table", "epsilon", *head], lines)


def times_of(record: Mapping[str, Any]) -> str:
    """Return CPU seconds of one fit at epsilon 1."""
    shown = [c for c in COLUMNS if not c.endswith("best")]
    lines = []
    for name in TABLES:
        found = [record.get(_key(name, column, 1.0)) for column in shown]
        lines.append([name, *("—" if one is None else f"{one['seconds']:.2f}" for one in found)])
    return markdown(["CPU seconds of one fit", *shown], lines)


if __name__ == "__main__":
    main()
