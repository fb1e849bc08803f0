"""The noised statistic: an ellipsoid that holds every move a party can make, and little else."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from confrere.methods.votes import PartyBudget, noised_statistic, vote_fractions, vote_statistic
from tests.world import unit_rows


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
