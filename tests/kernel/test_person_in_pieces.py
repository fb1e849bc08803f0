"""A person with several pieces of time is one unit: residuals, certificates, exact ratios."""

import math

import numpy as np
import pytest
from mpmath import mp, mpf

from confrere.assurance.audit.adversary import Comparison, worst_loss
from confrere.assurance.audit.densities import norms_of
from confrere.errors import InvalidData, InvalidParameter
from confrere.kernel.accountants import Exposure
from confrere.kernel.measurements import UNIT, Columns, rounding_bound
from confrere.kernel.noise import L1, L2, Body
from confrere.methods.allowance import objective, problem, pure_rate
from confrere.outcomes.pieces import FIRST, PiecewiseExponential
from confrere.simulation import SeededSource
from tests.world import RELATIONS


def pieces_of(count, share=0.16, cap=1.0):
    return PiecewiseExponential(tuple(np.linspace(0, 10, count + 1)[1:].tolist()), share, cap)


def body_of(loss):
    """Two groups, of an interval and of a category of two; and the constant."""
    roots = [np.array([[0.6]]), np.array([[0.5, 0.1], [0.0, 0.5]])]
    reach = math.sqrt((0.6**2 + 0.1**2 + 0.5**2) / (1 - loss.share)) * (1 + 1e-12)
    constant = np.array([[math.sqrt(loss.share)]])
    return Body((*(root / reach for root in roots), constant), (0, 1, 1), (0.4, 0.6))


LOSSES = [pieces_of(4), pieces_of(6, 0.5), pieces_of(2), pieces_of(5, 0.2, 3.0)]
every_loss = pytest.mark.parametrize("loss", LOSSES, ids=lambda o: f"{o.n_scores}_{o.cap:g}")
every_norm = pytest.mark.parametrize("norm", [lambda _: L2(3), body_of], ids=["L2", "Max"])
every_relation = pytest.mark.parametrize("change", RELATIONS)


@every_relation
@pytest.mark.parametrize("ridge", [0.3, 4.0])
@every_norm
@every_loss
def test_the_exact_ratio_is_attained_and_never_above(loss, norm, ridge, change):
    """Among the records are events in pieces that nobody has expected events in."""
    exposure = Exposure(loss=loss, ridges=(ridge,), neighbours=change)
    epsilon = 1.0 + exposure.spent(0.0)
    known = {"rho": pure_rate(epsilon, exposure), "ridge": ridge, "change": change, "draws": 6}
    worst = worst_loss(norm(loss), loss, **known)
    assert worst <= epsilon * (1 + 1e-9)
    if loss.cap == 1:
        assert worst >= (0.999 if norm is body_of else 0.9) * epsilon


def test_a_person_is_no_record_of_one_residual():
    """The explicit pair: what would be priced as one row loses more, in both parts of the price."""
    loss, ridge, rho = pieces_of(10, 0.5), 0.2, 0.5
    constant = math.sqrt(0.5)
    x = np.array([constant * (1 - 1e-12), 0.0, constant])
    # One expected event, a tenth in each piece.
    w = np.append(np.zeros(2), np.full(10, math.log(1 - 1e-9) / constant))
    nobody = np.zeros((0, 3)), np.zeros(0)
    lives, met = -loss.ends[-1], FIRST * loss.ends[-1]
    pair = Comparison(nobody[0], x, x, w, nobody[1], lives, met)
    found = max(pair.losses(rho=rho, ridge=ridge, loss=loss))
    one_row = 2 * rho + math.log1p(1 / ridge)
    assert one_row == pytest.approx(2.79, abs=0.01)
    assert found == pytest.approx(4.14, abs=0.01)
    assert Exposure(loss=loss, ridges=(ridge,)).spent(rho) >= found
    # Where levels have most of a row, an event in an empty piece is longer than any other.
    with pytest.raises(InvalidParameter, match="share"):
        pieces_of(10, 0.9)


@every_loss
def test_the_longest_gradient_and_the_largest_determinant_are_attained(loss):
    rng, k, n = np.random.default_rng(0), math.sqrt(loss.share), loss.n_scores
    z = np.array([math.sqrt(1 - loss.share) * (1 - 1e-12)])
    rows = np.hstack([np.tile(z, (n, 1)), k * np.eye(n)])
    any_means = rng.dirichlet(np.full(n, 0.3), 300) * rng.uniform(size=(300, 1))
    corners = np.vstack([np.full(n, 1 / n), np.eye(n), np.zeros(n)])
    lengths, in_body, determinants = [], [], []
    noise = loss.noised(Body((z[None], np.array([[k]])), (0, 0)))
    for mean in loss.cap * np.vstack([any_means, corners]):
        met = mean - np.vstack([np.zeros(n), np.eye(n)])
        lengths.append(np.linalg.norm(met @ rows, axis=1).max())
        in_body.append(norms_of(noise, met @ rows).max())
        hessian = np.eye(n + 1) + rows.T @ np.diag(mean) @ rows / 0.7
        determinants.append(np.linalg.slogdet(hessian)[1])
    for found, most in (
        (lengths, loss.reach),
        (in_body, loss.reach),
        (determinants, loss.jacobian(0.7)),
    ):
        assert most == pytest.approx(max(found))
        assert max(found) <= most * (1 + 1e-12)


@pytest.mark.parametrize("far", [1.0, 1e4])
def test_gradients_are_within_what_certificates_reckon_with(far):
    loss, rng = pieces_of(4), np.random.default_rng(1)
    X = np.hstack([rng.normal(size=(40, 2)) / 4, np.full((40, 1), 0.4)])
    y, W = rng.uniform(-10, 10, 40), far * rng.normal(size=(1, 6))
    made, spent = problem(X, y, loss, 1.0), loss._spent(y).T
    exact = mp.matrix(6, 1)
    with mp.workdps(80):
        for x, label, times in zip(X, y, spent, strict=True):
            rows = [[*map(mpf, x[:2]), *(mpf(x[2]) * (k == j) for k in range(4))] for j in range(4)]
            scores = [mp.fdot(row, map(mpf, W[0])) for row in rows]
            lived = [mpf(t) * mp.exp(s) for t, s in zip(times, scores, strict=True)]
            scale = min(mpf(1), mpf(loss.cap) / mp.fsum(lived))
            if label > 0:
                lived[np.searchsorted(loss.ends, label)] -= 1 / scale
            for row, one in zip(rows, lived, strict=True):
                exact += one * scale * mp.matrix(row)
        error = float(mp.norm(mp.matrix(made.pull(W)[0].tolist()) - exact))
    sizes = {"row_norm": made.rows.row_norm, "weight_norm": float(np.linalg.norm(W))}
    assert error <= rounding_bound(40, 3, loss=loss, **sizes) <= 40 * UNIT * 1e3 * far


def test_what_the_theorem_does_not_speak_of_is_refused():
    facts = {"epsilon": 1.0, "n_samples": 2, "loss": pieces_of(4)}
    blocks = (Columns(L2(3), 4.0),)
    made = objective(blocks=blocks, **facts)
    X, y = np.array([[0.1, 0.2, 0.4], [0.0, 0.0, 0.4]]), np.array([3.0, -10.0])
    made.sample(([X], y), SeededSource(0))
    for rows, labels, told in (
        (X * [1, 1, 2], y, "constant"),
        (X * [9, 1, 1], y, "longer|norm"),
        *((X, y * wrong, "time") for wrong in ([2, 2], [0, 1], [FIRST / 4, 1], [np.nan, 1])),
    ):
        with pytest.raises(InvalidData, match=told):
            made.sample(([rows], labels), SeededSource(0))
    for wrong in ((), (1.0, 1.0), (1e-9, 1.0), (1.0,), (1.0, np.inf)):
        with pytest.raises(InvalidParameter, match="ends"):
            PiecewiseExponential(wrong)
    with pytest.raises(InvalidParameter, match="cap"):
        PiecewiseExponential((1.0, 2.0), cap=0.5)
    for wrong in ((Columns(L1(3), 4.0),), blocks * 2):
        with pytest.raises(InvalidParameter):
            objective(blocks=wrong, **facts)
