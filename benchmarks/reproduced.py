"""What the papers' experiments gave, from the records of a whole run, for README and documentation.

``python -m confrere_research reproduce all --out OUT``, and then
``python -m benchmarks.reproduced OUT``.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from benchmarks.measured import DOCS, fill, markdown, read_record, write_record
from confrere_research import load_specs, summarise
from confrere_research.report import recorded, result_table, summary_table
from confrere_research.verdicts import judge

#: One line each in the README.
HEADLINES = ("S1", "S6", "M1", "M3", "C1")
#: What the page on choosing a method shows: item, and a method of it with its variant.
CHOICES = (
    ("S1", "PLR", "sound"),
    ("S1", "PLR, 20 components", "best"),
    ("S1", "PST-F(W)", "sound"),
    ("S6", "PLR(target)", "sound"),
    ("S6", "weighted PLR", "best"),
    ("S6", "PST-H(W)", "sound"),
    ("S6", "weighted PLR near the source", "best"),
    ("S6", "near the source and the experts", "best"),
    ("S6", "average of all centres", "best"),
    ("S6", "average near the experts", "best"),
    ("M2-20k", "statistic", "best"),
    ("M3", "statistic", "best"),
    ("M3", "cells", "best"),
)
README = "../README.md"
PAGE = "reproduced.md"
#: What the first version gave, from its own records; never written again.
FIRST = "reproduced_by_0_1"
#: Differences below this are not worth a word.
NOTICED = 0.0025


def main(out: Path) -> None:
    record = record_of(out)
    write_record("reproduced", record)
    fill(README, "reproduced", summary_of(record))
    fill(PAGE, "since 0.1", changes_of(record))
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
    return markdown(["data", "sound", "best", "no privacy"], rows)


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


def changes_of(record: dict[str, Any]) -> str:
    """Return every item's best lines beside those of the first version, better ones in bold."""
    first, rows = read_record(FIRST), []
    for item, (_, _, sound, best, _, verdict) in record["summary"].items():
        before = first[item]
        lower = record["items"][item]["metric"] in ("error", "seconds")
        rows.append(
            [
                item,
                before["sound"],
                _marked(before["sound"], sound, lower),
                before["best"],
                _marked(before["best"], best, lower),
                verdict if verdict == before["verdict"] else f"{before['verdict']} → {verdict}",
            ]
        )
    return markdown(["item", "sound, 0.1", "sound", "best, 0.1", "best", "verdict"], rows)


def _marked(before: str, after: str, lower: bool) -> str:
    if not before or not after:
        return after
    gain = float(after.rpartition(" ")[2]) - float(before.rpartition(" ")[2])
    gain = -gain if lower else gain
    if abs(gain) < NOTICED:
        return after
    return f"**{after}**" if gain > 0 else f"{after} (worse)"


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
