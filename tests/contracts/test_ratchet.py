"""Limits only go down, and a count above its limit is found."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks import ratchet  # noqa: E402

SMALL = "from confrere.release import pages\nfrom typing import Any\n\n\n"
HEAVY = (
    f"def heavy({', '.join(f'a{k}: Any' for k in range(9))}):\n" + "    if a0:\n        pass\n" * 30
)


@pytest.fixture
def house(tmp_path):
    for room, text in {"audit": SMALL + HEAVY, "release": "import os\n"}.items():
        folder = tmp_path / "src" / "confrere" / room
        folder.mkdir(parents=True)
        (folder / "__init__.py").write_text("")
        (folder / "pages.py").write_text(text)
    (tmp_path / "src" / "confrere" / "errors.py").write_text("X = 1\n")
    return tmp_path


def git(folder, *words):
    who = [
        "-c",
        "user.name=a",
        "-c",
        "user.email=a@example.org",
        "-c",
        "protocol.file.allow=always",
    ]
    subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True)


def commit(folder, **limits):
    text = "[lines]\n" + "".join(f"{name} = {limit}\n" for name, limit in limits.items())
    (folder / "benchmarks").mkdir(exist_ok=True)
    (folder / ratchet.LIMITS).write_text(text)
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "limits")


def test_what_is_counted(house):
    counts = dict(ratchet.weights(house)) | dict(ratchet.shapes(house))
    assert counts["lines.audit"] == 65
    assert counts["lines.modules"] == 1
    assert counts["lines.src"] == 67
    assert counts["functions.over_60_lines"] == counts["functions.over_8_arguments"] == 1
    assert counts["functions.over_complexity_12"] == 1
    assert counts["words.Any"] == 9
    assert counts["rooms.pairs_that_import"] == 1


def test_a_count_above_its_limit_and_a_room_without_one_fail():
    limits = {"lines.audit": 10, "lines.kernel": 4000}
    assert ratchet.exceeded({"lines.audit": 10}, limits) == []
    assert "is 11, and its limit 10" in ratchet.exceeded({"lines.audit": 11}, limits)[0]
    assert "lines.new has no limit" in ratchet.exceeded({"lines.new": 1}, limits)[0]


def test_a_raised_limit_fails_however_many_commits_follow(house):
    git(house, "init", "-q")
    for limit in (10, 8, 9):
        commit(house, audit=limit)
    commit(house, audit=9, release=5)
    history = ratchet.earlier(house)
    assert len(history) == 4
    assert "of lines.audit is 9, and was 8" in ratchet.raised({"lines.audit": 9}, history)[0]
    assert ratchet.raised({"lines.audit": 8, "lines.release": 4, "lines.new": 7}, history) == []
