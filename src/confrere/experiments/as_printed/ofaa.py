"""OFAA as printed (Algorithm 3 of the multiparty paper): Laplace noise on expanded coefficients.

False: noise of the scale of the *largest* coefficient hides a change of one coefficient, but one
record changes all ``d`` of them (an audit at d = 20 finds epsilon >= 3 at claim 1, the truth being
d/3); and every round draws the noise anew, so that forty rounds spend at least 8.9 epsilon even at
the larger scale of equation (35). The sound form is ``CollaborativeClassifier(method="ofaa")``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from confrere.experiments.as_printed.ofpa import PrintedRun

Floats = NDArray[np.float64]
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
            _uploads(X, y, epsilon, rounds, rng, scale=scale, fit_intercept=fit_intercept)
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


def _uploads(
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
