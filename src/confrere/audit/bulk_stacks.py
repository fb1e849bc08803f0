"""Stacks, drawn by the thousand: low levels together, then a high level for every one of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from confrere.estimators import SampleStackingClassifier
from confrere.estimators.feature_plan import FeatureStackPlan, low_scores
from confrere.estimators.stack import common_sharpness, high_level_rows
from confrere.mechanisms.noisy_minimiser import run_parties
from confrere.mechanisms.objective_perturbation import ObjectivePerturbation
from confrere.noise.sources import RandomSource
from confrere.rows.ball import into_ball

Floats = NDArray[np.float64]


def sample_feature_stack(
    plan: FeatureStackPlan,
    X: Floats,
    y: Floats,
    centres: Sequence[Floats | None] | None,
    count: int,
    source: RandomSource,
) -> Floats:
    """Return ``count`` runs of :meth:`FeatureStackPlan.run`: all groups' weights, then the high."""
    low_rows, high_rows = plan.parts
    baselines = [plan.rows.baseline(plan.baseline, k) for k in range(len(plan.rows.groups))]
    weights = plan.low.run_many(
        plan.rows(X[low_rows]),
        y[low_rows],
        count=count,
        source=source,
        centres=baselines if centres is None else centres,
    )

    def scores(each: Sequence[Floats]) -> Floats:
        models = [plan._model(w, k, 1.0) for k, w in enumerate(each)]
        return low_scores(models, plan.rows, X[high_rows])

    if plan.high is None:
        return np.hstack(weights)
    high = _high(weights, baselines, scores, plan.high, y[high_rows], plan._high_prior(), source)
    return np.hstack([*weights, high])


def sample_sample_stack(
    model: SampleStackingClassifier, X: Floats, y: Floats, count: int, source: RandomSource
) -> Floats:
    """Return ``count`` runs of the stack over parts of the samples."""
    low, high, parts = model._plan(*X.shape)
    centre = model._low_prior(X.shape[1])
    bounded = np.asarray(into_ball(X, model.data_norm, constant=model.intercept_scale))
    weights = [
        mechanism.run_many(bounded[part], y[part], count=count, source=source, centre=centre)
        for part, mechanism in zip(parts, low, strict=False)
    ]
    if high is None:
        return np.hstack(weights)
    last = parts[-1]

    def scores(each: Sequence[Floats]) -> Floats:
        models = [model._model(k, w, low[k], 1.0) for k, w in enumerate(each)]
        return np.column_stack([one.score(X[last]) for one in models])

    released = _high(
        weights, [centre] * len(weights), scores, high, y[last], model._high_prior(), source
    )
    return np.hstack([*weights, released])


def _high(
    weights: Sequence[Floats],
    baselines: Sequence[Floats],
    scores: Callable[[Sequence[Floats]], Floats],
    mechanism: ObjectivePerturbation,
    y: Floats,
    prior: Floats,
    source: RandomSource,
) -> Floats:
    """Return the high level's release for every run of the low level.

    A score is an affine function of its model's weights, and zero at the baseline's: it is read
    off at every unit vector, and the runs are multiplied through.
    """
    learned = [w - base for w, base in zip(weights, baselines, strict=True)]
    count = len(learned[0])
    runs = np.empty((count, len(y), len(learned)))
    for k, steps in enumerate(learned):
        columns = []
        for unit in np.eye(steps.shape[1]):
            moved = [base + unit if j == k else base for j, base in enumerate(baselines)]
            columns.append(scores(moved)[:, k])
        runs[:, :, k] = steps @ np.array(columns)
    factors = [common_sharpness([steps[i] for steps in learned]) for i in range(count)]
    runs *= np.array(factors)[:, None, None]
    # Every run has rows of its own with the same labels, as if it were another party.
    return run_parties(
        {len(y): mechanism.minimiser},
        high_level_rows(runs.reshape(-1, len(learned))),
        np.tile(y, count),
        len(y) * np.arange(count + 1),
        source=source,
        centre=prior,
    )
