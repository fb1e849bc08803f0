"""What the papers' experiments gave, from the records of a whole run, for README and documentation.

``python -m confrere_research reproduce all --out OUT``, and then
``python -m benchmarks.reproduced OUT``.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from benchmarks.measured import DOCS, fill, markdown, write_record
from confrere_research import load_specs, summarise
from confrere_research.report import recorded, result_table, summary_table
from confrere_research.verdicts import judge

#: One line each in the README.
HEADLINES = ("S1", "S6", "M1", "M3", "C1")
#: What the page on choosing a method shows: item, and a method of it with its variant.
CHOICES = (
    ("S1", "PLR", "corrected"),
    ("S1", "PLR, 20 components", "recommended"),
    ("S1", "PST-F(W)", "corrected"),
    ("S6", "PLR(target)", "corrected"),
    ("S6", "weighted PLR", "recommended"),
    ("S6", "PST-H(W)", "corrected"),
    ("S6", "weighted PLR near the source", "recommended"),
    ("S6", "near the source and the experts", "recommended"),
    ("S6", "average of all centres", "recommended"),
    ("S6", "average near the experts", "recommended"),
    ("M2-20k", "statistic", "recommended"),
    ("M3", "statistic", "recommended"),
    ("M3", "cells", "recommended"),
)
README = "../README.md"
PAGE = "reproduced.md"


def main(out: Path) -> None:
    record = record_of(out)
    write_record("reproduced", record)
    fill(README, "reproduced", summary_of(record))
    fill(PAGE, "reproduced", chapters_of(record))
    fill("choose.md", "choices", choices_of(record))
    print(DOCS / PAGE)


def record_of(out: Path) -> dict[str, Any]:
    """Return every item's verdict and table."""
    specs, records = load_specs(), recorded(out)
    if missing := [item for item in specs if item not in records]:
        raise SystemExit(f"no records of {', '.join(missing)}: run reproduce all.")
    head, *rows = summary_table(records)
    items = {}
    for item, found in records.items():
        spec = specs[item]
        points = summarise(found, spec.metric)
        verdict = judge(spec, points)
        items[item] = {
            "title": spec.title,
            "source": spec.source,
            "metric": spec.metric,
            "simulated_data": spec.simulated_data,
            "repeats": max(point.n for point in points),
            "cpu_seconds": round(sum(one.seconds for one in found)),
            "verdict": verdict.outcome,
            "held": sum(finding.holds is True for finding in verdict.findings),
            "compared": len(verdict.findings),
            "why": verdict.why,
            "table": [" | ".join(row) for row in result_table(spec, points)],
        }
    return {"head": head, "summary": {row[0]: row[1:] for row in rows}, "items": items}


def summary_of(record: dict[str, Any]) -> str:
    """Return the README's table."""
    rows = []
    for item in HEADLINES:
        what, _, sound, best, ceiling, _ = record["summary"][item]
        rows.append([what.partition(":")[0].removesuffix(", epsilon 1 each"), sound, best, ceiling])
    return markdown(["data", "corrected", "recommended", "no privacy"], rows)


def choices_of(record: dict[str, Any]) -> str:
    """Return what methods brought at the smallest epsilon and at one, beside no privacy."""
    rows = []
    for item, method, variant in CHOICES:
        head, *lines = (row.split(" | ") for row in record["items"][item]["table"])
        found = {(line[0], line[1]): dict(zip(head, line, strict=True)) for line in lines}
        smallest, ceiling = head[2], record["summary"][item][4]
        mine = found[method, variant]
        title = record["items"][item]["title"].partition(":")[0].removesuffix(", epsilon 1 each")
        rows.append(
            [
                f"{item}, {title}",
                method,
                f"{mine[smallest]} (ε = {smallest.removeprefix('epsilon ')})",
                mine["epsilon 1"],
                ceiling,
            ]
        )
    return markdown(["data", "method", "smallest ε", "ε = 1", "no privacy"], rows)


def chapters_of(record: dict[str, Any]) -> str:
    """Return the page's chapters."""
    lines = []
    for item, one in record["items"].items():
        simulated = " Simulated data: none of these people exist." if one["simulated_data"] else ""
        head, *rows = (row.split(" | ") for row in one["table"])
        lines += [
            f"## {item}: {one['title']}",
            f"{one['source']}. {one['metric']}, {one['repeats']} repeats, {one['cpu_seconds']} CPU "
            f"seconds in all.{simulated}",
            "",
            f"**{one['verdict'].capitalize()}**: {one['held']} of {one['compared']} claims and "
            f"numbers hold. {one['why']}",
            "",
            markdown(head, rows),
            "",
        ]
    return "\n".join(lines)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
