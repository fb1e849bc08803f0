"""Any row ends inside the ball: dense and sparse, in L1 and L2, with and without a constant."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import sparse

from confrere.data.frame import GroupRows, into_ball
from confrere.errors import InvalidData
from confrere.kernel.noise import certify_rows, row_norms

SHAPES = st.tuples(st.integers(1, 6), st.integers(1, 5))
anything = arrays(
    np.float64,
    SHAPES,
    elements=st.one_of(
        st.floats(),
        st.sampled_from([1e308, -1.7e308, 1e200, 5e-324, -1e-310, np.inf, -np.inf, np.nan, 1.0]),
    ),
)
norms = st.sampled_from(["l1", "l2"])
constants = st.sampled_from([0.0, 0.01, 0.4, 0.99, 0.999999, 1 - 2**-53])
bounds = st.one_of(st.floats(1e-12, 1e12), st.sampled_from([1e-12, 1.0, 1e12]))


def exact_norm_at_most_one(row, norm):
    numbers = [Fraction(float(value)) for value in row]
    if norm == "l1":
        return sum(map(abs, numbers)) <= 1
    return sum(value * value for value in numbers) <= 1


@given(
    X=anything,
    bound=bounds,
    constant=constants,
    norm=norms,
    scaled=st.booleans(),
    seed=st.integers(0, 99),
)
@settings(deadline=None, max_examples=400)
def test_any_row_ends_inside_exactly(X, bound, constant, norm, scaled, seed):
    d = X.shape[1]
    factors = 10 ** np.random.default_rng(seed).uniform(-300, 12, size=d) if scaled else None
    options = {"scale": factors, "constant": constant, "norm": norm}
    rows = into_ball(X, bound, **options)
    certify_rows(rows, norm=norm)
    assert all(exact_norm_at_most_one(row, norm) for row in rows)
    same = into_ball(sparse.csr_array(X), bound, **options)
    certify_rows(same, norm=norm)
    np.testing.assert_allclose(same, rows, rtol=1e-13, atol=1e-320)


def test_two_entries_of_one_place_add_up():
    twice = sparse.csr_array((np.array([0.7, 0.7]), np.array([0, 0]), np.array([0, 2])), (1, 2))
    with pytest.raises(InvalidData):
        certify_rows(twice)
    np.testing.assert_allclose(into_ball(twice), [[1, 0]], rtol=1e-12)


@pytest.mark.parametrize("constant", [0.4, 0.99, 0.9999, 1 - 2**-53])
@pytest.mark.parametrize("clipping", ["joint", "separate"])
def test_groups_stay_inside_whatever_the_constant(constant, clipping):
    rng = np.random.default_rng(0)
    for count in range(1, 30):
        groups = tuple(np.array([k]) for k in range(count))
        rows = GroupRows(groups, (1.0,) * count, clipping, constant)
        X = 10 ** rng.uniform(-3, 300, size=(50, 1)) * rng.normal(size=(50, count))
        squares = np.array([row_norms(part) ** 2 for part in rows(X)])
        assert (squares.sum(axis=0) if clipping == "joint" else squares).max() <= 1
