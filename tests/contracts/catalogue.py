"""Every private classifier with the arguments that let it fit small data."""

from __future__ import annotations

from confrere import (
    FeatureStackingClassifier,
    PrivateLogisticRegression,
    SampleStackingClassifier,
)

#: Fast and nearly noiseless: the contracts are about behaviour, not about noise.
GENEROUS = {"epsilon": 1e5, "data_norm": 10.0}

ESTIMATORS = [
    PrivateLogisticRegression(**GENEROUS, alpha=1e-5),
    FeatureStackingClassifier(**GENEROUS, alpha=1e-5, high_alpha=1e-5),
    SampleStackingClassifier(**GENEROUS, n_groups=2, alpha=1e-5, high_alpha=1e-5),
]

CLASSES = [type(estimator) for estimator in ESTIMATORS]
