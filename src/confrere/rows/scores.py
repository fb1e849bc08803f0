"""Scores of any rows under a public linear model: finite, whatever the rows hold."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

Floats = NDArray[np.float64]

#: No score is larger: the difference of two is still a double.
LARGEST_SCORE = 1e300

_MAX = float(np.finfo(np.float64).max)


def linear_scores(X: Any, coef: ArrayLike, intercept: ArrayLike = 0.0) -> Floats:
    """Return ``X @ coef.T + intercept``, at most :data:`LARGEST_SCORE` in size.

    Where products or their sum overflow, the row is divided by its largest entry first, so that
    its score still has the sign and the size of the exact sum. NaN reads as 0 and an infinity as
    the largest double, as in :func:`~confrere.rows.ball.into_ball`. Nothing raises or warns.

    Parameters
    ----------
    X : (n, d) array or CSR
        Any numbers at all.
    coef : (d,) or (K, d) array
        Public, finite.
    intercept : float or (K,) array, default=0.0
        Public, finite.

    Returns
    -------
    (n,) or (n, K) array
    """
    weights = np.asarray(coef, dtype=np.float64)
    offset = np.asarray(intercept, dtype=np.float64)
    with np.errstate(all="ignore"):
        scores = np.asarray(X @ weights.T + offset)
        odd = ~np.isfinite(scores)
        if odd.any():
            where = np.flatnonzero(odd if odd.ndim == 1 else odd.any(axis=1))
            scores[where] = _careful(X[where], np.atleast_2d(weights), scores.ndim) + offset
        return np.clip(scores, -LARGEST_SCORE, LARGEST_SCORE, out=scores)


def _careful(X: Any, weights: Floats, ndim: int) -> Floats:
    """Return the scores of a few rows; sparse products add in order, each row by itself."""
    rows = sparse.csr_array(X, dtype=np.float64, copy=True)
    rows.sum_duplicates()
    rows.data = np.nan_to_num(rows.data, nan=0.0, posinf=_MAX, neginf=-_MAX)
    owners = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
    largest = np.zeros(rows.shape[0])
    np.maximum.at(largest, owners, np.abs(rows.data))
    rows.data /= np.where(largest > 0, largest, 1.0)[owners]
    steepest = float(np.abs(weights).max(initial=0.0)) or 1.0
    small = rows @ (weights / steepest).T
    # The factor below one first: their product is then as exact as a double can be.
    low, high = np.minimum(largest, steepest), np.maximum(largest, steepest)
    scores = np.asarray(small * low[:, None] * high[:, None])
    return scores[:, 0] if ndim == 1 else scores
