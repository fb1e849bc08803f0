import math

import numpy as np
import pytest

from confrere.errors import BudgetExceeded, InvalidParameter, LedgerError
from confrere.kernel.guarantee import (
    GaussianMinimisers,
    GaussianPoint,
    Guarantee,
    PartsApart,
    Promised,
    SharedSums,
    Split,
)
from confrere.ledger import Ledger, Limit, Receipt
from tests.world import each


class TestEnds:
    def test_a_foreign_or_altered_receipt_is_refused(self, ledger, tmp_path, tenth):
        mine = ledger.charge("study", tenth, purpose="fit")
        elsewhere = Ledger(tmp_path / "elsewhere.ledger")
        elsewhere.open_account("study", epsilon=1.0)
        foreign = elsewhere.charge("study", tenth, purpose="fit")
        changes = each(row=(1, 2, 99), hash=(foreign.hash,), ledger_id=(foreign.ledger_id,))
        changes.append({"simulated": True})
        altered = [Receipt.from_dict(mine.to_dict() | change) for change in changes]
        for receipt in (foreign, *altered):
            with pytest.raises(LedgerError, match="not of this ledger"):
                ledger.mark_released(receipt)
            with pytest.raises(LedgerError, match="not of this ledger"):
                ledger.entry(receipt)
        assert ledger.entries()[0].state == "open"

    @pytest.mark.parametrize("code", ["", "two words", "row 7 has x=3.2", "a" * 65, "é", 5])
    def test_a_code_cannot_quote_data_and_a_digest_is_a_text(self, ledger, tenth, code):
        receipt = ledger.charge("study", tenth, purpose="fit")
        with pytest.raises(InvalidParameter, match="code must be"):
            ledger._store.mark(receipt, code=code)
        with pytest.raises(InvalidParameter, match="digest must be a str"):
            ledger.mark_released(receipt, digest=b"00")
        assert ledger.entries()[0].state == "open"


class TestWhatMayBeWritten:
    @pytest.mark.parametrize(
        "value",
        [np.zeros(3), {1, 2}, b"raw", object(), math.inf, [1.0, math.nan], [0.125] * 10_000],
    )
    def test_events_hold_a_few_numbers_and_no_data(self, value):
        with pytest.raises(InvalidParameter, match="sigmas") as refusal:
            GaussianMinimisers(value, (1.0,), 0.5, 2, True, 0.001)
        assert "0.125" not in str(refusal.value)

    def test_events_come_back_as_given(self, ledger, tenth):
        noise = GaussianMinimisers((2.5, np.float64(0.1)), (1, 7.0), 0.5, 2, True, 0.001)
        sums = SharedSums(0.1, 0.0, "ab", 3, 0.5)
        drawn = PartsApart((noise, Promised(0.1), GaussianPoint(0.2, 0.01), sums), Split.BY_INDEX)
        ledger.charge("study", tenth, purpose="fit", event=drawn)
        assert ledger.entries()[0].event == drawn

    @pytest.mark.parametrize(
        "wrong",
        [
            *each(purpose=("", "two\nlines", None), key=("", 3), simulated=(None,)),
            *each(
                guarantee=(0.1,),
                event=(Guarantee(0.1), {"event": "Drawn"}),
                origin=([1, 2], {3: "a"}),
            ),
        ],
    )
    def test_wrong_arguments_are_refused_before_anything_is_spent(self, ledger, wrong):
        charge = {"account": "study", "guarantee": Guarantee(0.1), "purpose": "fit"} | wrong
        with pytest.raises(InvalidParameter, match=next(iter(wrong))):
            ledger.charge(**charge)
        assert ledger.spent("study") == 0.0


@pytest.mark.parametrize("forged", [{"epsilon": -5.0}, {"delta": -0.1}, {"epsilon": math.nan}])
def test_a_forged_price_gives_no_budget_back(ledger, forged):
    price = Guarantee(0.1)
    vars(price).update(forged)
    with pytest.raises(InvalidParameter):
        ledger.charge("study", price, purpose="fit")
    assert ledger.spent("study") == 0.0


def test_a_limit_beside_the_cap_is_looked_at_with_the_charge(ledger):
    ledger.open_account("wide", epsilon=10.0)
    half, limited = Guarantee(0.5), {"purpose": "fit", "limit": Limit(1.5, "study")}
    first, *_ = (ledger.charge("wide", half, key=key, **limited) for key in ("k", None, None))
    with pytest.raises(BudgetExceeded) as refused:
        ledger.charge("wide", half, **limited)
    assert (refused.value.asked, refused.value.left) == (0.5, 0.0)
    assert ledger.charge("wide", half, key="k", **limited) == first  # it was paid
    assert ledger.spent("wide") == 1.5
    # Without one, or with another, the account's own cap decides.
    ledger.charge("wide", half, purpose="fit", limit=Limit(2.0, "study"))
    ledger.charge("wide", half, purpose="fit")
    with pytest.raises(InvalidParameter):
        ledger.charge("wide", half, purpose="fit", limit=Limit(math.nan, "study"))
