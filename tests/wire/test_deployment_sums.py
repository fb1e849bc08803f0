"""Sums that nobody sees into, in a real deployment of five in which two are killed.

One is killed by signal 9 when it was ready and is asked for its part, before it has paid; one when
its part has just been sent. The run ends in a release all the same, and the ledgers say what
docs/proofs/secure_sums.md says.
"""

import os
import signal

import pytest

from confrere.ledger import Ledger
from confrere.release import load_release, verify_release
from confrere_federation.engines import line
from confrere_federation.parties import federation as signed
from tests.wire.deployment import Deployment

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

LOST, SENT = "branch-3", "branch-4"
SECONDS = 45
METHOD = """collusion_threshold = 1
max_retries = 2
name = "sums\""""


def die_when_asked():
    """Have what reads rows killed when it is asked for its part of a sum."""
    answer = signed.answer

    def killed(question, local):
        if question.operation == "minimiser":
            os.kill(os.getpid(), signal.SIGKILL)
        return answer(question, local)

    signed.answer = killed


def die_when_sent():
    """Have a party killed when its part of the second try has been sent."""
    reply = line.Line.reply
    sent = []

    def killed(self, number, content):
        reply(self, number, content)
        sent.append(b"masked" in content)
        if sum(sent) == 2:
            self.finish(60)  # the coordinator has it
            os.kill(os.getpid(), signal.SIGKILL)

    line.Line.reply = killed


def test_two_of_five_are_killed_and_the_others_finish(tmp_path):
    changes = {'name = "average"': METHOD, "quorum = 1.0": "quorum = 0.6"}
    more = {"more": (LOST, SENT), "policy": 'trust = "1 of 5"\n', "changes": changes}
    with Deployment(tmp_path, warm=True, **more) as deployment:
        asking = deployment.commands["coordinator"]
        asking[asking.index("--timeout") + 1] = str(SECONDS)
        deployment.first = {LOST: die_when_asked, SENT: die_when_sent}
        deployment.start_all()
        assert deployment.running[LOST].wait(300) == 6  # its reader is gone, and it says so
        lost = deployment.running.pop(LOST)
        assert deployment.running[SENT].wait(300) == -signal.SIGKILL
        deployment.start(SENT)  # its part is in the sum; it is back for the release
        told = deployment.finish(300)
        assert deployment.remains() == []
    assert lost.returncode == 6
    inside = sorted(set(deployment.parties) - {LOST})
    assert sorted(told["parties"]) == inside
    assert set(told["unsigned"]) <= {LOST}
    release = load_release(told["folder"])
    assert release.card.status == "released"
    tries = {(operation, step) for operation, step, _ in deployment.gathered()}
    assert ("minimiser", 0) not in tries  # that try was lost
    assert ("minimiser", 1) in tries
    ledgers = []
    for name in inside:
        ledger = Ledger(deployment.ledger(name))
        ledgers.append(ledger)
        ledger.verify()
        (entry,) = ledger.entries()  # one charge for all tries, the lost one too
        assert (entry.state, entry.spent) == ("released", 1.0)
        answered = {key[1:] for key in deployment.answers(name)}
        assert answered == {("size", 0), ("minimiser", 0), ("minimiser", 1)}
        uploads = [a for key, a in deployment.answers(name).items() if key[1] == "minimiser"]
        assert uploads[0] != uploads[1]  # fresh noise and fresh masks
    assert Ledger(deployment.ledger(LOST)).entries() == []
    keys = {p.name: p.key for p in deployment.study.parties if p.name in inside}
    load_release(told["folder"], require_signature_from=keys)
    verify_release(told["folder"], ledgers=ledgers)
