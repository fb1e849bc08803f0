r"""Amounts, counts and times: against no privacy, and against diffprivlib's linear regression.

statsmodels, lifelines and diffprivlib need an environment of their own; name its Python::

    python -m venv others && others/bin/pip install statsmodels lifelines diffprivlib \
        "scikit-learn<1.6"
    CONFRERE_RIVALS_PYTHON=others/bin/python python -m benchmarks outcomes

Of every table a fifth is held out, six times, twenty times of small ones. Others learn from
straight columns and dummies, ours by its defaults.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console

from benchmarks.measured import fill, markdown, write_record
from benchmarks.outcome_tables import AMOUNTS, COUNTS, TIMES
from confrere.methods.allowance import SOLVER, problem
from confrere.outcomes import Huber, Poisson, PrivateLinearRegression, PrivatePoissonRegression
from confrere.outcomes.pieces import PiecewiseExponential
from confrere.schema import Category, Flag, Number, Ordered
from confrere.survival import PrivateSurvivalRegression

EPSILONS = (0.5, 1.0, 3.0)
#: Tables of fewer rows are split more often.
SMALL, SPLITS, MANY = 1000, 6, 20
#: Of tables that are larger, so many people learn once more.
PEOPLE = 6000

FACES = {
    "amounts": (AMOUNTS, PrivateLinearRegression, "R2"),
    "counts": (COUNTS, PrivatePoissonRegression, "deviance"),
    "times": (TIMES, PrivateSurvivalRegression, "C-index"),
}


def plain(rows: pd.DataFrame, schema: Any) -> tuple[Any, Any]:
    """Return straight columns and dummies, and their declared bounds."""
    columns, ends = [], []
    for one in schema.features:
        cells = rows[one.column]
        if isinstance(one, Number):
            low, high = one.bounds
            x = cells.astype(float).fillna((low + high) / 2 if one.mean is None else one.mean)
            x = np.clip(x, low, high)
            columns.append(np.log1p(x - low) if one.log else x)
            ends.append((0.0, np.log1p(high - low)) if one.log else (low, high))
        elif isinstance(one, Flag):
            named = cells.astype(str).isin([*map(str, one.true)])
            columns.append((named | cells.isin([*one.true])).astype(float))
            ends.append((0.0, 1.0))
        elif isinstance(one, Ordered):
            place = {str(level): k for k, level in enumerate(one.levels)}
            columns.append(cells.astype(str).map(place).astype(float))
            ends.append((0.0, len(place) - 1.0))
        else:
            assert isinstance(one, Category)
            for value in one.values[1:]:
                columns.append((cells.astype(str) == str(value)).astype(float))
                ends.append((0.0, 1.0))
    return np.column_stack(columns), np.array(ends, dtype=float).T


def apart(kind: str, X: Any, y: Any, coef: Any, ends: Any) -> float:
    """Return how far the minimiser without noise and caps is from another library's fit.

    Of linear predictors, in the unit of the outcome or of the logarithm of its mean.
    """
    mean, sd = X.mean(axis=0), np.maximum(X.std(axis=0), 1e-12)
    rows = np.column_stack([(X - mean) / sd, np.ones(len(X))])
    long = float(np.linalg.norm(rows, axis=1).max()) * (1 + 1e-9)
    if kind == "times":
        pieces = len(ends)
        made = problem(rows / long, y, PiecewiseExponential(tuple(ends), 0.5, 1e3), 1e-6)
        own = SOLVER.solve(made, 1e-4)[0] / long
        shared, levels = own[:-pieces], own[-pieces:]
        theirs = sd * coef[:-pieces], coef[-pieces:] + mean @ coef[:-pieces]
        gaps = rows[:, :-1] @ (shared - theirs[0]), levels - theirs[1]
        return float(max(np.abs(gap).max() for gap in gaps))
    if kind == "amounts":
        half, middle = (ends[1] - ends[0]) / 2, (ends[1] + ends[0]) / 2
        loss, labels = Huber(10.0), (y - middle) / half
    else:
        half, middle = 1.0, 0.0
        loss, labels = Poisson(100.0, 200.0), np.column_stack([y, np.zeros(len(y))])
    own = SOLVER.solve(problem(rows / long, labels, loss, 1e-9), 1e-5)[0] / long
    said = half * (rows @ own) + middle
    return float(np.abs(said - np.column_stack([np.ones(len(X)), X]) @ coef).max())


def measured(kind: str, name: str, others: subprocess.Popen[str], people: int | None) -> Any:
    """Return what every fit of one table reaches, split by split."""
    tables, face, _ = FACES[kind]
    table, schema = tables[name]()
    outcome = schema.outcome
    X, bounds = plain(table, schema)
    y = outcome.encode(outcome.column_of(table))
    if kind == "amounts":
        ends = list(outcome.bounds)
        y = y * (ends[1] - ends[0]) / 2 + sum(ends) / 2
    elif kind == "counts":
        ends, y = [0.0, outcome.most], y[:, 0]
    else:
        ends = list(outcome.pieces)
    found: dict[str, Any] = {"clear": []}
    for seed in range(SPLITS if len(table) >= SMALL else MANY):
        order = np.random.default_rng(seed).permutation(len(table))
        held = len(table) // 5
        test, train = order[:held], order[held:][:people]
        with tempfile.NamedTemporaryFile(suffix=".npz") as file:
            np.savez(file, X=X[train], y=y[train], Z=X[test], z=y[test], bounds=bounds)
            file.flush()
            job = {"kind": kind, "rows": file.name, "ends": ends, "seed": seed}
            assert others.stdin is not None
            assert others.stdout is not None
            print(json.dumps(job | {"epsilons": EPSILONS}), file=others.stdin, flush=True)
            told = json.loads(others.stdout.readline())
        coef = told.pop("coef")
        if seed == 0:
            found["apart"] = apart(kind, X[train], y[train], np.array(coef), ends)
        for epsilon in EPSILONS:
            model = face(epsilon, schema, random_state=seed).fit(table.iloc[train])
            told[f"{epsilon:g}"] = model.score(table.iloc[test])
        for key, value in told.items():
            found.setdefault(key, []).append(round(value, 5))
    found["rows"] = len(train)
    return found


def main() -> None:
    console = Console()
    python = os.environ.get("CONFRERE_RIVALS_PYTHON")
    if python is None:
        raise SystemExit(__doc__)
    record: dict[str, Any] = {}
    command = [python, str(Path(__file__).with_name("outcome_fits.py"))]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as others:
        for kind, (tables, _, _) in FACES.items():
            for name in tables:
                for people in (None, PEOPLE):
                    if people and (kind != "times" or record[name]["rows"] <= people):
                        continue
                    key = f"{name}, {people:,} people" if people else name
                    record[key] = {"kind": kind} | measured(kind, name, others, people)
                    told = {k: _mean(record[key], k) for k in _columns()}
                    console.print(key, record[key]["rows"], told, record[key]["apart"])
    write_record("outcomes", record)
    fill("peers.md", "outcomes", table_of(record))


def _columns() -> list[str]:
    return ["clear", *(f"{e:g}" for e in EPSILONS), *(f"diffprivlib {e:g}" for e in EPSILONS)]


def _mean(found: Mapping[str, Any], column: str) -> float | None:
    return float(np.mean(found[column])) if column in found else None


def _told(found: Mapping[str, Any], column: str) -> str:
    mean = _mean(found, column)
    return "—" if mean is None else "< −1" if mean < -1 else f"{mean:.3f}".replace("0.", ".")


def table_of(record: Mapping[str, Any]) -> str:
    """Return the means over splits, one row per table."""
    head = ["table", "measure", "without privacy"]
    head += [f"epsilon {e:g}" for e in EPSILONS] + [f"diffprivlib {e:g}" for e in EPSILONS]
    rows = [
        [f"{name}, {one['rows']:,} rows" if "," not in name else name, FACES[one["kind"]][2]]
        + [_told(one, column) for column in _columns()]
        for name, one in record.items()
    ]
    return markdown(head, rows)
