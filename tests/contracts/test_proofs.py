"""Proof pages are pinned to the code and the tests that they name."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted(page for page in (ROOT / "docs" / "proofs").glob("*.md") if page.stem != "index")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_what_a_proof_names_exists(page):
    text = page.read_text()
    code = re.findall(r"`(confrere/[\w/]+\.py)`", text)
    tests = re.findall(r"`(tests/[\w/]+\.py)`", text)
    assert code, "a proof names the code that it is about"
    assert tests, "a proof names the tests that check it"
    for path in [*(ROOT / "src" / name for name in code), *(ROOT / name for name in tests)]:
        assert path.is_file(), path


def test_every_theorem_that_the_code_names_has_a_page():
    named = set()
    for module in (ROOT / "src").rglob("*.py"):
        named |= set(re.findall(r"docs/proofs/(\w+)\.md", module.read_text()))
    assert named
    assert named <= {page.stem for page in PAGES}
