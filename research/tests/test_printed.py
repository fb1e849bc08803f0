"""Accountants as the papers print them: their numbers, and that they are sound, and loose."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from confrere.errors import InvalidParameter
from confrere.estimators import MultipartyClassifier, designed
from confrere.kernel.accountants import Exposure, Logistic
from confrere.methods.allowance import pure_rate
from confrere.methods.votes import largest_norm as longest_minimiser
from confrere.methods.votes import soft_sensitivity
from confrere_research.as_printed.multiparty import (
    PrintedMultiparty,
    printed_average_sensitivity,
    printed_soft_sensitivity,
)
from confrere_research.as_printed.regression import printed_calibration, printed_group_epsilon
from confrere_research.as_printed.stacking import fit_pst_f


def exposed(*ridges, weights=(1.0,)):
    return Exposure(loss=Logistic(), ridges=ridges, weights=tuple(weights))


@pytest.mark.parametrize(
    ("epsilon", "alpha", "n", "epsilon_prime", "delta"),
    [
        (1.0, 0.01, 1000, 0.950615, 0.0),
        (1.0, 1e-4, 1000, 0.5, 7.80203e-4),
        (0.1, 1e-3, 1000, 0.05, 8.87552e-3),
        (1.0, 1.0, 1, 0.553713, 0.0),
    ],
)
def test_printed_values(epsilon, alpha, n, epsilon_prime, delta):
    printed = printed_calibration(epsilon, n, alpha)
    assert round(printed.epsilon_prime, 6) == epsilon_prime
    assert printed.extra_ridge == pytest.approx(delta, rel=1e-6)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
@pytest.mark.parametrize("alpha", [1e-4, 0.01, 1.0])
def test_the_printed_calibration_is_sound_but_loose(epsilon, alpha):
    """What the exact accountant finds at its rate and ridge is below the claim."""
    printed = printed_calibration(epsilon, 100, alpha)
    ridge = 100 * (alpha + printed.extra_ridge)
    assert exposed(ridge).spent(printed.rho) <= epsilon
    assert pure_rate(epsilon, exposed(ridge)) >= printed.rho
    assert pure_rate(1.0, exposed(1.0)) > 1.5 * printed_calibration(1.0, 100, 0.01).rho


@pytest.mark.parametrize("factor", [0.2, 1.0, 4.0])
def test_groups_as_printed_are_sound_where_no_ridge_shrinks(factor):
    """Every group at its share of one rate, in the coordinates in which its bound is one."""
    weights = [0.5, 0.25, 0.15, 0.07, 0.03]
    given = [factor * 2 / q for q in weights]
    left = printed_group_epsilon(1.0, 1, given, [1.0] * len(weights))
    rate, ridges = left / 2, given
    if left <= 0:
        floors = [1 / (4 * math.expm1(q / 4)) for q in weights]
        rate, ridges = 1 / 4, [max(pair) for pair in zip(given, floors, strict=True)]
    assert exposed(*ridges, weights=weights).spent(rate) <= 1.0


def test_sensitivities_are_the_papers():
    assert printed_soft_sensitivity(1e-4, 1) == pytest.approx(2e4)
    assert printed_soft_sensitivity(1e-4, 50) == pytest.approx(400)
    assert printed_average_sensitivity(1e-4, 50) == pytest.approx(400)
    assert printed_soft_sensitivity(0.1, 5, n_classes=4) == pytest.approx(2 * math.sqrt(2))
    assert printed_average_sensitivity(0.1, 5, n_classes=4) == pytest.approx(4 * math.sqrt(2))
    for n_rows, n_parties in ((1, 1), (100, 7), (43_000, 20_000)):
        joint = printed_soft_sensitivity(1e-3, n_parties, private_auxiliary=n_rows)
        alone = printed_soft_sensitivity(1e-3, n_parties)
        assert joint / alone == pytest.approx((n_rows + n_parties - 1) / n_rows)


@given(
    alpha=st.floats(1e-9, 1e3),
    n_parties=st.integers(1, 10**5),
    n_classes=st.integers(2, 20),
    n_rows=st.none() | st.integers(1, 10**6),
)
def test_attained_sensitivities_are_never_larger(alpha, n_parties, n_classes, n_rows):
    settings = {"n_classes": n_classes, "private_auxiliary": n_rows}
    attained = soft_sensitivity(alpha, n_parties, **settings)
    assert attained <= printed_soft_sensitivity(alpha, n_parties, **settings) * (1 + 1e-9)
    clipped = 2 * longest_minimiser(alpha, n_classes) / n_parties
    assert clipped <= printed_average_sensitivity(alpha, n_parties, n_classes=n_classes)


RNG = np.random.default_rng(0)
X = RNG.normal(size=(480, 4)) / 3
Y = (X[:, 0] + 0.5 * X[:, 1] > 0).astype(int)
FIT = {"party": np.repeat(np.arange(60), 8), "auxiliary": RNG.normal(size=(200, 4)) / 3}


@pytest.mark.parametrize("method", ["soft", "vote", "weights"])
def test_printed_sensitivities_need_more_noise(method):
    settings = {"method": method, "alpha": 1e-2, "random_state": 0}
    exact = MultipartyClassifier(**settings, epsilon=1e7).fit(X, Y, **FIT)
    tight, printed = (
        np.linalg.norm(kind(**settings, epsilon=1.0).fit(X, Y, **FIT).coef_ - exact.coef_)
        for kind in (MultipartyClassifier, PrintedMultiparty)
    )
    assert printed > 1.5 * tight


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"random_state": None}, "random_state"),
        ({"method": "statistic"}, "method"),
        ({"method": "cells"}, "method"),
        ({"delta": 1e-6}, "delta"),
    ],
)
def test_what_is_printed_is_simulated_and_nothing_else(wrong, named):
    model = designed(PrintedMultiparty(), **{"method": "soft", "random_state": 0} | wrong)
    with pytest.raises(InvalidParameter, match=named):
        model.fit(X, Y, **FIT)


def data(n=2000, seed=0, shift=0.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 6))
    y = np.where(X @ [2, 1, 0, 1, 0, 0] + rng.logistic(size=n) > shift, 1.0, -1.0)
    return X, y


GROUPS = (np.arange(3), np.arange(3, 6))


def test_uncentred_meta_features_flip_when_most_labels_are_negative():
    # Hardly any noise: the fault is in the printed meta features themselves.
    X, y = data(4000, shift=4.0)
    X_test, y_test = data(4000, seed=1, shift=4.0)
    assert np.mean(y > 0) < 0.15
    stack = fit_pst_f(
        X, y, epsilon=1e6, alpha=0.5, groups=GROUPS, shares=(0.5, 0.5), rng=np.random.default_rng(0)
    )
    assert roc_auc_score(y_test, stack.score(X_test)) < 0.5
