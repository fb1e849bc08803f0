"""The wire format: one form per content; whatever else comes is refused, and never paid for."""

import json
import math
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from confrere.errors import InvalidMessage
from confrere.methods.asking import Size
from confrere.release.signing import sign_bytes
from confrere_federation.parties import federation
from confrere_federation.parties.messages import (
    FORMAT,
    MAX_ARRAYS,
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

texts = st.text(st.characters(exclude_categories=("C", "Z"), codec="utf-8"), max_size=20)
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63) + 1, 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts
)
plain = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3)
)
arrays = hnp.arrays(
    st.sampled_from([np.float64, np.float32, np.int64, np.bool_]),
    hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4),
    elements={"allow_nan": False, "allow_infinity": False},
)
names = st.from_regex(r"[a-z][a-z0-9_]{0,10}", fullmatch=True)
payloads = st.builds(
    Payload, st.dictionaries(texts, plain, max_size=4), st.dictionaries(names, arrays, max_size=3)
)


@given(payloads)
@settings(max_examples=200, deadline=None)
def test_what_is_encoded_is_read_back(payload):
    content = payload.encode()
    read = Payload.decode(content)
    assert read == payload
    assert read.digest == payload.digest
    assert dict(read.values) == dict(payload.values)
    for name, array in payload.arrays.items():
        assert read.arrays[name].dtype == array.dtype
        assert read.arrays[name].shape == array.shape
        assert read.arrays[name].tobytes() == array.tobytes()


@pytest.mark.parametrize(
    "values",
    [
        *each(a=(math.nan, math.inf, 2**63, object(), np.float64(1), (1, 2), b"bytes")),
        *each(a=("line\nbreak", "\ud800", "x" * 5000, [[[[[[[[[1]]]]]]]]])),
        {1: "a"},
    ],
)
def test_values_that_may_not_cross(values):
    with pytest.raises(InvalidMessage):
        Payload(values)


@pytest.mark.parametrize(
    "bad",
    [
        *each(x=(np.array([math.nan]), np.array([1.0, math.inf], dtype=np.float32))),
        *each(x=(np.array(["a"]), np.array([object()]), np.zeros((1, 1, 1, 1, 1)))),
        *each(x=(np.zeros(2, dtype=np.int32), np.zeros(2, dtype=complex))),
        {"not a name": np.zeros(1)},
        {f"x{i}": np.zeros(1) for i in range(MAX_ARRAYS + 1)},
    ],
)
def test_arrays_that_may_not_cross(bad):
    with pytest.raises(InvalidMessage):
        Payload(arrays=bad)


def message(header, body=b"", version=FORMAT):
    text = (
        header
        if isinstance(header, bytes)
        else json.dumps(header, sort_keys=True, separators=(",", ":")).encode()
    )
    return b"CONFRERE" + version.to_bytes(2) + len(text).to_bytes(4) + text + body


def test_a_message_made_by_hand_is_read():
    content = message({"arrays": [["x", "<f8", [1]]], "values": {"a": 1}}, b"\x00" * 8)
    assert Payload.decode(content) == Payload({"a": 1}, {"x": [0.0]})


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"CONFRERE",
        b"PK\x03\x04" + b"\x00" * 40,
        "text",
        message({"arrays": [], "values": {}}, version=FORMAT + 1),
        message({"arrays": [], "values": {}}, b"more"),
        message({"arrays": [], "values": {}, "code": "import os"}),
        message({"arrays": [["x", "<f8", [1 << 40]]], "values": {}}),
        message({"arrays": [["x", "<f8", [-1]]], "values": {}}),
        message({"arrays": [["x", "<f8", [True]]], "values": {}}, b"\x00" * 8),
        message({"arrays": [["x", "|O", [1]]], "values": {}}, b"\x00" * 8),
        message({"arrays": [["x", ["<f8"], [1]]], "values": {}}, b"\x00" * 8),
        message({"arrays": [["x", "|b1", [1]]], "values": {}}, b"\x02"),
        message({"arrays": [["x", "<f8", [1]]], "values": {}}, b"\x00\x00\x00\x00\x00\x00\xf8\x7f"),
        message({"arrays": [["x", "<i8", [1]]] * 2, "values": {}}, b"\x00" * 16),
        message(b'{"arrays":[],"values":{"a":1, "b":2}}'),
        message(b'{"arrays":[],"values":{"a":1,"a":1}}'),
        message(b'{"arrays":[],"values":{"a":1e0}}'),
        message(b'{"arrays":[],"values":{"a":1e999}}'),
        message(b'{"arrays":[],"values":{"a":NaN}}'),
        message(b'{"arrays":[],"values":{"a":' + b"9" * 5000 + b"}}"),
        message(b'{"arrays":[],"values":{"a":' + b"[" * 3000 + b"]" * 3000 + b"}}"),
        message(b"\xff\xfe"),
        message(b'"text"'),
        message(b'{"arrays":{},"values":[]}'),
    ],
)  # fmt: skip
def test_anything_else_is_refused(content):
    with pytest.raises(InvalidMessage):
        Payload.decode(content)


@given(payloads, st.data())
@settings(max_examples=200, deadline=None)
def test_no_message_has_two_spellings(payload, data):
    """Change any one byte: what is still a message is another payload."""
    content = bytearray(payload.encode())
    index = data.draw(st.integers(0, len(content) - 1))
    content[index] ^= data.draw(st.integers(1, 255))
    try:
        changed = Payload.decode(bytes(content))
    except InvalidMessage:
        return
    assert changed != payload
    assert changed.encode() == bytes(content)


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
