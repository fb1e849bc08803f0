"""The collaborative classifier: a face of the protocols, with one price for every record."""

import numpy as np
import pytest

from confrere import CollaborativeClassifier
from confrere.data.frame import Frame
from confrere_research.as_printed.minimiser import minimise

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 4)) / 3
Y = (X[:, 0] + 0.2 * RNG.normal(size=300) > 0).astype(int)
PARTY = np.repeat(["a", "b", "c"], [150, 100, 50])


def test_it_is_the_weighted_average_of_the_parties_models():
    model = CollaborativeClassifier(1e7, alpha=0.05, purpose="inference", random_state=0)
    model.fit(X, Y, party=PARTY)
    frame = Frame(4)
    labels = np.where(Y > 0, 1.0, -1.0)
    exact = [
        minimise(frame.rows(X[p == PARTY]), labels[p == PARTY], ridge=0.05 * (p == PARTY).sum())
        for p in "abc"
    ]
    coef, intercept = frame.coefficients(np.average(exact, axis=0, weights=[150, 100, 50]))
    np.testing.assert_allclose(model.coef_[0], coef, atol=1e-4)
    assert model.intercept_[0] == pytest.approx(intercept, abs=1e-4)


@pytest.mark.parametrize("combine", ["trimmed", "median"])
def test_a_robust_mean_is_an_option_of_averaging(combine):
    settings = {"epsilon": 5.0, "random_state": 0, "data_norm": 1.5}
    mean = CollaborativeClassifier(**settings).fit(X, Y, party=PARTY)
    robust = CollaborativeClassifier(combine=combine, **settings).fit(X, Y, party=PARTY)
    assert robust.guarantee_ == mean.guarantee_
    assert not np.array_equal(robust.coef_, mean.coef_)
