"""Which event tells two data sets apart, and what its counts say about epsilon.

An event is chosen on one half of the runs and counted on the other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from confrere.arrays import Floats

Reduce = Callable[[Floats], Floats]

#: Coordinates of the output that are tried one by one.
_COORDINATES = 12

#: Shares of the runs at which events are cut: the middle evenly, the tails geometrically.
_TAIL = np.geomspace(1e-4, 0.02, 12)
_LEVELS = np.concatenate([_TAIL, np.linspace(0.025, 0.975, 77), 1 - _TAIL[::-1]])


def lower_probability(hits: ArrayLike, trials: int, risk: float) -> NDArray[np.float64]:
    """Return Clopper and Pearson's lower limit; it is above the truth with chance ``risk``."""
    k = np.asarray(hits, dtype=np.float64)
    limit = special.betaincinv(np.maximum(k, 1), trials - k + 1, risk)
    return np.where(k > 0, limit, 0.0)


def upper_probability(hits: ArrayLike, trials: int, risk: float) -> NDArray[np.float64]:
    """Return Clopper and Pearson's upper limit; it is below the truth with chance ``risk``."""
    k = np.asarray(hits, dtype=np.float64)
    return 1 - lower_probability(trials - k, trials, risk)


def epsilon_lower_bound(
    # ``hits``, ``other_hits``: how often the event was seen on ``D`` and on ``D'``.
    hits: ArrayLike,
    other_hits: ArrayLike,
    trials: int,  # Number of runs on each
    *,
    confidence: float,  # Of the bound, for an event that was fixed before these runs
    delta: float = 0.0,  # What the claim concedes
) -> NDArray[np.float64]:
    """Return an epsilon that the truth exceeds with probability ``confidence``."""
    risk = (1 - confidence) / 2
    likely = np.maximum(lower_probability(hits, trials, risk) - delta, 0.0)
    rare = upper_probability(other_hits, trials, risk)
    with np.errstate(divide="ignore"):
        return np.asarray(np.maximum(np.log(likely) - np.log(rare), 0.0))


def attainable(
    epsilon: float,  # What is promised
    trials: int,  # Counting runs on each data set, half of what an audit makes
    *,
    confidence: float = 0.999,  # Of the bound
) -> float:
    """Return the bound to expect of randomised response, which tells most at an ``epsilon``."""
    right = round(trials / (1 + math.exp(-epsilon)))
    bound = epsilon_lower_bound(right, trials - right, trials, confidence=confidence)
    return float(bound)


@dataclass(frozen=True)
class Event:
    """``statistic > threshold`` (or ``<=``), expected more often on one data set."""

    name: str  #: The statistic in words
    reduce: Reduce  #: From outputs, one row per run, to one number per run
    threshold: float  #: Where it is cut
    above: bool  #: Whether the event is the part above the threshold
    swapped: bool  #: Whether the event is the more likely one on the second data set
    promise: float  #: The bound on epsilon that the runs it was chosen on would give

    def __str__(self) -> str:
        return f"{self.name} {'>' if self.above else '<='} {self.threshold:.4g}"

    def hits(self, values: Floats) -> int:
        """Count the runs in which it happened, from the statistic's values."""
        above = int(np.count_nonzero(values > self.threshold))
        return above if self.above else len(values) - above


def best_event(
    first: Floats,
    second: Floats,
    *,
    confidence: float,
    delta: float = 0.0,
    statistic: Reduce | None = None,
) -> Event:
    """Return the event with the largest bound on these runs, over statistics and thresholds."""
    named = [("statistic", statistic)] if statistic is not None else _statistics(first, second)
    best = None
    for name, reduce in named:
        a, b = reduce(first), reduce(second)
        cuts = np.unique(np.quantile(np.concatenate([a, b]), _LEVELS, method="lower"))
        over = [len(v) - np.searchsorted(np.sort(v), cuts, side="right") for v in (a, b)]
        for above in (True, False):
            hits = over if above else [len(a) - count for count in over]
            for swapped in (False, True):
                likely, rare = hits[::-1] if swapped else hits
                bounds = epsilon_lower_bound(
                    likely, rare, len(a), confidence=confidence, delta=delta
                )
                k = int(np.argmax(bounds))
                if best is None or bounds[k] > best.promise:
                    best = Event(name, reduce, float(cuts[k]), above, swapped, float(bounds[k]))
    assert best is not None
    return best


def _statistics(first: Floats, second: Floats) -> Iterator[tuple[str, Reduce]]:
    """Yield what is tried without being told; directions are learned from these runs."""
    spread = np.vstack([first, second]).std(axis=0)
    varying = np.flatnonzero(spread > 0)
    if not varying.size:
        varying, spread = np.arange(first.shape[1]), np.ones(first.shape[1])
    shift = np.abs(np.median(first, axis=0) - np.median(second, axis=0))
    order = varying[np.argsort(-shift[varying] / spread[varying], kind="stable")]
    for j in order[:_COORDINATES]:
        yield f"output {j}", partial(np.take, indices=int(j), axis=1)
    # A density with a peak, as noise of too few shares has, shows where it stands.
    for name, outputs in (("first", first), ("second", second)):
        yield f"distance from the {name} centre", _distance(outputs, order[:1])
    if len(varying) > 1:
        for name, reduce in _SUMMARIES.items():
            yield name, _restricted(reduce, varying)
        # Noise that parts share falls out of some difference or sum of them, which this finds.
        yield "linear discriminant", _discriminant(first, second, varying)
        yield from _agreements(first, second, order, shift / np.where(spread > 0, spread, 1.0))
        yield "distances", _distances(first, second, varying)
        # Noise of a norm is told apart best by what all of its coordinates do, and by them alone.
        for j in order[1:_COORDINATES]:
            both = np.array([order[0], j])
            yield f"distances in outputs {order[0]} and {j}", _distances(first, second, both)


def _restricted(reduce: Reduce, columns: NDArray[np.intp]) -> Reduce:
    return lambda outputs: reduce(outputs[:, columns])


_SUMMARIES: dict[str, Reduce] = {
    "smallest output": lambda w: np.asarray(w.min(axis=1)),
    "largest output": lambda w: np.asarray(w.max(axis=1)),
    "sum of the outputs": lambda w: np.asarray(w.sum(axis=1)),
    "number of positive outputs": lambda w: np.count_nonzero(w > 0, axis=1).astype(np.float64),
    "length of the outputs": lambda w: np.asarray(np.linalg.norm(w, axis=1)),
}


def _discriminant(first: Floats, second: Floats, columns: NDArray[np.intp]) -> Reduce:
    """Return the direction that separates the two clouds best, as Fisher's rule has it."""
    clouds = [outputs[:, columns] for outputs in (first, second)]
    within = np.mean([np.cov(cloud, rowvar=False) for cloud in clouds], axis=0)
    within += 1e-6 * np.diag(np.diag(within)) + np.finfo(np.float64).tiny * np.eye(len(columns))
    towards = clouds[0].mean(axis=0) - clouds[1].mean(axis=0)
    direction = np.linalg.lstsq(within, towards, rcond=None)[0]
    return lambda outputs: np.asarray(outputs[:, columns] @ direction)


def _agreements(
    first: Floats, second: Floats, order: NDArray[np.intp], moved: Floats
) -> Iterator[tuple[str, Reduce]]:
    """Yield whether all outputs that move agree, or any: best for noise that is drawn apart."""
    alike = order[moved[order] > 0.5 * moved[order[0]]]
    if len(alike) < 2:
        return
    centres = [np.median(outputs[:, alike], axis=0) for outputs in (first, second)]
    towards = np.sign(centres[0] - centres[1])
    scale = np.abs(centres[0] - centres[1])

    def moves(outputs: Floats) -> Floats:
        return np.asarray((outputs[:, alike] - centres[1]) * towards / scale)

    yield "least of the moved outputs", lambda outputs: np.asarray(moves(outputs).min(axis=1))
    yield "most of the moved outputs", lambda outputs: np.asarray(moves(outputs).max(axis=1))


def _distance(outputs: Floats, columns: NDArray[np.intp]) -> Reduce:
    centre = np.median(outputs[:, columns], axis=0)
    return lambda w: np.asarray(np.linalg.norm(w[:, columns] - centre, axis=1))


def _distances(first: Floats, second: Floats, columns: NDArray[np.intp]) -> Reduce:
    """Return how much nearer an output is to the second cloud's centre than to the first's."""
    centres = [np.median(outputs[:, columns], axis=0) for outputs in (first, second)]

    def reduce(outputs: Floats) -> Floats:
        far, near = (np.linalg.norm(outputs[:, columns] - centre, axis=1) for centre in centres)
        return np.asarray(far - near)

    return reduce
