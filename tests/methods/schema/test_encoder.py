"""Encoding learns nothing, bounds every row, and says what is wrong without showing it."""

import copy
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils.validation import check_is_fitted

from confrere.errors import InvalidData
from confrere.schema import Category, Flag, Label, Number, Ordered, PublicSchema

SCHEMA = PublicSchema(
    [
        Number("age", bounds=(18, 100), mean=52, sd=16, importance=5),
        Number("income", bounds=(0, 1e6), log=True, missing="indicator", importance=2),
        Ordered("health", levels=["good", "fair", "poor"], missing="fair", importance=3),
        Category(
            "race", values=["a", "b", "c"], shares=[0.7, 0.2, 0.1], unknown="zeros", importance=1
        ),
        Flag("smoker", true="Yes", false="No", share=0.2, importance=4),
    ],
    Label("ill", positive="Yes"),
)
WIDE = st.floats(-1e300, 1e300)
ROWS = st.lists(
    st.tuples(
        WIDE,
        st.one_of(WIDE, st.just(np.nan)),
        st.sampled_from(["good", "fair", "poor", None]),
        st.sampled_from(["a", "b", "c", "d", "e"]),
        st.sampled_from(["Yes", "No"]),
    ),
    min_size=1,
    max_size=40,
)


def table_of(rows):
    return pd.DataFrame(rows, columns=list(SCHEMA.columns)).astype(
        {"age": float, "income": float, "health": object}
    )


def random_table(n, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": rng.normal(52, 20, n),
            "income": rng.lognormal(10, 2, n),
            "health": rng.choice(["good", "fair", "poor"], n),
            "race": rng.choice(["a", "b", "c"], n),
            "smoker": rng.choice(["Yes", "No"], n),
        }
    )


@settings(max_examples=25, deadline=None)
@given(rows=ROWS, seed=st.integers(0, 2**32 - 1), weighted=st.booleans())
def test_each_row_stands_by_itself_to_the_last_bit(rows, seed, weighted):
    table = table_of(rows)
    encoder = SCHEMA.encoder(weighted=weighted)
    together = encoder.fit_transform(table)
    for i in range(len(table)):
        assert encoder.transform(table.iloc[[i]]).tobytes() == together[i].tobytes()
    order = np.random.default_rng(seed).permutation(len(table))
    assert encoder.transform(table.iloc[order]).tobytes() == together[order].tobytes()
    repeated = pd.concat([random_table(300, seed), table], ignore_index=True)
    assert encoder.transform(repeated)[300:].tobytes() == together.tobytes()


@settings(max_examples=25, deadline=None)
@given(rows=ROWS, clip_norm=st.floats(1e-6, 1e6) | st.just("rms"), weighted=st.booleans())
def test_no_row_is_longer_than_one(rows, clip_norm, weighted):
    encoder = SCHEMA.encoder(weighted=weighted, clip_norm=clip_norm)
    encoded = encoder.transform(table_of(rows))
    assert encoded.dtype == np.float64
    assert encoded.flags.c_contiguous
    # In exact arithmetic, not only as a rounded norm.
    assert all(sum(Fraction(float(v)) ** 2 for v in row) <= 1 for row in encoded)


def test_rms_norm_follows_from_the_declared_facts():
    assert SCHEMA.variances() == pytest.approx([1, 1 / 3, 1, 2 / 3, 1, 1, 1, 1])
    assert SCHEMA.rms_norm == pytest.approx(np.sqrt(7))
    given = SCHEMA.encoder(clip_norm=SCHEMA.rms_norm).transform(random_table(50))
    assert SCHEMA.encoder().transform(random_table(50)).tolist() == given.tolist()
    own = PublicSchema(SCHEMA.features, clip_norm=3.0).encoder()
    assert own.transform(random_table(9)).tolist() == (
        SCHEMA.encoder(clip_norm=3.0).transform(random_table(9)).tolist()
    )


def test_weights_keep_ratios_and_the_implied_norm():
    table = random_table(30)
    plain = SCHEMA.encoder(clip_norm=1e3).transform(table)
    heavy = SCHEMA.encoder(weighted=True, clip_norm=1e3).transform(table)
    away = np.where(plain == 0, np.nan, plain)  # a level at the centre says nothing
    multipliers = np.nanmedian(heavy / away, axis=0)
    weights = SCHEMA.importances()
    assert multipliers / multipliers[0] == pytest.approx(weights / weights[0])
    assert multipliers**2 @ SCHEMA.variances() == pytest.approx(SCHEMA.rms_norm**2)
    assert heavy == pytest.approx(plain * multipliers)


def test_it_is_a_good_transformer():
    encoder = SCHEMA.encoder(weighted=True)
    assert clone(encoder).get_params() == encoder.get_params()
    assert copy.deepcopy(encoder).get_params() == encoder.get_params()
    check_is_fitted(encoder)
    before = dict(vars(encoder))
    table = random_table(60).set_index(np.arange(60) + 1000)
    assert vars(encoder.fit(table)) == before
    names = ["age", "income", "income=missing", "health", "race=a", "race=b", "race=c", "smoker"]
    assert encoder.get_feature_names_out().tolist() == names
    framed = clone(encoder).set_output(transform="pandas").fit_transform(table)
    assert framed.columns.tolist() == names
    assert framed.index.tolist() == table.index.tolist()
    assert framed.to_numpy().tolist() == encoder.transform(table).tolist()
    y = np.where(table["age"] > 52, 1, -1)
    pipeline = make_pipeline(SCHEMA.encoder(), LogisticRegression(C=100))
    assert cross_val_score(pipeline, table, y, cv=3).mean() > 0.8
    assert pipeline[:-1].get_feature_names_out().tolist() == names
    assert encoder.__sklearn_tags__().requires_fit is False
    assert encoder.__sklearn_tags__().input_tags.allow_nan is True


def test_all_bad_columns_are_named_at_once_and_no_value_is():
    table = random_table(4)
    table.loc[0, "age"] = np.nan
    table.loc[[1, 2], "age"] = np.inf  # beyond a bound, and moved to it
    table.loc[1, "smoker"] = "secret"
    with pytest.raises(InvalidData) as caught:
        SCHEMA.encoder().transform(table)
    text = str(caught.value)
    assert "'age': some rows have no value" in text
    assert "'smoker': some rows have a value that is not declared" in text
    assert "secret" not in text
