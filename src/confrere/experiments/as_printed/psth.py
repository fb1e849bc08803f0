"""PST-H's source step as printed: every feature group at the whole epsilon on the same records.

The published claim (Algorithm 4, source part) is epsilon. ``K`` releases about the same records
compose to ``K epsilon``: nothing here carries a guarantee. The sound form shares epsilon among the
groups, as :class:`confrere.FeatureStackingClassifier` does.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from confrere.experiments.as_printed.noise import gamma_noise
from confrere.maths.calibration import printed_calibration
from confrere.maths.solver import minimise_many


def psth_source(
    X: NDArray[np.float64],
    y: NDArray[np.float64],
    groups: Sequence[ArrayLike],
    *,
    epsilon: float,
    alpha: float,
    count: int,
    generator: np.random.Generator,
) -> NDArray[np.float64]:
    """Return ``(count, d)`` independent runs of the source step, groups side by side.

    Parameters
    ----------
    X : (n, d) array
        Every group's rows have norm at most one.
    y : (n,) array
        Labels -1 and +1.
    groups : sequence of int arrays
        Columns of each group.
    epsilon : float
        What is claimed, and spent by every group.
    alpha : float
        The paper's lambda, on the mean loss.
    count : int
        Number of runs.
    generator : numpy.random.Generator
    """
    printed = printed_calibration(epsilon, len(X), alpha)
    ridge = len(X) * (alpha + printed.extra_ridge)
    released = np.empty((count, X.shape[1]))
    for group in groups:
        columns = np.asarray(group, dtype=np.intp)
        noise = gamma_noise(printed.rho, len(columns), count, generator)
        rows = np.ascontiguousarray(X[:, columns])
        released[:, columns] = minimise_many(rows, y, ridge=ridge, linear=noise).W
    return released
