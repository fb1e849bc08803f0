"""Whatever is done in whatever order, the file agrees with a ledger kept in the head."""

import math
import pickle
from fractions import Fraction

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    invariant,
    multiple,
    precondition,
    rule,
)

from confrere.errors import (
    AccountFrozen,
    BudgetExceeded,
    CompositionError,
    InvalidParameter,
    LedgerError,
)
from confrere.kernel.guarantee import Guarantee, Unit
from confrere.ledger import Ledger, Receipt

names = st.sampled_from(["a", "b", "c"])
caps = st.sampled_from([None, 0.3, 1.0, 2.5])
guarantees = st.builds(
    Guarantee,
    st.sampled_from([0.1, 0.2, 0.3, 1 / 3, 1e-12, 1.0]) | st.floats(1e-6, 3.0),
    unit=st.sampled_from([Unit.RECORD, Unit.RECORD, Unit.RECORD, Unit.PARTY]),
)
keys = st.none() | st.sampled_from(["k", "l"])
ends = st.sampled_from([("released", None), ("released", "00"), ("failed", "A"), ("failed", "B")])


class LedgerAgainstModel(RuleBasedStateMachine):
    receipts = Bundle("receipts")

    def __init__(self):
        super().__init__()
        self.ledger = Ledger()
        self.caps: dict[str, float | None] = {}
        self.spent: dict[str, Fraction] = {}
        self.opened: dict[str, tuple[float | None, Unit]] = {}
        self.frozen: set[str] = set()
        self.keys: dict[str, tuple[tuple[str, Guarantee], Receipt]] = {}
        self.charged: list[tuple[Receipt, tuple[str, str | None] | None]] = []
        self.heads: list[str] = []

    @rule(name=names, cap=caps, unit=st.sampled_from(Unit))
    def open_account(self, name, cap, unit):
        opened = self.opened.setdefault(name, (cap, unit))
        if unit is not opened[1] or cap not in (opened[0], self.caps.get(name, cap)):
            with pytest.raises(InvalidParameter):
                self.ledger.open_account(name, epsilon=cap, unit=unit)
            return
        self.ledger.open_account(name, epsilon=cap, unit=unit)
        self.caps.setdefault(name, cap)
        self.spent.setdefault(name, Fraction(0))

    @precondition(lambda self: self.caps)
    @rule(data=st.data(), cap=caps.filter(bool))
    def raise_cap(self, data, cap):
        name = data.draw(st.sampled_from(sorted(self.caps)))
        now = self.caps[name]
        if now is None or cap <= now:
            with pytest.raises(InvalidParameter):
                self.ledger.raise_cap(name, epsilon=cap, reason="more")
            return
        self.ledger.raise_cap(name, epsilon=cap, reason="more")
        self.caps[name] = cap

    @precondition(lambda self: self.caps)
    @rule(data=st.data())
    def freeze(self, data):
        name = data.draw(st.sampled_from(sorted(self.caps)))
        self.ledger.freeze(name, reason="enough")
        self.frozen.add(name)

    @rule(target=receipts, name=names, guarantee=guarantees, key=keys)
    def charge(self, name, guarantee, key):
        def charge():
            return self.ledger.charge(name, guarantee, purpose="fit", key=key)

        error = self._expected_error(name, guarantee, key)
        if error is not None:
            with pytest.raises(error):
                charge()
            return multiple()
        receipt = charge()
        if key is not None and key in self.keys:
            assert receipt == self.keys[key][1]
            return multiple()
        self.spent[name] += Fraction(repr(guarantee.epsilon))
        self.charged.append((receipt, None))
        if key is not None:
            self.keys[key] = ((name, guarantee), receipt)
        return receipt

    def _expected_error(self, name, guarantee, key):
        if name not in self.caps:
            return KeyError
        if key is not None and key in self.keys:
            return None if self.keys[key][0] == (name, guarantee) else LedgerError
        if name in self.frozen:
            return AccountFrozen
        if self.opened[name][1] is not guarantee.unit:
            return CompositionError
        cap = self.caps[name]
        price = Fraction(repr(guarantee.epsilon))
        if cap is not None and self.spent[name] + price > Fraction(repr(cap)):
            return BudgetExceeded
        return None

    @rule(receipt=receipts, end=ends)
    def mark(self, receipt, end):
        position = [row for row, _ in self.charged].index(receipt)
        earlier = self.charged[position][1]

        def mark():
            if end[0] == "released":
                self.ledger.mark_released(receipt, digest=end[1])
            else:
                self.ledger._store.mark(receipt, code=str(end[1]))

        if earlier not in (None, end):
            with pytest.raises(LedgerError):
                mark()
            return
        mark()
        self.charged[position] = (receipt, end)

    @rule()
    def go_elsewhere(self):
        self.ledger = pickle.loads(pickle.dumps(self.ledger))

    @rule()
    def keep_the_head(self):
        self.heads.append(self.ledger.head())

    @invariant()
    def agrees(self):
        for account in self.ledger.accounts():
            spent = self.spent[account.name]
            assert account.epsilon == self.caps[account.name]
            assert account.spent == pytest.approx(float(spent), rel=1e-15)
            assert Fraction(repr(account.spent)) >= spent
            cap = self.caps[account.name]
            if account.name in self.frozen:
                assert account.left == 0.0
            elif cap is None:
                assert account.left == math.inf
            else:
                assert 0 <= Fraction(repr(account.left)) <= Fraction(repr(cap)) - spent
        assert len(self.ledger.accounts()) == len(self.caps)

    @invariant()
    def lists_what_was_charged(self):
        found = [
            (entry.row, entry.hash, entry.guarantee, entry.state, entry.digest or entry.code)
            for entry in self.ledger.entries()
        ]
        expected = [
            (receipt.row, receipt.hash, receipt.guarantee, *(end or ("open", None)))
            for receipt, end in self.charged
        ]
        assert found == expected

    def teardown(self):
        for head in (None, *self.heads):
            self.ledger.verify(head=head)


TestLedgerAgainstModel = LedgerAgainstModel.TestCase
TestLedgerAgainstModel.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)
