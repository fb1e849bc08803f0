"""Losses: residuals, curvature, certificates, and the exact density ratios of every row."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mp, mpf

from confrere.assurance.audit.adversary import worst_loss
from confrere.assurance.theorems import _steepest
from confrere.kernel.accountants import THEOREMS, Exposure, Logistic, Softmax
from confrere.kernel.guarantee import Neighbours
from confrere.kernel.measurements import UNIT
from confrere.kernel.noise import L1, L2, Body
from confrere.methods.allowance import SOLVER, problem, pure_rate
from confrere.outcomes.losses import Huber, LogCosh, Poisson
from confrere.solver.descent import Curved
from tests.world import RELATIONS

NUMBERS = [
    LogCosh(1.0),
    LogCosh(0.3),
    Huber(0.5),
    Poisson(5.0, 5.0),
    Poisson(10.0, 4.0, (-1.0, 2.0)),
    Poisson(3.0, 8.0),
]
LOSSES = [*map(Logistic, (1.0, 0.75, 0.5)), Softmax(3), Softmax(5), *NUMBERS]

#: An interval and a category of two, in coordinates in which the longest row is one long.
_ROOTS = np.array([[0.6]]), np.array([[0.5, 0.1], [0.0, 0.5]])
_REACH = math.sqrt(0.6**2 + 0.1**2 + 0.5**2) * (1 + 1e-12)
BODY = Body(tuple(root / _REACH for root in _ROOTS), (0, 1), (0.4, 0.6))


@pytest.mark.parametrize("change", RELATIONS)
@pytest.mark.parametrize("ridge", [0.4, 8.0])
@pytest.mark.parametrize("norm", [L2(1), L2(2), L1(2), BODY], ids=lambda norm: norm.leaf)
@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_the_exact_ratio_is_attained_and_never_above(loss, norm, ridge, change):
    exposure = Exposure(loss=loss, ridges=(ridge,), neighbours=change)
    epsilon = 1.0 + exposure.spent(0.0)
    rho = pure_rate(epsilon, exposure)
    worst = worst_loss(norm, loss, rho=rho, ridge=ridge, change=change, draws=10)
    assert worst <= epsilon * (1 + 1e-9)
    # On a line records that pull opposite ways have opposite scores.
    on_a_line = norm.size == 1 and change is Neighbours.REPLACE_ONE
    assert worst >= (0.25 if on_a_line else 0.1 if loss.n_scores > 1 else 0.95) * epsilon


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_slopes_and_curvatures_are_what_they_say(loss):
    assert 1 - 2e-3 <= _steepest(loss) <= 1


def test_a_loss_that_bends_more_than_it_says_is_found(monkeypatch):
    bent = LogCosh.bends
    monkeypatch.setattr(LogCosh, "bends", lambda *of: 0.9 * bent(*of))
    assert _steepest(LogCosh(0.3)) > 1.01


@pytest.mark.parametrize("loss", [Logistic(0.75), *NUMBERS], ids=str)
@given(st.floats(-50, 50), st.integers(0, 3))
def test_residuals_are_right_to_the_bit_that_certificates_need(loss, score, which):
    """Against 80 digits: at most 16 roundings of the longest residual, however far the score."""
    label = Curved(loss).extreme_labels[which % len(Curved(loss).extreme_labels)]
    with mp.workdps(80):
        z = mpf(score)
        if isinstance(loss, Poisson):
            exact = min(mp.exp(z + mpf(label[1])), mpf(loss.cap)) - mpf(label[0])
        elif isinstance(loss, Huber):
            exact = max(-mpf(loss.width), min(mpf(loss.width), z - mpf(label)))
        elif isinstance(loss, Logistic):
            exact = -mpf(label) * min(1 / (1 + mp.exp(z * mpf(label))), mpf(loss.cap))
        else:
            exact = mpf(loss.width) * mp.tanh((z - mpf(label)) / mpf(loss.width))
        found = float(loss.residuals(np.array([[[score]]]), np.array([label]))[0, 0, 0])
        assert abs(found) <= loss.pull
        assert abs(mpf(found) - exact) <= 16 * UNIT * loss.pull


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_no_data_set_is_beyond_the_certificate(loss):
    """The smallest tolerance is reached on the worst rows, with noise and a centre as long."""
    rng = np.random.default_rng(0)
    n, d, ridge = 400, 3, 0.5
    X = np.tile([1.0, 0.0, 0.0], (n, 1))
    for label in Curved(loss).extreme_labels:
        labels = np.array([label] * n)
        for length in (0.0, 300.0):
            linear = length * rng.normal(size=(loss.n_scores, d)) / math.sqrt(d)
            made = problem(X, labels, loss, ridge, linear=linear, centre=np.ones_like(linear))
            tolerance = SOLVER.smallest(made)
            W = SOLVER.solve(made, tolerance)
            assert made.proved(W, tolerance).all()


def test_of_numbers_one_block_has_a_proof():
    assert {key[0] for key in THEOREMS if key[2] in ("LogCosh", "Huber", "Poisson")} == {"one"}
