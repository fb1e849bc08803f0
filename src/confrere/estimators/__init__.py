"""scikit-learn faces: validate, price, charge, call, set state."""

from confrere.estimators.collaborative import CollaborativeClassifier
from confrere.estimators.feature_stacking import FeatureStackingClassifier
from confrere.estimators.logistic_regression import PrivateLogisticRegression
from confrere.estimators.multiparty import MultipartyClassifier
from confrere.estimators.released_classifier import ReleasedClassifier
from confrere.estimators.sample_stacking import SampleStackingClassifier
from confrere.estimators.transfer import TransferClassifier, fit_branches
from confrere.estimators.transfer_stacking import TransferStackingClassifier

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
