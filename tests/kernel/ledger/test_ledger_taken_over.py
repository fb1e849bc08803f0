"""A ledger of version 0.2 goes on: what was spent in it stays spent."""

import pytest

from confrere.errors import InvalidParameter
from confrere.kernel.guarantee import Guarantee
from confrere.kernel.ledger import Row
from confrere.ledger import Ledger

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


def test_it_goes_on_from_what_was_spent(old):
    ledger = Ledger(old)
    assert [entry.state for entry in ledger.entries()] == ["released", "open"]
    assert (ledger.verify(), ledger.spent("told"), ledger.left("told")) == (6, 0.5, 0.5)
    ledger.charge("told", Guarantee(0.5, unit="party"), purpose="fit")
    assert (ledger.verify(), ledger.left("told")) == (7, 0.0)


def test_what_was_spent_on_labels_is_counted_and_nothing_more_is_charged(old):
    ledger = Ledger(old)
    assert (ledger.spent("labels"), ledger.left("labels")) == (0.75, 0.25)
    for account in ("labels", "new"):
        with pytest.raises(InvalidParameter, match="neighbours"):
            ledger.charge(account, Guarantee(0.1, **LABELS), purpose="fit")
    with pytest.raises(InvalidParameter, match="neighbours"):
        ledger.open_account("more", epsilon=1.0, **LABELS)
    assert (ledger.spent("labels"), ledger.verify()) == (0.75, 6)
