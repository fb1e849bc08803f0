"""Exports, the Privacy section, wrong settings, scikit-learn's checks, and what leaves."""

import inspect
import re
import warnings
from math import inf, nan

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.naive_bayes import GaussianNB
from sklearn.utils.estimator_checks import parametrize_with_checks

import confrere
from confrere import AddRemove, Ledger, PrivateLogisticRegression
from confrere.errors import InvalidParameter, PrivacyWarning, SimulatedRelease, UncappedRelease
from confrere.estimators import ReleasedClassifier
from confrere.kernel.noise import RandomSource
from confrere.kernel.release import Ticket
from confrere.model import Model
from confrere.release import load_release
from tests.contracts.catalogue import CHECKED, CLASSES, MAKERS, X, Y
from tests.world import each

FIELDS = ("Unit", "Neighbours", "Guarantee", "Spends", "Public", "Releases", "Proof")
REQUIRED = {"guarantee_", "receipt_", "simulated_", "classes_"}


@pytest.mark.parametrize("estimator", CLASSES)
def test_every_public_class_states_its_price(estimator, request):
    doc = inspect.getdoc(estimator)
    section = doc.split("**Privacy**\n\n")[1]
    for field in FIELDS:
        assert re.search(rf"^:{field}: \S", section, flags=re.MULTILINE), field
    page = re.search(r":Proof: (\S+)", section).group(1)
    assert (request.config.rootpath / page).is_file()


@pytest.mark.parametrize("estimator", CLASSES)
def test_the_constructor_has_the_common_words_and_few_others(estimator):
    parameters = inspect.signature(estimator).parameters
    assert list(parameters)[:3] == ["epsilon", "schema", "budget"]
    assert all(p.kind is p.KEYWORD_ONLY for p in list(parameters.values())[3:])
    assert all(p.default is not p.empty for p in parameters.values())
    assert {"delta", "alpha", "classes", "random_state"} <= set(parameters)
    assert len(parameters) <= 17
    described = inspect.getdoc(estimator).split("Parameters\n----")[1].split("Attributes\n----")[0]
    assert set(re.findall(r"^(\w+) : ", described, re.MULTILINE)) == set(parameters)


def constant(draw):
    """Return the same act with a tenth for every number that it releases."""

    def released(*args, **kwargs):
        return tenths(draw(*args, **kwargs))

    def tenths(numbers):
        if isinstance(numbers, list | tuple):
            return type(numbers)(tenths(each) for each in numbers)
        return np.full_like(numbers, 0.1)

    return released


@pytest.mark.parametrize("estimator", MAKERS.values(), ids=MAKERS)
def test_fitted_attributes_are_released_or_public(estimator):
    """Nothing that ``fit`` leaves behind is a function of unnoised data.

    Two data sets, the same seed and no influence of the data on what is released (what is drawn
    is replaced by constants): every attribute must then be the same.
    """
    rng = np.random.default_rng(0)
    states = []
    with pytest.MonkeyPatch.context() as patch:
        for kind in (Ticket, RandomSource):
            patch.setattr(kind, "draw", constant(kind.draw))
        for _ in range(2):
            X = rng.normal(size=(60, 6))
            y = rng.integers(0, 2, size=60)
            model = estimator(random_state=1, classes=[0, 1]).fit(X, y)
            states.append({k: v for k, v in vars(model).items() if k not in model.get_params()})
    assert states[0].keys() == states[1].keys()
    assert set(states[0]) >= REQUIRED
    for name in states[0]:
        if name != "receipt_":
            np.testing.assert_equal(_plain(states[0][name]), _plain(states[1][name]), err_msg=name)


def _plain(value):
    if isinstance(value, tuple) and value and hasattr(value[0], "__dataclass_fields__"):
        return [_plain(item) for item in value]
    if hasattr(value, "__dataclass_fields__") and not isinstance(value, confrere.Guarantee):
        return {name: _plain(getattr(value, name)) for name in value.__dataclass_fields__}
    return value


#: What every estimator that has the parameter refuses.
ANYWHERE = {
    "epsilon": (0, -1, nan, inf, True, "1", None),
    "delta": (-1e-6, 1.0, nan, True, "1e-6", None),
    "data_norm": (0, -1.0, inf, [1.0, 2.0]),
    "alpha": (0, -1.0, nan, "big"),
    "purpose": ("squared",),
    "neighbours": ("all", "label-only", "add-remove"),
    "classes": ([0], [0, 0, 1]),
    "prior": ("expert", "experts", [1.0], [nan] * 6),
    "geometry": ("round", "schema"),
    "budget": ("budget.ledger",),
    "random_state": (-3,),
}
#: What belongs to one of them.
ALONE = {
    "plr": [
        *each(delta=(0.01, 1e-13), neighbours=(100, None)),
        {"prior": np.ones(6), "classes": [0, 1, 2]},
    ],
    "pst-f": [
        *each(importance=(-np.ones(6), np.zeros(6), np.ones(5)), combiner=("mean",)),
        *each(groups=([range(3)], [range(6), range(2)])),
        {"prior": np.ones(6), "classes": [0, 1, 2]},
    ],
    "average": [
        *each(method=("sum",), rounds=(0,), combine=("mode",), max_retries=(-1,)),
        {"rounds": 2, "method": "ofaa"},
        {"combine": "median", "method": "ofaa"},
        {"delta": 1e-6, "method": "ofpa"},
        {"prior": np.ones((3, 4))},
    ],
    "statistic": [
        *each(method=("mean", "average"), local_alpha=(0,), trust=("nobody",)),
        *each(on_faulty=("ignore",), auxiliary_private=(True,)),
        *({"local": GaussianNB(), "method": method} for method in ("weights", "cells")),
        {"auxiliary_private": True, "method": "cells"},
        {"delta": 1e-6, "method": "cells"},
        *({"trust": "sum", "method": method} for method in ("soft", "vote")),
        {"collusion_threshold": 4000, "trust": "sum"},
    ],
}


def cases():
    for name, make in MAKERS.items():
        if name.endswith("Gaussian"):  # the same class
            continue
        known = make().get_params()
        given = {word: values for word, values in ANYWHERE.items() if word in known}
        for settings in [*each(**given), *ALONE.get(name, [])]:
            yield pytest.param(make, settings, id=f"{name}-{settings}")


@pytest.mark.parametrize("n_samples", [0, -3, None, True, 1.5, "many"])
def test_what_stands_for_the_number_of_rows_is_a_whole_number(n_samples):
    with pytest.raises(InvalidParameter, match="n_samples"):
        AddRemove(n_samples)


@pytest.mark.parametrize(("make", "settings"), [*cases()])
def test_it_is_named_before_anything_is_spent(make, settings):
    ledger = Ledger()
    with pytest.raises(ValueError, match=next(iter(settings))):
        make(**{"budget": ledger} | settings).fit(X, Y)
    assert ledger.entries() == []


def seeded(estimator):
    # The checks compare fits with each other, so the noise must repeat: a simulation.
    return clone(estimator).set_params(random_state=0)


@parametrize_with_checks([seeded(estimator) for estimator in CHECKED])
def test_scikit_learn_check(estimator, check):
    with warnings.catch_warnings():
        # The checks themselves pass odd arrays through pandas and array-API shims.
        warnings.simplefilter("ignore", category=FutureWarning)
        check(estimator)


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
