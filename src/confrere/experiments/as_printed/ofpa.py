"""OFPA as printed (Algorithm 2 of the multiparty paper): Laplace noise in the objective, per round.

False in several ways. The intercept carries no noise, so every upload solves an equation in the
data. There is no regulariser, so there may be no minimiser, and the Jacobian is unbounded. Every
round is a new release and only one is paid for (an audit of forty rounds finds epsilon >= 3.5 at
claim 1); the downloaded average never enters the minimisation.
The sound form is ``CollaborativeClassifier(method="ofpa")``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

Floats = NDArray[np.float64]

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
            _uploads(X, y, epsilon=epsilon, count=rounds, rng=rng, fit_intercept=fit_intercept)
            for X, y in parties
        ]
    )
    sizes = np.array([len(y) for _, y in parties], dtype=np.float64)
    averages = np.einsum("p,prd->rd", sizes / sizes.sum(), uploads)
    return PrintedRun(uploads, averages, math.inf)


def _uploads(
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
