"""The promise to whole parties: the law of the noise, exact ratios on worst pairs, audits."""

import numpy as np
import pytest

from confrere.assurance.audit.densities import densities
from confrere.data.frame import Frame
from confrere.methods.votes import WHOLE, PartyBudget, Voting, noised_cells
from confrere.simulation import SeededSource
from tests.world import released, votes_for

M, N = 5, 12
FRAME = Frame(2, constant=0.0)

#: Rows of one direction: what every party can move at once.
ALIGNED = np.tile([1.0, 0.0], (N, 1))

SETTINGS = {
    "statistic": {"method": "statistic"},
    "soft": {"method": "soft", "alpha": 20.0},
    "vote": {"method": "vote", "alpha": 0.1},
    "weights": {"method": "weights", "alpha": 0.1},
}


def plan(name, epsilon=1.0, auxiliary=ALIGNED):
    asked = {"epsilon": epsilon, "auxiliary": auxiliary} | SETTINGS[name]
    return Voting(frame=FRAME, n_parties=M, **asked)


def sides(voting):
    """What is added up when the odd party between ties turns round."""
    if voting.votes:
        return [votes_for(np.full(N, votes), M) for votes in (2, 3)]
    mechanism = voting.mechanism
    uploads = np.zeros((M, 2))
    uploads[:, 0] = [1e3, 1e3, -1e3, -1e3, 1e3]
    other = uploads * np.where(np.arange(M) == M - 1, -1, 1)[:, None]
    return [sum(map(mechanism.clipped, u)) for u in (uploads, other)]


def draws(voting, side, count, source):
    """Return that many releases of one side."""
    mechanism = voting.mechanism
    arguments = (side, voting.rows) if voting.method in ("soft", "vote") else (side,)
    return released(mechanism, arguments, source, count)


def whitened(mechanism, noise):
    """Return noise in the coordinates in which it is round, and its rate there."""
    if mechanism.axes is None:
        return noise, mechanism.noise.laws[0].rate
    axes, directions = mechanism.axes
    return noise @ directions / axes, mechanism.noise.laws[0].rate


def exact_points(name):
    """The released arrays of both sides without noise, and the plan that noises them."""
    voting = plan(name)
    quiet = plan(name, epsilon=1e12)
    return voting, [draws(quiet, side, 1, SeededSource(0))[0] for side in sides(voting)]


def log_density(voting, out, point):
    """Logarithm of the density of an output around the point without noise, up to a constant."""
    noise, rate = whitened(voting.mechanism, out - point)
    return -rate * np.linalg.norm(noise, axis=1)


@pytest.mark.parametrize("name", SETTINGS)
def test_no_output_tells_the_worst_pair_apart_by_more_than_the_claim(name):
    voting, (first, second) = exact_points(name)
    spread = np.linalg.norm(first - second)
    outputs = np.random.default_rng(0).normal(size=(2000, 2)) * 3 * spread
    # Beyond both points on their line the ratio is largest.
    outputs[:2] = [first + 50 * (first - second), second - 50 * (first - second)]
    ratio = log_density(voting, outputs, first) - log_density(voting, outputs, second)
    assert np.abs(ratio).max() <= 1.0
    assert np.abs(ratio).max() >= 0.95


def totals_of_cells(**settings):
    """The mechanism, and what is added up when a party moves from one entry to another."""
    mechanism = noised_cells(PartyBudget(epsilon=1.0, n_parties=4, **settings), n_cells=2)
    uploads = np.zeros((4, *mechanism.shape), dtype=np.int64)
    uploads[:, 0, 0] = WHOLE
    moved = uploads.copy()
    moved[0, 0, 0], moved[0, -1, -1] = 0, WHOLE
    return mechanism, [sum(map(mechanism.clipped, u)) for u in (uploads, moved)]


@pytest.mark.parametrize(
    "settings", [{}, {"n_classes": 3}, {"trust": "sum", "collusion_threshold": 1}], ids=str
)
def test_shares_of_cells_cost_what_is_claimed_and_no_more(settings):
    mechanism, (first, second) = totals_of_cells(**settings)
    (one,), (other,) = (densities(mechanism.noise, mechanism.value(t)) for t in (first, second))
    assert 1 - 2e-5 <= one.loss(other) <= 1.0
