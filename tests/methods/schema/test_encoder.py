"""Encoding learns nothing, bounds every row, and says what is wrong without showing it."""

import numpy as np
import pandas as pd
from hypothesis import given, settings
from hypothesis import strategies as st

from confrere.schema import Category, Flag, Label, Number, Ordered, PublicSchema
from tests.contracts.raw_tables import random_table

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
    others = random_table(SCHEMA, seed, 300)[[*table]]
    repeated = pd.concat([others, table], ignore_index=True)
    assert encoder.transform(repeated)[300:].tobytes() == together.tobytes()
