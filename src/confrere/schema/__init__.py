"""Public facts: schemas and what encodes rows by them."""

from confrere.schema.data_report import DataReport, data_report
from confrere.schema.encoding import SchemaEncoder
from confrere.schema.feature import Category, Flag, Label, Number, Ordered
from confrere.schema.public_schema import PublicDataOnlyWarning, PublicSchema, draft_schema

__all__ = [
    "Category",
    "DataReport",
    "Flag",
    "Label",
    "Number",
    "Ordered",
    "PublicDataOnlyWarning",
    "PublicSchema",
    "SchemaEncoder",
    "data_report",
    "draft_schema",
]
