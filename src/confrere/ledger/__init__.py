"""The append-only record of what was spent."""
