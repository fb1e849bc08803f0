"""A run between organisations that do not trust each other, when everyone is honest."""

import pytest

from confrere.errors import InvalidParameter
from confrere.ledger import Ledger
from tests.wire.signed_run import Organisations


def test_without_a_lifetime_cap_there_is_no_federation(tmp_path):
    there = Organisations(tmp_path)
    ledger = Ledger(tmp_path / "uncapped.ledger")
    ledger.open_account("study", unit="record", neighbours="replace-one")
    there.ledger = lambda _: ledger
    with pytest.raises(InvalidParameter, match="no lifetime cap"):
        there.session("a")
    del there.ledger
    with pytest.raises(InvalidParameter, match="another party's"):
        there.session("a", approval={"party": "b"})
    with pytest.raises(InvalidParameter, match="names for this party"):
        there.session("a", key=there.keys["b"])
