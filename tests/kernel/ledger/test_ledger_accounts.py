import math
import pickle

import pytest

from confrere.errors import BudgetExceeded, CompositionError, InvalidParameter
from confrere.kernel.guarantee import RELATIONS, Guarantee, Unit
from confrere.ledger import Ledger
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
