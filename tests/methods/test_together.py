"""Several organisations: the papers' claims that fall, what one record moves, what is learned."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from confrere import CollaborativeClassifier
from confrere.data.frame import Frame
from confrere.errors import InvalidParameter
from confrere.methods.asking import Told
from confrere.methods.average import Averaging, Expansion
from confrere.methods.sums import GradientRounds
from confrere.outcomes import CollaborativeRegression, Count, Quantity
from confrere_research.as_printed.ofpa_ofaa import noisy_linear_coefficients, ofpa
from tests.methods.test_lives import SCHEMA, cohort

CONFIDENCE = 0.999


def lower_bound(hits, other_hits, trials):
    """Clopper and Pearson: epsilon is above this with the confidence, for a fixed event."""
    risk = (1 - CONFIDENCE) / 2
    low = stats.beta.ppf(risk, hits, trials - hits + 1)
    high = stats.beta.ppf(1 - risk, other_hits + 1, trials - other_hits)
    return np.log(low / high)


def labels(positives, n=20):
    return np.where(np.arange(n) < positives, 1.0, -1.0)


class TestPrinted:
    def test_the_intercept_of_ofpa_names_the_data_set(self):
        rng = np.random.default_rng(3)
        X = rng.uniform(-0.5, 0.5, size=(200, 2))
        trials = 4000

        def solves_the_equation(positives, seed):
            run = ofpa(
                [(X, labels(positives, 200))],
                epsilon=1.0,
                rounds=trials,
                rng=np.random.default_rng(seed),
            )
            w = run.uploads[0]
            p = 1 / (1 + np.exp(-(X @ w[:, :2].T + w[:, 2])))
            return int((np.abs(p.sum(axis=0) - 100) < 1e-6).sum())

        hits, other = solves_the_equation(100, 1), solves_the_equation(101, 2)
        assert other == 0
        assert hits > 0.9 * trials
        assert lower_bound(hits, other, trials) > 6

    def test_the_maximum_coefficient_of_ofaa_hides_one_of_many(self):
        """One record of twenty ones, its label flipped; at least 15 coefficients below zero."""
        trials, X = 400_000, np.ones((1, 20))
        hits = [
            int(
                (
                    (
                        noisy_linear_coefficients(
                            X,
                            np.array([label]),
                            epsilon=1.0,
                            count=trials,
                            rng=np.random.default_rng(seed),
                        )
                        < 0
                    ).sum(axis=1)
                    >= 15
                ).sum()
            )
            for seed, label in ((1, 1.0), (2, -1.0))
        ]
        assert lower_bound(*hits, trials) >= 3.0


def problem(seed, n=9000, d=8):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * np.linspace(1.5, 0.5, d)
    w = np.array([2.0, -1.5, 1.0, 0, 0.8, 0, -0.5, 0])[:d]
    y = (rng.uniform(size=n) < 1 / (1 + np.exp(-(X @ w) + 0.5))).astype(int)
    party = np.repeat([0, 1, 2], [4500, 3375, 1125])
    X_test = rng.normal(size=(4000, d)) * np.linspace(1.5, 0.5, d)
    y_test = (rng.uniform(size=4000) < 1 / (1 + np.exp(-(X_test @ w) + 0.5))).astype(int)
    return X, y, party, X_test, y_test


@pytest.mark.parametrize(
    ("method", "floor", "norm"),
    [("average", 0.80, 3.5), ("ofpa", 0.80, 8.0), ("ofaa", 0.79, 3.5), ("laplace", 0.78, 3.5)],
)
def test_three_parties_learn_the_signal(method, floor, norm):
    X, y, party, X_test, y_test = problem(0)
    scores = [
        CollaborativeClassifier(method=method, epsilon=0.8, data_norm=norm, random_state=seed)
        .fit(X, y, party=party)
        .score(X_test, y_test)
        for seed in range(5)
    ]
    assert np.mean(scores) > floor


@pytest.mark.parametrize("n_parties", [2_000, pytest.param(20_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("method", ["average", "ofpa", "laplace"])
def test_thousands_of_parties_in_one_process_pay_once_and_learn(method, n_parties):
    rng = np.random.default_rng(0)
    sizes = rng.integers(1, 10, size=n_parties) * (20_000 // n_parties)
    X = rng.normal(size=(sizes.sum(), 5)) / np.sqrt(5)
    model = CollaborativeClassifier(method=method, data_norm=2.0, random_state=0)
    model.fit(X, X[:, 0] > 0, party=np.repeat(np.arange(n_parties), sizes))
    assert model.guarantee_.epsilon == 1.0
    assert "disjoint parts, split by organisation" in model.guarantee_.assumptions
    assert len(model.party_weights_) == n_parties
    assert model.score(X, X[:, 0] > 0) > 0.9


TABLE, OTHERS = cohort(3000), cohort(1500, seed=1)
for k, table in enumerate((TABLE, OTHERS)):
    chance = np.random.default_rng(8 + k)
    table["cost"] = table["age"] / 3 + 3 * chance.normal(size=len(table))
    table["visits"] = chance.poisson(np.exp((table["age"] - 55) / 20))
OUTCOMES = {
    "quantity": Quantity("cost", bounds=(0, 40), mean=18, sd=6),
    "count": Count("visits", most=10, mean=1.3),
    "time": SCHEMA.outcome,
}
PARTY = np.repeat(["north", "east", "south"], [1500, 1000, 500])
every = pytest.mark.parametrize("outcome", OUTCOMES.values(), ids=OUTCOMES)
WAYS = {"average": {}, "sums": {"method": "sums"}, "rounds": {"method": "sums", "delta": 1e-6}}


def asked(outcome, **settings):
    told = {"epsilon": 1.0, "random_state": 0, **settings}
    return CollaborativeRegression(schema=replace(SCHEMA, outcome=outcome), **told)


@every
@pytest.mark.parametrize("way", WAYS)
def test_it_learns_nearly_what_one_organisation_with_all_rows_does(outcome, way):
    model = asked(outcome, epsilon=3.0, **WAYS[way])
    price = model.privacy_cost(1000, n_parties=3)
    assert model.fit(TABLE, party=PARTY).guarantee_.epsilon == price.epsilon == 3.0
    clear = asked(outcome, epsilon=1e4).fit(TABLE).score(OTHERS)
    assert clear - model.score(OTHERS) < 0.05


@every
@pytest.mark.parametrize("way", ["sums", "rounds"])
def test_a_record_moves_an_addend_by_no_more_than_is_paid_for(outcome, way):
    plan, data = asked(outcome, geometry="l2", **WAYS[way]).prepare(TABLE, None, party=PARTY)
    protocol = plan.protocol.among(plan.sizes).at(plan.sizes)
    paid, labels = protocol.mechanism(plan.sizes), protocol.loss.extreme_labels
    rows = protocol.bounded(data.X[:3]) @ np.eye(protocol.space.size)
    longest = rows[0] / np.linalg.norm(rows[0]) if outcome.kind != "time" else rows[0]
    ends = longest, np.append(-longest[:-1], longest[-1]), 0 * longest
    most = 0.0
    for scale in (0.0, 40.0, -1e308):
        weights = protocol.centre + scale
        made = np.array([
            protocol.message(np.vstack([end, rows[1:]]), np.stack([one, *labels[[0, -1]]]),
                             plan.sizes, weights)
            for end in ends for one in labels
        ])  # fmt: skip
        most = max(most, float(np.linalg.norm(made[:, None] - made[None], axis=-1).max()))
    assert 0.3 * paid.sensitivity <= most <= paid.sensitivity + 2 * paid.error


@pytest.mark.parametrize("kind", [Averaging, Expansion, GradientRounds])
def test_a_delta_that_promises_nothing_to_one_party_is_refused_by_name(kind):
    asked = kind(frame=Frame(2, constant=0.0), epsilon=1.0, delta=1e-6).steps(["a", "b"])
    next(asked)
    with pytest.raises(InvalidParameter, match=r"^delta .*'b'"):
        asked.send(Told(("a", "b"), {"size": np.array([100, 10**10])}))
