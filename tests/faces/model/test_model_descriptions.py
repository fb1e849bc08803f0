"""A model as JSON and as arrays: nothing is lost, nothing wrong is read."""

import hashlib
import json
from dataclasses import replace

import numpy as np
import pytest

from confrere.errors import InvalidRelease
from confrere.model import Encoder, Facts, StackFacts, read_model
from confrere.model.model_json import model_document, npz_bytes, read_document
from confrere.model.strict_json import read_json
from confrere.schema import Number, PublicSchema
from tests.faces.model.examples import MODELS, linear
from tests.world import each

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


def test_bytes_are_those_of_every_other_machine():
    content = npz_bytes({"coef": np.array([[0.1, -2.5]]), "intercept": np.array([3.0])})
    assert hashlib.sha256(content).hexdigest() == DIGEST
    backwards = {"intercept": np.array([3.0]), "coef": np.array([[0.1, -2.5]], order="F")}
    assert npz_bytes(backwards) == content


DIGEST = "fe5c562d29d72e1116e5af93010aa224355b0c6b9527fb652c7b11b1a5ffd96e"


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
