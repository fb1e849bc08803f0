"""One registry of methods: every one of them can be made, priced and looked up."""

import json
import re

import pytest

from confrere.catalogue import CATALOGUE, find_method
from confrere.errors import InvalidParameter
from confrere.study import protocols  # noqa: F401, what it installs is among the operations


@pytest.mark.parametrize(
    "name", [n for n, m in CATALOGUE.items() if m.shape not in ("as-is", "votes")]
)
def test_every_method_can_be_made_with_a_price(name):
    method = find_method(name)
    model = method.make(epsilon=0.5)
    assert model.epsilon == 0.5
    assert model.get_params().items() >= method.settings.items()
    if method.shape != "transfer":
        assert model.price(1000, 5).epsilon == 0.5


def test_a_transfer_names_an_existing_method_that_stands_alone():
    for method in CATALOGUE.values():
        assert (method.source is not None) == (method.shape in ("transfer", "as-is"))
        if method.source:
            assert find_method(method.source).shape == "alone"


def test_names_are_plain_and_plain_values_are_json():
    for name, method in CATALOGUE.items():
        assert re.fullmatch(r"[a-z][a-z-]*", name)
        plain = method.to_dict()
        assert json.loads(json.dumps(plain)) == plain


@pytest.mark.parametrize("name", ["no-such", "", None, 3, ["plr"]])
def test_an_unknown_method_is_told_which_there_are(name):
    with pytest.raises(InvalidParameter, match="plr, pst-s"):
        find_method(name)
