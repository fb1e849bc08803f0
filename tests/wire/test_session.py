"""A run between organisations that do not trust each other, when everyone is honest."""

import pytest

from confrere.errors import InvalidParameter
from confrere.ledger import Ledger
from confrere_federation.parties.messages import PartyError, SignedAnswer
from tests.wire.signed_run import Loopback, Organisations


def test_who_paid_and_was_left_out_does_not_sign(tmp_path):
    there = Organisations(tmp_path)

    def lose(question, reply):
        opened = SignedAnswer.open(reply, there.public)
        return "Timeout" if opened.payload.values["about"]["operation"] == "objective" else reply

    federation = there.federation(tamper={"c": lose})
    outcome = there.learn(federation)
    assert there.spent("c") == 1.0
    carrier = Loopback(there.sessions)
    federation._carrier = carrier
    signatures = federation.hand_out({"weights": outcome.weights.tobytes()})
    assert signatures["c"] == PartyError("OperationRefused:left-out")
    assert there.sessions["c"].finished
    assert there.sessions["c"].state == "left out"
    assert isinstance(signatures["a"], bytes)


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
