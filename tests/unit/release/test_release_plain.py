from __future__ import annotations

import json

import numpy as np
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit, softmax

from confrere.errors import InvalidData, InvalidParameter, InvalidRelease
from confrere.release import (
    Clip,
    Group,
    Linear,
    PlainModel,
    Stack,
    register_kind,
    to_plain,
)
from confrere.release.onnx_graph import onnx_bytes
from confrere.release.readme import recipe

FEATURES = ("a", "b", "c", "d")
ROOT = 1 / np.sqrt(2)


def groups(clip: Clip | None, norm_of_second: int = 2) -> tuple[Group, ...]:
    second = None if clip is None else Clip(0.3, 0.3, norm_of_second)
    return (
        Group((0, 3), np.array([2.0, -1.0]), 0.25, clip),
        Group((1, 2, 0), np.array([0.5, 4.0, -3.0]), -0.5, second),
    )


MODELS = {
    "binary": PlainModel(
        Linear(np.array([1.0, -2.0, 0.3, 7.0]), 0.1),
        ("no", "yes"),
        FEATURES,
        clip=Clip(1.5, np.sqrt(1 - 0.25**2)),
    ),
    "scaled, L1": PlainModel(
        Linear(np.array([1.0, -2.0, 0.3, 7.0]), -0.1),
        (0, 1),
        FEATURES,
        center=[1.0, 0.0, -2.0, 3.0],
        scale=[2.0, 0.1, 1.0, 3.0],
        clip=Clip(2.0, norm=1),
    ),
    "unclipped": PlainModel(Linear(np.arange(4.0), 0.0), (False, True), FEATURES),
    "multinomial": PlainModel(
        Linear(np.array([[1.0, 0, 0, 2], [0, 3, -1, 0], [-1, -3, 1, -2]]), [0.1, -0.2, 0.1]),
        (1, 2, 3),
        FEATURES,
        clip=Clip(1.0),
    ),
    "stack": PlainModel(
        Stack(groups(Clip(0.5, 0.5)), np.array([3.0, -2.0]), 0.4, ROOT),
        ("no", "yes"),
        FEATURES,
        clip=Clip(2.0),
    ),
    "stack, both norms": PlainModel(
        Stack(groups(Clip(0.5, 0.5), 1), np.array([3.0, -2.0]), 0.0, ROOT), (0, 1), FEATURES
    ),
    "stack, one group clipped": PlainModel(
        Stack((groups(Clip(0.5, 0.5))[0], groups(None)[1]), np.array([3.0, -2.0]), meta_scale=ROOT),
        (0, 1),
        FEATURES,
    ),
    "stack, one clip": PlainModel(
        Stack(groups(None), np.array([3.0, -2.0]), 0.0, ROOT), (0, 1), FEATURES, clip=Clip(1.0)
    ),
    "vote": PlainModel(
        Stack(groups(Clip(0.5, 0.5)), np.array([0.7, 0.2]), combine="vote"), (0, 1), FEATURES
    ),
}
everything = pytest.mark.parametrize("name", MODELS)


def clipped(X, clip):
    if clip is None:
        return X
    norms = np.linalg.norm(X, ord=clip.norm, axis=1, keepdims=True)
    return X * clip.radius * np.minimum(1, clip.bound / np.maximum(norms, 1e-300)) / clip.bound


def reference(model: PlainModel, X):
    """The definition, by matrix products."""
    description = model.to_dict()
    X = clipped((X - description["center"]) / description["scale"], model.clip)
    predictor = model.predictor
    if isinstance(predictor, Linear):
        scores = X @ predictor.coef.T + predictor.intercept
        if scores.ndim == 2:
            return scores, softmax(scores, axis=1)
        positive = expit(scores)
    else:
        Z = np.column_stack(
            [clipped(X[:, g.features], g.clip) @ g.coef + g.intercept for g in predictor.groups]
        )
        if predictor.combine == "vote":
            scores = np.sign(Z) @ predictor.coef
            positive = ((Z > 0) @ predictor.coef) / predictor.coef.sum()
        else:
            scores = (2 * expit(Z) - 1) * predictor.meta_scale @ predictor.coef
            scores = scores + predictor.intercept
            positive = expit(scores)
    return scores, np.column_stack([1 - positive, positive])


@pytest.fixture(scope="module")
def rows():
    X = np.random.default_rng(7).normal(size=(200, 4)) * np.logspace(-2, 2, 200)[:, None]
    return np.vstack([np.zeros(4), X])


@everything
def test_predictions_are_the_definition(name, rows):
    model = MODELS[name]
    scores, shares = reference(model, rows)
    np.testing.assert_allclose(model.decision_function(rows), scores, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(model.predict_proba(rows), shares, rtol=0, atol=1e-12)
    best = scores.argmax(axis=1) if scores.ndim == 2 else (scores > 0).astype(int)
    assert model.predict(rows).tolist() == [model.classes[k] for k in best]


@everything
def test_descriptions_survive_json(name, rows):
    model = MODELS[name]
    back = PlainModel.from_dict(json.loads(json.dumps(model.to_dict())))
    assert back.to_dict() == model.to_dict()
    assert np.array_equal(back.decision_function(rows), model.decision_function(rows))


@everything
def test_onnx_agrees(name, rows):
    model = MODELS[name]
    content = onnx_bytes(model)
    assert content == onnx_bytes(model)
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    decision, shares, label = session.run(["decision", "probability", "label"], {"X": rows})
    own = model.decision_function(rows)
    np.testing.assert_allclose(decision.reshape(own.shape), own, rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(shares, model.predict_proba(rows), rtol=0, atol=1e-14)
    classes = json.loads(session.get_modelmeta().custom_metadata_map["classes"])
    assert [classes[k] for k in label] == model.predict(rows).tolist()


def test_onnx_of_a_linear_model_is_small():
    assert len(onnx_bytes(MODELS["binary"])) < 1024


@everything
def test_the_recipe_predicts_in_any_language(name, tmp_path):
    """Run the lines that the README prints, without numpy, on the test vectors."""
    model = MODELS[name]
    (tmp_path / "model.json").write_text(json.dumps({"model": model.to_dict()}))
    lines = recipe(model)
    source = "\n".join(lines).replace('open("model.json")', "stream")
    with (tmp_path / "model.json").open() as stream:
        scope = {"stream": stream}
        exec(source, scope)
    assert len(lines) <= (11 if isinstance(model.predictor, Linear) else 14)
    for vector in model.test_vectors():
        # Only tanh may differ between machines; a linear model's difference is zero.
        slack = 1e-14 if "math.tanh" in "".join(lines) else 0.0
        found = np.asarray(scope["decision"](vector["x"]))
        assert np.abs(found - np.asarray(vector["decision"])).max() <= slack


@everything
def test_test_vectors_are_five_and_check_themselves(name):
    model = MODELS[name]
    vectors = json.loads(json.dumps(model.test_vectors()))
    assert len(vectors) == 5
    model.check_vectors(vectors)
    X = np.array([vector["x"] for vector in vectors])
    if model.clip is not None:
        centred = (X - model.to_dict()["center"]) / model.to_dict()["scale"]
        inside = np.linalg.norm(centred, ord=model.clip.norm, axis=1) < model.clip.bound
        assert inside.any()
        assert not inside.all()


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
    model = MODELS["binary"]
    vectors = json.loads(json.dumps(model.test_vectors()))
    spoil(vectors)
    with pytest.raises(InvalidRelease, match=r"test_vectors|probability"):
        model.check_vectors(vectors)


@settings(deadline=None, max_examples=50)
@given(
    coef=st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=6),
    intercept=st.floats(-1e6, 1e6),
    bound=st.floats(1e-3, 1e3),
)
def test_any_linear_model_is_described_exactly(coef, intercept, bound):
    features = tuple(f"x{j}" for j in range(len(coef)))
    model = PlainModel(Linear(np.array(coef), intercept), ("-", "+"), features, clip=Clip(bound))
    back = PlainModel.from_dict(json.loads(json.dumps(model.to_dict())))
    back.check_vectors(json.loads(json.dumps(model.test_vectors())))
    assert back.to_dict() == model.to_dict()


def test_far_scores_do_not_overflow():
    model = PlainModel(Linear(np.array([1e6]), 0.0), (0, 1), ("x",))
    assert model.predict_proba([[-1.0], [1.0]]).tolist() == [[1.0, 0.0], [0.0, 1.0]]


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("binary", {"kind": "forest"}),
        ("binary", {"kind": "stack"}),
        ("binary", {"coef": [1.0]}),
        ("binary", {"coef": [1.0, 2.0, "3", None]}),
        ("binary", {"coef": [1.0, 2.0, 3.0, 1e999]}),
        ("binary", {"coef": [[1.0], [2.0, 3.0]]}),
        ("binary", {"intercept": [0.1]}),
        ("binary", {"link": "softmax"}),
        ("binary", {"classes": ["yes"]}),
        ("binary", {"classes": ["yes", "yes"]}),
        ("binary", {"classes": ["yes", 1]}),
        ("binary", {"classes": [["yes"], ["no"]]}),
        ("binary", {"classes": "no"}),
        ("binary", {"features": ["a", "b", "c"]}),
        ("binary", {"features": ["a", "b", "c", "c"]}),
        ("binary", {"features": ["a", "b", "c", 4]}),
        ("binary", {"center": [0.0]}),
        ("binary", {"scale": [1.0, 1.0, 0.0, 1.0]}),
        ("binary", {"clip": {"norm": 3, "bound": 1.0, "radius": 1.0}}),
        ("binary", {"clip": {"norm": 2, "bound": 0.0, "radius": 1.0}}),
        ("binary", {"clip": {"norm": 2, "bound": True, "radius": 1.0}}),
        ("binary", {"clip": {"bound": 1.0}}),
        ("binary", {"code": "import os"}),
        ("multinomial", {"classes": [1, 2]}),
        ("multinomial", {"intercept": 0.0}),
        ("stack", {"groups": []}),
        ("stack", {"groups": 3}),
        ("stack", {"coef": [1.0]}),
        ("stack", {"combine": "mean"}),
        ("stack", {"combine": "vote"}),
        ("stack", {"classes": [1, 2, 3]}),
        ("vote", {"coef": [1.0, -1.0]}),
        ("vote", {"coef": [0.0, 0.0]}),
        ("vote", {"link": "sigmoid"}),
    ],
)
def test_wrong_descriptions_are_refused(name, change):
    with pytest.raises(InvalidRelease, match="plain model is wrong"):
        PlainModel.from_dict({**MODELS[name].to_dict(), **change})


@pytest.mark.parametrize(
    "change",
    [
        {"features": [0, 9]},
        {"features": [0, -1]},
        {"features": [0, 1.5]},
        {"features": []},
        {"features": 0},
        {"coef": [1.0]},
        {"intercept": float("inf")},
        {"extra": 1},
    ],
)
def test_wrong_groups_are_refused(change):
    description = json.loads(json.dumps(MODELS["stack"].to_dict()))
    description["groups"][0].update(change)
    with pytest.raises(InvalidRelease, match="groups"):
        PlainModel.from_dict(description)


@pytest.mark.parametrize("description", [None, [], {}, "linear"])
def test_what_is_no_description_is_refused(description):
    with pytest.raises(InvalidRelease, match="must be an object"):
        PlainModel.from_dict(description)


@pytest.mark.parametrize("X", [[1.0, 2.0, 3.0, 4.0], [[1.0, 2.0]], [[np.nan, 0.0, 0.0, 0.0]]])
def test_wrong_rows_are_refused(X):
    with pytest.raises(InvalidData, match="X must be"):
        MODELS["binary"].predict(X)


def test_a_kind_is_registered_once(release, make_release):
    def another(_):
        return MODELS["binary"].to_dict()

    with pytest.raises(InvalidParameter, match="registered already"):
        register_kind("test-linear", another)
    with pytest.raises(InvalidParameter, match="import the estimator"):
        to_plain(make_release(kind="test-unknown"))
    assert release.plain_model().to_dict() == to_plain(release)


def test_a_description_that_came_along_wins(make_release):
    own = MODELS["binary"].to_dict()
    assert to_plain(make_release(kind="test-unknown", predictor=own)) == own
