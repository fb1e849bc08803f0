from __future__ import annotations

import json
import math
import os
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from confrere.errors import BudgetExceeded, InvalidParameter, LedgerError
from confrere.kernel.guarantee import Guarantee, Unit
from confrere.ledger import Ledger, Limit, Receipt


def test_a_receipt_says_what_was_paid(ledger, tenth):
    receipt = ledger.charge("study", tenth, purpose="fit", detail={"rounds": 3}, simulated=True)
    assert receipt.account == "study"
    assert receipt.guarantee == tenth
    assert receipt.purpose == "fit"
    assert receipt.simulated is True
    assert receipt.hash == ledger.head()
    assert receipt.row == ledger.verify() == 3
    age = datetime.now(UTC) - datetime.fromisoformat(receipt.time)
    assert timedelta(0) <= age < timedelta(minutes=1)


def test_a_receipt_survives_json(ledger, tenth):
    receipt = ledger.charge("study", tenth, purpose="fit")
    assert Receipt.from_dict(json.loads(json.dumps(receipt.to_dict()))) == receipt


def test_half_a_receipt_is_refused(ledger, tenth):
    values = ledger.charge("study", tenth, purpose="fit").to_dict()
    del values["hash"]
    with pytest.raises(InvalidParameter, match="lacks hash"):
        Receipt.from_dict(values)


def test_entries_say_what_was_charged(ledger, tenth):
    ledger.open_account("other")
    ledger.charge("study", tenth, purpose="fit", detail={"alpha": 0.01, "groups": [[1, 2], []]})
    ledger.charge("other", Guarantee(2.0), purpose="vote", key="round 1")
    ledger.charge("study", tenth, purpose="fit", simulated=True)
    first, second, third = ledger.entries()
    assert (first.guarantee, first.detail) == (tenth, {"alpha": 0.01, "groups": [[1, 2], []]})
    assert (first.spent, second.spent, third.spent) == (0.1, 2.0, 0.2)
    assert (second.account, second.key, second.purpose) == ("other", "round 1", "vote")
    assert [entry.simulated for entry in (first, second, third)] == [False, False, True]
    assert ledger.entries("study") == [first, third]
    assert ledger.entries("other") == [second]


def test_the_price_is_on_disk_before_charge_returns(ledger, path, tenth):
    ledger.charge("study", tenth, purpose="fit")
    assert Ledger(path).spent("study") == 0.1


class TestKeys:
    def test_the_same_charge_twice_is_paid_once(self, ledger, path):
        price = Guarantee(0.6)
        first = ledger.charge("study", price, purpose="fit", detail={"b": 1, "a": 2}, key="k")
        again = Ledger(path).charge(None, price, purpose="fit", detail={"a": 2, "b": 1}, key="k")
        assert again == first
        assert ledger.spent("study") == 0.6

    def test_a_key_answers_even_when_nothing_is_left(self, ledger):
        first = ledger.charge("study", Guarantee(1.0), purpose="fit", key="k")
        ledger.mark_failed(first, code="SolverFailed")
        assert ledger.charge("study", Guarantee(1.0), purpose="fit", key="k") == first
        with pytest.raises(BudgetExceeded):
            ledger.charge("study", Guarantee(1.0), purpose="fit", key="another")

    @pytest.mark.parametrize(
        "other",
        [
            {"account": "other"},
            {"guarantee": Guarantee(0.2)},
            {"guarantee": Guarantee(0.1, theorem="another")},
            {"guarantee": Guarantee(0.1, unit=Unit.PARTY)},
            {"purpose": "another"},
            {"detail": {"round": 2}},
            {"detail": {"round": True}},
            {"detail": None},
            {"simulated": True},
        ],
    )
    def test_other_content_under_a_used_key_is_refused(self, ledger, other):
        ledger.open_account("other")
        charge = {
            "account": "study",
            "guarantee": Guarantee(0.1),
            "purpose": "fit",
            "detail": {"round": 1},
            "simulated": False,
        }
        ledger.charge(**charge, key="k")
        head = ledger.head()
        with pytest.raises(LedgerError, match="key 'k' was used for another charge"):
            ledger.charge(**charge | other, key="k")
        assert ledger.head() == head

    def test_other_keys_and_none_pay_each(self, ledger, tenth):
        for key in ("a", "b", None, None):
            ledger.charge("study", tenth, purpose="fit", key=key)
        assert ledger.spent("study") == 0.4

    def test_a_refused_charge_does_not_use_up_its_key(self, ledger, tenth):
        with pytest.raises(BudgetExceeded):
            ledger.charge("study", Guarantee(2.0), purpose="fit", key="k")
        assert ledger.charge("study", tenth, purpose="fit", key="k").guarantee == tenth


class TestEnds:
    def test_open_released_failed(self, ledger, tenth):
        receipts = [ledger.charge("study", tenth, purpose=str(n)) for n in range(3)]
        ledger.mark_released(receipts[1], digest="sha256:00ff")
        ledger.mark_failed(receipts[0], code="CalibrationError")
        failed, released, still_open = ledger.entries()
        assert (failed.state, failed.code, failed.digest) == ("failed", "CalibrationError", None)
        assert (released.state, released.digest, released.code) == ("released", "sha256:00ff", None)
        assert (still_open.state, still_open.ended) == ("open", None)
        assert released.time < released.ended < failed.ended

    def test_what_failed_stays_charged(self, ledger, tenth):
        ledger.mark_failed(ledger.charge("study", tenth, purpose="fit"), code="SolverFailed")
        assert ledger.spent("study") == 0.1
        assert ledger.left("study") == 0.9

    @pytest.mark.parametrize(
        ("first", "second"),
        [
            (("mark_released", {}), ("mark_failed", {"code": "Late"})),
            (("mark_failed", {"code": "Early"}), ("mark_released", {})),
            (("mark_failed", {"code": "Early"}), ("mark_failed", {"code": "Late"})),
            (("mark_released", {"digest": "a"}), ("mark_released", {"digest": "b"})),
            (("mark_released", {"digest": "a"}), ("mark_released", {})),
        ],
    )
    def test_how_it_ended_does_not_change(self, ledger, tenth, first, second):
        receipt = ledger.charge("study", tenth, purpose="fit")
        getattr(ledger, first[0])(receipt, **first[1])
        rows, entries = ledger.verify(), ledger.entries()
        with pytest.raises(LedgerError, match="already marked"):
            getattr(ledger, second[0])(receipt, **second[1])
        getattr(ledger, first[0])(receipt, **first[1])
        assert (ledger.verify(), ledger.entries()) == (rows, entries)

    def test_a_foreign_or_altered_receipt_is_refused(self, ledger, tmp_path, tenth):
        mine = ledger.charge("study", tenth, purpose="fit")
        elsewhere = Ledger(tmp_path / "elsewhere.ledger")
        elsewhere.open_account("study", epsilon=1.0)
        foreign = elsewhere.charge("study", tenth, purpose="fit")
        altered = [
            Receipt.from_dict(mine.to_dict() | change)
            for change in (
                {"hash": foreign.hash},
                {"row": 1},
                {"row": 2},
                {"row": 99},
                {"ledger_id": foreign.ledger_id},
                {"simulated": True},
            )
        ]
        for receipt in (foreign, *altered):
            with pytest.raises(LedgerError, match="not of this ledger"):
                ledger.mark_released(receipt)
        assert ledger.entries()[0].state == "open"

    @pytest.mark.parametrize("code", ["", "two words", "row 7 has x=3.2", "a" * 65, "é", None, 5])
    def test_a_code_cannot_quote_data(self, ledger, tenth, code):
        receipt = ledger.charge("study", tenth, purpose="fit")
        with pytest.raises(InvalidParameter, match="code must be"):
            ledger.mark_failed(receipt, code=code)
        assert ledger.entries()[0].state == "open"

    def test_a_digest_is_a_text(self, ledger, tenth):
        receipt = ledger.charge("study", tenth, purpose="fit")
        with pytest.raises(InvalidParameter, match="digest must be a str"):
            ledger.mark_released(receipt, digest=b"00")


def _nested(levels: int) -> list:
    value: list = []
    for _ in range(levels):
        value = [value]
    return value


class TestWhatMayBeWritten:
    @pytest.mark.parametrize(
        "detail",
        [
            *({"x": x} for x in (np.zeros(3), np.int64(3), (1, 2), {1, 2}, b"raw", object())),
            *({"x": x} for x in ([1.0, math.nan], math.inf, {3: "a"}, _nested(20))),
            {3: "a"},
            {"x": [0.125] * 10_000},
            [1, 2],
        ],
    )
    def test_only_small_plain_details(self, ledger, tenth, detail):
        head = ledger.head()
        with pytest.raises(InvalidParameter, match="detail"):
            ledger.charge("study", tenth, purpose="fit", detail=detail)
        assert ledger.head() == head

    def test_a_detail_that_contains_itself_is_refused(self, ledger, tenth):
        detail: dict = {}
        detail["self"] = detail
        with pytest.raises(InvalidParameter, match="detail"):
            ledger.charge("study", tenth, purpose="fit", detail=detail)
        assert ledger.spent("study") == 0.0

    def test_plain_details_come_back_as_given(self, ledger, tenth):
        detail = {
            "a": [1, 2.5, None, True, "é\n\x00"],
            "b": {"c": -(2**63) + 1, "d": np.float64(0.1)},
        }
        ledger.charge("study", tenth, purpose="fit", detail=detail)
        assert ledger.entries()[0].detail == detail

    def test_the_message_does_not_show_the_value(self, ledger, tenth):
        with pytest.raises(InvalidParameter) as refusal:
            ledger.charge("study", tenth, purpose="fit", detail={"x": (123.456,)})
        assert "123.456" not in str(refusal.value)

    @pytest.mark.parametrize(
        ("wrong", "complaint"),
        [
            ({"purpose": ""}, "purpose"),
            ({"purpose": "two\nlines"}, "purpose"),
            ({"purpose": None}, "purpose"),
            ({"key": ""}, "key"),
            ({"key": 3}, "key"),
            ({"simulated": None}, "simulated"),
            ({"guarantee": 0.1}, "guarantee"),
            ({"guarantee": Guarantee(0.1, theorem=object())}, "guarantee"),
        ],
    )
    def test_wrong_arguments_are_refused_before_anything_is_spent(self, ledger, wrong, complaint):
        charge = {"account": "study", "guarantee": Guarantee(0.1), "purpose": "fit"} | wrong
        with pytest.raises(InvalidParameter, match=complaint):
            ledger.charge(**charge)
        assert ledger.spent("study") == 0.0


def test_a_charge_costs_the_same_in_a_long_ledger(tenth, monkeypatch):
    """Counted in bytes read, which do not depend on how busy the machine is."""
    ledger = Ledger()
    ledger.open_account("study")
    read = 0
    pread = os.pread

    def counting(descriptor: int, length: int, offset: int) -> bytes:
        nonlocal read
        found = pread(descriptor, length, offset)
        read += len(found)
        return found

    def cost(key: str) -> int:
        nonlocal read
        read = 0
        with monkeypatch.context() as patch:
            patch.setattr(os, "pread", counting)
            ledger.mark_released(ledger.charge(None, tenth, purpose="fit", key=key))
            ledger.left()
        return read

    cost("first")
    short = cost("second")
    for number in range(1000):
        ledger.mark_released(ledger.charge(None, tenth, purpose="fit", key=f"filler {number}"))
    assert cost("third") < 1.2 * short
    assert short < 10_000


def test_a_limit_beside_the_cap_is_looked_at_with_the_charge(ledger):
    ledger.open_account("wide", epsilon=10.0)
    half = Guarantee(0.5)
    for _ in range(3):
        ledger.charge("wide", half, purpose="fit", limit=Limit(1.5, "study"))
    with pytest.raises(BudgetExceeded) as refused:
        ledger.charge("wide", half, purpose="fit", limit=Limit(1.5, "study"))
    assert (refused.value.asked, refused.value.left) == (0.5, 0.0)
    assert ledger.spent("wide") == 1.5
    # Without one, or with another, the account's own cap decides.
    ledger.charge("wide", half, purpose="fit", limit=Limit(2.0, "study"))
    ledger.charge("wide", half, purpose="fit")
    with pytest.raises(InvalidParameter):
        ledger.charge("wide", half, purpose="fit", limit=Limit(math.nan, "study"))


def test_a_key_that_was_paid_under_a_limit_is_paid(ledger, tenth):
    first = ledger.charge("study", tenth, purpose="fit", key="once", limit=Limit(0.1, "study"))
    assert (
        ledger.charge("study", tenth, purpose="fit", key="once", limit=Limit(0.1, "study")) == first
    )
