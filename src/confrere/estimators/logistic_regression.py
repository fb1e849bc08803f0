"""Private logistic regression (PLR), on tables and sources of any size, by whatever engine."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike

from confrere.estimators.base import (
    Bound,
    Declared,
    Delta,
    Epsilon,
    Experts,
    Levels,
    LinearClassifier,
    Positive,
    Ridges,
    RowEngine,
    estimator,
)
from confrere.methods.geometry import Noise


@estimator
class PrivateLogisticRegression(LinearClassifier):
    """Private logistic regression by objective perturbation (PLR, Algorithm 1).

    Parameters
    ----------
    alpha : float, "auto" or array of shape (n_features,), default="auto"
        Ridge on the mean loss (the papers' lambda). ``"auto"`` is a public rule of epsilon, delta,
        n_samples and n_features. One number per column, as it is learned from: what is shrunk more
        has less noise. The intercept has the smallest of them; where that is raised to the floor,
        all are.
    neighbours : {"replace-one", "add-remove"}, default="replace-one"
        Which change of the data is hidden. ``"add-remove"`` does not take the number of rows to
        be public and needs ``declared_samples``.
    ridge_floor : float, default=2.0
        The summed ridge is at least ``ridge_floor / epsilon``; at 2 the Jacobian costs nothing
        (with delta, next to nothing). The automatic ridge of more than two classes is at least ten
        times that.
    engine : {"loop", "joblib", "dask"}, str or engine, optional
        Who reads the rows: one partition after the other (the default), threads, a Dask cluster on
        this machine, or the address of a scheduler such as ``"tcp://host:8786"``. The bits of the
        result do not depend on it.

    Notes
    -----
    **Privacy**

    :Unit: record
    :Neighbours: ``neighbours``; by default replace one row of ``(X, y)``
    :Guarantee: ``epsilon``-DP, pure; ``(epsilon, delta)``-DP if ``delta`` is set
    :Spends: ``epsilon`` and ``delta`` on ``account``, once per ``fit``, before noise is drawn
    :Public: n_samples, n_features, the label set, every parameter
    :Releases: ``coef_``, ``intercept_``
    :Proof: docs/proofs/objective_perturbation.md and, for ``delta``, docs/proofs/gaussian.md; for
        noise that is shaped by a schema docs/proofs/geometry.md

    Examples
    --------
    >>> from confrere import PrivateLogisticRegression
    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(n_samples=2000, random_state=0)
    >>> model = PrivateLogisticRegression(epsilon=1.0, data_norm=5.0, random_state=0).fit(X, y)
    >>> print(model.guarantee_)
    1-DP per record (replace-one)
    """

    epsilon: Epsilon = 1.0
    delta: Delta = 0.0
    data_norm: Bound = 1.0
    alpha: Ridges = "auto"
    fit_intercept: bool = True
    intercept_scale: float = 0.4
    neighbours: Literal["replace-one", "add-remove"] = "replace-one"
    loss: Literal["capped", "logistic"] = "capped"
    ridge_floor: Positive = 2.0
    prior: Experts = "auto"
    prior_check: bool = True
    prior_intercept: Levels = 0.0
    noise: Noise = "auto"
    feature_scale: ArrayLike | None = None
    declared_samples: Declared = None
    engine: RowEngine = None

    _dtype: ClassVar[Any] = [np.float64, np.float32]
    _kind = "plr"
