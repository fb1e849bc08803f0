"""A softmax model of how classes share public cells, from noised shares.

How many of the public rows of a cell the model gives to each class is compared with what was
released. Everything here is post-processing of that, so choices are free: the shares choose their
ridge and whether the model sees wide directions as wider than others, and a model of several
classes is learned once more from what it says of the public rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, optimize, special

Floats = NDArray[np.float64]
Labels = NDArray[np.intp]

#: The ridges that :func:`fit_shares` chooses from, largest first.
RIDGES = (10.0, 3.0)

#: Ridge of the intercept, as a share of the others'.
_INTERCEPT = 1e-3

#: How much surer than it is a model is taken when it is learned again, and with which ridge.
_SURER, _AGAIN = 4.0, 5.0


def fit_shares(
    rows: Floats,
    places: Labels,
    shares: Floats,
    variances: Floats,
    *,
    intercept: bool,
    ridges: Sequence[float] = RIDGES,
    stretches: Sequence[Floats] = (),
) -> tuple[Floats, float]:
    """Fit a softmax model to noised shares of cells and classes.

    Minimises ``sum (share - mean of the model's probabilities over the cell)^2 / (2 variance)``
    plus ``ridge ||W||^2``, W the weights of rows times a stretch. Of several ridges and stretches
    those are taken under which the shares are the most probable, by Laplace's approximation: they
    choose them themselves.

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
    stretches : sequence of (c,) arrays
        To choose from: what columns are multiplied by. Default: none.

    Returns
    -------
    weights : (K, c) or (K, c + 1) array
        Of rows as given. Columns sum to zero; the last one is the intercept.
    ridge : float
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

    A softmax regression whose labels are the model's probabilities to the fourth power: borders
    between classes move to where there are few public rows. Scores keep their size, by least
    squares, so that probabilities are not surer than they were.

    Parameters
    ----------
    rows : (N, c) array
        Public rows, half-white.
    weights : (K, c) or (K, c + 1) array
        Of :func:`fit_shares`.
    intercept : bool
        Whether the model has one.

    Returns
    -------
    (K, c) or (K, c + 1) array
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
    """Return orthonormal columns that sum to zero."""
    return np.asarray(linalg.helmert(n_classes).T)


def _penalty(size: int, intercept: bool) -> Floats:
    """Return what each weight's ridge is multiplied by."""
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
