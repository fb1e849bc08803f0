"""One party of a sum that sends garbage, or says that it is ready and sends nothing.

The attack: everybody has paid, and one answer of the right shape under the right signature ends the
run for good. It must cost tries that were paid for, and nobody more than that.
"""

import json
from dataclasses import replace

import numpy as np
import pytest

from confrere.errors import QuorumMissed
from confrere_federation.parties.answers import Key
from confrere_federation.parties.federation import SPOILED, SignedFederation
from confrere_federation.parties.messages import PartyError, Payload, SignedAnswer, refusal
from confrere_federation.parties.requests import SpoiledSum
from tests.wire.summers import FOUR, ONE, ROUNDS, Summers, asked_for


def garbage(there, name):
    """Return how a party replies that puts noise in place of its part, and signs that."""

    def tamper(content, reply):
        if asked_for(content, there) != there.operation:
            return reply
        answer = SignedAnswer.open(reply, there.public).payload
        words = np.random.default_rng(1).integers(-(2**62), 2**62, answer.arrays["masked"].shape)
        lie = Payload(answer.values, {"masked": words})
        return SignedAnswer.sign(lie, there.keys[name]).encode()

    return {name: tamper}


def withheld(there, name):
    """Return how a party replies that is always ready, and never sends its part."""

    def tamper(content, reply):
        asked = asked_for(content, there)
        return refusal(PartyError("Busy")) if asked == there.operation else reply

    return {name: tamper}


def paid_once(there, plan):
    """Check that nobody has paid more than once, or let out more sums than it paid for."""
    most = there.mechanism().releases
    for name in FOUR:
        assert there.spent(name) in (0.0, plan.epsilon)
        kept = there.local(name, there.approval(name)).books.answers.kept(there.run)
        assert sum(operation == there.operation for operation, _ in kept) <= most


@pytest.mark.parametrize(("plan", "liar"), [(ONE, "a"), (ONE, "d"), (ROUNDS, "b")])
def test_garbage_is_found_by_leaving_parties_out_in_turn_and_named(tmp_path, plan, liar):
    plan = replace(plan, max_retries=4)
    there = Summers(tmp_path, plan=plan)
    federation = there.federation(tamper=garbage(there, liar))
    outcome = there.learn(federation)
    assert federation.left_out == {liar: SPOILED}
    assert set(outcome.sizes) == set(FOUR) - {liar}
    paid_once(there, plan)
    # Started again with a liar that is honest now it is the same release.
    again = there.federation()
    np.testing.assert_array_equal(there.learn(again).weights, outcome.weights)
    assert again.left_out == {liar: SPOILED}
    signed = federation.hand_out({"weights": outcome.weights.tobytes()})
    assert {n for n, one in signed.items() if isinstance(one, bytes)} == set(FOUR) - {liar}


@pytest.mark.parametrize(
    "plan", [replace(ONE, max_retries=1), ROUNDS], ids=["one message", "rounds"]
)
def test_who_says_ready_and_withholds_costs_one_try(tmp_path, plan):
    there = Summers(tmp_path, plan=plan)
    federation = there.federation(tamper=withheld(there, "d"))
    outcome = there.learn(federation)
    assert federation.left_out == {"d": "Busy"}
    assert federation._tries == {there.operation: plan.rounds + 1}
    assert set(outcome.sizes) == {"a", "b", "c"}
    paid_once(there, plan)
    resumed = there.federation()
    np.testing.assert_array_equal(there.learn(resumed).weights, outcome.weights)
    assert resumed.left_out == {"d": "Busy"}


@pytest.mark.parametrize("trick", [garbage, withheld])
def test_when_no_try_is_left_it_is_said_who_it_was(tmp_path, trick):
    plan = replace(ONE, max_retries=1)
    there = Summers(tmp_path, plan=plan, quorum=1.0)  # nobody can be left out
    for _ in range(2):
        with pytest.raises(QuorumMissed, match=r"no try is left of the 2.* d") as error:
            there.learn(there.federation(tamper=trick(there, "d")))
        assert error.value.codes == ({"d": "Busy"} if trick is withheld else {})
    paid_once(there, plan)


class Trusting(SignedFederation):
    """Keeps the answers to a sum before it has added them up, as journals of 0.2 have them."""

    def _gathered(self, asked):
        return super()._gathered(replace(asked, whole=None))


def test_a_journal_that_holds_garbage_is_no_end(tmp_path):
    plan = replace(ONE, max_retries=4)
    there = Summers(tmp_path, plan=plan)
    there_too = there.federation(tamper=garbage(there, "b"))
    there_too.__class__ = Trusting
    with pytest.raises(SpoiledSum):
        there.learn(there_too)
    federation = there.federation(tamper=garbage(there, "b"))
    there.learn(federation)
    assert federation.left_out == {"b": SPOILED}
    paid_once(there, plan)


def test_a_coordinator_killed_between_tries_goes_on_after_them(tmp_path):
    there = Summers(tmp_path, plan=ROUNDS)
    lost = withheld(there, "d")
    seen = []

    def die(content, reply):
        seen.append(asked_for(content, there))
        if seen.count("ready") == 3:  # try 0 is lost, try 1 is a sum, and this is the next
            raise KeyboardInterrupt
        return reply

    with pytest.raises(KeyboardInterrupt):
        there.learn(there.federation(tamper=lost | {"a": die}))
    federation = there.federation()
    outcome = there.learn(federation)
    assert federation._tries == {there.operation: ROUNDS.rounds + 1}
    assert set(outcome.sizes) == {"a", "b", "c"}
    lost = federation._journal.answer_to(Key(there.run, f"lost {there.operation}", 0))
    assert json.loads(lost) == dict.fromkeys("abc", "") | {"d": "Busy"}
