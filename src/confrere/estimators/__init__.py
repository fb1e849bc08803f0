"""scikit-learn faces: validate, price, charge, call, set state."""

from confrere.estimators.feature_stacking import FeatureStackingClassifier
from confrere.estimators.logistic_regression import PrivateLogisticRegression
from confrere.estimators.sample_stacking import SampleStackingClassifier

__all__ = ["FeatureStackingClassifier", "PrivateLogisticRegression", "SampleStackingClassifier"]
