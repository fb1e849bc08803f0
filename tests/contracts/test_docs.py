"""The documentation names every public thing, its links lead somewhere, its examples run."""

import doctest
import importlib
import re
from pathlib import Path

import pytest

import confrere
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
