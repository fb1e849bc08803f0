"""PST-S and PST-F as printed (Algorithms 2 and 3), and the target part of PST-H and PPTL-FS.

False as used: rows are scaled by the data's own largest norm. Harmful: meta features are
probabilities in [0, 1], neither centred nor given an intercept, so a high-level part with more
negatives than positives can turn the ranking around (a flip: AUC below one half).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from confrere.experiments.as_printed.plr import Floats, fit_plr
from confrere.experiments.as_printed.plr_fs import fit_plr_fs
from confrere.maths.logistic import sigmoid
from confrere.maths.partition import Groups, split_rows


@dataclass(frozen=True)
class PrintedStack:
    """Low-level scores and the high level's weights on their probabilities."""

    low: Callable[[Floats], Floats]
    high: Floats

    def score(self, X: Floats) -> Floats:
        """Return the score of every row."""
        return np.asarray(sigmoid(self.low(X)) @ self.high)


def fit_pst_s(
    X: Floats,
    y: Floats,
    *,
    epsilon: float,
    alpha: float,
    n_groups: int,
    rng: np.random.Generator,
) -> PrintedStack:
    """Return PST-S: one PLR for every part of half the rows, one more to combine them."""
    shares = [0.5 / n_groups] * n_groups + [0.5]
    *parts, high = split_rows(len(X), shares, seed=int(rng.integers(2**32)))
    weights = np.column_stack(
        [fit_plr(X[part], y[part], epsilon=epsilon, alpha=alpha, rng=rng) for part in parts]
    )
    return _stacked(lambda rows: rows @ weights, X[high], y[high], epsilon, alpha, rng)


def fit_pst_f(
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
) -> PrintedStack:
    """Return PST-F: PLR on every group of features of half the rows, one PLR to combine them.

    The parameters are those of :func:`fit_plr_fs`; with ``centres`` it is the target part of PST-H
    and of PPTL-FS.
    """
    low, high = split_rows(len(X), [0.5, 0.5], seed=int(rng.integers(2**32)))
    models = fit_plr_fs(
        X[low],
        y[low],
        epsilon=epsilon,
        alpha=alpha,
        groups=groups,
        shares=shares,
        rng=rng,
        centres=centres,
        eta=eta,
        step_6_as_printed=step_6_as_printed,
    )
    return _stacked(models.scores, X[high], y[high], epsilon, alpha, rng)


def _stacked(
    low: Callable[[Floats], Floats],
    X: Floats,
    y: Floats,
    epsilon: float,
    alpha: float,
    rng: np.random.Generator,
) -> PrintedStack:
    """Train Algorithm 1 on the meta features; their norm is at most ``sqrt(K)``."""
    meta = sigmoid(low(X))
    bound = math.sqrt(meta.shape[1])
    return PrintedStack(low, fit_plr(meta, y, epsilon=epsilon, alpha=alpha, rng=rng, scale=bound))
