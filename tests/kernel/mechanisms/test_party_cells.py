"""Shares of cells and classes: whole numbers that add up, and what counts as nothing."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from confrere.methods.votes import WHOLE, PartyBudget, noised_cells, shares_of_cells


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
