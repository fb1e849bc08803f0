"""Workers, records, and what is read off a model."""

import numpy as np
import pytest

from confrere import PrivateLogisticRegression
from confrere.audit import Pair, audit_function, worst_pairs
from confrere.errors import InvalidParameter
from confrere.methods.design import AddRemove

PAIR = Pair("0 and 1", 0.0, 1.0)


def laplace(data, count, generator):
    return data + generator.laplace(size=(count, 2))


class Counted:
    def __init__(self, stop_after=None):
        self.calls = 0
        self.stop_after = stop_after

    def __call__(self, data, count, generator):
        if self.calls == self.stop_after:
            raise KeyboardInterrupt
        self.calls += 1
        return laplace(data, count, generator)


def test_an_audit_that_was_stopped_goes_on(tmp_path):
    path = tmp_path / "deep" / "audit.jsonl"
    whole = audit_function(Counted(), PAIR, runs=1_000, batch=100, label="laplace")
    stopped = Counted(stop_after=7)
    with pytest.raises(KeyboardInterrupt):
        audit_function(stopped, PAIR, runs=1_000, batch=100, label="laplace", records=path)
    # Killed in the middle of a line.
    path.write_text(path.read_text() + '{"batch": ["0 an')
    resumed = Counted()
    result = audit_function(resumed, PAIR, runs=1_000, batch=100, label="laplace", records=path)
    assert result.to_dict() == whole.to_dict()
    assert resumed.calls == 20 - 7
    again = Counted(stop_after=0)
    audit_function(again, PAIR, runs=1_000, batch=100, label="laplace", records=path)
    assert len(path.read_text().splitlines()) == 1 + 20


def test_records_of_another_audit_are_refused(tmp_path):
    path = tmp_path / "audit.jsonl"
    audit_function(laplace, PAIR, runs=100, records=path)
    with pytest.raises(InvalidParameter, match="other settings"):
        audit_function(laplace, PAIR, runs=100, records=path, random_state=1)
    lines = path.read_text().splitlines()
    path.write_text("\n".join([lines[0], "not json", *lines[1:]]) + "\n")
    with pytest.raises(InvalidParameter, match="broken line"):
        audit_function(laplace, PAIR, runs=100, records=path)


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
