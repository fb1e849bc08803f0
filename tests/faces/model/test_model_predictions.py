"""Predictions: their definition, their edges, and the same answers in every form of a model."""

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

from confrere.errors import InvalidData
from confrere.model import Linear
from confrere.model.model_json import vectors_of
from confrere.model.onnx_graph import onnx_bytes
from confrere.release.release import README
from tests.faces.model.examples import MODELS

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
