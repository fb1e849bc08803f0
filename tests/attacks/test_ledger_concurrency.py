"""However many spend at once, and from wherever: never over the cap, and nothing is forgotten."""

import multiprocessing
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from confrere.errors import BudgetExceeded
from confrere.kernel.guarantee import Guarantee
from confrere.ledger import Ledger

CAP = 2.0
FITTING = 20  # charges of 0.1

# Only newer versions of Python warn, and rightly so in general; the ledger holds forks back.
forks = pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")


def spend(ledger, tries):
    """Charge as often as it goes; return the rows paid."""
    rows = []
    for _ in range(tries):
        try:
            rows.append(ledger.charge("study", Guarantee(0.1), purpose="fit").row)
        except BudgetExceeded:
            continue
    return rows


def in_forked_children(function, count):
    """Call ``function(0)``, ``function(1)``, ... each in a child of its own, all at once."""
    context = multiprocessing.get_context("fork")
    pipes = [context.Pipe(duplex=False) for _ in range(count)]

    def report(number):
        pipes[number][1].send(function(number))

    children = [
        context.Process(target=report, args=(number,), daemon=True) for number in range(count)
    ]
    for child in children:
        child.start()
    for child in children:
        child.join(60)
    assert [child.exitcode for child in children] == [0] * count
    return [reader.recv() for reader, _ in pipes]


@pytest.fixture(params=["durable", "ephemeral"])
def ledger(request, tmp_path):
    ledger = Ledger(tmp_path / "books.ledger" if request.param == "durable" else None)
    ledger.open_account("study", epsilon=CAP)
    return ledger


def check_spent_exactly(ledger, paid):
    rows = sorted(row for rows in paid for row in rows)
    assert len(rows) == FITTING
    assert [entry.row for entry in ledger.entries()] == rows
    assert ledger.spent("study") == CAP
    assert ledger.left("study") == 0.0
    assert ledger.verify() == FITTING + 2


def test_threads_sharing_a_handle(ledger):
    with ThreadPoolExecutor(8) as pool:
        paid = list(pool.map(lambda _: spend(ledger, 6), range(8)))
    check_spent_exactly(ledger, paid)


def test_processes_started_afresh(ledger):
    script = """
import sys
from confrere.errors import BudgetExceeded
from confrere.ledger import Ledger, default_ledger
from confrere.kernel.guarantee import Guarantee
ledger = Ledger(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
for _ in range(30):
    try:
        print(ledger.charge("study", Guarantee(0.1), purpose="fit").row)
    except BudgetExceeded:
        pass
"""
    workers = [
        subprocess.Popen(
            [sys.executable, "-W", "error", "-c", script, str(ledger.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    for worker in workers:
        assert worker.stdout.readline() == "ready\n"
    for worker in workers:
        worker.stdin.write("go\n")
        worker.stdin.flush()
    paid = [[int(row) for row in worker.communicate()[0].split()] for worker in workers]
    assert [worker.returncode for worker in workers] == [0, 0]
    check_spent_exactly(ledger, paid)


@forks
def test_children_forked_while_threads_are_charging(ledger):
    """A fork in the middle of a charge must not confuse the child's locks with the parent's."""
    with ThreadPoolExecutor(3) as pool:
        threads = [pool.submit(spend, ledger, 4) for _ in range(3)]
        paid = in_forked_children(lambda _: spend(ledger, 3), 6)
    check_spent_exactly(ledger, paid + [thread.result() for thread in threads])


@forks
def test_makers_of_the_same_file_make_one(tmp_path):
    path = tmp_path / "books.ledger"

    def make(number):
        ledger = Ledger(path)
        ledger.open_account("study", epsilon=CAP)
        return ledger.charge("study", Guarantee(0.1), purpose=f"fit {number}").ledger_id

    assert len(set(in_forked_children(make, 6))) == 1
    assert Ledger(path).spent("study") == 0.6
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


# One file, one cap, whatever the file is called by those who spend.
TRIES = 6


def check_shared(names):
    """Let eight processes spend at once, each by one of the names."""
    paid = in_forked_children(lambda number: spend(Ledger(names[number % len(names)]), TRIES), 8)
    check_spent_exactly(Ledger(names[0]), paid)


def made(folder):
    first, second = folder / "here" / "books.ledger", folder / "there" / "other.ledger"
    first.parent.mkdir(parents=True)
    second.parent.mkdir()
    Ledger(first).open_account("study", epsilon=CAP)
    return first, second


@forks
@pytest.mark.parametrize("link", [os.link, os.symlink], ids=["hard link", "symlink"])
def test_two_names_share_the_cap(tmp_path, link):
    for number in range(TRIES):
        first, second = made(tmp_path / str(number))
        link(first, second)
        check_shared([first, second])


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
from test_ledger_concurrency import TRIES, check_shared, made
for number in range(TRIES):
    first, second = made(Path({str(tmp_path)!r}) / str(number))
    second.touch()
    subprocess.run(["mount", "--bind", str(first), str(second)], check=True)
    assert first.stat().st_ino == second.stat().st_ino and second.stat().st_nlink == 1
    check_shared([first, second])
print(TRIES)
"""
    finished = subprocess.run(
        ["unshare", "--user", "--map-root-user", "--mount", sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (finished.stdout, finished.returncode) == (f"{TRIES}\n", 0), finished.stderr


@forks
def test_a_key_asked_by_many_is_paid_once(ledger):
    def ask(_):
        receipt = ledger.charge("study", Guarantee(1.5), purpose="fit", key="round 1")
        return receipt.row, receipt.hash

    with ThreadPoolExecutor(4) as pool:
        answers = set(pool.map(ask, range(12)))
    answers |= set(in_forked_children(ask, 4))
    assert len(answers) == 1
    assert ledger.spent("study") == 1.5
