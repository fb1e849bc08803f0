"""The page of what the papers name: its classes, arguments, methods and tests exist, and all do."""

import ast
import inspect
import re
from pathlib import Path
from typing import Literal, get_args, get_origin, get_type_hints

import pytest

import confrere
from confrere import estimators, evaluation, planning, schema
from confrere.catalogue import CATALOGUE
from confrere.methods.design import Settings
from confrere_research import projections
from confrere_research.as_printed import multiparty, regression

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "algorithms" / "papers.md"
ROOMS = (confrere, projections, multiparty, regression, estimators, planning, evaluation, schema)


def rows():
    """Return every line of the four tables: what, Python, study, test."""
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    return [row for row in cells if len(row) == 4 and row[0].strip("| ") != "named in the paper"]


ROWS = rows()


def found(name):
    for room in ROOMS:
        if hasattr(room, name):
            return getattr(room, name)
    raise AssertionError(f"{name} is in no room")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_classes_and_their_arguments_exist(row):
    for code in re.findall(r"`([^`]+)`", row[1]):
        tree = ast.parse(code, mode="eval").body
        if isinstance(tree, ast.Attribute):
            assert hasattr(found(tree.value.id), tree.attr)
            continue
        kind = found(tree.func.id)
        known = inspect.signature(kind).parameters
        if kind is estimators.designed:
            known = Settings.__dataclass_fields__
        hints = get_type_hints(kind) if inspect.isclass(kind) else {}
        for keyword in tree.keywords:
            assert keyword.arg in known, code
            hint = hints.get(keyword.arg)
            if get_origin(hint) is Literal:
                assert ast.literal_eval(keyword.value) in get_args(hint), code


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_tests_exist(row):
    (named,) = re.findall(r"`([^`]+)`", row[3])
    path, _, name = named.partition("::")
    text = (ROOT / path).read_text()
    assert not name or f"def {name}(" in text, named


def test_every_method_of_the_catalogue_is_named():
    named = {name for row in ROWS for name in re.findall(r'name = "([\w-]+)"', row[2])}
    assert named == set(CATALOGUE)
