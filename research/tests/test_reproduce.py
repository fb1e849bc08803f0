"""The quick form of items that need no external data gives what it gave before."""

import subprocess
import sys

import pytest

from confrere_research import run_item
from confrere_research.results import differences


@pytest.fixture(scope="module")
def one_branch(tmp_path_factory):
    out = tmp_path_factory.mktemp("one-branch")
    return out, run_item("T2-simulated", quick=True, out=out, n_jobs=2)


def test_one_simulated_branch(one_branch):
    _, records = one_branch
    # Which variant is better is for the whole item to say: two repeats cannot.
    assert differences("T2-simulated", records) == {}


def test_the_second_run_only_reads(one_branch):
    out, records = one_branch
    command = [sys.executable, "-m", "confrere_research", "reproduce"]
    again = subprocess.run(
        [*command, "T2-simulated", "--quick", "--out", out],
        capture_output=True,
        text=True,
        check=True,
    )
    assert f"{len(records)}/{len(records)}" in again.stderr
    lines = (out / "records" / "T2-simulated.jsonl").read_text().splitlines()
    assert len(lines) == len(records)
