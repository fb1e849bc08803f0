"""Whatever comes over the wire, a party answers or refuses; it never crashes and never pays."""

import random

import pytest

from confrere.errors import InvalidMessage
from confrere.methods.asking import Size
from confrere.release.signing import sign_bytes
from confrere_federation.parties import federation
from confrere_federation.parties.messages import (
    QUESTION,
    PartyError,
    Payload,
    Question,
    join_parts,
    refused,
    split_parts,
)
from confrere_federation.parties.requests import request_for
from tests.attacks.test_hostile_coordinator import PLAN, up_to
from tests.wire.signed_run import STUDY, Organisations, code_of
from tests.world import each

#: Refused before anything is spent, whatever the bytes.
HARMLESS = ("InvalidMessage", "InvalidParameter", "OperationRefused:")


def mutated(content, chance):
    """Return bytes near a message: flips, cuts, doublings, splices and changed numbers."""
    data = bytearray(content)
    for _ in range(chance.choice((1, 1, 1, 2, 5))):
        kind = chance.randrange(6)
        at = chance.randrange(len(data)) if data else 0
        if kind == 0 and data:
            data[at] ^= 1 << chance.randrange(8)
        elif kind == 1 and data:
            data[at] = chance.randrange(256)
        elif kind == 2:
            del data[at : at + chance.randrange(1, 20)]
        elif kind == 3:
            data[at:at] = chance.randbytes(chance.randrange(1, 20))
        elif kind == 4 and data:
            data[at:at] = data[at : at + chance.randrange(1, 40)]
        else:
            old, new = chance.choice(
                [(b"0.5", b"9.5"), (b"0.4", b"4.0"), (b"3", b"4"), (b"l2", b"l1"), (b":1", b":2"),
                 (b"tight", b"wrong"), (b"<f8", b"<i8"), (b"null", b"true"), (b"run", b"nur")]
            )  # fmt: skip
            data = bytearray(bytes(data).replace(old, new))
    return bytes(data)


def fuzz(tmp_path, count, seed):
    """Have questions that the coordinator has signed, and evidence behind them, changed."""
    chance, there, codes = random.Random(seed), Organisations(tmp_path, plan=PLAN), {}
    asked, evidence = up_to(there, "objective", 0)
    originals = [asked.encode(), Question.decode(split_parts(evidence[0])[0]).encode()]
    for _ in range(count):
        content, behind = chance.choice(originals), evidence
        kind = chance.random()
        if kind < 0.1:
            content = chance.randbytes(chance.randrange(200))
        elif kind < 0.2:
            content, behind = originals[0], [mutated(evidence[0], chance)]
        else:
            content = mutated(content, chance)
        if content in originals and behind == evidence:
            continue
        signature = sign_bytes(content, there.coordinator, namespace=QUESTION)
        code = code_of(there.sessions["a"].handle(join_parts([content, signature, *behind])))
        codes[code] = codes.get(code, 0) + 1
    return there, codes


def check(there, codes):
    assert [c for c in codes if not isinstance(c, str) or not c.startswith(HARMLESS)] == []
    assert {"InvalidMessage", "OperationRefused:study", "OperationRefused:request"} <= codes.keys()
    assert there.spent("a") == 0.0


def test_3000_mutated_messages(tmp_path):
    check(*fuzz(tmp_path, 3_000, seed=1))


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_100000_mutated_messages(tmp_path):
    check(*fuzz(tmp_path, 100_000, seed=2))


@pytest.mark.parametrize(
    "change", each(step=(True,), run=("a b",), more=(1,), study=("",), roster=("everyone",))
)
def test_a_question_that_is_none(change):
    told = {"run": "r", "study": "s", "operation": "size", "step": 0, "roster": None, "request": {}}
    Question.decode(Payload(told).encode())
    for wrong in [told | change, *({k: told[k] for k in told if k != name} for name in told)]:
        with pytest.raises(InvalidMessage):
            Question.decode(Payload(wrong).encode())


def test_an_error_inside_stays_inside(tmp_path, monkeypatch):
    there = Organisations(tmp_path)

    def broken(*args, **kwargs):
        raise ZeroDivisionError("patient 17 is 103 years old")

    monkeypatch.setattr(federation, "answer", broken)
    question = Question(
        run=there.run, study=STUDY, operation="size", payload=request_for(Size()).payload
    )
    reply = there.sessions["a"].handle(question.sign(there.coordinator))
    assert b"103" not in reply
    assert refused(reply) == PartyError("InternalError")
