"""Workers, bounds that stay below the truth, and what is read off a model."""

from functools import partial

import numpy as np
from scipy import stats

from confrere import PrivateLogisticRegression
from confrere.audit import Pair, audit_function, worst_pairs
from confrere.methods.design import AddRemove

PAIR = Pair("0 and 1", 0.0, 1.0)


def laplace(data, count, generator, scale=1.0):
    return data + generator.laplace(scale=scale, size=(count, 1))


def test_workers_do_not_change_the_result():
    one, two = (
        audit_function(laplace, PAIR, runs=2_000, n_jobs=jobs, batch=200) for jobs in (1, 2)
    )
    assert one.to_dict() == two.to_dict()
    np.testing.assert_array_equal(one.values, two.values)


def test_the_bound_approaches_the_truth_and_stays_below():
    for scale in (1.0, 0.5):
        result = audit_function(partial(laplace, scale=scale), PAIR, claimed=1.0, runs=40_000)
        assert 0.9 / scale < result.epsilon <= 1 / scale
        assert result.refuted == (scale < 1)


def test_a_sound_mechanism_is_refuted_no_more_often_than_the_confidence_allows():
    refuted = sum(
        audit_function(
            laplace, PAIR, claimed=1.0, runs=1_000, confidence=0.9, random_state=seed
        ).refuted
        for seed in range(150)
    )
    # Chosen on the counting runs themselves, events would refute far more than one in ten.
    assert refuted <= stats.binom.ppf(0.999, 150, 0.1)


class Leaky(PrivateLogisticRegression):
    """Honest noise on the weights, and one number too many."""

    def fit(self, X, y):
        super().fit(X, y)
        self.positives_ = int(np.sum(y))
        return self


def test_a_leaking_attribute_is_found():
    from confrere.assurance.audit.estimator import FitSampler

    pair = worst_pairs(Leaky(), n_samples=10)[0]
    assert audit_function(FitSampler(Leaky()), pair, claimed=1.0, runs=60, batch=15).refuted


def test_pairs_respect_the_relation():
    for pair in worst_pairs(PrivateLogisticRegression(neighbours=AddRemove(60))):
        assert (len(pair.first["y"]), len(pair.second["y"])) == (60, 59)
        rows = {tuple(row) for row in pair.first["X"]}
        assert {tuple(row) for row in pair.second["X"]} <= rows
