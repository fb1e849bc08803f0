"""PrivateSelection: what it charges, what it leaves behind, what it refuses."""

import inspect
import pickle
import re

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.utils.estimator_checks import parametrize_with_checks

from confrere import (
    FeatureStackingClassifier,
    Ledger,
    PrivateLogisticRegression,
    PrivateSelection,
)
from confrere.errors import BudgetExceeded, CompositionError, InvalidData, InvalidParameter
from confrere.ledger import default_ledger

RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 4)) / 4
Y = (X[:, 0] > 0).astype(int)
GRID = {"alpha": [1e-3, 1e-1]}
STRATEGIES = ["parts", "random-stopping"]


@pytest.fixture
def ledger(tmp_path):
    book = Ledger(tmp_path / "budget.ledger")
    book.open_account("study", epsilon=3.0)
    return book


def make(**settings):
    return PrivateSelection(PrivateLogisticRegression(), GRID, **settings)


@pytest.mark.parametrize("strategy", STRATEGIES)
class TestCharging:
    def test_one_entry_pays_for_everything(self, strategy, ledger):
        before = default_ledger().entries()
        model = make(epsilon=0.5, strategy=strategy, ledger=ledger, account="study")
        price = model.price(200, 4)
        assert price.epsilon == 0.5
        assert ledger.spent("study") == 0
        model.fit(X, Y)
        (entry,) = ledger.entries("study")
        assert ledger.spent("study") == 0.5
        assert entry.state == "released"
        assert entry.detail["candidates"] == ["alpha=0.001", "alpha=0.1"]
        assert model.guarantee_ == model.receipt_.guarantee == price
        assert default_ledger().entries() == before

    def test_the_model_is_released_under_the_whole_price_and_pays_again(self, strategy, ledger):
        model = make(epsilon=0.5, strategy=strategy, ledger=ledger, account="study").fit(X, Y)
        best = model.best_estimator_
        assert best.guarantee_ == model.guarantee_
        assert best.receipt_ == model.receipt_
        assert not best.simulated_
        assert best.epsilon < 0.5
        best.fit(X, Y)
        assert ledger.spent("study") == 0.5 + best.epsilon
        clone(best).fit(X, Y)
        assert ledger.spent("study") == pytest.approx(0.5 + 2 * best.epsilon)

    def test_the_cap_holds(self, strategy, ledger):
        model = make(epsilon=2.0, strategy=strategy, ledger=ledger, account="study").fit(X, Y)
        with pytest.raises(BudgetExceeded):
            pickle.loads(pickle.dumps(clone(model))).fit(X, Y)
        assert ledger.spent("study") == 2.0

    def test_a_failure_stays_charged(self, strategy, ledger, monkeypatch):
        def broken(*args, **kwargs):
            raise RuntimeError("the machine caught fire")

        monkeypatch.setattr(PrivateLogisticRegression, "predict_proba", broken)
        with pytest.raises(RuntimeError):
            make(epsilon=0.5, strategy=strategy, ledger=ledger, account="study").fit(X, Y)
        assert [entry.state for entry in ledger.entries("study")] == ["failed"]
        assert ledger.spent("study") == 0.5

    def test_bad_data_cost_nothing(self, strategy, ledger):
        model = make(strategy=strategy, ledger=ledger, account="study")
        for bad_X, bad_y in [(X, Y[:-1]), (X, Y + 7), (np.full_like(X, np.nan), Y), (X[:1], Y[:1])]:
            with pytest.raises(ValueError, match=r"\w"):
                model.fit(bad_X, bad_y)
        assert ledger.spent("study") == 0

    def test_a_seed_is_a_confession_and_repeats(self, strategy):
        first, second = (make(strategy=strategy, random_state=3).fit(X, Y) for _ in range(2))
        assert first.simulated_
        assert first.best_estimator_.simulated_
        np.testing.assert_array_equal(first.decision_function(X), second.decision_function(X))
        free = [make(strategy=strategy).fit(X, Y).decision_function(X) for _ in range(2)]
        assert np.all(free[0] != free[1])

    def test_nothing_about_the_losers_is_left(self, strategy):
        model = make(strategy=strategy, random_state=0).fit(X, Y)
        learned = set(vars(model)) - set(model.get_params(deep=False))
        assert learned == {
            "best_estimator_",
            "best_index_",
            "best_params_",
            "classes_",
            "guarantee_",
            "model_",
            "n_features_in_",
            "receipt_",
            "simulated_",
        }


def test_shares_of_the_budget():
    parts = make(epsilon=1.0, refit_share=0.75)
    assert parts.price(200, 4).epsilon <= 1.0
    fitted = parts.fit(X, Y)
    assert fitted.best_estimator_.epsilon == pytest.approx(0.75)
    assert fitted.receipt_.guarantee.theorem == "docs/proofs/private_selection.md"
    kept = make(epsilon=1.0, refit_share=0.0).fit(X, Y)
    assert kept.best_estimator_.epsilon == 1.0
    stopped = make(epsilon=1.0, strategy="random-stopping", stopping_shape=0.5).fit(X, Y)
    assert stopped.best_estimator_.epsilon == pytest.approx(0.4)
    assert any("how many candidates" in text for text in stopped.guarantee_.assumptions)


def test_parts_are_disjoint_and_blind(monkeypatch):
    seen = []
    prepare = PrivateLogisticRegression.prepare

    def watched(self, rows, labels):
        seen.append({tuple(row) for row in rows})
        return prepare(self, rows, labels)

    monkeypatch.setattr(PrivateLogisticRegression, "prepare", watched)
    make(refit_share=0.0).fit(X, Y)
    assert [len(rows) for rows in seen] == [80, 80]
    assert not seen[0] & seen[1]
    first = list(seen)
    seen.clear()
    make(refit_share=0.0).fit(X, 1 - Y)
    assert seen == first


def test_labels_and_frames():
    import pandas as pd

    frame = pd.DataFrame(X, columns=list("abcd"))
    model = make(classes=["no", "yes"]).fit(frame, np.where(Y, "yes", "no"))
    assert list(model.classes_) == ["no", "yes"]
    assert set(model.predict(frame)) <= {"no", "yes"}
    assert model.predict_proba(frame).shape == (200, 2)
    three = make(classes=[0, 1, 2]).fit(X, np.arange(200) % 3)
    assert three.predict_proba(X).shape == (200, 3)


def test_the_release_carries_the_selections_price():
    model = make(epsilon=2.0).fit(X, Y)
    assert model.to_release().card.to_dict() == model.best_estimator_.to_release().card.to_dict()
    assert "2-DP" in str(model.guarantee_)


@pytest.mark.parametrize(
    "bad",
    [
        {"epsilon": 0},
        {"strategy": "cross-validation"},
        {"held_out": 1.0},
        {"refit_share": 1.0},
        {"rule": "argmax"},
        {"grid": {"epsilon": [1.0, 2.0]}},
        {"grid": {"random_state": [1]}},
        {"grid": []},
        {"strategy": "random-stopping", "stopping_shape": -1.0},
        {"strategy": "random-stopping", "expected_runs": 1.0},
        {"estimator": LogisticRegression()},
        {"ledger": "budget"},
    ],
    ids=str,
)
def test_wrong_settings_are_refused(bad):
    with pytest.raises(InvalidParameter):
        make().set_params(**bad).fit(X, Y)


def test_guarantees_that_do_not_compose_are_refused():
    loose = PrivateLogisticRegression(neighbours="add-remove", declared_samples=200)
    with pytest.raises(CompositionError):
        PrivateSelection(loose, GRID).fit(X, Y)
    labels = PrivateSelection(PrivateLogisticRegression(neighbours="label-only"), GRID).fit(X, Y)
    assert labels.guarantee_.neighbours == "label-only"


def test_stacks_can_be_chosen_and_need_enough_rows():
    search = PrivateSelection(FeatureStackingClassifier(), {"n_groups": [1, 2]}, random_state=0)
    assert search.fit(X, Y).best_params_["n_groups"] in (1, 2)
    with pytest.raises(InvalidData):
        PrivateSelection(PrivateLogisticRegression(), {"alpha": list(range(1, 30))}).price(20, 4)


def test_it_states_its_price():
    section = inspect.getdoc(PrivateSelection).split("**Privacy**\n\n")[1]
    for field in ("Unit", "Neighbours", "Guarantee", "Spends", "Public", "Releases", "Proof"):
        assert re.search(rf"^:{field}: \S", section, flags=re.MULTILINE), field


GENEROUS = PrivateLogisticRegression(data_norm=10.0, alpha=1e-5)


@parametrize_with_checks(
    [
        PrivateSelection(GENEROUS, {"alpha": [1e-5, 1e-4]}, epsilon=1e5, random_state=0),
    ]
)
def test_scikit_learn_check(estimator, check):
    check(estimator)


@pytest.mark.parametrize(("old", "new"), [("method", "strategy"), ("eta", "stopping_shape")])
def test_an_old_name_of_a_parameter_names_the_new_one(old, new):
    with pytest.raises(TypeError, match=f"no parameter '{old}'; it is called '{new}'"):
        make(**{old: "parts"})
    with pytest.raises(TypeError, match=f"no parameter '{old}'; it is called '{new}'"):
        make().set_params(**{old: "parts"})
    assert new in inspect.signature(PrivateSelection).parameters
