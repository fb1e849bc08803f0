import math
from dataclasses import replace

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from confrere.errors import CalibrationError, InvalidData, InvalidParameter
from confrere.kernel.guarantee import RELATIONS, Neighbours
from confrere.kernel.streams import (
    RandomSource,
    SeededSource,
    gaussian_noise,
    normals,
)
from confrere.maths.gaussian import (
    GaussianObjective,
    automatic_gaussian_ridge,
    calibrate_gaussian,
    gaussian_delta,
)

epsilons = st.floats(0.01, 20)
deltas = st.floats(-12, -1.5).map(lambda power: 10**power)
ridges = st.floats(-1, 3).map(lambda power: 10**power)
caps = st.floats(0.5, 1)
relations = st.sampled_from(RELATIONS)


@pytest.mark.parametrize("epsilon", [0.0, 1e-8, 1e-4, 0.1, 1.0, 10.0, 50.0, -0.3, -5.0])
@pytest.mark.parametrize("mu", [1e-5, 1e-3, 0.03, 0.2, 1.0, 5.0, 20.0])
def test_the_profile_to_sixty_digits(epsilon, mu):
    with mpmath.workdps(60):
        e, m = mpmath.mpf(epsilon), mpmath.mpf(mu)
        exact = mpmath.ncdf(m / 2 - e / m) - mpmath.exp(e) * mpmath.ncdf(-m / 2 - e / m)
        if exact < 1e-280:
            return
        excess = (mpmath.mpf(float(gaussian_delta(epsilon, mu))) - exact) / exact
    rounding = 5e-15 * max(1, abs(epsilon) / mu, 1 / mu) / mu
    assert 0 <= excess <= max(1e-13, rounding) or exact > 1 - 1e-15


def test_the_profile_of_no_move_at_all():
    np.testing.assert_allclose(gaussian_delta([-1.0, 0.0, 1.0], 0.0), [1 - math.exp(-1), 0, 0])


@given(epsilons, st.floats(0.01, 10))
@settings(max_examples=60, deadline=None)
def test_the_profile_falls_with_epsilon_and_grows_with_mu(epsilon, mu):
    here = gaussian_delta(epsilon, mu)
    assert gaussian_delta(1.01 * epsilon, mu) <= here <= gaussian_delta(epsilon, 1.01 * mu)


@given(epsilons, deltas, ridges, caps, relations)
@settings(max_examples=60, deadline=None)
def test_calibration_never_exceeds_delta_and_wastes_nothing(epsilon, delta, ridge, cap, change):
    objective = GaussianObjective(ridge=ridge, cap=cap, neighbours=change)
    try:
        sigma = calibrate_gaussian(epsilon, delta, objective)
    except CalibrationError:
        assert math.log1p(cap * (1 - cap) / ridge) > 0.9 * epsilon or 4 * epsilon * ridge < 2
        return
    assert objective.delta(epsilon, sigma) <= delta < objective.delta(epsilon, sigma * (1 - 1e-6))
    # A larger ridge, a larger epsilon and a larger delta never need more noise.
    for easier in (
        calibrate_gaussian(epsilon, delta, replace(objective, ridge=2 * ridge)),
        calibrate_gaussian(1.1 * epsilon, delta, objective),
        calibrate_gaussian(epsilon, 1.1 * delta, objective),
    ):
        assert easier <= sigma * (1 + 1e-9)


@given(epsilons, deltas, ridges, st.integers(3, 12), relations)
@settings(max_examples=30, deadline=None)
def test_more_classes_never_need_less_noise(epsilon, delta, ridge, n_classes, change):
    objective = GaussianObjective(ridge=ridge, n_classes=n_classes, neighbours=change)
    more = replace(objective, n_classes=n_classes + 1)
    at = np.array([epsilon])
    assert objective.delta(at, 3.0)[0] <= more.delta(at, 3.0)[0] * (1 + 1e-12)


def test_relations_in_order():
    """Without a Jacobian a record that comes and goes is half a replaced record."""
    free = {
        change: calibrate_gaussian(1.0, 1e-6, GaussianObjective(ridge=math.inf, neighbours=change))
        for change in RELATIONS
    }
    assert free[Neighbours.REPLACE_ONE] == pytest.approx(2 * free[Neighbours.ADD_REMOVE])


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
def test_the_jacobian_is_nearly_free_at_the_floor(epsilon):
    free = calibrate_gaussian(epsilon, 1e-6, GaussianObjective(ridge=math.inf))
    assert calibrate_gaussian(epsilon, 1e-6, GaussianObjective(ridge=2 / epsilon)) <= 1.01 * free
    added = GaussianObjective(ridge=1 / epsilon, neighbours=Neighbours.ADD_REMOVE)
    assert calibrate_gaussian(epsilon, 1e-6, added) == pytest.approx(free / 2, rel=1e-6)


def test_known_values():
    """Sigma of the Gaussian mechanism of sensitivity 2, from Balle and Wang's profile."""
    objective = GaussianObjective(ridge=math.inf)
    assert calibrate_gaussian(1.0, 1e-6, objective) == pytest.approx(8.4494, abs=1e-4)
    assert calibrate_gaussian(0.1, 1e-6, objective) == pytest.approx(72.609, abs=1e-3)


def test_no_sigma_where_the_jacobian_alone_is_too_dear():
    with pytest.raises(CalibrationError, match="ridge"):
        calibrate_gaussian(0.1, 1e-6, GaussianObjective(ridge=1.0, cap=0.5))


@pytest.mark.parametrize("delta", [0.0, 1.0, -1e-6, math.nan])
def test_wrong_deltas(delta):
    with pytest.raises(InvalidParameter, match="delta"):
        calibrate_gaussian(1.0, delta, GaussianObjective(ridge=1.0))


@pytest.mark.parametrize(
    "wrong", [{"cap": 0.4}, {"n_classes": 1}, {"n_classes": 3, "cap": 0.5}, {"row_norm": 0}]
)
def test_wrong_objectives(wrong):
    with pytest.raises(InvalidParameter):
        GaussianObjective(ridge=1.0, **wrong)


def test_the_rule_for_the_ridge():
    objective = GaussianObjective(ridge=1.0)
    assert automatic_gaussian_ridge(1.0, 1e-6, 1e9, 10, objective) == 2.0
    many = automatic_gaussian_ridge(1.0, 1e-6, 1000, 100, objective)
    assert automatic_gaussian_ridge(1.0, 1e-6, 1000, 200, objective) == pytest.approx(4 * many)
    assert automatic_gaussian_ridge(1.0, 1e-6, 2000, 100, objective) == pytest.approx(many / 2)
    with pytest.raises(InvalidData):
        automatic_gaussian_ridge(1.0, 1e-6, 0, 100, objective)


def test_normals_have_their_law_and_are_independent():
    draws = normals(4, 20_000, SeededSource(3))
    assert stats.kstest(draws.ravel(), "norm").pvalue > 1e-4
    correlations = np.corrcoef(draws.T) - np.eye(4)
    assert np.abs(correlations).max() < 4 / math.sqrt(20_000)
    scaled = gaussian_noise(2.5, 4, SeededSource(3), count=20_000)
    np.testing.assert_array_equal(scaled, 2.5 * draws)


class FixedSource(RandomSource):
    """Words that are all the same: the farthest and the nearest draws."""

    simulated = True

    def __init__(self, words):
        self.words = words

    def _words(self, count):
        return np.resize(np.array(self.words, dtype=np.uint64), count)


def test_normals_reach_far_tails_and_stay_finite():
    farthest = normals(1, 1, FixedSource([0]))
    # The least uniform is 2^-105, and half of it is inverted.
    assert farthest[0, 0] == pytest.approx(stats.norm.ppf(2.0**-106))
    nearest = normals(1, 1, FixedSource([2**64 - 1]))
    assert abs(nearest[0, 0]) < 1e-15
