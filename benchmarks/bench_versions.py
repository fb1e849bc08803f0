"""What changed from one version to the next, in numbers: ``python -m benchmarks versions``.

What was measured of the version before stays in the record; the other column is counted on this
tree, or stands in the records of other benchmarks.
"""

from __future__ import annotations

import re
from statistics import fmean
from typing import Any

from rich.console import Console

from benchmarks.measured import DOCS, fill, markdown, read_record, write_record
from benchmarks.ratchet import ROOT, prose, shapes, walks, weights

PAGE = "../CHANGELOG.md"
#: What the record of mutations has in place of a find.
MISSED = ("", "–")


def main() -> None:
    record = read_record("versions")
    record["0.3"] = {**_counted(), **_measured()}
    write_record("versions", record)
    fill(PAGE, "versions", table_of(record))
    Console().print(table_of(record), markup=False)


def _counted() -> dict[str, Any]:
    found = {**dict(weights(ROOT)), **dict(shapes(ROOT)), **dict(prose(ROOT)), **dict(walks())}
    return {
        "lines of the library and the federation": found["lines.src"],
        "lines of the kernel, which alone can release": found["lines.kernel"],
        "lines of tests": found["lines.tests"],
        "`Any`": found["words.Any"],
        "functions of 60 lines and more": found["functions.over_60_lines"],
        "pairs of rooms that import each other": found["rooms.pairs_that_import"],
        "files (and switches between rooms) that a fit on arrays walks": (
            f"{found['walks.fit_files']} ({found['walks.fit_switches']})"
        ),
        "files that `confrere fit study.toml` walks": found["walks.study_files"],
        "words of README": found["words.README"],
    }


def _measured() -> dict[str, Any]:
    rivals, raw, tables, mutations, audits = (
        read_record("rivals"),
        read_record("scale")["raw"],
        {one["key"]: one for one in read_record("scale")["tables"]},
        read_record("mutations")["results"][1:],
        read_record("audits")["results"],
    )
    ours = [
        fmean(fmean(one["auc"]) for key, one in rivals.items() if key.endswith(f"| confrere | {e}"))
        for e in ("0.5", "1", "3")
    ]
    found = sum(any(how not in MISSED for how in one["found"].values()) for one in mutations)
    matrix = re.search(r"(\d+) fits of 640", (DOCS / "matrix.md").read_text(encoding="utf-8"))
    assert matrix is not None
    return {
        "combinations of method, geometry, law, classes, prior, relation and reader, of 640": int(
            matrix[1]
        ),
        "area on five tables at epsilon .5, 1 and 3, without signs": ", ".join(
            f"{area:.3f}" for area in ours
        ),
        "CPU of a raw fit to scikit-learn's pipeline, from 300 to 200,000 rows": ", ".join(
            f"{one['ratio']:.2f}" for one in raw[:4]
        ),
        "CSV to codes, microseconds a row": f"{tables['CSV']['codes']:.1f}",
        "faults put into the code that are found": f"{found} of {len(mutations)}",
        "promises that the audit compares": sum(len(one.get("rows", ())) for one in audits),
    }


def table_of(record: dict[str, Any]) -> str:
    before, now = record["0.2"], record["0.3"]
    rows = [[name, _told(before[name]), _told(one)] for name, one in now.items()]
    return markdown(["", "0.2", "0.3"], rows)


def _told(one: object) -> str:
    return f"{one:,}" if isinstance(one, int) else str(one)
