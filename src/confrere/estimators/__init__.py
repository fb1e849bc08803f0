"""scikit-learn faces: validate, price, charge, call, set state."""

from confrere.estimators.base import designed
from confrere.estimators.classifiers import (
    CollaborativeClassifier,
    FeatureStackingClassifier,
    MultipartyClassifier,
    PrivateLogisticRegression,
    ReleasedClassifier,
    SampleStackingClassifier,
    TransferClassifier,
    TransferStackingClassifier,
)

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
