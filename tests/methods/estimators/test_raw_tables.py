"""Estimators with a schema take raw tables of any library, and refuse what does not fit."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline

from confrere import CollaborativeClassifier, Ledger, PrivateLogisticRegression
from confrere.errors import InvalidData, InvalidParameter, InvalidRelease
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
SEEDED = {"epsilon": 20.0, "random_state": 0}


@pytest.mark.parametrize("library", [pl.from_pandas, lambda t: pl.from_pandas(t).lazy(), pa.table])
def test_tables_of_every_library_are_encoded_alike(library):
    expected = PrivateLogisticRegression(schema=SCHEMA, **SEEDED).fit(TABLE)
    other = library(TABLE)
    found = PrivateLogisticRegression(schema=SCHEMA, **SEEDED).fit(other)
    np.testing.assert_array_equal(found.coef_, expected.coef_)
    assert found.predict(other).tolist() == expected.predict(TABLE).tolist()
    assert found.score(other) == expected.score(TABLE)
    assert found.privacy_cost(other).epsilon == 20.0


def test_labels_are_the_data_s_own_and_scores_follow_scikit_learn():
    model = PrivateLogisticRegression(schema=SCHEMA, **SEEDED).fit(TABLE, TABLE["ill"])
    assert model.classes_.tolist() == ["sick", "well"]
    assert {*model.predict(TABLE)} == {"sick", "well"}
    # Inside, sick is the positive side; outside, the last class in order is.
    assert model.model_.labels == ("well", "sick")
    assert (model.decision_function(TABLE) > 0).tolist() == (
        model.predict(TABLE) == "well"
    ).tolist()
    own = model.model_.link.probabilities(model.decision_function(TABLE))
    np.testing.assert_allclose(model.predict_proba(TABLE), own)
    assert model.score(TABLE) == np.mean(model.predict(TABLE) == TABLE["ill"])
    for scoring in ("accuracy", "roc_auc"):
        scores = cross_val_score(model, TABLE, TABLE["ill"], scoring=scoring, cv=3)
        assert scores.min() > 0.7
    coded = PrivateLogisticRegression(schema=SCHEMA, **SEEDED).fit(TABLE, SCHEMA.label(TABLE))
    np.testing.assert_array_equal(coded.coef_, model.coef_)
    assert model.n_features_in_ == 3
    assert model.feature_names_in_.tolist() == ["age", "smoker", "town"]


def test_parties_have_one_table_with_a_column_that_says_whose_row_it_is():
    model = CollaborativeClassifier(schema=SCHEMA, **SEEDED).fit(TABLE, party="hospital")
    assert model.party_.tolist() == ["north", "south"]
    apart = CollaborativeClassifier(schema=SCHEMA, **SEEDED).fit(TABLE, party=TABLE["hospital"])
    np.testing.assert_array_equal(model.coef_, apart.coef_)
    with pytest.raises(InvalidData, match="'clinic'"):
        CollaborativeClassifier(schema=SCHEMA, **SEEDED).fit(TABLE, party="clinic")


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
