"""Silent traps get a word before anything is spent, and what rests on rows only afterwards."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.decomposition import PCA
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer, StandardScaler

from confrere import Ledger, PrivateLogisticRegression
from confrere.errors import PrivacyWarning
from confrere.schema import Label, Number, PublicSchema

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 2))
Y = (X[:, 0] > 0).astype(int)


@pytest.fixture
def ledger(tmp_path):
    book = Ledger(tmp_path / "books.ledger")
    book.open_account("capped", epsilon=1000.0)
    book.open_account("open")
    return book


@pytest.fixture
def model(ledger):
    return PrivateLogisticRegression(budget=ledger["capped"])


def refused(act, ledger, told):
    """Warnings are errors here: nothing was spent when one was raised."""
    before = ledger.count()
    with pytest.raises(PrivacyWarning, match=told):
        act()
    assert ledger.count() == before


@pytest.mark.parametrize("step", [StandardScaler(), PCA(1)])
def test_what_learns_in_front_of_a_private_estimator(model, ledger, step):
    pipeline = make_pipeline(step, model)
    refused(lambda: pipeline.fit(X, Y), ledger, f"{type(step).__name__} learns from the private")
    nested = make_pipeline(Normalizer(), make_pipeline(step, model))
    refused(lambda: nested.fit(X, Y), ledger, "no guarantee covers that")


def test_what_learns_nothing_may_stand_there(model, ledger):
    schema = PublicSchema([Number("a", bounds=(-3, 3)), Number("b", bounds=(-3, 3))])
    for step in (Normalizer(), FunctionTransformer(), "passthrough", schema.encoder()):
        make_pipeline(step, model).fit(X, Y)
    assert ledger.count() == 4


def test_a_search_says_once_what_it_costs(model, ledger):
    search = GridSearchCV(model, {"alpha": [0.1, 0.2, 0.3]}, cv=4)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        search.fit(X, Y)
    assert [one.category for one in said] == [PrivacyWarning]
    assert ledger.spent("capped") == 13
    piped = make_pipeline(Normalizer(), model)
    grid = {"privatelogisticregression__epsilon": [0.5, 2.0]}
    search = GridSearchCV(piped, grid, cv=2, refit=False)
    refused(lambda: search.fit(X, Y), ledger, "4 times.*epsilon 5 in all")


def test_a_norm_that_the_schema_contradicts(ledger, model):
    features = [Number(name, bounds=(-3, 3), mean=0, sd=1) for name in "ab"]
    schema = PublicSchema(features, outcome=Label("y", positive=1), clip_norm=0.1)
    table = pd.DataFrame(X, columns=["a", "b"]).assign(y=Y)
    model.set_params(schema=schema.encoder())
    refused(lambda: model.fit(table), ledger, "clip_norm=0.1 shortens most rows.*1.4")
    schema = PublicSchema(features, outcome=Label("y", positive=1))
    for norm, told in ((0.1, "shortens most of them"), (7.0, "pays for lengths that none has")):
        model.set_params(schema=schema, data_norm=norm)
        refused(lambda: model.fit(table), ledger, told)
    model.set_params(data_norm=1.0).fit(table)
