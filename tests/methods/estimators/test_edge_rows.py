"""What made a fit fail after it was paid for, because of one record; each failed once."""

import numpy as np
import pytest

from confrere import FeatureStackingClassifier, Ledger
from confrere.estimators import designed


@pytest.fixture
def ledger():
    book = Ledger()
    book.open_account("study", epsilon=1e9)
    return book


def released(ledger):
    return [entry.state for entry in ledger.entries("study")] == ["released"]


@pytest.mark.parametrize(("n_groups", "constant"), [(3, 0.9999), (7, 0.999), (12, 0.999)])
def test_a_large_constant_under_joint_clipping(ledger, n_groups, constant):
    """The hair was taken off the rest of the row alone, which has no room for rounding: 5 of 5."""
    rows = 1e3 * np.random.default_rng(0).normal(size=(400, n_groups))
    for scale in (1.0, 1e200):
        model = designed(
            FeatureStackingClassifier(n_groups=n_groups, random_state=0), intercept_scale=constant
        )
        model.fit(scale * rows, (rows[:, 0] > 0).astype(int))
    model.set_params(budget=ledger["study"], random_state=None).fit(rows, rows[:, 0] > 0)
    assert released(ledger)
