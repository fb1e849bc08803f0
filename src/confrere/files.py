"""Files that are there whole or not at all, and on disk once they are there; and reads that end."""

from __future__ import annotations

import os
import re
import secrets
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Literal

from confrere.errors import InvalidData

#: Of a file: bytes, or what writes them.
Content = bytes | Callable[[IO[bytes]], object]


def write_new(path: Path, content: Content, *, mode: int = 0o600) -> None:
    """Make a file unless it is there: of two processes that make it at the same time, one does.

    Raises FileExistsError if it is there; it stays as it is.
    """
    with _drafted(path, content, mode) as draft:
        os.link(draft, path)
    flush_folder(path.parent)


def write_whole(path: Path, content: Content, *, mode: int = 0o600) -> None:
    """Write a file in place of what is there, of which nobody ever sees half."""
    with _drafted(path, content, mode) as draft:
        draft.replace(path)
    flush_folder(path.parent)


def read_plain(path: Path, most: int, *, links: bool = False) -> bytes | None:
    """Return what a regular file holds; None if it is none, or holds more.

    No link is followed unless ``links`` may be, and nothing is waited for: whoever made the folder
    may have put anything in the file's place.

    Raises OSError if it cannot be opened; that includes links that are not followed.
    """
    names = ("O_NONBLOCK",) if links else ("O_NONBLOCK", "O_NOFOLLOW")  # Windows: by is_symlink
    handle = os.open(path, os.O_RDONLY | sum(getattr(os, name, 0) for name in names))
    with os.fdopen(handle, "rb") as stream:
        regular = stat.S_ISREG(os.fstat(handle).st_mode) and (links or not path.is_symlink())
        content = stream.read(most + 1) if regular else b""
    return content if regular and len(content) <= most else None


def flush_folder(folder: Path) -> None:
    """Wait until the disk has the names of what is in a folder."""
    if sys.platform != "win32":  # which opens no folder, and writes names itself
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextmanager
def _drafted(path: Path, content: Content, mode: int) -> Iterator[Path]:
    """Have the content on disk under another name, which is gone afterwards."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            file.write(content) if isinstance(content, bytes) else content(file)
            file.flush()
            os.fsync(file.fileno())
        yield draft
    finally:
        draft.unlink(missing_ok=True)


def file_stamp(path: Path) -> tuple[int, int, int]:
    """Return what tells that a file was written to: its size, its time and which file it is."""
    try:
        found = path.stat()
    except OSError as error:
        raise InvalidData(f"{path.name} cannot be read ({error.strerror}).") from error
    return found.st_size, found.st_mtime_ns, found.st_ino


def mounts() -> list[tuple[str, Path, str]]:
    """Return device, place and file system of every mount, where the system tells."""
    try:
        lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
    halves = ([part.split(" ") for part in line.split(" - ", 1)] for line in lines)
    blank = partial(re.compile(r"\\([0-7]{3})").sub, lambda found: chr(int(found[1], 8)))
    return [(left[2], Path(blank(left[4])), right[0]) for left, right in halves]


def file_system(device: int) -> str | None:
    """Return the name of a device's file system, where the system tells."""
    told = ((os.makedev(*map(int, one.split(":"))), kind) for one, _, kind in mounts())
    return next((kind for one, kind in told if one == device), None)


def shared_storage(first: Path, second: Path) -> Literal["mount", "device"] | None:
    """Say what two folders, of a ledger and of its witness, have in common.

    On one mount, whoever puts back a volume puts back both, and nothing is noticed. Two mounts of
    one device (two volumes on a disk) are put back apart, but for a snapshot of all of it. A folder
    that is not there yet is where its nearest parent is.
    """
    first, second = (
        next(one for one in (each.absolute(), *each.absolute().parents) if one.exists())
        for each in (first, second)
    )
    if _mount_of(first) == _mount_of(second):
        return "mount"
    return "device" if first.stat().st_dev == second.stat().st_dev else None


def _mount_of(folder: Path) -> Path:
    """Return the mount point of a folder; on Linux mounts of one device differ by their place."""
    real = folder.resolve()
    inside = [one for _, one, _ in mounts() if real.is_relative_to(one)]
    inside = inside or [one for one in (real, *real.parents) if one.is_mount()]
    return max(inside, key=lambda one: len(one.parts))
