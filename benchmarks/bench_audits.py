"""Every promise of the catalogue, and every printed claim that is false, audited."""

from __future__ import annotations

from typing import Any

from rich.console import Console

from benchmarks.measured import fill, markdown, write_record
from confrere.catalogue_audits import audit_all
from confrere_research.as_printed.faults import FAULTS


def main() -> None:
    results = []
    for line in audit_all(faults=FAULTS):
        results.append(line.to_dict())
        Console().print(f"{line.name}: {line.found:.3f} ({line.cpu_seconds:.1f} CPU s)")
    record = {"results": results}
    write_record("audits", record)
    fill("audit.md", "audits", table_of(record, sound=True))
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
            "lattice",
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
                "kept" if one["fault"] is None else one["fault"],
                _seconds(one),
            ]
            for one in mine
        ],
    )


def _seconds(one: dict[str, Any]) -> str:
    return f"{one['cpu_seconds']:.1f}"
