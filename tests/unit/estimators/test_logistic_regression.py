"""Private logistic regression: what it accepts, what it refuses, and what it learns."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.datasets import make_classification
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from confrere import Ledger, PrivateLogisticRegression
from confrere.errors import ConfrereError, InvalidData, InvalidParameter
from confrere.methods import PublicFacts
from confrere.methods.allowance import intercept_of

X, Y = make_classification(n_samples=600, n_features=6, n_informative=4, random_state=0)
SECRET = 987654.321


def facts(n_samples, n_features):
    return PublicFacts(n_samples=n_samples, n_features=n_features)


def generous(**settings):
    return PrivateLogisticRegression(
        **{"epsilon": 1e6, "data_norm": 20.0, "alpha": 1e-4, "random_state": 0} | settings
    )


@pytest.mark.parametrize("bad", [0, -1, math.nan, math.inf, True, "1", None])
def test_bad_epsilon(bad):
    ledger = Ledger()
    with pytest.raises(InvalidParameter, match="epsilon"):
        PrivateLogisticRegression(epsilon=bad, ledger=ledger).fit(X, Y)
    assert ledger.entries() == []


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        ("data_norm", 0),
        ("data_norm", -1.0),
        ("data_norm", math.inf),
        ("alpha", 0),
        ("alpha", math.nan),
        ("alpha", "big"),
        ("delta", -1e-6),
        ("delta", 1.0),
        ("delta", 1e-2),
        ("delta", 1e-13),
        ("delta", math.nan),
        ("delta", True),
        ("delta", "1e-6"),
        ("delta", None),
        ("ridge_floor", 0),
        ("intercept_scale", 1.0),
        ("loss", "squared"),
        ("neighbours", "all"),
        ("neighbours", "add-remove"),
        ("classes", [0]),
        ("classes", [0, 0, 1]),
        ("prior", [1.0]),
        ("prior", [math.nan] * 6),
        ("prior_intercept", math.inf),
        ("feature_scale", [1.0] * 5),
        ("feature_scale", [-1.0] * 6),
        ("ledger", "budget.ledger"),
        ("random_state", -3),
    ],
)
def test_bad_settings_are_named_and_cost_nothing(name, bad):
    ledger = Ledger()
    model = PrivateLogisticRegression(ledger=ledger).set_params(**{name: bad})
    expected = "declared_samples" if bad == "add-remove" else name
    with pytest.raises(InvalidParameter, match=expected):
        model.fit(X, Y)
    assert ledger.entries() == []


def test_errors_never_print_a_value():
    frame = pd.DataFrame(X).astype(object)
    frame.iloc[3, 2] = f"patient {SECRET}"
    labels = np.where(np.arange(len(Y)) == 5, SECRET, Y)
    text_labels = np.where(np.arange(len(Y)) == 5, f"person {SECRET}", Y.astype(str))
    for rows, y, settings in [
        (frame, Y, {}),
        (X, labels, {}),
        (X, labels, {"classes": [0, 1]}),
        (X, text_labels, {"classes": ["0", "1"]}),
        (X, text_labels, {}),
    ]:
        with pytest.raises((ConfrereError, ValueError)) as caught:
            PrivateLogisticRegression(**settings).fit(rows, y)
        assert str(SECRET) not in str(caught.value)
        assert caught.value.__cause__ is None


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


def test_one_class_in_the_data_is_no_event():
    model = PrivateLogisticRegression(classes=[0, 1], epsilon=100.0).fit(X, np.ones(len(X)))
    assert list(model.classes_) == [0, 1]
    assert model.predict(X).mean() > 0.9
    three = PrivateLogisticRegression(classes=[0, 1, 2]).fit(X, np.ones(len(X)))
    assert three.coef_.shape == (3, 6)


def test_without_noise_it_is_scikit_learns_regression():
    model = generous(fit_intercept=False, loss="logistic").fit(X, Y)
    clipped = X / 20.0
    ridge = 1e-4 * len(X)
    reference = LogisticRegression(C=1 / ridge, fit_intercept=False, tol=1e-10, max_iter=10000)
    reference.fit(clipped, Y)
    np.testing.assert_allclose(model.coef_ * 20.0, reference.coef_, rtol=1e-2)


def test_intercept_is_a_feature_inside_the_bound():
    shifted = X + 1.0
    model = generous(intercept_scale=0.4, loss="logistic").fit(shifted, Y)
    rows = np.hstack([shifted * math.sqrt(1 - 0.16) / 20.0, np.full((len(X), 1), 0.4)])
    reference = LogisticRegression(C=1 / (1e-4 * len(X)), fit_intercept=False, tol=1e-10)
    reference.fit(rows, Y)
    np.testing.assert_allclose(
        model.decision_function(shifted), reference.decision_function(rows), atol=0.05
    )


def test_pandas_names_and_sparse_rows():
    frame = pd.DataFrame(X, columns=list("abcdef"))
    named = generous().fit(frame, Y)
    assert list(named.feature_names_in_) == list("abcdef")
    dense = generous().fit(X, Y)
    csr = generous().fit(sparse.csr_array(X), Y)
    np.testing.assert_allclose(csr.coef_, dense.coef_, atol=1e-4)
    np.testing.assert_allclose(csr.predict_proba(sparse.csr_array(X)), csr.predict_proba(X))
    scale = np.linspace(0.5, 2, 6)
    np.testing.assert_allclose(
        generous(feature_scale=scale).fit(sparse.csr_array(X), Y).coef_,
        generous(feature_scale=scale).fit(X, Y).coef_,
        atol=1e-4,
    )


def test_a_column_with_factor_zero_has_weight_zero():
    scale = np.array([1.0, 0, 1, 1, 1, 1])
    model = PrivateLogisticRegression(feature_scale=scale, prior=np.ones(6)).fit(X, Y)
    assert model.coef_[0, 1] == 0


def test_shrinks_towards_the_prior():
    prior = np.arange(6.0)
    settings = {"alpha": 1e9, "data_norm": 3.0, "prior_check": False}
    model = generous(epsilon=1.0, prior=prior, prior_intercept=-2.0, **settings).fit(X, Y)
    np.testing.assert_allclose(model.coef_[0], prior, atol=1e-3)
    # Scores that spread so far are positive in the declared share with this intercept.
    spread = 3.0 * np.linalg.norm(prior) / np.sqrt(6)
    assert model.intercept_[0] == pytest.approx(intercept_of(-2.0, spread), abs=1e-2)


@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove"])
@pytest.mark.parametrize("loss", ["logistic", "capped"])
def test_every_relation_and_loss_learns(neighbours, loss):
    declared = 500 if neighbours == "add-remove" else None
    model = PrivateLogisticRegression(
        epsilon=2.0,
        data_norm=4.0,
        neighbours=neighbours,
        loss=loss,
        declared_samples=declared,
        random_state=1,
    ).fit(X, Y)
    assert roc_auc_score(Y, model.decision_function(X)) > 0.7
    assert model.guarantee_.neighbours == neighbours


def test_add_remove_takes_its_ridge_from_the_declared_number():
    settings = {"neighbours": "add-remove", "declared_samples": 1000, "alpha": 0.01}
    model = PrivateLogisticRegression(**settings)
    plans = [model.plan(facts(n, 6)) for n in (300, 301, 5000, 10_001)]
    assert len({plan.mechanism.act.ridge for plan in plans}) == 1
    assert {plan.facts().n_samples for plan in plans} == {1000}
    assert len({plan.mechanism.act.tolerance for plan in plans}) == 1


def test_price_touches_no_data():
    hidden = {"neighbours": "add-remove", "declared_samples": 100}
    price = PrivateLogisticRegression(epsilon=0.3, **hidden).price(100, 4)
    assert (price.epsilon, str(price.neighbours)) == (0.3, "add-remove")
    with pytest.raises(InvalidData):
        PrivateLogisticRegression().price(0, 4)


def test_delta_buys_less_noise_where_there_are_many_features():
    pure, gaussian = (
        PrivateLogisticRegression(epsilon=0.5, delta=delta, alpha=0.1).plan(facts(1000, 100))
        for delta in (0.0, 1e-6)
    )
    assert math.sqrt(101) / gaussian.mechanism.rate < 0.5 * 101 / pure.mechanism.rate
    assert gaussian.mechanism.act.tolerance <= pure.mechanism.act.tolerance


def test_gaussian_fit_keeps_its_books_and_learns(tmp_path):
    ledger = Ledger(tmp_path / "budget.ledger")
    ledger.open_account("study", epsilon=50.0, delta=1e-5)
    model = PrivateLogisticRegression(epsilon=20.0, delta=1e-6, data_norm=5.0, ledger=ledger)
    assert str(model.price(600, 6)) == "(20, 1e-06)-DP per record (replace-one)"
    model.fit(X, Y)
    assert model.guarantee_ == model.receipt_.guarantee == model.price(600, 6)
    assert roc_auc_score(Y, model.decision_function(X)) > 0.7
    release = model.to_release()
    assert release.card.guarantee.definition == "approximate differential privacy"
    assert release.card.guarantee.delta == 1e-6
    (entry,) = ledger.entries()
    assert entry.event.sigmas == (release.model.facts.sigma,)


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


def test_a_gaussian_release_is_a_source_like_any_other():
    from confrere import TransferClassifier

    sources = [
        PrivateLogisticRegression(epsilon=1.0, delta=delta).fit(X, Y).to_release()
        for delta in (0.0, 1e-6)
    ]
    model = TransferClassifier(source=sources, epsilon=1.0).fit(X, Y)
    assert model.coef_.shape == (1, 6)
