"""Learn a classifier together without giving away your people."""

from confrere.data import PublicSchema
from confrere.estimators import (
    CollaborativeClassifier,
    FeatureStackingClassifier,
    MultipartyClassifier,
    PrivateLogisticRegression,
    PrivateSelection,
    SampleStackingClassifier,
    TransferClassifier,
    TransferStackingClassifier,
)
from confrere.ledger import Ledger
from confrere.privacy import Guarantee

__all__ = [
    "CollaborativeClassifier",
    "FeatureStackingClassifier",
    "Guarantee",
    "Ledger",
    "MultipartyClassifier",
    "PrivateLogisticRegression",
    "PrivateSelection",
    "PublicSchema",
    "SampleStackingClassifier",
    "TransferClassifier",
    "TransferStackingClassifier",
]
