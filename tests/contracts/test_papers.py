"""The page of what the papers name: its classes, arguments, methods and tests exist, and all do."""

import re
from pathlib import Path

import pytest

from confrere.catalogue import CATALOGUE

ROOT = Path(__file__).parents[2]
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
