"""Stacks: the joint density of all that is released, and splits that look at the data."""

import numpy as np
import pytest

from confrere.kernel.accountants import Exposure, Logistic
from confrere.kernel.guarantee import Neighbours
from confrere.kernel.measurements import SOLVER_SHARE
from confrere.kernel.noise import L2
from confrere.methods.allowance import pure_rate
from confrere.methods.stacks import split_rows
from tests.world import RELATIONS, groups, log_density, opposed_case, row_count

ABOVE = 1 + 1e-9


def test_the_transfer_papers_step_six_is_false():
    """Noise at the full epsilon without paying for the Jacobian: 1.28 at a claim of 1."""
    pair = opposed_case(2, tilt=0, tilt_second=12 / 1000, size=1000.0)
    pairs = [
        opposed_case(2, tilt=m / 1000, tilt_second=12 / 1000, size=1000.0)
        for m in np.linspace(-1, 6, 71)
    ]
    printed = max(each.losses(rho=0.5, ridge=0.39)[0] for each in [pair, *pairs])
    assert printed > 1.27
    sound = pure_rate(1.0, Exposure(loss=Logistic(), ridges=(0.39,)))
    assert max(each.losses(rho=sound, ridge=0.39)[0] for each in pairs) <= ABOVE


def stratified_split(y, n_parts):
    """Sort by label and deal: what a stratified split does."""
    order = np.argsort(y, kind="stable")
    return [np.sort(order[k::n_parts]) for k in range(n_parts)]


def loss_over_parts(X, first, second, parts_first, parts_second, *, rho, ridge):
    """Return the sum over parts of the largest exact log ratio on a grid of weights."""
    total = 0.0
    for a, b in zip(parts_first, parts_second, strict=True):
        total += max(
            abs(
                log_density([w], X[a], first[a], rho=rho, ridge=ridge)
                - log_density([w], X[b], second[b], rho=rho, ridge=ridge)
            )
            for w in np.linspace(-6, 6, 61)
        )
    return total


def test_a_stratified_split_breaks_the_promise_and_a_blind_one_keeps_it():
    n, parts = 100, 2
    X = np.where(np.arange(n) % 2, -1.0, 1.0)[:, None]
    y = np.where(np.arange(n) < 50, 1.0, -1.0)
    flipped = y.copy()
    flipped[0] = -1.0
    rho, ridge = pure_rate(1.0, Exposure(loss=Logistic(), ridges=(2.0,))), 2.0

    before, after = stratified_split(y, parts), stratified_split(flipped, parts)
    moved = len(np.setdiff1d(before[0], after[0]))
    assert moved > 20
    looked = loss_over_parts(X, y, flipped, before, after, rho=rho, ridge=ridge)
    assert looked > 5.0

    blind = split_rows(n, [0.5, 0.5], seed=0)
    kept = loss_over_parts(X, y, flipped, blind, blind, rho=rho, ridge=ridge)
    assert kept <= ABOVE


def delta_of_groups(mechanism, rows, far=1e4, draws=40_000):
    """Estimate the delta of a record that turns round or goes, misfitted in every group."""
    epsilon, rng = mechanism.epsilon * (1 - SOLVER_SHARE), np.random.default_rng(0)
    records = 1 if mechanism.exposure.neighbours is Neighbours.ADD_REMOVE else 2
    loss = np.zeros(draws)
    for x, act in zip(rows, mechanism.acts, strict=True):
        # One column; a centre far to the other side keeps the residual at the cap.
        sigma = 1 / act.law.rate
        b = sigma * rng.normal(size=draws)
        moved = b + records * mechanism.loss.slope * x
        loss += (moved**2 - b**2) / (2 * sigma**2)
        assert act.ridge * far > 100 * sigma  # the residual is the cap whatever the noise
    return float(np.maximum(-np.expm1(epsilon - loss), 0).mean())


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("clipping", ["separate", "joint"])
def test_groups_with_a_delta_keep_it(clipping, relation):
    delta = 1e-2
    q = (0.5, 0.5) if clipping == "separate" else (0.5**0.5, 0.5**0.5)
    rows = (1.0, 1.0) if clipping == "separate" else (0.6, 0.8)
    facts = {"delta": delta, "joint": clipping == "joint", "cap": 0.5}
    mechanism = groups([L2(1)] * 2, (40.0, 40.0), q, **facts, n_samples=row_count(60, relation))
    assert mechanism.guarantee().delta == delta
    found = delta_of_groups(mechanism, rows)
    assert delta / 100 < found <= delta
    # Every corner is paid for; the noise of a single one at twice the move would not do.
    object.__setattr__(mechanism, "rate", 2 * mechanism.rate)
    assert delta_of_groups(mechanism, rows) > delta
