"""The answers of a group, as if they were the answers of each."""

import numpy as np
import pytest

from confrere.errors import InvalidMessage
from confrere.federation.federation import StackedAnswers, stacked
from confrere.federation.messages import Payload


@pytest.fixture
def answers():
    whole = Payload({"a": 1}, {"x": np.arange(6.0).reshape(3, 2), "n": np.arange(3)})
    return StackedAnswers(["u", "v", "w"], whole)


def test_a_stack_is_what_single_answers_would_stack_to(answers):
    single = dict(answers)
    np.testing.assert_array_equal(stacked(answers, "x", (2,)), stacked(single, "x", (2,)))
    np.testing.assert_array_equal(stacked(single, "n", (), "<i8"), [0, 1, 2])


@pytest.mark.parametrize(
    ("name", "shape", "dtype"), [("y", (2,), "<f8"), ("x", (3,), "<f8"), ("n", (), "<f8")]
)
def test_what_was_not_agreed_is_refused(answers, name, shape, dtype):
    for told in (answers, dict(answers)):
        with pytest.raises(InvalidMessage, match=f"no {name}"):
            stacked(told, name, shape, dtype)


def test_one_party_without_the_array_is_enough(answers):
    with pytest.raises(InvalidMessage):
        stacked({**answers, "w": Payload()}, "x", (2,))


def test_rows_and_parties_must_match():
    with pytest.raises(InvalidMessage, match="one row per party"):
        StackedAnswers(["u"], Payload(arrays={"x": np.zeros((2, 2))}))
