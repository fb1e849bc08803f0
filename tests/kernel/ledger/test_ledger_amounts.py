import math
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from confrere.kernel.guarantee import at_least, at_most, exact, minus, plus

finite = st.floats(min_value=0, allow_infinity=False, allow_nan=False)


@given(st.lists(finite, min_size=1, max_size=20))
def test_sums_are_those_of_the_printed_decimals_whatever_their_sizes(amounts):
    total = Decimal(0)
    for amount in amounts:
        total = plus(total, exact(amount))
    assert Fraction(total) == sum(Fraction(repr(amount)) for amount in amounts)


@given(finite, finite)
def test_what_is_left_can_be_spent_and_leaves_less_than_a_rounding(a, b):
    cap, spent = max(exact(a), exact(b)), min(exact(a), exact(b))
    left = minus(cap, spent)
    shown = at_most(left)
    assert shown >= 0
    assert exact(shown) <= left
    assert exact(math.nextafter(shown, math.inf)) > left


@given(finite, finite)
def test_what_was_spent_is_never_shown_as_less(a, b):
    total = plus(exact(a), exact(b))
    assert at_least(total) >= max(a, b)
    assert exact(at_least(total)) >= total
    assert exact(math.nextafter(at_least(total), 0.0)) < total or total == 0


@pytest.mark.parametrize("amount", [0.1, 0.3, 1.0, 5e-324, 1.7976931348623157e308])
def test_a_float_is_shown_as_itself(amount):
    assert at_least(exact(amount)) == amount == at_most(exact(amount))
