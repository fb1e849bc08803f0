"""Numbers from records: every point of a figure, and what it was when last looked at."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray

from confrere_research.cell_records import Record, Value
from confrere_research.spec import load_spec


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
    repeats : tuple of float
        Every repeat, in their order: what two points are compared by.
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
    repeats: tuple[float, ...]
    flips: int
    branches: tuple[float, ...]
    branch_sd: tuple[float, ...]
    seconds: float

    @property
    def standard_error(self) -> float:
        """Of the mean."""
        return self.sd / math.sqrt(self.n)

    @property
    def said(self) -> str:
        """The mean, with what repeats differ by where there are some."""
        return f"{self.mean:.4f} ± {self.sd:.4f}" if self.n > 1 else f"{self.mean:.4f}"


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
    ordered = sorted(records, key=lambda record: record.cell.repeat)
    table = np.array([np.atleast_1d(_value(record, metric)) for record in ordered], np.float64)
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
        repeats=tuple(map(float, repeats)),
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


#: Seeds fix the noise, so only rounding may differ between machines.
TOLERANCE = 0.005


def frozen_items() -> list[str]:
    """Return the items that have expected results."""
    folder = files("confrere_research") / "expected"
    return sorted(path.name.removesuffix(".json") for path in folder.iterdir())


def frozen(item: str) -> dict[str, float]:
    """Return an item's expected means by the name of their point."""
    path = files("confrere_research") / "expected" / f"{item}.json"
    means: dict[str, float] = json.loads(path.read_text("utf-8"))
    return means


def freeze(item: str, records: Sequence[Record]) -> str:
    """Return the text of ``expected/<item>.json`` for the records of a quick run."""
    points = summarise(records, load_spec(item).metric)
    return json.dumps({point_name(p): round(p.mean, 4) for p in points}, indent=1) + "\n"


def differences(item: str, records: Sequence[Record]) -> dict[str, tuple[float, float]]:
    """Return the points that differ from what is expected: expected and found."""
    expected = frozen(item)
    found = {point_name(p): p.mean for p in summarise(records, load_spec(item).metric)}
    missing = float("nan")
    return {
        name: (expected.get(name, missing), found.get(name, missing))
        for name in {**expected, **found}
        if not abs(expected.get(name, missing) - found.get(name, missing)) <= TOLERANCE
    }


def point_name(point: Point) -> str:
    """Return a readable name of a point."""
    where = [f"{point.method} ({point.variant})"]
    if point.epsilon is not None:
        where.append(f"epsilon {point.epsilon:g}")
    if point.setting is not None:
        where.append(f"setting {point.setting:g}")
    return ", ".join(where)
