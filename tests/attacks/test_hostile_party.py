"""A party that lies: its reply is refused and it is named, and the run finishes with the others.

It holds its own key and may send any bytes in any order. It may not spoil what the run keeps, nor
speak for another, nor be believed about a price that it was not asked to pay.
"""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from confrere.data.frame import Frame
from confrere.errors import QuorumMissed
from confrere.methods.average import Averaging, Expansion
from confrere_federation.parties.answers import Answers, Key
from confrere_federation.parties.federation import Step
from confrere_federation.parties.messages import (
    PartyError,
    Payload,
    Question,
    SignedAnswer,
    join_parts,
    refusal,
    split_parts,
)
from confrere_federation.studies.running import keep_signatures
from tests.wire.signed_run import COLUMNS, Loopback, Organisations

WIDTH = COLUMNS + 1
PLAN = Averaging(frame=Frame(COLUMNS), epsilon=1.0, rounds=2)


def signed(there, payload, name="c"):
    return SignedAnswer.sign(payload, there.keys[name]).encode()


def changed(payload, values=None, arrays=None):
    return Payload(dict(payload.values) | (values or {}), arrays or payload.arrays)


def weights(value):
    return {"weights": np.asarray(value)}


def receipt(payload, **facts):
    guarantee = dict(payload.values["receipt"]["guarantee"]) | facts.pop("guarantee", {})
    return {"receipt": dict(payload.values["receipt"]) | facts | {"guarantee": guarantee}}


def about(payload, **facts):
    return {"about": dict(payload.values["about"]) | facts}


#: What party c sends in place of its weights, signed with its own key: payload -> payload.
LIES = {
    "weights of 1e300": lambda p: changed(p, arrays=weights(np.full(WIDTH, 1e300))),
    "weights beyond the bound": lambda p: changed(p, arrays=weights(np.full(WIDTH, 50.0))),
    "too few weights": lambda p: changed(p, arrays=weights(np.ones(WIDTH - 1))),
    "too many weights": lambda p: changed(p, arrays=weights(np.ones(WIDTH + 1))),
    "a matrix": lambda p: changed(p, arrays=weights(np.ones((1, WIDTH)))),
    "single precision": lambda p: changed(p, arrays=weights(np.ones(WIDTH, np.float32))),
    "integers": lambda p: changed(p, arrays=weights(np.ones(WIDTH, np.int64))),
    "nothing": lambda p: Payload(p.values),
    "another name": lambda p: changed(p, arrays={"coef": np.ones(WIDTH)}),
    "an array more": lambda p: changed(p, arrays={**p.arrays, "extra": np.ones(1)}),
    "a price of .001": lambda p: changed(p, receipt(p, guarantee={"epsilon": 0.001})),
    "a price of 1e9": lambda p: changed(p, receipt(p, guarantee={"epsilon": 1e9})),
    "a price with delta": lambda p: changed(p, receipt(p, guarantee={"delta": 1e-6})),
    "another relation": lambda p: changed(p, receipt(p, guarantee={"neighbours": "label-only"})),
    "another unit": lambda p: changed(p, receipt(p, guarantee={"unit": "party"})),
    "a receipt that says simulated": lambda p: changed(p, receipt(p, simulated=True)),
    "no receipt": lambda p: changed(p, {"receipt": None}),
    "a receipt that is none": lambda p: changed(p, {"receipt": {"row": 1}}),
    "a receipt of text": lambda p: changed(p, {"receipt": "paid"}),
    "another ledger's head": lambda p: changed(p, {"head": "0" * 64}),
    "in another's name": lambda p: changed(p, about(p, party="a")),
    "in nobody's name": lambda p: changed(p, about(p, party="nobody")),
    "for another run": lambda p: changed(p, about(p, run="other")),
    "for another study": lambda p: changed(p, about(p, study="6" * 64)),
    "for another step": lambda p: changed(p, about(p, step=1)),
    "for another operation": lambda p: changed(p, about(p, operation="output")),
    "for another question": lambda p: changed(p, about(p, question="0" * 64)),
    "words that all others would be sent": lambda p: changed(p, {"more": ["x" * 4000] * 2}),
    "about nothing": lambda p: changed(p, {"about": None}),
}

#: What it sends in place of a message.
BYTES = {
    "nothing at all": lambda reply: b"",
    "garbage": lambda reply: b"\x00\xff" * 500,
    "half a message": lambda reply: reply[: len(reply) // 2],
    "a message and more": lambda reply: reply + b"x",
    "no signature": lambda reply: join_parts(split_parts(reply)[:1]),
    "two signatures": lambda reply: join_parts([*split_parts(reply), split_parts(reply)[1]]),
    "a broken signature": lambda reply: join_parts([split_parts(reply)[0], b"signed"]),
    "a bit flipped": lambda reply: reply[:200] + bytes([reply[200] ^ 1]) + reply[201:],
    "a refusal": lambda reply: refusal(PartyError("BudgetExceeded")),
    "an unsigned payload": lambda reply: split_parts(reply)[0],
    "not a number": lambda reply: not_a_number(reply),
}


def not_a_number(reply):
    """Return a reply whose last number is none: what no payload of this library can say."""
    body, signature = split_parts(reply)
    return join_parts([body[:-8] + np.float64("nan").tobytes(), signature])


def operation_of(content):
    question = Question.decode(split_parts(content)[0])
    return question.operation, question.step


def tampering(there, change, *, at=("objective", 0)):
    def tamper(content, reply):
        return change(reply) if operation_of(content) == at else reply

    return {"c": tamper}


def check_finished(there, federation, outcome, code_start="InvalidReply:"):
    """The others' run is whole: named, kept without the liar, signed, and it can be resumed."""
    assert federation.left_out["c"].startswith(code_start)
    assert set(outcome.sizes) == {"a", "b"} or "c" in outcome.sizes
    signatures = federation.hand_out({"weights": outcome.weights.tobytes()})
    assert isinstance(signatures["a"], bytes)
    assert isinstance(signatures["b"], bytes)
    silent = Loopback({})
    again = there.learn(there.federation(carrier=silent))
    assert silent.sent == []  # all from the journal, which holds nothing that would fail
    np.testing.assert_array_equal(again.weights, outcome.weights)


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES)
def test_a_lie_is_refused_and_named(tmp_path, lie, caplog):
    there = Organisations(tmp_path, plan=PLAN)

    def change(reply):
        return signed(there, lie(SignedAnswer.open(reply, there.public).payload))

    federation = there.federation(tamper=tampering(there, change))
    outcome = there.learn(federation)
    kept = Answers(tmp_path / "journal").answer_to(Key(there.run, "objective", 0))
    step = Step.open(kept, there.coordinator.public_key(), there.public)
    assert step.answers.keys() == {"a", "b"}
    assert any(r.getMessage().startswith("c is left out of objective") for r in caplog.records)
    check_finished(there, federation, outcome)


@pytest.mark.parametrize("broken", BYTES.values(), ids=BYTES)
def test_bytes_that_are_no_answer_are_refused(tmp_path, broken):
    there = Organisations(tmp_path, plan=PLAN)
    seen = []

    def change(reply):
        seen.append(broken(reply))
        return seen[-1]

    federation = there.federation(tamper=tampering(there, change))
    outcome = there.learn(federation)
    assert len(seen) == 1
    refusing = "BudgetExceeded" if broken is BYTES["a refusal"] else "InvalidReply:"
    check_finished(there, federation, outcome, refusing)


@pytest.mark.parametrize(
    ("size", "delta"), [(0, 0.0), (-5, 0.0), (10**11, 0.0), (2**62, 0.0), (10**6, 1e-6)]
)
def test_a_size_that_nobody_has_is_refused(tmp_path, size, delta):
    """Nor one to which delta would promise nothing: kept, it would end the run for everybody."""
    there = Organisations(tmp_path, plan=replace(PLAN, delta=delta))

    def change(reply):
        payload = SignedAnswer.open(reply, there.public).payload
        return signed(there, changed(payload, arrays={"size": np.int64(size)}))

    federation = there.federation(tamper=tampering(there, change, at=("size", 0)))
    outcome = there.learn(federation)
    assert federation.left_out == {"c": "InvalidReply:range"}
    assert set(outcome.sizes) == {"a", "b"}
    assert there.spent("c") == 0.0  # who is not counted is not asked


def test_another_s_answer_is_not_its_own(tmp_path):
    """Party c sends what party a signed."""
    there = Organisations(tmp_path, plan=PLAN)
    stolen = {}

    def keep(content, reply):
        stolen[operation_of(content)] = reply
        return reply

    tamper = {"a": keep, "c": lambda content, reply: stolen[operation_of(content)]}
    federation = there.federation(tamper=tamper)
    outcome = there.learn(federation)
    assert federation.left_out == {"c": "InvalidReply:signature"}
    assert set(outcome.sizes) == {"a", "b"}


def test_an_old_answer_is_not_a_new_one(tmp_path):
    """Party c answers the second round with what it sent in the first."""
    there = Organisations(tmp_path, plan=PLAN)
    first = {}

    def again(content, reply):
        first.setdefault("objective" if operation_of(content)[0] == "objective" else "size", reply)
        return first[operation_of(content)[0]]

    federation = there.federation(tamper={"c": again})
    there.learn(federation)
    assert federation.left_out == {"c": "InvalidReply:question"}


def test_below_the_quorum_the_run_fails_and_can_be_resumed(tmp_path):
    there = Organisations(tmp_path, plan=PLAN, quorum=1.0)
    lie, sizes = tampering(there, lambda reply: b""), set()
    for _ in range(3):
        with pytest.raises(QuorumMissed, match=r"c \(InvalidReply:form\)"):
            there.learn(there.federation(tamper=lie))
        sizes.add((tmp_path / "journal").stat().st_size)
    assert len(sizes) == 1  # however often it is started again
    spent = [there.spent(name) for name in there.names]
    outcome = there.learn(there.federation())  # c has come to its senses
    assert set(outcome.sizes) == {"a", "b", "c"}
    assert [there.spent(name) for name in there.names] == [0.5 + s for s in spent] == [1.0] * 3


@pytest.mark.parametrize("combine", ["mean", "trimmed", "median"])
def test_within_the_bound_a_lie_moves_the_mean_by_its_share_and_others_not_beyond(
    tmp_path, combine
):
    """One of five moves the mean by a fifth of its lie; the others stay among honest answers."""
    names = ("a", "b", "c", "d", "e")
    plan = replace(PLAN, rounds=1, combine=combine, epsilon=20.0)
    there = Organisations(tmp_path, plan=plan, names=names, sizes=dict.fromkeys(names, 60))
    honest, lie = {}, np.full(WIDTH, -10.0)

    def keep(content, reply):
        payload = SignedAnswer.open(reply, there.public).payload
        if operation_of(content) != ("objective", 0):
            return reply
        name = payload.values["about"]["party"]
        honest[name] = payload.arrays["weights"]
        return reply if name != "c" else signed(there, changed(payload, arrays=weights(lie)))

    federation = there.federation(tamper=dict.fromkeys(names, keep))
    found = there.learn(federation).weights
    assert federation.left_out == {}
    if combine == "mean":
        before = sum(honest.values()) / 5
        np.testing.assert_allclose(found - before, (lie - honest["c"]) / 5, rtol=1e-12)
    else:
        others = np.stack([honest[name] for name in names if name != "c"])
        assert np.all((others.min(axis=0) <= found) & (found <= others.max(axis=0)))


def test_a_signature_of_any_length_is_handed_to_nobody(tmp_path):
    """With it the message to all would be longer than any may be: the run would never end."""
    there = Organisations(tmp_path, plan=PLAN)

    def change(reply):
        payload = SignedAnswer.open(reply, there.public).payload
        return signed(there, changed(payload, arrays={"signature": np.zeros(1 << 20, np.uint8)}))

    carrier = Loopback(there.sessions, tampering(there, change, at=("finish", 0)))
    federation = there.federation(carrier=carrier)
    outcome = there.learn(federation)
    signatures = federation.hand_out({"weights": outcome.weights.tobytes()})
    assert signatures["c"] == PartyError("InvalidReply:signature")
    assert max(len(content) for _, content in carrier.sent) < 1 << 17
    assert {name for name, one in there.sessions.items() if one.finished} == {"a", "b"}


def test_signatures_of_any_length_are_not_read():
    """A reply may have 64 MiB: as JSON gigabytes, after the release and at every start."""
    nobody = SimpleNamespace(payers=())
    assert keep_signatures(nobody, "c", b"{}", {})
    assert not keep_signatures(nobody, "c", b"{}" + b" " * (1 << 16), {})


@pytest.mark.parametrize("facts", [{"row": 1}, {"ledger_id": "f" * 32}], ids=["back", "another"])
def test_a_ledger_that_does_not_continue_is_named(tmp_path, facts, caplog):
    there = Organisations(tmp_path, plan=PLAN)

    def change(reply):
        payload = SignedAnswer.open(reply, there.public).payload
        return signed(there, changed(payload, receipt(payload, **facts)))

    federation = there.federation(tamper=tampering(there, change, at=("objective", 1)))
    outcome = there.learn(federation)
    assert federation.left_out == {"c": "InvalidReply:ledger"}
    assert "does not continue" in caplog.text
    check_finished(there, federation, outcome, "InvalidReply:ledger")


def test_coefficients_have_bounds_too(tmp_path):
    there = Organisations(tmp_path, plan=Expansion(frame=Frame(COLUMNS), epsilon=1.0))

    def change(reply):
        payload = SignedAnswer.open(reply, there.public).payload
        arrays = {**payload.arrays, "linear": np.full(WIDTH, 1e4)}
        return signed(there, changed(payload, arrays=arrays))

    federation = there.federation(tamper=tampering(there, change, at=("coefficients", 0)))
    outcome = there.learn(federation)
    assert federation.left_out == {"c": "InvalidReply:norm"}
    assert set(outcome.sizes) == {"a", "b"}
