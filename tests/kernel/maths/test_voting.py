"""Votes: counted exactly, in bounded memory, with ties broken by public rules."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from confrere.methods.votes import count_votes


def whole_numbers(rng, *shape):
    """Small whole numbers: their products are exact in float32, and tie often."""
    return rng.integers(-2, 3, size=shape).astype(float)


@settings(max_examples=80, deadline=None)
@given(
    shape=st.tuples(st.integers(0, 400), st.integers(2, 5)),
    n_rows=st.integers(0, 40),
    block=st.integers(1, 50),
    seed=st.integers(0, 10**6),
)
def test_every_model_votes_once_for_the_first_of_its_best_classes(shape, n_rows, block, seed):
    rng = np.random.default_rng(seed)
    W, X = whole_numbers(rng, *shape, 3), whole_numbers(rng, n_rows, 3)
    chosen = np.argmax(np.einsum("mkd,nd->nmk", W, X), axis=2)
    expected = (chosen[:, :, None] == np.arange(shape[1])).sum(axis=1)
    np.testing.assert_array_equal(count_votes(W, X, block=block), expected)
    # Of two classes a model is one vector, and the second needs a score above 0.
    votes = count_votes(W[:, 0], X, block=block)[:, 1]
    np.testing.assert_array_equal(votes, (X @ W[:, 0].T > 0).sum(axis=1))
