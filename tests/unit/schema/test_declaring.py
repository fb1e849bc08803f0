"""Schemas written down without data, and what they could still say."""

import pytest

from confrere.data.schema import FORMS, declared_column, missing_facts
from confrere.errors import SchemaError
from confrere.schema import Category, Flag, Label, Number, Ordered, PublicSchema


def test_every_form_is_read():
    made = {kind: declared_column(text) for kind, text in FORMS.items()}
    assert made["number"] == Number("age", bounds=(18, 100))
    assert made["flag"] == Flag("sex", true="male", false="female")
    assert made["category"] == Category("smoker", values=("never", "former", "current"))
    assert made["ordered"] == Ordered("stage", levels=("none", "mild", "severe"))
    assert declared_column("t=number:-3.5..1e3").bounds == (-3.5, 1000)
    assert declared_column("code=category:1|2|7").values == (1, 2, 7)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("age", "age=number:18..100"),
        ("age=numbr:18..100", "age=number:18..100"),
        ("age=number:18-100", "LOW..HIGH"),
        ("age=number:a..b", "LOW..HIGH"),
        ("age=number:100..18", "below"),
        ("sex=flag:m", "two values"),
        ("job=category:a", "at least two"),
    ],
)
def test_what_is_wrong_is_said_with_a_form_to_copy(text, told):
    with pytest.raises(SchemaError, match=told.replace(".", r"\.")):
        declared_column(text)


def test_facts_that_are_missing_are_named_with_their_worth():
    bare = PublicSchema(
        [Number("age", bounds=(18, 100)), Category("job", values=("a", "b"))],
        outcome=Label("ill", positive="yes"),
    )
    facts = {one.fact: one.columns for one in missing_facts(bare)}
    assert facts == {
        "importance": ("age", "job"),
        "mean and sd": ("age",),
        "sign": ("age", "job"),
        "base_rate": ("ill",),
        "shares": ("job",),
        "missing": ("age", "job"),
        "unknown": ("job",),
    }
    full = PublicSchema(
        [
            Number("age", bounds=(18, 100), mean=52, sd=16, missing=52, importance=1, sign=1),
            Flag("smoker", share=0.2, missing="indicator", importance=2),
        ],
        outcome=Label("ill", positive="yes", base_rate=0.1),
    )
    assert missing_facts(full) == ()
