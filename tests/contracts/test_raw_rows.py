"""Raw rows in, raw rows out: four readers of a release give the same answers.

The estimator, the command line in another process, the README's program without any library,
and an ONNX runtime; on tables that were written at random, for every method that can be released.
"""

import importlib
import json
import subprocess
import sys
from dataclasses import replace
from functools import cache
from io import StringIO
from pathlib import Path

import numpy as np
import onnxruntime
import pandas as pd
import pytest

from confrere.catalogue import CATALOGUE, find_method
from confrere.data.cells import as_cells
from confrere.estimators import PrivateLogisticRegression, ReleasedClassifier, designed
from confrere.interchange import log_release
from confrere.release import load_release
from confrere.schema import Number, PublicSchema
from tests.contracts.raw_tables import random_schema, random_table
from tests.world import rest_slow

ROWS = 60
TABLES = range(6)
#: Noise shaped like the rows, every number a curve.
CURVED = "plr, curves"
RELEASABLE = [name for name, method in CATALOGUE.items() if method.shape != "as-is"] + [CURVED]

#: One process predicts with all releases by the command line.
COMMANDS = """
import sys
from pathlib import Path
from confrere.cli import app
for folder in map(Path, sys.argv[1:]):
    for kind in ("csv", "parquet"):
        arguments = ["predict", folder, folder.parent / "table.csv", "--out", f"{folder}.{kind}"]
        app([str(argument) for argument in arguments], standalone_mode=False)
"""

#: Another one has nothing but the standard library and the program in every README.
PROGRAMS = """
import contextlib, csv, json, os, re, sys
for folder in sys.argv[1:]:
    os.chdir(folder)
    text = open("README.md", encoding="utf-8").read()
    scope = {}
    exec(re.findall("```python\\n(.*?)```", text, re.S)[0], scope)
    with open("../table.csv", encoding="utf-8-sig", newline="") as file:
        found = [scope["predict"](row) for row in csv.DictReader(file)]
    vectors = json.load(open("model.json", encoding="utf-8"))["test_vectors"]
    examples = [scope["predict"](vector["row"]) for vector in vectors]
    json.dump([found, examples], open(folder + ".json", "w"))
"""


def fits(name, seed):
    """Whether a method learns as many classes as the table's label has."""
    classes = random_schema(seed).outcome.classes
    if name == CURVED:
        return classes is None
    tags = find_method(name).make().__sklearn_tags__()
    return classes is None or tags.classifier_tags.multi_class


def fitted(name, schema, table):
    if name == CURVED:
        bent = [replace(f, curve=True) if isinstance(f, Number) else f for f in schema.features]
        shaped = PublicSchema(bent, outcome=schema.outcome)
        return PrivateLogisticRegression(schema=shaped, geometry="schema", epsilon=5.0).fit(table)
    method = find_method(name)
    chosen = {"schema": schema, "epsilon": 5.0}
    if method.shape == "transfer":
        source = find_method(method.source).make(**chosen).fit(table)
        # No check of a source is known for several classes.
        unchecked = {} if schema.outcome.classes is None else {"prior_check": False}
        made = method.make(**chosen, source=source.to_release())
        return designed(made, **unchecked).fit(table)
    model = method.make(**chosen)
    if method.shape == "votes":
        # No labels are among auxiliary rows.
        return model.fit(table, auxiliary=table.drop(columns="outcome").head(30))
    if method.shape == "together":
        return model.fit(table, party=np.arange(len(table)) % 2)
    return model.fit(table)


CASES = [(name, seed) for name in RELEASABLE for seed in TABLES if fits(name, seed)]
#: A method's models are read alike whatever the table: two tables for each, curves on all.
KEPT = [(name, k) for name, k in CASES if name == CURVED or (RELEASABLE.index(name) + k) % 3 == 0]


@pytest.fixture(scope="module")
def released(tmp_path_factory, request):
    """Return fitted models with their folders, after both other processes have predicted."""
    found = {}
    slow = any(item.get_closest_marker("slow") for item in request.session.items)
    asked = CASES if slow else KEPT
    for seed in TABLES:
        place = tmp_path_factory.mktemp(f"table{seed}")
        schema = random_schema(seed)
        table = random_table(schema, seed, ROWS)
        table.to_csv(place / "table.csv", index=False)
        for name in RELEASABLE:
            if (name, seed) in asked:
                model = fitted(name, schema, table)
                folder = model.to_release().save(place / name, allow_uncapped=True)
                found[name, seed] = model, folder, table
    folders = [str(folder) for _, folder, _ in found.values()]
    for options, source in ((["-I", "-S"], PROGRAMS), ([], COMMANDS)):
        subprocess.run([sys.executable, *options, "-c", source, *folders], check=True)
    return found


@pytest.mark.parametrize("case", rest_slow(CASES, KEPT))
def test_four_readers_agree(case, released):
    model, folder, table = released[case]
    order = np.argsort([str(label) for label in model.model_.labels])
    expected = model.predict_proba(table)
    labels = model.predict(table)
    assert np.isfinite(expected).all()
    assert len({*np.round(expected[:, 0], 9)}) > 5  # rows differ, or nothing is compared
    # (a) the command line
    names = [f"probability of {label}" for label in model.classes_]
    text = pd.read_csv(f"{folder}.csv", dtype={"predicted": str})
    for printed in (text, pd.read_parquet(f"{folder}.parquet")):
        np.testing.assert_allclose(printed[names], expected, rtol=0, atol=1e-9)
        assert [*map(str, printed["predicted"])] == [str(label) for label in labels]
    # (b) the README's program
    found, examples = json.loads(folder.with_suffix(".json").read_text())
    np.testing.assert_allclose([p for _, p in found], named(model, expected), rtol=0, atol=1e-9)
    assert [label for label, _ in found] == labels.tolist()
    vectors = json.loads((folder / "model.json").read_text())["test_vectors"]
    np.testing.assert_allclose(
        [p for _, p in examples], [v["probability"] for v in vectors], rtol=0, atol=1e-9
    )
    assert [label for label, _ in examples] == [v["label"] for v in vectors]
    # (c) an ONNX runtime
    probability, label = onnx_answers(folder, model, table)
    np.testing.assert_allclose(probability, named(model, expected), rtol=0, atol=1e-12)
    assert [model.model_.labels[k] for k in label] == labels.tolist()
    # (d) the released classifier, which needs no fit
    again = ReleasedClassifier(source=folder)
    np.testing.assert_array_equal(again.predict_proba(table), expected)
    assert again.score(table) == model.score(table, table["outcome"])
    assert len(order) == len(model.classes_)


@pytest.mark.filterwarnings("ignore::UserWarning:mlflow")
@pytest.mark.slow  # they need R and MLflow, which `make test-slow` installs
@pytest.mark.parametrize("seed", TABLES)
def test_r_and_mlflow_agree(seed, released, tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow = importlib.import_module("mlflow")
    mlflow.set_tracking_uri((tmp_path / "runs").as_uri())
    program = Path(__file__).parents[2] / "examples" / "predict.R"
    for model, folder, table in (made for (_, one), made in released.items() if one == seed):
        command = ["Rscript", program, folder / "model.json"]
        subprocess.run(command, check=True)  # by its own test vectors
        command.append(folder.parent / "table.csv")
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        found = pd.read_csv(StringIO(text), dtype={"label": str})
        expected = named(model, model.predict_proba(table))
        np.testing.assert_allclose(found.iloc[:, 1:], expected, rtol=0, atol=1e-12)
        assert [*found["label"].str.lower()] == [str(one).lower() for one in model.predict(table)]
        with mlflow.start_run():
            logged = log_release(folder)
        served = mlflow.pyfunc.load_model(logged.model_uri).predict(table)
        np.testing.assert_array_equal(served.iloc[:, 1:], expected)
        assert [*map(str, served["predicted"])] == [*map(str, model.predict(table))]


def test_rows_of_a_body_are_among_them(released):
    models = [model.model_ for (name, _), (model, *_) in released.items() if name == CURVED]
    columns = [column for model in models for column in model.encoder.encoding["columns"]]
    knots = [len(column["knots"]) for column in columns if column["kind"] == "number"]
    assert len(models) > 2
    assert min(knots) > 1
    assert max(knots) == 8


def named(model, probabilities):
    """Return probabilities in the model's own order of labels."""
    places = [model.classes_.tolist().index(label) for label in model.model_.labels]
    return probabilities[:, places]


@cache
def session_of(folder):
    return onnxruntime.InferenceSession(
        load_release(folder).to_onnx(), providers=["CPUExecutionProvider"]
    )


def onnx_answers(folder, model, table):
    inputs = {}
    for feature in model.schema.features:
        cells = table[feature.column]
        if isinstance(feature, Number):
            numbers = pd.to_numeric(cells, errors="coerce").to_numpy(dtype=np.float64)
            if feature.dates is not None:
                numbers, _ = feature.read(as_cells(cells))
            inputs[feature.column] = numbers[:, None]
        else:
            texts = ["" if pd.isna(cell) else str(cell) for cell in cells]
            inputs[feature.column] = np.array(texts, dtype=object)[:, None]
    return session_of(folder).run(["probability", "label"], inputs)
