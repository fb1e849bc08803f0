"""The guarantee itself: exact density ratios on adversarial neighbours, and what breaks them."""

import numpy as np
import pytest
from scipy import stats

from confrere import PrivateLogisticRegression
from confrere.arrays import sum_zero_basis
from confrere.assurance.audit.adversary import log_density, opposed_case, random_unit, worst_loss
from confrere.data.frame import BoundedRows, into_ball
from confrere.estimators import designed
from confrere.kernel import accountants, norms
from confrere.kernel.accountants import Exposure, Logistic, Softmax
from confrere.kernel.guarantee import Neighbours
from confrere.kernel.measurements import SOLVER_SHARE
from confrere.kernel.norms import L2
from confrere.methods import PublicFacts
from confrere.methods.allowance import pure_rate
from confrere.simulation import SeededSource
from tests.world import RELATIONS, forget

ABOVE = 1 + 1e-9
MADE = BoundedRows.__init__


@pytest.mark.parametrize("d", [1, 2, 5])
@pytest.mark.parametrize("cap", [1.0, 0.75, 0.5])
@pytest.mark.parametrize("change", RELATIONS)
@pytest.mark.parametrize(("epsilon", "ridge"), [(1.0, 2.0), (1.0, 0.4), (0.2, 3.0), (4.0, 0.05)])
def test_never_above_epsilon_and_nothing_wasted(d, cap, change, epsilon, ridge):
    rho = pure_rate(epsilon, Exposure(loss=Logistic(cap), ridges=(ridge,), neighbours=change))
    worst = worst_loss(L2(d), Logistic(cap), rho=rho, ridge=ridge, change=change)
    assert worst <= epsilon * ABOVE
    if d > 1:  # on a line two badly fitted records cannot pull opposite ways
        assert worst >= 0.99 * epsilon


@pytest.mark.parametrize("d", [1, 2, 5])
@pytest.mark.parametrize("change", RELATIONS)
@pytest.mark.parametrize("n_classes", [3, 5])
def test_multinomial_never_above_epsilon(d, change, n_classes):
    epsilon, ridge = 1.0, 3.0
    exposure = Exposure(loss=Softmax(n_classes), ridges=(ridge,), neighbours=change)
    rho = pure_rate(epsilon, exposure)
    basis = sum_zero_basis(n_classes)
    rng = np.random.default_rng(0)
    largest = 0.0
    for _ in range(100):
        X = np.array([random_unit(rng, d) for _ in range(3)])
        codes = rng.integers(0, n_classes, size=3)
        X_other, codes_other = X.copy(), codes.copy()
        codes_other[0] = rng.integers(n_classes)
        X_other[0] = random_unit(rng, d)
        if change is Neighbours.ADD_REMOVE:
            X_other, codes_other = X[1:], codes[1:]
        W = basis @ rng.normal(size=(n_classes - 1, d)) * 10 ** rng.uniform(-1, 1.5)
        known = {"rho": rho, "ridge": ridge, "loss": Softmax(n_classes)}
        first = log_density(W, X, codes, **known)
        second = log_density(W, X_other, codes_other, **known)
        largest = max(largest, abs(first - second))
    assert 0.1 * epsilon < largest <= epsilon * ABOVE


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
        (accountants, "worst_residual", without_jacobian),
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


def test_scaling_by_the_data_is_found():
    """Rows scaled by their own largest norm: one record decides how long all others are."""
    small = np.full((30, 1), 1.0)
    large = small.copy()
    large[0] = 1000.0

    def scaled(X):
        return X / np.abs(X).max()

    def loss(prepare):
        first, second = prepare(small), prepare(large)
        y = np.ones(30)
        rho = pure_rate(1.0, Exposure(loss=Logistic(), ridges=(2.0,)))
        ratios = [
            abs(
                log_density([w], first, y, rho=rho, ridge=2.0)
                - log_density([w], second, y, rho=rho, ridge=2.0)
            )
            for w in np.linspace(-5, 15, 81)
        ]
        return max(ratios)

    assert loss(scaled) > 5
    assert loss(lambda X: into_ball(X)) <= ABOVE
