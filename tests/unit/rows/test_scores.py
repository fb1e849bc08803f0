"""Scores of any rows are finite, and right where doubles can say so."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import sparse

from confrere.rows.scores import LARGEST_SCORE, linear_scores

anything = arrays(
    np.float64,
    st.tuples(st.integers(1, 5), st.just(3)),
    elements=st.one_of(st.floats(), st.sampled_from([1.7e308, -1.7e308, 5e-324, 1.0])),
)


@given(X=anything, seed=st.integers(0, 99), several=st.booleans())
@settings(deadline=None, max_examples=200)
def test_scores_are_finite_and_a_row_has_its_own(X, seed, several):
    rng = np.random.default_rng(seed)
    shape = (4, 3) if several else (3,)
    coef = rng.normal(size=shape) * 10 ** rng.uniform(-5, 5, size=shape)
    intercept = rng.normal(size=4) if several else float(rng.normal())
    scores = linear_scores(X, coef, intercept)
    assert np.abs(scores).max() <= LARGEST_SCORE
    np.testing.assert_allclose(linear_scores(sparse.csr_array(X), coef, intercept), scores, 1e-9)
    for k in range(len(X)):
        # A product of several rows may round otherwise than one of a single row.
        np.testing.assert_allclose(linear_scores(X[[k]], coef, intercept)[0], scores[k], 1e-9)


def test_tame_rows_are_simply_multiplied():
    rng = np.random.default_rng(0)
    X, coef = rng.normal(size=(9, 3)), rng.normal(size=(4, 3))
    np.testing.assert_array_equal(linear_scores(X, coef, np.arange(4)), X @ coef.T + np.arange(4))


@pytest.mark.parametrize(
    ("row", "score"),
    [
        ([1.5e308, 1.5e308], 3e307),  # 1.2 - 1.0: either product overflows, the sum does not
        ([1.7e308, -1.7e308], LARGEST_SCORE),
        ([-1.7e308, 1.7e308], -LARGEST_SCORE),
        ([np.inf, np.inf], LARGEST_SCORE),
        ([np.nan, 2.0], -2.0),
    ],
)
def test_overflow_has_a_defined_result(row, score):
    found = linear_scores(np.array([row]), np.array([1.2, -1.0]))
    np.testing.assert_allclose(found, min(score, LARGEST_SCORE), rtol=1e-9)
