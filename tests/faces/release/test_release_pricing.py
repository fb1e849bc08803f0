import math
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from confrere.errors import InvalidParameter
from confrere.kernel.guarantee import Guarantee, Unit
from confrere.ledger import Ledger
from confrere.release import Spending, detection_bound
from confrere.views import shown, shown_down


def paid(epsilon, **facts):
    own = Ledger()
    own.open_account("a")
    return own.charge("a", Guarantee(epsilon, **facts), purpose="test")


def test_a_party_pays_once_per_answer():
    own = Ledger()
    own.open_account("a")
    receipts = tuple(own.charge("a", Guarantee(0.25), purpose="round") for _ in range(3))
    spending = Spending(Guarantee(0.75), None, {"a": receipts, "b": paid(0.5)})
    assert spending.recorded
    assert spending.prices()["a"].epsilon == 0.75
    assert spending.privacy_cost(parties_per_unit=2) == (1.25, 0.0)
    assert Spending.from_dict(spending.to_dict()) == spending
    with pytest.raises(InvalidParameter, match="covers less"):
        Spending(Guarantee(0.75), None, {"a": receipts[:2]})
    for wrong in ((), (receipts[0], receipts[0], receipts[0])):
        with pytest.raises(InvalidParameter, match="different charges"):
            Spending(Guarantee(0.75), None, {"a": wrong})
    assert Spending(Guarantee(0.1), None, {"a": receipts[:1]}).parties["a"] is receipts[0]
    seeded = own.charge("a", Guarantee(0.1), purpose="round", simulated=True)
    assert Spending(Guarantee(0.75), None, {"a": (*receipts, seeded)}).simulated


def test_a_party_is_one_unit():
    with pytest.raises(InvalidParameter, match="whole party"):
        Spending(Guarantee(1.0, unit=Unit.PARTY)).privacy_cost(max_rows_per_unit=2)


@settings(deadline=None, max_examples=100)
@given(st.lists(st.floats(1e-6, 100), min_size=1, max_size=5), st.integers(1, 4))
def test_the_price_never_falls_below_any_part(epsilons, rows):
    parties = {f"p{k}": Guarantee(value) for k, value in enumerate(epsilons)}
    spending = Spending(Guarantee(max(epsilons)), None, parties)
    prices = [spending.privacy_cost(rows, places)[0] for places in range(1, len(epsilons) + 1)]
    assert prices == sorted(prices)
    assert Decimal(repr(prices[-1])) >= rows * sum(Decimal(repr(value)) for value in epsilons)
    assert prices[-1] == pytest.approx(rows * sum(epsilons))


@settings(deadline=None, max_examples=200)
@given(st.floats(1e-12, 1e12))
def test_what_is_shown_is_rounded_up(value):
    up, down, exact = Decimal(shown(value)), Decimal(shown_down(value)), Decimal(repr(value))
    assert down <= exact <= up
    assert up - down <= exact * Decimal("0.0011")


@settings(deadline=None, max_examples=100)
@given(st.floats(0.01, 20), st.floats(0.0005, 0.9))
def test_randomised_response_attains_the_bound(epsilon, false_alarm):
    """Its best test has corners (0, 0), (q, 1 - q), (1, 1), with q = 1 / (1 + e^epsilon)."""
    q = 1 / (1 + math.exp(epsilon))
    left = false_alarm * (1 - q) / q
    right = 1 - (1 - false_alarm) * q / (1 - q)
    best = left if false_alarm <= q else right
    assert detection_bound(epsilon, 0.0, false_alarm) == pytest.approx(best, rel=1e-9)
