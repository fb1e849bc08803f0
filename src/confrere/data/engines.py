"""Who computes the partitions of one organisation's rows, and the files that workers share.

Engines are one loop, threads, or a cluster. All give the same bits: partitions are public functions
of the shape, and their sums are added in order by whoever asked. A worker that dies is replaced by
another, or by the one who asked: the same partition gives the same sum. Sums of partitions are not
protected by noise; the cluster lies inside one organisation, and what leaves it is what a mechanism
releases.

A file of rows is its owner's alone (mode 0600 in a folder of mode 0700), room for it is looked for
before it is written, and it is removed when nothing refers to it any more. A kill leaves it behind;
the next process that needs one finds that its owner is gone, and removes it.
"""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from confrere.arrays import Array
from confrere.data.cells import Coded
from confrere.errors import InvalidData, InvalidParameter
from confrere.extras import extra
from confrere.files import file_stamp
from confrere.kernel.ledger import lock
from confrere.solver.row_blocks import BlockRows, Engine, Sums

#: Bytes of a disk that are left to others.
_LEFT_FREE = 256 * 2**20

_ELSEWHERE = "name a folder on a larger disk in the environment variable CONFRERE_SPILL."


def spill_folder() -> Path:
    """Return the folder of such files: what the environment variable ``CONFRERE_SPILL`` names.

    That is a fast disk which workers can read. By default it is in the folder for temporary files.
    """
    chosen = os.environ.get("CONFRERE_SPILL")
    if chosen:
        return Path(chosen).expanduser().absolute()
    return Path(tempfile.gettempdir()) / f"confrere-spill-{getattr(os, 'getuid', int)()}"


class SpillFolder:
    """A private folder of one process, marked as in use by a lock that a kill releases."""

    def __init__(self) -> None:
        above = spill_folder()
        try:
            above.mkdir(mode=0o700, parents=True, exist_ok=True)
            if above.stat().st_uid != getattr(os, "getuid", int)():
                raise PermissionError(errno.EPERM, "it belongs to somebody else")
            _remove_leftovers(above)
            self.path = Path(tempfile.mkdtemp(prefix="rows-", dir=above))
            held = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT, 0o600)
            lock(held)
        except OSError as error:
            raise InvalidData(
                f"rows cannot be decoded into {above} ({error.strerror}); name a folder of your "
                "own in the environment variable CONFRERE_SPILL."
            ) from error
        self.remove = weakref.finalize(self, _remove, self.path, held, os.getpid())

    def append(self, name: str, block: Array, rows: int = 0) -> None:
        """Write more rows of a file, all of one type, if there is room for so many of them."""
        file = self.path / name
        if not file.exists():
            needed = max(rows, len(block)) * block.nbytes // max(1, len(block))
            free = max(0, shutil.disk_usage(self.path).free - _LEFT_FREE)
            if needed > free:
                raise InvalidData(
                    f"decoded rows need {needed / 2**20:,.0f} MB and {self.path.parent} has "
                    f"{free / 2**20:,.0f} MB left; {_ELSEWHERE}"
                )
            file.touch(mode=0o600)
        try:
            with file.open("ab") as opened:
                opened.write(np.ascontiguousarray(block).data)
        except OSError as error:
            raise InvalidData(
                f"decoded rows cannot be written ({error.strerror}); {_ELSEWHERE}"
            ) from error

    def keep(self, name: str, array: Array) -> MappedRows:
        """Return an array's copy in a file: for workers that do not share this memory."""
        step = max(1, 2**22 // max(1, array[:1].size))
        for start in range(0, len(array), step):
            self.append(name, array[start : start + step], len(array))
        return self.mapped(name, array.dtype, array.shape)

    def mapped(self, name: str, dtype: np.dtype[np.generic], shape: tuple[int, ...]) -> MappedRows:
        """Return what was written to a file, which stays as long as that is used."""
        return MappedRows(self.path / name, dtype, shape, self)


def _remove_leftovers(above: Path) -> None:
    """Remove folders whose owners are gone: nobody holds their locks."""
    for folder in above.glob("rows-*"):
        with suppress(OSError), (folder / "lock").open("r+b") as held:
            lock(held.fileno())
            shutil.rmtree(folder, ignore_errors=True)


def _remove(folder: Path, held: int, owner: int) -> None:
    # A forked child inherits the object, but not the right.
    if os.getpid() == owner:
        with suppress(OSError):
            os.close(held)
        shutil.rmtree(folder, ignore_errors=True)  # Windows removes nothing that is open


class MappedRows:
    """Rows, or one number per row, in a file in C order: opened where it is read.

    The folder is kept as long as this is.
    """

    def __init__(
        self,
        path: Path,
        dtype: np.dtype[np.generic],
        shape: tuple[int, ...],
        folder: SpillFolder | None = None,
    ) -> None:
        self.path, self.dtype, self.shape = path.absolute(), dtype, shape
        self._folder, self._stamp = folder, file_stamp(path)

    def __getitem__(self, part: slice | NDArray[np.intp]) -> Array:
        return np.asarray(self._map[part])

    def __len__(self) -> int:
        return self.shape[0]

    def __array__(self, dtype: object = None, copy: bool | None = None) -> Array:
        return self._map

    @cached_property
    def _map(self) -> Array:
        """Them as an array, whose pages the system reads when they are touched."""
        try:
            if file_stamp(self.path) != self._stamp:
                raise InvalidData(f"{self.path.name} changed since it was opened.")
            return np.asarray(np.memmap(self.path, dtype=self.dtype, mode="r", shape=self.shape))
        except OSError as error:
            raise InvalidData(
                f"{self.path.name} cannot be read here ({error.strerror}): workers need the "
                "folder that CONFRERE_SPILL names."
            ) from error

    def __getstate__(self) -> dict[str, object]:
        return {name: own for name, own in vars(self).items() if name != "_map"} | {"_folder": None}


def watched(X: object) -> Callable[[], None] | None:
    """Return what refuses the rows of a memory map if its file was written to meanwhile."""
    while isinstance(X, np.ndarray) and not hasattr(X, "filename"):
        X = X.base
    name = getattr(X, "filename", None)
    if name is None:
        return None
    file = Path(name)
    stamp = file_stamp(file)

    def check() -> None:
        if file_stamp(file) != stamp:
            raise InvalidData(
                f"{file.name} was written to while its rows were read: nothing is released, and "
                "what was charged stays charged."
            )

    return check


class _Shared:
    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        return self  # as scikit-learn's clone copies parameters


class Threads(_Shared):
    """Partitions by threads of this process, through joblib: as many, or one per processor."""

    def __init__(self, n_jobs: int | None = None) -> None:
        self.n_jobs = n_jobs or os.cpu_count() or 1

    def map(self, work: Callable[[int], Sums], parts: range) -> Iterable[Sums]:
        if len(parts) < 2:
            return map(work, parts)
        import joblib

        run = joblib.Parallel(n_jobs=self.n_jobs, require="sharedmem", return_as="generator")
        found: Iterable[Sums] = run(joblib.delayed(work)(number) for number in parts)
        return found

    def keep(self, data: Any) -> Any:
        """Return rows or labels as they are: threads see them."""
        return data


class DaskCluster(_Shared, AbstractContextManager["DaskCluster"]):
    """Partitions by the workers of a Dask cluster, which read the rows from a file.

    ``address`` is that of a scheduler, such as ``"tcp://10.0.0.5:8786"``; by default there is a
    cluster on this machine, of so many processes as ``workers``, or one per processor.
    """

    def __init__(self, address: str | None = None, workers: int | None = None) -> None:
        distributed: Any = extra("dask", "distributed")
        self._cluster: Any = None
        if address is None:
            self._cluster = distributed.LocalCluster(
                n_workers=workers or os.cpu_count() or 1,
                threads_per_worker=1,
                processes=True,
                dashboard_address=None,
            )
        self.client: Any = distributed.Client(self._cluster or address, set_as_default=False)
        self._folder = SpillFolder()
        self._kept: dict[int, tuple[Any, Any]] = {}

    def map(self, work: Callable[[int], Sums], parts: range) -> Iterator[Sums]:
        # A worker that dies gives its tasks back to the scheduler, which finds another one. If
        # none is left, or a task met too many deaths, it is done here: the sum is the same.
        futures = deque(self.client.submit(work, number, pure=False) for number in parts)
        for number in parts:
            try:
                found = futures.popleft().result()  # which workers then forget
            except Exception:  # whatever a cluster raises; what is wrong with the rows shows again
                found = work(number)
            yield found

    def keep(self, data: Any) -> Any:
        """Return rows or labels in a file that workers find."""
        if isinstance(data, BlockRows) and data.sparse:
            raise InvalidParameter("engine: a cluster reads dense rows; leave it out for CSR.")
        if isinstance(data, BlockRows | Coded):
            return data.kept(self.keep)
        if not isinstance(data, np.ndarray) or data.nbytes <= 2**16:
            return data
        if id(data) not in self._kept:
            # The data are kept beside their copy, so that no other object gets their identity.
            self._kept[id(data)] = data, self._folder.keep(f"kept-{len(self._kept)}", data)
        return self._kept[id(data)][1]

    def close(self) -> None:
        """Let go of the cluster, and stop it if it was started here."""
        self.client.close()
        if self._cluster is not None:
            self._cluster.close()
        self._kept.clear()
        self._folder.remove()

    def __exit__(self, *_: object) -> None:
        self.close()


def check_engine(engine: object, name: str) -> None:
    if engine is None or (hasattr(engine, "map") and hasattr(engine, "keep")):
        return
    words = engine.split("://")[0] if isinstance(engine, str) else ""
    if words in ("dask", "tcp", "tls"):
        extra("dask", "distributed")
    if words not in ("loop", "joblib", "dask", "tcp", "tls"):
        raise InvalidParameter(
            f"{name} must be 'loop', 'joblib', 'dask', the address of a Dask scheduler such as "
            "'tcp://host:8786', or an engine."
        )


@contextmanager
def opened_engine(engine: Any) -> Iterator[Engine | None]:
    """Give the engine of a fit, closed with it if it was opened for it."""
    check_engine(engine, "engine")
    if engine is None or engine == "loop":
        yield None
    elif engine == "joblib":
        yield Threads()
    elif isinstance(engine, str):
        with DaskCluster(None if engine == "dask" else engine) as cluster:
            yield cluster
    else:
        yield engine
