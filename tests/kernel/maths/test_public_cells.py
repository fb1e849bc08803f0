"""Cells of public rows, and a model from what is shared over them."""

import numpy as np
import pytest
from scipy import special

from confrere.methods.votes import RIDGES, Cells, HalfWhite, fit_shares

RNG = np.random.default_rng(0)
CENTRES = RNG.normal(size=(5, 4))
PLACES = RNG.integers(0, 5, size=500)
ROWS = CENTRES[PLACES] + 0.05 * RNG.normal(size=(500, 4))


def test_any_numbers_have_a_cell():
    cells = HalfWhite(ROWS, constant=1.0).cells(5)
    strange = np.array([[np.nan] * 4, [np.inf] * 4, [1e308] * 4, [-1e308, 1e308, 0, 0]])
    assert set(cells.of(strange)) <= set(range(5))
    huge = Cells(np.full((3, 4), 1e300), np.zeros(3))
    assert set(huge.of(1e10 * ROWS)) <= set(range(3))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_shares_of_a_model_give_it_back(n_classes):
    true = RNG.normal(size=(n_classes, 5))
    true -= true.mean(axis=0)
    Z = RNG.normal(size=(4000, 4))
    cells = HalfWhite(Z, constant=1.0).cells(80).of(Z)
    P = special.softmax(Z @ true[:, :4].T + true[:, 4], axis=1)
    shares = np.stack([P[cells == c].sum(axis=0) for c in range(80)]) / len(Z)
    weights, ridge = fit_shares(Z, cells, shares, np.full(80, 1e-10), intercept=True)
    np.testing.assert_allclose(weights, true, atol=1e-2)
    assert ridge in RIDGES
