"""The public choices of a geometry: what survives, shares of the rate, the ridge and its price."""

import math

import numpy as np
import pytest

from confrere.kernel.measurements import SOLVER_SHARE
from confrere.methods.allowance import allowance
from confrere.methods.geometry import (
    CONSTANT,
    JACOBIAN,
    Factor,
    choose_geometry,
    expected_signal,
    hedged_shares,
    least_ridge,
)

NUMBER = Factor(1, "number", 1 / 3)
CATEGORY = Factor(5, "category", 0.2)
BENDS = Factor(6, "bend", 0.125, smooth=6)
FACTORS = [NUMBER, NUMBER, CATEGORY, BENDS, CONSTANT]


@pytest.mark.parametrize("leaf", ["Max", "L2"])
@pytest.mark.parametrize("budget", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("n_samples", [50, 100_000])
def test_the_ridge_and_the_roots_belong_together(budget, n_samples, leaf):
    allowed = allowance(budget / (1 - SOLVER_SHARE), n_samples)
    chosen, ridge = choose_geometry(FACTORS, allowed, 0.1, leaf=leaf)
    reach = sum(np.square(root).sum(axis=0).max() for root in chosen.roots)
    assert 1 - 1e-6 < reach <= 1
    assert math.log1p(1 / (4 * ridge)) <= JACOBIAN * budget * (1 + 1e-12)
    assert sum(chosen.shares) == pytest.approx(1)
    assert chosen.groups == (0, 0, 1, 2, 0)


@pytest.mark.parametrize("n_classes", [2, 3, 7])
def test_the_least_ridge_costs_what_was_asked_for(n_classes):
    """Of one record with the largest trace, in as many directions as it can have."""
    shares = np.full(n_classes, 1 / n_classes)
    bend = np.diag(shares) - np.outer(shares, shares) if n_classes > 2 else np.array([[0.25]])
    for cost in (0.01, 0.3):
        ridge = least_ridge(cost, n_classes)
        _, grown = np.linalg.slogdet(np.eye(len(bend)) + bend / ridge)
        assert grown == pytest.approx(cost)


@pytest.mark.parametrize(
    "factors",
    [
        [Factor(2000, "category", 1 / 2000)] * 20 + [CONSTANT],
        [NUMBER] * 20_000 + [Factor(2, "category", 0.5), CONSTANT],
    ],
    ids=["thousands of values", "thousands of numbers"],
)
def test_every_group_has_a_part_of_the_rate_whatever_the_others_are(factors):
    expected = expected_signal(factors, allowance(0.1, 300), 0.2)
    shares = hedged_shares(factors, expected)
    assert sum(shares.values()) == 1
    assert min(shares.values()) > 0
