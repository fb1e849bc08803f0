"""The guarantee itself: exact density ratios on adversarial neighbours, and what breaks them."""

import numpy as np
import pytest
from scipy import stats

from confrere import PrivateLogisticRegression
from confrere.assurance.audit.adversary import random_unit
from confrere.data.frame import BoundedRows
from confrere.estimators import designed
from confrere.kernel import losses, norms
from confrere.kernel.measurements import SOLVER_SHARE
from confrere.kernel.norms import L2
from confrere.methods import PublicFacts
from confrere.simulation import SeededSource
from tests.world import forget, opposed_case

ABOVE = 1 + 1e-9
MADE = BoundedRows.__init__


def guarantee_holds(epsilon=1.0, ridge_floor=0.3, purpose="inference"):
    """Check the estimator's own rows, ridge and noise, from end to end.

    Returns nothing; raises AssertionError where the density ratio exceeds the objective's share
    of epsilon or the noise that is drawn is not the noise that the ratio speaks of.
    """
    model = designed(
        PrivateLogisticRegression(epsilon=epsilon, alpha=1e-09, purpose=purpose),
        ridge_floor=ridge_floor,
    )
    plan = model.plan(PublicFacts(n_samples=20, n_features=2))
    mechanism = plan.mechanism
    rows = plan.frame.rows(np.array([random_unit(np.random.default_rng(i), 2) for i in range(50)]))
    constant_is_inside = np.linalg.norm(rows, axis=1).max() <= 1
    reach = float(np.linalg.norm(rows, axis=1).max())
    worst = 0.0
    for margin in np.linspace(-4, 8, 25):
        case = opposed_case(3, tilt=margin / 300, tilt_second=12 / 300, size=300)
        common = {"rho": mechanism.rate, "ridge": mechanism.act.ridge, "loss": mechanism.loss}
        worst = max(worst, *case.scaled(reach).losses(**common))
    assert worst <= epsilon * (1 - SOLVER_SHARE) * ABOVE
    assert constant_is_inside
    drawn = L2(3).draw(mechanism.rate, SeededSource(1), 4000)
    norms = np.linalg.norm(drawn, axis=1)
    assert stats.kstest(norms, stats.gamma(3, scale=1 / mechanism.rate).cdf).pvalue > 1e-4


@pytest.mark.parametrize("purpose", ["inference", "prediction"])
def test_the_estimator_keeps_its_promise(purpose):
    guarantee_holds(purpose=purpose)


def without_jacobian(r, m, cap=1.0):
    return cap


def without_minus_sign(rho, dimension, count, source):
    """Density growing as exp(+rho ||b||), on the ball where the right one has its mass."""
    edge = stats.gamma.ppf(0.999, dimension, scale=1 / rho)
    u = source.uniforms(count)
    return np.log1p(u * np.expm1(rho * edge)) / rho


def rate_for_scale(rho, dimension, count, source):
    return -np.log(source.uniforms(count, dimension)).sum(axis=1) * rho


def constant_outside(self, X, bound, *, constant, **_):
    MADE(self, X, bound, constant=constant)
    vars(self).update(factors=self.factors / np.sqrt(1 - constant**2))


@pytest.mark.parametrize(
    ("place", "name", "mutant"),
    [
        (losses, "worst_residual", without_jacobian),
        (norms, "gamma_norm", without_minus_sign),
        (norms, "gamma_norm", rate_for_scale),
        (BoundedRows, "__init__", constant_outside),
    ],
    ids=["no Jacobian term", "no minus sign", "Gamma rate for scale", "intercept outside"],
)
def test_a_broken_rule_is_found(monkeypatch, place, name, mutant):
    monkeypatch.setattr(place, name, mutant)
    forget()
    with pytest.raises(AssertionError):
        guarantee_holds()
    forget()
