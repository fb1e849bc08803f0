"""Public coordinates: rows end in the unit ball, weights come back as coefficients."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from confrere.data.frame import Frame


@given(
    st.integers(1, 6),
    st.sampled_from(["l1", "l2"]),
    st.floats(1e-3, 1e3),
    st.sampled_from([0.0, 0.1, 0.5, 0.99]),
    st.booleans(),
    st.integers(0, 2**32 - 1),
)
@settings(max_examples=150, deadline=None)
def test_rows_are_inside_and_scores_agree(d, norm, data_norm, constant, scaled, seed):
    rng = np.random.default_rng(seed)
    scale = rng.uniform(0.1, 10, size=d) if scaled else None
    frame = Frame(d, data_norm=data_norm, constant=constant, feature_scale=scale, norm=norm)
    X = rng.normal(size=(20, d)) * 10 ** rng.uniform(-6, 6, size=(20, 1))
    rows = frame.rows(X)
    order = 1 if norm == "l1" else 2
    assert rows.shape == (20, frame.size)
    assert np.linalg.norm(rows, ord=order, axis=1).max() <= 1
    coef, intercept = rng.normal(size=d), float(rng.normal()) if constant else 0.0
    weights = frame.weights(coef, intercept)
    back, constant_back = frame.coefficients(weights)
    np.testing.assert_allclose(back, coef)
    assert constant_back == pytest.approx(intercept)
    inside = np.linalg.norm(X * (1 if scale is None else scale), ord=order, axis=1) <= data_norm
    np.testing.assert_allclose(
        (rows @ weights)[inside], (X @ coef + intercept)[inside], rtol=1e-9, atol=1e-9
    )
