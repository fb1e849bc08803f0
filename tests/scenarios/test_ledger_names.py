"""One file, one cap, whatever the file is called by those who spend."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from pathlib import Path

import pytest

from confrere.errors import BudgetExceeded
from confrere.kernel.guarantee import Guarantee
from confrere.ledger import Ledger

CAP = 2.0
FITTING = 20  # charges of 0.1
PROCESSES = 8
TRIES = 6

forks = pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")


def spend(path, gate, answers):
    ledger = Ledger(path)
    granted = 0
    gate.wait()
    for _ in range(6):
        try:
            ledger.charge("study", Guarantee(0.1), purpose="fit")
            granted += 1
        except BudgetExceeded:
            continue
    answers.put(granted)


def granted_to_all(names):
    """Let eight processes spend at once, each by one of the names; return how often it went."""
    context = multiprocessing.get_context("fork")
    gate, answers = context.Barrier(PROCESSES, timeout=30), context.Queue()
    children = [
        context.Process(target=spend, args=(names[number % len(names)], gate, answers), daemon=True)
        for number in range(PROCESSES)
    ]
    for child in children:
        child.start()
    granted = sum(answers.get(timeout=60) for _ in children)
    for child in children:
        child.join(60)
    assert [child.exitcode for child in children] == [0] * PROCESSES
    return granted


def made(folder):
    first, second = folder / "here" / "books.ledger", folder / "there" / "other.ledger"
    first.parent.mkdir(parents=True)
    second.parent.mkdir()
    Ledger(first).open_account("study", epsilon=CAP)
    return first, second


def check(first, granted):
    ledger = Ledger(first)
    assert granted == FITTING
    assert ledger.spent("study") == CAP
    assert ledger.verify() == FITTING + 2


@forks
@pytest.mark.parametrize("link", [os.link, os.symlink], ids=["hard link", "symlink"])
def test_two_names_share_the_cap(tmp_path, link):
    for number in range(TRIES):
        first, second = made(tmp_path / str(number))
        link(first, second)
        check(first, granted_to_all([first, second]))


@forks
def test_a_name_made_while_others_spend_shares_the_cap(tmp_path):
    first, second = made(tmp_path)
    own = Ledger(first)
    own.charge("study", Guarantee(1.0), purpose="fit")
    os.link(first, second)
    other = Ledger(second)
    other.charge("study", Guarantee(0.9), purpose="fit")
    for ledger in (own, other):
        with pytest.raises(BudgetExceeded):
            ledger.charge("study", Guarantee(0.2), purpose="fit")
    assert own.spent("study") == other.spent("study") == 1.9


def _namespaces():
    command = ["unshare", "--user", "--map-root-user", "--mount", "true"]
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


@pytest.mark.skipif(not _namespaces(), reason="the system gives no mount namespace")
def test_a_file_mounted_by_itself_shares_the_cap(tmp_path):
    """As `docker run -v file:file` does: one inode, and nothing beside it is the same."""
    script = f"""
import subprocess, sys
from pathlib import Path
sys.path.insert(0, {str(Path(__file__).parent)!r})
from test_ledger_names import TRIES, check, granted_to_all, made
for number in range(TRIES):
    first, second = made(Path({str(tmp_path)!r}) / str(number))
    second.touch()
    subprocess.run(["mount", "--bind", str(first), str(second)], check=True)
    assert first.stat().st_ino == second.stat().st_ino and second.stat().st_nlink == 1
    check(first, granted_to_all([first, second]))
print(TRIES)
"""
    finished = subprocess.run(
        ["unshare", "--user", "--map-root-user", "--mount", sys.executable, "-c", script],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert (finished.stdout, finished.returncode) == (f"{TRIES}\n", 0), finished.stderr
