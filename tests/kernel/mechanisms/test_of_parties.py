"""What parties vote, average and count: none moves it further than is paid for."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from confrere.errors import InvalidData
from confrere.methods.votes import (
    WHOLE,
    PartyBudget,
    largest_norm,
    noised_average,
    noised_cells,
    noised_statistic,
    noised_votes,
    shares_of_cells,
    vote_fractions,
    vote_majority,
    vote_statistic,
)
from confrere.simulation import SeededSource
from tests.world import released, unit_rows, votes_for


def make(n_parties=4, d=3, alpha=0.01, epsilon=1.0, **kw):
    budget = PartyBudget(epsilon=epsilon, n_parties=n_parties, n_classes=kw.pop("n_classes", 2))
    return noised_average(budget, n_features=d, alpha=alpha, **kw)


def norms(uploads):
    return np.linalg.norm(uploads.reshape(len(uploads), -1), axis=1)


@settings(max_examples=40, deadline=None)
@given(
    scale=st.sampled_from([0.0, 1e-300, 1e-3, 1.0, 1e3, 1e200]),
    n_classes=st.integers(2, 4),
    seed=st.integers(0, 100),
)
def test_no_upload_is_longer_than_the_bound(scale, n_classes, seed):
    mechanism = make(n_classes=n_classes)
    uploads = scale * np.random.default_rng(seed).normal(size=(6, *mechanism.shape))
    clipped = np.array([mechanism.clipped(one) for one in uploads])
    assert np.all(norms(clipped) <= mechanism.reach)
    if n_classes > 2:
        uploads = uploads - uploads.mean(axis=1, keepdims=True)
    if scale <= 1:
        np.testing.assert_allclose(clipped, uploads, rtol=1e-9, atol=1e-12)


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


def votes_of(n_parties=5, n=20, d=3, alpha=0.1, epsilon=1.0, **kw):
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
    mechanism = votes_of(n_parties, 10, 1, alpha, labels=labels)
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
    mechanism = votes_of(M, 15, 3, 10**exponent, labels=labels, n_classes=n_classes)
    codes = np.eye(n_classes, dtype=np.int64)[rng.integers(n_classes, size=(M + 1, 15))]
    first, second = codes[:M].sum(axis=0), codes[1:].sum(axis=0)
    if left_out:
        second = codes[1:M].sum(axis=0)
    a, b = (model(mechanism, votes, rows) for votes in (first, second))
    assert np.linalg.norm(a - b) <= mechanism.sensitivity
    if n_classes > 2:
        np.testing.assert_allclose(a.sum(axis=0), 0, atol=1e-9)


@settings(max_examples=60, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 9), min_size=1, max_size=6),
    shape=st.tuples(st.integers(1, 5), st.integers(2, 4)),
    seed=st.integers(0, 1000),
)
def test_every_party_gives_away_the_same_and_in_proportion(sizes, shape, seed):
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    cells = rng.integers(0, shape[0], size=offsets[-1])
    codes = rng.integers(0, shape[1], size=offsets[-1])
    own = [slice(*ends) for ends in pairwise(offsets)]
    shares = np.array([shares_of_cells(cells[one], codes[one], shape) for one in own])
    assert shares.shape == (len(sizes), *shape)
    assert shares.min() >= 0
    assert (shares.sum(axis=(1, 2)) == WHOLE).all()
    for k, size in enumerate(sizes):
        own = slice(offsets[k], offsets[k + 1])
        counts = np.zeros(shape)
        np.add.at(counts, (cells[own], codes[own]), 1)
        assert np.abs(shares[k] - WHOLE * counts / size).max() < 1
        assert (shares[k][counts == 0] == 0).all()
    mechanism = noised_cells(
        PartyBudget(epsilon=1.0, n_parties=len(sizes), n_classes=shape[1]), n_cells=shape[0]
    )
    for own in shares:
        np.testing.assert_array_equal(mechanism.clipped(own), own)


@pytest.mark.parametrize(
    "upload",
    [
        [[WHOLE, 1], [0, 0]],
        [[-1, WHOLE], [0, 0]],
        [[2**62, 2**62], [2**62, 2**62]],
        [[2**63 - 1, 1], [0, 0]],
    ],
    ids=["too much", "negative", "wraps around", "wraps around at once"],
)
def test_what_nobody_can_have_counts_as_nothing(upload):
    mechanism = noised_cells(PartyBudget(epsilon=1.0, n_parties=3), n_cells=2)
    sent = np.array([upload, [[0, WHOLE], [0, 0]]], dtype=np.int64)
    assert [mechanism.clipped(one).tolist() for one in sent] == [
        [[0, 0], [0, 0]],
        [[0, WHOLE], [0, 0]],
    ]


def test_ties_go_to_the_second_of_two_and_the_first_of_more():
    assert vote_majority(votes_for([2], 4)) == 1
    votes = np.array([[1, 2, 2], [0, 0, 5]])
    fractions = vote_fractions(votes, 8)
    np.testing.assert_array_equal(vote_majority(votes), [[0, 1, 0], [0, 0, 1]])
    np.testing.assert_allclose(fractions.sum(axis=1), 1)
    np.testing.assert_allclose(fractions[0], np.array([2, 3, 3]) / 8)


@pytest.mark.parametrize(
    "votes", [[[0, 4]], [[4, -1]], [[2.5, 0.5]], [[1, 1, 1]], [[1, 2], [1, 1]], [[[1, 1]]]]
)
def test_what_no_votes_add_up_to_is_refused(votes):
    votes = np.array(votes)
    budget = PartyBudget(epsilon=1.0, n_parties=3)
    made = noised_votes(budget, n_auxiliary=len(votes), n_features=1, alpha=1.0)
    with pytest.raises(InvalidData):
        released(made, (votes, np.ones((len(votes), 1))), SeededSource(0))
