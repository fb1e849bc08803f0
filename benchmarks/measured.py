"""What was measured: a record in JSON, and the table that a page of the documentation shows.

Tables are never typed: a page has a comment ``<!-- measured: name -->`` before its table and one
``<!-- end -->`` after it, and what stands between them is made from the record.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent.parent / "docs"
RECORDS = DOCS / "measured"


def write_record(name: str, record: dict[str, Any]) -> None:
    """Keep a record."""
    RECORDS.mkdir(exist_ok=True)
    text = json.dumps(record, indent=1, allow_nan=False)
    # One repeat's numbers on one line.
    text = re.sub(r"\[\s+([^][{}]*?)\s+\]", lambda m: "[" + " ".join(m[1].split()) + "]", text)
    (RECORDS / f"{name}.json").write_text(text + "\n", encoding="utf-8")


def read_record(name: str) -> dict[str, Any]:
    """Return a record."""
    record: dict[str, Any] = json.loads((RECORDS / f"{name}.json").read_text(encoding="utf-8"))
    return record


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def with_table(page: str, name: str, table: str) -> str:
    """Return a page's text with the table of that name put in."""
    pattern = rf"(<!-- measured: {re.escape(name)} -->\n).*?(<!-- end -->)"
    text, found = re.subn(pattern, lambda m: f"{m[1]}{table}\n{m[2]}", page, flags=re.DOTALL)
    if found != 1:
        raise ValueError(f"the page has no place for {name}.")
    return text


def fill(page: str, name: str, table: str) -> None:
    """Put a table into a page of the documentation."""
    path = DOCS / page
    path.write_text(with_table(path.read_text(encoding="utf-8"), name, table), encoding="utf-8")
