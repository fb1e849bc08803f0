"""Sums of votes: parties that are left out count as split evenly."""

import numpy as np
import pytest

from confrere.errors import InvalidData
from confrere.methods.votes import PartyBudget, noised_votes, vote_fractions, vote_majority
from confrere.simulation import SeededSource
from tests.world import released, votes_for


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
