"""scikit-learn faces: validate, price, charge, call, set state."""

from confrere.estimators.collaborative import CollaborativeClassifier
from confrere.estimators.logistic_regression import PrivateLogisticRegression
from confrere.estimators.multiparty import MultipartyClassifier
from confrere.estimators.stacking import (
    FeatureStackingClassifier,
    SampleStackingClassifier,
    TransferStackingClassifier,
)
from confrere.estimators.transfer import ReleasedClassifier, TransferClassifier, fit_branches

__all__ = [
    "CollaborativeClassifier",
    "FeatureStackingClassifier",
    "MultipartyClassifier",
    "PrivateLogisticRegression",
    "ReleasedClassifier",
    "SampleStackingClassifier",
    "TransferClassifier",
    "TransferStackingClassifier",
    "fit_branches",
]
