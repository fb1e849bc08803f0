"""Public facts: schemas and what encodes rows by them."""

from confrere.data.encoding import SchemaEncoder
from confrere.data.features import Category, Flag, Label, Number, Ordered
from confrere.data.report import DataReport, data_report
from confrere.data.schema import PublicSchema

__all__ = ["Category", "DataReport", "Flag", "Label", "Number", "Ordered", "PublicSchema"]
__all__ += ["SchemaEncoder", "data_report"]
