"""Exports, the Privacy section, and attributes that are post-processing."""

import inspect
import re

import numpy as np
import pytest

import confrere
from confrere.estimators.base import RENAMED
from confrere.kernel.release import Ticket
from confrere.kernel.streams import RandomSource
from tests.contracts.catalogue import CLASSES, MAKERS

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


@pytest.mark.parametrize("name", RENAMED)
def test_an_old_parameter_says_what_has_come_in_its_place(name):
    for make in (
        confrere.PrivateLogisticRegression,
        confrere.PrivateLogisticRegression().set_params,
    ):
        with pytest.raises(TypeError, match=re.escape(RENAMED[name])):
            make(**{name: 1})


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
