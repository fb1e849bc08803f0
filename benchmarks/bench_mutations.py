"""Faults put into the code that ships, and which tool finds each: the table of docs/audit.md."""

from __future__ import annotations

from typing import Any

from rich.console import Console

from benchmarks.measured import fill, markdown, write_record
from tests.statistical.mutations import MUTATIONS, TOOLS, broken, verdict


def main() -> None:
    results = []
    for name in ("", *MUTATIONS):
        # What is sound must not be found: the first line of the record.
        mutation = MUTATIONS.get(name, MUTATIONS["noise / 2"])
        method = mutation.methods[0]
        with broken(name):
            found = {tool: verdict(tool, method, runs=mutation.runs) for tool in TOOLS}
        title = mutation.title if name else "nothing is broken"
        results.append({"name": name, "title": title, "method": method, "found": found})
        Console().print(f"{name or 'sound'}: {found}")
    record = {"results": results}
    write_record("mutations", record)
    fill("audit.md", "mutations", table_of(record))


def table_of(record: dict[str, Any]) -> str:
    """Return the documentation's table."""
    return markdown(
        ["broken in the code that ships", "tried on", *TOOLS],
        [
            [one["title"], f"`{one['method']}`", *(one["found"][tool] for tool in TOOLS)]
            for one in record["results"]
        ],
    )
