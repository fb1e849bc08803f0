"""The losses' residuals and curvatures, and the cap."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from confrere.assurance.audit.densities import bends
from confrere.errors import InvalidParameter
from confrere.kernel.accountants import Logistic, Softmax, loss_of
from confrere.solver.descent import curvature, residual

margins = st.floats(-700, 700)
caps = st.floats(0.01, 1.0)


@given(margins)
def test_the_residual_agrees_with_its_definition(t):
    exact = 1 / (1 + np.exp(np.longdouble(t)))
    assert residual(t) == pytest.approx(float(exact), rel=1e-15)


@given(st.floats(-30, 30), caps)
def test_the_curvature_is_minus_the_slope_of_the_residual(t, cap):
    kink = np.inf if cap == 1 else np.log((1 - cap) / cap)
    h = 1e-6
    if abs(t - kink) < 2 * h:
        return
    slope = (residual(t + h, cap) - residual(t - h, cap)) / (2 * h)
    assert curvature(t, cap) == pytest.approx(-slope, abs=1e-9)


@given(margins, margins, caps)
def test_the_residual_falls_and_stays_within_the_cap(a, b, cap):
    """So the loss is convex."""
    assert 0 <= residual(a, cap) <= cap
    assert (residual(a, cap) - residual(b, cap)) * (a - b) <= 0


@given(st.floats(0.01, 0.999))
def test_the_capped_residual_leaves_the_logistic_one_at_its_kink(cap):
    kink = np.log((1 - cap) / cap)
    assert residual(kink + 1.0, cap) == residual(kink + 1.0)
    assert residual(kink - 1.0, cap) == cap < residual(kink - 1.0)
    assert curvature(kink - 1.0, cap) == 0


def test_far_tails_neither_overflow_nor_vanish_early():
    t = np.array([-1e300, -745.0, -40.0, 40.0, 740.0, 1e300])
    assert residual(t).tolist()[:2] == [1.0, 1.0]
    assert residual(740.0) == pytest.approx(np.exp(-740.0), rel=1e-12)
    # p(1-p) keeps its relative accuracy on both sides.
    assert curvature(-40.0) == pytest.approx(np.exp(-40.0), rel=1e-14)
    assert curvature(40.0) == pytest.approx(np.exp(-40.0), rel=1e-14)


def textbook(loss, scores, label):
    """The loss of one record, written out; a capped one goes on linearly from its kink."""
    if loss.n_classes > 2:
        return np.log(np.exp(scores).sum()) - scores[label]
    t = label * scores[0]
    kink = -np.inf if loss.slope == 1 else np.log((1 - loss.slope) / loss.slope)
    return np.log1p(np.exp(-max(t, kink))) + loss.slope * max(0.0, kink - t)


def slopes(loss, scores, label):
    turned = np.array(scores.T[None], order="C")
    return loss.residuals(turned, np.full(len(scores), label))[0].T


@pytest.mark.parametrize(
    ("loss", "labels"),
    [(Logistic(), [-1, 1]), (Logistic(0.6), [-1, 1]), (Softmax(3), [0, 1, 2]), (Softmax(5), [4])],
    ids=str,
)
def test_errors_are_the_slopes_of_the_loss_and_bends_theirs(loss, labels):
    rng = np.random.default_rng(0)
    away = 1e-5 * np.eye(loss.n_scores)
    for label in labels:
        for scores in 2 * rng.normal(size=(30, loss.n_scores)):
            ends = [[textbook(loss, each, label) for each in scores + s * away] for s in (1, -1)]
            error = slopes(loss, scores[None], label)[0]
            np.testing.assert_allclose(error, np.subtract(*ends) / 2e-5, atol=1e-6)
            assert np.linalg.norm(error) <= loss.slope
            both = [slopes(loss, scores + s * away, label) for s in (1, -1)]
            (bend,) = bends(loss, scores[None], np.array([label]))
            np.testing.assert_allclose(bend, np.subtract(*both) / 2e-5, atol=1e-6)


@pytest.mark.parametrize("cap", [0.0, -0.5, 0.49, 1.5, float("nan")])
def test_a_cap_outside_its_range_is_refused(cap):
    with pytest.raises(InvalidParameter, match="cap"):
        Logistic(cap)


def test_two_classes_have_the_logistic_loss_and_more_no_cap():
    assert loss_of(2, 0.5) == Logistic(0.5)
    assert loss_of(4, 0.5) == Softmax(4)
    with pytest.raises(InvalidParameter, match="classes"):
        Softmax(2)
