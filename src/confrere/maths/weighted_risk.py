"""Minimise the vote-weighted risk (002, equation 19) from its statistic alone.

With ``s = (1/N) sum_i alpha_i x_i`` (see :func:`confrere.maths.voting.vote_statistic`) the risk is
``mean log(1 + exp(w.x)) - s.w + (lambda/2)||w||^2``; for K classes, with the K x d matrix S whose
rows add up to the mean of x, ``mean logsumexp(W x) - <S, W> + (lambda/2)||W||_F^2``. Both are what
:mod:`confrere.maths.solver` minimises, with the votes in the linear term.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from confrere.errors import InvalidData
from confrere.maths.solver import minimise, minimise_softmax, smallest_tolerance

Floats = NDArray[np.float64]

_UNIT_ROUNDOFF = 2.0**-53

#: The ridges that :func:`ridge_under_noise` chooses from.
_RIDGES = np.geomspace(1e-5, 1.0, 81)


def minimise_weighted(X: Floats, statistic: Floats, *, alpha: float, tolerance: float) -> Floats:
    """Return the certified minimiser: ``(d,)``, or ``(K, d)`` with columns that sum to zero.

    Parameters
    ----------
    X : (N, d) array
        Auxiliary rows in the unit ball.
    statistic : (d,) or (K, d) array
        ``s`` or ``S``, noised or not; a noised one need not belong to any votes.
    alpha : float
        Ridge on the mean loss, above zero.
    tolerance : float
        Bound on the gradient of the *summed* risk; see :func:`weighted_tolerance`.
    """
    n_rows = len(X)
    ridge = n_rows * alpha
    if statistic.ndim == 1:
        linear = -n_rows * statistic
        labels = np.full(n_rows, -1.0)
        return minimise(X, labels, ridge=ridge, linear=linear, tolerance=tolerance).w
    n_classes = len(statistic)
    codes = np.zeros(n_rows, dtype=np.intp)
    solution = minimise_softmax(
        X, codes, n_classes, ridge=ridge, linear=_softmax_term(X, statistic), tolerance=tolerance
    )
    return np.asarray(solution.w - solution.w.mean(axis=0))


def weighted_tolerance(
    n_rows: int,
    n_features: int,
    *,
    alpha: float,
    statistic_norm: float = 1.0,
    n_classes: int = 2,
) -> float:
    """Return the smallest tolerance that any statistic of at most this norm allows."""
    # For K classes the mean of x comes on top of the centred statistic.
    longest = n_rows * (statistic_norm if n_classes == 2 else statistic_norm + 1)
    return smallest_tolerance(
        n_rows, n_features, ridge=n_rows * alpha, linear_norm=longest, n_classes=n_classes
    )


def statistic_rounding(n_rows: int) -> float:
    """Bound the error, in norm, of a statistic that was summed in floats in any order."""
    return 2 * (n_rows + 8) * _UNIT_ROUNDOFF


def centred(X: Floats, statistic: Floats) -> Floats:
    """Return the statistic less what it would be if every vote were split evenly."""
    share = 2 if statistic.ndim == 1 else len(statistic)
    return np.asarray(statistic - X.mean(axis=0) / share)


def ridge_under_noise(
    X: Floats, statistic: Floats, axes: Floats, directions: Floats, deviation: float
) -> float:
    """Return a ridge for a noised statistic, from the statistic itself and public facts.

    To second order at zero the risk has the curvature ``h_j = c lambda_j`` along the j-th
    principal direction of X (c = 1/4, for K classes 1/K), and a ridge ``a`` costs
    ``sum_j h_j (sigma_j^2 + g_j^2 a^2/h_j^2)/(h_j + a)^2``: noise that is let in and signal that is
    shrunk. The square of the noised, centred statistic, less the noise's variance, stands for
    ``g_j^2``: negative in some directions, and right on average in all.

    Parameters
    ----------
    X : (N, d) array
        Public auxiliary rows.
    statistic : (d,) or (K, d) array
        With noise ``directions @ (axes * e)``, each coordinate of ``e`` of standard deviation
        ``deviation``.
    axes, directions : arrays
        Shape of the noise.
    deviation : float
        Its size.
    """
    values, vectors = np.linalg.eigh(X.T @ X / len(X))
    dimensions, curvature = (1, 1 / 4)
    if statistic.ndim == 2:
        dimensions, curvature = len(statistic) - 1, 1 / len(statistic)
    steepness = curvature * np.maximum(values, 1e-9 * values[-1])
    noise = dimensions * deviation**2 * ((vectors.T @ directions * axes) ** 2).sum(axis=1)
    seen = np.atleast_2d(centred(X, statistic) @ vectors)
    signal = (seen**2).sum(axis=0) - noise
    ridges = _RIDGES[:, None]
    cost = steepness * (noise + signal * (ridges / steepness) ** 2) / (steepness + ridges) ** 2
    return float(_RIDGES[np.argmin(cost.sum(axis=1))])


def _softmax_term(X: Floats, statistic: Floats) -> Floats:
    """Return the linear term that turns the summed loss of class 0 into the weighted risk."""
    if X.shape[1] != statistic.shape[1]:
        raise InvalidData("the statistic must have one column per column of X.")
    total = X.sum(axis=0)
    n_classes = len(statistic)
    # Columns that sum to zero: the first class takes the rows, all share the even split.
    term = -len(X) * centred(X, statistic)
    term -= total / n_classes
    term[0] += total
    return np.asarray(term - term.mean(axis=0))
