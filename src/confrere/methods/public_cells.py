"""A public partition of rows into cells: clusters of public rows without labels.

A row of anybody lies in one of them. What is known of private rows is then one number per cell and
class, their share of all rows.

A softmax model says how classes share the cells, from noised shares. How many of the public rows of
a cell the model gives to each class is compared with what was released. Everything here is
post-processing of that, so choices are free: the shares choose their ridge and whether the model
sees wide directions as wider than others, and a model of several classes is learned once more from
what it says of the public rows.
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

from confrere.arrays import Floats

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
    """A row lies in the cell of the largest ``directions @ x + offset``; a tie is for the first."""

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
    of structure.
    """

    rows: Floats  #: Public rows
    #: The public constant of an intercept: with one, rows are taken from their mean.
    constant: float = 0.0

    @cached_property
    def mean(self) -> Floats:
        return self.rows.mean(axis=0) if self.constant else np.zeros(self.rows.shape[1])

    @cached_property
    def turn(self) -> Floats:
        """The ``(d, c)`` map to half-white coordinates, widest direction first."""
        values, vectors = self._directions
        return np.asarray(vectors / values**0.25 * math.sqrt(_LENGTH / np.sqrt(values).sum()))

    @cached_property
    def _white(self) -> Floats:
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
        return np.asarray((rows - self.mean) @ self.turn)

    def cells(self, count: int) -> Cells:
        """Return a partition into ``count`` clusters at most, each with some of the public rows."""
        centres = _k_means((self.rows - self.mean) @ self._white, count)
        directions = 2 * centres @ self._white.T
        return Cells(directions, -(centres**2).sum(axis=1) - directions @ self.mean)

    def explained(self, cells: Cells) -> float:
        points = (self.rows - self.mean) @ self._white
        middle = points.mean(axis=0)
        spread = float(((points - middle) ** 2).sum())
        places = cells.of(self.rows)
        sizes = np.bincount(places, minlength=len(cells))
        sums = _sums_by(places, points, len(cells))
        means = sums / np.maximum(sizes, 1)[:, None] - middle
        return float((sizes @ means**2).sum()) / spread if spread > 0 else 1.0

    def model(
        self, places: Labels, shares: Floats, deviation: float, n_parties: int, alpha: float | None
    ) -> tuple[Floats, float]:
        """Return weights of rows and of the constant, ``(d,)`` or ``(K, d)``, and their ridge."""
        n_cells, n_classes = shares.shape
        sizes = np.bincount(places, minlength=n_cells) / len(self.rows)
        # A class's part of a cell is uncertain besides: private and public rows are samples.
        even = (1 - 1 / n_classes) / n_classes
        sampled = sizes * even * (1 / n_parties + 1 / len(self.rows))
        seen, intercept = self.coordinates(self.rows), self.constant > 0
        weights, ridge = fit_shares(
            seen,
            places,
            shares,
            deviation**2 + sampled + 1e-12,
            intercept=intercept,
            ridges=RIDGES if alpha is None else (alpha,),
            stretches=self.stretches,
        )
        if n_classes > 2:  # two are ranked by scores, which a sharper border makes coarser
            weights = learn_again(seen, weights, intercept=intercept)
        turned = weights[:, : self.turn.shape[1]] @ self.turn.T
        if intercept:
            intercepts = weights[:, -1] - turned @ self.mean
            turned = np.hstack([turned, intercepts[:, None] / self.constant])
        return (turned[1] - turned[0] if n_classes == 2 else turned), ridge


def _k_means(points: Floats, count: int) -> Floats:
    """Return at most ``count`` centres, from a start that a fixed seed draws (k-means++)."""
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
    columns = [np.bincount(places, weights=column, minlength=count) for column in values.T]
    return np.stack(columns, axis=1)


#: The ridges that :func:`fit_shares` chooses from, largest first.
RIDGES = (10.0, 3.0)

#: Ridge of the intercept, as a share of the others'.
_INTERCEPT = 1e-3

#: How much surer than it is a model is taken when it is learned again, and with which ridge.
_SURER, _AGAIN = 4.0, 5.0


def fit_shares(
    rows: Floats,  # Public rows, half-white
    places: Labels,  # Their cells
    shares: Floats,  # Share of all rows that are in a cell and of a class; noised
    variances: Floats,  # Of a share, noise and sampling together
    *,
    intercept: bool,  # Whether the model has one
    ridges: Sequence[float] = RIDGES,  # To choose from, largest first
    # To choose from: what columns are multiplied by. Default: none.
    stretches: Sequence[Floats] = (),
) -> tuple[Floats, float]:
    """Fit a softmax model to noised shares of cells and classes.

    Minimises ``sum (share - mean of the model's probabilities over the cell)^2 / (2 variance)``
    plus ``ridge ||W||^2``, by the ridge and stretch of rows under which the shares are the most
    probable (Laplace's approximation). Returned are weights of rows as given, and the ridge.
    """
    best, chosen = -math.inf, ridges[0]
    for stretch in stretches or [np.ones(rows.shape[1])]:
        fit = _ShareFit(rows * stretch, places, shares, variances, intercept)
        start = np.zeros(fit.size)
        for ridge in ridges:
            start, value = fit.minimise(ridge, start)
            evidence = -value - 0.5 * fit.log_determinant(ridge, start)
            if evidence > best:
                best, chosen, found, kept, seen = evidence, ridge, start, fit, stretch
    # Whoever computes it again, elsewhere, finds the same to seven digits.
    found, _ = kept.minimise(chosen, found, precise=True)
    weights = kept.weights(found)
    weights[:, : len(seen)] *= seen
    return weights, float(chosen)


def learn_again(rows: Floats, weights: Floats, *, intercept: bool) -> Floats:
    """Learn a model of several classes again, from its own answers for public rows, made surer.

    Borders between classes move to where there are few public rows; scores keep their size.
    """
    Z = np.hstack([rows, np.ones((len(rows), int(intercept)))])
    penalty = _penalty(Z.shape[1], intercept)
    basis = _basis(len(weights))
    scores = Z @ weights.T
    labels = special.softmax(_SURER * scores, axis=1)

    def value(point: Floats) -> tuple[float, Floats]:
        U = point.reshape(-1, Z.shape[1])
        found = Z @ (basis @ U).T
        logs = special.logsumexp(found, axis=1)
        off = np.exp(found - logs[:, None]) - labels
        total = float(logs.sum() - (labels * found).sum() + _AGAIN * (U**2 @ penalty).sum())
        return total, (basis.T @ (off.T @ Z) + 2 * _AGAIN * U * penalty).ravel()

    done = optimize.minimize(
        value,
        np.zeros((len(weights) - 1) * Z.shape[1]),
        jac=True,
        method="L-BFGS-B",
        options=_PRECISE,
    )
    again = basis @ done.x.reshape(-1, Z.shape[1])
    new = Z @ again.T
    size = float((new**2).sum())
    return np.asarray(again * (float((new * scores).sum()) / size if size > 0 else 1.0))


_PRECISE: Any = {"maxiter": 5000, "maxfun": 10_000, "gtol": 1e-9, "ftol": 1e-16}


def _basis(n_classes: int) -> Floats:
    return np.asarray(linalg.helmert(n_classes).T)


def _penalty(size: int, intercept: bool) -> Floats:
    penalty = np.ones(size)
    if intercept:
        penalty[-1] = _INTERCEPT
    return penalty


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
        self.basis = _basis(n_classes)
        self.penalty = _penalty(self.Z.shape[1], intercept)
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
        def value(point: Floats) -> tuple[float, Floats]:
            P = self._probabilities(point)
            off = (self._by_cell(P) - self.shares) / self.roots
            pull = (off / self.roots)[self.seen] / len(self.Z)
            slope = P * (pull - (pull * P).sum(axis=1, keepdims=True))
            U = point.reshape(-1, self.Z.shape[1])
            total = 0.5 * float((off**2).sum()) + ridge * float((U**2 @ self.penalty).sum())
            gradient = self.basis.T @ (slope.T @ self.Z) + 2 * ridge * U * self.penalty
            return total, gradient.ravel()

        options: Any = _PRECISE if precise else {"maxiter": 200, "gtol": 1e-4}
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
