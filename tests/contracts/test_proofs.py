"""Proof pages are pinned to the code and the tests that they name."""

import json
import re
from pathlib import Path

import pytest

from benchmarks.proofs import RECORD, SOURCES, cited, code_of, pages

ROOT = Path(__file__).parents[2]
PAGES = pages()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
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
    assert named <= {page.stem for page in PAGES}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_code_changes_only_together_with_a_look_at_its_proof(page):
    then, now = json.loads(RECORD.read_text()).get(page.stem, {}), cited(page)
    changed = sorted(name for name in then.keys() | now.keys() if then.get(name) != now.get(name))
    assert not changed, (
        f"{page.name} is about {', '.join(changed)}: read it again, then: "
        f"python -m benchmarks.proofs {page.stem}"
    )
