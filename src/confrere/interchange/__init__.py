"""What other tools read and write."""

from confrere.interchange.tools import from_table_schema, log_release, to_table_schema

__all__ = ["from_table_schema", "log_release", "to_table_schema"]
