"""Sums of votes: parties that are left out count as split evenly."""

import numpy as np
import pytest

from confrere.errors import InvalidData
from confrere.methods.votes import Tally


def test_a_left_out_party_is_half_a_vote_for_either_side():
    tally = Tally(np.array([0, 1, 2, 3]), counted=3, n_parties=4)
    np.testing.assert_allclose(tally.fractions, [1 / 8, 3 / 8, 5 / 8, 7 / 8])
    np.testing.assert_array_equal(tally.majority, [0, 0, 1, 1])


def test_ties_go_to_the_second_of_two_and_the_first_of_more():
    assert Tally(np.array([2]), 4, 4).majority == 1
    votes = np.array([[1, 2, 2], [0, 0, 5]])
    tally = Tally(votes, counted=5, n_parties=8)
    np.testing.assert_array_equal(tally.majority, [[0, 1, 0], [0, 0, 1]])
    np.testing.assert_allclose(tally.fractions.sum(axis=1), 1)
    np.testing.assert_allclose(tally.fractions[0], np.array([2, 3, 3]) / 8)


@pytest.mark.parametrize(
    ("votes", "counted", "n_parties"),
    [
        (np.array([4]), 3, 3),
        (np.array([-1]), 3, 3),
        (np.array([0.5]), 3, 3),
        (np.array([[1, 1, 0]]), 3, 3),
        (np.array([1]), 4, 3),
        (np.zeros((1, 1, 1), dtype=int), 1, 1),
    ],
)
def test_what_no_votes_add_up_to_is_refused(votes, counted, n_parties):
    with pytest.raises(InvalidData):
        Tally(votes, counted, n_parties)
