"""Models as JSON and as arrays; the same predictions in every form of them."""

import hashlib
import json
import re
import warnings
from functools import cache
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from scipy import sparse

from confrere.errors import InvalidData, InvalidRelease
from confrere.model import Linear, read_model
from confrere.model.model_json import model_document, npz_bytes, read_document, vectors_of
from confrere.model.onnx_graph import onnx_bytes
from confrere.model.strict_json import read_json
from confrere.release.release import README
from confrere.schema import Number, PublicSchema
from tests.faces.model.examples import MODELS
from tests.world import each

SCHEMA = PublicSchema([Number(name, bounds=(0, 1)) for name in "abcd"])


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


everything = pytest.mark.parametrize("name", MODELS)


@pytest.fixture(scope="module")
def rows():
    X = np.random.default_rng(7).normal(size=(5000, 4)) * np.logspace(-2, 2, 5000)[:, None]
    return np.vstack([np.zeros(4), X])


@cache
def session_of(name):
    return onnxruntime.InferenceSession(
        onnx_bytes(MODELS[name]), providers=["CPUExecutionProvider"]
    )


def onnx_answers(name, X):
    session = session_of(name)
    answers = session.run(["decision", "probability", "label"], {"X": X})
    return answers, json.loads(session.get_modelmeta().custom_metadata_map["labels"])


@everything
def test_onnx_agrees(name, rows):
    model = MODELS[name]
    (decision, shares, label), classes = onnx_answers(name, rows)
    own = model.decision_function(rows)
    np.testing.assert_allclose(decision.reshape(own.shape), own, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(shares, model.predict_proba(rows), rtol=0, atol=1e-13)
    assert [classes[k] for k in label] == model.predict(rows).tolist()


@everything
def test_the_recipe_predicts_in_any_language(name, tmp_path, monkeypatch):
    """Run the lines that every README prints, without numpy, on the test vectors."""
    model = MODELS[name]
    monkeypatch.chdir(tmp_path)
    Path("model.json").write_text(json.dumps({"model": model.to_dict()}))
    scope = {}
    exec(re.search("```python\n(.*?)```", README.decode(), re.DOTALL)[1], scope)
    # Only tanh may differ between machines; a linear model's difference is zero.
    slack = 0.0 if isinstance(model, Linear) else 1e-14
    for vector in vectors_of(model):
        found = np.ravel(scope["decision"](vector["x"]))
        assert np.abs(found - np.ravel(vector["decision"])).max() <= slack
        label, shares = scope["predict"](vector["x"])
        x = np.array([vector["x"]])
        assert label == model.predict(x)[0]
        np.testing.assert_allclose(shares, model.predict_proba(x)[0], rtol=0, atol=1e-12)


TINY = [0.0, -0.0, 5e-324, -5e-324, 1e-310, 1e-200, 1e-160]
HUGE = [1e100, -1e100, 1e155, 1e300, -1e300, np.finfo(float).max, -np.finfo(float).max]
EDGES = st.sampled_from([*TINY, *HUGE, 1.0, -1.0])


@everything
@settings(deadline=None, max_examples=60)
@given(X=npst.arrays(np.float64, (5, 4), elements=EDGES | st.floats(allow_nan=False, width=64)))
def test_every_finite_row_has_an_answer(name, X):
    model = MODELS[name]
    X = np.clip(X, -np.finfo(float).max, np.finfo(float).max)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scores, shares = model.decision_function(X), model.predict_proba(X)
    assert np.all(np.isfinite(scores))
    assert np.all((shares >= 0) & (shares <= 1))
    np.testing.assert_allclose(shares.sum(axis=1), 1.0, atol=1e-12)
    (decision, in_onnx, _), _ = onnx_answers(name, X)
    assert np.all(np.isfinite(decision))
    assert np.all(np.isfinite(in_onnx))


@pytest.mark.parametrize(
    "X",
    [
        *([1.0, 2.0, 3.0, 4.0], [[1.0, 2.0]], [[np.nan, 0.0, 0.0, 0.0]], [[np.inf, 0.0, 0.0, 0.0]]),
        [["text", "more", "text", "4711"]],
        sparse.csr_array(np.array([[np.nan, 0.0, 0.0, 0.0]])),
        sparse.csr_array(np.zeros((2, 3))),
    ],
)
def test_wrong_rows_are_refused_without_quoting_them(X):
    with pytest.raises(InvalidData, match="X must be") as caught:
        MODELS["binary"].predict(X)
    assert "4711" not in str(caught.value)
