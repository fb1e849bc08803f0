"""Estimators with a schema take raw tables of any library, and refuse what does not fit."""

import json
from dataclasses import replace

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline

from confrere import Ledger, PrivateLogisticRegression
from confrere.errors import InvalidParameter, InvalidRelease
from confrere.estimators import ReleasedClassifier
from confrere.model import read_model
from confrere.release import verify_release
from tests.methods.estimators.test_schema_noise import SCHEMA, table

TABLE = table(600)


def test_a_pipeline_is_released_with_its_encoder(tmp_path):
    path = tmp_path / "books.ledger"
    ledger = Ledger(path)
    ledger.open_account("main", epsilon=10.0)
    pipeline = make_pipeline(
        SCHEMA.encoder(), PrivateLogisticRegression(epsilon=2.0, budget=ledger)
    )
    pipeline.fit(TABLE, TABLE["y"])
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
    model = PrivateLogisticRegression(schema=SCHEMA, geometry="l2").fit(TABLE)
    document = json.loads(json.dumps(model.model_.to_dict()))
    column = document["encoder"]["encoding"]["columns"][0]
    (scale,) = column["scale"]
    column["scale"] = [-scale]
    with pytest.raises(InvalidRelease, match="encoder"):
        read_model(document)
    column["scale"] = [scale]
    document["encoder"]["labels"] = ["sick", "well"]
    with pytest.raises(InvalidRelease, match="labels"):
        read_model(document)
