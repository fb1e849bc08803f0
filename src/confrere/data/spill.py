"""Rows decoded once into a private file, and read from it by all passes and all workers.

A table of text, of compressed columns or of a database costs several times its arithmetic to
decode, so it is decoded once. The file is its owner's alone (mode 0600 in a folder of mode 0700),
room for it is looked for before it is written, and it is removed when nothing refers to it any
more. A kill leaves it behind; the next process that spills finds that its owner is gone, and
removes it.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import tempfile
import weakref
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confrere.errors import InvalidData

#: Bytes of a disk that are left to others.
_LEFT_FREE = 256 * 2**20


def spill_folder() -> Path:
    """Return where decoded rows are kept while a fit runs.

    It is what the environment variable ``CONFRERE_SPILL`` names: a fast disk that workers can read,
    if there are any. By default it is in the folder for temporary files.
    """
    chosen = os.environ.get("CONFRERE_SPILL")
    if chosen:
        return Path(chosen).expanduser().absolute()
    return Path(tempfile.gettempdir()) / f"confrere-spill-{os.getuid()}"


class SpillFolder:
    """A private folder of one process, marked as in use by a lock that a kill releases."""

    def __init__(self) -> None:
        above = spill_folder()
        try:
            above.mkdir(mode=0o700, parents=True, exist_ok=True)
            if above.stat().st_uid != os.getuid():
                raise PermissionError(errno.EPERM, "it belongs to somebody else")
            remove_leftovers(above)
            self.path = Path(tempfile.mkdtemp(prefix="rows-", dir=above))
            lock = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(lock, fcntl.LOCK_EX)
        except OSError as error:
            raise InvalidData(
                f"rows cannot be decoded into {above} ({error.strerror}); name a folder of your "
                "own in the environment variable CONFRERE_SPILL."
            ) from error
        self.remove = weakref.finalize(self, _remove, self.path, lock, os.getpid())

    def check_room(self, needed: int) -> None:
        """Refuse what the disk has no room for."""
        free = shutil.disk_usage(self.path).free - _LEFT_FREE
        if needed > free:
            raise InvalidData(
                f"decoded rows need {needed / 2**20:,.0f} MB and {self.path.parent} has "
                f"{max(0, free) / 2**20:,.0f} MB left; name a folder on a larger disk in the "
                "environment variable CONFRERE_SPILL."
            )

    def append(self, name: str, block: NDArray[Any], rows: int = 0) -> None:
        """Write more rows of a file, all of one type, if there is room for so many of them."""
        file = self.path / name
        if not file.exists():
            self.check_room(max(rows, len(block)) * block.nbytes // max(1, len(block)))
        try:
            with open(file, "ab", opener=lambda path, how: os.open(path, how, 0o600)) as opened:
                opened.write(np.ascontiguousarray(block).data)
        except OSError as error:
            raise InvalidData(
                f"decoded rows cannot be written ({error.strerror}); name a folder on a larger "
                "disk in the environment variable CONFRERE_SPILL."
            ) from error

    def keep(self, name: str, array: NDArray[Any]) -> MappedRows:
        """Return an array's copy in a file: for workers that do not share this memory."""
        step = max(1, 2**22 // max(1, array[:1].size))
        for start in range(0, len(array), step):
            self.append(name, array[start : start + step], len(array))
        return MappedRows(self.path / name, array.dtype, array.shape, self)

    def __reduce__(self) -> Any:
        # Workers read what the owner removes.
        return (type(None), ())


def remove_leftovers(above: Path) -> None:
    """Remove folders whose owners are gone: nobody holds their locks."""
    for folder in above.glob("rows-*"):
        with suppress(OSError):
            lock = os.open(folder / "lock", os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)


def _remove(folder: Path, lock: int, owner: int) -> None:
    # A forked child inherits the object, but not the right.
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)
        with suppress(OSError):
            os.close(lock)


class MappedRows:
    """Rows, or one number per row, in a file of raw numbers in C order: opened where they are read.

    The folder is kept as long as this is.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        dtype: Any,
        shape: tuple[int, ...],
        folder: SpillFolder | None = None,
    ) -> None:
        self.path, self.dtype = Path(path).absolute(), np.dtype(dtype)
        self.shape, self.width = shape, shape[-1]
        self._folder = folder
        self._map: NDArray[Any] | None = None
        self._stamp = file_stamp(self.path)
        if self._stamp[0] != self.dtype.itemsize * int(np.prod(shape, dtype=np.int64)):
            raise InvalidData(f"{self.path.name} does not have the size of such rows.")

    @property
    def array(self) -> NDArray[Any]:
        """The rows as an array, whose pages the system reads when they are touched."""
        if self._map is None:
            try:
                if file_stamp(self.path) != self._stamp:
                    raise InvalidData(f"{self.path.name} changed since it was opened.")
                mapped = np.memmap(self.path, dtype=self.dtype, mode="r", shape=self.shape)
            except OSError as error:
                raise InvalidData(
                    f"{self.path.name} cannot be read here ({error.strerror}): workers need the "
                    "folder that CONFRERE_SPILL names."
                ) from error
            self._map = np.asarray(mapped)
        return self._map

    def __getitem__(self, part: Any) -> NDArray[Any]:
        return np.asarray(self.array[part])

    def __len__(self) -> int:
        return self.shape[0]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return self.array

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_map": None, "_folder": None}


def file_stamp(path: Path) -> tuple[int, int, int]:
    """Return what tells that a file was written to: its size, its time and which file it is."""
    try:
        found = path.stat()
    except OSError as error:
        raise InvalidData(f"{path.name} cannot be read ({error.strerror}).") from error
    return found.st_size, found.st_mtime_ns, found.st_ino


def watched(X: Any) -> Callable[[], None] | None:
    """Return what refuses the rows of a memory map if its file was written to meanwhile."""
    while isinstance(X, np.ndarray) and not hasattr(X, "filename"):
        X = X.base
    if getattr(X, "filename", None) is None:
        return None
    file = Path(X.filename)
    stamp = file_stamp(file)

    def check() -> None:
        if file_stamp(file) != stamp:
            raise InvalidData(
                f"{file.name} was written to while its rows were read: nothing is released, and "
                "what was charged stays charged."
            )

    return check
