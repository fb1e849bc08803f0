"""From counts of an event to a lower bound on epsilon."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special


def lower_probability(hits: ArrayLike, trials: int, risk: float) -> NDArray[np.float64]:
    """Return Clopper and Pearson's lower limit; it is above the truth with chance ``risk``."""
    k = np.asarray(hits, dtype=np.float64)
    limit = special.betaincinv(np.maximum(k, 1), trials - k + 1, risk)
    return np.where(k > 0, limit, 0.0)


def upper_probability(hits: ArrayLike, trials: int, risk: float) -> NDArray[np.float64]:
    """Return Clopper and Pearson's upper limit; it is below the truth with chance ``risk``."""
    k = np.asarray(hits, dtype=np.float64)
    return 1 - lower_probability(trials - k, trials, risk)


def epsilon_lower_bound(
    hits: ArrayLike,
    other_hits: ArrayLike,
    trials: int,
    *,
    confidence: float,
    delta: float = 0.0,
) -> NDArray[np.float64]:
    """Return an epsilon that the truth exceeds with probability ``confidence``.

    A mechanism that is (epsilon, delta)-private has ``P(E|D) <= exp(epsilon) P(E|D') + delta`` for
    every event; both probabilities are bounded, each with half of the risk.

    Parameters
    ----------
    hits, other_hits : array of int
        How often the event was seen on ``D`` and on ``D'``.
    trials : int
        Number of runs on each.
    confidence : float
        Of the bound, for an event that was fixed before these runs.
    delta : float, default=0.0
        What the claim concedes.
    """
    risk = (1 - confidence) / 2
    likely = np.maximum(lower_probability(hits, trials, risk) - delta, 0.0)
    rare = upper_probability(other_hits, trials, risk)
    with np.errstate(divide="ignore"):
        return np.asarray(np.maximum(np.log(likely) - np.log(rare), 0.0))


def attainable(epsilon: float, trials: int, *, confidence: float = 0.999) -> float:
    """Return the bound to expect where an ``epsilon``-private mechanism tells most.

    No such mechanism parts two data sets better than randomised response, whose answer is right
    with probability ``1/(1 + exp(-epsilon))``. An audit that comes near has used its runs up: only
    more of them would show more.

    Parameters
    ----------
    epsilon : float
        What is promised.
    trials : int
        Counting runs on each data set, half of what an audit makes.
    confidence : float, default=0.999
        Of the bound.
    """
    right = round(trials / (1 + math.exp(-epsilon)))
    bound = epsilon_lower_bound(right, trials - right, trials, confidence=confidence)
    return float(bound)
