from __future__ import annotations

import math
import pickle

import pytest

from confrere.errors import BudgetExceeded, CompositionError, InvalidParameter, UnknownAccount
from confrere.kernel.guarantee import RELATIONS, Guarantee, Neighbours, Unit
from confrere.ledger import Ledger


def test_ten_tenths_fit_a_cap_of_one_and_an_eleventh_does_not(ledger, tenth):
    for _ in range(10):
        ledger.charge("study", tenth, purpose="model")
    assert ledger.spent("study") == 1.0
    assert ledger.left("study") == 0.0
    rows = ledger.verify()
    with pytest.raises(BudgetExceeded) as refusal:
        ledger.charge("study", tenth, purpose="model")
    assert (refusal.value.account, refusal.value.asked, refusal.value.left) == ("study", 0.1, 0.0)
    assert refusal.value.currency == "epsilon"
    assert ledger.verify() == rows


def test_what_is_left_can_be_spent_to_the_last_digit(ledger):
    for epsilon in (0.1, 1 / 3, 1e-9):
        ledger.charge("study", Guarantee(epsilon), purpose="part")
    ledger.charge("study", Guarantee(ledger.left("study")), purpose="rest")
    assert ledger.spent("study") == 1.0
    assert not ledger.affords("study", Guarantee(1e-16))


@pytest.mark.parametrize("epsilon", [math.nextafter(1.0, 2.0), 1.0000000001, 2.0])
def test_a_price_over_the_cap_by_any_amount_is_refused(ledger, epsilon):
    assert not ledger.affords("study", Guarantee(epsilon))
    with pytest.raises(BudgetExceeded, match="1 left"):
        ledger.charge("study", Guarantee(epsilon), purpose="model")
    assert ledger.spent("study") == 0.0


def test_tiny_charges_beside_large_ones_are_counted(ledger):
    ledger.charge("study", Guarantee(0.5), purpose="large")
    ledger.charge("study", Guarantee(1e-30), purpose="tiny")
    with pytest.raises(BudgetExceeded):
        ledger.charge("study", Guarantee(0.5), purpose="large")


def test_delta_has_its_own_cap(path):
    ledger = Ledger(path)
    ledger.open_account("study", epsilon=1.0, delta=1e-6)
    ledger.charge("study", Guarantee(0.1, 7e-7), purpose="model")
    assert ledger.affords("study", Guarantee(0.1, 3e-7))
    assert not ledger.affords("study", Guarantee(0.1, 4e-7))
    with pytest.raises(BudgetExceeded, match="delta 4e-07, 3e-07 left") as refusal:
        ledger.charge("study", Guarantee(0.1, 4e-7), purpose="model")
    assert refusal.value.currency == "delta"
    assert pickle.loads(pickle.dumps(refusal.value)).currency == "delta"
    assert ledger.spent("study") == 0.1


def test_an_account_capped_for_pure_guarantees_takes_no_delta(ledger):
    with pytest.raises(BudgetExceeded, match="delta"):
        ledger.charge("study", Guarantee(0.1, 1e-9), purpose="model")


def test_without_a_cap_an_account_counts_only(path):
    ledger = Ledger(path)
    ledger.open_account("open")
    ledger.charge("open", Guarantee(1e6, 0.5), purpose="model")
    assert ledger.spent("open") == 1e6
    assert ledger.left("open") == math.inf
    assert ledger.accounts()[0].epsilon is None


def test_accounts_do_not_share(ledger, tenth):
    ledger.open_account("other", epsilon=2.0)
    ledger.charge("other", tenth, purpose="model")
    assert (ledger.spent("study"), ledger.spent("other")) == (0.0, 0.1)
    assert [account.name for account in ledger.accounts()] == ["study", "other"]


def test_an_account_says_what_it_counts_from_the_start(ledger):
    (account,) = ledger.accounts()
    assert (account.unit, account.neighbours) == (Unit.RECORD, Neighbours.REPLACE_ONE)


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


def test_opening_again_with_the_same_facts_changes_nothing(ledger, tenth):
    ledger.charge("study", tenth, purpose="model")
    head = ledger.head()
    ledger.open_account("study", epsilon=1)
    assert ledger.head() == head
    assert ledger.spent("study") == 0.1


@pytest.mark.parametrize(
    ("facts", "differing"),
    [
        ({"epsilon": 2.0}, "epsilon"),
        ({"epsilon": None}, "epsilon"),
        ({"epsilon": 1.0, "delta": 0.1}, "delta"),
        ({"epsilon": 1.0, "unit": Unit.PARTY}, "unit"),
        ({"epsilon": 1.0, "neighbours": Neighbours.ADD_REMOVE}, "neighbours"),
    ],
)
def test_opening_again_with_other_facts_is_refused(ledger, facts, differing):
    with pytest.raises(InvalidParameter, match=f"another {differing};"):
        ledger.open_account("study", **facts)
    assert ledger.left("study") == 1.0


@pytest.mark.parametrize(
    ("name", "facts", "complaint"),
    [
        ("", {}, "name"),
        ("a\nb", {}, "name"),
        ("x" * 201, {}, "name"),
        ("\ud800", {}, "name"),
        (7, {}, "name"),
        ("a", {"epsilon": 0}, "epsilon"),
        ("a", {"epsilon": -1.0}, "epsilon"),
        ("a", {"epsilon": math.inf}, "epsilon"),
        ("a", {"epsilon": math.nan}, "epsilon"),
        ("a", {"epsilon": "1"}, "epsilon"),
        ("a", {"epsilon": 1.0, "delta": 1.0}, "delta"),
        ("a", {"epsilon": 1.0, "delta": math.nan}, "delta"),
        ("a", {"epsilon": 1.0, "delta": "0"}, "delta"),
        ("a", {"delta": 0.1}, "give epsilon"),
        ("a", {"unit": "household"}, "unit"),
        ("a", {"unit": None}, "unit"),
        ("a", {"neighbours": "far"}, "neighbours"),
        ("a", {"neighbours": None}, "neighbours"),
        ("a", {"reason": ""}, "reason"),
    ],
)
def test_impossible_accounts_are_refused(path, name, facts, complaint):
    ledger = Ledger(path)
    with pytest.raises(InvalidParameter, match=complaint):
        ledger.open_account(name, **facts)
    assert ledger.accounts() == []


@pytest.mark.parametrize("name", ["O'Brien; DROP TABLE rows", "日本", '"quoted"', "$.name", "1"])
def test_any_printable_name_will_do(path, tenth, name):
    ledger = Ledger(path)
    ledger.open_account(name, epsilon=0.3)
    ledger.charge(name, tenth, purpose="model")
    ledger.charge(name, tenth, purpose="model", key=name)
    assert ledger.charge(name, tenth, purpose="model", key=name).row == 4
    assert ledger.spent(name) == 0.2
    assert ledger.account_for(None) == name


class TestWhichAccount:
    def test_none_means_the_only_one(self, ledger, tenth):
        assert ledger.account_for(None) == "study"
        assert ledger.charge(None, tenth, purpose="model").account == "study"
        assert ledger.spent() == 0.1

    def test_none_of_several_is_refused_naming_them(self, ledger, tenth):
        ledger.open_account("other")
        for ask in (
            lambda: ledger.account_for(None),
            lambda: ledger.charge(None, tenth, purpose="model"),
            lambda: ledger.affords(None, tenth),
        ):
            with pytest.raises(UnknownAccount, match="'study', 'other'"):
                ask()

    def test_an_unknown_one_is_refused_naming_the_others(self, ledger, tenth):
        for ask in (
            lambda: ledger.account_for("studdy"),
            lambda: ledger.charge("studdy", tenth, purpose="model"),
            lambda: ledger.spent("studdy"),
            lambda: ledger.left("studdy"),
            lambda: ledger.entries("studdy"),
        ):
            with pytest.raises(UnknownAccount, match="no account 'studdy'; there is: 'study'"):
                ask()

    def test_a_durable_ledger_opens_none_by_itself(self, path, tenth):
        ledger = Ledger(path)
        with pytest.raises(UnknownAccount, match="open one with open_account"):
            ledger.charge(None, tenth, purpose="model")
        with pytest.raises(UnknownAccount, match="open one with open_account"):
            ledger.charge("default", tenth, purpose="model")
        assert ledger.accounts() == []

    def test_an_ephemeral_ledger_opens_default(self, tenth):
        ledger = Ledger()
        assert ledger.charge(None, tenth, purpose="model").account == "default"
        assert ledger.left("default") == math.inf
        assert Ledger().account_for(None) == "default"
        assert Ledger().spent() == 0.0

    def test_an_ephemeral_ledger_opens_default_only_when_nothing_is_named(self, tenth):
        ledger = Ledger()
        with pytest.raises(UnknownAccount):
            ledger.charge("study", tenth, purpose="model")
        ledger.open_account("study", epsilon=1.0)
        assert ledger.account_for(None) == "study"
        assert [account.name for account in ledger.accounts()] == ["study"]

    @pytest.mark.parametrize("account", [7, ["study"], b"study"])
    def test_a_name_is_a_str(self, ledger, account):
        with pytest.raises(InvalidParameter, match="account must be a str"):
            ledger.account_for(account)
