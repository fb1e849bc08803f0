"""Audit anything that turns data and randomness into arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray

from confrere.assurance.audit.events import Event, Reduce, best_event, epsilon_lower_bound
from confrere.assurance.audit.pairs import Pair, as_pairs
from confrere.assurance.audit.result import AuditResult
from confrere.errors import InvalidData, InvalidParameter
from confrere.views import progress_bar

Sample = Callable[[Any, int, np.random.Generator], NDArray[np.float64]]

#: Runs of one batch: what a worker does at once.
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
    progress: bool = True,
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
    progress : bool, default=True
        Show a bar, if there is a terminal or a notebook to show it on.
    batch : int, default=2500
        Runs of a worker at once.
    """
    pairs = as_pairs(pair)
    if not 0 < confidence < 1:
        raise InvalidParameter("confidence must lie strictly between 0 and 1.")
    counting = runs // 2
    choosing = max(counting // len(pairs), 2)
    if counting < 2:
        raise InvalidParameter("runs must be at least 4.")
    total = 2 * (len(pairs) * choosing + counting)
    with progress_bar("audit", total, shown=progress) as step:
        runner = _Runner(sample, random_state, n_jobs, batch, step)
        chosen: tuple[Event, int] | None = None
        for number, each in enumerate(pairs):
            first, second = runner.run(each, number, 0, choosing)
            event = best_event(
                first, second, confidence=confidence, delta=delta, statistic=statistic
            )
            if chosen is None or event.promise > chosen[0].promise:
                chosen = event, number
        assert chosen is not None
        event, number = chosen
        outputs = runner.run(pairs[number], number, 1, counting)
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
    """Batches of runs, by as many workers as there are."""

    sample: Sample
    seed: int
    n_jobs: int | None
    batch: int
    step: Callable[[int], None]
    done: int = 0

    def run(
        self,
        pair: Pair,
        number: int,
        half: int,  # That chooses an event, or that counts it
        count: int,
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the outputs on both data sets of a pair, ``(count, k)`` each."""
        sizes = [min(self.batch, count - start) for start in range(0, count, self.batch)]
        workers = Parallel(n_jobs=self.n_jobs, return_as="generator")
        sides = []
        for which, data in enumerate((pair.first, pair.second)):
            found = []
            for outputs in workers(
                delayed(_run_batch)(self.sample, data, size, (self.seed, number, which, half, part))
                for part, size in enumerate(sizes)
            ):
                found.append(outputs)
                self.done += len(outputs)
                self.step(self.done)
            sides.append(np.vstack(found))
        first, second = sides
        return first, second


def _run_batch(
    sample: Sample, data: object, size: int, spawn: tuple[int, ...]
) -> NDArray[np.float64]:
    seed, *key = spawn
    generator = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))
    outputs = np.asarray(sample(data, size, generator), dtype=np.float64)
    outputs = outputs.reshape(len(outputs), -1)
    if len(outputs) != size or not np.all(np.isfinite(outputs)):
        raise InvalidData("sample must return one row of finite numbers per run.")
    return outputs
