"""Pages name what exists, links lead somewhere, proofs are pinned, and locks are what is tested."""

import ast
import doctest
import importlib
import json
import re
import tomllib
from collections import Counter
from pathlib import Path

import pytest

import confrere
from benchmarks.private_names import trespasses
from benchmarks.proofs import RECORD, SOURCES, cited, code_of, pages
from confrere.catalogue import CATALOGUE

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
WITH_EXAMPLES = sorted(
    ".".join(path.relative_to(SOURCE).with_suffix("").parts)
    for path in SOURCE.rglob("*.py")
    if ">>> " in path.read_text()
)
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])


def targets(text):
    """Return the relative targets of links and pictures."""
    prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    found = re.findall(r"\]\(([^)\s]+)\)", prose)
    found += re.findall(r'(?:src|href)="([^"]+)"', prose)
    return [one for one in found if not re.match(r"[a-z]+:|#", one)]


def anchors(text):
    headings = re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)
    return {
        re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_relative_links_resolve(page):
    for target in targets(page.read_text()):
        name, _, anchor = target.partition("#")
        place = page.parent / name
        assert place.exists(), target
        assert not anchor or anchor in anchors(place.read_text()), target


def stable_names():
    """Return the names that the page of the API promises to keep, by the module they are in."""
    page = (ROOT / "docs" / "api.rst").read_text().split("The papers\n")[0]
    parts = page.split(".. currentmodule:: ")[1:]
    return [
        (part.split("\n")[0], name)
        for part in parts
        for name in re.findall(r"^   (\w+)$", part, re.MULTILINE)
    ]


@pytest.mark.parametrize("name", confrere.__all__)
def test_every_public_name_is_in_the_api(name):
    assert ("confrere", name) in stable_names()


@pytest.mark.parametrize(("module", "name"), stable_names())
def test_every_stable_name_is_one_that_its_room_offers(module, name):
    room = importlib.import_module(module)
    assert hasattr(room, name)
    assert name in getattr(room, "__all__", vars(room))


@pytest.mark.parametrize("method", CATALOGUE)
def test_the_page_on_trust_says_who_is_trusted_for_a_method(method):
    text = (ROOT / "docs/threats.md").read_text()
    table = text.partition("## Who is trusted for what, by method")[2].partition("\n## ")[0]
    first_cells = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    assert sum(f"`{method}`" in cell for cell in first_cells) == 1


@pytest.mark.parametrize("module", WITH_EXAMPLES)
def test_examples_in_docstrings_give_what_they_show(module):
    result = doctest.testmod(importlib.import_module(module))
    assert result.attempted > 0
    assert result.failed == 0


PAGE = ROOT / "docs" / "algorithms" / "papers.md"


def rows():
    """Return every line of the four tables: what, Python, study, test."""
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    return [row for row in cells if len(row) == 4 and row[0].strip("| ") != "named in the paper"]


ROWS = rows()


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_tests_exist(row):
    (named,) = re.findall(r"`([^`]+)`", row[3])
    path, _, name = named.partition("::")
    text = (ROOT / path).read_text()
    assert not name or f"def {name}(" in text, named


def test_every_method_of_the_catalogue_is_named():
    named = {name for row in ROWS for name in re.findall(r'name = "([\w-]+)"', row[2])}
    assert named == set(CATALOGUE)


PROOFS = pages()


@pytest.mark.parametrize("page", PROOFS, ids=lambda page: page.stem)
def test_what_a_proof_names_exists(page):
    code = code_of(page)
    tests = re.findall(r"`((?:research/)?tests/[\w/]+\.py)`", page.read_text())
    assert code, "a proof names the code that it is about"
    assert tests, "a proof names the tests that check it"
    for path in [*code, *(ROOT / name for name in tests)]:
        assert path.is_file(), path


def test_every_theorem_that_the_code_names_has_a_page():
    named = set()
    for module in [path for each in SOURCES.values() for path in each.rglob("*.py")]:
        named |= set(re.findall(r"docs/proofs/(\w+)\.md", module.read_text()))
    assert named
    assert named <= {page.stem for page in PROOFS}


@pytest.mark.parametrize("page", PROOFS, ids=lambda page: page.stem)
def test_code_changes_only_together_with_a_look_at_its_proof(page):
    then, now = json.loads(RECORD.read_text()).get(page.stem, {}), cited(page)
    changed = sorted(name for name in then.keys() | now.keys() if then.get(name) != now.get(name))
    assert not changed, (
        f"{page.name} is about {', '.join(changed)}: read it again, then: "
        f"python -m benchmarks.proofs {page.stem}"
    )


PINNED = re.compile(r"^([A-Za-z0-9_.-]+)==([^\s;\\]+)", re.MULTILINE)


def _pins(name: str) -> dict[str, str]:
    found = PINNED.findall((ROOT / name).read_text())
    return {re.sub(r"[-_.]+", "-", one).lower(): version for one, version in found}


@pytest.mark.parametrize("name", ["party", "build"])
def test_locked_versions_are_the_tested_ones(name):
    locked, tested = _pins(f"locks/{name}.txt"), _pins("constraints.txt")
    assert locked
    assert {one: tested.get(one) for one in locked} == locked, "run: make lock"


def test_everything_that_a_party_needs_is_locked():
    needed = []
    for folder, extras in {"": ("sql",), "federation": ("dashboard",)}.items():
        project = tomllib.loads((ROOT / folder / "pyproject.toml").read_text())["project"]
        needed += project["dependencies"]
        needed += [one for name in extras for one in project["optional-dependencies"][name]]
    names = {re.split(r"[^A-Za-z0-9_.-]", one)[0].lower() for one in needed} - {"confrere"}
    assert names <= _pins("locks/party.txt").keys(), "run: make lock"


@pytest.mark.parametrize("name", ["locks/party.txt", "locks/build.txt", "constraints.txt"])
def test_no_registry_is_named(name):
    assert "://" not in (ROOT / name).read_text()


def test_every_file_has_a_hash():
    text = (ROOT / "locks/party.txt").read_text()
    for entry in re.split(r"\n(?=[A-Za-z0-9])", text.strip()):
        assert "--hash=sha256:" in entry


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
