"""From end to end: what the mechanism releases has the density that the proof speaks of."""

import numpy as np
import pytest
from scipy import stats

from confrere.kernel.streams import SeededSource
from confrere.maths.logistic import log_density
from confrere.mechanisms.feature_groups import FeatureGroupPerturbation
from confrere.mechanisms.objective_perturbation import ObjectivePerturbation

X = np.array([[0.9], [-0.4], [1.0], [0.2]])
Y = np.array([1.0, 1.0, -1.0, 1.0])


def cdf(**law):
    """Integrate the exact density on a grid."""
    grid = np.linspace(-40, 40, 4001)
    density = np.exp([log_density([w], X, Y, **law) for w in grid])
    mass = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2)])
    return lambda w: np.interp(w, grid, mass / mass[-1])


@pytest.mark.parametrize("cap", [1.0, 0.5])
@pytest.mark.parametrize("ridge", [2.5, 0.6])
def test_objective_perturbation_releases_its_density(cap, ridge):
    mechanism = ObjectivePerturbation(epsilon=1.0, n_samples=4, n_features=1, ridge=ridge, cap=cap)
    source = SeededSource(11)
    drawn = [float(mechanism.run(X, Y, source=source)[0]) for _ in range(1500)]
    law = cdf(rho=mechanism.rho, ridge=ridge, cap=cap)
    assert stats.kstest(drawn, law).pvalue > 1e-3
    wrong = cdf(rho=2 * mechanism.rho, ridge=ridge, cap=cap)
    assert stats.kstest(drawn, wrong).pvalue < 1e-6


def test_a_centre_moves_the_law_as_the_density_says():
    centre = np.array([3.0])
    mechanism = ObjectivePerturbation(
        epsilon=1.0, n_samples=4, n_features=1, ridge=2.5, prior_norm=3.0
    )
    source = SeededSource(12)
    drawn = [float(mechanism.run(X, Y, source=source, centre=centre)[0]) for _ in range(1500)]
    law = cdf(rho=mechanism.rho, ridge=2.5, centre=centre)
    assert stats.kstest(drawn, law).pvalue > 1e-3


def test_groups_release_their_densities_independently():
    mechanism = FeatureGroupPerturbation(
        epsilon=1.0, n_samples=4, sizes=(1, 1), ridges=(4.0, 9.0), weights=(0.7, 0.3)
    )
    source = SeededSource(13)
    drawn = np.array([np.concatenate(mechanism.run([X, X], Y, source=source)) for _ in range(1500)])
    for k in range(2):
        law = cdf(rho=mechanism.rates[k], ridge=mechanism.ridges[k])
        assert stats.kstest(drawn[:, k], law).pvalue > 1e-3
    assert stats.spearmanr(drawn[:, 0], drawn[:, 1]).pvalue > 1e-3
