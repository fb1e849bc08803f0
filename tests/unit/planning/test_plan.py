"""Plans against draws of the real noise, and against fits on data of the working model."""

import math

import matplotlib as mpl
import numpy as np
import pytest
from scipy import special
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from confrere import FeatureStackingClassifier, Ledger, PrivateLogisticRegression
from confrere.errors import CalibrationError, InvalidData, InvalidParameter
from confrere.kernel.norms import L2, Gaussian, Pure
from confrere.kernel.streams import SeededSource
from confrere.methods import PublicFacts
from confrere.planning import choose, plan, plan_votes, price, recommend
from confrere.solver.descent import minimise
from tests.world import each

mpl.use("Agg")


@pytest.mark.parametrize(
    "sizes",
    [
        {"n": 500, "d": 4, "epsilon": 0.3},
        {"n": 3000, "d": 20, "epsilon": 2.0, "loss": "capped"},
        {"n": 900, "d": 12, "groups": 3, "importance": np.arange(12) + 1.0},
        {"n": 900, "d": 12, "groups": 3, "delta": 1e-5},
        {"n": 200, "d": 6, "parties": 8, "delta": 1e-6},
    ],
    ids=str,
)
def test_quantiles_are_those_of_the_noise(sizes):
    for k, term in enumerate(plan(**sizes).terms):
        law = Pure(L2(term.size), term.rate)
        if "delta" in sizes:
            law = Gaussian(1 / term.rate, term.size)
        drawn = law.draw(SeededSource(k), 10_000)
        norms = np.linalg.norm(drawn, axis=1)
        assert norms.mean() == pytest.approx(term.mean, rel=0.03)
        for probability in (0.5, 0.9, 0.99):
            below = np.mean(norms <= term.quantile(probability))
            spread = math.sqrt(probability * (1 - probability) / 10_000)
            assert below == pytest.approx(probability, abs=4 * spread)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_terms_are_those_of_the_estimators(delta):
    facts = PublicFacts(n_samples=400, n_features=6)
    price = {"epsilon": 0.7, "delta": delta}
    made = plan(n=400, d=6, **price)
    mechanism = PrivateLogisticRegression(**price).plan(facts).mechanism
    act = mechanism.act
    assert (made.terms[0].rate, made.terms[0].ridge) == pytest.approx((act.law.rate, act.ridge))
    stack = plan(n=400, d=6, groups=3, **price)
    (low,) = FeatureStackingClassifier(n_groups=3, **price).plan(facts).low
    assert [term.rate for term in stack.terms] == [act.law.rate for act in low.acts]
    assert stack.samples_used == low.n_samples == 200
    assert ("delta 1e-06" in str(made)) == (delta > 0)
    assert str(made.pure()) == str(plan(n=400, d=6, epsilon=0.7))
    assert made.resized(800).delta == delta


def draw(generator, n, d, auc, base_rate=0.5, decay=0.0):
    """Draw rows and test rows of the working model, of root mean square norm one."""
    distance = math.sqrt(2) * special.ndtri(auc)
    total = np.arange(1.0, d + 1) ** -decay
    share = total / total.sum()
    between = base_rate * (1 - base_rate) * distance**2 * share
    v = share / (1 + between)
    mean = distance * np.sqrt(v * share)

    def rows(count):
        y = (generator.uniform(size=count) < base_rate).astype(int)
        X = generator.normal(size=(count, d)) * np.sqrt(v)
        return X + (y - base_rate)[:, None] * mean, y

    return rows(n), rows(4_000)


@pytest.mark.parametrize(
    ("n", "d", "auc", "epsilon", "base_rate", "decay"),
    [(500, 5, 0.8, 0.5, 0.5, 0.0), (2000, 40, 0.9, 0.5, 0.5, 1.0), (5000, 30, 0.8, 0.5, 0.2, 0.75)],
)
def test_expected_quality_is_what_fits_reach(n, d, auc, epsilon, base_rate, decay):
    made = plan(n=n, d=d, epsilon=epsilon, auc=auc, base_rate=base_rate, decay=decay)
    reached, free = [], []
    generator = np.random.default_rng(0)
    for seed in range(25):
        (X, y), (X_test, y_test) = draw(generator, n, d, auc, base_rate, decay)
        model = PrivateLogisticRegression(epsilon=epsilon, random_state=seed).fit(X, y)
        reached.append(roc_auc_score(y_test, model.decision_function(X_test)))
        open_model = LogisticRegression(C=1 / made.terms[0].ridge).fit(X, y)
        free.append(roc_auc_score(y_test, open_model.decision_function(X_test)))
    error = np.std(reached) / math.sqrt(len(reached))
    assert made.expected_auc() == pytest.approx(np.mean(reached), abs=0.01 + 3 * error)
    assert made.auc_without_noise() == pytest.approx(np.mean(free), abs=0.015)


def test_the_excess_bound_holds_on_data():
    made = plan(n=300, d=5, epsilon=0.5)
    term = made.terms[0]
    generator = np.random.default_rng(0)
    X = generator.normal(size=(300, term.size))
    X /= np.linalg.norm(X, axis=1, keepdims=True) * (1 + 1e-12)
    y = np.where(generator.uniform(size=300) < 0.5, 1.0, -1.0)

    def objective(w):
        return np.logaddexp(0, -y * (X @ w)).sum() + term.ridge / 2 * w @ w

    best = objective(minimise(X, y, ridge=term.ridge))
    above = []
    for b in Pure(L2(term.size), term.rate).draw(SeededSource(3), 200):
        w = minimise(X, y, ridge=term.ridge, linear=b, tolerance=1e-5)
        above.append((objective(w) - best) / 300)
    assert np.mean(np.array(above) <= made.excess(0.1)) >= 0.9
    assert max(above) > 0.02 * made.excess(0.1)


def test_samples_for_an_excess():
    made = plan(n=1000, d=8, epsilon=0.5)
    n = made.samples_for_excess(0.02)
    assert made.resized(n).excess() <= 0.02 < made.resized(n - 1).excess()
    grouped = plan(n=1000, d=8, epsilon=0.5, groups=4).samples_for_excess(5.0)
    assert grouped < 1000
    with pytest.raises(CalibrationError):
        made.samples_for_excess(1e-12)


WRONG = {
    plan: [
        *each(n=(0,), d=(0,), epsilon=(-1,), delta=(0.01,), auc=(0.5, 1.0), base_rate=(0.0, 1.0)),
        *each(decay=(-1,), row_norm=(0,), importance=([1.0, 2.0],)),
        {"groups": 2, "parties": 2},
    ],
    plan_votes: [
        *each(parties=(0,), epsilon=(0.0,), n_classes=(1,), method=("weights",)),
        *each(reference_norm=(-1.0,), alpha=(-1.0,)),
    ],
    choose: [
        *each(sizes=([5], [5, 0]), d=(0,), auc=(0.4,), base_rate=(1.0,), decay=(4.0,)),
        *each(epsilon=(0.0,), colluding=(30,), delta=(2.0,)),
    ],
    recommend: each(prior_auc=(0.9, 0.4), base_rate=(0.0,), n=(0,), parties=([0],)),
}
RIGHT = {
    plan: {"n": 100, "d": 5},
    plan_votes: {"parties": 10, "auxiliary": 10, "d": 2},
    choose: {"sizes": [1000] * 30, "d": 20, "epsilon": 0.5, "base_rate": 0.3, "auc": 0.8},
    recommend: {"n": 3200, "d": 50, "auc": 0.771, "prior_auc": 0.717, "base_rate": 0.11},
}


@pytest.mark.parametrize(("ask", "wrong"), [(ask, one) for ask in WRONG for one in WRONG[ask]])
def test_wrong_facts_are_refused(ask, wrong):
    named = next(iter(wrong)) if ask is plan_votes else None
    with pytest.raises((InvalidParameter, InvalidData), match=named):
        ask(**RIGHT[ask] | wrong)


def test_a_price_is_a_question(tmp_path):
    ledger = Ledger(tmp_path / "budget.ledger")
    ledger.open_account("study", epsilon=1.0)
    model = PrivateLogisticRegression(epsilon=0.7, ledger=ledger)
    first = price(model, 100, 5)
    assert (first.account, first.left, first.affordable) == ("study", 1.0, True)
    assert first.guarantee == model.price(100, 5)
    assert ledger.spent("study") == 0
    generator = np.random.default_rng(0)
    model.fit(generator.normal(size=(100, 5)), np.arange(100) % 2)
    second = price(model, 100, 5)
    assert not second.affordable
    assert second.left == pytest.approx(0.3)
    assert "not covered" in str(second)
