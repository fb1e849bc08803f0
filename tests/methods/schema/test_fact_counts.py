"""Which sums a schema asks for, how far a record moves them, and which facts come out."""

import itertools

import numpy as np
import pandas as pd
import pytest

from confrere.data.cells import as_cells
from confrere.data.fact_counts import FactCounts
from confrere.data.schema import PaidFacts
from confrere.errors import InvalidData, SchemaError
from confrere.schema import Category, Flag, Label, Number, Ordered, PublicSchema

SCHEMA = PublicSchema(
    [
        Number("age", bounds=(0, 120), missing="indicator"),
        Number("income", bounds=(0, 1e6), log=True),
        Flag("sex", true="m", false="f", missing="center"),
        Category("job", values=["a", "b", "c"], unknown="other"),
        Category("town", values=["x", "y"], unknown="zeros", missing="center"),
        Ordered("stage", levels=[1, 2, 3]),
    ],
    outcome=Label("ill", positive="yes"),
)
CELLS = {
    "age": [*np.linspace(-10, 140, 301), 30.0, 120.0, None],
    "income": [0.0, 1.0, 1e3, 1e6, 1e9, *np.geomspace(1, 1e6, 200)],
    "sex": ["m", "f", None],
    "job": ["a", "b", "c", "whatever"],
    "town": ["x", "y", "elsewhere", None],
    "stage": [1, 2, 3],
    "ill": ["yes", "no"],
}


def table(n=20_000, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": np.where(rng.random(n) < 0.1, np.nan, rng.normal(50, 12, n)),
            "income": np.exp(rng.normal(8, 1, n)),
            "sex": rng.choice(["m", "f"], n, p=[0.3, 0.7]),
            "job": rng.choice(["a", "b", "c", "d"], n, p=[0.6, 0.3, 0.07, 0.03]),
            "town": rng.choice(["x", "y", "z"], n, p=[0.5, 0.3, 0.2]),
            "stage": rng.choice([1, 2, 3], n, p=[0.7, 0.2, 0.1]),
            "ill": rng.choice(["yes", "no"], n, p=[0.1, 0.9]),
        }
    )
    frame.loc[rng.random(n) < 0.05, "sex"] = None
    return frame


def vectors(one):
    """Every cell of a column, as what it adds."""
    cells = [as_cells([cell]) for cell in CELLS[one.column]]
    return np.array([one.sums(each) for each in cells])


def test_no_cell_moves_a_column_further_than_is_said_and_some_pair_does():
    counts = FactCounts(SCHEMA)
    for one in counts.columns:
        found = vectors(one)
        farthest = max(int(np.abs(a - b).sum()) for a, b in itertools.combinations(found, 2))
        assert farthest <= one.sensitivity
        assert farthest >= one.sensitivity - 40  # some points of a number are no cells here
        longest = max(int(np.abs(each).sum()) for each in found)
        assert one.longest - 4 <= longest <= one.longest
    assert counts.sensitivity == sum(one.sensitivity for one in counts.columns)


def test_exact_sums_give_the_table_back():
    frame = table()
    counts = FactCounts(SCHEMA)
    made, what = counts.learned(counts.sums(frame).astype(float), len(frame), 1e-9)
    age, income, sex, job, town, stage = made.features
    assert age.mean == pytest.approx(frame["age"].mean(), abs=0.02)
    assert age.sd == pytest.approx(frame["age"].std(), abs=0.02)
    assert age.missing_share == pytest.approx(frame["age"].isna().mean(), abs=1e-4)
    assert income.mean == pytest.approx(np.log1p(frame["income"]).mean(), abs=0.01)
    assert sex.share == pytest.approx((frame["sex"].dropna() == "m").mean(), abs=0.002)
    assert job.shares == pytest.approx((0.6, 0.3, 0.07, 0.03), abs=0.01)
    assert sum(town.shares) == pytest.approx(0.8, abs=0.02)
    assert stage.mean == pytest.approx(frame["stage"].mean() - 1, abs=1e-3)
    assert made.outcome.base_rate == pytest.approx(0.1, abs=0.005)
    assert set(what) == {*SCHEMA.columns, "ill"}
    assert what["age"] == ("mean", "sd", "missing_share")
    with pytest.raises(SchemaError, match="nothing to pay for"):
        FactCounts(made)


@pytest.mark.parametrize("seed", range(30))
def test_any_integers_make_a_schema(seed):
    rng = np.random.default_rng(seed)
    wide = PublicSchema(
        [
            Number("a", bounds=(-1e-9, 1e12), log=True, missing="indicator"),
            Number("b", bounds=(1e8, 1e8 + 1e-6)),
            Category("c", values=list(range(600)), missing="center"),
        ]
    )
    for schema in (SCHEMA, wide):
        counts = FactCounts(schema)
        size = 10.0 ** rng.integers(0, 14)
        total = np.rint(rng.normal(size=counts.size) * size)
        made, _ = counts.learned(total, int(rng.integers(1, 10**6)), float(size))
        assert made.feature_names == schema.feature_names
        assert np.isfinite(made.rms_norm)
    zeros, _ = FactCounts(SCHEMA).learned(np.zeros(FactCounts(SCHEMA).size), 1, 1.0)
    assert 0 < zeros.features[0].sd < 60


def test_what_encoding_refuses_is_refused_without_a_value():
    frame = table(50)
    frame["income"] = frame["income"].astype(object)
    frame.loc[3, "income"] = "S3CRET"
    frame.loc[4, "stage"] = 77
    with pytest.raises(InvalidData, match="'stage': some rows have a value that is not") as error:
        FactCounts(SCHEMA).sums(frame)
    assert "'income': some rows have no number" in str(error.value)
    assert "S3CRET" not in str(error.value)
    assert "77" not in str(error.value)
    with pytest.raises(InvalidData, match="no value; declare"):
        FactCounts(SCHEMA).sums(table(50).assign(income=np.nan))
    assert not FactCounts(SCHEMA).sums(table(50)[:0]).any()  # nothing adds up to nothing


def test_paid_facts_are_written_read_and_part_of_the_meaning():
    receipt = {
        "ledger_id": "a",
        "row": 3,
        "account": "h/d",
        "guarantee": {"epsilon": 1.0, "delta": 0.0},
        "hash": "b",
        "simulated": False,
    }
    paid = PaidFacts({"age": ("mean", "sd")}, {"h": receipt})
    schema = PublicSchema(SCHEMA.features, SCHEMA.outcome, paid=(paid,))
    again = PublicSchema.from_toml(schema.to_toml())
    assert again == schema
    assert again.fingerprint() == schema.fingerprint() != SCHEMA.fingerprint()
    assert schema.difference(SCHEMA)[0].startswith("-paid = ")
    assert schema.subset(["sex"]).paid == (paid,)
    assert str(paid) == "age (mean, sd): epsilon 1, paid by h/d, row 3"
    for wrong in ({}, {"h": {}}, {"h": receipt | {"guarantee": {"epsilon": 0}}}):
        with pytest.raises(SchemaError, match="paid"):
            PaidFacts({"age": ("mean",)}, wrong)
    with pytest.raises(SchemaError, match="paid"):
        PublicSchema.from_dict({**SCHEMA.to_dict(), "paid": [{"learned": {}}]})
