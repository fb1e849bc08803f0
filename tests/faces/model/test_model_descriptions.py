"""A model as JSON and as arrays: nothing is lost, nothing wrong is read."""

import hashlib
import io
import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from confrere.errors import InvalidRelease
from confrere.model import Encoder, Facts, StackFacts, read_model
from confrere.model.model_json import model_document, npz_bytes, read_document
from confrere.model.strict_json import json_bytes, read_json
from confrere.schema import Number, PublicSchema
from tests.faces.model.examples import MODELS, linear
from tests.world import each

everything = pytest.mark.parametrize("name", MODELS)

SCHEMA = PublicSchema([Number(name, bounds=(0, 1)) for name in "abcd"])
FACTS = Facts(
    n_samples=100,
    data_norm=1.5,
    feature_scale=(1.0, 0.5),
    stack=StackFacts(
        norms=(1.0, 2.0),
        clipping="joint",
        constant=0.4,
        n_low=50,
        baseline=-1.0,
        ridges=(1.0, 2.0),
        rates=(0.1, 0.2),
    ),
)


@everything
def test_documents_survive(name):
    model = MODELS[name]
    content = model_document(model, "plr")
    kind, back = read_document(content)
    assert kind == "plr"
    assert model_document(back, "plr") == content


def test_facts_and_encoder_come_along():
    model = linear(facts=FACTS, encoder=Encoder.of(SCHEMA.encoder(clip_norm=3.0)))
    back = read_document(model_document(model, "plr"))[1]
    assert back.facts == FACTS
    assert back.encoder == model.encoder
    assert read_model(linear().to_dict()).encoder is None


def test_a_digest_is_of_the_function_alone():
    own = linear().digest()
    assert replace(linear(), facts=FACTS).digest() == own
    others = [
        linear(encoder=Encoder.of(SCHEMA.encoder())),
        linear(encoder=Encoder.of(SCHEMA.encoder(clip_norm=3.0))),
        linear(coef=np.array([1.0, -2.0, 0.3, 7.1])),
        linear(intercept=0.2),
        linear(classes=("yes", "no")),
        linear(features=("a", "b", "d", "c")),
    ]
    assert len({own, *(other.digest() for other in others)}) == 7


def spoiled(spoil):
    document = json.loads(model_document(MODELS["binary"], "plr"))
    spoil(document["test_vectors"])
    return json.dumps(document).encode()


@pytest.mark.parametrize(
    "spoil",
    [
        lambda v: v.pop(),
        lambda v: v[0].pop("label"),
        lambda v: v[1].update(decision=v[1]["decision"] + 1e-9),
        lambda v: v[1].update(decision=[v[1]["decision"]]),
        lambda v: v[2].update(label="other"),
        lambda v: v[3]["x"].__setitem__(0, 9.0),
        lambda v: v[4].update(probability="high"),
        lambda v: v[4].update(probability=[0.5]),
        lambda v: v.__setitem__(0, 3),
    ],
)
def test_wrong_test_vectors_are_refused(spoil):
    with pytest.raises(InvalidRelease, match="test_vectors"):
        read_document(spoiled(spoil))


def test_another_form_of_the_same_document_is_refused():
    content = model_document(MODELS["binary"], "plr")
    for other in (content + b"\n", json.dumps(json.loads(content)).encode()):
        with pytest.raises(InvalidRelease, match="form that is written"):
            read_document(other)


OTHER = {"cap": 0.4, "slope": 1.0, "shift": 0.0}
WRONG = {
    "binary": [
        *each(
            kind=("forest", "stack"),
            intercept=([0.1],),
            link=("softmax", OTHER),
            code=("import os",),
        ),
        *each(coef=([1.0], [1.0, 2.0, "3", None], [1.0, 2.0, 3.0, 1e101], [1, 2, 3, 4])),
        *each(coef=([[1.0], [2.0, 3.0]], [[1.0, -2.0, 0.3, 7.0]])),
        *each(classes=(["yes"], ["yes", "yes"], ["yes", 1], [["yes"], ["no"]], "no")),
        *each(features=(list("abc"), list("abcc"), ["a", "b", "c", 4])),
        *each(facts=({"n_samples": "many"}, {"training_score": 0.9}, [])),
        {"encoder": {"schema": {}, "weighted": True}},
        {"encoder": {"schema": {"features": 3}, "weighted": None}},
        {"encoder": {"schema": SCHEMA.to_dict()}},
    ],
    "multinomial": each(classes=([1, 2],), intercept=(0.0,)),
    "stack": [
        *each(groups=([], 3), coef=([1.0],), combine=("mean", "vote", "alone")),
        {"classes": [1, 2, 3]},
    ],
    "vote": each(coef=([1.0, -1.0], [0.0, 0.0]), link=("sigmoid", OTHER)),
}


@pytest.mark.parametrize(
    ("name", "change"), [(n, one) for n, many in WRONG.items() for one in many]
)
def test_wrong_descriptions_are_refused(name, change):
    with pytest.raises(InvalidRelease, match="model"):
        read_model({**MODELS[name].to_dict(), **change})


@pytest.mark.parametrize(
    "change",
    [
        *each(features=([0, 9], [0, -1], [0, 1.5], [], 0), coef=([1.0],), intercept=(None,)),
        *each(extra=(1,), name=(3,), sharpness=([1.0],)),
    ],
)
def test_wrong_groups_are_refused(change):
    description = json.loads(json.dumps(MODELS["stack"].to_dict()))
    description["groups"][0].update(change)
    with pytest.raises(InvalidRelease, match="groups"):
        read_model(description)


@everything
def test_numpy_reads_the_arrays(name):
    own = MODELS[name].arrays()
    with np.load(io.BytesIO(npz_bytes(own)), allow_pickle=False) as found:
        assert set(found) == set(own)
        for key, array in own.items():
            assert found[key].tobytes() == array.tobytes()
            assert found[key].shape == array.shape


def test_bytes_are_those_of_every_other_machine():
    content = npz_bytes({"coef": np.array([[0.1, -2.5]]), "intercept": np.array([3.0])})
    assert hashlib.sha256(content).hexdigest() == DIGEST
    backwards = {"intercept": np.array([3.0]), "coef": np.array([[0.1, -2.5]], order="F")}
    assert npz_bytes(backwards) == content


DIGEST = "fe5c562d29d72e1116e5af93010aa224355b0c6b9527fb652c7b11b1a5ffd96e"


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**62), 2**62)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab"), inner, max_size=3),
    max_leaves=10,
)


@settings(deadline=None, max_examples=60)
@given(st.dictionaries(st.text("abc"), VALUES, max_size=4))
def test_values_survive_exactly(value):
    assert read_json(json_bytes(value), "card.json") == value


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"1",
        b'{"a": 1, "a": 2}',
        b'{"a": {"b": 1, "b": 1}}',
        b'{"a": NaN}',
        b'{"a": -Infinity}',
        b'{"a": 1e999}',
        b'{"a": 1' + b"0" * 30 + b"}",
        b'{"a": 1' + b"0" * 9000 + b"}",
        b'{"a": "\xff"}',
        b'\xef\xbb\xbf{"a": 1}',
        b'{"a": 1} {"b": 2}',
        b'{"a": ' + b"[" * 200_000 + b"]" * 200_000 + b"}",
    ],
)
def test_traps_are_refused(content):
    with pytest.raises(InvalidRelease, match=r"card\.json is not"):
        read_json(content, "card.json")
