"""One message and rounds of gradients: what one record moves, and what is made of the sum."""

import numpy as np
import pytest

from confrere import CollaborativeClassifier
from confrere.data.frame import Frame
from confrere.demo import ruijin_like
from confrere.kernel.streams import SeededSource
from confrere.methods import sums
from confrere.methods.asking import PartyRows, Sizes, in_process
from confrere.methods.linear import linear_frame
from confrere.methods.sums import GradientRounds, OneMessage

SIZES = Sizes({"a": 5, "b": 40, "c": 400})


def frame(n_features=2):
    return linear_frame(
        n_features,
        data_norm=1.0,
        fit_intercept=False,
        intercept_scale=0.4,
        feature_scale=None,
        norm="l2",
    )


def rows(n, seed=0, n_features=2):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, n_features))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return X, np.where(rng.random(n) < 0.5, -1.0, 1.0)


@pytest.mark.parametrize("cap", [0.5, 1.0])
@pytest.mark.parametrize("party", ["a", "b", "c"])
def test_one_record_moves_a_message_by_the_same_whatever_the_size(cap, party):
    plan = OneMessage(frame=frame(), epsilon=1.0, cap=cap)
    allowed = plan.mechanism(SIZES).sensitivity
    assert allowed == pytest.approx(2 * cap / plan.ridge(SIZES))
    largest = 0.0
    for seed in range(20):
        X, y = rows(SIZES.counts[party], seed)
        turned = X.copy()
        turned[0] *= -1
        moved = plan.message(X, y, SIZES) - plan.message(turned, y, SIZES)
        largest = max(largest, float(np.linalg.norm(moved)))
    error = plan.mechanism(SIZES).error
    assert largest <= allowed + 2 * error


def test_a_message_never_exceeds_what_the_encoding_holds():
    plan = OneMessage(frame=frame(), epsilon=1.0)
    X = np.tile([[1.0, 0.0]], (400, 1))
    assert np.abs(plan.message(X, np.ones(400), SIZES)).max() <= plan.mechanism(SIZES).largest


def test_a_party_that_cannot_solve_sends_the_centre(monkeypatch):
    def fails(*_, **__):
        raise np.linalg.LinAlgError("no")

    monkeypatch.setattr(sums, "minimise", fails)
    plan = OneMessage(frame=frame(), epsilon=1.0, prior=np.array([1.0, -1.0]))
    assert np.array_equal(plan.message(*rows(5), SIZES), np.zeros(2))


def test_one_record_moves_a_gradient_by_one_at_any_weights():
    plan = GradientRounds(frame=frame(), epsilon=1.0, delta=1e-6)
    X, y = rows(40)
    turned = X.copy()
    turned[0] *= -1
    for scale in (0.0, 1.0, 1e3, 1e308):
        weights = np.full(2, scale)
        moved = plan.message(X, y, weights) - plan.message(turned, y, weights)
        assert np.linalg.norm(moved) <= plan.mechanism(SIZES).sensitivity + 1e-12


def test_rounds_descend_to_the_minimiser_as_noise_goes():
    X, y = rows(4000, n_features=3)
    y = np.where(X[:, 0] + 0.3 * X[:, 1] > 0, 1.0, -1.0)
    sizes = Sizes({"a": 2000, "b": 2000})
    parties = PartyRows(X, y, np.array([0, 2000, 4000]))
    plan = GradientRounds(frame=frame(3), epsilon=1e4, delta=1e-6, rounds=60, alpha=1e-2)
    found = in_process(plan.steps(sizes), parties, sizes, SeededSource(0)).weights
    exact = sums.minimise(
        X, y, ridge=float(plan.ridge(sizes)[0]), cap=0.5, centre=np.zeros(3), tolerance=1e-6
    ).w
    assert found @ exact / np.linalg.norm(found) / np.linalg.norm(exact) > 0.99


def skewed(n=3000, n_features=60, seed=0):
    """Rows at the bound whose labels are mostly negative, with the constant of an intercept."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, n_features)) / np.sqrt(n_features)
    y = np.where(rng.random(n) < 1 / (1 + np.exp(2 - 6 * X[:, 0])), 1.0, -1.0)
    return Frame(n_features, constant=0.8).rows(X), y


def test_the_constant_has_its_own_mean_square_and_descent_does_not_swing():
    """Told that the constant varies like any column, the descent would overshoot in it."""
    X, y = skewed()
    sizes = Sizes({"a": 1500, "b": 1500})
    plan = GradientRounds(frame=Frame(60, constant=0.8), epsilon=1e6, delta=1e-6, alpha=1e-3)
    assert plan.squares[-1] == pytest.approx(0.8**2)
    assert plan.squares.sum() == pytest.approx(1.0)

    def objective(weights):
        margins = y * (X @ weights)
        # The loss with a cap of one half: a straight line below zero.
        losses = np.log1p(np.exp(-np.maximum(margins, 0))) + 0.5 * np.maximum(-margins, 0)
        return losses.sum() + 1.5 * weights @ weights

    def descended(squares):
        ridge = plan.ridge(sizes)
        descent = sums.NoisedDescent(plan.centre, ridge, 3000 * plan.curvature * squares + ridge)
        for _ in range(plan.rounds):
            descent.take(plan.message(X, y, descent.weights))
        return objective(descent.average)

    least = objective(
        sums.minimise(X, y, ridge=3.0, cap=0.5, centre=np.zeros(61), tolerance=1e-6).w
    )
    start = objective(np.zeros(61))
    assert descended(plan.squares) - least < 0.05 * (start - least)
    assert descended(np.full(61, 1 / 61)) - least > (start - least)


def test_a_noised_sum_is_unshrunk_where_noise_allows():
    squares = np.array([0.5, 1e-3])
    sizes = Sizes({"a": 50_000, "b": 50_000})
    loud = OneMessage(frame=Frame(2), epsilon=10.0, second_moments=squares)
    quiet = OneMessage(frame=Frame(2), epsilon=1e-3, second_moments=squares)
    one = np.ones(3)
    curved = 1e5 * loud.curvature * loud.squares
    kept = curved / (curved + loud.ridge(sizes))
    noise = loud.mechanism(sizes).deviation ** 2
    assert loud.weights_of(one, sizes) == pytest.approx(kept / (kept**2 + noise))
    assert np.all(quiet.weights_of(one, sizes) < 0.5), "what drowns in noise is shrunk"
    asked = OneMessage(frame=Frame(2), epsilon=10.0, second_moments=squares, alpha=1e-3)
    assert np.array_equal(asked.weights_of(one, sizes), one), "a ridge that was asked for stays"


@pytest.mark.parametrize("rows", ["clip", "unit"])
@pytest.mark.parametrize("weighted", [True, False])
def test_a_schema_implies_the_mean_squares_of_its_rows(rows, weighted):
    world = ruijin_like(0)
    encoder = world.schema.encoder(rows=rows, weighted=weighted)
    found = np.mean(np.square(encoder.transform(world.main.X)), axis=0)
    ratio = encoder.mean_squares() / found
    assert np.median(np.abs(np.log(ratio))) < np.log(2)


def test_the_audit_sees_the_whole_price_of_one_message():
    model = CollaborativeClassifier(
        method="sums", epsilon=1.0, fit_intercept=False, alpha=100.0, classes=[0, 1]
    )
    party = np.array([0, 1, 2])
    X, y = np.array([[1.0], [1.0], [-1.0]]), np.array([1, 0, 1])
    plan, data = model.prepare(X, y, party=party)
    other = X.copy()
    other[0] *= -1
    _, neighbour = model.prepare(other, y, party=party)
    (one,), (two,) = plan.terms(data)[0].densities(), plan.terms(neighbour)[0].densities()
    assert 0.9 * 0.99 <= one.loss(two) <= 1.0
