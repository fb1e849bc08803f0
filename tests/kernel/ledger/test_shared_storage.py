"""Whether one restored volume puts back a ledger and its witness together."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from confrere.files import shared_storage


def test_folders_of_one_mount_are_put_back_together(tmp_path):
    assert shared_storage(tmp_path / "books", tmp_path / "not there" / "yet") == "mount"


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
