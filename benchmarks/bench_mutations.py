"""Faults put into the code that ships, and which tool finds each: the table of docs/audit.md."""

from __future__ import annotations

from typing import Any

from rich.console import Console

from benchmarks.measured import fill, markdown, write_record
from tests.kernel.mutations import MUTATIONS, TOOLS, broken, compared, verdict

#: In place of a verdict.
NOT_TRIED = "–"


def main() -> None:
    # What is sound must not be found: the first line of the record.
    record = {"results": [measured(name) for name in ("", *MUTATIONS)]}
    write_record("mutations", record)
    fill("audit.md", "mutations", table_of(record))


def measured(name: str) -> dict[str, Any]:
    """Return what finds a fault."""
    mutation = MUTATIONS.get(name, MUTATIONS["noise / 2"])
    method = mutation.methods[0]
    with broken(name):
        rows = compared(method, mutation.row)
        # Where a row of the table tells, other tools are tried if they must find it, too.
        tried = TOOLS if not any(rows.values()) else mutation.found_by
        found = {
            tool: rows[tool]
            if tool in rows
            else verdict(tool, method, runs=mutation.runs)
            if tool in tried
            else NOT_TRIED
            for tool in TOOLS
        }
    Console().print(f"{name or 'sound'}: {found}")
    title = mutation.title if name else "nothing is broken"
    return {"name": name, "title": title, "method": method, "found": found}


def table_of(record: dict[str, Any]) -> str:
    """Return the documentation's table."""
    return markdown(
        ["broken in the code that ships", "tried on", *TOOLS],
        [
            [one["title"], f"`{one['method']}`", *(one["found"][tool] for tool in TOOLS)]
            for one in record["results"]
        ],
    )
