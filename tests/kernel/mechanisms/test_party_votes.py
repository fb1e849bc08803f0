"""Noise on the model of the votes: worst cases of the whole computation, solver included."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from confrere.methods.votes import PartyBudget, largest_norm, noised_votes
from confrere.simulation import SeededSource
from tests.world import released, unit_rows, votes_for


def make(n_parties=5, n=20, d=3, alpha=0.1, epsilon=1.0, **kw):
    budget = PartyBudget(epsilon=epsilon, n_parties=n_parties, n_classes=kw.pop("n_classes", 2))
    return noised_votes(budget, n_auxiliary=n, n_features=d, alpha=alpha, **kw)


def model(mechanism, tally, rows):
    """The released model without its noise."""
    loud = replace(mechanism, budget=replace(mechanism.budget, epsilon=1e12))
    return released(loud, (tally, rows), SeededSource(0))[0]


@pytest.mark.parametrize("labels", ["soft", "vote"])
@pytest.mark.parametrize("alpha", [1e-4, 1e-2, 1.0])
def test_the_odd_party_between_ties(labels, alpha):
    # Rows at the length that lets the weights grow longest, and M - 1 tied votes.
    n_parties, r = 5, largest_norm(alpha)
    rows = np.full((10, 1), min(1.0, 1.278465 / r))
    mechanism = make(n_parties, 10, 1, alpha, labels=labels)
    w = [model(mechanism, votes_for(np.full(10, votes), n_parties), rows)[0] for votes in (2, 3)]
    moved = abs(w[1] - w[0])
    assert moved <= mechanism.sensitivity
    if labels == "vote":
        assert moved == pytest.approx(2 * r, rel=1e-3)
        assert mechanism.sensitivity == pytest.approx(min(2 * r, 1 / alpha), rel=1e-3)


@settings(max_examples=25, deadline=None)
@given(
    n_classes=st.integers(2, 4),
    labels=st.sampled_from(["soft", "vote"]),
    exponent=st.floats(-4, 1),
    left_out=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_no_party_moves_the_model_further(n_classes, labels, exponent, left_out, seed):
    rng = np.random.default_rng(seed)
    rows, M = unit_rows(15, 3, seed), 4
    mechanism = make(M, 15, 3, 10**exponent, labels=labels, n_classes=n_classes)
    codes = np.eye(n_classes, dtype=np.int64)[rng.integers(n_classes, size=(M + 1, 15))]
    first, second = codes[:M].sum(axis=0), codes[1:].sum(axis=0)
    if left_out:
        second = codes[1:M].sum(axis=0)
    a, b = (model(mechanism, votes, rows) for votes in (first, second))
    assert np.linalg.norm(a - b) <= mechanism.sensitivity
    if n_classes > 2:
        np.testing.assert_allclose(a.sum(axis=0), 0, atol=1e-9)
