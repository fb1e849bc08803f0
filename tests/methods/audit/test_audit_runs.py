"""Workers, and what is read off a model."""

import numpy as np

from confrere import PrivateLogisticRegression
from confrere.audit import Pair, audit_function, worst_pairs
from confrere.methods.design import AddRemove

PAIR = Pair("0 and 1", 0.0, 1.0)


def laplace(data, count, generator):
    return data + generator.laplace(size=(count, 2))


def test_workers_do_not_change_the_result():
    one, two = (
        audit_function(laplace, PAIR, runs=2_000, n_jobs=jobs, batch=200) for jobs in (1, 2)
    )
    assert one.to_dict() == two.to_dict()
    np.testing.assert_array_equal(one.values, two.values)


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
