"""Every estimator's release: saved, loaded and predicting the same, without this library too."""

import warnings

import numpy as np
import pytest

from confrere import Ledger, PrivateLogisticRegression
from confrere.errors import PrivacyWarning, SimulatedRelease, UncappedRelease
from confrere.estimators import ReleasedClassifier
from confrere.model import Model
from confrere.release import load_release
from tests.contracts.catalogue import MAKERS, X, Y


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_a_release_predicts_what_the_estimator_predicts(make, tmp_path):
    model = make(epsilon=5.0).fit(X, Y)
    folder = model.to_release().save(tmp_path / "release", allow_uncapped=True)
    loaded = load_release(folder)
    plain = loaded.model
    assert isinstance(plain, Model)
    assert plain.digest() == model.model_.digest()
    np.testing.assert_array_equal(plain.decision_function(X), model.decision_function(X))
    np.testing.assert_array_equal(plain.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(plain.predict(X), model.predict(X))
    used = ReleasedClassifier(source=folder).fit()
    np.testing.assert_array_equal(used.predict(X), model.predict(X))
    assert loaded.guarantee == model.guarantee_
    assert loaded.receipt == model.receipt_


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_a_simulation_does_not_leave(make, tmp_path):
    model = make(random_state=0).fit(X, Y)
    assert model.simulated_
    release = model.to_release()
    with pytest.raises(SimulatedRelease):
        release.save(tmp_path / "release", allow_uncapped=True)
    assert not (tmp_path / "release").exists()


def test_what_nothing_caps_leaves_only_if_said_and_the_card_says_so(tmp_path):
    books = Ledger(tmp_path / "books.ledger")
    books.open_account("counting")
    books.open_account("capped", epsilon=1.0)
    for settings in ({}, {"budget": Ledger()}, {"budget": books["counting"]}):
        with warnings.catch_warnings(action="ignore", category=PrivacyWarning):
            model = PrivateLogisticRegression(epsilon=0.5, **settings).fit(X, Y)
        assert model.receipt_.uncapped
        with pytest.raises(UncappedRelease, match="allow_uncapped=True"):
            model.to_release().save(tmp_path / "release")
        folder = model.to_release().save(tmp_path / "release", allow_uncapped=True, overwrite=True)
        assert "no lasting ledger caps it" in (folder / "card.json").read_text()
    model = PrivateLogisticRegression(epsilon=0.5, budget=books["capped"]).fit(X, Y)
    folder = model.to_release().save(tmp_path / "capped")
    assert "no lasting ledger caps it" not in (folder / "card.json").read_text()
