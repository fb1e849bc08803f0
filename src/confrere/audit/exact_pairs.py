"""The exact loss of a classifier's release between two given data sets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import optimize
from sklearn.base import clone

from confrere.audit.bulk import binary_rows, party_acts, upload_act
from confrere.audit.pairs import Pair
from confrere.errors import InvalidParameter
from confrere.estimators import (
    CollaborativeClassifier,
    FeatureStackingClassifier,
    MultipartyClassifier,
    PrivateLogisticRegression,
    SampleStackingClassifier,
    TransferClassifier,
    TransferStackingClassifier,
)
from confrere.estimators.feature_plan import FeatureStackPlan
from confrere.estimators.labels import declared_classes, encode_labels
from confrere.mechanisms.objective_perturbation import ObjectivePerturbation
from confrere.mechanisms.terms import (
    NoisedPoint,
    PerturbedObjectiveTerm,
    PerturbedSoftmaxTerm,
    Term,
)
from confrere.rows.ball import into_ball

Floats = NDArray[np.float64]

#: Random starting points of the search around each data set's own minimiser.
_STARTS = 40


def loss_on_pair(target: Any, pair: Pair, seed: int) -> float:
    """Return the largest log ratio, over all releases, in the worse direction.

    Releases with noise of their own add up; of one that is a norm around a point the largest
    ratio is known, and for a perturbed objective it is searched for.
    """
    first, second = (_terms(target, data) for data in (pair.first, pair.second))
    totals = [0.0, 0.0]
    for one, other in zip(first, second, strict=True):
        if isinstance(one, NoisedPoint):
            loss = one.loss(other)  # type: ignore[arg-type]
            totals = [total + loss for total in totals]
        else:
            ratios = (_largest(one, other, sign, seed) for sign in (1.0, -1.0))  # type: ignore[arg-type]
            totals = [total + ratio for total, ratio in zip(totals, ratios, strict=True)]
    return max(totals)


def high_level(target: Any, data: Mapping[str, Any]) -> ObjectivePerturbation | None:
    """Return a stack's second mechanism, which learns from rows that no pair can choose."""
    if isinstance(target, SampleStackingClassifier):
        return target._plan(*np.shape(data["X"]))[1]
    if isinstance(target, FeatureStackingClassifier | TransferStackingClassifier):
        return _feature_plan(target, data)[0].high
    return None


def _terms(target: Any, data: Mapping[str, Any]) -> list[Term]:
    """Return what a classifier noises, made by its own scaling, clipping and splits."""
    if isinstance(target, MultipartyClassifier):
        return upload_act(clone(target).set_params(random_state=0), data).terms()
    if isinstance(target, CollaborativeClassifier):
        if target.rounds > 1:
            raise InvalidParameter(
                "rounds: releases that follow one another have no simple density."
            )
        return [term for act in party_acts(target, data) for term in act.terms()]
    if isinstance(target, PrivateLogisticRegression | TransferClassifier):
        return _linear_terms(target, data)
    X, y = binary_rows(target, data)
    if isinstance(target, SampleStackingClassifier):
        low, _, parts = target._plan(*X.shape)
        rows = np.asarray(into_ball(X, target.data_norm, constant=target.intercept_scale))
        centre = target._low_prior(X.shape[1])
        pairs = zip(parts, low, strict=False)
        return [term for part, one in pairs for term in one.terms(rows[part], y[part], centre)]
    plan, centres = _feature_plan(target, data)
    used = plan.parts[0]
    return plan.low.terms(plan.rows(X[used]), y[used], centres)


def _linear_terms(target: Any, data: Mapping[str, Any]) -> list[Term]:
    classes = declared_classes(target.classes, data["y"], simulated=True)
    if len(classes) > 2:
        X = np.asarray(data["X"], dtype=np.float64)
        plan = target._plan(*X.shape, len(classes))
        labels: NDArray[Any] = encode_labels(np.asarray(data["y"]), classes)
    else:
        X, labels = binary_rows(target, data)
        transfer = isinstance(target, TransferClassifier)
        plan = target._plan(*X.shape, target._open_sources() if transfer else 2)
    return list(plan.mechanism.terms(plan.rows(X), labels, plan.centre))


def _feature_plan(target: Any, data: Mapping[str, Any]) -> tuple[FeatureStackPlan, list[Floats]]:
    if isinstance(target, TransferStackingClassifier):
        sources = target._open_sources()
        plan = target._plan(len(data["y"]), sources)
        return plan, target._centres(plan.rows, sources)
    plan = target._plan(*np.shape(data["X"]))
    return plan, [plan.rows.baseline(plan.baseline, k) for k in range(len(plan.rows.groups))]


def _largest(
    first: PerturbedObjectiveTerm | PerturbedSoftmaxTerm,
    second: PerturbedObjectiveTerm | PerturbedSoftmaxTerm,
    sign: float,
    seed: int,
) -> float:
    """Return the largest log ratio, first over second times ``sign``, over weights."""

    def ratio(w: Floats) -> float:
        return sign * (first.log_density(w) - second.log_density(w))

    starts = [first.minimiser(), second.minimiser()]
    generator = np.random.default_rng(seed)
    away = [
        start + 10 ** generator.uniform(-1, 1.5) * generator.normal(size=first.size)
        for start in starts
        for _ in range(_STARTS)
    ]
    candidates = sorted([*starts, *away], key=ratio)[-3:]
    return max(_climb(ratio, start) for start in candidates)


def _climb(ratio: Callable[[Floats], float], start: Floats) -> float:
    def fall(w: Floats) -> float:
        return -ratio(w)

    climbed = optimize.fmin(fall, start, maxiter=200 * len(start), disp=False)
    return max(ratio(np.asarray(climbed)), ratio(start))
