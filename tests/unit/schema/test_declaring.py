"""Schemas written down without data, and what they could still say."""

from confrere.data.schema import FORMS, declared_column
from confrere.schema import Category, Flag, Number, Ordered


def test_every_form_is_read():
    made = {kind: declared_column(text) for kind, text in FORMS.items()}
    assert made["number"] == Number("age", bounds=(18, 100))
    assert made["flag"] == Flag("sex", true="male", false="female")
    assert made["category"] == Category("smoker", values=("never", "former", "current"))
    assert made["ordered"] == Ordered("stage", levels=("none", "mild", "severe"))
    assert declared_column("t=number:-3.5..1e3").bounds == (-3.5, 1000)
    assert declared_column("code=category:1|2|7").values == (1, 2, 7)
