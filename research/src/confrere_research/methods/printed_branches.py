"""The papers' own transfer methods, as printed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from confrere.arrays import Floats
from confrere.data.frame import Groups
from confrere.data.grouping import group_importance, importance_groups, random_groups
from confrere_research.as_printed.regression import Score, fit_plr, fit_plr_fs, largest_norm, tuned
from confrere_research.as_printed.stacking import fit_pst_f, fit_simcomb, psth_source
from confrere_research.methods.main_and_branches import SOURCE, Metrics, seed_of
from confrere_research.methods.run import Run, auc
from confrere_research.problems.shapes import SourceAndTargets

#: Fit on a target's rows with one lambda and a generator.
Fit = Callable[[Floats, Floats, float, np.random.Generator], Score]


def direct(problem: SourceAndTargets, run: Run) -> Metrics:
    """Algorithm 1 on the target alone."""

    def fit(X: Floats, y: Floats, alpha: float, rng: np.random.Generator) -> Score:
        return _linear(fit_plr(X, y, epsilon=run.budget, alpha=alpha, rng=rng))

    return _each(problem, run, fit)


def source_only(problem: SourceAndTargets, run: Run) -> Metrics:
    """Algorithm 1 on the source, used as it is."""

    def fit(_X: Floats, _y: Floats, alpha: float, _rng: np.random.Generator) -> Score:
        rng = np.random.default_rng(seed_of(run, SOURCE))
        source = problem.source
        return _linear(fit_plr(source.X, source.signs, epsilon=run.budget, alpha=alpha, rng=rng))

    return _each(problem, run, fit)


def simcomb(problem: SourceAndTargets, run: Run) -> Metrics:
    """Algorithm 2 of the transfer paper; PPHTL is the same idea."""
    source = (problem.source.X, problem.source.signs)

    def fit(X: Floats, y: Floats, alpha: float, rng: np.random.Generator) -> Score:
        w = fit_simcomb(source, (X, y), epsilon=run.budget, alpha=alpha, rng=rng)
        return _linear(w)

    return _each(problem, run, fit)


def pst_h(problem: SourceAndTargets, run: Run) -> Metrics:
    """Algorithm 4 of either paper.

    ``source="every group"`` spends the whole epsilon on every group (PST-H: false),
    ``"feature splitting"`` divides it with step 6 as printed (PPTL-FS: false, by less).
    """
    groups, shares = _groups(problem, run)
    eta = float(run.options.get("eta", 0.0))
    splitting = run.options["source"] == "feature splitting"
    source = problem.source

    def source_weights(alpha: float) -> list[Floats]:
        rng = np.random.default_rng(seed_of(run, SOURCE))
        if splitting:
            settings: dict[str, Any] = {"groups": groups, "shares": shares, "rng": rng}
            learned = fit_plr_fs(
                source.X,
                source.signs,
                epsilon=run.budget,
                alpha=alpha,
                step_6_as_printed=True,
                **settings,
            )
            return list(learned.weights)
        scaled = np.empty_like(source.X)
        for group in groups:
            scaled[:, group] = source.X[:, group] / largest_norm(source.X[:, group])
        w = psth_source(
            scaled, source.signs, groups, epsilon=run.budget, alpha=alpha, count=1, generator=rng
        )[0]
        # On rows scaled to q_k instead of 1 the same model has weights 1/q_k times as large.
        return [w[group] / q for group, q in zip(groups, shares, strict=True)]

    def fit(X: Floats, y: Floats, alpha: float, rng: np.random.Generator) -> Score:
        stack = fit_pst_f(
            X,
            y,
            epsilon=run.budget,
            alpha=alpha,
            groups=groups,
            shares=shares,
            rng=rng,
            centres=source_weights(alpha),
            eta=eta,
            step_6_as_printed=splitting,
        )
        return stack.score

    return _each(problem, run, fit)


def _groups(problem: SourceAndTargets, run: Run) -> tuple[Groups, list[float]]:
    n_groups = int(run.options.get("n_groups", 5))
    if run.options.get("importance", False):
        groups = importance_groups(problem.importance, n_groups)
        return groups, group_importance(problem.importance, groups).tolist()
    groups = random_groups(problem.source.X.shape[1], n_groups, seed=run.seed % 2**32)
    return groups, [1 / n_groups] * n_groups


def _linear(w: Floats) -> Score:
    return lambda rows: np.asarray(rows @ w)


def _each(problem: SourceAndTargets, run: Run, fit: Fit) -> Metrics:
    """Tune lambda on every target as printed, then fit and score."""
    alphas = run.options["alphas"]
    scores = []
    for place, target in enumerate(problem.targets):
        seed = seed_of(run, place)

        def fitted(X: Floats, y: Floats, alpha: float, seed: int = seed) -> Score:
            return fit(X, y, alpha, np.random.default_rng(seed))

        X, y = target.train.X, target.train.signs
        alpha = alphas[0]
        if len(alphas) > 1:
            alpha = tuned(fitted, X, y, alphas, np.random.default_rng(seed))
        scores.append(auc(target.test.y, fitted(X, y, alpha)(target.test.X)))
    return {"auc": scores}
