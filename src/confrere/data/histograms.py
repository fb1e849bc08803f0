"""Columns as histograms over public cells, and cells that declared facts would give."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from confrere.arrays import Floats, Integers
from confrere.data.cells import Container
from confrere.data.encoding import frequencies
from confrere.data.features import CENTER, ZEROS, Category, Discrete, Feature, Number, Ordered

#: Knots of a number, in declared deviations from its declared mean; or so many, evenly.
_KNOTS = (-3.0, -2.0, -1.3, -0.7, -0.2, 0.2, 0.7, 1.3, 2.0, 3.0)
_EVENLY = 13


@dataclass(frozen=True)
class Histogram:
    """A column's histogram: which cells a vertex fills, in whole steps, and what cells are."""

    feature: Feature
    table: Integers  #: A row per vertex; every row has the same sum; the last cell is missing
    places: Floats | None  #: Where cells lie, of a number
    names: tuple[str, ...]  #: What cells are called, of values

    @classmethod
    def of(cls, feature: Feature, steps: int) -> Self:
        """Return that in which every record is so many steps; any cell of a table has a place."""
        if feature.missing is None:
            feature = replace(feature, missing=CENTER)
        if isinstance(feature, Category) and feature.unknown is None:
            feature = replace(feature, unknown=ZEROS)
        if isinstance(feature, Number):
            knots, at = _knots(feature), feature.raw(feature.points())
            right = np.clip(np.searchsorted(knots, at, side="right"), 1, len(knots) - 1)
            near = np.clip((at - knots[right - 1]) / (knots[right] - knots[right - 1]), 0.0, 1.0)
            part = np.rint(steps * near).astype(np.int64)
            table = np.zeros((feature.size, len(knots) + 1), dtype=np.int64)
            rows = np.arange(len(at))
            table[rows, right] = part
            table[rows, right - 1] += steps - part
            table[-1, -1] = steps
            return cls(feature, table, knots, ())
        assert isinstance(feature, Discrete)
        table = steps * np.eye(feature.size, dtype=np.int64)
        places = None
        if isinstance(feature, Ordered):
            ranks = feature.ranks()
            places = np.append(ranks, [np.nan] * (feature.size - 1 - len(ranks)))
        return cls(feature, table, places, value_names(feature))


def value_names(feature: Discrete) -> tuple[str, ...]:
    """Return what cells of declared values are called, and that of any other one."""
    names = [""] * (feature.size - 2)
    for value in feature.known:  # several values may share a cell
        cell = feature.vertex(value)
        names[cell] = f"{names[cell]}, {value}" if names[cell] else str(value)
    return (*(f"= {name}" for name in names), "other")


def _knots(feature: Number) -> Floats:
    low, high = feature.range()
    if feature.mean is None or feature.sd is None:
        return feature.raw(np.linspace(low, high, _EVENLY))
    inner = feature.mean + feature.sd * np.array(_KNOTS)
    kept = inner[(inner > low) & (inner < high)]
    return feature.raw(np.concatenate([[low], kept, [high]]))


def drawn_cells(feature: Feature, count: int, generator: np.random.Generator) -> Container:
    """Return so many cells of a column by its public facts alone."""
    often = frequencies(feature)[:-1]
    places = generator.choice(len(often), count, p=often / often.sum())
    if isinstance(feature, Number):
        return feature.raw(feature.points()[places])
    known = {feature.vertex(value): value for value in feature.known}
    return [known[place] for place in places.tolist()]
