"""PLR as printed (Algorithm 1 of the stacking and transfer papers), and PLR on groups of features.

Loose: the Jacobian is paid twice and at the worst residual, and just above the switch of branches
almost no budget is left for the noise. False as used: rows are scaled by the data's own largest
norm, so replacing one record rescales all the others (an audit finds epsilon >= 9.48 at claim 1).
All five papers ask for rows "scaled so that the norm is at most one" and none says how to get them;
the sound form is clipping to a declared ``data_norm``.

PLR on groups, the low level of PST-F and PLR-FS of the transfer paper, is loose and false in the
same way. False besides in the transfer paper, whose step 6 gives every group ``epsilon`` where the
proof needs ``epsilon'``: the exact ratio is 1.28 at claim 1 (some ``n lambda_k < 2 q_k/epsilon``).

Tuning tries every lambda on the private validation part and pays nothing. False: each try is a
release of its own, and the choice depends on private labels. All five papers do it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from confrere.arrays import Floats
from confrere.data.frame import Groups
from confrere.kernel.accountants import Logistic
from confrere.kernel.guarantee import check_epsilon, check_positive
from confrere.kernel.measurements import smallest_tolerance
from confrere.kernel.noise import row_norms
from confrere_research.as_printed.minimiser import minimise


@dataclass(frozen=True, slots=True)
class PrintedCalibration:
    """What Algorithm 1 of the stacking papers prints: ``epsilon' = 2 rho`` and ``Delta``."""

    epsilon_prime: float
    extra_ridge: float

    @property
    def rho(self) -> float:
        """The rate of the noise's norm."""
        return self.epsilon_prime / 2


def printed_calibration(epsilon: float, n_samples: int, alpha: float) -> PrintedCalibration:
    """Return Algorithm 1's noise for rows of norm at most 1: sound, but loose.

    ``alpha`` is the papers' lambda, on the mean loss, and ``extra_ridge`` their Delta.
    """
    check_epsilon(epsilon)
    check_positive(alpha, "alpha")
    epsilon_prime = epsilon - 2 * math.log1p(1 / (4 * n_samples * alpha))
    if epsilon_prime > 0:
        return PrintedCalibration(epsilon_prime, 0.0)
    return PrintedCalibration(epsilon / 2, 1 / (4 * n_samples * math.expm1(epsilon / 4)) - alpha)


def printed_group_epsilon(
    epsilon: float, n_samples: int, alphas: Sequence[float], row_norms: Sequence[float]
) -> float:
    """Return ``epsilon'`` of Algorithm 3 (feature groups, bounds ``q_k`` that sum to one).

    Zero bounds contribute nothing. A value at or below zero means that the algorithm switches to
    its second branch.
    """
    return epsilon - math.fsum(
        2 * math.log1p(q * q / (4 * n_samples * alpha))
        for alpha, q in zip(alphas, row_norms, strict=True)
    )


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
    far = 0.0 if centre is None else float(np.linalg.norm(centre))
    length = float(np.linalg.norm(noise))
    tolerance = 4 * smallest_tolerance(
        *X.shape, ridge=ridge, linear_norm=length, centre_norm=far, loss=Logistic()
    )
    return minimise(X, y, ridge=ridge, linear=noise, centre=centre, tolerance=max(1e-6, tolerance))


def gamma_noise(
    rho: float, dimension: int, count: int, generator: np.random.Generator
) -> NDArray[np.float64]:
    """Return ``(count, dimension)`` draws of density proportional to ``exp(-rho ||b||)``."""
    directions = generator.normal(size=(count, dimension))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    norms = generator.gamma(dimension, 1 / rho, size=(count, 1))
    return np.asarray(norms * directions)


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
    return minimise(rows, y, ridge=ridge, linear=noise, tolerance=1e-4)


Score = Callable[[Floats], Floats]
Fit = Callable[[Floats, Floats, float], Score]


def tuned(
    fit: Fit, X: Floats, y: Floats, alphas: Sequence[float], rng: np.random.Generator
) -> float:
    """Return the lambda whose model, fit on two thirds, has the best AUC on the last third."""
    order = rng.permutation(len(X))
    held, kept = np.split(order, [len(X) // 3])
    scores = [roc_auc_score(y[held], fit(X[kept], y[kept], alpha)(X[held])) for alpha in alphas]
    return alphas[int(np.argmax(scores))]
