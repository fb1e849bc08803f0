"""One run is the first of many, and every release goes through one act; see test_mutations.py."""

import numpy as np
import pytest

from confrere.assurance.cohort import counts
from confrere.errors import InvalidParameter, Unpaid
from confrere.kernel.accountants import loss_of
from confrere.kernel.guarantee import Guarantee
from confrere.kernel.measurements import ROUNDING_SHARE, Part, Point
from confrere.kernel.noise import L1, L2, HiddenSize
from confrere.methods.average import noised_coefficients, noised_minimiser
from confrere.methods.votes import PartyBudget, noised_average, noised_statistic, noised_votes
from confrere.simulation import SeededSource
from tests.kernel.test_geometry import body_of
from tests.world import ball, groups, paid, votes_for

RNG = np.random.default_rng(0)
X = RNG.normal(size=(12, 3)) / 6
Y = np.where(X[:, 0] > 0, 1.0, -1.0)
CODES = RNG.integers(0, 3, size=12)
SIZES = {"epsilon": 1.0, "n_samples": 12, "ridge": 5.0}
HIDDEN = SIZES | {"n_samples": HiddenSize(12)}
BODY = body_of("prism", block=False)
TALLY = votes_for(np.arange(12) % 4, 3)

PARTIES = PartyBudget(epsilon=1.0, n_parties=3)


def noised(made, *data):
    return made.noise, made.value(*data)


ACTS = {
    "objective": (ball(3, **SIZES), ([X], Y)),
    "hidden": (ball(3, **HIDDEN), ([X], Y)),
    "softmax": (ball(3, **SIZES, classes=3), ([X], CODES)),
    "classes": (ball(3, **SIZES, classes=4), ([X], CODES)),
    "laplace": (ball(3, **SIZES, kind=L1), ([X / 2], Y)),
    "gaussian": (ball(3, **SIZES, delta=1e-6), ([X], Y)),
    "output": (noised_minimiser(**SIZES, n_features=3, loss=loss_of(2)), (X, Y)),
    "output, softmax": (noised_minimiser(**SIZES, n_features=3, loss=loss_of(3)), (X, CODES)),
    "functional": (noised_coefficients(epsilon=1.0, n_samples=12, n_features=3), (X, Y)),
    "counts": (counts(1.0, 2), np.arange(4)),
    "groups": (
        groups([L2(1), L2(2)], (5.0, 6.0), (0.4, 0.6), n_samples=12),
        ([X[:, :1], X[:, 1:]], Y),
    ),
    "bodies": (
        groups([BODY, BODY], (50.0, 60.0), (0.4, 0.6), n_samples=12, classes=3),
        ([BODY.coordinates(X), BODY.coordinates(X)], CODES),
    ),
    "average": noised(noised_average(PARTIES, n_features=3, alpha=0.1), np.ones(3)),
    "statistic": noised(noised_statistic(PARTIES, rows=X), TALLY),
    "votes": noised(noised_votes(PARTIES, n_auxiliary=12, n_features=3, alpha=0.1), TALLY, X),
}


@pytest.mark.parametrize("name", ACTS)
def test_real_data_are_released_once(name):
    """More than one release of the same data for one price needs a seed, which is a confession."""
    mechanism, data = ACTS[name]
    with paid(mechanism.guarantee()) as ticket:
        with pytest.raises(Unpaid, match="count"):
            ticket.draw(mechanism, data, 2)
        with pytest.raises(Unpaid, match="not"):
            mechanism.sample(data, ticket)
        ticket.draw(mechanism, data)
        with pytest.raises(Unpaid, match="more than is left"):
            ticket.draw(mechanism, data)
    with pytest.raises(Unpaid, match="over"):
        ticket.draw(mechanism, data)
    with pytest.raises(InvalidParameter, match="count"):
        SeededSource(0).draw(mechanism, data, 0)


def test_the_step_behind_added_noise_hides_what_floats_do():
    """Points that differ by rounding, far below the radius, cannot be told apart."""
    for size, epsilon in ((10, 0.1), (100, 0.1), (5, 3.0)):
        noise = Point(promise=Guarantee(epsilon), sensitivity=0.3, parts=(Part(size, 40.0),))
        (step,) = noise.steps
        longest = noise.laws[0].longest + 40.0
        off = 64 * np.finfo(float).eps * longest
        assert step.radius > 10 * off
        point = RNG.normal(size=size)
        other = point + off * RNG.normal(size=size) / np.sqrt(size)
        moved = np.abs(np.rint(point / step.spacing) - np.rint(other / step.spacing)).sum()
        assert moved / step.scale <= step.epsilon
        assert epsilon * ROUNDING_SHARE == pytest.approx(step.epsilon)
        # Sums of steps and integer noise stay whole numbers that doubles hold.
        assert longest / step.spacing + 80 * step.scale < 2.0**53
        # And its own noise is nothing beside that which protects.
        assert step.scale * step.spacing < 1e-3 * noise.deviations[0]
