"""Sums over the boundary: honest runs, lost tries, and everyone who does not keep to the rules."""

from dataclasses import replace

import numpy as np
import pytest

from confrere.errors import InvalidMessage, QuorumMissed
from confrere.methods.sums import Addend, OneMessage
from confrere_federation.parties import requests
from confrere_federation.parties.masks import add_masked
from confrere_federation.parties.messages import Payload
from tests.wire.signed_run import Loopback
from tests.wire.summers import FOUR, ROUNDS, Summers, asked_for
from tests.wire.test_masks import without


def test_a_restarted_party_has_paid_nothing_and_the_others_are_not_refunded(tmp_path):
    there = Summers(tmp_path)
    carrier = Loopback(there.sessions)
    exchange = carrier.exchange

    def restarting(questions, timeout):
        if asked_for(next(iter(questions.values())), there) == OneMessage.operation:
            there.restart("c")
        return exchange(questions, timeout)

    carrier.exchange = restarting
    with pytest.raises(QuorumMissed, match="no try is left"):
        there.learn(there.federation(carrier=carrier))
    assert [there.spent(name) for name in FOUR] == [1.0, 1.0, 0.0, 1.0]
    # Nobody gets another vector out of those who paid, whatever the coordinator asks now.
    evidence = there.begun()
    for step, code in ((0, "OperationRefused:repeated"), (1, "OperationRefused:step")):
        assert there.share("a", {}, evidence, step) == code


def test_different_rosters_told_to_different_parties_expose_nobody(tmp_path):
    """Masks are bound to the roster: uploads under two of them add up to noise without end."""
    there = Summers(tmp_path)
    evidence = there.begun()
    whole = there.announced(evidence)
    for name in ("a", "b", "c"):
        there.share(name, whole, evidence)
    other = without(whole, "a")
    uploads = [there.words(there.share(name, whole, evidence)) for name in ("a", "b", "c")]
    uploads.append(there.words(there.share("d", other, evidence)))
    value = there.mechanism().decode(add_masked(uploads))
    answers = {
        name: Payload(arrays={"masked": words.view(np.int64)})
        for name, words in zip(FOUR, uploads, strict=True)
    }
    assert np.abs(value).max() > 1e6 * there.mechanism().deviation
    with pytest.raises(InvalidMessage, match="longer than honest"):
        requests.added(there.mechanism(), answers)


def test_short_rosters_and_strangers_on_them_are_refused(tmp_path):
    there = Summers(tmp_path)
    evidence = there.begun()
    roster = there.announced(evidence)
    sybil, three = {"e": roster["d"]}, without(roster, "d")
    for bad in (without(three, "c"), three | sybil, roster | sybil, without(roster, "a")):
        assert there.share("a", bad, evidence).startswith("OperationRefused:")
    asked = {"evidence": evidence, "payload": there.request()}
    assert there.ask("a", there.operation, **asked) == "OperationRefused:roster"
    for bad in ("", "xy", roster["d"].hex()[:-2], roster["d"].hex() * 2):
        lied = {name: word.hex() for name, word in three.items()} | {"d": bad}
        assert there.ask("a", there.operation, roster=lied, **asked) == "OperationRefused:roster"
    assert there.spent("a") == 0


def test_machines_whose_last_bits_differ_add_up(tmp_path):
    """Masks are for the question that everybody was asked, not for what each one derives."""
    there = Summers(tmp_path, plan=ROUNDS)

    def elsewhere(parties):
        protocol, told = there.protocol(parties), None
        try:
            while True:
                ask = protocol.send(told)
                if isinstance(ask.asked, Addend):
                    moved = replace(ask.asked, weights=ask.asked.weights * (1 + 1e-14))
                    ask = replace(ask, asked=moved)
                told = yield ask
        except StopIteration as end:
            return end.value

    there.sessions["c"] = there.session("c", protocol=elsewhere)
    federation = there.federation()
    assert set(there.learn(federation).sizes) == set(FOUR)
    assert federation.left_out == {}
