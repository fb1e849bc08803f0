"""Learn a classifier together without giving away your people."""

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
from confrere.guarantee import Guarantee
from confrere.ledger import Ledger
from confrere.schema import PublicSchema

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
