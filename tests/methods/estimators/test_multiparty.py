"""Many parties: one price per party, faults left out or refused, any local classifier, any size."""

import logging

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

from confrere import Ledger, MultipartyClassifier
from confrere.audit import exact_audit, hardest_case
from confrere.errors import InvalidData, InvalidParameter
from confrere.estimators import designed

RNG = np.random.default_rng(0)
D, M, N = 4, 60, 8
X = RNG.normal(size=(M * N, D)) / 3
Y = (X[:, 0] + 0.5 * X[:, 1] + 0.1 * RNG.normal(size=M * N) > 0).astype(int)
PARTY = np.repeat(np.arange(M), N)
AUXILIARY = RNG.normal(size=(200, D)) / 3
TEST = RNG.normal(size=(400, D)) / 3
TRUTH = (TEST[:, 0] + 0.5 * TEST[:, 1] > 0).astype(int)
METHODS = ["statistic", "cells", "soft", "vote", "weights"]
QUIET = {"epsilon": 1e7, "random_state": 0}


def fit(X=X, y=Y, party=PARTY, auxiliary=AUXILIARY, **kw):
    return designed(MultipartyClassifier(), **kw).fit(X, y, party=party, auxiliary=auxiliary)


@pytest.mark.parametrize("method", METHODS)
def test_many_classes(method):
    labels = np.array(["low", "middle", "top"])
    cuts = np.digitize(X[:, 0], [-0.15, 0.15])
    model = fit(y=labels[cuts], method=method, classes=labels, data_norm=1.5, **QUIET)
    assert model.coef_.shape == (3, D)
    np.testing.assert_allclose(model.coef_.sum(axis=0), 0, atol=1e-2)
    truth = labels[np.digitize(TEST[:, 0], [-0.15, 0.15])]
    # A linear model of three classes along one direction needs its intercepts. Cells cannot see a
    # slope within one cloud of rows: that is where they lose.
    assert model.score(TEST, truth) > (0.7 if method == "cells" else 0.8)
    assert list(model.classes_) == sorted(labels)


def faulty():
    rows, labels = X.copy(), Y.copy()
    rows[3 * N + 2, 1] = np.nan
    labels[7 * N] = 9
    rows[11 * N, 0] = -np.inf
    return rows, labels


WRONG = {
    3: "X has NaN, infinite or non-numeric values",
    7: "y has labels outside classes",
    11: "X has NaN, infinite or non-numeric values",
}


@pytest.mark.parametrize("method", METHODS)
def test_faulty_parties_are_named_and_left_out(method, caplog):
    rows, labels = faulty()
    model = MultipartyClassifier(method=method, classes=[0, 1], **QUIET)
    assert model.faults(rows, labels, party=PARTY) == WRONG
    with caplog.at_level(logging.WARNING, logger="confrere.estimators"):
        model.fit(rows, labels, party=PARTY, auxiliary=AUXILIARY)
    assert "left out 3 of 60 parties: party 3: X has NaN" in caplog.text
    assert model.n_parties_ == M
    assert model.score(TEST, TRUTH) > 0.9
    held = [value for value in vars(model).values() if isinstance(value, dict)]
    assert not any("left" in str(value) or "fault" in str(value) for value in held)


@pytest.mark.parametrize(
    "local",
    [
        DecisionTreeClassifier(max_depth=3, random_state=0),
        lambda name: GaussianNB() if name % 2 else LogisticRegression(),
        [LogisticRegression(C=100.0), DecisionTreeClassifier(random_state=0)] * (M // 2),
    ],
    ids=["one kind", "a rule", "a list"],
)
def test_any_local_classifier_votes(local):
    model = fit(local=local, **QUIET)
    assert model.score(TEST, TRUTH) > 0.9


def test_a_failing_local_classifier_is_a_faulty_party(caplog):
    class Fragile(GaussianNB):
        def fit(self, X, y):
            if X[0, 0] > 0.3:
                raise ArithmeticError("row 1: 0.42")
            return super().fit(X, y)

    with caplog.at_level(logging.WARNING, logger="confrere.estimators"):
        model = fit(local=Fragile(), **QUIET)
    assert "ArithmeticError" in caplog.text
    assert "0.42" not in caplog.text
    assert model.score(TEST, TRUTH) > 0.85
    ledger = Ledger()
    ledger.open_account("study", epsilon=1.0)
    with pytest.raises(InvalidData, match="local classifier failed"):
        fit(local=Fragile(), on_faulty="refuse", budget=ledger)
    with pytest.raises(InvalidData, match="every party's classifier failed"):
        fit(local=LogisticRegression(C=-1.0), budget=ledger)
    assert ledger.spent("study") == 0


def test_private_auxiliary_rows_are_not_quoted():
    rows = AUXILIARY.astype(object)
    rows[3, 2] = "patient 4711"
    with pytest.raises(InvalidData) as caught:
        fit(method="soft", auxiliary_private=True, auxiliary=rows)
    assert "4711" not in str(caught.value)


SUMMED = ("statistic", "cells", "weights")


def make(method, **more):
    settings = {"method": method, "epsilon": 1.0, "classes": [0, 1], "trust": "sum"} | more
    return MultipartyClassifier(**settings)


@pytest.mark.parametrize("method", SUMMED)
def test_the_exact_loss_is_the_claim_and_never_above(method):
    """The law that is counted on is that of the shares of those who do not collude."""
    case = hardest_case(make(method))
    assert 0.97 < exact_audit(case.estimator, case.pairs).epsilon <= 1.0


@pytest.mark.parametrize("reserve", [0, 3])
def test_noise_that_cannot_be_drawn_is_refused_before_anybody_pays(reserve):
    """Whole numbers on a grid of 2^-20: shares of cells have a sensitivity of 2^17."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 2)), rng.integers(0, 2, size=40)
    fit = {"party": np.repeat(np.arange(10), 4), "auxiliary": X[:20]}
    ledger = Ledger()
    ledger.open_account("all", epsilon=1.0, unit="party")
    paying = {"budget": ledger["all"], "max_retries": reserve}
    with pytest.raises(InvalidParameter, match="epsilon is too small"):
        make("cells", epsilon=4e-4 * (1 + reserve), **paying).fit(X, y, **fit)
    assert ledger.entries() == []
    make("cells", epsilon=6e-4 * (1 + reserve), **paying).fit(X, y, **fit)
    assert [entry.state for entry in ledger.entries()] == ["released"]
