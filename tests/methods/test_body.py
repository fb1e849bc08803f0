"""A linear model whose noise is shaped like the body of its rows."""

import pytest

from confrere.errors import InvalidParameter
from confrere.methods.allowance import allowance
from confrere.methods.geometry import SchemaGeometry, choose_form
from confrere.schema import Category, Number, PublicSchema


def test_a_category_of_a_stranger_s_schema_fills_no_memory():
    """A body writes down one number per pair of values: of 20,000 values 3 GB, several times."""
    many = Category("icd", values=tuple(f"v{k}" for k in range(20_000)))
    schema = PublicSchema((many, Number("age", bounds=(18, 100))))
    allowed = allowance(1.0, 10_000)
    assert choose_form(schema, "auto", allowed) == "standardised"
    with pytest.raises(InvalidParameter, match="up to 2048 values"):
        SchemaGeometry(schema.encoder(form="linear")).frame(allowed)
    few = PublicSchema((Category("icd", values=("a", "b")), Number("age", bounds=(18, 100))))
    assert choose_form(few, "auto", allowed) != "standardised"
