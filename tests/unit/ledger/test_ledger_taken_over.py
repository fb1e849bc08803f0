"""A ledger that an earlier version took over from the first format, whose accounts said less."""

import pytest

from confrere.errors import CompositionError, InvalidParameter
from confrere.kernel.guarantee import Guarantee
from confrere.kernel.log import Row
from confrere.ledger import Ledger

COUNTED = {"unit": None, "neighbours": None}
LABELS = {"unit": "record", "neighbours": "label-only"}


@pytest.fixture
def old(path):
    """A file of rows that the first format wrote: one account says nothing, one is of labels."""
    rows = [Row.sealed("genesis", {"format": 1, "ledger_id": "ab" * 16}, after=None)]

    def add(kind, **facts: object):
        rows.append(Row.sealed(kind, facts, after=rows[-1]))

    def charge(account, guarantee, key):
        spent = {"epsilon": str(guarantee.epsilon), "delta": "0.0"}
        facts = {
            "detail": {"rows": 3},
            "simulated": False,
            "purpose": "fit",
            "key": key,
            "spent": spent,
        }
        add("charge", account=account, guarantee=guarantee.to_dict(), **facts)

    add("account", name="study", epsilon=1.0, delta=0.0, **COUNTED)
    add("account", name="told", epsilon=1.0, delta=0.0, unit="party", neighbours="replace-one")
    charge("study", Guarantee(0.25), "k")
    add("released", charge=4, digest="00ff")
    charge("told", Guarantee(0.5, unit="party"), None)
    add("account", name="labels", epsilon=1.0, delta=0.0, **LABELS)
    charge("labels", Guarantee(0.75, **LABELS), None)
    add("account", name="silent", epsilon=1.0, delta=0.0, **COUNTED)
    path.write_bytes(b"".join(row.line for row in rows))
    return path


def test_it_is_read_as_it_was(old):
    ledger = Ledger(old)
    assert ledger.verify() == 9
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
    assert (ledger.spent("labels"), ledger.verify()) == (0.75, 9)


def test_an_account_that_says_nothing_counts_what_it_was_charged(old):
    ledger = Ledger(old)
    with pytest.raises(CompositionError, match="counts per record"):
        ledger.charge("study", Guarantee(0.1, unit="party"), purpose="fit")
    ledger.charge("study", Guarantee(0.1), purpose="fit")
    ledger.charge("told", Guarantee(0.5, unit="party"), purpose="fit")
    with pytest.raises(CompositionError, match="says nothing"):
        ledger.charge("silent", Guarantee(0.1), purpose="fit")
    assert ledger.verify() == 11


def test_what_it_was_declared_to_count_is_read(old):
    last = Row.parse(old.read_bytes().splitlines()[-1], 9)
    facts = {"account": "silent", "reason": "so it was", "unit": "party"}
    said = Row.sealed("declared", facts | {"neighbours": "replace-one"}, after=last)
    old.write_bytes(old.read_bytes() + said.line)
    Ledger(old).charge("silent", Guarantee(0.1, unit="party"), purpose="fit")
