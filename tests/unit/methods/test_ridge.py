"""The public rules for the ridge, and what a prior leaves open."""

import numpy as np
import pytest
from scipy.special import expit, logit

from confrere import PrivateLogisticRegression
from confrere.errors import InvalidData
from confrere.mechanisms.measurements import SOLVER_SHARE
from confrere.methods.allowance import MANY_CLASSES, allowance, intercept_of, ridge_for
from confrere.methods.plan import PublicFacts

NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(60)


def ridge(n_samples, size, *, loss="logistic", delta=0.0):
    """The rule where one unit of epsilon pays for the noise."""
    allowed = allowance(1 / (1 - SOLVER_SHARE), n_samples, loss=loss, delta=delta)
    return ridge_for(allowed, size)


def test_the_automatic_ridge_weighs_noise_against_rows():
    assert ridge(1000, 10) == pytest.approx(2.0, rel=1e-12)
    assert ridge(1000, 100) == pytest.approx(1000.0, rel=1e-12)
    assert ridge(1000, 100, loss="capped") == pytest.approx(300.0, rel=1e-12)
    with pytest.raises(InvalidData):
        ridge(0, 10)


def test_more_classes_have_a_higher_floor():
    """There the Jacobian is free from 8/epsilon on, and noise is in K - 1 times the dimensions."""
    two, three = (
        PrivateLogisticRegression(epsilon=0.5)
        .plan(PublicFacts(n_samples=10_000, n_features=4, n_classes=k))
        .mechanism
        for k in (2, 3)
    )
    assert two.act.ridge == pytest.approx(2 / (0.99 * 0.5))
    assert three.act.ridge == pytest.approx(MANY_CLASSES * two.act.ridge)
    assert three.rate == pytest.approx(0.99 * 0.5 / 8**0.5)


def share(intercept, deviation):
    """Return the mean probability of normal scores, by quadrature."""
    return float(WEIGHTS @ expit(intercept + deviation * NODES) / WEIGHTS.sum())


@pytest.mark.parametrize("rate", [0.12, 0.3, 0.5, 0.8])
@pytest.mark.parametrize("deviation", [0.0, 0.5, 1.0, 2.0])
def test_steep_scores_keep_the_declared_share(rate, deviation):
    assert share(intercept_of(logit(rate), deviation), deviation) == pytest.approx(rate, rel=0.05)
