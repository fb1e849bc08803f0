"""The value that says what is promised."""

import dataclasses
import math
import pickle

import numpy as np
import pytest

from confrere.errors import InvalidParameter
from confrere.kernel.guarantee import Guarantee, Neighbours, Unit


@pytest.mark.parametrize("bad", [0, -1, math.nan, math.inf, True, "1", None])
def test_epsilon_must_be_a_positive_finite_number(bad):
    with pytest.raises(InvalidParameter, match="epsilon"):
        Guarantee(epsilon=bad)


@pytest.mark.parametrize("bad", [-1e-9, 1.0, math.nan, True])
def test_delta_must_lie_in_the_unit_interval(bad):
    with pytest.raises(InvalidParameter, match="delta"):
        Guarantee(epsilon=1.0, delta=bad)


def test_numpy_numbers_become_floats():
    assert type(Guarantee(epsilon=np.float32(0.5)).epsilon) is float


def test_it_is_frozen_and_survives_pickle_and_json_values():
    guarantee = Guarantee(
        epsilon=0.5, unit="party", neighbours="add-remove", theorem="t", public=["n"]
    )
    with pytest.raises(dataclasses.FrozenInstanceError):
        guarantee.epsilon = 0.1
    assert pickle.loads(pickle.dumps(guarantee)) == guarantee
    assert Guarantee.from_dict(guarantee.to_dict()) == guarantee
    assert guarantee.unit is Unit.PARTY
    assert guarantee.neighbours is Neighbours.ADD_REMOVE


def test_it_reads_as_a_sentence():
    assert str(Guarantee(epsilon=0.5)) == "0.5-DP per record (replace-one)"
    assert str(Guarantee(epsilon=1, delta=1e-6)).startswith("(1, 1e-06)-DP")
    assert Guarantee(epsilon=1).pure
