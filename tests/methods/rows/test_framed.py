"""Rows that are never written down are the rows that the theorems speak of."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from confrere.data.frame import Frame
from confrere.kernel.accountants import Logistic
from confrere.kernel.measurements import Problem, rounding_bound
from confrere.kernel.noise import certify_rows
from confrere.solver.row_blocks import SolverRows

EXTENDED = np.longdouble
STRANGE = [0.0, -1.0, 3.0, 1e-320, 1e-160, 1e60, -1e155, 1e300, 1.7e308, np.inf, -np.inf, np.nan]


def exact_rows(framed):
    """What the rows are in exact arithmetic, nearly: products in extended precision."""
    (block,) = framed.blocks([slice(0, framed.shape[0])])
    stored = block.stored if isinstance(block.stored, np.ndarray) else block.stored.toarray()
    rows = stored.astype(EXTENDED) * np.asarray(block.factors, dtype=EXTENDED)
    if block.shrink is not None:
        rows *= block.shrink.astype(EXTENDED)[:, None]
    constant = np.full((len(rows), 1), EXTENDED(block.constant))
    return np.hstack([rows, constant]) if block.constant else rows


@settings(max_examples=150, deadline=None)
@given(
    values=st.lists(
        st.lists(st.one_of(st.floats(), st.sampled_from(STRANGE)), min_size=3, max_size=3),
        min_size=1,
        max_size=6,
    ),
    scale=st.one_of(
        st.none(),
        st.lists(st.sampled_from([0.0, 1e-300, 1e-120, 0.5, 1.0, 1e12]), min_size=3, max_size=3),
    ),
    bound=st.sampled_from([1e-12, 1.0, 1e12]),
    constant=st.sampled_from([0.0, 0.4, 0.9999]),
    norm=st.sampled_from(["l1", "l2"]),
    single=st.booleans(),
    csr=st.booleans(),
)
def test_any_row_ends_inside_by_itself(values, scale, bound, constant, norm, single, csr):
    with np.errstate(over="ignore"):
        X = np.array(values, dtype=np.float32 if single else np.float64)
    factors = None if scale is None else np.array(scale)
    frame = Frame(3, data_norm=bound, constant=constant, feature_scale=factors, norm=norm)
    framed = frame.rows(sparse.csr_array(X) if csr else X)
    rows = exact_rows(framed)
    assert np.isfinite(rows.astype(float)).all()
    lengths = np.abs(rows).sum(axis=1) if norm == "l1" else np.sqrt((rows**2).sum(axis=1))
    assert lengths.max() <= 1
    certify_rows(framed, norm=norm)
    # Alone, every row has the same image, to the last bit.
    for one in range(len(X)):
        alone = frame.rows(sparse.csr_array(X[[one]]) if csr else X[[one]])
        assert np.array_equal(exact_rows(alone)[0], rows[one])


@pytest.mark.parametrize("csr", [False, True])
@pytest.mark.parametrize("far", [1.0, 1e9])
def test_rounding_of_the_gradient_stays_below_its_bound(csr, far):
    rng = np.random.default_rng(4)
    X = np.repeat(rng.standard_normal((6000, 4)), 2, axis=1)
    X *= 10.0 ** rng.integers(-9, 1, (6000, 1))
    scale = 10.0 ** rng.integers(-2, 3, 8)
    frame = Frame(8, data_norm=0.5, constant=0.3, feature_scale=scale)
    framed = frame.rows(sparse.csr_array(X) if csr else X)
    y = np.where(rng.random(6000) < 0.5, 1.0, -1.0)
    w = far * np.append(np.tile([1.0, -1.0], 4), 1.0) + rng.standard_normal(9)
    zero = np.zeros((1, 9))
    facts = {"rows": SolverRows(framed, 1.0), "labels": y, "loss": Logistic(), "ridge": 1e-300}
    objective = Problem(linear=zero, centre=zero, **facts)
    computed = objective.gradient(w[None])[0]
    rows = exact_rows(framed)
    t = y * (rows @ w.astype(EXTENDED))
    e = np.exp(-np.abs(t))
    truth = -(y * (np.where(t > 0, e, 1) / (1 + e))) @ rows
    error = np.linalg.norm((computed - truth).astype(float))
    sizes = {"row_norm": 1.0, "weight_norm": float(np.linalg.norm(w))}
    assert 0 < error <= rounding_bound(6000, 9, loss=Logistic(), **sizes)
