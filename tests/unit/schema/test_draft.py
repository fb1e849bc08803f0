"""Drafting a schema: from public tables only, loudly."""

import numpy as np
import pandas as pd
import pytest

from confrere.errors import InvalidParameter
from confrere.schema import (
    Category,
    Flag,
    Label,
    Number,
    Ordered,
    PublicDataOnlyWarning,
    PublicSchema,
    draft_schema,
)


def public_table(n=1000):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "person": [f"p{i}" for i in range(n)],
            "age": rng.integers(18, 95, n),
            "glucose": rng.normal(5.6, 1.1, n),
            "smoker": rng.choice(["Yes", "No"], n, p=[0.2, 0.8]),
            "insured": rng.random(n) < 0.9,
            "urban": rng.choice([0.0, 1.0], n),
            "race": rng.choice(["a", "b", "c"], n, p=[0.7, 0.2, 0.1]),
            "health": pd.Categorical(
                rng.choice(["good", "fair", "poor"], n), ["good", "fair", "poor"], ordered=True
            ),
            "country": "here",
            "ill": rng.choice(["yes", "no"], n, p=[0.1, 0.9]),
        }
    )
    table.loc[:99, "glucose"] = np.nan
    return table


def draft(table, **more):
    with pytest.warns(PublicDataOnlyWarning, match="only if that table is public"):
        return draft_schema(table, i_confirm_this_table_is_public=True, **more)


@pytest.mark.parametrize("answer", [{}, {"i_confirm_this_table_is_public": "yes"}])
def test_without_confirmation_nothing_is_read(answer):
    class Untouchable(pd.DataFrame):
        def __getitem__(self, key):
            raise AssertionError("the table was read")

    with pytest.raises(InvalidParameter, match="public"):
        draft_schema(Untouchable({"x": [1, 2]}), **answer)


def test_each_column_becomes_its_kind():
    schema = draft(public_table(), label=Label("ill", positive="yes"), source="an open survey")
    by_name = {feature.column: feature for feature in schema.features}
    assert {name: type(feature) for name, feature in by_name.items()} == {
        "age": Number,
        "glucose": Number,
        "smoker": Flag,
        "insured": Flag,
        "urban": Flag,
        "race": Category,
        "health": Ordered,
    }
    assert by_name["age"].bounds == (18, 94)
    assert by_name["age"].mean == pytest.approx(56, abs=2)
    assert by_name["age"].sd == pytest.approx(22, abs=1)
    lo, hi = by_name["glucose"].bounds
    assert (lo, hi) == (round(lo, 1), round(hi, 1))
    assert lo == pytest.approx(5.6 - 2.6 * 1.1, abs=0.5)
    assert by_name["glucose"].missing == "indicator"
    assert by_name["glucose"].missing_share == 0.1
    assert by_name["smoker"].true == ("Yes",)
    assert by_name["smoker"].share == pytest.approx(0.2, abs=0.04)
    assert by_name["race"].values == ("a", "b", "c")
    assert by_name["race"].unknown == "zeros"
    assert by_name["health"].levels == ("good", "fair", "poor")
    assert schema.outcome.base_rate == pytest.approx(0.1, abs=0.03)
    assert "public table of 1000 rows (an open survey)" in schema.note
    assert "Left out: person, country." in schema.note
    assert PublicSchema.from_toml(schema.to_toml()) == schema
