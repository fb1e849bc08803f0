"""The public rule for the ridge."""

import pytest

from confrere import PrivateLogisticRegression
from confrere.errors import InvalidData
from confrere.plans.base_plan import PublicFacts
from confrere.plans.ridges import MANY_CLASSES, summed_ridge


def test_the_automatic_ridge_weighs_noise_against_rows():
    assert summed_ridge("auto", 1.0, 1000, 10) == 2.0
    assert summed_ridge("auto", 1.0, 1000, 100) == 1000.0
    assert summed_ridge("auto", 1.0, 1000, 100, cap=0.5) == 300.0
    with pytest.raises(InvalidData):
        summed_ridge("auto", 1.0, 0, 10)


def test_more_classes_have_a_higher_floor():
    """There the Jacobian is free from 8/epsilon on, and noise is in K - 1 times the dimensions."""
    two, three = (
        PrivateLogisticRegression(epsilon=0.5)
        .plan(PublicFacts(n_samples=10_000, n_features=4, n_classes=k))
        .mechanism
        for k in (2, 3)
    )
    assert two.ridge == pytest.approx(2 / (0.99 * 0.5))
    assert three.ridge == pytest.approx(MANY_CLASSES * two.ridge)
    assert three.rho == pytest.approx(0.99 * 0.5 / 8**0.5)
