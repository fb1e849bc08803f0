"""Published and derived values, and the shape of the accountant."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from confrere.errors import CalibrationError, InvalidParameter
from confrere.kernel.guarantee import RELATIONS, Neighbours
from confrere.maths.calibration import (
    RidgeTerm,
    calibrate,
    free_ridge,
    spent_epsilon,
    worst_residual,
)


def test_tight_values():
    assert round(2 * calibrate(1.0, [RidgeTerm(ridge=1.0)]), 6) == 0.945644
    assert round(spent_epsilon(0.5, RidgeTerm(ridge=0.39)), 6) == 1.284561
    assert round(spent_epsilon(0.5, RidgeTerm(ridge=1.0)), 6) == 1.048495
    assert spent_epsilon(0.5, RidgeTerm(ridge=2.0)) == 1.0


@pytest.mark.parametrize(("ridge", "rho"), [(10, 0.975307), (2, 0.882217), (1, 0.776856)])
def test_capped_values(ridge, rho):
    assert round(calibrate(1.0, [RidgeTerm(ridge=ridge, cap=0.5)]), 6) == rho
    assert rho == pytest.approx(1 - math.log1p(1 / (4 * ridge)), abs=5e-7)


def test_jacobian_is_free_at_the_floor_and_not_below():
    for epsilon in (0.1, 1.0, 8.0):
        floor = free_ridge(epsilon)
        assert 2 * calibrate(epsilon, [RidgeTerm(ridge=floor)]) == pytest.approx(epsilon, rel=1e-15)
        assert 2 * calibrate(epsilon, [RidgeTerm(ridge=0.9 * floor)]) < epsilon
    assert round(calibrate(1.0, [RidgeTerm(ridge=free_ridge(1.0, factor=1.0))]), 3) == 0.473


def test_add_remove_needs_half_the_noise():
    assert calibrate(1.0, [RidgeTerm(ridge=2.0)], Neighbours.ADD_REMOVE) == 1.0


def test_no_noise_level_exists_below_the_jacobian():
    with pytest.raises(CalibrationError, match="Raise alpha"):
        calibrate(0.1, [RidgeTerm(ridge=0.01)])
    terms = [RidgeTerm(ridge=0.05, row_norm=0.2)] * 5
    assert sum(spent_epsilon(0.0, term) for term in terms) > 0.5
    with pytest.raises(CalibrationError):
        calibrate(0.5, terms)


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf, True])
def test_bad_epsilon(bad):
    with pytest.raises(InvalidParameter, match="epsilon"):
        calibrate(bad, [RidgeTerm(ridge=1.0)])


positive = st.floats(0.01, 50)
caps = st.floats(0.5, 1.0)
relations = st.sampled_from(RELATIONS)


@given(r=st.floats(1e-6, 100), m=st.floats(1e-4, 1e4), cap=caps)
@settings(deadline=None)
def test_worst_residual_is_the_maximiser(r, m, cap):
    def bracket(p):
        return r * p + np.log1p(p * (1 - p) / m)

    best = worst_residual(r, m, cap)
    assert 0 <= best <= cap
    assert bracket(best) >= bracket(np.linspace(0, cap, 400)).max() - 1e-12 * (1 + r)


@given(epsilon=st.floats(0.05, 10), ridge=positive, cap=caps, relation=relations)
@settings(deadline=None)
def test_calibration_is_the_largest_safe_rho(epsilon, ridge, cap, relation):
    term = RidgeTerm(ridge=max(ridge, 1 / epsilon), cap=cap)
    rho = calibrate(epsilon, [term], relation)
    assert spent_epsilon(rho, term, relation) <= epsilon
    assert spent_epsilon(rho * (1 + 1e-9), term, relation) > epsilon * (1 - 1e-12)


def test_groups_with_equal_shares_cost_what_one_costs():
    shares = [RidgeTerm(ridge=10.0, row_norm=0.2)] * 5
    assert calibrate(1.0, shares) == pytest.approx(0.5, rel=1e-15)
