"""Every promise of the catalogue, and every printed claim that is false, audited."""

from __future__ import annotations

from typing import Any

from rich.console import Console

from benchmarks.measured import fill, markdown, write_record
from confrere.assurance.audited import audit_all
from confrere.assurance.table import COMPARED
from confrere_research.as_printed.faults import FAULTS


def main() -> None:
    results = []
    for line in audit_all(faults=FAULTS):
        results.append(line.to_dict())
        Console().print(f"{line.name}: {line.found:.3f} ({line.cpu_seconds:.1f} CPU s)")
    record = {"results": results}
    write_record("audits", record)
    fill("audit.md", "audits", table_of(record, sound=True))
    fill("audit.md", "audit rows", rows_of(record))
    fill("audit.md", "faults", table_of(record, sound=False))
    if wrong := [one["name"] for one in results if one["refuted"] == one["sound"]]:
        raise SystemExit(f"not as it should be: {', '.join(wrong)}")


def table_of(record: dict[str, Any], *, sound: bool) -> str:
    """Return one of the documentation's two tables."""
    mine = [one for one in record["results"] if one["sound"] == sound]
    if not sound:
        return markdown(
            ["claimed ε = 1, and false", "runs", "found, 99.9%", "CPU s"],
            [
                [one["title"], f"{2 * one['counted']:,}", f"≥ {one['found']:.2f}", _seconds(one)]
                for one in mine
            ],
        )
    return markdown(
        [
            "method",
            "runs",
            "found, 99.9%",
            "such runs can show",
            "by densities",
            "by whole fits",
            "fault",
            "rows",
            "CPU s",
        ],
        [
            [
                f"`{one['name']}`",
                f"{2 * one['counted']:,}",
                f"≥ {one['found']:.3f}",
                f"{one['attainable']:.3f}",
                "" if one["exact"] is None else f"≥ {one['exact']:.4f}",
                "" if one["whole"] is None else f"≥ {one['whole']:.2f}",
                "none" if one["fault"] is None else one["fault"],
                str(len(one["rows"])),
                _seconds(one),
            ]
            for one in mine
        ],
    )


def rows_of(record: dict[str, Any]) -> str:
    """Return the table of what is audited: one line for rows that differ in relation or option."""
    lines: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for one in record["results"]:
        for row in one["rows"]:
            key = (row["method"], row["law"], row["geometry"], row["delta"])
            lines.setdefault(key, []).append(row)

    def told(rows: list[dict[str, Any]], name: str) -> str:
        return ", ".join(dict.fromkeys(str(row[name]) for row in rows if row[name]))

    def most(rows: list[dict[str, Any]], tool: str) -> str:
        found = [row["shares"][tool] for row in rows if tool in row["shares"]]
        return f"{max(found):.3f}" if found else ""

    return markdown(
        ["method", "law", "rows of", "delta", "neighbours", "classes", "also", *COMPARED],
        [
            [
                f"`{method}`",
                law,
                geometry,
                "yes" if delta else "",
                told(rows, "relation"),
                told(rows, "classes"),
                told(rows, "option"),
                *(most(rows, tool) for tool in COMPARED),
            ]
            for (method, law, geometry, delta), rows in lines.items()
        ],
    )


def _seconds(one: dict[str, Any]) -> str:
    return f"{one['cpu_seconds']:.1f}"
