"""Sums over coded rows are those over the same rows written down, with fewer roundings."""

import math

import numpy as np
import pytest

from confrere.data.cells import FEW, PACKED, Coded, stored, sub_rows
from confrere.data.frame import Body, BodyFrame, BoundedRows, coded_steps
from confrere.errors import InvalidData
from confrere.kernel.accountants import Logistic
from confrere.kernel.measurements import _additions, rounding_bound

SIZES = [3, 1003, 2, 17, 5, 300, 4, 2, 2, 40]


def made(n=5000, seed=0, sizes=SIZES, shrink=True):
    rng = np.random.default_rng(seed)
    columns = [rng.integers(0, size, n) for size in sizes]
    tables = tuple(rng.normal(size=(size, rng.integers(1, 5))) / 20 for size in sizes)
    factors = rng.uniform(0.5, 1.0, n) if shrink else None
    rows = Coded(tuple(stored(columns, sizes)), tables, factors)
    written = np.hstack([table[codes] for table, codes in zip(tables, columns, strict=True)])
    return rows, written if factors is None else written * factors[:, None]


@pytest.mark.parametrize("shrink", [False, True])
def test_products_sums_and_norms_are_those_of_written_rows(shrink):
    rows, written = made(shrink=shrink)
    rng = np.random.default_rng(1)
    W, R = rng.normal(size=(3, written.shape[1])), rng.normal(size=(2, len(written)))
    np.testing.assert_array_equal(rows.toarray(), written)
    np.testing.assert_allclose(rows.times(W), W @ written.T, atol=1e-13)
    np.testing.assert_allclose(rows.pull(R), R @ written, atol=1e-11)
    np.testing.assert_allclose((rows**2).toarray(), written**2, atol=1e-15)
    scale = rng.uniform(0, 2, written.shape[1])
    np.testing.assert_allclose(rows.norms(scale, "l2"), np.linalg.norm(written * scale, axis=1))
    np.testing.assert_allclose(rows.norms(None, "l1"), np.abs(written).sum(axis=1))
    chosen = np.array([1, 5, 4999])
    np.testing.assert_array_equal(rows[chosen].toarray(), written[chosen])
    columns = np.array([0, 2, 5, 7])
    np.testing.assert_array_equal(rows[:, columns].toarray(), written[:, columns])
    np.testing.assert_array_equal(rows[:, columns[::-1]], written[:, columns[::-1]])
    np.testing.assert_allclose(rows[:, columns].pull(R), R @ written[:, columns], atol=1e-11)
    np.testing.assert_allclose(rows @ W.T, written @ W.T, atol=1e-13)
    part = slice(1000, 3000)
    np.testing.assert_array_equal(rows[part].toarray(), written[part])


def test_the_error_of_a_sum_is_within_the_certificate():
    rows, written = made(20_000)
    norm = float(np.linalg.norm(written, axis=1).max())
    weights = np.random.default_rng(2).uniform(-1, 1, (1, len(written)))
    exact = [math.fsum((weights[0] * column).tolist()) for column in written.T]
    bound = rounding_bound(*written.shape, row_norm=norm, weight_norm=0.0, loss=Logistic())
    assert np.linalg.norm(rows.pull(weights)[0] - exact) <= bound


@pytest.mark.parametrize("d", [2, 10, 100, 1000, 10_000])
@pytest.mark.parametrize("n", [FEW, 3000, 20_000, 10**6, 10**9])
def test_no_more_roundings_than_of_stored_numbers(n, d):
    block, partition = coded_steps(d)
    pieces = math.ceil(min(n, partition) / block) + math.ceil(n / partition)
    for size in (2, PACKED, 1026, min(d + 3, 65_536)):
        sub = sub_rows(size)
        small = 2 * PACKED if size <= PACKED else min(512, size) + math.ceil(size / 512)
        assert sub + math.ceil(min(n, block) / sub) + small + pieces <= _additions(n, d)


def test_rows_are_inside_a_body_by_their_vertices():
    sizes = (4, 3)
    body = Body((np.eye(2) / 2, np.eye(1) / 2, np.eye(1) / 2), (0, 0, 0))
    frame = BodyFrame(body, ridge=1.0)
    corners = (np.array([[1.0, 0], [0, -1], [0.5, 0.5], [9, 9]]), np.array([[-1.0], [1], [np.nan]]))
    rng = np.random.default_rng(0)
    rows = Coded(tuple(stored([rng.integers(0, k, 3000) for k in sizes], sizes)), corners)
    bounded = frame.rows(rows)
    assert isinstance(bounded, BoundedRows)
    body.certify(bounded)
    assert bounded.longest <= 1
    few = bounded[np.arange(FEW - 1)]
    assert (type(few.X), few.steps) == (np.ndarray, None)
    np.testing.assert_array_equal(few, np.asarray(bounded)[: FEW - 1])
    body.certify(few)
    np.testing.assert_allclose(bounded, np.asarray(frame.rows(rows.toarray())), atol=1e-15)
    other = Body((np.eye(2) / 2.1, np.eye(1) / 2, np.eye(1) / 2), (0, 0, 0))
    with pytest.raises(InvalidData, match="outside the declared body"):
        other.certify(bounded)
