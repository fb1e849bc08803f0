"""Run what has no record yet, in parallel, and write every result down as it comes."""

from __future__ import annotations

import importlib.metadata
import platform
import time
import warnings
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import groupby
from pathlib import Path

from joblib import Parallel, delayed, parallel_config
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from confrere_research.cell_records import Record, append_records, read_records, records_path
from confrere_research.methods import METHODS, Run
from confrere_research.problems import make_problem
from confrere_research.spec import Cell, Spec, load_spec, load_specs


def run_item(
    item: str,
    *,
    quick: bool = False,
    out: Path | str = "confrere-out",
    n_jobs: int = 2,
    fresh: bool = False,
) -> list[Record]:
    """Run one item and return its records; cells that have one are not run again.

    Parameters
    ----------
    item : str
        ``"S1"`` and so on; see :func:`load_specs`.
    quick : bool, default=False
        Fewer repeats.
    out : path, default="confrere-out"
        Records go to ``records/`` in it, one file per item.
    n_jobs : int, default=2
        Processes.
    fresh : bool, default=False
        Run every cell again; old lines stay in the file, newer ones count.

    Returns
    -------
    list of Record
        One per cell of the item, quick or whole.
    """
    return run_items([item], quick=quick, out=out, n_jobs=n_jobs, fresh=fresh)[item]


def run_all(
    *, quick: bool = False, out: Path | str = "confrere-out", n_jobs: int = 2, fresh: bool = False
) -> dict[str, list[Record]]:
    """Run every item; see :func:`run_item`."""
    return run_items(list(load_specs()), quick=quick, out=out, n_jobs=n_jobs, fresh=fresh)


def run_items(
    items: Sequence[str],
    *,
    quick: bool = False,
    out: Path | str = "confrere-out",
    n_jobs: int = 2,
    fresh: bool = False,
) -> dict[str, list[Record]]:
    """Run several items under one progress display; see :func:`run_item`."""
    specs = [load_spec(item) for item in items]
    wanted = {spec.item: [spec.key(cell) for cell in spec.cells(quick=quick)] for spec in specs}
    with _progress() as progress:
        for spec in specs:
            path = records_path(Path(out), spec.item)
            done = set() if fresh else {record.key for record in read_records(path)}
            batches = list(_batches(spec, spec.cells(quick=quick), done))
            task = progress.add_task(spec.item, total=len(wanted[spec.item]))
            progress.advance(task, len(wanted[spec.item]) - sum(map(len, batches)))
            for records in _computed(spec, batches, n_jobs):
                append_records(path, records)
                progress.advance(task, len(records))
    found = {
        spec.item: {r.key: r for r in read_records(records_path(Path(out), spec.item))}
        for spec in specs
    }
    return {item: [found[item][key] for key in keys] for item, keys in wanted.items()}


def _batches(spec: Spec, cells: Iterable[Cell], done: set[str]) -> Iterable[list[Cell]]:
    """Yield cells that share data and method, so that a worker prepares the data once."""
    missing = (cell for cell in cells if spec.key(cell) not in done)
    for _, batch in groupby(missing, key=lambda cell: (cell.repeat, cell.method, cell.variant)):
        yield list(batch)


def _computed(spec: Spec, batches: Sequence[list[Cell]], n_jobs: int) -> Iterable[Sequence[Record]]:
    if n_jobs == 1 or len(batches) < 2:
        yield from (_run_batch(spec, batch) for batch in batches)
        return
    with warnings.catch_warnings(), parallel_config("loky", inner_max_num_threads=1):
        # A worker keeps its last data sets, which looks like a leak: it is replaced, nothing lost.
        warnings.filterwarnings("ignore", message="A worker stopped while", category=UserWarning)
        yield from Parallel(n_jobs=n_jobs, return_as="generator_unordered")(
            delayed(_run_batch)(spec, batch) for batch in batches
        )


def _run_batch(spec: Spec, cells: Sequence[Cell]) -> list[Record]:
    return [_run_cell(spec, cell) for cell in cells]


def _run_cell(spec: Spec, cell: Cell) -> Record:
    problem = make_problem(spec.problem, spec.data_of(cell), cell.repeat)
    run = Run(epsilon=cell.epsilon, seed=cell.seed, options=spec.options_of(cell))
    start = time.process_time()
    values = METHODS[spec.method_of(cell).run](problem, run)
    seconds = time.process_time() - start
    return Record(cell, spec.key(cell), cell.seed, values, round(seconds, 4), versions())


@cache
def versions() -> dict[str, str]:
    """Return the versions that a record carries."""
    packages = ("confrere", "numpy", "scipy", "scikit-learn")
    found = {"python": platform.python_version()}
    for package in packages:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = "not installed"
    return found


def _progress() -> Progress:
    return Progress(
        TextColumn("{task.description:>3}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True),
    )
