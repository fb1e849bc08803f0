"""A ledger that an earlier version took over from the first format, whose accounts said less."""

from __future__ import annotations

import pytest

from confrere.errors import CompositionError, InvalidParameter
from confrere.kernel.guarantee import Guarantee
from confrere.kernel.log import Kind, Row
from confrere.ledger import Ledger

COUNTED = {"unit": None, "neighbours": None}
LABELS = {"unit": "record", "neighbours": "label-only"}


@pytest.fixture
def old(path):
    """A file of rows that the first format wrote: one account says nothing, one is of labels."""
    rows = [Row.sealed(Kind.GENESIS, {"format": 1, "ledger_id": "ab" * 16}, after=None)]

    def add(kind, **facts: object):
        rows.append(Row.sealed(kind, facts, after=rows[-1]))

    def charge(account, guarantee, key):
        spent = {"epsilon": str(guarantee.epsilon), "delta": "0.0"}
        facts = {"detail": {}, "simulated": False, "purpose": "fit", "key": key, "spent": spent}
        add(Kind.CHARGE, account=account, guarantee=guarantee.to_dict(), **facts)

    add(Kind.ACCOUNT, name="study", epsilon=1.0, delta=0.0, **COUNTED)
    add(Kind.ACCOUNT, name="told", epsilon=1.0, delta=0.0, unit="party", neighbours="replace-one")
    charge("study", Guarantee(0.25), "k")
    add(Kind.RELEASED, charge=4, digest="00ff")
    charge("told", Guarantee(0.5, unit="party"), None)
    add(Kind.ACCOUNT, name="labels", epsilon=1.0, delta=0.0, **LABELS)
    charge("labels", Guarantee(0.75, **LABELS), None)
    path.write_bytes(b"".join(row.line for row in rows))
    return path


def test_it_is_read_as_it_was(old):
    ledger = Ledger(old)
    assert ledger.verify() == 8
    assert [entry.state for entry in ledger.entries()] == ["released", "open", "open"]
    assert (ledger.spent("study"), ledger.spent("told")) == (0.25, 0.5)


def test_what_was_spent_on_labels_is_counted_and_nothing_more_is_charged(old):
    ledger = Ledger(old)
    assert (ledger.spent("labels"), ledger.left("labels")) == (0.75, 0.25)
    for account in ("labels", "new"):
        with pytest.raises(InvalidParameter, match="neighbours"):
            ledger.charge(account, Guarantee(0.1, **LABELS), purpose="fit")
    with pytest.raises(InvalidParameter, match="neighbours"):
        ledger.open_account("more", epsilon=1.0, **LABELS)
    assert (ledger.spent("labels"), ledger.verify()) == (0.75, 8)


def test_an_account_that_says_nothing_answers_nothing_until_declared(old):
    ledger = Ledger(old)
    with pytest.raises(CompositionError, match=r"does not say what it counts.*ledger open"):
        ledger.charge("study", Guarantee(0.1), purpose="fit")
    with pytest.raises(CompositionError):
        ledger.affords("study", Guarantee(0.1))
    with pytest.raises(InvalidParameter, match=r"was charged per record .replace-one. before"):
        ledger.declare("study", unit="record", neighbours="add-remove", reason="cheaper")
    ledger.declare("study", unit="record", neighbours="replace-one", reason="what it was")
    with pytest.raises(InvalidParameter, match=r"counts per record .* already"):
        ledger.declare("study", unit="party", neighbours="replace-one", reason="another")
    ledger.charge("study", Guarantee(0.1), purpose="fit")
    ledger.open_account("study", epsilon=1.0)
    ledger.charge("told", Guarantee(0.5, unit="party"), purpose="fit")
    assert ledger.accounts()[0].history[-1].reason == "what it was"
    assert ledger.verify() == 11
