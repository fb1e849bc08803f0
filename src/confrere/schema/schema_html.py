"""A schema and a data report in a notebook."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from confrere.notebook import BAD, facts, grid, panel, word
from confrere.schema.public_schema import missing_facts

if TYPE_CHECKING:
    from confrere.schema.data_report import DataReport
    from confrere.schema.public_schema import PublicSchema

FACT_COLUMNS = ("column", "kind", "encoded as", "importance", "sign", "facts")


def fact_rows(schema: PublicSchema) -> list[tuple[object, ...]]:
    """Return the declared facts of every column, under ``FACT_COLUMNS``."""
    rows: list[tuple[object, ...]] = []
    for feature in schema.features:
        told = feature.to_dict()
        rest = ", ".join(f"{k} {_plain(told[k])}" for k in told if k not in FACT_COLUMNS)
        importance, sign = (_plain(told.get(key, "")) for key in ("importance", "sign"))
        rows.append((told["column"], told["kind"], len(feature.names), importance, sign, rest))
    return rows


def schema_html(schema: PublicSchema) -> str:
    """Return the declared facts of every column, and which ones are missing."""
    parts: list[object] = [grid(FACT_COLUMNS, fact_rows(schema), right=("encoded as",))]
    outcome = schema.outcome
    if outcome is not None:
        told = outcome.to_dict()
        label = ", ".join(f"{key} {_plain(told[key])}" for key in told if key != "column")
        parts.insert(0, facts({"predicts": f"{outcome.column} ({label})"}))
    open_facts = {one.fact: ", ".join(one.columns) for one in missing_facts(schema)}
    if open_facts:
        parts.append(facts({"worth declaring": [f"{k}: {v}" for k, v in open_facts.items()]}))
    if schema.paid:
        parts.append(facts({"paid for": [str(one) for one in schema.paid]}))
    size = f"{len(schema.columns)} columns, {len(schema.feature_names)} encoded"
    return panel(f"Public schema: {size}", *parts, note=f"fingerprint {schema.fingerprint()}")


def report_html(report: DataReport) -> str:
    """Return counts per column and the findings; for the table's owner alone."""
    columns, rows = report.counts()
    lines = [
        word(one.severity, BAD) + f" {one}" if one.severity == "refused" else f"warning {one}"
        for one in report.findings
    ]
    return panel(
        f"Data report: {report.rows} rows read, {report.used} used",
        grid(columns, rows, right=columns[2:5]),
        facts({"findings": lines}),
        note="Exact counts: for the owner of the table alone.",
    )


def _plain(value: Any) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(map(_plain, value)) + "]"
    if isinstance(value, dict):
        return ", ".join(f"{key}: {_plain(one)}" for key, one in value.items())
    return f"{value:g}" if isinstance(value, float) else str(value)
