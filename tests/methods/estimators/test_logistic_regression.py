"""Private logistic regression: what it accepts, what it refuses, and what it learns."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import make_classification
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from confrere import PrivateLogisticRegression
from confrere.errors import InvalidParameter
from confrere.estimators import designed

X, Y = make_classification(n_samples=600, n_features=6, n_informative=4, random_state=0)


def generous(**settings):
    common = {"epsilon": 1e6, "data_norm": 20.0, "alpha": 1e-4, "random_state": 0}
    return designed(PrivateLogisticRegression(), **common | settings)


def test_labels_must_be_declared_unless_they_are_zero_and_one():
    words = np.where(Y == 1, "ill", "well")
    with pytest.raises(InvalidParameter, match="classes"):
        PrivateLogisticRegression().fit(X, words)
    model = PrivateLogisticRegression(classes=["well", "ill"]).fit(X, words)
    assert list(model.classes_) == ["ill", "well"]
    assert set(model.predict(X)) <= {"ill", "well"}
    categories = pd.Series(words, dtype=pd.CategoricalDtype(["ill", "well"]))
    assert list(PrivateLogisticRegression().fit(X, categories).classes_) == ["ill", "well"]
    assert list(PrivateLogisticRegression().fit(X, Y == 1).classes_) == [False, True]


def test_without_noise_it_is_scikit_learns_regression():
    model = generous(fit_intercept=False, purpose="inference").fit(X, Y)
    clipped = X / 20.0
    ridge = 1e-4 * len(X)
    reference = LogisticRegression(C=1 / ridge, fit_intercept=False, tol=1e-10, max_iter=10000)
    reference.fit(clipped, Y)
    np.testing.assert_allclose(model.coef_ * 20.0, reference.coef_, rtol=1e-2)


def test_a_kernel_is_a_fixed_public_map():
    """Random Fourier features come from a seed and the number of columns, and from no record."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(6_000, 2))
    inside = (rows**2).sum(axis=1) < 1.4
    phi = RBFSampler(gamma=0.5, n_components=40, random_state=0).fit(np.zeros((1, 2)))
    lifted = phi.transform(rows)
    assert np.linalg.norm(lifted, axis=1).max() <= 1.5
    settings = {"epsilon": 1.0, "random_state": 0}
    flat = PrivateLogisticRegression(**settings, data_norm=3.0).fit(rows, inside)
    bent = PrivateLogisticRegression(**settings, data_norm=1.5).fit(lifted, inside)
    assert roc_auc_score(inside, flat.decision_function(rows)) < 0.65
    assert roc_auc_score(inside, bent.decision_function(lifted)) > 0.85
