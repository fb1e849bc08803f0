"""Numbers from records: mean, spread, flips and time of every point of a figure."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from confrere.experiments.records import Record, Value


@dataclass(frozen=True)
class Point:
    """One point of a figure: a method at one epsilon and setting, over all repeats.

    Attributes
    ----------
    item, method, variant, epsilon, setting
        As in :class:`Cell`.
    metric : str
        What was measured.
    mean, sd, median, lowest : float
        Over repeats, each the mean over its branches.
    n : int
        Repeats.
    flips : int
        Repeats (of all branches) with an AUC below one half; 0 for other metrics.
    branches : tuple of float
        Mean of every branch, if there are branches.
    branch_sd : tuple of float
        Their standard deviations over repeats.
    seconds : float
        Mean CPU seconds of a repeat.
    """

    item: str
    method: str
    variant: str
    epsilon: float | None
    setting: float | None
    metric: str
    mean: float
    sd: float
    median: float
    lowest: float
    n: int
    flips: int
    branches: tuple[float, ...]
    branch_sd: tuple[float, ...]
    seconds: float

    @property
    def standard_error(self) -> float:
        """Of the mean."""
        return self.sd / math.sqrt(self.n)


def summarise(records: Iterable[Record], metric: str = "auc") -> list[Point]:
    """Return one point per method, variant, epsilon and setting, in order of appearance."""
    groups: dict[tuple[str, str, str, float | None, float | None], list[Record]] = {}
    for record in records:
        cell = record.cell
        place = (cell.item, cell.method, cell.variant, cell.epsilon, cell.setting)
        groups.setdefault(place, []).append(record)
    return [_point(place, found, metric) for place, found in groups.items()]


def _point(
    place: tuple[str, str, str, float | None, float | None], records: list[Record], metric: str
) -> Point:
    # One row per repeat, one column per branch.
    table = np.array([np.atleast_1d(_value(record, metric)) for record in records], np.float64)
    repeats: NDArray[np.float64] = table.mean(axis=1)
    spread = _sd(table)
    branched = table.shape[1] > 1
    return Point(
        *place,
        metric=metric,
        mean=float(repeats.mean()),
        sd=float(_sd(repeats[:, None])[0]),
        median=float(np.median(repeats)),
        lowest=float(repeats.min()),
        n=len(records),
        flips=int(np.count_nonzero(table < 0.5)) if metric == "auc" else 0,
        branches=tuple(map(float, table.mean(axis=0))) if branched else (),
        branch_sd=tuple(map(float, spread)) if branched else (),
        seconds=float(np.mean([record.seconds for record in records])),
    )


def _value(record: Record, metric: str) -> Value:
    return record.seconds if metric == "seconds" else record.values[metric]


def _sd(table: NDArray[np.float64]) -> NDArray[np.float64]:
    if len(table) < 2:
        return np.zeros(table.shape[1])
    return np.asarray(table.std(axis=0, ddof=1))
