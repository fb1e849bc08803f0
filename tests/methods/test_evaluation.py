"""Evaluation intervals cover the truth as often as they say, noise and sampling together."""

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats
from sklearn.metrics import roc_auc_score

from confrere import PrivateLogisticRegression, PublicSchema
from confrere.assurance.cohort import counts
from confrere.assurance.evaluation import (
    noise_law,
    noise_quantile,
    noise_variance,
    proportion,
    ratio,
)
from confrere.evaluation import evaluate
from confrere.kernel.streams import discrete_laplace
from confrere.schema import Category, Label, Number
from confrere.simulation import SeededSource

REPEATS = [300, pytest.param(1_000, marks=pytest.mark.slow)]
CONFIDENCE = 0.9


def covers_enough(covered, repeats):
    """Not fewer than nominal, up to a chance of one in ten thousand."""
    return covered >= stats.binom.ppf(1e-4, repeats, CONFIDENCE)


class Scores:
    """A public model: the first column is the probability."""

    classes_ = np.array([0, 1])

    def predict_proba(self, X):
        return np.column_stack([1 - X[:, 0], X[:, 0]])

    def predict(self, X):
        return (X[:, 0] > 0.5).astype(int)


def population(generator, n):
    """Overconfident scores: the truth is nearer to one half than what is predicted."""
    p = generator.beta(1.2, 1.5, size=n)
    y = (generator.uniform(size=n) < 0.25 + 0.5 * p).astype(int)
    return p[:, None], y


def truth(n=400_000):
    X, y = population(np.random.default_rng(99), n)
    predicted = Scores().predict(X)
    return float(np.mean(predicted == y)), float(roc_auc_score(y, X[:, 0]))


def test_noise_has_the_stated_law_and_moments():
    for scale in (0.3, 2.0, 40.0):
        support, law = noise_law(scale)
        drawn = discrete_laplace(scale, (20_000,), SeededSource(0))
        assert law @ support**2 == pytest.approx(noise_variance(scale), rel=1e-6)
        assert drawn.var() == pytest.approx(noise_variance(scale), rel=0.1)
        reach = noise_quantile(scale, 0.95)
        assert law[np.abs(support) <= reach].sum() >= 0.95
        assert law[np.abs(support) <= reach - 1].sum() < 0.95


@pytest.mark.parametrize("repeats", REPEATS)
@pytest.mark.parametrize(("n", "p", "epsilon"), [(50, 0.1, 0.5), (400, 0.3, 0.05), (30, 0.02, 5.0)])
def test_exact_intervals_of_a_probability(repeats, n, p, epsilon):
    generator = np.random.default_rng(1)
    scale = 1 / epsilon
    counts = generator.binomial(n, p, size=repeats)
    noisy = counts + discrete_laplace(scale, (repeats,), SeededSource(2))
    found = [proportion(int(c), n, scale, CONFIDENCE) for c in noisy]
    covered = sum(each.low <= p <= each.high for each in found)
    assert covers_enough(covered, repeats)
    naive = sum(
        low <= p <= high
        for low, high in (
            stats.binomtest(int(np.clip(c, 0, n)), n).proportion_ci(CONFIDENCE) for c in noisy
        )
    )
    if epsilon < 1:  # an interval that forgets the noise is wrong, and this test can tell
        assert not covers_enough(naive, repeats)


@pytest.mark.parametrize("repeats", REPEATS)
@pytest.mark.parametrize(("m", "p", "scale"), [(200, 0.3, 4.0), (60, 0.9, 2.0), (15, 0.5, 6.0)])
def test_intervals_of_a_share_within_a_bin(repeats, m, p, scale):
    generator = np.random.default_rng(3)
    sizes = generator.poisson(m, size=repeats)
    positives = generator.binomial(sizes, p)
    noise = discrete_laplace(scale, (2, repeats), SeededSource(4))
    found = [
        ratio(float(a), float(b), noise_variance(scale), CONFIDENCE)
        for a, b in zip(positives + noise[0], sizes - positives + noise[1], strict=True)
    ]
    assert covers_enough(sum(each.low <= p <= each.high for each in found), repeats)
    if m >= 60:
        assert np.median([each.high - each.low for each in found]) < 0.4


@pytest.mark.parametrize("repeats", REPEATS)
@pytest.mark.parametrize(("n", "epsilon"), [(1_500, 1.0), (400, 4.0)])
def test_the_whole_evaluation_covers(repeats, n, epsilon):
    accuracy, auc = truth()
    generator = np.random.default_rng(5)
    found = [
        evaluate(
            Scores(),
            *population(generator, n),
            epsilon=epsilon,
            metrics=("accuracy", "auc", "calibration"),
            thresholds=np.arange(1, 20) / 20,
            confidence=CONFIDENCE,
            random_state=seed,
        )
        for seed in range(repeats)
    ]
    assert covers_enough(sum(f.accuracy.low <= accuracy <= f.accuracy.high for f in found), repeats)
    assert covers_enough(sum(f.auc.low <= auc <= f.auc.high for f in found), repeats)
    assert np.mean([f.auc.value for f in found]) == pytest.approx(auc, abs=0.02)
    assert np.mean([f.auc.high - f.auc.low for f in found]) < 0.25
    middle = [f.calibration[10] for f in found]
    inside = sum(b.positive.low <= 0.25 + 0.5 * 0.525 <= b.positive.high for b in middle)
    assert covers_enough(inside, repeats)


def test_a_rare_outcome_s_area_is_not_drawn_towards_a_half():
    """Scores of 4 in 100 lie close together: places between them follow from the model."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 3))
    ill = rng.random(len(X)) < 1 / (1 + np.exp(4 - X @ [1.0, 0.7, 0.5]))
    table = pa.table({f"x{j}": X[:, j] for j in range(3)} | {"y": np.where(ill, "yes", "no")})
    columns = [Number(f"x{j}", bounds=(-5, 5), mean=0, sd=1) for j in range(3)]
    schema = PublicSchema(columns, outcome=Label("y", positive=["yes"], base_rate=0.04))
    model = PrivateLogisticRegression(1.0, schema, random_state=0).fit(table)
    area = roc_auc_score(ill, model.risk(table))
    found = evaluate(model, table, epsilon=100.0, random_state=0).auc
    assert found.value == pytest.approx(area, abs=0.002)
    even = np.arange(1, 20) / 20
    assert (
        evaluate(model, table, epsilon=100.0, thresholds=even, random_state=0).auc.value
        < area - 0.01
    )
    assert "not measurable" in str(evaluate(model, table, epsilon=0.001, random_state=0).auc)


def test_subgroups_are_measured_at_one_price_and_every_record_is_in_one():
    rng = np.random.default_rng(1)
    x, sex = rng.normal(size=6000), rng.choice(["f", "m"], 6000)
    ill = rng.random(6000) < 1 / (1 + np.exp(-np.where(sex == "f", 2.0, 0.2) * x))
    table = pa.table({"x": x, "sex": sex, "y": np.where(ill, "yes", "no")})
    columns = [Number("x", bounds=(-4, 4), mean=0, sd=1), Category("sex", values=["f", "m"])]
    schema = PublicSchema(columns, outcome=Label("y", positive=["yes"]))
    model = PrivateLogisticRegression(3.0, schema, random_state=0).fit(table)
    scores = model.risk(table)
    areas = {one: roc_auc_score(ill[sex == one], scores[sex == one]) for one in ("f", "m")}
    assert areas["f"] > areas["m"] + 0.1
    found = [evaluate(model, table, epsilon=2.0, by="sex", random_state=k) for k in range(60)]
    assert found[0].guarantee.epsilon == 2.0
    for one, area in areas.items():
        mine = [f.subgroups[f"= {one}"] for f in found]
        assert all(each.auc.low <= area <= each.auc.high for each in mine)
        sizes = [each.records for each in mine]
        assert np.mean(sizes) == pytest.approx((sex == one).sum(), abs=4 * np.std(sizes) / 60**0.5)
    assert not found[0].subgroups["missing"].auc.measurable
    area = np.mean([f.auc.value for f in found])
    assert area == pytest.approx(roc_auc_score(ill, scores), abs=0.01)


@pytest.mark.parametrize("sensitivity", [1, 2])
def test_counts_lose_exactly_epsilon(sensitivity):
    counter = counts(0.8, sensitivity)
    _, law = noise_law(counter.scale)
    moved = np.abs(np.log(law[1 + sensitivity :]) - np.log(law[1:-sensitivity]))
    # All but what floats may do to the probabilities of the noise.
    assert 0.8 * (1 - 2e-5) <= moved.max() <= 0.8
