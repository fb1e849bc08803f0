"""A solver that fails after the charge: what leaves is noise in the form of every other release."""

import numpy as np
import pytest
from scipy import stats

from confrere import Ledger, PrivateLogisticRegression
from confrere.data.frame import Frame
from confrere.kernel.losses import loss_of
from confrere.kernel.streams import SeededSource
from confrere.mechanisms.measurements import EachParty
from confrere.methods.average import NoisedMinimiser, noised_minimiser
from confrere.solver import parties
from confrere.solver.certificate import UNSOLVED
from tests.world import ball

X = np.random.default_rng(0).normal(size=(40, 3)) / 4
Y = np.where(X[:, 0] > 0, 1.0, -1.0)
RIDGE = 5.0
FACTS = {"epsilon": 1.0, "n_samples": 40, "ridge": RIDGE}


@pytest.fixture(params=UNSOLVED, ids=lambda kind: kind.__name__)
def broken(request, monkeypatch):
    """Every solver that a mechanism calls fails."""

    def fails(*_, **__):
        raise request.param("not solved")

    for module in (parties,):
        for name in ("minimise", "solve"):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, fails)


@pytest.mark.parametrize("centre", [None, np.array([1.0, -2.0, 0.5])])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_an_objective_that_is_not_solved_releases_its_noise(broken, delta, centre):
    mechanism = ball(3, **FACTS, delta=delta, centre=centre)
    (found,) = mechanism.sample(([X], Y), SeededSource(0), 2000)
    noise = RIDGE * ((0.0 if centre is None else centre) - found)
    drawn = mechanism.act.law.draw(SeededSource(1), 2000)
    lengths = [np.linalg.norm(each, axis=1) for each in (noise, drawn)]
    assert stats.ks_2samp(*lengths).pvalue > 1e-3
    assert np.linalg.norm(found, axis=1).max() <= mechanism.act.longest


@pytest.mark.parametrize("n_classes", [3, 5])
def test_classes_that_are_not_solved_release_their_noise(broken, n_classes):
    mechanism = ball(3, **FACTS, classes=n_classes)
    codes = np.arange(40) % n_classes
    (found,) = mechanism.sample(([X], codes), SeededSource(0), 50)
    assert found.shape == (50, n_classes, 3)
    assert np.linalg.norm(found.reshape(50, -1), axis=1).max() <= mechanism.act.longest
    assert np.all(found.std(axis=0) > 0)


def test_an_output_that_is_not_solved_is_noise_around_zero(broken):
    mechanism = noised_minimiser(**FACTS, n_features=3, loss=loss_of(2))
    (found,) = mechanism.sample((X, Y), SeededSource(0), 2000)
    drawn = mechanism.laws[0].draw(SeededSource(1), 2000)
    lengths = [np.linalg.norm(each, axis=1) for each in (found, drawn)]
    assert stats.ks_2samp(*lengths).pvalue > 1e-3


def test_of_many_parties_only_the_one_that_fails_releases_noise_alone(monkeypatch, broken):
    offsets = np.array([0, 20, 40])
    facts = {**FACTS, "n_samples": 20}
    never = np.zeros(2, dtype=bool)
    monkeypatch.setattr(parties, "_roomy", lambda *_: never)  # all go to the solver
    output = NoisedMinimiser(frame=Frame(3, constant=0.0), epsilon=1.0, ridge=RIDGE)
    for each in (EachParty({20: ball(3, **facts)}), output.each_party([20])):
        (made,) = each.sample([(X, Y, offsets)], SeededSource(0))
        assert made.shape == (2, 3)
        assert np.isfinite(made).all()


def test_a_fit_whose_solver_fails_is_paid_for_and_released_like_any_other(broken):
    ledger = Ledger()
    ledger.open_account("all", epsilon=1.0)
    model = PrivateLogisticRegression(ledger=ledger, account="all").fit(X, (Y > 0).astype(int))
    assert model.coef_.shape == (1, 3)
    (entry,) = ledger.entries()
    assert entry.state == "released"
