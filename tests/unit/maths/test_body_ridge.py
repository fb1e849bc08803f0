"""The public choices of a geometry: variances, shares of the rate, the ridge and its price."""

import math

import numpy as np
import pytest

from confrere.maths.geometry import (
    CONSTANT,
    JACOBIAN,
    LOG_ODDS,
    Factor,
    choose_geometry,
    coordinate_variance,
    curve_kernel,
    group_factors,
    prior_variances,
)

NUMBER = Factor(1, "number", 0.25)
CATEGORY = Factor(5, "category", 0.2)
CURVE = Factor(8, "curve", 0.125, smooth=8)


def test_variances_of_known_laws():
    # In one dimension the law is Laplace's, of variance 2.
    assert coordinate_variance(1, 1) == pytest.approx(2)
    # The L1 ball in d dimensions is Laplace's law in every coordinate, whatever d is.
    for size in (2, 5, 9):
        assert coordinate_variance(size, size) == pytest.approx(2)
    assert coordinate_variance(100, 8) / coordinate_variance(100, 1) == pytest.approx(1 / 15)


def test_prior_variances_make_the_log_odds():
    variances = prior_variances([NUMBER, Factor(12, "category", 1 / 12), CURVE, CONSTANT])
    assert variances.sum() == pytest.approx(LOG_ODDS)
    assert variances[2] > variances[0] > variances[1] > variances[3]


def test_a_curve_has_no_level_of_its_own():
    kernel = curve_kernel(8)
    smooth = kernel - 0.05 * np.eye(8)
    assert np.abs(smooth.sum(axis=0)).max() < 1e-12
    assert np.trace(smooth) == pytest.approx(8)
    assert np.linalg.eigvalsh(kernel).min() > 0.04
    # Neighbours are alike, ends are not.
    assert kernel[0, 1] > 0 > kernel[0, 7]


def test_intervals_and_one_hot_blocks_are_two_bodies_unless_there_are_curves():
    groups, shares = group_factors([NUMBER, CATEGORY, CONSTANT])
    assert groups == (0, 1, 0)
    assert sum(shares) == pytest.approx(1)
    assert group_factors([NUMBER, CATEGORY, CURVE, CONSTANT]) == ((0, 0, 0, 0), (1.0,))
    assert group_factors([NUMBER, CONSTANT]) == ((0, 0), (1.0,))


def test_shares_are_the_best_ones():
    """No other split of the rate has less noise over prior variance."""
    factors = [NUMBER, NUMBER, CATEGORY, CATEGORY, CONSTANT]
    groups, shares = group_factors(factors)
    variances = prior_variances(factors)

    def noise(first):
        total = 0.0
        for factor, group, variance in zip(factors, groups, variances, strict=True):
            share = first if group == 0 else 1 - first
            size = sum(f.size for f, g in zip(factors, groups, strict=True) if g == group)
            total += factor.size * coordinate_variance(size, factor.size) / variance / share**2
        return total

    best = noise(shares[0])
    assert all(best <= noise(first) * (1 + 1e-12) for first in np.linspace(0.05, 0.95, 50))


@pytest.mark.parametrize("budget", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("n_samples", [50, 100_000])
def test_the_ridge_and_the_roots_belong_together(budget, n_samples):
    factors = [NUMBER, CATEGORY, CURVE, CONSTANT]
    chosen = choose_geometry(factors, n_samples=n_samples, budget=budget, curvature=0.1, cap=0.5)
    reach = sum(np.square(root).sum(axis=0).max() for root in chosen.roots)
    assert 1 - 1e-6 < reach <= 1
    assert math.log1p(1 / (4 * chosen.ridge)) <= JACOBIAN * budget * (1 + 1e-12)
    # More records, or a larger budget, never make a stronger ridge.
    more = choose_geometry(
        factors, n_samples=2 * n_samples, budget=2 * budget, curvature=0.1, cap=0.5
    )
    assert more.ridge <= chosen.ridge
