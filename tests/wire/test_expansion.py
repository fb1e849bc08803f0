"""The functional mechanism: coefficients, their noise, and what is made of them."""

import numpy as np
import pytest

from confrere.assurance.audit.densities import densities
from confrere.methods.average import joint_move, noised_coefficients, worst_angle


def coefficients(X, y):
    return -0.5 * X.T @ y, X.T @ X / 8


@pytest.mark.parametrize("share", [0.1, 0.5, 0.7, 0.95])
def test_the_sensitivity_is_attained(share):
    mechanism = noised_coefficients(epsilon=1.0, n_samples=1, n_features=2, linear_share=share)
    angle, one = worst_angle(share), np.ones(1)
    turned = np.array([[np.cos(angle), np.sin(angle)]]) * (1 - 1e-15)
    first, second = (densities(mechanism, (X, one)) for X in (np.eye(2)[:1], turned))
    loss = [a.loss(b) for a, b in zip(first, second, strict=True)]
    assert sum(loss) == pytest.approx(0.999)
    assert sum(loss) <= 0.999
    assert mechanism.sensitivity < 1
    assert joint_move(0.5) == pytest.approx(0.88008630)
    # A rate that is three per cent too high would be found.
    assert 1.03 * sum(loss) > 1


def test_rows_inside_the_ball_lose_no_more_than_those_on_it():
    rng = np.random.default_rng(0)
    for share in (0.2, 0.5, 0.7, 0.9):
        X, Z = rng.normal(size=(2, 20_000, 3))
        X *= rng.uniform(size=(20_000, 1)) ** 0.2 / np.linalg.norm(X, axis=1, keepdims=True)
        Z *= rng.uniform(size=(20_000, 1)) ** 0.2 / np.linalg.norm(Z, axis=1, keepdims=True)
        squares = np.einsum("ni,nj->nij", X, X) - np.einsum("ni,nj->nij", Z, Z)
        moves = share * np.linalg.norm(X - Z, axis=1) / 2
        moves += (1 - share) * np.linalg.norm(squares, axis=(1, 2)) / np.sqrt(2)
        assert 0.97 * joint_move(share) < moves.max() <= joint_move(share)
