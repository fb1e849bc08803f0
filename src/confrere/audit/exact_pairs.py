"""The exact loss of a classifier's release between two given data sets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

from confrere.audit.bulk import prepared
from confrere.audit.pairs import Pair
from confrere.mechanisms.terms import (
    Density,
    NoisedPoint,
    PerturbedObjectiveTerm,
    PerturbedSoftmaxTerm,
)

Floats = NDArray[np.float64]

#: Random starting points of the search around each data set's own minimiser.
_STARTS = 40


def loss_on_pair(target: Any, pair: Pair, seed: int) -> float:
    """Return the largest log ratio, over all releases, in the worse direction.

    Releases with noise of their own add up; of one that is a norm around a point the largest
    ratio is known, and for a perturbed objective it is searched for.
    """
    first, second = (_terms(target, data) for data in (pair.first, pair.second))
    totals = [0.0, 0.0]
    for one, other in zip(first, second, strict=True):
        if isinstance(one, NoisedPoint):
            loss = one.loss(other)  # type: ignore[arg-type]
            totals = [total + loss for total in totals]
        else:
            ratios = (_largest(one, other, sign, seed) for sign in (1.0, -1.0))  # type: ignore[arg-type]
            totals = [total + ratio for total, ratio in zip(totals, ratios, strict=True)]
    return max(totals)


def _terms(target: Any, data: Mapping[str, Any]) -> list[Density]:
    """Return what a classifier noises, made by its own scaling, clipping and splits."""
    plan, records = prepared(target, data)
    return [density for term in plan.terms(records) for density in term.densities()]


def _largest(
    first: PerturbedObjectiveTerm | PerturbedSoftmaxTerm,
    second: PerturbedObjectiveTerm | PerturbedSoftmaxTerm,
    sign: float,
    seed: int,
) -> float:
    """Return the largest log ratio, first over second times ``sign``, over weights."""

    def ratio(w: Floats) -> float:
        return sign * (first.log_density(w) - second.log_density(w))

    starts = [first.minimiser(), second.minimiser()]
    generator = np.random.default_rng(seed)
    away = [
        start + 10 ** generator.uniform(-1, 1.5) * generator.normal(size=first.size)
        for start in starts
        for _ in range(_STARTS)
    ]
    candidates = sorted([*starts, *away], key=ratio)[-3:]
    return max(_climb(ratio, start) for start in candidates)


def _climb(ratio: Callable[[Floats], float], start: Floats) -> float:
    def fall(w: Floats) -> float:
        return -ratio(w)

    climbed = optimize.fmin(fall, start, maxiter=200 * len(start), disp=False)
    return max(ratio(np.asarray(climbed)), ratio(start))
