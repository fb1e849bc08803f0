"""OFPA and OFAA as printed (Algorithms 2 and 3 of the multiparty paper), round by round.

OFPA adds Laplace noise to the objective. False in several ways. The intercept carries no noise, so
every upload solves an equation in the data. There is no regulariser, so there may be no minimiser,
and the Jacobian is unbounded. Every round is a new release and only one is paid for (an audit of
forty rounds finds epsilon >= 3.5 at claim 1); the downloaded average never enters the minimisation.
The sound form is ``CollaborativeClassifier(method="ofpa")``.

OFAA adds Laplace noise to expanded coefficients. False: noise of the scale of the *largest*
coefficient hides a change of one coefficient, but one record changes all ``d`` of them (an audit
at d = 20 finds epsilon >= 3 at claim 1, the truth being d/3); and every round draws the noise anew,
so that forty rounds spend at least 8.9 epsilon even at the larger scale of equation (35). The
sound form is ``CollaborativeClassifier(method="ofaa")``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import special

from confrere.arrays import Floats

#: Without a regulariser a minimiser may be at infinity; weights are followed up to here.
FARTHEST = 30.0

_BLOCK = 1 << 22
_STEPS = 100


@dataclass(frozen=True, eq=False)
class PrintedRun:
    """What a printed protocol shows to everybody.

    Parameters
    ----------
    uploads : (n_parties, rounds, d) array
        What every party sent in every round; the intercept is last if there is one.
    averages : (rounds, d) array
        What the server sent back.
    spends : float
        Epsilon that is spent at least; infinite where no finite epsilon holds.
    """

    uploads: Floats
    averages: Floats
    spends: float


def ofpa(
    parties: Sequence[tuple[Floats, Floats]],
    *,
    epsilon: float,
    rounds: int,
    rng: np.random.Generator,
    fit_intercept: bool = True,
) -> PrintedRun:
    """Run Algorithm 2.

    Parameters
    ----------
    parties : sequence of (X, y)
        Rows with L1 norm at most one, and labels -1 and +1.
    epsilon : float
        The claim.
    rounds : int
        Number of rounds; the paper uses 40.
    rng : Generator
        Of the noise.
    fit_intercept : bool, default=True
        Whether there is an intercept, to which the paper adds no noise.
    """
    uploads = np.stack(
        [
            _ofpa_uploads(X, y, epsilon=epsilon, count=rounds, rng=rng, fit_intercept=fit_intercept)
            for X, y in parties
        ]
    )
    sizes = np.array([len(y) for _, y in parties], dtype=np.float64)
    averages = np.einsum("p,prd->rd", sizes / sizes.sum(), uploads)
    return PrintedRun(uploads, averages, math.inf)


def _ofpa_uploads(
    X: Floats,
    y: Floats,
    *,
    epsilon: float,
    count: int,
    rng: np.random.Generator,
    fit_intercept: bool,
) -> Floats:
    rows = np.hstack([X, np.ones((len(X), 1))]) if fit_intercept else X
    # Equal rows are one row that counts more often; audits have thousands of rounds on few rows.
    distinct, where = np.unique(rows, axis=0, return_inverse=True)
    counts = np.bincount(where.ravel()).astype(np.float64)
    positives = np.bincount(where.ravel(), weights=y > 0).astype(np.float64)
    uploads = np.empty((count, rows.shape[1]))
    block = max(1, _BLOCK // (len(distinct) * rows.shape[1]))
    for first in range(0, count, block):
        part = slice(first, min(first + block, count))
        noise = np.zeros((part.stop - part.start, rows.shape[1]))
        noise[:, : X.shape[1]] = rng.laplace(scale=4 / epsilon, size=(len(noise), X.shape[1]))
        uploads[part] = _minimisers(distinct, counts, positives, noise)
    return uploads


def _minimisers(rows: Floats, counts: Floats, positives: Floats, noise: Floats) -> Floats:
    """Minimise ``sum n log(1 + exp(w.x)) - k w.x + v.w`` in a box, for every row ``v`` of noise.

    Damped Newton steps; a problem is left alone once it is solved or at the edge of the box.
    """
    weights = np.zeros_like(noise)
    active = np.arange(len(noise))
    damping = np.ones(len(noise))
    before = np.full(len(noise), np.inf)
    previous = weights.copy()
    for _ in range(_STEPS):
        w = weights[active]
        p = special.expit(w @ rows.T)
        gradient = (counts * p - positives) @ rows + noise[active]
        length = np.linalg.norm(gradient, axis=1)
        worse = length > before[active]
        damping[active] = np.where(worse, damping[active] / 2, np.minimum(1, 2 * damping[active]))
        weights[active[worse]] = (weights[active[worse]] + previous[active[worse]]) / 2
        good = active[~worse]
        p, gradient, w = p[~worse], gradient[~worse], w[~worse]
        previous[good], before[good] = w, length[~worse]
        step = _newton(rows, counts * p * (1 - p), gradient)
        moved = w - damping[good, None] * step
        weights[good] = np.clip(moved, -FARTHEST, FARTHEST)
        edge = np.any(np.abs(weights[good]) >= FARTHEST, axis=1)
        done = edge | (length[~worse] <= 1e-9)
        weights[good[done & ~edge]] = w[done & ~edge]
        active = np.concatenate([good[~done], active[worse]])
        if len(active) == 0:
            break
    return weights


def _newton(rows: Floats, bends: Floats, gradient: Floats) -> Floats:
    hessian = np.einsum("mu,ui,uj->mij", bends, rows, rows, optimize=True)
    hessian += 1e-9 * np.eye(rows.shape[1])
    return np.asarray(np.linalg.solve(hessian, gradient[:, :, None])[:, :, 0])


Scale = Literal["maximum", "equation"]

#: Eigenvalues below this share of the largest are trimmed: the printed minimiser need not exist.
TRIMMED = 1e-3

_DEGREE = 2


def ofaa(
    parties: Sequence[tuple[Floats, Floats]],
    *,
    epsilon: float,
    rounds: int,
    rng: np.random.Generator,
    scale: Scale = "maximum",
    fit_intercept: bool = True,
) -> PrintedRun:
    """Run Algorithm 3.

    Parameters
    ----------
    parties : sequence of (X, y)
        Rows with values between -1 and 1, and labels -1 and +1.
    epsilon : float
        The claim.
    rounds : int
        Number of rounds; the paper uses 40.
    rng : Generator
        Of the noise.
    scale : {"maximum", "equation"}, default="maximum"
        Noise by the largest coefficient of a degree, as the algorithm says, or by their sum, as
        equation (35) does.
    fit_intercept : bool, default=True
        Whether there is an intercept.
    """
    uploads = np.stack(
        [
            _ofaa_uploads(X, y, epsilon, rounds, rng, scale=scale, fit_intercept=fit_intercept)
            for X, y in parties
        ]
    )
    sizes = np.array([len(y) for _, y in parties], dtype=np.float64)
    averages = np.einsum("p,prd->rd", sizes / sizes.sum(), uploads)
    return PrintedRun(uploads, averages, rounds * _spent_in_a_round(epsilon, averages, scale))


def noisy_linear_coefficients(
    X: Floats,
    y: Floats,
    *,
    epsilon: float,
    count: int,
    rng: np.random.Generator,
    scale: Scale = "maximum",
) -> Floats:
    """Return ``(count, d)`` draws of the coefficients of degree one, ``sum (1/2 - y) x`` noised."""
    linear = -0.5 * (y @ X)
    noise = rng.laplace(scale=linear_scale(X.shape[1], scale) / epsilon, size=(count, X.shape[1]))
    return np.asarray(linear + noise)


def linear_scale(dimension: int, scale: Scale) -> float:
    """Return ``2(J+1)`` times the largest coefficient, 1/2, or (35)'s ``9 d/2``."""
    return 2 * (_DEGREE + 1) * 0.5 if scale == "maximum" else 4.5 * dimension


def quadratic_scale(dimension: int, scale: Scale) -> float:
    """Return ``2(J+1)`` times the largest coefficient, 1/4, or the sum of all, ``d^2/8``."""
    return 2 * (_DEGREE + 1) * (0.25 if scale == "maximum" else dimension**2 / 8)


def _spent_in_a_round(epsilon: float, averages: Floats, scale: Scale) -> float:
    # A record of ones whose label flips moves every linear coefficient by one and no other.
    dimension = int(averages.shape[1])
    return epsilon * dimension / linear_scale(dimension, scale)


def _ofaa_uploads(
    X: Floats,
    y: Floats,
    epsilon: float,
    rounds: int,
    rng: np.random.Generator,
    *,
    scale: Scale,
    fit_intercept: bool,
) -> Floats:
    rows = np.hstack([X, np.ones((len(X), 1))]) if fit_intercept else X
    dimension = rows.shape[1]
    linear = noisy_linear_coefficients(rows, y, epsilon=epsilon, count=rounds, rng=rng, scale=scale)
    upper = np.triu_indices(dimension)
    doubled = np.where(upper[0] == upper[1], 1.0, 2.0)
    exact = (rows.T @ rows / 8)[upper] * doubled
    noise = rng.laplace(
        scale=quadratic_scale(dimension, scale) / epsilon, size=(rounds, len(exact))
    )
    uploads = np.empty((rounds, dimension))
    for index, coefficients in enumerate(exact + noise):
        matrix = np.zeros((dimension, dimension))
        matrix[upper] = coefficients / doubled
        uploads[index] = _minimiser(linear[index], matrix + np.triu(matrix, 1).T)
    return uploads


def _minimiser(linear: Floats, quadratic: Floats) -> Floats:
    """Minimise ``v.w + w'Mw`` over the directions in which it has a minimum."""
    eigenvalues, vectors = np.linalg.eigh(quadratic)
    kept = eigenvalues > TRIMMED * max(eigenvalues[-1], 0.0)
    if not np.any(kept):
        return np.zeros_like(linear)
    basis = vectors[:, kept]
    return np.asarray(-basis @ ((basis.T @ linear) / (2 * eigenvalues[kept])))
