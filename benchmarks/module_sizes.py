"""Fail if a module of the packages has outgrown one idea."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCES = (ROOT / "src", ROOT / "research" / "src")
HABIT, LIMIT = 250, 400


def main() -> int:
    lengths = {
        path.relative_to(source): len(path.read_text(encoding="utf-8").splitlines())
        for source in SOURCES
        for path in source.rglob("*.py")
    }
    longest_first = sorted(lengths.items(), key=lambda item: -item[1])
    for path, lines in longest_first:
        if lines > HABIT:
            print(f"{lines:5d}  {path}{'  too long' if lines > LIMIT else ''}")
    too_long = sum(lines > LIMIT for lines in lengths.values())
    print(f"{len(lengths)} modules, {too_long} of more than {LIMIT} lines.")
    return min(1, too_long)


if __name__ == "__main__":
    sys.exit(main())
