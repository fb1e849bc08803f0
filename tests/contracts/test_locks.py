"""What is installed by its hash is what is tested, and names nobody's registry."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
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
