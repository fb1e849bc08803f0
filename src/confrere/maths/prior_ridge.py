"""The ridge where something is known: how strongly noise should be pulled towards a prior.

Weights ``w`` of rows in the unit ball are known up to a deviation: the log odds that a prior gives
a row are off by a variance ``tau2``. Rows of mean square norm one have ``1/d`` of it in each of
``d`` coordinates, so every weight is off by the variance ``tau2``. Data show ``H w + e`` in each
coordinate, with the curvature ``H = n v / d`` and an error of variance ``s2 + H``, where ``s2`` is
the variance of the noise. The ridge with the least mean square error is ``(s2 + H)/(H tau2)``. Its
first part is :func:`informed_ridge`; the second, ``1/tau2``, counts near a source, where little is
left open. What a source
leaves unknown is the posterior variance of the same model, :func:`variance_near`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

#: Variance of the log odds around what experts declare, if they are right, and if they are not.
DECLARED, UNKNOWN = 0.2, 1.0

#: By how much organisations differ, as a share of what was unknown before.
DRIFT = 0.02


#: What one linear model of a source misses besides, as the same share: it is not what the model
#: above says that every column's weight is known as well as the others'. Chosen on simulated
#: hospitals, on other states and on tables cut into branches; stacks, whose groups divide columns
#: by importance, lose with it.
MISSED = 0.5


def intercept_of(share: float, deviation: float) -> float:
    """Return the intercept of log odds that vary, from the log odds of the share of positive rows.

    Scores ``b + s z`` with ``z`` normal are positive in a share ``expit(b / sqrt(1 + pi s^2 / 8))``
    of the rows, nearly: the steeper the scores, the further out the intercept must be. A fit that
    starts with too many positives takes the excess out of the columns, where its ridge is strong.

    Parameters
    ----------
    share : float
        Log odds of the share of positive rows.
    deviation : float
        Standard deviation of the log odds around the intercept.
    """
    return share * _spread(deviation)


def share_of(intercept: float, deviation: float) -> float:
    """Return the log odds of the share of positive rows: :func:`intercept_of` turned round."""
    return intercept / _spread(deviation)


def _spread(deviation: float) -> float:
    return math.sqrt(1 + math.pi / 8 * deviation**2)


def mean_curvature(base_rate: float) -> float:
    """Return the mean curvature of the loss that a declared base rate implies."""
    return min(0.2, 0.88 * base_rate * (1 - base_rate))


def noise_variance(budget: float, size: int, cap: float) -> float:
    """Return the variance of one coordinate of the noise, where the Jacobian is nearly free."""
    return (size + 1) * (2 * cap / budget) ** 2


def informed_ridge(
    n_samples: float, size: int, *, noise: float, curvature: float, variance: float
) -> float:
    """Return ``L`` of the summed objective near a prior, before any floor.

    Parameters
    ----------
    n_samples : float
        Records behind the model, public; all parties' where models are averaged.
    size : int
        Number of coordinates that the rows' square norm of one is spread over.
    noise : float
        Variance of one coordinate of the noise.
    curvature : float
        Mean curvature of the loss.
    variance : float
        Of the log odds around what the prior says.
    """
    return size * noise / (max(n_samples, 1.0) * curvature * variance)


def precision_of(n_samples: float, size: int, *, noise: float, curvature: float) -> float:
    """Return what a released model says about each weight: one over its variance."""
    stiffness = n_samples * curvature / size
    return stiffness**2 / (noise + stiffness)


def variance_near(
    precisions: Iterable[float], variance: float = DECLARED, *, missed: float = 0.0
) -> float:
    """Return the variance of the log odds around released models of other organisations."""
    return 1 / (1 / variance + sum(precisions)) + (DRIFT + missed) * variance


def free_ridge(epsilon: float, factor: float = 2.0) -> float:
    """Return the smallest ridge at which the Jacobian costs nothing: ``factor/epsilon``.

    With ``factor = 2`` the tight calibration gives ``2 rho = epsilon`` exactly. A smaller factor
    trades a little noise for a weaker ridge (1 gives about ``rho = .473 epsilon``).
    """
    return factor / epsilon
