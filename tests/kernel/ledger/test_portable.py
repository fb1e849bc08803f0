"""What a data scientist does where POSIX is not: no ``fcntl``, no forks, locks of Windows."""

import subprocess
import sys

import pytest

from confrere import Ledger
from confrere.kernel.ledger import lock

#: As on Windows: what POSIX alone has is gone before anything of confrere is imported, folders
#: cannot be opened, and a byte is locked where the descriptor stands, by whoever has it open.
WINDOWS = """
import errno, fcntl, os, stat, struct, sys, types
import multiprocessing.util, pathlib, shutil, signal, subprocess, tempfile, uuid
import numpy, pyarrow.dataset, rich.console, scipy.optimize, scipy.sparse, scipy.stats
import sklearn.linear_model, cryptography.hazmat.primitives.ciphers, narwhals, pydantic, jinja2

def locking(descriptor, mode, count):
    place = os.lseek(descriptor, 0, os.SEEK_CUR)
    kind = {"take": fcntl.F_WRLCK, "free": fcntl.F_UNLCK}[mode]
    asked = struct.pack("hhqqi4x", kind, os.SEEK_SET, place, count, 0)
    try:
        posix(descriptor, fcntl.F_OFD_SETLK, asked)
    except BlockingIOError:
        raise PermissionError(errno.EACCES, "Permission denied") from None

def opened(path, flags, *rest, **more):
    if os.path.isdir(path):
        raise PermissionError(errno.EACCES, "Permission denied")
    return real(path, flags, *rest, **more)

real, posix = os.open, fcntl.fcntl
os.open = opened
for name in ("register_at_fork", "fork", "pread", "pwrite", "fdatasync", "O_CLOEXEC", "O_NOFOLLOW",
             "O_NONBLOCK", "getuid", "geteuid", "major", "minor"):
    delattr(os, name)
sys.modules["msvcrt"] = types.SimpleNamespace(locking=locking, LK_NBLCK="take", LK_UNLCK="free")
sys.modules["fcntl"] = None
sys.platform = "win32"
"""

FIT = (
    WINDOWS
    + """
import numpy as np
import confrere
from confrere.errors import BudgetExceeded
from confrere.release import verify_release

ledger = confrere.Ledger("books.ledger")
ledger.open_account("patients", epsilon=2.0)
X = np.random.default_rng(0).normal(size=(300, 3)) / 4
model = confrere.PrivateLogisticRegression(epsilon=1.0, budget=ledger["patients"], data_norm=2.0)
model.fit(X, (X[:, 0] > 0).astype(int))
folder = model.to_release().save("release")
found = verify_release(folder, ledgers=[confrere.Ledger("books.ledger")])
assert (found.release.model.predict_proba(X) == model.predict_proba(X)).all()
assert (ledger.entries()[0].state, ledger.verify()) == ("released", 4)
try:
    confrere.PrivateLogisticRegression(epsilon=1.5, budget=ledger["patients"]).fit(X, X[:, 0] > 0)
except BudgetExceeded:
    print(ledger.spent("patients"), sorted(os.listdir(".")))

from confrere.errors import EngineFailed
from confrere_federation.progress import private
try:
    with private(pathlib.Path("party"), "party"):
        pass
except EngineFailed as error:
    print(error)
"""
)

#: Many small charges; then a payment that is drawn for until somebody says so.
CHARGES = (
    WINDOWS
    + """
import contextlib, confrere
from confrere.errors import BudgetExceeded
from confrere.kernel.ledger import held

book, paid = confrere.Ledger("books.ledger"), 0
with held(book.path, int(sys.argv[1])):
    print("ready", flush=True)
    sys.stdin.readline()
    for _ in range(30):
        with contextlib.suppress(BudgetExceeded):
            book.charge("patients", confrere.Guarantee(0.1), purpose="x")
            paid += 1
    print(paid, flush=True)
    sys.stdin.readline()
"""
)


@pytest.fixture
def started(tmp_path, monkeypatch):
    """Processes of that kind, in a folder of theirs; none stays."""
    monkeypatch.setenv("CONFRERE_WITNESS", str(tmp_path / "witness"))
    running = []

    def start(script, *words):
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        command = [sys.executable, "-c", script, *words]
        running.append(subprocess.Popen(command, cwd=tmp_path, text=True, **pipes))
        return running[-1]

    yield start
    for one in running:
        one.kill()
        one.communicate()


def test_a_fit_is_paid_for_released_and_verified(started):
    told, error = started(FIT).communicate()
    assert told == (
        "1.0 ['books.ledger', 'release', 'witness']\n"
        "a party runs on Linux or macOS; models are fitted on Windows, too.\n"
    ), error


def test_a_cap_holds_and_what_a_row_stands_for_is_one_process_s(started, tmp_path):
    book = Ledger(tmp_path / "books.ledger")
    book.open_account("patients", epsilon=3.0)
    first, second = started(CHARGES, "7"), started(CHARGES, "8")
    for one in (first, second):
        assert one.stdout.readline() == "ready\n"
    with book.path.open("rb+") as file, pytest.raises(BlockingIOError):
        lock(file.fileno(), 7)  # on Linux that is the same byte
    for one in (first, second):
        one.stdin.write("go\n")
        one.stdin.flush()
    assert sum(int(one.stdout.readline()) for one in (first, second)) == 30
    assert Ledger(book.path).spent("patients") == 3.0
    first.kill()
    first.wait()
    with book.path.open("rb+") as file:
        lock(file.fileno(), 7)
        with pytest.raises(BlockingIOError):
            lock(file.fileno(), 8)
