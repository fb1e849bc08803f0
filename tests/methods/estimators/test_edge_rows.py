"""What made a fit fail after it was paid for, because of one record; each failed once."""

import numpy as np
import pytest

from confrere import (
    CollaborativeClassifier,
    FeatureStackingClassifier,
    Ledger,
    MultipartyClassifier,
    PrivateLogisticRegression,
    SampleStackingClassifier,
)
from confrere.estimators import designed

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 4))
Y = (X[:, 0] > 0).astype(int)


@pytest.fixture
def ledger():
    book = Ledger()
    book.open_account("study", epsilon=1e9)
    return book


def released(ledger):
    return [entry.state for entry in ledger.entries("study")] == ["released"]


@pytest.mark.parametrize("n_models", [50, 59, 65, 80])
def test_saturated_meta_features(ledger, n_models):
    """Their norm is 1 + 2^-52 for these numbers of models: 20 of 20 fits failed."""
    rows = np.random.default_rng(0).normal(size=(6 * n_models, 3))
    model = SampleStackingClassifier(n_groups=n_models, budget=ledger["study"])
    model.fit(1e12 * rows, (rows[:, 0] > 0).astype(int))
    assert released(ledger)


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


@pytest.mark.parametrize("value", [1e155, 1e200, 1.7e308, 5e-324])
@pytest.mark.parametrize(
    "make",
    [
        lambda **kw: PrivateLogisticRegression(alpha=[1e-9, 1.0, 1e12, 1e-3], **kw),
        SampleStackingClassifier,
        FeatureStackingClassifier,
        CollaborativeClassifier,
    ],
    ids=["PLR, ridges", "PST-S", "PST-F", "together"],
)
def test_a_value_of_any_size(ledger, make, value):
    """Norms, and products with public factors, overflowed."""
    rows = X.copy()
    rows[3] = value
    make(epsilon=1.0, budget=ledger["study"]).fit(rows, Y)
    assert released(ledger)


@pytest.mark.parametrize("method", ["statistic", "weights", "vote"])
def test_one_party_that_cannot_be_solved(ledger, method):
    """Rows that nearly coincide made the solver raise for everyone."""
    rows = X.copy()
    rows[1] = rows[0] * (1 + 1e-9)
    labels = Y.copy()
    labels[:2] = 0, 1
    for alpha in (1e-10, 1e-30, 1e-300):
        book = Ledger()
        book.open_account("study", epsilon=1e9, unit="party")
        model = MultipartyClassifier(
            method=method, local_alpha=alpha, data_norm=5.0, budget=book["study"]
        )
        if method == "weights":
            model.set_params(alpha=alpha)
        model.fit(rows, labels, party=np.arange(120) // 4, auxiliary=X)
        assert released(book)


def test_many_small_parties_with_any_rows(ledger):
    """More than a hundred are worked on in stacks, which no row stops."""
    edges = np.array([0.0, 1.0, -1.0, 5e-324, 1e155, 1e200, -1.7e308])
    for seed in range(3):
        rng = np.random.default_rng(seed)
        rows = np.where(rng.random((360, 4)) < 0.2, rng.choice(edges, (360, 4)), 1.0)
        party = np.sort(rng.integers(120, size=360))
        labels = rng.integers(2, size=360)
        for method in ("average", "ofpa", "laplace"):
            model = CollaborativeClassifier(method=method, random_state=seed)
            assert np.all(np.isfinite(model.fit(rows, labels, party=party).coef_))
