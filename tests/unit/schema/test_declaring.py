"""Schemas written down without data, and what they could still say."""

import pytest

from confrere.data.schema import FORMS, declared_column
from confrere.errors import SchemaError
from confrere.schema import Category, Flag, Number, Ordered


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
