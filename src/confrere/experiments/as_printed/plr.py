"""PLR as printed (Algorithm 1 of the stacking and transfer papers).

Loose: the Jacobian is paid twice and at the worst residual, and just above the switch of branches
almost no budget is left for the noise. False as used: rows are scaled by the data's own largest
norm, so replacing one record rescales all the others (an audit finds epsilon >= 9.48 at claim 1).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from confrere.experiments.as_printed.noise import gamma_noise
from confrere.maths.calibration import printed_calibration
from confrere.maths.solver import minimise, smallest_tolerance
from confrere.rows.ball import row_norms

Floats = NDArray[np.float64]


def largest_norm(X: Floats) -> float:
    """Return the data's own largest row norm: the papers' scale, and a leak."""
    return float(row_norms(X).max()) or 1.0


def fit_plr(
    X: Floats,
    y: Floats,
    *,
    epsilon: float,
    alpha: float,
    rng: np.random.Generator,
    centre: Floats | None = None,
    scale: float | None = None,
) -> Floats:
    """Return the weights of Algorithm 1, for rows as given.

    Parameters
    ----------
    X : (n, d) array
        Rows; divided by ``scale``.
    y : (n,) array
        Labels -1 and +1.
    epsilon : float
        The claim.
    alpha : float
        The papers' lambda, on the mean loss.
    rng : Generator
        Of the noise.
    centre : (d,) array, optional
        Weights to shrink towards, for rows as given.
    scale : float, optional
        By default the data's own largest norm, as printed.
    """
    n_rows, dimension = X.shape
    divisor = largest_norm(X) if scale is None else scale
    printed = printed_calibration(epsilon, n_rows, alpha)
    ridge = n_rows * (alpha + printed.extra_ridge)
    noise = gamma_noise(printed.rho, dimension, 1, rng)[0]
    # The prior counts with lambda alone, the extra ridge pulls towards zero.
    pull = 0.0 if centre is None else n_rows * alpha / ridge
    point = None if centre is None else pull * divisor * centre
    return solve(X / divisor, y, ridge=ridge, noise=noise, centre=point) / divisor


def solve(
    X: Floats, y: Floats, *, ridge: float, noise: Floats, centre: Floats | None = None
) -> Floats:
    """Return the minimiser of the perturbed objective of rows with norm at most 1."""
    tolerance = 4 * smallest_tolerance(
        *X.shape,
        ridge=ridge,
        linear_norm=float(np.linalg.norm(noise)),
        centre_norm=0.0 if centre is None else float(np.linalg.norm(centre)),
    )
    return minimise(
        X, y, ridge=ridge, linear=noise, centre=centre, tolerance=max(1e-6, tolerance)
    ).w
