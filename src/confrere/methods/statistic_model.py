"""The model of a released statistic of votes: post-processing, with any ridge."""

from __future__ import annotations

import numpy as np

from confrere.arrays import Floats
from confrere.maths.voting import (
    minimise_weighted,
    ridge_under_noise,
    weighted_tolerance,
)
from confrere.mechanisms.measurements import TOLERANCE
from confrere.methods.design import Alpha


def model_of_statistic(
    rows: Floats,
    statistic: Floats,
    axes: Floats,
    directions: Floats,
    deviation: float,
    *,
    alpha: Alpha,
) -> tuple[Floats, float]:
    """Return the weights of a noised statistic, and their ridge.

    Parameters
    ----------
    rows : (N, d) array
        Public auxiliary rows in the unit ball.
    statistic : (d,) or (K, d) array
        As released.
    axes, directions : arrays
        Shape of its noise.
    deviation : float
        Standard deviation of a coordinate of the noise, in units of the axes.
    alpha : float or "auto"
        The ridge, or let the statistic choose.
    """
    chosen = (
        ridge_under_noise(rows, statistic, axes, directions, deviation)
        if alpha == "auto"
        else float(alpha)
    )
    smallest = weighted_tolerance(
        *rows.shape,
        alpha=chosen,
        statistic_norm=float(np.linalg.norm(statistic)),
        n_classes=2 if statistic.ndim == 1 else len(statistic),
    )
    tolerance = max(TOLERANCE * len(rows), 2 * smallest)
    return minimise_weighted(rows, statistic, alpha=chosen, tolerance=tolerance), chosen
