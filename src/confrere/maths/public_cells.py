"""A public partition of rows into cells, and a model of how classes share them.

Cells are found in public rows without labels; a row of anybody lies in one of them. What is known
of private rows is then one number per cell and class, their share of all rows, and a softmax model
is fitted to these shares: how many of the public rows of a cell it would give to each class.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, optimize, special

Floats = NDArray[np.float64]
Labels = NDArray[np.intp]

#: Cells are found along so many directions; more are mostly noise to distances.
_DIRECTIONS = 20

#: Directions with less than this share of the largest variance are left out.
_FLATTEST = 1e-3

#: Squared mean length of a half-white row, to which the ridges below belong.
_LENGTH = 20.0

#: The ridges that :func:`fit_shares` chooses from, on half-white rows, largest first.
RIDGES = (10.0, 3.0)

#: Ridge of the intercept, as a share of the others'.
_INTERCEPT = 1e-3

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


def fit_shares(
    rows: Floats,
    places: Labels,
    shares: Floats,
    variances: Floats,
    *,
    intercept: bool,
    ridges: Sequence[float] = RIDGES,
) -> tuple[Floats, float]:
    """Fit a softmax model to noised shares of cells and classes.

    Minimises ``sum (share - mean of the model's probabilities over the cell)^2 / (2 variance)``
    plus ``ridge ||W||^2``. Of several ridges the one is taken under which the shares are the most
    probable, by Laplace's approximation: they choose it themselves.

    Parameters
    ----------
    rows : (N, c) array
        Public rows, half-white.
    places : (N,) array
        Their cells.
    shares : (k, K) array
        Share of all rows that are in a cell and of a class; noised.
    variances : (k,) array
        Of a share, noise and sampling together.
    intercept : bool
        Whether the model has one.
    ridges : sequence of float
        To choose from, largest first.

    Returns
    -------
    weights : (K, c) or (K, c + 1) array
        Columns sum to zero; the last one is the intercept.
    ridge : float
    """
    fit = _ShareFit(rows, places, shares, variances, intercept)
    best, chosen, start = -math.inf, ridges[0], np.zeros(fit.size)
    found = start
    for ridge in ridges:
        start, value = fit.minimise(ridge, start)
        evidence = -value - 0.5 * fit.log_determinant(ridge, start)
        if evidence > best:
            best, chosen, found = evidence, ridge, start
    # Whoever computes it again, elsewhere, finds the same to seven digits.
    found, _ = fit.minimise(chosen, found, precise=True)
    return fit.weights(found), float(chosen)


class _ShareFit:
    def __init__(
        self, rows: Floats, places: Labels, shares: Floats, variances: Floats, intercept: bool
    ) -> None:
        order = np.argsort(places, kind="stable")
        ones = np.ones((len(rows), int(intercept)))
        self.Z = np.hstack([rows, ones])[order]
        self.places = places[order]
        present, self.starts = np.unique(self.places, return_index=True)
        # A cell without public rows: the model says nothing of it.
        self.seen = np.searchsorted(present, self.places)
        self.shares, self.roots = shares[present], np.sqrt(variances[present])[:, None]
        n_classes = shares.shape[1]
        self.basis = linalg.helmert(n_classes).T  # columns sum to zero
        self.penalty = np.ones(self.Z.shape[1])
        if intercept:
            self.penalty[-1] = _INTERCEPT
        self.size = (n_classes - 1) * self.Z.shape[1]

    def weights(self, point: Floats) -> Floats:
        return np.asarray(self.basis @ point.reshape(-1, self.Z.shape[1]))

    def _probabilities(self, point: Floats) -> Floats:
        return np.asarray(special.softmax(self.Z @ self.weights(point).T, axis=1))

    def _by_cell(self, values: Floats) -> Floats:
        return np.asarray(np.add.reduceat(values, self.starts, axis=0) / len(self.Z))

    def minimise(
        self, ridge: float, start: Floats, *, precise: bool = False
    ) -> tuple[Floats, float]:
        """Return the minimiser that is found from ``start``, and its value."""

        def value(point: Floats) -> tuple[float, Floats]:
            P = self._probabilities(point)
            off = (self._by_cell(P) - self.shares) / self.roots
            pull = (off / self.roots)[self.seen] / len(self.Z)
            slope = P * (pull - (pull * P).sum(axis=1, keepdims=True))
            U = point.reshape(-1, self.Z.shape[1])
            total = 0.5 * float((off**2).sum()) + ridge * float((U**2 @ self.penalty).sum())
            gradient = self.basis.T @ (slope.T @ self.Z) + 2 * ridge * U * self.penalty
            return total, gradient.ravel()

        options: Any = {"maxiter": 200, "gtol": 1e-4}
        if precise:
            options = {"maxiter": 5000, "maxfun": 10_000, "gtol": 1e-9, "ftol": 1e-16}
        done = optimize.minimize(value, start, jac=True, method="L-BFGS-B", options=options)
        return np.asarray(done.x), float(done.fun)

    def log_determinant(self, ridge: float, point: Floats) -> float:
        """Return that of the curvature over the ridge's, by Gauss and Newton."""
        P = self._probabilities(point)
        lead = self.basis[None] - (P @ self.basis)[:, None]  # (N, K, K-1)
        scaled = self.Z / np.sqrt(2 * ridge * self.penalty)
        n_cells, n_classes = self.shares.shape
        J = np.empty((n_cells, n_classes, n_classes - 1, self.Z.shape[1]))
        for y in range(n_classes):
            for b in range(n_classes - 1):
                J[:, y, b] = self._by_cell((P[:, y] * lead[:, y, b])[:, None] * scaled)
        J /= self.roots[:, :, None, None]
        J = J.reshape(n_cells * n_classes, -1)
        gram = J @ J.T if len(J) <= J.shape[1] else J.T @ J
        return float(np.linalg.slogdet(np.eye(len(gram)) + gram)[1])
