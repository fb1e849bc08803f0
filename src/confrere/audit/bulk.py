"""Estimators whose releases can be drawn by the thousand from one pass over the data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confrere.audit.function import Sample
from confrere.estimators import PrivateLogisticRegression
from confrere.estimators.labels import declared_classes, encode_labels, plus_minus
from confrere.maths.randomness import SeededSource
from confrere.mechanisms.repeated import repeat_objective


def bulk_sampler(estimator: Any) -> Sample | None:
    """Return a sampler of the estimator's own mechanism on its own rows, if there is one."""
    if not isinstance(estimator, PrivateLogisticRegression):
        return None
    if estimator.classes is not None and np.size(estimator.classes) > 2:
        return None
    return LogisticSampler(estimator)


@dataclass(frozen=True)
class LogisticSampler:
    """Private logistic regression: what ``fit`` computes, with everything but the noise shared.

    The estimator's own scaling, clipping and calibration are called, so that a fault in them is
    heard; the released weights are those on the unit ball, of which ``coef_`` is a public multiple.
    """

    estimator: PrivateLogisticRegression

    def __call__(
        self, data: Mapping[str, Any], count: int, generator: np.random.Generator
    ) -> NDArray[np.float64]:
        """Return ``(count, d)`` released weights."""
        model = self.estimator
        X = np.asarray(data["X"], dtype=np.float64)
        classes = declared_classes(model.classes, data["y"], simulated=True)
        labels = plus_minus(encode_labels(np.asarray(data["y"]), classes))
        n_samples, n_features = X.shape
        plan = model._plan(n_samples, n_features, 2)
        return repeat_objective(
            plan.mechanism,
            np.asarray(plan.rows(X)),
            labels,
            count=count,
            source=SeededSource(generator),
            centre=plan.centre,
        )
