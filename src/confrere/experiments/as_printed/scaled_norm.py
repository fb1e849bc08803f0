"""Rows "scaled so that the norm is at most one", by the data's own largest norm.

All five papers ask for such rows and none says how to get them. Scaled by the data, one record
decides how long all others are; nothing here carries a guarantee. The sound form is clipping to a
declared ``data_norm``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from confrere.experiments.as_printed.noise import gamma_noise
from confrere.maths.calibration import printed_calibration
from confrere.maths.solver import minimise_many


def scaled_plr(
    X: NDArray[np.float64],
    y: NDArray[np.float64],
    *,
    epsilon: float,
    alpha: float,
    count: int,
    generator: np.random.Generator,
) -> NDArray[np.float64]:
    """Return ``(count, d)`` independent runs of PLR (Algorithm 1) on rows scaled by the data.

    Parameters
    ----------
    X : (n, d) array
        Rows of any length.
    y : (n,) array
        Labels -1 and +1.
    epsilon : float
        What is claimed.
    alpha : float
        The papers' lambda, on the mean loss.
    count : int
        Number of runs.
    generator : numpy.random.Generator
    """
    rows = X / np.linalg.norm(X, axis=1).max()
    printed = printed_calibration(epsilon, len(X), alpha)
    ridge = len(X) * (alpha + printed.extra_ridge)
    noise = gamma_noise(printed.rho, X.shape[1], count, generator)
    return minimise_many(rows, y, ridge=ridge, linear=noise, tolerance=1e-4).W
