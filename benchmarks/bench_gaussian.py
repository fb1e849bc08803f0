"""Pure noise against Gaussian noise at a delta of 1e-6: area under the curve on published data.

MNIST, 0 against 8, 100 public components; the largest branch and the main centre of the hospitals
made of BRFSS 2022, scored on all branches' test rows. Default settings but for what the table
says. Needs the data in the folder that ``CONFRERE_DATA`` names.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.metrics import roc_auc_score

from confrere import PrivateLogisticRegression
from confrere.arrays import Floats
from confrere.estimators import designed
from confrere_research.problems.digits_and_news import digits_apart
from confrere_research.problems.hospitals import states_as_hospitals

REPEATS = 20
DELTA = 1e-6
EPSILONS = 0.1, 0.5, 1.0


class Problem(NamedTuple):
    name: str
    X: Floats
    y: Floats
    X_test: Floats
    y_test: Floats
    norm: float
    prior_intercept: float


def main() -> None:
    table = Table("problem", "loss", "epsilon", "pure", f"delta {DELTA:g}")
    for name in ("norm of the noise: pure", "with delta"):
        table.add_column(name)
    for problem in (digits(), *hospitals()):
        for loss in ("logistic", "capped"):
            for epsilon in EPSILONS:
                compared = _compared(problem, loss, epsilon)
                table.add_row(problem.name, loss, f"{epsilon:g}", *compared)
    Console().print(f"Mean and standard deviation of AUC over {REPEATS} draws", table)


def digits() -> Problem:
    """Two digits in components of other writers' digits."""
    facts = {"n_train": 3000, "n_test": 2000, "n_components": 100, "projection": "public"}
    found = digits_apart({"digits": [0, 8], **facts}, 0)
    norm = float(np.linalg.norm(found.deviations))
    train, test = found.train, found.test
    return Problem("MNIST, 3000 x 100", train.X, train.y, test.X, test.y, norm, 0.0)


def hospitals() -> list[Problem]:
    """The largest branch and the main centre, rows of length one."""
    found = states_as_hospitals({"encoding": "public"}, 0)
    X_test = _unit(np.vstack([branch.test.X for branch in found.targets]))
    y_test = np.concatenate([branch.test.y for branch in found.targets])
    branch = max((each.train for each in found.targets), key=lambda rows: len(rows.y))
    return [
        Problem(
            f"BRFSS {name}, {len(rows.y)} x {rows.X.shape[1]}",
            _unit(rows.X),
            rows.y,
            X_test,
            y_test,
            1.0,
            found.base_log_odds,
        )
        for name, rows in (("branch", branch), ("main", found.source))
    ]


def _compared(problem: Problem, loss: str, epsilon: float) -> list[str]:
    areas, norms = [], []
    for delta in (0.0, DELTA):
        model = designed(
            PrivateLogisticRegression(
                epsilon=epsilon,
                delta=delta,
                data_norm=problem.norm,
                purpose="inference" if loss == "logistic" else "prediction",
                classes=np.unique(problem.y_test),
            ),
            prior_intercept=problem.prior_intercept,
        )
        found = [
            roc_auc_score(
                problem.y_test,
                model.set_params(random_state=seed)
                .fit(problem.X, problem.y)
                .decision_function(problem.X_test),
            )
            for seed in range(REPEATS)
        ]
        areas.append(f"{np.mean(found):.3f} ± {np.std(found):.3f}")
        facts, d = model.model_.facts, problem.X.shape[1] + 1
        norms.append(f"{d / facts.rho if delta == 0 else facts.sigma * d**0.5:.0f}")
    return [*areas, *norms]


def _unit(X: Floats) -> Floats:
    return np.asarray(X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-12))
