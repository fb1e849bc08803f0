"""Audit anything that turns data and randomness into arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray

from confrere.assurance.audit.events import Reduce, best_event, epsilon_lower_bound
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
    ran: list[int] = []
    with progress_bar("audit", 2 * (len(pairs) * choosing + counting), shown=progress) as step:

        def run(number: int, half: int, count: int) -> list[NDArray[np.float64]]:
            sizes = [min(batch, count - start) for start in range(0, count, batch)]
            found = []
            for outputs in Parallel(n_jobs=n_jobs, return_as="generator")(
                delayed(_run_batch)(sample, data, size, (random_state, number, which, half, part))
                for which, data in enumerate((pairs[number].first, pairs[number].second))
                for part, size in enumerate(sizes)
            ):
                found.append(outputs)
                ran.append(len(outputs))
                step(sum(ran))
            return [np.vstack(found[: len(sizes)]), np.vstack(found[len(sizes) :])]

        told: dict[str, Any] = {"confidence": confidence, "delta": delta, "statistic": statistic}
        found = [best_event(*run(k, 0, choosing), **told) for k in range(len(pairs))]
        number = max(range(len(pairs)), key=lambda k: found[k].promise)
        outputs = run(number, 1, counting)
    event = found[number]
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
