"""Methods for one organisation: PLR, PST-S, PST-F and the ceiling."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression

from confrere.arrays import Floats
from confrere.data.frame import Groups
from confrere.data.grouping import group_importance, importance_groups, random_groups
from confrere.estimators import (
    FeatureStackingClassifier,
    PrivateLogisticRegression,
    SampleStackingClassifier,
    designed,
)
from confrere.kernel.accountants import Logistic
from confrere.methods.allowance import Allowance, ridge_for
from confrere_research.as_printed.regression import Score, fit_plr, tuned
from confrere_research.as_printed.stacking import fit_pst_f, fit_pst_s
from confrere_research.methods.run import Run, auc
from confrere_research.problems.shapes import OneParty

Metrics = dict[str, float]


def plr(problem: OneParty, run: Run) -> Metrics:
    """Private logistic regression; ``columns`` keeps the first ones, ``rows`` may be "unit".

    With ``alpha = "rule"`` the ridge is the one for predictions, whatever the loss.
    """
    options = dict(run.options)
    columns = options.pop("columns", None)
    to_one = options.pop("rows", "clip") == "unit"
    X_train, X_test = problem.train.X[:, :columns], problem.test.X[:, :columns]
    norm = float(np.linalg.norm(problem.deviations[:columns]))
    if to_one:
        X_train, X_test, norm = unit(X_train), unit(X_test), 1.0
    if options.get("alpha") == "rule":
        allowed = Allowance(epsilon=run.budget, loss=Logistic(), count=len(X_train))
        options["alpha"] = ridge_for(allowed, X_train.shape[1] + 1) / len(X_train)
    model = PrivateLogisticRegression(epsilon=run.budget, data_norm=norm, random_state=run.seed)
    designed(model, **options).fit(X_train, problem.train.y)
    return {"auc": auc(problem.test.y, model.decision_function(X_test))}


def pst_s(problem: OneParty, run: Run) -> Metrics:
    """Stacking over parts of the samples."""
    model = SampleStackingClassifier(
        epsilon=run.budget, data_norm=problem.rms_norm, random_state=run.seed
    )
    return _scored(designed(model, **_whole(run.options)), problem)


def pst_f(problem: OneParty, run: Run) -> Metrics:
    """Stacking over groups of features; see :func:`importance_of` for ``importance``."""
    options = _whole(run.options)
    alone = options.pop("single", None)
    importance = importance_of(problem, options)
    norm = problem.rms_norm
    if options.pop("rows", "clip") == "unit":
        train, test = (replace(part, X=unit(part.X)) for part in (problem.train, problem.test))
        problem, norm = replace(problem, train=train, test=test), 1.0
    model = FeatureStackingClassifier(
        epsilon=run.budget, data_norm=norm, importance=importance, random_state=run.seed
    )
    designed(model, **options)
    if alone is None:
        return _scored(model, problem)
    low = model.fit(problem.train.X, problem.train.y).low_level_[int(alone)]
    part = problem.test.X[:, low.features]
    return {"auc": auc(problem.test.y, low.score(part))}


def ceiling(problem: OneParty, run: Run) -> Metrics:
    """Logistic regression without privacy, of columns with deviation one."""
    scale = problem.deviations
    model = LogisticRegression(C=run.options.get("C", 0.1), max_iter=1000)
    model.fit(problem.train.X / scale, problem.train.y)
    return {"auc": auc(problem.test.y, model.decision_function(problem.test.X / scale))}


def printed_plr(problem: OneParty, run: Run) -> Metrics:
    """Algorithm 1 as printed, lambda tuned as printed."""

    def fit(X: Floats, y: Floats, alpha: float) -> Score:
        w = fit_plr(X, y, epsilon=run.budget, alpha=alpha, rng=run.rng)
        return lambda rows: np.asarray(rows @ w)

    return _printed(problem, run, fit)


def printed_pst_s(problem: OneParty, run: Run) -> Metrics:
    """Algorithm 2 as printed, lambda tuned as printed."""
    n_groups = int(run.options["n_groups"])

    def fit(X: Floats, y: Floats, alpha: float) -> Score:
        stack = fit_pst_s(X, y, epsilon=run.budget, alpha=alpha, n_groups=n_groups, rng=run.rng)
        return stack.score

    return _printed(problem, run, fit)


def printed_pst_f(problem: OneParty, run: Run) -> Metrics:
    """Algorithm 3 as printed, lambda tuned as printed."""
    groups, shares = printed_groups(problem, run)

    def fit(X: Floats, y: Floats, alpha: float) -> Score:
        stack = fit_pst_f(
            X, y, epsilon=run.budget, alpha=alpha, groups=groups, shares=shares, rng=run.rng
        )
        return stack.score

    return _printed(problem, run, fit)


def printed_groups(problem: OneParty, run: Run) -> tuple[Groups, list[float]]:
    """Return the papers' groups and shares: by importance (W), or random and equal (U)."""
    options = _whole(run.options)
    importance = importance_of(problem, options)
    n_groups = int(options["n_groups"])
    if importance is None:
        groups = random_groups(problem.train.X.shape[1], n_groups, seed=run.seed % 2**32)
        return groups, [1 / n_groups] * n_groups
    groups = importance_groups(importance, n_groups)
    return groups, group_importance(importance, groups).tolist()


def importance_of(problem: OneParty, options: dict[str, Any]) -> Floats | None:
    """Take the columns' importances out of the options.

    ``importance`` is "none" or "variance"; with ``base`` it is instead ``base ** i`` for the i-th
    column (Figure 3), grouped in the columns' own order.
    """
    kind = options.pop("importance", "none")
    base = options.pop("base", None)
    if base is not None:
        # Divided by the largest, so that powers neither overflow nor vanish all at once.
        place = np.arange(len(problem.deviations))
        log_weights = place * np.log(base)
        return np.asarray(np.exp(log_weights - log_weights.max()))
    return problem.deviations**2 if kind == "variance" else None


def _printed(problem: OneParty, run: Run, fit: Callable[..., Score]) -> Metrics:
    X, y = problem.train.X, problem.train.signs
    alphas = run.options["alphas"]
    best = tuned(fit, X, y, alphas, run.rng) if len(alphas) > 1 else alphas[0]
    return {"auc": auc(problem.test.y, fit(X, y, best)(problem.test.X)), "alpha": best}


def _scored(model: Any, problem: OneParty) -> Metrics:
    model.fit(problem.train.X, problem.train.y)
    return {"auc": auc(problem.test.y, model.decision_function(problem.test.X))}


def _whole(options: Any) -> dict[str, Any]:
    """Copy options; numbers of groups on an axis may come as floats."""
    copied = dict(options)
    if "n_groups" in copied:
        copied["n_groups"] = int(copied["n_groups"])
    return copied


def unit(X: Floats) -> Floats:
    """Return rows of length one; those of zeros stay."""
    return np.asarray(X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-12))
