"""Public facts: schemas and what encodes rows by them."""

from confrere.data import (
    Category,
    DataReport,
    Flag,
    Label,
    Number,
    Ordered,
    PublicDataOnlyWarning,
    PublicSchema,
    SchemaEncoder,
    data_report,
    draft_schema,
)

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
