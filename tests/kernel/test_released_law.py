"""From end to end: what the mechanism releases has the density that the proof speaks of."""

import numpy as np
import pytest
from scipy import stats

from confrere.kernel.noise import L2
from confrere.simulation import SeededSource
from tests.world import ball, groups, log_density

X = np.array([[0.9], [-0.4], [1.0], [0.2]])
Y = np.array([1.0, 1.0, -1.0, 1.0])


def drawn_from(mechanism, rows, seed):
    """Return 1,500 releases: some one by one, as fits draw them, and the others at once."""
    source = SeededSource(seed)
    alone = [np.hstack(mechanism.sample((rows, Y), source)) for _ in range(300)]
    return np.vstack([*alone, np.hstack(mechanism.sample((rows, Y), source, 1200))])


def cdf(**law):
    """Integrate the exact density on a grid."""
    grid = np.linspace(-40, 40, 4001)
    density = np.exp([log_density([w], X, Y, **law) for w in grid])
    mass = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2)])
    return lambda w: np.interp(w, grid, mass / mass[-1])


@pytest.mark.parametrize("cap", [1.0, 0.5])
@pytest.mark.parametrize("ridge", [2.5, 0.6])
def test_objective_perturbation_releases_its_density(cap, ridge):
    mechanism = ball(1, n_samples=4, ridge=ridge, cap=cap)
    drawn = drawn_from(mechanism, [X], 11)[:, 0]
    law = cdf(rho=mechanism.rate, ridge=ridge, loss=mechanism.loss)
    assert stats.kstest(drawn, law).pvalue > 1e-3
    wrong = cdf(rho=2 * mechanism.rate, ridge=ridge, loss=mechanism.loss)
    assert stats.kstest(drawn, wrong).pvalue < 1e-6


def test_a_centre_moves_the_law_as_the_density_says():
    centre = np.array([3.0])
    mechanism = ball(1, n_samples=4, ridge=2.5, centre=centre)
    drawn = drawn_from(mechanism, [X], 12)[:, 0]
    law = cdf(rho=mechanism.rate, ridge=2.5, centre=centre)
    assert stats.kstest(drawn, law).pvalue > 1e-3


def test_groups_release_their_densities_independently():
    mechanism = groups([L2(1), L2(1)], (4.0, 9.0), (0.7, 0.3), n_samples=4)
    drawn = drawn_from(mechanism, [X, X], 13)
    for act, column in zip(mechanism.acts, drawn.T, strict=True):
        law = cdf(rho=act.law.rate, ridge=act.ridge)
        assert stats.kstest(column, law).pvalue > 1e-3
    assert stats.spearmanr(drawn[:, 0], drawn[:, 1]).pvalue > 1e-3
