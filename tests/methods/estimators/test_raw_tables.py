"""Estimators with a schema take raw tables of any library, and refuse what does not fit."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline

from confrere import Ledger, PrivateLogisticRegression
from confrere.errors import InvalidParameter, InvalidRelease
from confrere.estimators import ReleasedClassifier
from confrere.model import read_model
from confrere.release import verify_release
from confrere.schema import Category, Flag, Label, Number, PublicSchema

SCHEMA = PublicSchema(
    [
        Number("age", bounds=(18, 100), mean=52, sd=16, na=[-1], missing="center", importance=3),
        Flag("smoker", true="yes", false="no", share=0.3, importance=1),
        Category("town", values=["a", "b"], unknown="other", importance=1),
    ],
    Label("ill", positive="sick", negative="well", base_rate=0.4),
)


def made(n=600, seed=0):
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "age": rng.normal(52, 16, n).round(1),
            "smoker": rng.choice(["yes", "no"], n),
            "town": rng.choice(["a", "b", "c"], n),
            "hospital": rng.choice(["north", "south"], n),
        }
    )
    score = table["age"] + 15 * (table["smoker"] == "yes") + rng.normal(0, 10, n)
    table["ill"] = np.where(score > 58, "sick", "well")
    table.loc[rng.random(n) < 0.1, "age"] = -1
    return table


TABLE = made()


def test_a_pipeline_is_released_with_its_encoder(tmp_path):
    path = tmp_path / "books.ledger"
    ledger = Ledger(path)
    ledger.open_account("main", epsilon=10.0)
    pipeline = make_pipeline(
        SCHEMA.encoder(), PrivateLogisticRegression(epsilon=2.0, budget=ledger)
    )
    pipeline.fit(TABLE, (TABLE["ill"] == "sick").astype(int))
    before = pipeline.predict_proba(TABLE)
    release = pipeline[-1].to_release(pipeline[0])
    folder = release.save(tmp_path / "release")
    np.testing.assert_array_equal(pipeline.predict_proba(TABLE), before)
    used = ReleasedClassifier(source=folder)
    np.testing.assert_allclose(used.predict_proba(TABLE), before, rtol=1e-12)
    assert used.classes_.tolist() == [0, 1]
    # The ledger knows the model with its encoder, and no other one.
    verify_release(folder, ledgers=[ledger])
    other = pipeline[-1].to_release(SCHEMA.encoder(clip_norm=3.0))
    assert other.model.digest() != release.model.digest()
    with pytest.raises(InvalidParameter, match="makes 1 columns, the model reads 5"):
        pipeline[-1].to_release(replace(SCHEMA, features=SCHEMA.features[:1]).encoder())


def test_a_forged_encoder_is_found(tmp_path):
    model = PrivateLogisticRegression(schema=SCHEMA).fit(TABLE)
    document = model.model_.to_dict()
    document = json.loads(json.dumps(document))
    document["encoder"]["encoding"]["columns"][0]["scale"] = [-16.0]
    with pytest.raises(InvalidRelease, match="encoder"):
        read_model(document)
    document["encoder"]["encoding"]["columns"][0]["scale"] = [16.0]
    document["encoder"]["labels"] = ["sick", "well"]
    with pytest.raises(InvalidRelease, match="labels"):
        read_model(document)
