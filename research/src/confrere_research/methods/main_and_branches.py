"""Methods for a main organisation and its branches; each gives one AUC per branch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression

from confrere.arrays import Floats
from confrere.data.grouping import importance_groups
from confrere.estimators import (
    CollaborativeClassifier,
    FeatureStackingClassifier,
    PrivateLogisticRegression,
    TransferClassifier,
    TransferStackingClassifier,
    designed,
)
from confrere_research.methods.one_party import unit
from confrere_research.methods.run import Run, auc
from confrere_research.problems.shapes import Rows, SourceAndTargets, Split
from confrere_research.spec import derived_seed

Metrics = dict[str, float | list[float]]
#: Seeds of the source's noise and of the targets' must differ.
SOURCE = "source"


def direct(problem: SourceAndTargets, run: Run) -> Metrics:
    """Every branch alone: PLR on the target (Direct, PLR(target))."""
    options, see, norm = _linear(problem, run)

    def fit(place: int, target: Split) -> Any:
        seed = seed_of(run, place)
        model = PrivateLogisticRegression(epsilon=run.budget, data_norm=norm, random_state=seed)
        return designed(model, **options).fit(see(target.train.X), target.train.y)

    return _each(problem, fit, see)


def source_only(problem: SourceAndTargets, run: Run) -> Metrics:
    """Use the source's PLR as it is (SourceD)."""
    options, see, norm = _linear(problem, run)
    model = _source_model(problem.source, run, options, see, norm)
    return _each(problem, lambda _place, _target: model, see)


def simcomb(problem: SourceAndTargets, run: Run) -> Metrics:
    """PLR on the target that shrinks towards the source's (SimComb, PPHTL)."""
    options, see, norm = _linear(problem, run)
    eta = options.pop("eta", 0.0)
    source = _source_model(problem.source, run, options, see, norm).to_release()
    for known in (
        "prior",
        "prior_intercept",
        "purpose",
    ):  # They cross with the source, or are capped.
        options.pop(known, None)

    def fit(place: int, target: Split) -> Any:
        model = TransferClassifier(
            source=source,
            eta=eta,
            epsilon=run.budget,
            data_norm=norm,
            random_state=seed_of(run, place),
        )
        return designed(model, **options).fit(see(target.train.X), target.train.y)

    return _each(problem, fit, see)


def pst_h(problem: SourceAndTargets, run: Run) -> Metrics:
    """Stacks over groups of features that shrink towards the source's (PST-H, PPTL-FS)."""
    options = dict(run.options)
    apart = options.pop("clipping", "joint") == "separate"
    to_one = options.pop("rows", "clip") == "unit"
    purpose = options.pop("purpose", "prediction")
    importance = problem.importance if options.pop("importance", False) else None
    n_groups, groups = int(options.pop("n_groups", 5)), None
    if apart:
        groups = importance_groups(problem.importance, n_groups)

    def see(X: Floats) -> Floats:
        """Return the rows, or the groups of them, of length one if they shall be so."""
        seen = X.copy()
        for group in (groups or [np.arange(X.shape[1])]) if to_one else ():
            seen[:, group] = unit(X[:, group])
        return seen

    source = designed(
        FeatureStackingClassifier(
            epsilon=run.budget,
            data_norm=1.0 if to_one else problem.norm,
            n_groups=n_groups,
            groups=groups,
            importance=importance,
            # A vote leaves all rows to the low level; what the high level learned crosses, too.
            combiner=options.pop("combiner", "vote"),
            purpose=purpose,
            prior=_expert(problem, options.pop("expert", None)),
            random_state=seed_of(run, SOURCE),
        ),
        clipping="separate" if apart else "joint",
        prior_intercept=problem.base_log_odds if options.pop("base_rate", False) else 0.0,
    )
    release = source.fit(see(problem.source.X), problem.source.y).to_release()

    def fit(place: int, target: Split) -> Any:
        model = TransferStackingClassifier(
            source=release, epsilon=run.budget, purpose=purpose, random_state=seed_of(run, place)
        )
        return designed(model, **options).fit(see(target.train.X), target.train.y)

    return _each(problem, fit, see)


def average(problem: SourceAndTargets, run: Run) -> Metrics:
    """One release per centre, averaged; every centre uses the average."""
    options, see, norm = _linear(problem, run)
    centres = [problem.source, *(target.train for target in problem.targets)]
    model = CollaborativeClassifier(epsilon=run.budget, data_norm=norm, random_state=run.seed)
    designed(model, **options).fit(
        see(np.vstack([centre.X for centre in centres])),
        np.concatenate([centre.y for centre in centres]),
        party=np.repeat(np.arange(len(centres)), [len(centre) for centre in centres]),
    )
    return _each(problem, lambda _place, _target: model, see)


def expert(problem: SourceAndTargets, run: Run) -> Metrics:  # noqa: ARG001
    """Score what experts expect, without any data."""
    direction = _expert(problem, 1.0)
    assert direction is not None
    return {"auc": [auc(t.test.y, t.test.X @ direction) for t in problem.targets]}


def alone(problem: SourceAndTargets, run: Run) -> Metrics:
    """Every branch's own logistic regression, without privacy."""
    return _each(problem, lambda _place, target: _clear(run).fit(target.train.X, target.train.y))


def pooled(problem: SourceAndTargets, run: Run) -> Metrics:
    """One logistic regression on everybody's rows, without privacy."""
    centres = [problem.source, *(target.train for target in problem.targets)]
    model = _clear(run).fit(
        np.vstack([centre.X for centre in centres]), np.concatenate([c.y for c in centres])
    )
    return _each(problem, lambda _place, _target: model)


def seed_of(run: Run, place: object) -> int:
    """Return the seed of one organisation's noise."""
    return derived_seed(run.seed, place)


def _clear(run: Run) -> LogisticRegression:
    return LogisticRegression(C=run.options.get("C", 10.0), max_iter=1000)


def _source_model(
    source: Rows, run: Run, options: dict[str, Any], see: Callable[[Floats], Floats], norm: float
) -> PrivateLogisticRegression:
    seed = seed_of(run, SOURCE)
    model = PrivateLogisticRegression(epsilon=run.budget, data_norm=norm, random_state=seed)
    return designed(model, **options).fit(see(source.X), source.y)


def _linear(
    problem: SourceAndTargets, run: Run
) -> tuple[dict[str, Any], Callable[[Floats], Floats], float]:
    """Return a linear model's options, what it sees of a row, and the bound of that.

    ``columns`` keeps the first ones, ``rows="unit"`` gives rows length one, ``base_rate`` starts
    the intercept from the declared base rate, ``expert`` the weights from the experts.
    """
    options = dict(run.options)
    if "expert" in options:
        options["prior"] = _expert(problem, options.pop("expert"))
    columns = options.pop("columns", None)
    unit = options.pop("rows", "clip") == "unit"
    if options.pop("base_rate", False):
        options["prior_intercept"] = problem.base_log_odds

    def see(X: Floats) -> Floats:
        kept = X[:, :columns]
        if not unit:
            return kept
        return np.asarray(kept / np.maximum(np.linalg.norm(kept, axis=1, keepdims=True), 1e-12))

    return options, see, 1.0 if unit else problem.norm


def _expert(problem: SourceAndTargets, strength: float | str | None) -> Floats | None:
    """Return what experts expect, as weights: so many times a unit vector, or "log odds"."""
    if strength is None:
        return None
    if problem.expert is None:
        raise ValueError("the problem declares no expert.")
    return problem.expert_prior if isinstance(strength, str) else strength * problem.expert


def _each(
    problem: SourceAndTargets,
    fit: Callable[[int, Split], Any],
    see: Callable[[Floats], Floats] = lambda X: X,
) -> Metrics:
    return {
        "auc": [
            auc(target.test.y, fit(place, target).decision_function(see(target.test.X)))
            for place, target in enumerate(problem.targets)
        ]
    }
