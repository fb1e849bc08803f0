"""The loss, its derivatives and the cap."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from confrere.errors import InvalidParameter
from confrere.maths.logistic import curvature, loss, residual, sigmoid

margins = st.floats(-700, 700)
caps = st.floats(0.01, 1.0)


@given(margins)
def test_the_sigmoid_agrees_with_its_definition(t):
    exact = 1 / (1 + np.exp(np.longdouble(-t)))
    assert sigmoid(t) == pytest.approx(float(exact), rel=1e-15)


@given(st.floats(-30, 30), caps)
def test_the_residual_is_minus_the_slope_of_the_loss(t, cap):
    h = 1e-5
    slope = (loss(t + h, cap) - loss(t - h, cap)) / (2 * h)
    assert residual(t, cap) == pytest.approx(-slope, abs=1e-5)


@given(st.floats(-30, 30), caps)
def test_the_curvature_is_minus_the_slope_of_the_residual(t, cap):
    kink = np.inf if cap == 1 else np.log((1 - cap) / cap)
    h = 1e-6
    if abs(t - kink) < 2 * h:
        return
    slope = (residual(t + h, cap) - residual(t - h, cap)) / (2 * h)
    assert curvature(t, cap) == pytest.approx(-slope, abs=1e-9)


@given(margins, margins, caps)
def test_the_loss_is_convex_and_its_slope_within_the_cap(a, b, cap):
    middle = loss((a + b) / 2, cap)
    assert middle <= (loss(a, cap) + loss(b, cap)) / 2 * (1 + 1e-12) + 1e-300
    assert 0 <= residual(a, cap) <= cap


@given(st.floats(0.01, 0.999))
def test_the_capped_loss_leaves_the_logistic_one_at_its_kink(cap):
    kink = np.log((1 - cap) / cap)
    above, below = kink + 1.0, kink - 1.0
    assert loss(above, cap) == loss(above)
    assert loss(below, cap) == pytest.approx(float(loss(kink)) + cap)
    assert loss(below, cap) < loss(below)
    assert residual(below, cap) == cap
    assert curvature(below, cap) == 0


def test_far_tails_neither_overflow_nor_vanish_early():
    t = np.array([-1e300, -745.0, -40.0, 40.0, 740.0, 1e300])
    assert np.all(np.isfinite(loss(t)))
    assert residual(t).tolist()[:2] == [1.0, 1.0]
    assert residual(740.0) == pytest.approx(np.exp(-740.0), rel=1e-12)
    # p(1-p) keeps its relative accuracy on both sides.
    assert curvature(-40.0) == pytest.approx(np.exp(-40.0), rel=1e-14)
    assert curvature(40.0) == pytest.approx(np.exp(-40.0), rel=1e-14)


def test_the_residual_can_be_written_in_place():
    t = np.linspace(-5, 5, 11)
    expected = residual(t, 0.4)
    assert residual(t, 0.4, out=t) is t
    assert np.array_equal(t, expected)


@pytest.mark.parametrize("cap", [0.0, -0.5, 1.5, float("nan")])
def test_a_cap_outside_its_range_is_refused(cap):
    with pytest.raises(InvalidParameter, match="cap"):
        loss(0.0, cap)
