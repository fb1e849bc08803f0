"""The public choices of a geometry: what survives, shares of the rate, the ridge and its price."""

import itertools
import math

import numpy as np
import pytest

from confrere.methods.geometry import (
    BELIEF,
    CONSTANT,
    JACOBIAN,
    LOG_ODDS,
    NUGGET,
    SEEN,
    Factor,
    NoiseModel,
    bend_kernel,
    choose_geometry,
    coordinate_variance,
    expected_signal,
    gaussian_noise,
    hat_kernel,
    hedged_shares,
    least_ridge,
    prior_scale,
    pure_noise,
    weight_noise,
)

NUMBER = Factor(1, "number", 1 / 3)
FLAG = Factor(1, "flag", 0.5)
CATEGORY = Factor(5, "category", 0.2)
BENDS = Factor(6, "bend", 0.125, smooth=6)
FACTORS = [NUMBER, NUMBER, CATEGORY, BENDS, CONSTANT]


def test_variances_of_known_laws():
    # In one dimension the law is Laplace's, of variance 2.
    assert coordinate_variance(1, 1) == pytest.approx(2)
    # The L1 ball in d dimensions is Laplace's law in every coordinate, whatever d is.
    for size in (2, 5, 9):
        assert coordinate_variance(size, size) == pytest.approx(2)
    assert coordinate_variance(100, 8) / coordinate_variance(100, 1) == pytest.approx(1 / 15)


def test_prior_variances_make_the_log_odds():
    factors = [NUMBER, FLAG, Factor(12, "category", 1 / 12), BENDS, CONSTANT]
    scale = prior_scale(factors)
    assert sum(scale * factor.weight for factor in factors) == pytest.approx(LOG_ODDS)
    # A slope matters by what it does to the log-odds, however far its column is spread.
    narrow = Factor(1, "number", 0.1)
    assert narrow.weight * narrow.spread == pytest.approx(NUMBER.weight * NUMBER.spread)
    # Where mean and deviation are known a line says more, and bends less.
    assert Factor(6, "bend", 0.125, smooth=6, known=True).weight < BENDS.weight
    assert Factor(1, "bend", 1 / 3, smooth=1).weight == pytest.approx(BENDS.weight / 6)


def test_hats_are_alike_around_a_mean_of_nothing():
    kernel = hat_kernel(8)
    assert np.trace(kernel - NUGGET * np.eye(8)) == pytest.approx(8)
    assert kernel @ np.ones(8) == pytest.approx(NUGGET * np.ones(8))
    assert kernel[0, 1] > kernel[0, 4] > kernel[0, 7]


def test_bends_vanish_towards_the_ends_of_a_curve():
    kernel = bend_kernel(6)
    bridge = kernel - NUGGET * np.eye(6)
    assert np.trace(bridge) == pytest.approx(6)
    assert np.linalg.eigvalsh(kernel).min() > 0.9 * NUGGET
    assert bridge[2, 2] > bridge[0, 0] > 0
    assert bridge[0, 1] > bridge[0, 5] > -1e-12
    assert bend_kernel(1) == pytest.approx(np.eye(1))


@pytest.mark.parametrize("gaussian", [False, True])
@pytest.mark.parametrize("n_samples", [100, 3_000, 100_000])
def test_no_other_shares_let_more_signal_survive(n_samples, gaussian):
    """The sum is written out here again, group by group, and shares are tried."""
    noise = NoiseModel(rate=0.5, gaussian=gaussian)
    found = expected_signal(FACTORS, n_samples=n_samples, curvature=0.2, noise=noise)
    scale = LOG_ODDS / sum(factor.weight for factor in FACTORS)
    groups = {"lines": [NUMBER, NUMBER, CONSTANT], "corners": [CATEGORY], "bends": [BENDS]}

    def signal(shares):
        total = 0.0
        for name, factors in groups.items():
            dimension = sum(factor.size for factor in factors)
            length = sum(f.weight**0.5 * np.diagonal(f.kernel).max() for f in factors)
            for factor in factors:
                if factor.kind == "constant":
                    continue
                h = SEEN * n_samples * 0.2 * factor.spread
                for each in np.linalg.eigvalsh(factor.kernel):
                    t = scale * factor.weight * each
                    s2 = coordinate_variance(dimension, factor.size) / (0.5 * shares[name]) ** 2
                    if gaussian:
                        s2 = length / (shares[name] * factor.weight**0.5 * each * 0.5**2)
                    total += factor.spread * t * (t * h) / (t * h + 1 + s2 / h)
        return total

    assert found.signal == pytest.approx(signal(found.shares))
    assert 0 < found.kept < 1
    for parts in itertools.product(range(1, 16), repeat=3):
        if sum(parts) == 16:
            shares = dict(zip(groups, np.array(parts) / 16, strict=True))
            assert signal(shares) <= found.signal * (1 + 1e-6)


def test_more_records_and_less_noise_are_never_worse():
    kept = [
        expected_signal(FACTORS, n_samples=n, curvature=0.2, noise=pure_noise(budget, 0.5)).kept
        for n, budget in ((100, 0.1), (1000, 0.1), (1000, 1.0), (100_000, 1.0), (10**9, 10.0))
    ]
    assert kept == sorted(kept)
    assert kept[-1] > 0.999


def test_where_little_can_be_learned_lines_have_nearly_all_of_the_rate():
    noise = pure_noise(0.1, 0.5)
    few = expected_signal(FACTORS, n_samples=300, curvature=0.2, noise=noise)
    many = expected_signal(FACTORS, n_samples=10**6, curvature=0.2, noise=noise)
    assert few.shares == {"lines": 14 / 16, "corners": 1 / 16, "bends": 1 / 16}
    assert many.shares["bends"] > many.shares["lines"]


@pytest.mark.parametrize("n_samples", [300, 10**6])
def test_the_model_is_believed_a_part_of_the_way(n_samples):
    """Shares lie between the model's and those by columns, and so do weights' variances."""
    noise = pure_noise(0.1, 0.5)
    expected = expected_signal(FACTORS, n_samples=n_samples, curvature=0.2, noise=noise)
    shares = hedged_shares(FACTORS, expected)
    assert sum(shares.values()) == 1
    assert shares["bends"] == expected.shares["bends"]
    mine, best, columns = (
        one["corners"] / one["lines"]
        for one in (shares, expected.shares, {"lines": 3, "corners": 5})
    )
    assert math.log(mine) == pytest.approx(
        BELIEF * math.log(best) + (1 - BELIEF) * math.log(columns), abs=0.1
    )
    chosen = choose_geometry(
        FACTORS, n_samples=n_samples, least=least_ridge(0.1), curvature=0.2, noise=noise
    )
    number, category = chosen.roots[0][0, 0] ** 2, chosen.roots[2][0, 0] ** 2
    records = SEEN * n_samples * 0.2
    levels = [
        factor.weight
        / (
            1
            + coordinate_variance(size, factor.size)
            / (noise.rate * share) ** 2
            / (records * factor.spread)
        )
        for factor, size, share in (
            (NUMBER, 3, shares["lines"]),
            (CATEGORY, 5, shares["corners"]),
        )
    ]
    assert category / number == pytest.approx((levels[1] / levels[0]) ** BELIEF, rel=1e-6)


def test_the_signal_of_a_form_is_a_part_of_all_there_could_be():
    noise = pure_noise(1.0, 0.5)
    lines = [NUMBER, NUMBER, CATEGORY, CONSTANT]
    alone = expected_signal(lines, n_samples=10**9, curvature=0.2, noise=noise)
    among = expected_signal(lines, n_samples=10**9, curvature=0.2, noise=noise, among=FACTORS)
    assert alone.kept == pytest.approx(1, abs=1e-3)
    assert among.kept < 0.9


@pytest.mark.parametrize("noise", [pure_noise(1.0, 0.5), gaussian_noise(4.0)])
@pytest.mark.parametrize("budget", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("n_samples", [50, 100_000])
def test_the_ridge_and_the_roots_belong_together(budget, n_samples, noise):
    least = least_ridge(JACOBIAN * budget)
    chosen = choose_geometry(FACTORS, n_samples=n_samples, least=least, curvature=0.1, noise=noise)
    reach = sum(np.square(root).sum(axis=0).max() for root in chosen.roots)
    assert 1 - 1e-6 < reach <= 1
    assert math.log1p(1 / (4 * chosen.ridge)) <= JACOBIAN * budget * (1 + 1e-12)
    assert sum(chosen.shares) == pytest.approx(1)
    assert chosen.groups == (0, 0, 1, 2, 0)


@pytest.mark.parametrize("n_classes", [2, 3, 7])
def test_the_least_ridge_costs_what_was_asked_for(n_classes):
    """Of one record with the largest trace, in as many directions as it can have."""
    shares = np.full(n_classes, 1 / n_classes)
    bend = np.diag(shares) - np.outer(shares, shares) if n_classes > 2 else np.array([[0.25]])
    for cost in (0.01, 0.3):
        ridge = least_ridge(cost, n_classes)
        _, grown = np.linalg.slogdet(np.eye(len(bend)) + bend / ridge)
        assert grown == pytest.approx(cost)


def test_shares_of_length_decide_where_gaussian_noise_goes():
    noise = gaussian_noise(4.0)
    chosen = choose_geometry(FACTORS, n_samples=2000, least=0.1, curvature=0.2, noise=noise)
    lengths = [np.square(root).sum(axis=0).max() for root in chosen.roots]
    for group, share in enumerate(chosen.shares):
        mine = [length for length, g in zip(lengths, chosen.groups, strict=True) if g == group]
        assert sum(mine) == pytest.approx(share, rel=1e-6)


def test_the_noise_of_weights_is_that_of_the_law_and_the_ridge_that_of_the_body():
    settings = {"n_samples": 10_000, "curvature": 0.2}
    noise = pure_noise(1.0, 0.5)
    chosen = choose_geometry(FACTORS, least=0.1, noise=noise, **settings)
    found = weight_noise(FACTORS, rate=noise.rate, ridge=chosen.ridge, **settings)
    for (_, ridge), root in zip(found, chosen.roots, strict=True):
        assert ridge == pytest.approx(chosen.ridge * np.linalg.inv(root.T @ root), rel=1e-6)
    shares = [chosen.shares[group] for group in chosen.groups]
    sizes = {0: 3, 1: 5, 2: 6}
    for (covariance, _), factor, group, share in zip(
        found, FACTORS, chosen.groups, shares, strict=True
    ):
        each = coordinate_variance(sizes[group], factor.size) / (noise.rate * share) ** 2
        assert covariance == pytest.approx(each * np.eye(factor.size))


@pytest.mark.parametrize(
    "factors",
    [
        [Factor(2000, "category", 1 / 2000)] * 20 + [CONSTANT],
        [NUMBER] * 20_000 + [Factor(2, "category", 0.5), CONSTANT],
    ],
    ids=["thousands of values", "thousands of numbers"],
)
def test_every_group_has_a_part_of_the_rate_whatever_the_others_are(factors):
    noise = pure_noise(0.1, 0.5)
    expected = expected_signal(factors, n_samples=300, curvature=0.2, noise=noise)
    shares = hedged_shares(factors, expected)
    assert sum(shares.values()) == 1
    assert min(shares.values()) > 0
