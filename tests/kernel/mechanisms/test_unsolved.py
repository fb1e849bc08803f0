"""A solver that fails after the charge: what leaves is noise in the form of every other release."""

import numpy as np
import pytest
from scipy import stats
from sklearn.naive_bayes import GaussianNB

from confrere import Ledger, MultipartyClassifier
from confrere.kernel.accountants import loss_of
from confrere.kernel.measurements import Columns
from confrere.kernel.noise import L2, HiddenSize
from confrere.methods.allowance import objective
from confrere.simulation import SeededSource
from confrere.solver import descent
from tests.world import ball

X = np.random.default_rng(0).normal(size=(40, 3)) / 4
Y = np.where(X[:, 0] > 0, 1.0, -1.0)
RIDGE = 5.0
FACTS = {"epsilon": 1.0, "n_samples": 40, "ridge": RIDGE}


@pytest.fixture(params=(ValueError, ArithmeticError), ids=lambda kind: kind.__name__)
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


def test_groups_that_share_a_row_s_length_are_answered_without_rows():
    """Nobody may see that there are none: this failed, when it was paid for."""
    blocks = tuple(Columns(L2(2), RIDGE, weight) for weight in (0.6, 0.8))
    facts = {"epsilon": 1.0, "n_samples": HiddenSize(3), "loss": loss_of(2)}
    made = objective(**facts, blocks=blocks, joint=True)
    first, second = made.sample(([np.zeros((0, 2))] * 2, np.zeros(0)), SeededSource(0))
    assert np.isfinite(first).all()
    assert np.isfinite(second).all()
