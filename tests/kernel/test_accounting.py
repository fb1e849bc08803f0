"""Totals of several releases: never below the truth, usually far below the sum."""

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as reference

from confrere import AddRemove, Guarantee, Ledger, PrivateLogisticRegression
from confrere.accounting import total
from confrere.errors import InvalidParameter
from confrere.estimators import designed
from confrere.kernel.guarantee import Promised
from confrere.kernel.measurements import Part, Point
from tests.world import RELATIONS

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 5)) / 3
Y = (X[:, 0] > 0).astype(int)


def charged(count, make=PrivateLogisticRegression, **settings):
    ledger = Ledger()
    for _ in range(count):
        designed(make(budget=ledger), **settings).fit(X, Y)
    return ledger.entries()


@pytest.mark.parametrize("count", [1, 4, 16])
@pytest.mark.parametrize("change", [str(each) for each in RELATIONS])
@pytest.mark.parametrize(("loss", "cap", "above"), [("logistic", 1.0, 1.25), ("capped", 0.5, 1.6)])
def test_gaussian_fits_against_the_reference(count, change, loss, cap, above):
    """Above the mere Gaussian mechanism, which is attained, and not far above it.

    Capped slopes halve the noise and not the Jacobian, which therefore weighs more.
    """
    samples = {"neighbours": AddRemove(300)} if change == "add-remove" else {}
    purpose = "inference" if loss == "logistic" else "prediction"
    entries = charged(count, epsilon=0.5, delta=1e-6, purpose=purpose, **samples)
    found = total(entries, delta=1e-6, step=1e-3)
    reach = {"replace-one": 2 * cap, "add-remove": cap}[change]
    theirs = reference.from_gaussian_mechanism(
        entries[0].event.sigmas[0], sensitivity=reach, value_discretization_interval=1e-3
    )
    floor = theirs.self_compose(count).get_epsilon_for_delta(1e-6)
    assert floor <= found.epsilon <= above * floor + 0.01 * count
    assert (found.delta, found.neighbours) == (1e-6, change)


def test_a_check_that_was_paid_for_is_in_the_total():
    """Which fit follows is not known when a checked prior is charged: its promise is."""
    entries = charged(3, epsilon=0.5, delta=1e-6, prior=[1.0, 0.0, 0.0, 0.0, 0.0])
    assert entries[0].event == Promised(0.5, 1e-6)
    promised = total([Guarantee(0.5, delta=1e-6)] * 3, delta=1e-5).epsilon
    assert total(entries, delta=1e-5).epsilon == pytest.approx(promised)
    bare = charged(3, epsilon=0.5, delta=1e-6)
    assert total(bare, delta=1e-5).epsilon < promised


def test_a_promise_with_delta_needs_at_least_that_delta():
    with pytest.raises(InvalidParameter, match="delta"):
        total([Guarantee(0.5, delta=1e-3)], delta=1e-6)


def test_noise_on_points_composes_as_gaussian_mechanisms_do():
    ledger = Ledger()
    parts = (Part(2, 9.0, 0.5), Part(3, 5.0, 0.5))
    made = Point(promise=Guarantee(0.5, 1e-6), sensitivity=1.0, parts=parts)
    for _ in range(6):
        ledger.charge(None, made.guarantee(), purpose="x", event=made.event())
    found = total(ledger.entries(), delta=1e-5, step=1e-3).epsilon
    mu = made.event().mu
    theirs = reference.from_gaussian_mechanism(1 / mu, value_discretization_interval=1e-3)
    floor = theirs.self_compose(6).get_epsilon_for_delta(1e-5)
    assert floor <= found <= 1.05 * floor
