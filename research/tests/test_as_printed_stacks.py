from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from confrere_research.as_printed.regression import (
    fit_plr,
    fit_plr_fs,
    largest_norm,
    printed_calibration,
    printed_group_epsilon,
    tuned,
)
from confrere_research.as_printed.stacking import fit_pst_f

GROUPS = (np.arange(3), np.arange(3, 6))


def data(n=2000, seed=0, shift=0.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 6))
    y = np.where(X @ [2, 1, 0, 1, 0, 0] + rng.logistic(size=n) > shift, 1.0, -1.0)
    return X, y


def gradient(X, y, w, ridge):
    """Gradient of the summed objective without its noise term."""
    return -(y / (1 + np.exp(y * (X @ w)))) @ X + ridge * w


@pytest.mark.parametrize(("epsilon", "alpha"), [(1.0, 0.01), (0.1, 1e-3)])
def test_plr_is_the_minimiser_with_the_printed_noise_and_ridge(epsilon, alpha):
    X, y = data()
    scale = largest_norm(X)
    printed = printed_calibration(epsilon, len(X), alpha)
    lengths = []
    for seed in range(200):
        w = fit_plr(X, y, epsilon=epsilon, alpha=alpha, rng=np.random.default_rng(seed)) * scale
        lengths.append(
            np.linalg.norm(gradient(X / scale, y, w, len(X) * (alpha + printed.extra_ridge)))
        )
    # The zero gradient says that the rest of it is minus the noise, of mean norm d / rho.
    expected, sd = 6 / printed.rho, np.sqrt(6) / printed.rho
    assert abs(np.mean(lengths) - expected) < 4 * sd / np.sqrt(200)


@pytest.mark.parametrize("as_printed", [False, True])
def test_step_6_decides_how_much_noise_groups_get(as_printed):
    X, y = data()
    alpha, shares = 0.001, (0.5, 0.5)
    left = printed_group_epsilon(1.0, len(X), [alpha] * 2, shares)
    assert 0 < left < 0.95
    lengths = []
    for seed in range(200):
        fitted = fit_plr_fs(
            X,
            y,
            epsilon=1.0,
            alpha=alpha,
            groups=GROUPS,
            shares=shares,
            rng=np.random.default_rng(seed),
            step_6_as_printed=as_printed,
        )
        part = X[:, :3] * fitted.factors[0]
        lengths.append(np.linalg.norm(gradient(part, y, fitted.weights[0], len(X) * alpha)))
    rate = (1.0 if as_printed else left) / 2
    assert abs(np.mean(lengths) - 3 / rate) < 4 * np.sqrt(3) / rate / np.sqrt(200)


def test_rows_of_a_group_are_scaled_by_the_datas_own_largest_norm():
    X, y = data()
    settings = {"epsilon": 1.0, "alpha": 0.01, "groups": GROUPS, "shares": (0.7, 0.3)}
    fitted = fit_plr_fs(X, y, rng=np.random.default_rng(0), **settings)
    for group, factor, q in zip(GROUPS, fitted.factors, (0.7, 0.3), strict=True):
        assert largest_norm(X[:, group] * factor) == pytest.approx(q)
    X[0] *= 1000
    assert fit_plr_fs(X, y, rng=np.random.default_rng(0), **settings).factors[0] < fitted.factors[0]


def test_uncentred_meta_features_flip_when_most_labels_are_negative():
    # Hardly any noise: the fault is in the printed meta features themselves.
    X, y = data(4000, shift=4.0)
    X_test, y_test = data(4000, seed=1, shift=4.0)
    assert np.mean(y > 0) < 0.15
    stack = fit_pst_f(
        X,
        y,
        epsilon=1e6,
        alpha=0.5,
        groups=GROUPS,
        shares=(0.5, 0.5),
        rng=np.random.default_rng(0),
    )
    assert roc_auc_score(y_test, stack.score(X_test)) < 0.5


def test_tuning_takes_the_best_on_the_held_third():
    X, y = data(900)
    tried = []

    def fit(rows, _labels, alpha):
        tried.append(len(rows))
        return (lambda Z: Z[:, 0]) if alpha == 0.1 else (lambda Z: -Z[:, 0])

    assert tuned(fit, X, y, [1.0, 0.1, 0.01], np.random.default_rng(0)) == 0.1
    assert tried == [600] * 3
