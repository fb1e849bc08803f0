"""Nobody spends for free: clone, cross-validation, searches, workers, threads and processes."""

import pickle
from contextlib import nullcontext

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score

from confrere import Guarantee, Ledger, PrivateLogisticRegression
from confrere.errors import BudgetExceeded, PrivacyWarning
from confrere.kernel import release
from tests.contracts.catalogue import MAKERS, X, Y


@pytest.fixture
def ledger(tmp_path, request):
    """Return a ledger whose account counts what the estimator, if there is one, promises."""
    book = Ledger(tmp_path / "budget.ledger")
    has_one = "estimator" in request.fixturenames
    estimator = request.getfixturevalue("estimator") if has_one else None
    counts = Guarantee(1.0) if estimator is None else estimator(epsilon=1.0).privacy_cost(200, 6)
    book.open_account(
        "study", epsilon=3.0, delta=1e-3, unit=counts.unit, neighbours=counts.neighbours
    )
    return book


@pytest.mark.parametrize("estimator", MAKERS.values(), ids=MAKERS)
class TestEveryEstimator:
    def test_a_fit_costs_its_price_and_clones_pay_too(self, estimator, ledger):
        model = estimator(epsilon=0.5, budget=ledger["study"])
        assert model.privacy_cost(200, 6).epsilon == 0.5
        assert ledger.spent("study") == 0
        model.fit(X, Y)
        clone(model).fit(X, Y)
        pickle.loads(pickle.dumps(clone(model))).fit(X, Y)
        assert ledger.spent("study") == 1.5
        assert model.receipt_.guarantee == model.guarantee_
        assert [entry.state for entry in ledger.entries("study")] == ["released"] * 3

    def test_workers_reach_the_same_file(self, estimator, ledger):
        model = estimator(epsilon=0.25, budget=ledger["study"])
        with pytest.warns(PrivacyWarning, match=r"5 times.*epsilon 1\.25 in all"):
            cross_val_score(model, X, Y, cv=5, n_jobs=2)
        assert ledger.spent("study") == 1.25
        assert ledger.verify()

    def test_the_cap_stops_a_fit_before_anything_is_drawn(self, estimator, ledger, monkeypatch):
        model = estimator(epsilon=2.0, budget=ledger["study"]).fit(X, Y)
        coefficients = pickle.dumps(model.__dict__.get("coef_"))
        drawn = []
        words = release._Drawn._words
        monkeypatch.setattr(
            release._Drawn, "_words", lambda self, count: drawn.append(count) or words(self, count)
        )
        with pytest.raises(BudgetExceeded) as caught:
            model.fit(X, Y)
        assert not drawn
        assert (caught.value.asked, caught.value.left) == (2.0, 1.0)
        assert ledger.spent("study") == 2.0
        assert pickle.dumps(model.__dict__.get("coef_")) == coefficients

    def test_a_failure_after_the_charge_stays_charged(self, estimator, ledger, monkeypatch):
        from confrere.kernel import measurements
        from confrere.kernel.measurements import SecureSum, Share

        def broken(*args, **kwargs):
            raise RuntimeError("the machine caught fire")

        monkeypatch.setattr(measurements, "certified", broken)
        monkeypatch.setattr(measurements.Point, "noised", broken)
        for law in (SecureSum, Share):
            monkeypatch.setattr(law, "sample", broken)
        with pytest.raises(RuntimeError):
            estimator(epsilon=0.5, budget=ledger["study"]).fit(X, Y)
        assert ledger.spent("study") == 0.5
        assert [entry.state for entry in ledger.entries("study")] == ["failed"]

    def test_two_fits_never_share_noise(self, estimator):
        first, second = (estimator(epsilon=1.0).fit(X, Y) for _ in range(2))
        difference = first.decision_function(X) - second.decision_function(X)
        assert np.all(difference != 0)
        assert not first.simulated_


@pytest.mark.parametrize(("n_jobs", "seed"), [(None, None), (2, 0)])
def test_a_search_that_the_cap_does_not_cover_spends_nothing(ledger, n_jobs, seed):
    model = PrivateLogisticRegression(epsilon=0.5, budget=ledger["study"], random_state=seed)
    told = pytest.warns(PrivacyWarning) if seed is None else nullcontext()
    search = GridSearchCV(model, {"alpha": [1e-2, 1e-1, 1]}, cv=2, n_jobs=n_jobs)
    with told, pytest.raises(BudgetExceeded) as caught:
        search.fit(X, Y)
    assert (caught.value.asked, caught.value.left, caught.value.currency) == (3.5, 3.0, "epsilon")
    for validate in (cross_val_score, cross_val_predict):
        with told, pytest.raises(BudgetExceeded) as caught:
            validate(model, X, Y, cv=7, n_jobs=n_jobs)
        assert caught.value.asked == 3.5
    assert ledger.count() == 0
