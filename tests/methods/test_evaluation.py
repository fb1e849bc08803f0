"""Evaluation intervals cover the truth as often as they say, noise and sampling together."""

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import roc_auc_score

from confrere.assurance.cohort import counts
from confrere.assurance.evaluation import noise_law
from confrere.evaluation import evaluate

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


@pytest.mark.parametrize("sensitivity", [1, 2])
def test_counts_lose_exactly_epsilon(sensitivity):
    counter = counts(0.8, sensitivity)
    _, law = noise_law(counter.scale)
    moved = np.abs(np.log(law[1 + sensitivity :]) - np.log(law[1:-sensitivity]))
    # All but what floats may do to the probabilities of the noise.
    assert 0.8 * (1 - 2e-5) <= moved.max() <= 0.8
