"""Noise on computed points, with a delta: the exact profile at the worst pair, and faults found."""

import math
from dataclasses import replace

import numpy as np
import pytest

from confrere.assurance.audit.densities import densities
from confrere.data.frame import Frame
from confrere.kernel import measurements
from confrere.kernel.accountants import gaussian_delta, loss_of
from confrere.kernel.measurements import ROUNDING_SHARE
from confrere.methods.asking import Sizes
from confrere.methods.average import noised_coefficients, noised_minimiser
from confrere.methods.plan import Target
from confrere.methods.sums import GradientRounds, LabelContrast, OneMessage
from confrere.methods.votes import PartyBudget, noised_average

EPSILON, DELTA = 1.0, 1e-3


def profile(mechanism, first, second):
    """Return the exact delta of what is released, at what is left of epsilon for the noise."""
    pairs = zip(densities(mechanism, first), densities(mechanism, second), strict=True)
    squares = [
        float(np.sum((one.point - other.point) ** 2)) / one.law.sigma**2 for one, other in pairs
    ]
    steps = len(squares) * ROUNDING_SHARE * EPSILON
    left = EPSILON - steps / (1.0 if len(squares) == 1 else 1 + ROUNDING_SHARE)
    return float(gaussian_delta(left, math.sqrt(sum(squares))))


def turned(angle, label, other):
    """One row of two columns, and another that is turned by an angle."""
    rows = np.array([[1.0, 0.0]]), np.array([[math.cos(angle), math.sin(angle)]])
    return (rows[0], np.array([label])), (rows[1], np.array([other]))


def worst_profile(mechanism, labels, angles):
    return max(
        profile(mechanism, *turned(angle, label, other))
        for angle in angles
        for label in labels
        for other in labels
    )


def output(n_classes):
    # A ridge so strong that the slope at the minimiser is the one at zero.
    return noised_minimiser(
        epsilon=EPSILON,
        delta=DELTA,
        n_samples=1,
        n_features=2,
        ridge=1e3,
        loss=loss_of(n_classes, 0.5),
    )


def functional(n_classes):
    return noised_coefficients(
        epsilon=EPSILON, delta=DELTA, n_samples=1, n_features=2, n_classes=n_classes
    )


ANGLES, FEW = np.linspace(0, math.pi, 61), (0.0, 2.0, math.pi)
MADE = {
    "output": (lambda: output(2), [-1.0, 1.0], FEW, 0.98),
    # At weights of zero a softmax gradient is sqrt(1 - 1/K) long, not sqrt(2).
    "output, classes": (lambda: output(8), (0, 1), FEW, 1e-3),
    "functional": (lambda: functional(2), [-1.0, 1.0], ANGLES, 0.98),
    "functional, classes": (lambda: functional(4), (0, 1), ANGLES, 0.98),
}


@pytest.mark.parametrize("name", MADE)
def test_delta_is_kept_and_not_wasted(name, monkeypatch):
    make, labels, angles, reached = MADE[name]
    found = worst_profile(make(), labels, angles)
    assert reached * DELTA <= found <= DELTA
    if reached > 0.5:
        real = measurements.gaussian_mu
        monkeypatch.setattr(measurements, "gaussian_mu", lambda *a: 1.05 * real(*a))
        assert worst_profile(make(), labels, angles) > DELTA


SIZES = Sizes({"a": 1, "b": 1})


@pytest.mark.parametrize("n_classes", [2, 3, 5])
@pytest.mark.parametrize("kind", [OneMessage, GradientRounds])
def test_a_record_moves_a_sum_by_the_sensitivity_at_most(kind, n_classes):
    """Random and opposed records of one party: what it adds to the sum never moves further."""
    loss = loss_of(n_classes, 0.5)
    more = {"delta": 1e-6} if kind is GradientRounds else {"alpha": 0.5}
    plan = kind(frame=Frame(2, constant=0.0), epsilon=1.0, target=Target(loss), **more)
    limit = plan.mechanism(SIZES).sensitivity
    rng = np.random.default_rng(0)
    labels = [-1.0, 1.0] if n_classes == 2 else list(range(n_classes))

    def message(row, label, weights):
        given = (np.array([row]), np.array([label]))
        return plan.message(*given, SIZES, weights)

    worst = 0.0
    for _ in range(300):
        angle, other = rng.uniform(0, 2 * math.pi, size=2)
        if rng.random() < 0.5:
            other = angle + math.pi
        weights = 10 ** rng.uniform(-1, 2) * rng.normal(size=plan.centre.shape)
        sent = [
            message([math.cos(a), math.sin(a)], rng.choice(labels), weights) for a in (angle, other)
        ]
        assert sent[0].shape == (2 * (n_classes - 1),)
        worst = max(worst, float(np.linalg.norm(sent[0] - sent[1])))
    assert worst <= limit * (1 + 1e-9)
    assert worst > (0.85 if kind is GradientRounds else 0.3) * limit


def test_rows_by_label_move_a_sum_by_whole_numbers_that_are_their_own():
    """Whatever a row holds, and whoever else is there: as many at once as one by one."""
    plan = LabelContrast(frame=Frame(3, norm="l1"), epsilon=1.0, negative=0.1, share=0.2)
    limit, rng = plan.mechanism(SIZES).sensitivity / 2, np.random.default_rng(0)
    X = rng.normal(size=(5000, 3)) * 10 ** rng.uniform(-3, 1, size=(5000, 1))
    X[0], X[1], X[2] = np.nan, np.inf, (1.0, 0.0, 0.0)
    y, weights = rng.choice([-1.0, 1.0], 5000), np.array([9.0, -1.0, 0.0, 0.5])
    y[2] = 1.0
    each = [plan.message(X[k : k + 1], y[k : k + 1], SIZES, weights) for k in range(len(y))]
    lengths = np.abs(each).sum(axis=1)
    assert 0.99 * limit < lengths[2] <= lengths.max() <= limit
    assert np.array_equal(each, np.rint(each))
    assert np.array_equal(np.sum(each, axis=0), plan.message(X, y, SIZES, weights))


PARTY_MEANS = {
    "average": noised_average(
        PartyBudget(epsilon=EPSILON, delta=DELTA, n_parties=5), n_features=2, alpha=0.1
    ),
    "average, classes": noised_average(
        PartyBudget(epsilon=EPSILON, delta=DELTA, n_parties=5, n_classes=3), n_features=2, alpha=0.1
    ),
}


@pytest.mark.parametrize("name", PARTY_MEANS)
def test_a_whole_party_is_hidden_with_its_delta_and_no_more(name, monkeypatch):
    mechanism = PARTY_MEANS[name]
    upload = np.zeros(mechanism.shape)
    upload[..., 0] = 1e9 if mechanism.budget.n_classes == 2 else [1e9, -1e9, 0.0]
    first = mechanism.clipped(upload)
    assert mechanism.guarantee().delta == DELTA
    values = mechanism.value(first), mechanism.value(-first)
    assert 0.98 * DELTA < profile(mechanism.noise, *values) <= DELTA
    real = measurements.gaussian_mu
    monkeypatch.setattr(measurements, "gaussian_mu", lambda *a: 1.05 * real(*a))
    assert profile(replace(mechanism).noise, *values) > DELTA
