"""Rooms keep to themselves: private names stay inside, and words mean one thing."""

import ast
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks.private_names import trespasses  # noqa: E402


def test_no_room_takes_private_names_of_another():
    assert trespasses() == []


def test_class_names_are_unique():
    """A reader who searches for a class finds one; names with an underscore stay in their file."""
    names = Counter(
        node.name
        for source in ("src", "federation/src")
        for path in (ROOT / source).rglob("*.py")
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert [name for name, count in names.items() if count > 1] == []
