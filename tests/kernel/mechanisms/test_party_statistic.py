"""The noised statistic: an ellipsoid that holds every move a party can make, and little else."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from confrere.methods.votes import PartyBudget, noised_statistic, vote_fractions, vote_statistic
from confrere.simulation import SeededSource
from tests.world import released, unit_rows, votes_for


def whitened(mechanism, difference):
    axes, directions = mechanism.axes
    return float(np.linalg.norm(np.atleast_2d(difference) @ directions / axes))


@settings(max_examples=40, deadline=None)
@given(
    n_rows=st.integers(1, 30),
    n_features=st.integers(1, 8),
    n_classes=st.integers(2, 4),
    flat=st.sampled_from([1.0, 1e-3, 1e-9]),
    seed=st.integers(0, 1000),
)
def test_no_party_moves_the_statistic_out_of_the_ellipsoid(
    n_rows, n_features, n_classes, flat, seed
):
    rng = np.random.default_rng(seed)
    X, M = unit_rows(n_rows, n_features, seed, flat), 7
    mechanism = noised_statistic(PartyBudget(epsilon=1.0, n_parties=M, n_classes=n_classes), rows=X)
    ballots = rng.integers(n_classes, size=(M + 1, n_rows))
    # The worst change for the first direction: vote by the sign of what a row adds to it.
    pull = X @ mechanism.axes[1][:, -1] > 0
    ballots[0], ballots[-1] = pull, ~pull
    codes = np.eye(n_classes, dtype=np.int64)[ballots]
    votes = [codes[:M].sum(axis=0), codes[1:].sum(axis=0)]
    first, second = (vote_statistic(X, vote_fractions(v, M)) for v in votes)
    assert whitened(mechanism, first - second) <= mechanism.sensitivity


@pytest.mark.parametrize("n_classes", [2, 3])
def test_orthogonal_rows_reach_every_axis(n_classes):
    X = np.vstack([np.eye(4) * [[1.0], [0.5], [0.3], [0.1]]] * 5)
    mechanism = noised_statistic(PartyBudget(epsilon=1.0, n_parties=9, n_classes=n_classes), rows=X)
    change = np.ones(len(X)) / 9
    if n_classes == 3:
        change = np.outer(change, [1.0, -1.0, 0.0])
    moved = vote_statistic(X, change)
    # All votes turn on orthogonal rows: every direction is at the boundary at once.
    assert whitened(mechanism, moved) == pytest.approx(mechanism.sensitivity, rel=1e-4)


def test_what_is_released_lies_on_a_grid():
    mechanism = noised_statistic(PartyBudget(epsilon=1.0, n_parties=4), rows=unit_rows(20, 3))
    noised = released(mechanism, votes_for(np.arange(20) % 5, 4), SeededSource(0))[0]
    axes, directions = mechanism.axes
    steps = noised @ directions / axes / mechanism.noise.steps[0].spacing
    # Turning the axes back and forth again costs a few roundings, no more.
    np.testing.assert_allclose(steps, np.rint(steps), atol=1e-14 * np.abs(steps).max())
    assert np.abs(steps).max() > 1e9
