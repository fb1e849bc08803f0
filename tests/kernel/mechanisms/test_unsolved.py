"""A solver that fails after the charge: what leaves is noise in the form of every other release."""

import numpy as np
import pytest
from scipy import stats
from sklearn.naive_bayes import GaussianNB

from confrere import Ledger, MultipartyClassifier
from confrere.kernel.losses import loss_of
from confrere.kernel.measurements import UNSOLVED, Columns
from confrere.kernel.norms import L2, HiddenSize
from confrere.methods.allowance import objective
from confrere.methods.average import noised_minimiser
from confrere.methods.votes import PartyBudget, noised_votes
from confrere.simulation import SeededSource
from confrere.solver import descent
from tests.world import ball, votes_for

X = np.random.default_rng(0).normal(size=(40, 3)) / 4
Y = np.where(X[:, 0] > 0, 1.0, -1.0)
RIDGE = 5.0
FACTS = {"epsilon": 1.0, "n_samples": 40, "ridge": RIDGE}


@pytest.fixture(params=UNSOLVED, ids=lambda kind: kind.__name__)
def broken(request, monkeypatch):
    """Every solver that a mechanism calls fails."""

    def fails(*_, **__):
        raise request.param("not solved")

    monkeypatch.setattr(descent.Descent, "solve", fails)


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


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("method", ["soft", "vote", "statistic"])
def test_votes_whose_model_is_not_solved_are_paid_for_and_released(broken, method, n_classes):
    ledger = Ledger()
    ledger.open_account("all", epsilon=1.0, unit="party")
    model = MultipartyClassifier(
        method=method, local=GaussianNB(), classes=range(n_classes), budget=ledger["all"]
    )
    model.fit(X, np.arange(40) % n_classes, party=np.arange(40) // 10, auxiliary=X)
    assert np.isfinite(model.coef_).all()
    (entry,) = ledger.entries()
    assert entry.state == "released"


@pytest.mark.parametrize("labels", ["soft", "vote"])
def test_a_model_of_votes_that_is_not_solved_is_no_longer_than_others(broken, labels):
    budget = PartyBudget(epsilon=1.0, n_parties=4)
    made = noised_votes(budget, n_auxiliary=40, n_features=3, alpha=0.1, labels=labels)
    votes = votes_for(np.where(X[:, 0] > 0, 4, 0), 4)
    (found,) = made.noise.sample(made.value(votes, X), SeededSource(0), 2000)
    assert np.linalg.norm(found, axis=1).max() <= made.noise.longest[0]


def test_groups_that_share_a_row_s_length_are_answered_without_rows():
    """Nobody may see that there are none: this failed, when it was paid for."""
    blocks = tuple(Columns(L2(2), RIDGE, weight) for weight in (0.6, 0.8))
    facts = {"epsilon": 1.0, "n_samples": HiddenSize(3), "loss": loss_of(2)}
    made = objective(**facts, blocks=blocks, joint=True)
    first, second = made.sample(([np.zeros((0, 2))] * 2, np.zeros(0)), SeededSource(0))
    assert np.isfinite(first).all()
    assert np.isfinite(second).all()
