"""Files that are no ledger, disks that are full or shared, and who may read."""

import errno
import fcntl
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from confrere.errors import LedgerError, NotALedger
from confrere.files import shared_storage
from confrere.kernel import ledger as logfile
from confrere.kernel.ledger import Row
from confrere.ledger import Ledger


class TestWhatIsNoLedger:
    @pytest.mark.parametrize(
        ("place", "told"),
        [
            (".", "not a file"),
            ("missing/books.ledger", "its folder must exist"),
            ("/proc/books.ledger", "cannot be created"),
        ],
    )
    def test_a_place_where_none_can_be(self, tmp_path, place, told):
        with pytest.raises(NotALedger, match=told):
            Ledger(tmp_path / place)

    @pytest.mark.parametrize("number", [1, 4])
    def test_a_ledger_of_another_format(self, path, number):
        genesis = Row.sealed("genesis", {"format": number, "ledger_id": "x"}, after=None)
        path.write_bytes(genesis.line)
        with pytest.raises(NotALedger, match=f"format {number}"):
            Ledger(path)


class TestWhatCannotBeWritten:
    @pytest.mark.parametrize("room", [0, 1, 50])
    def test_a_full_disk_spends_nothing(self, ledger, path, tenth, monkeypatch, room):
        write = os.write
        content = path.read_bytes()

        def cramped(descriptor, data):
            free = len(content) + room - os.lseek(descriptor, 0, os.SEEK_CUR)
            if free <= 0:
                raise OSError(errno.ENOSPC, "No space left on device")
            return write(descriptor, data[:free])

        monkeypatch.setattr(os, "write", cramped)
        with pytest.raises(LedgerError, match=r"nothing was spent .*No space left"):
            ledger.charge("study", tenth, purpose="fit")
        monkeypatch.undo()
        assert path.read_bytes() == content
        ledger.charge("study", tenth, purpose="fit")
        assert ledger.verify() == 3

    def test_a_disk_that_does_not_confirm_gives_no_receipt(self, ledger, tenth, monkeypatch):
        def lose(descriptor):
            raise OSError(errno.EIO, "Input/output error")

        monkeypatch.setattr(os, "fdatasync", lose)
        with pytest.raises(LedgerError, match="did not confirm"):
            ledger.charge("study", tenth, purpose="fit")
        monkeypatch.undo()
        assert ledger.spent("study") == 0.1, "what may be on disk counts"
        assert ledger.verify() == 3

    @pytest.mark.parametrize("kind", ["nfs4", "cifs", "virtiofs", "fuse.sshfs"])
    def test_a_file_system_of_several_machines(self, path, one_account, monkeypatch, kind):
        path.write_bytes(one_account)
        monkeypatch.setattr(logfile, "file_system", lambda device: kind)
        with pytest.raises(NotALedger, match=f"lies on {kind}, whose locks do not hold"):
            Ledger(path)

    def test_a_file_that_is_put_in_its_place_while_it_is_opened(self, ledger, tmp_path):
        """Attack: rows of one ledger would go into another, which its own caps do not see."""
        (tmp_path / "other").write_bytes(ledger.path.read_bytes())
        other = logfile._identity(tmp_path / "other")
        with pytest.raises(NotALedger, match="replaced"):
            logfile._opened(ledger.path, other, logfile.Pages)

    def test_a_file_system_without_locks(self, ledger, tenth, monkeypatch):
        def refuse(descriptor, how):
            raise OSError(errno.ENOLCK, "No locks available")

        monkeypatch.setattr(fcntl, "flock", refuse)
        with pytest.raises(NotALedger, match="cannot lock it"):
            ledger.charge("study", tenth, purpose="fit")


class TestFile:
    def test_only_the_owner_may_read_it(self, path):
        old = os.umask(0)
        try:
            Ledger(path)
        finally:
            os.umask(old)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600

    def test_a_charge_waits_for_the_disk_once(self, ledger, tenth, monkeypatch):
        synced = []
        monkeypatch.setattr(os, "fdatasync", synced.append)
        ledger.charge("study", tenth, purpose="fit", key="k")
        assert len(synced) == 1
        ledger.charge("study", tenth, purpose="fit", key="k")
        assert len(synced) == 2, "whoever was first may have been killed before the disk had it"
        Ledger().charge(None, tenth, purpose="fit")
        ledger.spent("study")
        assert len(synced) == 2

    def test_a_ledger_held_by_another_is_waited_for_then_refused(
        self, ledger, path, tenth, monkeypatch
    ):
        monkeypatch.setattr(logfile, "BUSY_SECONDS", 0.05)
        with path.open("rb") as other:
            fcntl.flock(other, fcntl.LOCK_EX)
            with pytest.raises(LedgerError, match="another process held it"):
                ledger.charge("study", tenth, purpose="fit")
            with pytest.raises(LedgerError, match="another process held it"):
                ledger.spent("study")
        ledger.charge("study", tenth, purpose="fit")
        assert ledger.spent("study") == 0.1


def _run(script, **environment: str):
    finished = subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return finished.stdout.strip()


FORKED = """
import os, sys
from confrere.ledger import Ledger
from confrere.kernel.guarantee import Guarantee
ledger = Ledger()
child = os.fork()
if child == 0:
    ledger.charge(None, Guarantee(0.1), purpose="fit")
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
assert ledger.spent() == 0.1
print(ledger.path)
"""
POOLED = """
import multiprocessing
from confrere.ledger import Ledger
def work(queue):
    queue.put(str(Ledger().path))
processes = multiprocessing.get_context("fork")
queue = processes.Queue()
worker = processes.Process(target=work, args=(queue,))
worker.start()
print(queue.get())
worker.join()
"""


@pytest.mark.parametrize("script", [FORKED, POOLED])
def test_it_goes_with_its_process_and_not_with_a_child(script):
    path = Path(_run(script))
    assert path.name == "ephemeral.ledger"
    assert not path.parent.exists()


def test_another_file_system_is_another_place(tmp_path):
    shm = Path("/dev/shm")
    if not shm.is_dir() or shm.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("there is no second file system here")
    assert shared_storage(tmp_path, shm) is None


def test_two_volumes_of_one_disk_are_two_mounts(tmp_path):
    """As containers have them: the same device, each put back by itself."""
    if os.getuid() != 0 or sys.platform != "linux":
        pytest.skip("a mount needs root")
    for name in ("disk a", "disk b", "books", "seen elsewhere"):
        (tmp_path / name).mkdir()
    program = (
        "from pathlib import Path; from confrere.files import shared_storage; "
        "print(shared_storage(Path('books'), Path('seen elsewhere') / 'deep'))"
    )
    script = (
        "mount --bind 'disk a' books && mount --bind 'disk b' 'seen elsewhere' && "
        f'{sys.executable} -c "{program}"'
    )
    words = ["unshare", "--mount", "sh", "-ec", script]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
    if "unshare" in done.stderr or "mount:" in done.stderr:
        pytest.skip("the system allows no mounts here")
    assert done.stdout.strip() == "device", done.stderr
