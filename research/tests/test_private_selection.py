"""PrivateSelection: its laws, what it charges, what it leaves behind, what it refuses."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from confrere import Ledger, PrivateLogisticRegression
from confrere.audit import audit, worst_pairs
from confrere.errors import CompositionError
from confrere.kernel.streams import SeededSource
from confrere.ledger import default_ledger
from confrere.methods.stacks import split_rows
from confrere_research.private_selection import (
    ErrorSelection,
    PrivateSelection,
    RandomStopping,
    brier_score,
)

RULES = ["permute-and-flip", "exponential"]


def frequencies_fit(observed, law):
    expected = law * observed.sum()
    kept = expected > 5
    if (~kept).any():
        observed = np.append(observed[kept], observed[~kept].sum())
        expected = np.append(expected[kept], expected[~kept].sum())
    return stats.chisquare(observed, expected * observed.sum() / expected.sum()).pvalue > 1e-4


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("errors", [[3, 3, 3], [10, 12, 15, 11], [0, 1], [7]])
def test_frequencies_are_the_stated_law(rule, errors):
    mechanism = ErrorSelection(epsilon=0.7, rule=rule)
    source = SeededSource(1)
    chosen = mechanism.sample(errors, source, 8_000)
    law = mechanism.law(errors)
    assert law.sum() == pytest.approx(1)
    observed = np.bincount(chosen, minlength=len(errors)).astype(float)
    assert len(errors) == 1 or frequencies_fit(observed, law)
    other = ErrorSelection(epsilon=1.4, rule=rule).law(errors)
    assert len(set(errors)) == 1 or not frequencies_fit(observed, other)


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(RULES),
    st.sampled_from([0.1, 1.0, 4.0]),
    st.lists(st.tuples(st.integers(0, 12), st.integers(-1, 1)), min_size=1, max_size=7),
)
def test_neighbouring_laws_differ_by_at_most_epsilon(rule, epsilon, scores):
    errors, moves = np.array(scores).T
    mechanism = ErrorSelection(epsilon=epsilon, rule=rule)
    ratio = np.log(mechanism.law(errors)) - np.log(mechanism.law(errors + moves))
    assert np.abs(ratio).max() <= epsilon * (1 + 1e-9)


def test_the_laws_are_tight():
    for rule in RULES:
        mechanism = ErrorSelection(epsilon=1.0, rule=rule)
        ratio = np.log(mechanism.law([50, 0])) - np.log(mechanism.law([49, 1]))
        assert np.abs(ratio).max() > 0.99


@settings(deadline=None, max_examples=150)
@given(st.integers(1, 60), st.integers(2, 4), st.integers(0, 2**32 - 1))
def test_one_row_moves_a_brier_score_by_at_most_one(n, n_classes, seed):
    generator = np.random.default_rng(seed)

    def rows(count):
        sharp = 10 ** generator.uniform(-2, 2)
        return generator.dirichlet(np.full(n_classes, 1 / sharp) + 1e-3, size=count)

    P, codes = rows(n), generator.integers(0, n_classes, size=n)
    changed, other = P.copy(), codes.copy()
    changed[0], other[0] = rows(1)[0], generator.integers(n_classes)
    assert abs(brier_score(P, codes) - brier_score(changed, other)) <= 1
    right, wrong = np.eye(n_classes)[codes], np.eye(n_classes)[(codes + 1) % n_classes]
    assert (brier_score(right, codes), brier_score(wrong, codes)) == (0, n)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e308, -1e308])
def test_no_probability_moves_a_brier_score_by_more(value):
    """One NaN was read as -2^63 thousandths."""
    codes = np.zeros(50, dtype=np.intp)
    right = np.eye(2)[codes]
    for column in (0, 1):
        broken = right.copy()
        broken[7, column] = value
        assert 0 <= brier_score(broken, codes) <= 1
    broken[7] = np.nan
    assert brier_score(broken, codes) == 1


def test_one_huge_row_does_not_decide_the_choice():
    """Overflow in one row's score gave (0.505, 0.495) against (0, 1) at a claim of 0.02."""
    generator = np.random.default_rng(1)
    X = generator.normal(size=(400, 4))
    y = (X[:, 0] + 0.3 * generator.normal(size=400) > 0).astype(int)
    neighbour = X.copy()
    neighbour[split_rows(400, [0.4, 0.4, 0.2], seed=0)[-1][0]] = 1.5e308

    def second(rows):
        chosen = [
            PrivateSelection(
                PrivateLogisticRegression(data_norm=3.0),
                {"prior": [[0.0, 0.0, 0.0, 0.0], [3.0, -3.0, 3.0, -3.0]]},
                epsilon=0.02,
                refit_share=0.0,
                random_state=seed,
            )
            .fit(rows, y)
            .best_index_
            for seed in range(40)
        ]
        return np.mean(chosen)

    # Seeds are shared: a score that moves by one turns few of forty choices, if any.
    assert abs(second(neighbour) - second(X)) <= 0.1


def test_a_grid_over_delta_pays_the_largest_of_each():
    model = PrivateLogisticRegression(data_norm=3.0)
    grid = [{"delta": [1e-4], "alpha": [0.1]}, {"delta": [1e-6], "alpha": [0.1]}]
    search = PrivateSelection(model, grid, epsilon=1.0, refit_share=0.5)
    # Once on the parts, once for the refit; the dearest epsilon alone would say 1e-4 + 1e-6
    # for a grid in the other order.
    for one in (grid, grid[::-1]):
        search.set_params(grid=one)
        price = search.price(2000, 4)
        assert (price.epsilon, price.delta) == (pytest.approx(1.0), pytest.approx(2e-4))


@pytest.mark.parametrize("shape", [-0.5, 0.0, 1.0, 2.5])
def test_the_number_of_runs(shape):
    stopping = RandomStopping(shape=shape, expected=6.0)
    law = stopping.law(40_000)
    k = np.arange(1, len(law) + 1)
    assert law.sum() == pytest.approx(1, abs=1e-9)
    assert law @ k == pytest.approx(6, rel=1e-6)
    gamma = stopping.gamma
    if shape == 1.0:
        np.testing.assert_allclose(law[:5], gamma * (1 - gamma) ** (k[:5] - 1))
    if shape == 0.0:
        np.testing.assert_allclose(law[:5], (1 - gamma) ** k[:5] / k[:5] / np.log(1 / gamma))
    source = SeededSource(3)
    drawn = np.array([stopping.draw(source) for _ in range(4_000)])
    assert frequencies_fit(np.bincount(drawn, minlength=61)[1:61].astype(float), law[:60])


def winner_law(stopping, q):
    """Return the law of the best of a random number of draws from ``q``, best outcome first."""
    n = np.arange(1, 4_001)
    runs = stopping.law(len(n))
    worse_or_equal = np.concatenate([[1.0], 1 - np.cumsum(q)]).clip(0, 1)
    generating = np.array([runs @ s**n for s in worse_or_equal])
    return generating[:-1] - generating[1:]


@pytest.mark.parametrize("shape", [-0.5, 0.0, 1.0])
def test_random_stopping_costs_what_is_charged_and_hardly_less(shape):
    """Exact laws: a base mechanism at epsilon 0.5, good outcomes rare and made rarer."""
    epsilon = 0.5
    stopping = RandomStopping(shape=shape, expected=30.0)
    worst = 0.0
    generator = np.random.default_rng(0)
    for good in np.geomspace(1e-4, 0.3, 25):
        q = np.array([good * np.exp(-epsilon), 1e-6 * np.exp(epsilon), 0.0])
        other = np.array([good, 1e-6, 0.0])
        for p in (q, other):
            p[2] = 1 - p.sum()
        ratio = np.abs(np.log(winner_law(stopping, q)) - np.log(winner_law(stopping, other)))
        worst = max(worst, ratio.max())
    for _ in range(40):
        q = generator.dirichlet(np.ones(4))
        tilted = q * np.exp(generator.uniform(-epsilon / 2, epsilon / 2, size=4))
        ratio = np.log(winner_law(stopping, q)) - np.log(
            winner_law(stopping, tilted / tilted.sum())
        )
        worst = max(worst, np.abs(ratio).max())
    assert worst <= stopping.factor * epsilon * (1 + 1e-6)
    assert worst > 0.75 * stopping.factor * epsilon


def selection(strategy, **settings):
    model = PrivateLogisticRegression()
    return PrivateSelection(model, {"alpha": [0.05, 5.0]}, strategy=strategy, **settings)


@pytest.mark.parametrize("scoring", ["brier", "errors"])
@pytest.mark.parametrize("strategy", ["parts", "random-stopping"])
@pytest.mark.parametrize("runs", [20, pytest.param(500, marks=pytest.mark.slow)])
def test_selections_pass_an_audit(strategy, scoring, runs):
    model = selection(strategy, scoring=scoring)
    result = audit(model, worst_pairs(model)[:2], runs=runs)
    assert result.epsilon <= result.claimed == 1.0


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

    def test_nothing_about_the_losers_is_left(self, strategy):
        model = make(strategy=strategy, random_state=0).fit(X, Y)
        learned = set(vars(model)) - set(model.get_params(deep=False))
        assert learned == {
            *("best_estimator_", "best_index_", "best_params_", "classes_", "guarantee_"),
            *("expected_auc_", "model_", "n_features_in_", "receipt_", "simulated_"),
        }


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


def test_guarantees_that_do_not_compose_are_refused():
    loose = PrivateLogisticRegression(neighbours="add-remove", declared_samples=200)
    with pytest.raises(CompositionError):
        PrivateSelection(loose, GRID).fit(X, Y)


GENEROUS = PrivateLogisticRegression(data_norm=10.0, alpha=1e-5)


@parametrize_with_checks(
    [PrivateSelection(GENEROUS, {"alpha": [1e-5, 1e-4]}, epsilon=1e5, random_state=0)]
)
def test_scikit_learn_check(estimator, check):
    check(estimator)


@pytest.mark.parametrize("scoring", ["brier", "errors"])
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("label", [0, 1, None], ids=["no positive", "all positive", "both"])
@pytest.mark.parametrize("scale", [0.0, 1e-308, 1e308], ids=str)
def test_after_the_charge_no_rows_make_it_fail(scoring, strategy, label, scale, ledger):
    y = Y if label is None else np.full_like(Y, label)
    grid = {"prior": [[0.0] * 4, [3.0, -3.0, 3.0, -3.0]]}
    search = PrivateSelection(
        PrivateLogisticRegression(classes=[0, 1]),
        grid,
        strategy=strategy,
        scoring=scoring,
        classes=[0, 1],
        ledger=ledger,
        account="study",
    )
    search.fit(np.sign(X) * scale, y)
    assert [entry.state for entry in ledger.entries("study")] == ["released"]
