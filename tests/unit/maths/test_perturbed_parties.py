"""Many perturbed objectives at once: the certified minimisers of one at a time."""

import numpy as np
import pytest

from confrere.data.frame import into_ball
from confrere.kernel.accountants import Logistic
from confrere.solver import parties
from confrere.solver.descent import minimise
from confrere.solver.parties import minimise_parties


def make_parties(sizes, d, seed=0):
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    X = into_ball(rng.normal(size=(offsets[-1], d)))
    y = np.where(X[:, 0] + 0.3 * rng.normal(size=len(X)) > 0, 1.0, -1.0)
    return X, y, offsets, rng


@pytest.mark.parametrize("cap", [1.0, 0.75, 0.5])
@pytest.mark.parametrize("d", [1, 4, 30])  # smaller and larger than the parties
@pytest.mark.parametrize("length", [0.1, 3.0, 300.0])
def test_everyone_gets_what_alone_it_would_be_certified(cap, d, length):
    sizes = [1, 2, 9, 9, 25, 60]
    X, y, offsets, rng = make_parties(sizes, d)
    ridge, tolerance = rng.uniform(0.5, 20, size=6), np.full(6, 1e-7)
    linear = length * rng.normal(size=(6, d))
    centre = rng.normal(size=d)
    points = minimise_parties(
        X, y, offsets, ridge=ridge, tolerance=tolerance, linear=linear, centre=centre, cap=cap
    )
    for i, point in enumerate(points):
        own = slice(offsets[i], offsets[i + 1])
        alone = minimise(
            X[own],
            y[own],
            Logistic(cap),
            ridge=ridge[i],
            linear=linear[i],
            centre=centre,
            tolerance=tolerance[i],
        )
        # Both are within tolerance / ridge of the one minimiser.
        assert np.linalg.norm(point - alone) <= 2 * tolerance[i] / ridge[i]


def test_who_is_not_certified_together_is_certified_alone(monkeypatch):
    X, y, offsets, rng = make_parties([6, 6, 6], 4)
    asked = []

    def counted(rows, labels, loss, **how):
        asked.append(len(labels))
        return minimise(rows, labels, loss, **how)

    monkeypatch.setattr(parties, "minimise", counted)
    settings = {"ridge": np.ones(3), "linear": rng.normal(size=(3, 4))}
    together = minimise_parties(X, y, offsets, tolerance=np.full(3, 1e-8), **settings)
    assert asked == []
    # Rounding of the shifted scores could hide a tolerance as small as this.
    smallest = np.array([1e-8, 6e-14, 1e-8])
    apart = minimise_parties(X, y, offsets, tolerance=smallest, **settings)
    assert asked == [6]
    np.testing.assert_allclose(apart, together, atol=1e-8)
