"""Every private classifier with the arguments that let it fit small data."""

from __future__ import annotations

from functools import cache

import numpy as np

from confrere import (
    CollaborativeClassifier,
    FeatureStackingClassifier,
    MultipartyClassifier,
    PrivateLogisticRegression,
    SampleStackingClassifier,
    TransferClassifier,
    TransferStackingClassifier,
)
from confrere.catalogue import CATALOGUE

RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 6)) / 4
Y = (X[:, 0] > 0).astype(int)
AUXILIARY = RNG.normal(size=(150, 6)) / 4

#: Fast and nearly noiseless: scikit-learn's checks are about behaviour, not about noise.
GENEROUS = {"epsilon": 1e5, "data_norm": 10.0}

#: What scikit-learn's own checks run on. The transfer classes are not among them: they refuse data
#: whose columns are not the source's, and the checks fit all kinds of columns. Of the multiparty
#: methods only the average needs no auxiliary rows, which the checks do not give.
CHECKED = [
    PrivateLogisticRegression(**GENEROUS, alpha=1e-5),
    PrivateLogisticRegression(**GENEROUS, alpha=1e-5, delta=1e-6),
    FeatureStackingClassifier(**GENEROUS, alpha=1e-5, high_alpha=1e-5),
    SampleStackingClassifier(**GENEROUS, n_groups=2, alpha=1e-5, high_alpha=1e-5),
    CollaborativeClassifier(**GENEROUS, alpha=1e-5),
    CollaborativeClassifier(**GENEROUS, alpha=1e-5, method="ofaa"),
    MultipartyClassifier(**GENEROUS, method="average", on_faulty="refuse"),
]


class Voting(MultipartyClassifier):
    """Parties that vote on rows which everyone knows."""

    def fit(self, X, y):
        return super().fit(X, y, auxiliary=AUXILIARY)


@cache
def linear_source():
    return PrivateLogisticRegression(epsilon=1.0).fit(X, Y).to_release()


@cache
def stacked_source():
    return FeatureStackingClassifier(epsilon=1.0, n_groups=2).fit(X, Y).to_release()


#: Makers of estimators that fit ``X`` and ``Y`` above.
MAKERS = {
    "CollaborativeClassifier": CollaborativeClassifier,
    "MultipartyClassifier": lambda **kw: Voting(on_faulty="refuse", **kw),
    "MultipartyClassifier, average": lambda **kw: MultipartyClassifier(
        method="average", on_faulty="refuse", **kw
    ),
    "PrivateLogisticRegression": PrivateLogisticRegression,
    "PrivateLogisticRegression, Gaussian": lambda **kw: PrivateLogisticRegression(delta=1e-6, **kw),
    "FeatureStackingClassifier": FeatureStackingClassifier,
    "SampleStackingClassifier": SampleStackingClassifier,
    "TransferClassifier": lambda **kw: TransferClassifier(source=linear_source(), **kw),
    "TransferStackingClassifier": lambda **kw: TransferStackingClassifier(
        source=stacked_source(), **kw
    ),
}

#: The classes of the catalogue that spend, each once.
CLASSES = sorted(
    {method.estimator for method in CATALOGUE.values() if method.proof is not None},
    key=lambda cls: cls.__name__,
)
