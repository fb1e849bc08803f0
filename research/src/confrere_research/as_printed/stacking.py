"""PST-S and PST-F as printed (Algorithms 2 and 3), and the target part of PST-H and PPTL-FS.

False as used: rows are scaled by the data's own largest norm. Harmful: meta features are
probabilities in [0, 1], neither centred nor given an intercept, so a high-level part with more
negatives than positives can turn the ranking around (a flip: AUC below one half).

PST-H's source step (Algorithm 4) claims epsilon and spends it for every feature group on the same
records: ``K`` releases compose to ``K epsilon``. The sound form shares epsilon among the groups, as
:class:`confrere.FeatureStackingClassifier` does.

SimComb (Algorithm 2 of the transfer paper) is PLR near the source's PLR. True up to what
:mod:`confrere_research.as_printed.regression` says: rows of source and of target are each scaled
by their own largest norm, which is a leak; the source's weights are brought to the target's scale,
which the paper leaves open.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from confrere.arrays import Floats
from confrere.data.frame import Groups
from confrere.methods.stacks import split_rows
from confrere_research.as_printed.minimiser import minimise
from confrere_research.as_printed.regression import (
    fit_plr,
    fit_plr_fs,
    gamma_noise,
    printed_calibration,
)


@dataclass(frozen=True)
class PrintedStack:
    """Low-level scores and the high level's weights on their probabilities."""

    low: Callable[[Floats], Floats]
    high: Floats

    def score(self, X: Floats) -> Floats:
        """Return the score of every row."""
        return np.asarray(expit(self.low(X)) @ self.high)


def fit_pst_s(
    X: Floats, y: Floats, *, epsilon: float, alpha: float, n_groups: int, rng: np.random.Generator
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
    meta = expit(low(X))
    bound = math.sqrt(meta.shape[1])
    return PrintedStack(low, fit_plr(meta, y, epsilon=epsilon, alpha=alpha, rng=rng, scale=bound))


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
        released[:, columns] = minimise(rows, y, ridge=ridge, linear=noise)
    return released


def fit_simcomb(
    source: tuple[Floats, Floats],
    target: tuple[Floats, Floats],
    *,
    epsilon: float,
    alpha: float,
    rng: np.random.Generator,
    eta: float = 0.0,
) -> Floats:
    """Return the target's weights, for rows as given; labels are -1 and +1."""
    learned = fit_plr(*source, epsilon=epsilon, alpha=alpha, rng=rng)
    return fit_plr(*target, epsilon=epsilon, alpha=alpha, rng=rng, centre=(1 - eta) * learned)
