"""What the code weighs, against limits that only go down.

Run ``python -m benchmarks.ratchet``; ``make check`` does. Limits are in ``ratchet.toml``. A count
moves freely below its limit, and no limit may be above what it was in any commit. A new room's
limit is its budget. With ``--lower``, limits are set to the counts that are below them.
"""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]
LIMITS = Path("benchmarks", "ratchet.toml")

#: Commits that changed the limits, looked at from the last one back.
COMMITS = 100

#: Pages that keep what was measured, decided, or did not hold.
RECORDS = ("advisories.md", "audit.md", "decisions.md", "reproduced.md")


#: The wheels that are counted as one, and rooms of the second under the names of their limits.
PACKAGES = ("src/confrere", "federation/src/confrere_federation")
ROOMS = {
    "commands": "cli",
    "engines": "federation",
    "kits": "provision",
    "parties": "federation",
    "studies": "study",
}


def lines(*folders: Path, pattern: str = "**/*.py") -> int:
    """Return the number of all lines, docstrings and empty ones too."""
    files = [path for folder in folders for path in folder.glob(pattern)]
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in files)


def weights(root: Path) -> Iterator[tuple[str, int]]:
    """Yield lines: of every room, of the modules beside them, and in all."""
    packages = [root / one for one in PACKAGES]
    yield "lines.modules", lines(*packages, pattern="*.py")
    rooms: dict[str, list[Path]] = {}
    for path in sorted(one for each in packages for one in each.glob("*/__init__.py")):
        rooms.setdefault(ROOMS.get(path.parent.name, path.parent.name), []).append(path.parent)
    yield from ((f"lines.{name}", lines(*folders)) for name, folders in rooms.items())
    yield "lines.src", lines(*packages)
    yield "lines.papers", lines(root / "research" / "src")
    yield "lines.tests", lines(root / "tests", root / "research" / "tests")


def prose(root: Path) -> Iterator[tuple[str, int]]:
    """Yield words outside of code and measured tables, without proofs and records."""
    pages = [page for page in (root / "docs").rglob("*.md") if "proofs" not in page.parts]
    texts = [page.read_text(encoding="utf-8") for page in pages if page.name not in RECORDS]
    apart = re.compile(r"^```.*?^```|^<!-- measured.*?^<!-- end -->", re.DOTALL | re.MULTILINE)
    yield "words.docs", sum(len(apart.sub("", text).split()) for text in texts)
    yield "words.README", len((root / "README.md").read_text(encoding="utf-8").split())


def complexity(function: ast.AST) -> int:
    """Return McCabe's number, with conditions inside expressions counted too."""
    found = 1
    for node in ast.walk(function):
        if isinstance(node, ast.BoolOp):
            found += len(node.values) - 1
        elif isinstance(node, ast.comprehension):
            found += 1 + len(node.ifs)
        else:
            branches = ast.If | ast.IfExp | ast.For | ast.AsyncFor | ast.While | ast.ExceptHandler
            found += isinstance(node, branches | ast.Assert | ast.match_case)
    return found


def arguments(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return how many arguments a caller sees."""
    told = function.args
    named = [*told.posonlyargs, *told.args, *told.kwonlyargs]
    return sum(one.arg not in ("self", "cls") for one in named)


def imported(tree: ast.AST) -> Iterator[str]:
    """Yield what a file imports, inside functions too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            package = module in ("confrere", "confrere_federation")
            yield from (f"{module}.{each.name}" if package else module for each in node.names)


def shapes(root: Path) -> Iterator[tuple[str, int]]:
    """Yield what is read off the syntax: heavy functions, ``Any``, rooms that know each other."""
    trees = [
        (path.relative_to(root / package).parts, ast.parse(path.read_text(encoding="utf-8")))
        for package in PACKAGES
        for path in sorted((root / package).rglob("*.py"))
    ]
    nodes = [node for _, tree in trees for node in ast.walk(tree)]
    functions = [n for n in nodes if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    yield (
        "functions.over_60_lines",
        sum((one.end_lineno or 0) - one.lineno >= 60 for one in functions),
    )
    yield "functions.over_8_arguments", sum(arguments(one) > 8 for one in functions)
    yield "functions.over_complexity_12", sum(complexity(one) > 12 for one in functions)
    yield "words.Any", sum(isinstance(node, ast.Name) and node.id == "Any" for node in nodes)
    rooms = {parts[0]: ROOMS.get(parts[0], parts[0]) for parts, _ in trees if len(parts) > 1}
    pairs = {
        (rooms.get(parts[0], ""), rooms.get(name.split(".")[1], ""))
        for parts, tree in trees
        for name in imported(tree)
        if name.startswith(("confrere.", "confrere_federation."))
    }
    yield "rooms.pairs_that_import", sum(first != second for first, second in pairs)


def faces(root: Path) -> Iterator[tuple[str, int]]:
    """Yield what a user has to know: documented names, and parameters of estimators."""
    import confrere

    public, module = {f"confrere.{name}" for name in confrere.__all__}, ""
    for line in (root / "docs" / "api.rst").read_text(encoding="utf-8").splitlines():
        if told := re.fullmatch(r"\.\. currentmodule:: (\S+)", line):
            module = told[1]
        elif named := re.fullmatch(r"   ([A-Za-z]\w*)", line):
            public.add(f"{module}.{named[1]}")
    yield "faces.public_names", len(public)
    parameters = {
        name: len(inspect.signature(face).parameters)
        for name in confrere.__all__
        if hasattr(face := getattr(confrere, name), "fit")
    }
    yield "faces.parameters_at_most", max(parameters.values())
    yield "faces.parameters_of_PrivateLogisticRegression", parameters["PrivateLogisticRegression"]


def walks() -> Iterator[tuple[str, int]]:
    """Yield how far a reader walks who follows a fit, and a study."""
    from benchmarks.walks import fit, study, walked

    for name, prepare in {"fit": fit, "study": study}.items():
        act = prepare()
        with walked() as walk:
            act()
        yield f"walks.{name}_files", len(walk.files)
        yield f"walks.{name}_switches", walk.switches


def read(text: str) -> dict[str, int]:
    """Return limits by their names."""
    return {
        f"{table}.{name}": limit
        for table, entries in tomllib.loads(text).items()
        for name, limit in entries.items()
    }


def _moved(limits: Mapping[str, int]) -> dict[str, int]:
    """Return the limits of rooms that others moved into, which are above their budgets."""
    begins = "moved"
    return {k.removeprefix(begins): v for k, v in limits.items() if k.startswith(f"{begins}.")}


def exceeded(counts: Mapping[str, int], limits: Mapping[str, int]) -> list[str]:
    """Return what is above its limit, or has none."""
    return [
        f"{name} is {count}, and its limit {limits[name]}"
        if name in limits
        else f"{name} has no limit in {LIMITS}: a new room's is its budget"
        for name, count in counts.items()
        if count > limits.get(name, -1)
    ]


def earlier(root: Path) -> list[dict[str, int]]:
    """Return the limits of earlier commits: fewer in a shallow clone, none without git."""

    def git(*words: str) -> str:
        done = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True)
        return "" if done.returncode else done.stdout

    try:
        commits = git("log", f"-{COMMITS}", "--format=%H", "--", LIMITS.as_posix()).split()
        return [read(git("show", f"{commit}:{LIMITS.as_posix()}")) for commit in commits]
    except FileNotFoundError:
        return []


def raised(limits: Mapping[str, int], history: list[dict[str, int]]) -> list[str]:
    """Return limits that were lower once."""
    lowest: dict[str, int] = {}
    for before in history:
        for name, limit in before.items():
            lowest[name] = min(limit, lowest.get(name, limit))
    return [
        f"the limit of {name} is {limit}, and was {lowest[name]}: limits only go down"
        for name, limit in limits.items()
        if limit > lowest.get(name, limit)
    ]


def lowered(text: str, counts: Mapping[str, int]) -> str:
    """Return the limits' file with every count that is below its limit as the limit."""
    table, new = "", []
    for line in text.splitlines():
        table = told[1] if (told := re.fullmatch(r"\[(\w+)\]", line)) else table
        entry = re.fullmatch(r"(\w+) = (\d+)(.*)", line)
        place = "lines" if table == "moved" else table
        count = counts.get(f"{place}.{entry[1]}", 0) if entry else 0
        below = entry is not None and 0 < count < int(entry[2])
        new.append(f"{entry[1]} = {count}{entry[3]}" if entry and below else line)
    return "\n".join(new) + "\n"


def main() -> int:
    """Print every count beside its limit; fail on one that is above, or on a raised limit."""
    file = ROOT / LIMITS
    counts = {
        **dict(weights(ROOT)),
        **dict(shapes(ROOT)),
        **dict(prose(ROOT)),
        **dict(faces(ROOT)),
        **dict(walks()),
    }
    if "--lower" in sys.argv:
        file.write_text(lowered(file.read_text(encoding="utf-8"), counts), encoding="utf-8")
    limits = read(file.read_text(encoding="utf-8"))
    grown = raised(limits, earlier(ROOT))
    limits |= {f"lines{name}": limit for name, limit in _moved(limits).items()}
    for name in {**limits, **counts}:
        print(f"{name:<46} {counts.get(name, 0):>7} of {limits.get(name, 0):>7}")
    wrong = exceeded(counts, limits) + grown
    print("\n".join(wrong) or "nothing is above its limit")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
