"""Intervals that count two kinds of chance: which records were drawn, and the noise added.

Derivations: docs/proofs/private_evaluation.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special

from confrere.evaluation.estimates import Estimate

Floats = NDArray[np.float64]

#: Noise beyond this many scales has probability below 1e-12 and is left out of sums.
_REACH = 28


def noise_law(scale: float) -> tuple[NDArray[np.int64], Floats]:
    """Return the integers that discrete Laplace noise takes, and their probabilities."""
    reach = math.ceil(_REACH * scale)
    support = np.arange(-reach, reach + 1)
    law = np.exp(-np.abs(support) / scale)
    return support, np.asarray(law / law.sum())


def noise_variance(scale: float) -> float:
    """Return the variance of discrete Laplace noise."""
    q = math.exp(-1 / scale)
    return 2 * q / (1 - q) ** 2


def noise_quantile(scale: float, confidence: float) -> int:
    """Return the smallest ``r`` with ``P(|noise| <= r) >= confidence``."""
    _, law = noise_law(scale)
    middle = len(law) // 2
    inside = np.cumsum(np.concatenate([[law[middle]], 2 * law[middle + 1 :]]))
    return int(np.searchsorted(inside, confidence))


def proportion(noisy: int, n: int, scale: float, confidence: float) -> Estimate:
    """Return the interval for a probability from a noised count of ``n`` independent records.

    Both tails of the exact law of a binomial count plus noise are inverted, as Clopper and Pearson
    do without noise: the interval covers at least as often as it says.
    """
    support, law = noise_law(scale)
    risk = (1 - confidence) / 2

    def at_least(p: float) -> float:
        """Return the probability of a noised count of ``noisy`` or more."""
        return float(law @ _binomial_tail(noisy - support, n, p))

    def at_most(p: float) -> float:
        return float(law @ (1 - _binomial_tail(noisy + 1 - support, n, p)))

    low = _root(lambda p: at_least(p) - risk)
    high = 1 - _root(lambda q: at_most(1 - q) - risk)
    return Estimate(min(max(noisy / n, 0.0), 1.0), low, high)


def ratio(positives: float, negatives: float, scale: float, confidence: float) -> Estimate:
    """Return the interval for a share of positives from two noised counts.

    Those shares ``p`` are kept for which ``(1-p) positives - p negatives``, whose mean is zero, is
    within its own spread (Fieller's way): counts that drown in noise give all of [0, 1].
    """
    z2 = special.ndtri((1 + confidence) / 2) ** 2
    v = noise_variance(scale)
    total = positives + negatives
    size = max(total, 0.0)
    # (positives - p total)^2 <= z2 (size p(1-p) + v ((1-p)^2 + p^2)), a quadratic in p.
    a = total**2 + z2 * (size - 2 * v)
    b = -2 * positives * total - z2 * (size - 2 * v)
    c = positives**2 - z2 * v
    discriminant = b * b - 4 * a * c
    value = min(max(positives / total, 0.0), 1.0) if total > 0 else 0.5
    if a <= 0 or discriminant < 0 or total <= 0:
        return Estimate(value, 0.0, 1.0)
    root = math.sqrt(discriminant)
    low, high = ((-b - root) / (2 * a), (-b + root) / (2 * a))
    return Estimate(value, min(max(low, 0.0), value), max(min(high, 1.0), value))


def area(positives: Floats, negatives: Floats, scale: float, confidence: float) -> Estimate:
    """Return the area under the curve from noised histograms of the scores of both classes.

    Ties within a bin count one half; the interval adds what they could hide. Sampling and noise
    enter through the gradient of the area in the counts.
    """
    P, N = positives.sum(), negatives.sum()
    z = float(special.ndtri((1 + confidence) / 2))
    v = noise_variance(scale)
    if min(P, N) <= 2 * z * math.sqrt(len(positives) * v):
        return Estimate(0.5, 0.0, 1.0)
    below = (np.cumsum(negatives) - negatives / 2) / N
    above = (P - np.cumsum(positives) + positives / 2) / P
    value = float(positives @ below / P)
    slopes = np.concatenate([(below - value) / P, (above - value) / N])
    counts = np.concatenate([positives, negatives]).clip(min=0)
    spread = z * math.sqrt(slopes**2 @ (counts + v))
    hidden = float((positives / P).clip(min=0) @ (negatives / N).clip(min=0)) / 2
    low, high = value - spread - hidden, value + spread + hidden
    return Estimate(min(max(value, 0.0), 1.0), max(low, 0.0), min(high, 1.0))


def _binomial_tail(k: NDArray[np.int64], n: int, p: float) -> Floats:
    """Return ``P(K >= k)`` of a binomial count, for any integers ``k``."""
    inner = np.clip(k, 1, n)
    tail = special.betainc(inner, n - inner + 1, p)
    return np.where(k <= 0, 1.0, np.where(k > n, 0.0, tail))


def _root(excess: Callable[[float], float]) -> float:
    """Return where an increasing function reaches zero in [0, 1], or the end nearest to that."""
    if excess(0.0) >= 0:
        return 0.0
    return 1.0 if excess(1.0) <= 0 else float(optimize.brentq(excess, 0.0, 1.0, xtol=1e-10))
