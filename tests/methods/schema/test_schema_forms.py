"""Written forms, fingerprints and differences of schemas."""

import json
import pickle
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from confrere.errors import SchemaError, SchemaMismatch
from confrere.schema import Category, Flag, Label, Number, Ordered, PublicSchema

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


def test_each_change_of_meaning_changes_the_fingerprint_and_is_shown():
    schema = PublicSchema.from_toml(STUDY)
    age, bmi, glu, smoker = schema.features
    others = {
        "bounds = [18, 90]": replace(
            schema, features=(replace(age, bounds=(18, 90)), bmi, glu, smoker)
        ),
        "mean = 29, sd = 7": replace(
            schema, features=(age, replace(bmi, mean=29, sd=7), glu, smoker)
        ),
        "smoker = {": replace(schema, features=schema.features[:3]),
        "bmi = {": replace(schema, features=schema.features[1::-1] + schema.features[2:]),
        "base_rate = 0.1 }": replace(schema, outcome=replace(schema.outcome, base_rate=0.1)),
        "+clip_norm = 2": replace(schema, clip_norm=2),
    }
    for words, other in others.items():
        assert any(words in line for line in schema.difference(other))
        assert other.fingerprint() != schema.fingerprint()
        with pytest.raises(SchemaMismatch) as caught:
            schema.require_same(other)
        assert words in str(caught.value)
    assert len({other.fingerprint() for other in others.values()}) == len(others)


BAD_TEXTS = {
    "not valid TOML": "[data\nx = 1",
    r"\[data\] table": "[study]\nid = 1",
    "features must be a table": "[data]\nclip_norm = 1",
    "at least one feature": "[data]\n[data.features]",
    "'x': its facts must be a table": "[data.features]\nx = 3",
    "'x': kind must be one of": "[data.features]\nx = { bounds = [0, 1] }",
    "'x': needs 'bounds'": '[data.features]\nx = { kind = "number" }',
    "'x': 'bound' is none of": '[data.features]\nx = { kind = "number", bound = [0, 1] }',
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
