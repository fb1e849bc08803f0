"""Exact amounts, caps on a year, clocks that lie, and ledgers of version 0.2."""

import math
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from confrere.errors import BudgetExceeded, InvalidParameter, LedgerTampered
from confrere.kernel import ledger as chain
from confrere.kernel.guarantee import Guarantee, at_least, at_most, exact, minus, plus
from confrere.kernel.ledger import Row
from confrere.ledger import Ledger

finite = st.floats(min_value=0, allow_infinity=False, allow_nan=False)


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


LAST_MOMENT = "2026-12-31T23:59:59.999999"


@pytest.fixture
def clock(monkeypatch):
    """Sets what the ledger takes for the time, in UTC."""

    class Clock(datetime):
        moment = datetime(2025, 6, 1, tzinfo=UTC)

        @classmethod
        def now(cls, tz=None):
            return cls.moment

    monkeypatch.setattr(chain, "datetime", Clock)

    def at(text):
        Clock.moment = datetime.fromisoformat(text).replace(tzinfo=UTC)

    return at


@pytest.fixture
def yearly(path, clock):
    ledger = Ledger(path)
    ledger.open_account("study", epsilon=1.0, delta=1e-6, period="year", reason="the board's rule")
    return ledger


def pay(ledger, epsilon, delta=0.0):
    ledger.charge("study", Guarantee(epsilon, delta), purpose="model")


def test_a_new_year_has_a_new_budget_and_what_was_left_is_gone(yearly, clock):
    pay(yearly, 0.4)
    clock(LAST_MOMENT)
    pay(yearly, 0.9)
    with pytest.raises(BudgetExceeded, match=r"0\.1 left"):
        pay(yearly, 0.2)
    clock("2027-01-01T00:00:00")
    assert (yearly.left("study"), yearly.spent("study")) == (1.0, 1.3)
    assert yearly.affords("study", Guarantee(1.0))
    assert not yearly.affords("study", Guarantee(1.1))
    pay(yearly, 1.0)
    (account,) = yearly.accounts()
    assert account.period == "year"
    assert account.years == account.to_dict()["years"] == {2025: 0.4, 2026: 0.9, 2027: 1.0}
    assert (account.spent, account.counted, account.left) == (2.3, 1.0, 0.0)
    yearly.verify()
    assert Ledger(yearly.path).left("study") == 0.0


def test_a_clock_that_is_set_back_gives_nothing_back(yearly, clock):
    pay(yearly, 0.2)
    clock("2026-02-01T00:00:00")
    pay(yearly, 0.9)
    clock("2025-02-01T00:00:00")
    with pytest.raises(BudgetExceeded):
        pay(yearly, 0.2)
    pay(yearly, 0.1)
    assert yearly.accounts()[0].years == {2025: 0.2, 2026: 1.0}
    assert [entry.year for entry in yearly.entries()] == [2025, 2026, 2026]
    yearly.verify()


@pytest.mark.parametrize(
    "lie", [{"year": 2027}, {"earlier": {"epsilon": "0.9", "delta": "0"}}, {"year": 2025}]
)
def test_a_rebuilt_chain_cannot_move_a_charge_into_another_year(yearly, clock, lie, audit):
    pay(yearly, 0.6)
    clock("2026-05-01T00:00:00")
    pay(yearly, 0.5)
    rows = [
        Row.parse(line, number)
        for number, line in enumerate(yearly.path.read_bytes().splitlines(), start=1)
    ]
    facts = rows[-1].facts
    facts["spent"] |= lie
    forged = Row.sealed("charge", facts, after=rows[-2], time=rows[-1].time)
    with pytest.raises(LedgerTampered, match="contradicts"):
        audit([*rows[:-1], forged])
    assert audit(rows) == len(rows)


LABELS = {"unit": "record", "neighbours": "label-only"}


@pytest.fixture
def old(path):
    """A file of rows that 0.2 wrote; one account is of labels."""
    rows = [Row.sealed("genesis", {"format": 2, "ledger_id": "ab" * 16}, after=None)]

    def add(kind, **facts: object):
        rows.append(Row.sealed(kind, facts, after=rows[-1]))

    def charge(account, guarantee, key):
        spent = {"epsilon": str(guarantee.epsilon), "delta": "0.0"}
        facts = {"detail": {"rows": 3}, "simulated": False, "key": key, "spent": spent}
        add("charge", account=account, guarantee=guarantee.to_dict(), purpose="fit", **facts)

    add("account", name="told", epsilon=1.0, delta=0.0, unit="party", neighbours="replace-one")
    charge("told", Guarantee(0.5, unit="party"), "k")
    add("released", charge=3, digest="00ff")
    add("account", name="labels", epsilon=1.0, delta=0.0, **LABELS)
    charge("labels", Guarantee(0.75, **LABELS), None)
    path.write_bytes(b"".join(row.line for row in rows))
    return path


def test_what_was_spent_on_labels_is_counted_and_nothing_more_is_charged(old):
    ledger = Ledger(old)
    assert (ledger.spent("labels"), ledger.left("labels")) == (0.75, 0.25)
    for account in ("labels", "new"):
        with pytest.raises(InvalidParameter, match="neighbours"):
            ledger.charge(account, Guarantee(0.1, **LABELS), purpose="fit")
    with pytest.raises(InvalidParameter, match="neighbours"):
        ledger.open_account("more", epsilon=1.0, **LABELS)
    assert (ledger.spent("labels"), ledger.verify()) == (0.75, 6)
