"""Many small parties on real data; collected only where CONFRERE_DATA says where they lie."""

import numpy as np
import pytest

from confrere import MultipartyClassifier
from confrere.estimators import designed
from confrere_research.loaders import load_mnist
from confrere_research.projections import PublicPCA

M, SIZE = 1000, 9


@pytest.fixture(scope="module")
def digits():
    """Noughts and eights of a thousand parties, in components of the other eight digits."""
    data = load_mnist(digits=(0, 8))
    others = load_mnist(digits=(1, 2, 3, 4, 5, 6, 7, 9))
    projection = PublicPCA(others.train.X, 50).fit(data.train.X[:1])
    rows, test = (projection.transform(part.X) for part in (data.train, data.test))
    order = np.random.default_rng(0).permutation(len(rows))
    own, public = order[: M * SIZE], order[M * SIZE :]
    return rows[own], data.train.y[own], rows[public], test, data.test.y


def accuracy(digits, seeds=4, kind=MultipartyClassifier, **settings):
    X, y, auxiliary, X_test, y_test = digits
    party = np.repeat(np.arange(M), SIZE)
    scores = [
        designed(kind(random_state=seed), **settings)
        .fit(X, y, party=party, auxiliary=auxiliary)
        .score(X_test, y_test)
        for seed in range(seeds)
    ]
    return float(np.mean(scores))


@pytest.mark.parametrize(
    ("settings", "at_a_tenth", "at_one"),
    [
        ({}, 0.885, 0.95),
        ({"method": "weights"}, 0.85, 0.95),
        ({"method": "weights", "normalise": True}, 0.865, 0.95),
        ({"method": "soft"}, 0.70, 0.93),
    ],
    ids=str,
)
def test_a_thousand_parties_learn_privately(digits, settings, at_a_tenth, at_one):
    # At a tenth one draw differs from another by .05: the limits are three standard errors of
    # twelve draws below the means of thirty (.924, .907, .917).
    assert accuracy(digits, seeds=12, epsilon=0.1, **settings) >= at_a_tenth
    assert accuracy(digits, epsilon=1.0, **settings) >= at_one
