"""The choice between an average, one message and rounds: by public facts, and as fits bear out."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from confrere import CollaborativeClassifier
from confrere.planning import choose

DECAY = 0.75


def ways(**facts):
    given = {"sizes": [1000] * 30, "d": 20, "epsilon": 0.5, "base_rate": 0.3, "auc": 0.8}
    return {one.way: one.auc for one in choose(**(given | facts)).expected}


def test_many_parties_without_a_delta_send_one_message():
    choice = choose(sizes=[300] * 100, d=40, epsilon=0.5, base_rate=0.2)
    assert choice.best.way == "one message"
    assert choice.settings == {"method": "sums", "epsilon": 0.5}
    assert "whatever the number of parties" in str(choice)


def test_only_the_average_suffers_from_dealing_records_to_more_parties():
    few, many = (ways(sizes=[30_000 // m] * m, delta=1e-6) for m in (5, 100))
    assert many["average"] < few["average"] - 0.02
    assert many["one message"] == pytest.approx(few["one message"], abs=0.01)
    assert many["rounds"] == pytest.approx(few["rounds"], abs=0.01)


def table(n, d, seed, distance=1.2):
    """Rows of the working model: principal variances that fall, classes apart where rows vary."""
    rng = np.random.default_rng(seed)
    within = np.arange(1, d + 1) ** -DECAY
    mu = distance * np.sqrt(within * within / within.sum())
    y = (rng.random(n) < 0.3).astype(int)
    X = rng.normal(size=(n, d)) * np.sqrt(within) + np.outer(y - 0.3, mu)
    return X, y, float(np.sqrt(within.sum() + 0.21 * mu @ mu))


@pytest.mark.parametrize("settings", [{"method": "average"}, {}, {"delta": 1e-6}], ids=str)
def test_what_is_expected_is_what_fits_reach_on_data_of_the_working_model(settings):
    parties, each, d = 10, 600, 12
    way = settings.get("method") or ("rounds" if settings else "one message")
    reached = []
    for seed in range(8):
        X, y, norm = table(parties * each + 4000, d, seed)
        # An orthogonal turn: columns have no principal direction of their own.
        turn = np.linalg.qr(np.random.default_rng(seed).normal(size=(d, d)))[0]
        X = X @ turn
        model = CollaborativeClassifier(
            **(
                {"method": "sums", "epsilon": 0.5, "data_norm": norm, "random_state": seed}
                | settings
            )
        )
        n = parties * each
        model.fit(X[:n], y[:n], party=np.arange(n) % parties)
        reached.append(roc_auc_score(y[n:], model.decision_function(X[n:])))
    best = 0.8019  # Phi(1.2 / sqrt 2)
    expected = ways(sizes=[each] * parties, d=d, epsilon=0.5, delta=1e-6, auc=best)[way]
    assert expected == pytest.approx(np.mean(reached), abs=0.02)
