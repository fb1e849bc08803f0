"""Accountants of more than two classes: values, worst records, and what class-wise noise saves."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from confrere.kernel.guarantee import RELATIONS, Neighbours
from confrere.maths.calibration import (
    CLASSWISE_FROM,
    calibrate_classwise,
    calibrate_softmax,
    spent_epsilon_classwise,
    spent_epsilon_softmax,
)

positive = st.floats(0.01, 100)
relations = st.sampled_from(RELATIONS)


@pytest.mark.parametrize(
    ("calibrate", "spent"),
    [
        (calibrate_softmax, spent_epsilon_softmax),
        (calibrate_classwise, spent_epsilon_classwise),
    ],
)
@given(epsilon=st.floats(0.05, 10), ridge=positive, k=st.integers(2, 20), relation=relations)
@settings(deadline=None)
def test_calibration_is_the_largest_safe_rate(calibrate, spent, epsilon, ridge, k, relation):
    ridge = max(ridge, 2 / epsilon)
    rho = calibrate(epsilon, ridge, k, neighbours=relation)
    assert spent(rho, ridge, k, neighbours=relation) <= epsilon
    assert spent(rho * (1 + 1e-9), ridge, k, neighbours=relation) > epsilon


@given(k=st.integers(3, 20), r=st.floats(1e-4, 10), m=st.floats(0.05, 1e3))
@settings(deadline=None)
def test_the_worst_softmax_record_is_found(k, r, m):
    # Where the trace bends the derivative jumps: a grid alone would miss the corner.
    x = np.append(np.linspace(0, np.sqrt(2), 20_001), np.sqrt(k / (k - 1)))
    trace = 2 * np.minimum(1, x * np.sqrt((k - 1) / k)) - x**2
    tried = r * x + (k - 1) * np.log1p(trace / ((k - 1) * m))
    found = spent_epsilon_softmax(r, m, k, neighbours=Neighbours.ADD_REMOVE)
    assert tried.max() - 1e-12 <= found <= tried.max() + 1e-5 * (1 + found)


@given(k=st.integers(3, 10), seed=st.integers(0, 1000))
@settings(deadline=None)
def test_no_softmax_record_bends_more_than_its_gradient_allows(k, seed):
    rng = np.random.default_rng(seed)
    pi = rng.dirichlet(np.full(k, 10 ** rng.uniform(-2, 2)), size=200)
    pi[0] = (1 - 0.7) / (k - 1)
    pi[0, 0] = 0.7
    x = np.linalg.norm(pi - np.eye(k)[0], axis=1)
    trace = 1 - (pi**2).sum(axis=1)
    bound = 2 * np.minimum(1, x * np.sqrt((k - 1) / k)) - x**2
    assert np.all(trace <= bound + 1e-12)
    assert trace[0] == pytest.approx(bound[0])


@pytest.mark.parametrize("k", [3, 6, 10])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_the_softmax_jacobian_is_free_from_eight_over_epsilon_on(k, epsilon):
    free = epsilon / (2 * math.sqrt(2))
    assert calibrate_softmax(epsilon, 8.001 / epsilon, k) == pytest.approx(free, rel=1e-12)
    below = calibrate_softmax(epsilon, 7.8 / epsilon, k)
    assert 0.99 * free < below < free * (1 - 1e-6)
    # Bounding the two terms one by one wastes a tenth of the noise and more.
    apart = (epsilon - (k - 1) * math.log1p(epsilon / (2 * k))) / (2 * math.sqrt(2))
    assert calibrate_softmax(epsilon, 2 / epsilon, k) > 1.1 * apart


@given(k=st.integers(2, 20), r=st.floats(1e-4, 10), m=st.floats(0.05, 1e3))
@settings(deadline=None)
def test_the_worst_record_of_classwise_noise_is_found(k, r, m):
    t = np.linspace(0, 1, 20_001)
    tried = r * t + (k - 1) * np.log1p((2 * t - t**2 * k / (k - 1)) / ((k - 1) * m))
    found = spent_epsilon_classwise(r / 2, m, k, neighbours=Neighbours.ADD_REMOVE)
    assert tried.max() - 1e-12 <= found <= tried.max() + 1e-5 * (1 + found)


@given(k=st.integers(3, 10), seed=st.integers(0, 1000))
@settings(deadline=None)
def test_no_record_bends_more_than_its_share_of_other_classes_allows(k, seed):
    rng = np.random.default_rng(seed)
    pi = rng.dirichlet(np.full(k, 10 ** rng.uniform(-2, 2)), size=200)
    pi[0] = 0.7 / (k - 1)
    pi[0, 0] = 0.3
    t = 1 - pi[:, 0]
    gradient = np.abs(pi - np.eye(k)[0]).sum(axis=1)
    np.testing.assert_allclose(gradient, 2 * t, rtol=1e-7, atol=1e-15 * k)  # 1 - pi cancels
    trace, bound = 1 - (pi**2).sum(axis=1), 2 * t - t**2 * k / (k - 1)
    assert np.all(trace <= bound + 1e-12)
    assert trace[0] == pytest.approx(bound[0])


@pytest.mark.parametrize("d", [5, 20, 100])
@pytest.mark.parametrize("k", [3, 4, 6, 10])
def test_classwise_noise_is_less_from_four_classes_on(k, d):
    """Noise that classes have in common moves no prediction: (K-1)/K of it counts."""
    ridge, size = 20.0, (k - 1) * d
    one_norm = size * (size + 1) / calibrate_softmax(1.0, ridge, k) ** 2
    classwise = (k - 1) * d * (d + 1) / calibrate_classwise(1.0, ridge, k) ** 2
    assert (classwise < one_norm) == (k >= CLASSWISE_FROM)
    expected = (size + 1) / (2 * (d + 1))
    assert 0.88 * expected < one_norm / classwise < expected
