"""Audit anything that turns data and randomness into arrays."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray

from confrere.assurance.audit.events import Event, Reduce, best_event, epsilon_lower_bound
from confrere.assurance.audit.pairs import Pair, as_pairs
from confrere.assurance.audit.result import AuditResult, Key, Records
from confrere.errors import InvalidData, InvalidParameter
from confrere.views import progress_bar

Sample = Callable[[Any, int, np.random.Generator], NDArray[np.float64]]
Half = Literal["choose", "count"]

#: Runs of one batch: what a worker does between two records.
BATCH = 2_500


def audit_function(
    sample: Sample,
    pair: Pair | Sequence[Pair],
    *,
    claimed: float | None = None,
    delta: float = 0.0,
    statistic: Reduce | None = None,
    runs: int = 20_000,
    confidence: float = 0.999,
    random_state: int = 0,
    n_jobs: int | None = None,
    records: str | os.PathLike[str] | None = None,
    progress: bool = True,
    label: str | None = None,
    batch: int = BATCH,
) -> AuditResult:
    """Bound the epsilon of ``sample`` from below.

    One half of the runs chooses a pair and an event, the other half counts it: the bound holds at
    ``confidence`` however many pairs and events were tried.

    Parameters
    ----------
    sample : callable
        ``sample(data, count, generator)`` returns ``count`` independent outputs on ``data``, an
        array of shape ``(count, k)``. With ``n_jobs`` it must be picklable.
    pair : Pair or sequence of Pair
        Neighbouring data sets; made up, never real ones.
    claimed : float, optional
        What is promised.
    delta : float, default=0.0
        The claim's delta.
    statistic : callable, optional
        From outputs ``(count, k)`` to one number per run; by default several are tried.
    runs : int, default=20000
        Per data set, both halves together.
    confidence : float, default=0.999
        Of the bound.
    random_state : int, default=0
        The runs are a function of it; the same for any ``n_jobs``.
    n_jobs : int, optional
        As in joblib.
    records : path-like, optional
        JSON-lines file of finished batches: an audit that was stopped goes on from there.
    progress : bool, default=True
        Show a bar, if there is a terminal or a notebook to show it on.
    label : str, optional
        What is audited, in one line: part of what ``records`` is checked against.
    batch : int, default=2500
        Runs between two records.
    """
    pairs = as_pairs(pair)
    if not 0 < confidence < 1:
        raise InvalidParameter("confidence must lie strictly between 0 and 1.")
    counting = runs // 2
    choosing = max(counting // len(pairs), 2)
    if counting < 2:
        raise InvalidParameter("runs must be at least 4.")
    settings = {
        "label": label or getattr(sample, "__qualname__", type(sample).__name__),
        "pairs": [each.name for each in pairs],
        "runs": runs,
        "random_state": random_state,
        "batch": batch,
    }
    book = Records(records, settings)
    total = 2 * (len(pairs) * choosing + counting)
    with progress_bar("audit", total, shown=progress) as step:
        runner = _Runner(sample, book, random_state, n_jobs, batch, step)
        chosen: tuple[Event, int] | None = None
        for number, each in enumerate(pairs):
            first, second = runner.run(each, number, "choose", choosing)
            event = best_event(
                first, second, confidence=confidence, delta=delta, statistic=statistic
            )
            if chosen is None or event.promise > chosen[0].promise:
                chosen = event, number
        assert chosen is not None
        event, number = chosen
        outputs = runner.run(pairs[number], number, "count", counting)
    sides = [np.asarray(event.reduce(side)) for side in outputs]
    likely, rare = sides[::-1] if event.swapped else sides
    hits, other = event.hits(likely), event.hits(rare)
    bound = epsilon_lower_bound(hits, other, counting, confidence=confidence, delta=delta)
    return AuditResult(
        epsilon=float(bound),
        claimed=claimed,
        confidence=confidence,
        delta=delta,
        runs=choosing + counting,
        pair=pairs[number].name,
        event=str(event),
        likely=(hits, counting),
        rare=(other, counting),
        values=(likely, rare),
        threshold=event.threshold,
        above=event.above,
    )


@dataclass
class _Runner:
    """Batches of runs: those on record are read, the others run and recorded."""

    sample: Sample
    book: Records
    seed: int
    n_jobs: int | None
    batch: int
    step: Callable[[int], None]
    done: int = 0

    def run(
        self, pair: Pair, number: int, half: Half, count: int
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the outputs on both data sets of a pair, ``(count, k)`` each."""
        sizes = [min(self.batch, count - start) for start in range(0, count, self.batch)]
        jobs: list[tuple[Key, object, int, tuple[int, ...]]] = [
            ((pair.name, side, half, part), data, size, (number, which, half == "count", part))
            for which, (side, data) in enumerate((("first", pair.first), ("second", pair.second)))
            for part, size in enumerate(sizes)
        ]
        missing = [job for job in jobs if job[0] not in self.book.finished]
        self._advance(2 * count - sum(job[2] for job in missing))
        workers = Parallel(n_jobs=self.n_jobs, return_as="generator_unordered")
        for key, outputs in workers(
            delayed(_run_batch)(self.sample, key, data, size, self.seed, spawn)
            for key, data, size, spawn in missing
        ):
            self.book.add(key, outputs)
            self._advance(len(outputs))
        first, second = (
            np.vstack([self.book.finished[job[0]] for job in jobs if job[0][1] == side])
            for side in ("first", "second")
        )
        return first, second

    def _advance(self, count: int) -> None:
        self.done += count
        self.step(self.done)


def _run_batch(
    sample: Sample, key: Key, data: object, size: int, seed: int, spawn: tuple[int, ...]
) -> tuple[Key, NDArray[np.float64]]:
    sequence = np.random.SeedSequence(seed, spawn_key=tuple(int(part) for part in spawn))
    outputs = np.asarray(sample(data, size, np.random.default_rng(sequence)), dtype=np.float64)
    outputs = outputs.reshape(len(outputs), -1)
    if len(outputs) != size or not np.all(np.isfinite(outputs)):
        raise InvalidData("sample must return one row of finite numbers per run.")
    return key, outputs
