"""PLR on groups of features as printed: the low level of PST-F, and PLR-FS of the transfer paper.

Loose, as Algorithm 1 is. False as used: every group's rows are scaled by the data's own largest
norm. False besides in the transfer paper, whose step 6 gives every group ``epsilon`` where the
proof needs ``epsilon'``: the exact ratio is 1.28 at claim 1 (some ``n lambda_k < 2 q_k/epsilon``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from confrere.experiments.as_printed.noise import gamma_noise
from confrere.experiments.as_printed.plr import Floats, largest_norm, solve
from confrere.maths.calibration import printed_group_epsilon
from confrere.maths.partition import Groups


@dataclass(frozen=True)
class PrintedGroups:
    """Weights of every group on its rows scaled to ``q_k``, and those scales."""

    groups: Groups
    factors: tuple[float, ...]
    weights: tuple[Floats, ...]

    def scores(self, X: Floats) -> Floats:
        """Return ``x_(k) . w_k``, one column per group."""
        columns = zip(self.groups, self.factors, self.weights, strict=True)
        return np.column_stack([factor * (X[:, group] @ w) for group, factor, w in columns])


def fit_plr_fs(
    X: Floats,
    y: Floats,
    *,
    epsilon: float,
    alpha: float,
    groups: Groups,
    shares: Sequence[float],
    rng: np.random.Generator,
    centres: Sequence[Floats] | None = None,
    eta: float = 0.0,
    step_6_as_printed: bool = False,
) -> PrintedGroups:
    """Return every group's weights.

    Parameters
    ----------
    X, y : arrays
        Rows, and labels -1 and +1.
    epsilon : float
        The claim.
    alpha : float
        The papers' lambda_k, the same for all groups.
    groups : tuple of int arrays
        Columns of every group.
    shares : sequence of float
        The papers' q_k, which sum to one; a group with none has zero weights.
    rng : Generator
        Of the noise.
    centres : sequence of arrays, optional
        The source's weights of every group, on rows scaled to ``q_k``.
    eta : float, default=0.0
        Share of the pull towards zero instead of the source.
    step_6_as_printed : bool, default=False
        Give every group ``epsilon`` instead of ``epsilon'``: the transfer paper's false step.
    """
    n_rows = len(X)
    left = printed_group_epsilon(epsilon, n_rows, [alpha] * len(groups), shares)
    factors, weights = [], []
    for k, (group, q) in enumerate(zip(groups, shares, strict=True)):
        part = X[:, group]
        factors.append(q / largest_norm(part))
        if q == 0:
            weights.append(np.zeros(len(group)))
            continue
        if left > 0:
            ridge, group_epsilon = n_rows * alpha, epsilon if step_6_as_printed else left
        else:
            # Delta_k + lambda_k; the printed Delta_k may be negative, the sum is not.
            ridge, group_epsilon = q * q / (4 * math.expm1(epsilon * q / 4)), epsilon / 2
        noise = gamma_noise(group_epsilon / 2, len(group), 1, rng)[0]
        centre = None
        if centres is not None:
            centre = (1 - eta) * min(1.0, n_rows * alpha / ridge) * centres[k]
        weights.append(solve(part * factors[-1], y, ridge=ridge, noise=noise, centre=centre))
    return PrintedGroups(groups, tuple(factors), tuple(weights))
