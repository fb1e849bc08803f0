"""Who computes the partitions of one organisation's rows: one loop, threads, or a cluster.

All give the same bits: partitions are public functions of the shape, and their sums are added in
order by whoever asked. A worker that dies is replaced by another, or by the one who asked: the same
partition gives the same sum. Sums of partitions are not protected by noise; the cluster lies inside
one organisation, and what leaves it is what a mechanism releases.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from confrere.data.codes import Coded
from confrere.data.spill import SpillFolder
from confrere.errors import InvalidParameter
from confrere.extras import extra
from confrere.solver.row_blocks import BlockRows, Engine, Sums


class Threads:
    """Partitions by threads of this process, through joblib: as many, or one per processor."""

    def __init__(self, n_jobs: int | None = None) -> None:
        self.n_jobs = n_jobs or os.cpu_count() or 1

    def map(self, work: Callable[[int], Sums], parts: range) -> Iterable[Sums]:
        """Return what ``work`` gives for every partition, in order."""
        if len(parts) < 2:
            return map(work, parts)
        import joblib

        run = joblib.Parallel(n_jobs=self.n_jobs, require="sharedmem", return_as="generator")
        found: Iterable[Sums] = run(joblib.delayed(work)(number) for number in parts)
        return found

    def keep(self, data: Any) -> Any:
        """Return rows or labels as they are: threads see them."""
        return data

    def __deepcopy__(self, memo: dict[int, Any]) -> Threads:
        return self  # as scikit-learn's clone copies parameters


class DaskCluster:
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
        """Return what ``work`` gives for every partition, in order."""
        # A worker that dies gives its tasks back to the scheduler, which finds another one. If
        # none is left, or a task met too many deaths, it is done here: the sum is the same.
        futures = [self.client.submit(work, number, pure=False) for number in parts]
        for number, future in zip(parts, futures, strict=True):
            try:
                found = future.result()
            except Exception:  # whatever a cluster raises; what is wrong with the rows shows again
                found = work(number)
            yield found

    def keep(self, data: Any) -> Any:
        """Return rows or labels in a file that workers find."""
        known = self._kept.get(id(data))
        if known is None:
            # The data are kept beside their copy, so that no other object gets their identity.
            known = self._kept[id(data)] = (data, self._filed(data))
        return known[1]

    def _filed(self, data: Any) -> Any:
        name = f"kept-{len(self._kept)}"
        if isinstance(data, BlockRows) and data.sparse:
            raise InvalidParameter("engine: a cluster reads dense rows; leave it out for CSR.")
        if isinstance(data, BlockRows | Coded):
            return data.kept(self.keep)
        if isinstance(data, np.ndarray) and data.nbytes > 2**16:
            return self._folder.keep(name, data)
        return data

    def close(self) -> None:
        """Let go of the cluster, and stop it if it was started here."""
        self.client.close()
        if self._cluster is not None:
            self._cluster.close()
        self._kept.clear()
        self._folder.remove()

    def __deepcopy__(self, memo: dict[int, Any]) -> DaskCluster:
        return self  # as scikit-learn's clone copies parameters

    def __enter__(self) -> DaskCluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def check_engine(engine: Any, name: str) -> None:
    """Refuse what is no engine."""
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
        with DaskCluster(None if engine == "dask" else engine) as opened:
            yield opened
    else:
        yield engine
