"""What the proofs are about, as it was when somebody last read proof and code together.

A proof cites modules; every function and class in them is noted here by a
digest of its code without comments, docstrings and layout. A test fails when one of them changes.
Read the proof again; then::

    python -m benchmarks.proofs objective_perturbation     # or several pages, or: all
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROOFS = ROOT / "docs" / "proofs"
FOLDERS = (PROOFS, ROOT / "research" / "proofs")
#: Where the code lies that a page names by its path below it.
SOURCES = {
    "confrere": ROOT / "src",
    "confrere_federation": ROOT / "federation" / "src",
    "confrere_research": ROOT / "research" / "src",
}
RECORD = PROOFS / "looked_at.json"


def pages() -> list[Path]:
    found = (page for folder in FOLDERS for page in folder.glob("*.md"))
    return sorted((page for page in found if page.stem != "index"), key=lambda page: page.stem)


def code_of(page: Path) -> list[Path]:
    """Return the modules that a page names."""
    named = re.findall(r"`((confrere(?:_federation|_research)?)/[\w/]+\.py)`", page.read_text())
    return sorted({SOURCES[room] / name for name, room in named})


def cited(page: Path) -> dict[str, str]:
    """Return the digest of everything that a page's modules define, by module and name."""
    found = {}
    for path in code_of(page):
        name = path.as_posix().partition("/src/")[2]
        for inside, digest in digests(path.read_text()).items():
            found[f"{name}:{inside}"] = digest
    return found


def digests(source: str) -> dict[str, str]:
    """Return a digest of every function and of every class without its methods."""
    found: dict[str, str] = {}

    def visit(body: list[ast.stmt], prefix: str) -> list[ast.stmt]:
        rest: list[ast.stmt] = []
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                found[prefix + node.name] = _digest(_without_docstring(node))
            elif isinstance(node, ast.ClassDef):
                node.body = visit(node.body, f"{prefix}{node.name}.") or [ast.Pass()]
                found[prefix + node.name] = _digest(_without_docstring(node))
            elif not isinstance(node, ast.Import | ast.ImportFrom):
                rest.append(node)
        return rest

    constants = visit(ast.parse(source).body, "")
    module = ast.Module([node for node in constants if not _is_text(node)], [])
    found["(constants)"] = _digest(module)
    return found


def _without_docstring(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> ast.AST:
    if node.body and _is_text(node.body[0]):
        node.body = node.body[1:] or [ast.Pass()]
    return node


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _digest(node: ast.AST) -> str:
    return hashlib.sha256(_spelled(node).encode()).hexdigest()[:16]


def _spelled(part: object) -> str:
    """Return what every version of Python makes of a piece of code: fields that say nothing go."""
    if isinstance(part, list):
        return f"[{','.join(map(_spelled, part))}]"
    if not isinstance(part, ast.AST):
        return repr(part)
    fields = [(name, value) for name, value in ast.iter_fields(part) if value not in (None, [])]
    return f"{type(part).__name__}({','.join(f'{n}={_spelled(v)}' for n, v in fields)})"


def main(names: list[str]) -> None:
    record = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    chosen = [page for page in pages() if names == ["all"] or page.stem in names]
    if not chosen:
        sys.exit(f"pages: {', '.join(page.stem for page in pages())}, or all")
    for page in chosen:
        record[page.stem] = cited(page)
        print(f"{page.stem}: {len(record[page.stem])} definitions looked at")
    RECORD.write_text(json.dumps(dict(sorted(record.items())), indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
