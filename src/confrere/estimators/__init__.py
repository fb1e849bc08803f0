"""scikit-learn faces: validate, price, charge, call, set state."""

from confrere.estimators.alone import (
    FeatureStackingClassifier,
    PrivateLogisticRegression,
    ReleasedClassifier,
    SampleStackingClassifier,
    TransferClassifier,
    TransferStackingClassifier,
)
from confrere.estimators.base import designed
from confrere.estimators.together import CollaborativeClassifier, MultipartyClassifier

__all__ = [
    "CollaborativeClassifier",
    "FeatureStackingClassifier",
    "MultipartyClassifier",
    "PrivateLogisticRegression",
    "ReleasedClassifier",
    "SampleStackingClassifier",
    "TransferClassifier",
    "TransferStackingClassifier",
    "designed",
]
