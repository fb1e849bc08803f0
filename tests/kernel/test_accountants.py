"""Published and derived values of the accountants, their shape, and the table of theorems."""

import math
from dataclasses import replace
from pathlib import Path

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from confrere.accounting import profile
from confrere.errors import CalibrationError, InvalidParameter
from confrere.kernel.accountants import (
    THEOREMS,
    Exposure,
    GaussianLoss,
    Logistic,
    Softmax,
    gaussian_delta,
    gaussian_sigmas,
    join,
    loss_of,
    theorem,
    worst_residual,
)
from confrere.kernel.guarantee import Neighbours
from confrere.kernel.measurements import Columns
from confrere.kernel.noise import L2
from confrere.methods.allowance import gaussian_rate, objective, pure_rate
from tests.world import RELATIONS

ADD_REMOVE = Neighbours.ADD_REMOVE

positive = st.floats(0.01, 100)
caps = st.floats(0.5, 1.0)
relations = st.sampled_from(RELATIONS)
epsilons = st.floats(0.01, 20)
deltas = st.floats(-12, -1.5).map(lambda power: 10**power)
ridges = st.floats(-1, 3).map(lambda power: 10**power)


def exposed(ridge, *, cap=1.0, classes=2, **facts):
    """One objective, or several with a tuple of ridges and weights."""
    several = ridge if isinstance(ridge, tuple) else (ridge,)
    return Exposure(loss=loss_of(classes, cap), ridges=several, **facts)


def rate(epsilon, *facts, **more):
    return pure_rate(epsilon, exposed(*facts, **more))


def spent(rho, *facts, **more):
    return exposed(*facts, **more).spent(rho)


def test_no_noise_level_exists_below_the_jacobian():
    with pytest.raises(CalibrationError, match="Raise alpha"):
        rate(0.1, 0.01)
    five = {"weights": (0.2,) * 5}
    assert spent(0.0, (1.25,) * 5, **five) > 0.5
    with pytest.raises(CalibrationError):
        rate(0.5, (1.25,) * 5, **five)


@given(r=st.floats(1e-6, 100), m=st.floats(1e-4, 1e4), cap=caps)
@settings(deadline=None)
def test_worst_residual_is_the_maximiser(r, m, cap):
    def bracket(p):
        return r * p + np.log1p(p * (1 - p) / m)

    best = worst_residual(r, m, cap)
    assert 0 <= best <= cap
    assert bracket(best) >= bracket(np.linspace(0, cap, 400)).max() - 1e-12 * (1 + r)


@given(
    epsilon=st.floats(0.05, 10),
    ridge=positive,
    loss=st.one_of(caps.map(Logistic), st.integers(3, 20).map(Softmax)),
    relation=relations,
)
@settings(deadline=None)
def test_calibration_is_the_largest_safe_rate(epsilon, ridge, loss, relation):
    exposure = Exposure(loss=loss, ridges=(max(ridge, 2 / epsilon),), neighbours=relation)
    rho = pure_rate(epsilon, exposure)
    assert exposure.spent(rho) <= epsilon
    assert exposure.spent(rho * (1 + 1e-9)) > epsilon * (1 - 1e-12)


@given(
    epsilon=st.floats(0.1, 5),
    blocks=st.lists(st.tuples(st.floats(0.1, 1), st.floats(1, 20)), min_size=2, max_size=4),
    classes=st.sampled_from([2, 3, 5]),
    joint=st.booleans(),
    relation=relations,
)
@settings(max_examples=40, deadline=None)
def test_calibration_of_groups_is_the_largest_safe_rate(epsilon, blocks, classes, joint, relation):
    exposure = exposed(
        tuple(2 * len(blocks) * factor / epsilon for _, factor in blocks),
        weights=tuple(weight for weight, _ in blocks),
        classes=classes,
        joint=joint,
        neighbours=relation,
    )
    rho = pure_rate(epsilon, exposure)
    assert exposure.spent(rho) <= epsilon
    assert exposure.spent(rho * (1 + 1e-9)) > epsilon * (1 - 1e-12)


@given(k=st.integers(3, 20), r=st.floats(1e-4, 10), m=st.floats(0.05, 1e3))
@settings(deadline=None)
def test_the_worst_record_of_classwise_noise_is_found(k, r, m):
    t = np.linspace(0, 1, 20_001)
    tried = r * t + (k - 1) * np.log1p((2 * t - t**2 * k / (k - 1)) / ((k - 1) * m))
    found = spent(r / 2, m, classes=k, neighbours=ADD_REMOVE)
    assert tried.max() - 1e-12 <= found <= tried.max() + 1e-5 * (1 + found)


@pytest.mark.parametrize("epsilon", [0.0, 1e-8, 1e-4, 0.1, 1.0, 10.0, 50.0, -0.3, -5.0])
@pytest.mark.parametrize("mu", [1e-5, 1e-3, 0.03, 0.2, 1.0, 5.0, 20.0])
def test_the_profile_to_sixty_digits(epsilon, mu):
    with mpmath.workdps(60):
        e, m = mpmath.mpf(epsilon), mpmath.mpf(mu)
        exact = mpmath.ncdf(m / 2 - e / m) - mpmath.exp(e) * mpmath.ncdf(-m / 2 - e / m)
        if exact < 1e-280:
            return
        excess = (mpmath.mpf(float(gaussian_delta(epsilon, mu))) - exact) / exact
    rounding = 5e-15 * max(1, abs(epsilon) / mu, 1 / mu) / mu
    assert 0 <= excess <= max(1e-13, rounding) or exact > 1 - 1e-15


@pytest.mark.parametrize(("delta", "weights"), [(0.0, (1.0,)), (1e-6, (1.0,)), (1e-6, (0.5, 0.5))])
def test_the_kernel_believes_no_rate_that_somebody_found(delta, weights):
    blocks = tuple(Columns(L2(3), 40.0, weight) for weight in weights)
    made = objective(epsilon=1.0, delta=delta, n_samples=60, blocks=blocks, loss=Logistic())
    assert replace(made, rate=made.rate * (1 - 1e-6)).rate < made.rate
    with pytest.raises(CalibrationError):
        replace(made, rate=made.rate * (1 + 1e-6))


def sigma_of(epsilon, delta, exposure):
    return 1 / gaussian_rate(epsilon, delta, exposure)


@given(epsilons, deltas, ridges, caps, relations)
@settings(max_examples=60, deadline=None)
def test_gaussian_noise_never_exceeds_delta_and_wastes_nothing(epsilon, delta, ridge, cap, change):
    exposure = exposed(ridge, cap=cap, neighbours=change)
    try:
        sigma = sigma_of(epsilon, delta, exposure)
    except CalibrationError:
        assert math.log1p(cap * (1 - cap) / ridge) > 0.9 * epsilon or 4 * epsilon * ridge < 2
        return
    exact, less = (GaussianLoss(exposure, (each,)) for each in (sigma, sigma * (1 - 1e-6)))
    assert exact.delta(epsilon) <= delta < less.delta(epsilon)
    # A larger ridge, a larger epsilon and a larger delta never need more noise.
    for easier in (
        sigma_of(epsilon, delta, replace(exposure, ridges=(2 * ridge,))),
        sigma_of(1.1 * epsilon, delta, exposure),
        sigma_of(epsilon, 1.1 * delta, exposure),
    ):
        assert easier <= sigma * (1 + 1e-9)


@given(
    epsilon=st.floats(0.1, 5),
    delta=deltas,
    weights=st.lists(st.floats(0.05, 1), min_size=2, max_size=4),
    classes=st.sampled_from([2, 3, 5]),
    joint=st.booleans(),
    relation=relations,
)
@settings(max_examples=40, deadline=None)
def test_gaussian_noise_of_groups_never_exceeds_delta_and_wastes_nothing(
    epsilon, delta, weights, classes, joint, relation
):
    exposure = exposed(
        tuple(20 * len(weights) / (epsilon * weight) for weight in weights),
        weights=tuple(weights),
        classes=classes,
        joint=joint,
        neighbours=relation,
    )
    found = gaussian_rate(epsilon, delta, exposure)
    exact, less = (
        GaussianLoss(exposure, gaussian_sigmas(each, exposure))
        for each in (found, 1.000001 * found)
    )
    assert exact.delta(epsilon) <= delta < less.delta(epsilon)
    assert profile(exact, epsilon) <= exact.delta(epsilon)


def test_no_sigma_where_the_jacobian_alone_is_too_dear():
    with pytest.raises(CalibrationError, match="ridge"):
        sigma_of(0.1, 1e-6, exposed(1.0, cap=0.5))
    with pytest.raises(CalibrationError, match="epsilon"):
        sigma_of(0.1, 1e-6, exposed((1.0, 1.0), weights=(0.5, 0.5)))


def test_what_has_a_theorem_has_a_page_and_what_has_none_is_refused():
    for (released, norm, loss, law), page in THEOREMS.items():
        assert theorem(released, norm, 1e-6 * (law == "Gaussian"), loss) == page
        assert Path(page).exists()
    with pytest.raises(InvalidParameter, match="delta must be 0 with Laplace"):
        theorem("one", "L1", 1e-6)
    with pytest.raises(InvalidParameter, match="delta must be 0 for whole numbers"):
        theorem("point", "L1", 1e-6)
    for norm in ("L1", "Max"):
        with pytest.raises(InvalidParameter, match="clipping must be 'separate'"):
            theorem("joint", norm, 0.0)
    assert {loss for shared, _, loss, _ in THEOREMS if shared == "joint"} == {"Logistic", "Softmax"}


@given(
    blocks=st.lists(st.tuples(st.floats(0.05, 1), ridges), min_size=2, max_size=5),
    classes=st.sampled_from([2, 3, 5]),
    cap=caps,
    seed=st.integers(0, 1000),
)
@settings(max_examples=60, deadline=None)
def test_equal_parts_of_a_row_in_equal_blocks_cost_the_most(blocks, classes, cap, seed):
    """Tried: lengths of a row's parts, and residuals in every block; equal ones attain it."""
    q, L = np.array(blocks).T
    k, n, others, most = classes, len(q), classes - 1, cap if classes == 2 else 1.0
    a, p = np.abs(np.random.default_rng(seed).normal(size=(2, 2000, n)))
    a /= np.linalg.norm(a, axis=1, keepdims=True)
    facts = {"cap": cap, "classes": k, "joint": True, "neighbours": ADD_REMOVE}
    p = np.minimum(p / np.linalg.norm(p, axis=1, keepdims=True) * 1.5, most)

    def found(q, L, a, p):
        trace = p * (1 - p) if k == 2 else 2 * p - p**2 * k / others
        pull = 1 if k == 2 else 2
        return (pull * q * a * p + others * np.log1p(trace * a**2 / (others * L))).sum(axis=-1)

    told = spent(1.0, tuple(L.tolist()), weights=tuple(q.tolist()), **facts)
    assert found(q, L, a, p).max() <= told * (1 + 1e-12)
    same, alike = tuple([L[0]] * n), np.linspace(0, most, 2001)[:, None] * np.ones(n)
    told = spent(1.0, same, weights=(n**-0.5,) * n, **facts)
    tried = found(n**-0.5, L[0], n**-0.5, alike).max()
    assert tried * (1 - 1e-12) <= told <= tried + 1e-5 * (1 + told)


@pytest.mark.parametrize("module", ["elsewhere", "confrere.outcomes.losses", "confrere.elsewhere"])
def test_a_loss_of_another_package_gets_no_row(module):
    """Whatever module it says it is of: noise is priced by rows that were audited here."""
    told = type("Huber", (Logistic,), {"__module__": module})
    before = dict(THEOREMS)
    with pytest.raises(InvalidParameter, match="loss must be one of confrere's own"):
        join(told, "docs/proofs/gaussian.md")
    with pytest.raises(TypeError):
        THEOREMS["one", "L2", told.known_as(), "pure"] = "docs/proofs/gaussian.md"
    assert before == THEOREMS
