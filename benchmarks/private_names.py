"""Fail where a room reaches for another room's private names.

A name with one leading underscore belongs to its room (the package right below ``confrere``). Run
``python benchmarks/private_names.py``; it prints every place, and fails if there is one.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCES = (
    ROOT / "src" / "confrere",
    ROOT / "federation" / "src" / "confrere_federation",
    ROOT / "research" / "src" / "confrere_research",
)

#: Whose private names are one's own.
OWN = {"self", "cls"}


def is_private(name: str) -> bool:
    """Whether a name has one leading underscore."""
    return name.startswith("_") and not name.startswith("__") and name != "_"


def defined(tree: ast.AST) -> Iterator[str]:
    """Yield the private names that a module defines: functions, classes, attributes, globals."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr


def reached(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield lines and private names that are taken from something else than oneself."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and is_private(node.attr):
            owner = node.value
            own = isinstance(owner, ast.Name) and owner.id in OWN
            parent = isinstance(owner, ast.Call) and getattr(owner.func, "id", "") == "super"
            if not own and not parent:
                yield node.lineno, node.attr
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("confrere"):
            yield from ((node.lineno, each.name) for each in node.names if is_private(each.name))


def room_of(path: Path, source: Path) -> str:
    """Return the room of a file."""
    return f"{source.name}.{path.relative_to(source).parts[0].removesuffix('.py')}"


def trespasses(sources: tuple[Path, ...] = SOURCES) -> list[str]:
    """Return every place where a room takes a private name that only other rooms define."""
    trees = {
        path: (room_of(path, source), ast.parse(path.read_text(encoding="utf-8")))
        for source in sources
        for path in sorted(source.rglob("*.py"))
    }
    owners: dict[str, set[str]] = {}
    for room, tree in trees.values():
        for name in defined(tree):
            if is_private(name):
                owners.setdefault(name, set()).add(room)
    return [
        f"{path}:{line}: {name} belongs to {', '.join(sorted(owners[name]))}"
        for path, (room, tree) in trees.items()
        for line, name in reached(tree)
        if name in owners and room not in owners[name]
    ]


def main() -> int:
    """Print every place."""
    found = trespasses()
    print("\n".join(found) or "no room takes another's private names")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
