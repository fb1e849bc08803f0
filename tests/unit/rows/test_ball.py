"""Rows end inside the ball, dense and sparse alike."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import sparse

from confrere.errors import InvalidData
from confrere.rows.ball import (
    certify_rows,
    clip_rows,
    row_norms,
    scale_columns,
    with_constant,
)

matrices = arrays(
    np.float64,
    st.tuples(st.integers(1, 6), st.integers(1, 5)),
    elements=st.floats(-1e6, 1e6, allow_subnormal=False),
)


@given(X=matrices, bound=st.floats(1e-3, 1e3), constant=st.floats(0.01, 0.99))
@settings(deadline=None)
def test_no_row_leaves_the_ball(X, bound, constant):
    rows = clip_rows(X, bound)
    certify_rows(rows)
    certify_rows(with_constant(rows, constant))


@given(X=matrices, bound=st.floats(1e-3, 1e3))
@settings(deadline=None)
def test_short_rows_are_only_scaled(X, bound):
    rows = clip_rows(X, bound)
    short = row_norms(X) <= bound
    np.testing.assert_allclose(rows[short], X[short] / bound, rtol=1e-12, atol=1e-300)
    long = row_norms(X) > bound
    np.testing.assert_allclose(row_norms(rows[long]), 1, rtol=1e-12)


@given(X=matrices)
@settings(deadline=None)
def test_sparse_is_dense(X):
    factors = np.linspace(0, 2, X.shape[1])
    S = sparse.csr_array(X)
    for dense, same in [
        (clip_rows(X, 2.0), clip_rows(S, 2.0)),
        (with_constant(X, 0.5), with_constant(S, 0.5)),
        (scale_columns(X, factors), scale_columns(S, factors)),
    ]:
        assert isinstance(same, sparse.csr_array)
        np.testing.assert_allclose(same.toarray(), dense, rtol=1e-15)
    np.testing.assert_allclose(row_norms(S), row_norms(X), rtol=1e-14)


@given(X=matrices, row=st.integers(0, 5))
@settings(deadline=None)
def test_a_row_never_depends_on_the_others(X, row):
    row = row % len(X)
    np.testing.assert_array_equal(clip_rows(X, 1.5)[[row]], clip_rows(X[[row]], 1.5))


def test_long_rows_are_refused_without_printing_them():
    with pytest.raises(InvalidData) as caught:
        certify_rows(np.array([[123.456]]))
    assert "123" not in str(caught.value)


def test_nan_is_refused():
    with pytest.raises(InvalidData):
        certify_rows(np.array([[np.nan]]))


def test_overflowing_norms_are_refused():
    with np.errstate(over="ignore"), pytest.raises(InvalidData, match="overflow"):
        clip_rows(np.full((1, 4), 1e200), 1.0)
