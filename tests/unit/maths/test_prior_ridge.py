"""What a prior leaves open, and the intercept that goes with it."""

import numpy as np
import pytest
from scipy.special import expit, logit

from confrere.maths.prior_ridge import intercept_of, share_of, variance_near

NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(60)


def share(intercept, deviation):
    """Return the mean probability of normal scores, by quadrature."""
    return float(WEIGHTS @ expit(intercept + deviation * NODES) / WEIGHTS.sum())


@pytest.mark.parametrize("rate", [0.12, 0.3, 0.5, 0.8])
@pytest.mark.parametrize("deviation", [0.0, 0.5, 1.0, 2.0])
def test_steep_scores_keep_the_declared_share(rate, deviation):
    assert share(intercept_of(logit(rate), deviation), deviation) == pytest.approx(rate, rel=0.05)


def test_without_it_a_steep_prior_has_half_as_many_positives_again():
    assert share(logit(0.12), 1.5) > 1.5 * 0.12


def test_the_share_is_told_back():
    assert share_of(intercept_of(-2.0, 1.3), 1.3) == pytest.approx(-2.0)


def test_what_one_model_misses_is_added_to_what_sources_leave_open():
    left = variance_near([20.0, 5.0], 0.2)
    assert left == pytest.approx(1 / (5 + 25) + 0.02 * 0.2)
    assert variance_near([20.0, 5.0], 0.2, missed=0.5) == pytest.approx(left + 0.1)
