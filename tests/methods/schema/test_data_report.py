"""What a table's owner is told: counts, bounds, sentinels; never a value."""

import numpy as np
import pandas as pd
import pytest

from confrere.errors import InvalidData
from confrere.schema import Category, Flag, Label, Number, Ordered, PublicSchema, data_report

ROWS = 900
AGE = Number("age", bounds=(18, 100), mean=52, sd=16)


def patients(seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": rng.normal(52, 14, ROWS).clip(18, 95),
            "trestbps": rng.normal(130, 18, ROWS).clip(85, 210),
            "chol": rng.normal(240, 50, ROWS).clip(100, 500),
            "smoker": rng.choice(["never", "former", "current"], ROWS),
            "stage": rng.choice([1, 2, 3], ROWS),
            "sex": rng.choice(["m", "f"], ROWS),
            "ill": rng.choice(["yes", "no"], ROWS, p=[0.2, 0.8]),
        }
    )


@pytest.fixture
def schema():
    return PublicSchema(
        [
            AGE,
            Number("trestbps", bounds=(70, 230), mean=130, sd=20),
            Number("chol", bounds=(80, 600), mean=240, sd=55),
            Category("smoker", values=("never", "former", "current")),
            Ordered("stage", levels=(1, 2, 3)),
            Flag("sex", true="m", false="f"),
        ],
        outcome=Label("ill", positive="yes", base_rate=0.2),
    )


def kinds(report):
    return {(one.column, one.kind, one.severity) for one in report.findings}


def only(report):
    (found,) = report.findings
    return found


@pytest.mark.parametrize("column", ["age", "trestbps", "chol"])
def test_another_unit_is_outside_the_bounds_or_far_from_the_mean(schema, column):
    table = patients()
    table[column] = table[column] / 7.5 if column == "trestbps" else 18 * table[column]
    found = data_report(schema, table).findings[0]
    assert (found.column, found.kind, found.severity) == (column, "outside", "warning")
    assert found.rows > 0.99 * ROWS
    table[column] = 70 + (patients()[column] % 1)
    text = data_report(PublicSchema([Number(column, bounds=(0, 99), mean=9, sd=2)]), table)
    assert "the middle lies over 3 sd from the declared mean" in str(text)


@pytest.mark.parametrize(("low", "value"), [(80, 0), (0, 0), (80, 9999)])
def test_a_number_that_stands_for_missing_is_named_inside_bounds_or_outside(low, value):
    chol = Number("chol", bounds=(low, 600), mean=240, sd=55)
    table = patients()[["chol"]]
    table.loc[:171, "chol"] = value
    found = only(data_report(PublicSchema([chol]), table))
    assert (found.kind, found.rows) == ("sentinel", 172)
    assert found.hint == f"if it stands for nothing, declare na = [{value}]"


def test_what_encoding_refuses_is_refused_and_what_it_takes_is_not(schema):
    """The report never contradicts the encoder."""
    encoder = schema.encoder()
    for column, value in {"age": np.nan, "smoker": "?", "stage": 9, "sex": None}.items():
        table = patients()
        table[column] = table[column].astype(object)
        table.loc[4, column] = value
        assert data_report(schema, table).refused
        with pytest.raises(InvalidData):
            encoder.transform(table)


def test_labels_and_units_without_rows_are_counted(schema):
    table = patients()
    table["who"] = [*range(ROWS - 20), *range(20)]
    table.loc[:2, "ill"] = None
    table.loc[5, "who"] = None
    report = data_report(schema, table, unit_column="who")
    assert kinds(report) == {
        ("who", "unit_column", "refused"),
        ("who", "dropped", "warning"),
        ("ill", "label", "refused"),
    }
    assert report.rows - report.used == 19
    assert data_report(schema, patients().assign(ill="Yes")).findings[0].kind == "label"


def test_no_value_of_the_table_is_quoted(schema):
    table = patients().astype({"age": object, "stage": object})
    table.loc[0, "age"] = "S3CRET"
    table.loc[1, "stage"] = "S3CRET"
    table.loc[2, "smoker"] = "S3CRET"
    table.loc[3, "ill"] = "S3CRET"
    report = data_report(schema, table)
    assert len(report.refused) == 3
    assert "S3CRET" not in str(report) + str(report.to_dict())
