"""What is shown of a schema and of a data report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from confrere.schema.public_schema import missing_facts
from confrere.views import Pairs, Panel, Table, Tone, Word

if TYPE_CHECKING:
    from confrere.schema.data_report import DataReport
    from confrere.schema.public_schema import PublicSchema


def schema_view(schema: PublicSchema) -> Panel:
    """Return the declared facts of every column, which ones are missing, and what was paid for."""
    columns = ("column", "kind", "encoded as", "importance", "sign", "facts")
    rows: list[tuple[object, ...]] = []
    for feature in schema.features:
        told = feature.to_dict()
        rest = ", ".join(f"{k} {_plain(told[k])}" for k in told if k not in columns)
        importance, sign = (_plain(told.get(key, "")) for key in ("importance", "sign"))
        rows.append((told["column"], told["kind"], len(feature.names), importance, sign, rest))
    parts: list[object] = [Table(columns, rows, ("encoded as",))]
    outcome = schema.outcome
    if outcome is not None:
        told = outcome.to_dict()
        label = ", ".join(f"{key} {_plain(told[key])}" for key in told if key != "column")
        parts.insert(0, Pairs({"predicts": f"{outcome.column} ({label})"}))
    missing = [f"{one.fact}: {', '.join(one.columns)}" for one in missing_facts(schema)]
    parts += [Pairs({"worth declaring": missing})] if missing else []
    paid = [
        (
            f"{one.epsilon:g}",
            ", ".join(f"{column} ({', '.join(k)})" for column, k in one.learned.items()),
            "; ".join(f"{r['account']}, row {r['row']}" for r in one.receipts.values()),
        )
        for one in schema.paid
    ]
    title = "Facts that were paid for"
    parts += [Table(("epsilon", "facts", "receipt"), paid, title=title)] if paid else []
    size = f"{len(schema.columns)} columns, {len(schema.feature_names)} encoded"
    return Panel(f"Public schema: {size}", parts, f"fingerprint {schema.fingerprint()}")


def report_view(report: DataReport, whose: str, note: str) -> Panel:
    """Return counts per column and the findings; for the table's owner alone."""
    title = f"{whose}'s table" if whose else "Data report"
    title += f": {report.rows} rows read, {report.used} used"
    if report.plain:
        return Panel(f"{title}, none missing, outside bounds or undeclared", note=note)
    columns, rows = report.counts()
    tone: dict[str, Tone] = {"refused": "bad", "warning": "accent"}
    said = f" {whose}:" if whose else ""
    lines = [Word(one.severity, tone[one.severity], f"{said} {one}") for one in report.findings]
    return Panel(title, [Table(columns, rows, columns[2:5]), *lines], note)


def _plain(value: Any) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(map(_plain, value)) + "]"
    if isinstance(value, dict):
        return ", ".join(f"{key}: {_plain(one)}" for key, one in value.items())
    return f"{value:g}" if isinstance(value, float) else str(value)
