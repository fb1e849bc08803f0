"""Cells of public rows, and a model from what is shared over them."""

import numpy as np
import pytest
from scipy import optimize, special

from confrere.maths.public_cells import RIDGES, Cells, HalfWhite, _ShareFit, fit_shares

RNG = np.random.default_rng(0)
CENTRES = RNG.normal(size=(5, 4))
PLACES = RNG.integers(0, 5, size=500)
ROWS = CENTRES[PLACES] + 0.05 * RNG.normal(size=(500, 4))


def test_clusters_that_are_there_are_found():
    cells = HalfWhite(ROWS, centred=True).cells(5)
    found = cells.of(ROWS)
    for place in range(5):
        assert len(set(found[place == PLACES])) == 1
    assert HalfWhite(ROWS, centred=True).explained(cells) > 0.9


@pytest.mark.parametrize("turned", ["signs", "order", "rotation"])
def test_cells_do_not_depend_on_the_coordinates(turned):
    """Nothing but distances counts, so no basis that a solver picks changes a cell."""
    maps = {
        "signs": np.diag([1.0, -1.0, -1.0, 1.0]),
        "order": np.eye(4)[[2, 0, 3, 1]],
        "rotation": np.linalg.qr(RNG.normal(size=(4, 4)))[0],
    }
    plain = HalfWhite(ROWS, centred=True).cells(12).of(ROWS)
    other = ROWS @ maps[turned]
    np.testing.assert_array_equal(HalfWhite(other, centred=True).cells(12).of(other), plain)


def test_any_numbers_have_a_cell():
    cells = HalfWhite(ROWS, centred=True).cells(5)
    strange = np.array([[np.nan] * 4, [np.inf] * 4, [1e308] * 4, [-1e308, 1e308, 0, 0]])
    assert set(cells.of(strange)) <= set(range(5))
    huge = Cells(np.full((3, 4), 1e300), np.zeros(3))
    assert set(huge.of(1e10 * ROWS)) <= set(range(3))


@pytest.mark.parametrize("rows", [np.ones((40, 3)), np.ones((1, 1)), np.zeros((5, 2))])
@pytest.mark.parametrize("centred", [True, False])
def test_rows_that_are_all_the_same_are_one_cell(rows, centred):
    view = HalfWhite(rows, centred=centred)
    cells = view.cells(4)
    assert len(cells) == 1
    shares = np.array([[0.3, 0.7]])
    weights, _ = fit_shares(
        view.coordinates(rows), cells.of(rows), shares, np.array([1e-4]), intercept=centred
    )
    assert np.isfinite(weights).all()


@pytest.mark.parametrize("n_classes", [2, 3])
def test_shares_of_a_model_give_it_back(n_classes):
    true = RNG.normal(size=(n_classes, 5))
    true -= true.mean(axis=0)
    Z = RNG.normal(size=(4000, 4))
    cells = HalfWhite(Z, centred=True).cells(80).of(Z)
    P = special.softmax(Z @ true[:, :4].T + true[:, 4], axis=1)
    shares = np.stack([P[cells == c].sum(axis=0) for c in range(80)]) / len(Z)
    weights, ridge = fit_shares(Z, cells, shares, np.full(80, 1e-10), intercept=True)
    np.testing.assert_allclose(weights, true, atol=1e-2)
    assert ridge in RIDGES


def test_the_shares_choose_their_ridge():
    """Much noise and little signal want a strong one."""
    Z = RNG.normal(size=(1000, 6)) * 1.8
    cells = HalfWhite(Z, centred=True).cells(40).of(Z)
    sizes = np.bincount(cells, minlength=40)[:, None] / 1000
    faint = sizes / 2 + RNG.normal(size=(40, 2)) * 0.02
    clear = np.where(np.stack([Z[cells == c, 0].mean() for c in range(40)])[:, None] > 0, 1, 0)
    clear = sizes * np.hstack([clear, 1 - clear])
    assert fit_shares(Z, cells, faint, np.full(40, 4e-4), intercept=True)[1] == RIDGES[0]
    assert fit_shares(Z, cells, clear, np.full(40, 1e-6), intercept=True)[1] == RIDGES[-1]


def test_gradient_and_curvature_are_those_of_what_is_minimised():
    Z = RNG.normal(size=(60, 3))
    cells = np.arange(60) % 7
    shares = np.abs(RNG.normal(size=(7, 3))) / 20
    fit = _ShareFit(Z, cells, shares, np.full(7, 1e-3), True)
    kept = {}

    def spy(value, start, **more):
        kept["value"] = value
        return optimize.OptimizeResult(x=start, fun=0.0)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("confrere.maths.public_cells.optimize.minimize", spy)
        fit.minimise(2.0, np.zeros(fit.size))
    point = RNG.normal(size=fit.size)
    gradient = kept["value"](point)[1]
    numeric = optimize.approx_fprime(point, lambda p: kept["value"](p)[0], 1e-6)
    np.testing.assert_allclose(gradient, numeric, rtol=1e-3, atol=1e-3)

    def predicted(p):
        P = special.softmax(np.hstack([Z, np.ones((60, 1))]) @ fit.weights(p).T, axis=1)
        return np.stack([P[cells == c].sum(axis=0) for c in range(7)]).ravel() / 60

    moves = 1e-6 * np.eye(fit.size)
    J = np.stack([(predicted(point + move) - predicted(point)) / 1e-6 for move in moves])
    scale = np.tile(np.sqrt(4.0 * fit.penalty), 2)
    J = J.T / np.sqrt(1e-3) / scale
    expected = np.linalg.slogdet(np.eye(fit.size) + J.T @ J)[1]
    assert fit.log_determinant(2.0, point) == pytest.approx(expected, rel=1e-4)


def test_a_cell_without_public_rows_says_nothing():
    Z, cells = RNG.normal(size=(50, 2)), np.zeros(50, dtype=np.intp)
    shares = np.array([[0.25, 0.75], [5.0, -5.0]])
    both, _ = fit_shares(Z, cells, shares, np.full(2, 1e-4), intercept=True)
    one, _ = fit_shares(Z, cells, shares[:1], np.full(1, 1e-4), intercept=True)
    np.testing.assert_array_equal(both, one)
