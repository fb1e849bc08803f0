"""What may be declared about a column, how it is written, and what is refused with its name."""

import json
import math
import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from confrere.data.cells import as_cells
from confrere.data.encoding import value_names
from confrere.errors import InvalidData, SchemaError
from confrere.schema import Category, Flag, Label, Number, Ordered, PublicSchema, data_report

STUDY = """
schema = 1
[study]
id = "diabetes-2026"
[data]
label = { column = "diabetes_2013", positive = ["yes"], base_rate = 0.12 }
clip_norm = "rms"
[data.features]
age    = { kind = "number", bounds = [18, 100], mean = 52, sd = 16, importance = 0.018, sign = 1 }
bmi    = { kind = "number", bounds = [12, 60], importance = 0.043, sign = 1 }
Glu0   = { kind = "number", bounds = [2, 25], importance = 0.060, sign = 1 }
smoker = { kind = "category", values = ["never", "former", "current"], importance = 0.010 }
"""

texts = st.text(min_size=1, max_size=8).filter(lambda text: text not in ("indicator", "zeros"))
shares = st.floats(0.01, 0.99)
signs = st.sampled_from([-1, 0, 1])
numbers = st.integers(-1000, 1000) | st.floats(0.1, 0.9)
value_lists = st.lists(texts | numbers, min_size=2, max_size=5, unique_by=str)


@st.composite
def features(draw, column):
    common = {
        "importance": draw(st.floats(0.1, 10)),
        "missing": draw(st.sampled_from([None, "indicator"])),
    }
    kind = draw(st.sampled_from([Number, Ordered, Category, Flag]))
    if kind is Category:
        values = draw(value_lists)
        table = {value: draw(signs) for value in values}
        unknown = draw(st.sampled_from([None, "zeros", values[0]]))
        return Category(column, values=values, sign=table, unknown=unknown, **common)
    common["sign"] = draw(signs)
    if kind is Flag:
        return Flag(column, share=draw(st.none() | shares), **common)
    if kind is Ordered:
        return Ordered(column, levels=draw(value_lists), **common)
    lo, width = draw(st.floats(-1e6, 1e6)), draw(st.floats(1, 1e6))
    return Number(column, bounds=(lo, lo + width), log=draw(st.booleans()), **common)


@st.composite
def schemas(draw):
    names = texts.filter(lambda text: "=" not in text)
    columns = draw(st.lists(names, min_size=1, max_size=4, unique=True))
    label = Label("the label=", positive=draw(texts), base_rate=draw(st.none() | shares))
    clip_norm = draw(st.just("rms") | st.floats(0.01, 100))
    return PublicSchema(
        [draw(features(column)) for column in columns], label, clip_norm, draw(st.text(max_size=20))
    )


@settings(max_examples=40, deadline=None)
@given(schemas())
def test_every_form_reads_back_as_the_same_schema(schema):
    through_toml = PublicSchema.from_toml(schema.to_toml())
    # Sorted keys must not change the order of features.
    through_json = PublicSchema.from_dict(json.loads(json.dumps(schema.to_dict(), sort_keys=True)))
    for read in (through_toml, through_json, pickle.loads(pickle.dumps(schema))):
        assert read == schema
        assert hash(read) == hash(schema)
        assert read.note == schema.note
        assert read.fingerprint() == schema.fingerprint()
        assert schema.difference(read) == []
        read.require_same(schema)


def test_the_fingerprint_is_pinned():
    # If this moves, every fingerprint that two organisations have compared moves with it.
    assert (
        PublicSchema.from_toml(STUDY).fingerprint()
        == "bf3f6d196fafee4df74d4495d38d2daaf8ae8fe64c8ec7acc7c83c301c2bce11"
    )


BAD_TEXTS = {
    "not valid TOML": "[data\nx = 1",
    r"\[data\] table": "[study]\nid = 1",
    "features must be a table": "[data]\nclip_norm = 1",
    "at least one feature": "[data]\n[data.features]",
    "'x': its facts must be a table": "[data.features]\nx = 3",
    "'x': needs 'bounds'": '[data.features]\nx = { kind = "number" }',
    "'klip' is none of": '[data]\nklip = 1\n[data.features]\nx = { kind = "flag" }',
    "label must be a table": '[data]\nlabel = "y"\n[data.features]\nx = { kind = "flag" }',
    "label: needs 'column'": "[data]\nlabel = { positive = 1 }\n[data.features]\nx = {kind='flag'}",
    "note must be": "[data]\nnote = 3\n[data.features]\nx = { kind = 'flag' }",
    "clip_norm must be": "[data]\nclip_norm = -1\n[data.features]\nx = { kind = 'flag' }",
    "both a feature and the label": (
        "[data]\nlabel = { column = 'x', positive = 1 }\n[data.features]\nx = { kind = 'flag' }"
    ),
    "'z' declares no importance": (
        "[data.features]\nx = { kind = 'flag', importance = 1 }\nz = { kind = 'flag' }"
    ),
    "importance must be above 0": "[data.features]\nx = { kind = 'flag', importance = 0 }",
    "encoded column declared twice: 'a=b'": (
        "[data.features]\na = { kind = 'category', values = ['b', 'c'] }\n'a=b' = { kind = 'flag' }"
    ),
}


@pytest.mark.parametrize("message", BAD_TEXTS)
def test_wrong_files_say_what_is_wrong(message):
    with pytest.raises(SchemaError, match=message):
        PublicSchema.from_toml(BAD_TEXTS[message])


def encode(feature, values):
    table = feature.encoded("standardised").table
    return table[feature.vertices(as_cells(pd.Series(values), "x"))]


def test_dates_are_numbers_in_their_unit():
    feature = Number("x", bounds=(0, 10), dates="days since 2024-02-25", missing=5)
    cells = ["2024-02-25", "2024-03-01", "2024-03-06 00:00", "1990-01-01", "2024-03-01T02:00+02:00"]
    expected = [-1, 0, 1, -1, 0]
    assert encode(feature, cells).ravel().tolist() == expected
    assert (
        encode(feature, pd.to_datetime(cells[:4], format="ISO8601")).ravel().tolist()
        == expected[:4]
    )
    assert encode(feature, [None]).tolist() == [[0]]
    schema = PublicSchema([feature])
    assert PublicSchema.from_toml(schema.to_toml()) == schema
    rows = pd.DataFrame({"x": ["2024-02-26"] * 4 + ["1990-01-01"] * 4})
    (finding,) = data_report(schema, rows).findings
    assert finding.kind == "outside"
    for strange in (["2024-02-30"], [3.0], ["tomorrow"]):
        with pytest.raises(InvalidData, match=r"'x'.*no number"):
            encode(feature, strange)


def test_ordered_levels_use_ranks_scores_shares_or_moments():
    levels = ["low", "mid", "high"]
    assert encode(Ordered("x", levels=levels), levels).ravel().tolist() == [-1, 0, 1]
    scored = Ordered("x", levels=levels, scores=[0, 1, 4])
    assert encode(scored, levels).ravel().tolist() == [-1, -0.5, 1]
    moments = Ordered("x", levels=levels, mean=1, sd=2)
    assert encode(moments, levels).ravel().tolist() == [-0.5, 0, 0.5]
    shares = Ordered("x", levels=levels, shares=[0.5, 0.25, 0.25])
    z = encode(shares, levels).ravel()
    weights = np.array([0.5, 0.25, 0.25])
    assert weights @ z == pytest.approx(0, abs=1e-15)
    assert weights @ z**2 == pytest.approx(1)


@pytest.mark.parametrize(
    ("feature", "values", "message"),
    [
        (Number("x", bounds=(0, 1)), [0.5, "secret"], "no number"),
        (Number("x", bounds=(0, 1)), [1j, 2j], "not plain values"),
        (Category("x", values=["yes", "no"], unknown="zeros"), [True, False], "truth values"),
        (Flag("x"), [True, "secret"], "some rows have a value that is not declared"),
        (Ordered("x", levels=["a", "b"]), ["secret", "a"], "some rows have a value"),
        (Category("x", values=["a", "b"]), [["secret"], "a"], "not plain values"),
    ],
)
def test_bad_values_are_refused_without_being_printed(feature, values, message):
    with pytest.raises(InvalidData, match=f"'x'.*{message}") as caught:
        encode(feature, values)
    assert "secret" not in str(caught.value)


BAD = {
    "bounds must be a list": lambda: Number("x", bounds=5),
    "lower bound": lambda: Number("x", bounds=(3, 3)),
    "bounds must be a finite": lambda: Number("x", bounds=(0, math.inf)),
    "mean and sd go together": lambda: Number("x", bounds=(0, 1), mean=0.5),
    "outside the bounds": lambda: Number("x", bounds=(0, 1), mean=2, sd=1),
    "sd must be above 0": lambda: Number("x", bounds=(0, 1), mean=0.5, sd=0),
    "log must be": lambda: Number("x", bounds=(0, 1), log="yes"),
    "dates must be hours": lambda: Number("x", bounds=(0, 1), dates="days after 2020-01-01"),
    "since a day": lambda: Number("x", bounds=(0, 1), dates="days since today"),
    "within 1,900 years": lambda: Number("x", bounds=(0, 9e5), dates="days since 2020-01-01"),
    "missing lies outside": lambda: Number("x", bounds=(0, 1), missing=7),
    "missing must be a finite number": lambda: Number("x", bounds=(0, 1), missing="drop"),
    "missing_share needs": lambda: Number("x", bounds=(0, 1), missing_share=0.1),
    "importance must be greater": lambda: Number("x", bounds=(0, 1), importance=-1),
    "importance must be a number": lambda: Number("x", bounds=(0, 1), importance="high"),
    "sign must be -1, 0 or 1": lambda: Number("x", bounds=(0, 1), sign=2),
    "at least two": lambda: Ordered("x", levels=["a"]),
    "names a value twice": lambda: Ordered("x", levels=["a", "b", "a"]),
    "one number per level": lambda: Ordered("x", levels=["a", "b"], scores=[1]),
    "scores must increase": lambda: Ordered("x", levels=["a", "b"], scores=[2, 1]),
    "not both": lambda: Ordered("x", levels=["a", "b"], shares=[0.5, 0.5], mean=0, sd=1),
    "outside the scores": lambda: Ordered("x", levels=["a", "b"], mean=5, sd=1),
    "shares must be 2 numbers": lambda: Ordered("x", levels=["a", "b"], shares=[0.5]),
    "add up to 1": lambda: Category("x", values=["a", "b"], shares=[0.5, 0.1]),
    "share must be less than 1": lambda: Flag("x", share=1),
    "true and false names a value twice": lambda: Flag("x", true="a", false=["a", "b"]),
    "not a declared one": lambda: Flag("x", missing="no idea"),
    'named "indicator"': lambda: Category("x", values=["a", "indicator"], missing="indicator"),
    'named "zeros"': lambda: Category("x", values=["a", "zeros"], unknown="zeros"),
    "sign of a category is a table": lambda: Category("x", values=["a", "b"], sign=1),
    "names a value that is not declared": lambda: Category("x", values=["a", "b"], sign={"c": 1}),
    "for every value": lambda: Category("x", values=["a", "b"], importance={"a": 1}),
    "means no value": lambda: Category("x", values=["NA", "EU", "US"]),
    "values names a value twice": lambda: Category("x", values=["01", "1"]),
    "levels names a value twice": lambda: Ordered("x", levels=[10**18 + 1, 10**18 + 3]),
    "true names a value twice": lambda: Flag("x", true=[1, "TRUE"], false=0),
    "classes names a value twice": lambda: Label("x", classes=[1, True, 2]),
    "na names a value that is declared": lambda: Category("x", values=[1, 2], na=["2.0"]),
    "values must be a text": lambda: Category("x", values=["a", None]),
    "must not be empty": lambda: Category("x", values=[]),
    "positive .two sides. or classes": lambda: Label("x"),
    "belong to positive": lambda: Label("x", classes=["a", "b"], base_rate=0.5),
    "classes must name": lambda: Label("x", classes=["a"]),
    "positive and negative names": lambda: Label("x", positive="a", negative="a"),
    "base_rate must be greater": lambda: Label("x", positive="a", base_rate=0),
}


@pytest.mark.parametrize("message", BAD)
def test_wrong_declarations_name_the_column(message):
    with pytest.raises(SchemaError, match=f"'x'.*{message}"):
        BAD[message]()


def test_labels_are_plus_and_minus_one_or_classes():
    features = [Number("x", bounds=(0, 1))]
    loose = PublicSchema(features, Label("y", positive="Yes"))
    table = pd.DataFrame({"y": ["Yes", "No", "Perhaps"]})
    assert loose.label(table).tolist() == [1, -1, -1]
    assert loose.label(table["y"]).tolist() == [1, -1, -1]
    strict = PublicSchema(features, Label("y", positive="Yes", negative="No"))
    with pytest.raises(
        InvalidData, match="'y': some rows have a label that is not declared"
    ) as caught:
        strict.label(table)
    assert "Perhaps" not in str(caught.value)
    several = PublicSchema(features, Label("y", classes=["No", "Yes", "Perhaps"]))
    assert several.label(table).tolist() == ["Yes", "No", "Perhaps"]
    codes = PublicSchema(features, Label("y", classes=[0, 1, 2]))
    assert codes.label(pd.Series([2.0, 0.0])).tolist() == [2, 0]


def test_a_flag_of_one_and_two_has_cells():
    assert value_names(Flag("a", true=1, false=2)) == ("= 2", "= True", "other")
