"""A public partition of rows into cells: clusters of public rows without labels.

A row of anybody lies in one of them. What is known of private rows is then one number per cell and
class, their share of all rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Labels = NDArray[np.intp]

#: Cells are found along so many directions; more are mostly noise to distances.
_DIRECTIONS = 20

#: Directions with less than this share of the largest variance are left out.
_FLATTEST = 1e-3

#: Squared mean length of a half-white row, to which the ridges of models belong.
_LENGTH = 20.0

#: Distances are compared on a grid this fine, so that ties are ties on every machine.
_GRID = 2.0**-30

_ROUNDS = 100


@dataclass(frozen=True, eq=False)
class Cells:
    """A row lies in the cell of the largest ``directions @ x + offset``; a tie is for the first.

    Parameters
    ----------
    directions : (k, d) array
    offsets : (k,) array
    """

    directions: Floats
    offsets: Floats

    def __len__(self) -> int:
        return len(self.offsets)

    def of(self, rows: Floats) -> Labels:
        """Return the cell of every row; whatever the numbers are, it is one of them."""
        with np.errstate(all="ignore"):
            return np.asarray(np.argmax(rows @ self.directions.T + self.offsets, axis=1))


@dataclass(frozen=True, eq=False)
class HalfWhite:
    """Public rows, their principal directions half-way to the same spread.

    As they are, a few directions decide every score; white, those of noise count as much as those
    of structure. A direction of standard deviation s is divided by the square root of s. Cells are
    found in the widest directions made white, so that no unit of a column decides them.

    Parameters
    ----------
    rows : (N, d) array
        Public rows.
    centred : bool
        Whether rows are taken from their mean, and a model may have an intercept.
    """

    rows: Floats
    centred: bool

    @cached_property
    def mean(self) -> Floats:
        """What is subtracted."""
        return self.rows.mean(axis=0) if self.centred else np.zeros(self.rows.shape[1])

    @cached_property
    def turn(self) -> Floats:
        """The ``(d, c)`` map to half-white coordinates, widest direction first."""
        values, vectors = self._directions
        return np.asarray(vectors / values**0.25 * math.sqrt(_LENGTH / np.sqrt(values).sum()))

    @cached_property
    def _white(self) -> Floats:
        """The map to the widest directions, made white."""
        values, vectors = self._directions
        return np.asarray((vectors / np.sqrt(values))[:, :_DIRECTIONS])

    @cached_property
    def _directions(self) -> tuple[Floats, Floats]:
        away = self.rows - self.mean
        values, vectors = np.linalg.eigh(away.T @ away / len(away))
        kept = values > max(_FLATTEST * values[-1], 1e-12)
        if not kept.any():  # all rows are the same
            return np.ones(1), np.zeros((self.rows.shape[1], 1))
        return values[kept][::-1], vectors[:, kept][:, ::-1]

    @cached_property
    def stretches(self) -> tuple[Floats, Floats]:
        """What half-white coordinates are multiplied by: nothing, or to see rows as they are."""
        values, _ = self._directions
        plain = values**0.25 * math.sqrt(np.sqrt(values).sum() / values.sum())
        return np.ones(len(values)), plain

    def coordinates(self, rows: Floats) -> Floats:
        """Return rows in the half-white coordinates."""
        return np.asarray((rows - self.mean) @ self.turn)

    def cells(self, count: int) -> Cells:
        """Return a partition into ``count`` cells at most, each with some of the public rows.

        Means of clusters (k-means from a fixed start), turned into what tells them apart.
        """
        centres = _k_means((self.rows - self.mean) @ self._white, count)
        directions = 2 * centres @ self._white.T
        return Cells(directions, -(centres**2).sum(axis=1) - directions @ self.mean)

    def explained(self, cells: Cells) -> float:
        """Return the share of the public rows' spread that lies between cells, not within them."""
        points = (self.rows - self.mean) @ self._white
        middle = points.mean(axis=0)
        spread = float(((points - middle) ** 2).sum())
        places = cells.of(self.rows)
        sizes = np.bincount(places, minlength=len(cells))
        sums = _sums_by(places, points, len(cells))
        means = sums / np.maximum(sizes, 1)[:, None] - middle
        return float((sizes @ means**2).sum()) / spread if spread > 0 else 1.0


def _k_means(points: Floats, count: int) -> Floats:
    """Return at most ``count`` centres.

    The start is drawn by a fixed seed: far rows are likely (k-means++), and of a few drawn the one
    is taken that leaves the least distance in all.
    """
    rng = np.random.default_rng(0)
    scale = max(float(np.abs(points).max()), 1e-300)
    centres = points[[int(rng.integers(len(points)))]]
    nearest = _distances(points, centres, scale)[:, 0]
    tries = 2 + int(math.log(count))
    for draws in rng.uniform(size=(min(count, len(points)) - 1, tries)):
        if not nearest.any():
            break  # every row is a centre already
        drawn = np.searchsorted(np.cumsum(nearest), draws * nearest.sum(), side="right")
        tried = points[np.minimum(drawn, len(points) - 1)]
        left = np.minimum(nearest[:, None], _distances(points, tried, scale))
        best = int(left.sum(axis=0).argmin())
        centres, nearest = np.vstack([centres, tried[best]]), left[:, best]
    places = None
    for _ in range(_ROUNDS):
        found = _distances(points, centres, scale).argmin(axis=1)
        if places is not None and np.array_equal(found, places):
            break
        places = found
        sizes = np.bincount(places, minlength=len(centres))
        sums = _sums_by(places, points, len(centres))
        centres = sums[sizes > 0] / sizes[sizes > 0][:, None]
        if not sizes.all():
            places = None
    return centres


def _distances(points: Floats, centres: Floats, scale: float) -> Floats:
    """Return squared distances in units of ``scale``, on a grid."""
    points, centres = points / scale, centres / scale
    squares = (points**2).sum(axis=1)[:, None] + (centres**2).sum(axis=1)
    return np.asarray(np.rint(np.maximum(squares - 2 * points @ centres.T, 0.0) / _GRID))


def _sums_by(places: Labels, values: Floats, count: int) -> Floats:
    """Return the sums of the rows of ``values`` over each of ``count`` places."""
    columns = [np.bincount(places, weights=column, minlength=count) for column in values.T]
    return np.stack(columns, axis=1)
