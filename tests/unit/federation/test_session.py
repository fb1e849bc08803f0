"""A run between organisations that do not trust each other, when everyone is honest."""

import numpy as np
import pytest

from confrere.errors import InvalidParameter
from confrere.ledger import Ledger
from confrere.release.signing import verify_bytes
from confrere_federation.parties import Averaging, Expansion, Frame, PartyError
from confrere_federation.parties.messages import SignedAnswer
from confrere_federation.parties.signed import PartySession
from tests.unit.federation.signed_run import COLUMNS, SIGNED, Loopback, Organisations

PLANS = {
    "a ridge that depends on sizes": Averaging(frame=Frame(COLUMNS), epsilon=0.05),
    "one round": Averaging(frame=Frame(COLUMNS), epsilon=1.0),
    "three rounds": Averaging(frame=Frame(COLUMNS), epsilon=1.0, rounds=3),
    "median": Averaging(frame=Frame(COLUMNS), epsilon=1.0, combine="median"),
    "laplace": Averaging(frame=Frame(COLUMNS), epsilon=1.0, perturb="output"),
    "l1": Averaging(frame=Frame(COLUMNS, norm="l1"), epsilon=1.0),
    "prior": Averaging(frame=Frame(COLUMNS), epsilon=1.0, prior=np.ones(COLUMNS + 1)),
    "expansion": Expansion(frame=Frame(COLUMNS), epsilon=1.0),
}


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_everyone_ends_with_the_release(tmp_path, plan):
    there = Organisations(tmp_path, plan=plan)
    federation = there.federation()
    outcome = there.learn(federation)
    assert federation.left_out == {}
    assert [there.spent(name) for name in there.names] == pytest.approx([plan.epsilon] * 3)
    assert outcome.guarantee.epsilon == pytest.approx(plan.epsilon)
    files = {"weights": outcome.weights.tobytes()}
    signatures = federation.hand_out(files)
    for name, signature in signatures.items():
        verify_bytes(signature, files["weights"], there.public[name], namespace=SIGNED)
        assert there.sessions[name].finished
        assert there.sessions[name].state == "released"


def test_who_paid_and_was_left_out_does_not_sign(tmp_path):
    there = Organisations(tmp_path)

    def lose(question, reply):
        opened = SignedAnswer.open(reply, there.public)
        return "Timeout" if opened.about["operation"] == "objective" else reply

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
    grant = there.grant("a")
    local = there.local("a", grant)
    object.__setattr__(local.books, "ledger", ledger)
    with pytest.raises(InvalidParameter, match="no lifetime cap"):
        PartySession(
            local,
            grant,
            protocol=there.protocol,
            parties=there.public,
            coordinator=there.coordinator.public_key(),
            key=there.keys["a"],
            accept=lambda files, outcome: b"",
        )
    with pytest.raises(InvalidParameter, match="another party's"):
        there.session("a", grant={"party": "b"})
    with pytest.raises(InvalidParameter, match="names for this party"):
        there.session("a", key=there.keys["b"])
