"""Many linear terms on the same rows: the same answers, shared passes."""

import numpy as np
import pytest

from confrere.kernel.losses import Logistic
from confrere_research.as_printed.minimiser import minimise


def problem(n, d, m, noise, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    X /= np.linalg.norm(X, axis=1).max()
    y = np.where(X[:, 0] + 0.1 * rng.standard_normal(n) > 0, 1.0, -1.0)
    return X, y, noise * rng.standard_normal((m, d))


@pytest.mark.parametrize("cap", [1.0, 0.5])
@pytest.mark.parametrize(
    ("n", "ridge", "noise"), [(200, 1.0, 0.1), (200, 0.01, 30.0), (9000, 9.0, 3.0)]
)
def test_many_are_as_many_singles(n, ridge, noise, cap):
    X, y, B = problem(n, 5, 12, noise)
    many = minimise(X, y, Logistic(cap), ridge=ridge, linear=B, tolerance=1e-8)
    for b, w in zip(B, many, strict=True):
        one = minimise(X, y, Logistic(cap), ridge=ridge, linear=b, tolerance=1e-8)
        assert np.linalg.norm(w - one) <= 2e-8 / ridge


def test_problems_of_very_different_difficulty_all_arrive():
    X, y, B = problem(300, 6, 9, 1.0)
    B *= 10.0 ** np.arange(-4, 5)[:, None]
    many = minimise(X, y, ridge=0.1, linear=B, tolerance=1e-5)
    for b, w in zip(B, many, strict=True):
        one = minimise(X, y, ridge=0.1, linear=b, tolerance=1e-5)
        assert np.linalg.norm(w - one) <= 2e-5 / 0.1


def test_centres_may_be_shared_or_not():
    X, y, B = problem(150, 4, 3, 1.0)
    shared = np.arange(4.0)
    one = minimise(X, y, ridge=2.0, linear=B, centre=shared, tolerance=1e-9)
    each = minimise(X, y, ridge=2.0, linear=B, centre=np.tile(shared, (3, 1)), tolerance=1e-9)
    moved = minimise(X, y, ridge=2.0, linear=B - 2.0 * shared, tolerance=1e-9)
    assert np.abs(one - each).max() < 1e-9
    assert np.abs(one - moved).max() < 1e-8
