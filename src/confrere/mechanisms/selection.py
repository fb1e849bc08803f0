"""Choose the candidate with few errors: exponential mechanism, permute-and-flip, random stopping.

Proof: docs/proofs/private_selection.md.

Errors are whole numbers, of misclassified records or of squared errors added up
(:func:`brier_score`), on a part that no candidate was fitted on: replacing one record moves every
candidate's number by at most one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from confrere.errors import InvalidParameter
from confrere.guarantee import Guarantee, Neighbours, check_epsilon
from confrere.mechanisms.objective_perturbation import ASSUMPTIONS
from confrere.noise.sources import RandomSource

THEOREM = "docs/proofs/private_selection.md"
Rule = Literal["permute-and-flip", "exponential"]

#: Squared errors are counted in whole parts of one.
_UNITS = 1000


@dataclass(frozen=True, kw_only=True)
class ErrorSelection:
    """Choose one of several candidates by their numbers of errors, all on the same records.

    Parameters
    ----------
    epsilon : float
        The price.
    rule : {"permute-and-flip", "exponential"}
        Permute-and-flip never expects more errors than the exponential mechanism does.
    neighbours : Neighbours
        Replace-one or label-only: both move an error count by at most one.
    """

    epsilon: float
    rule: Rule = "permute-and-flip"
    neighbours: Neighbours = Neighbours.REPLACE_ONE

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        if self.rule not in ("permute-and-flip", "exponential"):
            raise InvalidParameter("rule must be 'permute-and-flip' or 'exponential'.")

    def guarantee(self) -> Guarantee:
        """Return the price, without touching data."""
        return Guarantee(
            epsilon=self.epsilon,
            neighbours=self.neighbours,
            theorem=THEOREM,
            public=("number of records", "candidates"),
            assumptions=ASSUMPTIONS,
        )

    def acceptance(self, errors: ArrayLike) -> NDArray[np.float64]:
        """Return ``exp(-epsilon/2 (errors - fewest))`` of every candidate."""
        counts = np.asarray(errors, dtype=np.float64)
        return np.asarray(np.exp(-self.epsilon / 2 * (counts - counts.min())))

    def law(self, errors: ArrayLike) -> NDArray[np.float64]:
        """Return the exact probability of choosing every candidate.

        For permute-and-flip, candidate ``r`` arriving at a uniform time ``t`` wins if it is
        accepted and nobody before it was: ``p_r`` times the integral of
        ``prod_{s != r} (1 - t p_s)``, a polynomial that Gauss's rule integrates exactly.
        """
        p = self.acceptance(errors)
        if self.rule == "exponential":
            return np.asarray(p / p.sum())
        nodes, weights = np.polynomial.legendre.leggauss(len(p) // 2 + 1)
        times, weights = (nodes + 1) / 2, weights / 2
        factors = 1 - times[:, None] * p
        return np.array(
            [p[r] * (weights @ np.delete(factors, r, axis=1).prod(axis=1)) for r in range(len(p))]
        )

    def run(self, errors: ArrayLike, *, source: RandomSource) -> int:
        """Return the position of the chosen candidate."""
        p = self.acceptance(errors)
        source = source.book(self.guarantee())
        if self.rule == "exponential":
            ends = np.cumsum(p)
            reached = np.searchsorted(ends, source.uniforms(1)[0] * ends[-1])
            return min(int(reached), len(p) - 1)
        order = np.argsort(source.uniforms(len(p)))
        flips = source.uniforms(len(p))
        accepted = order[flips <= p[order]]
        # The best candidate is always accepted.
        return int(accepted[0])


@dataclass(frozen=True, kw_only=True)
class RandomStopping:
    """How often to run a private candidate before the best run is released.

    The number of runs has the truncated negative binomial law with ``shape > -1`` and rate
    ``gamma`` in (0, 1): 1 is geometric, 0 logarithmic. Best-of-that-many runs of an
    ``epsilon``-private mechanism is ``(2 + shape) epsilon``-private, however many are expected.

    Parameters
    ----------
    shape : float
        Shape; smaller is cheaper, with heavier weight on a single run.
    expected : float
        Expected number of runs, above 1.
    """

    shape: float
    expected: float

    def __post_init__(self) -> None:
        if not self.shape > -1 or not math.isfinite(self.shape):
            raise InvalidParameter("shape must be a finite number above -1.")
        if not 1 < self.expected <= 1e6:
            raise InvalidParameter("the expected number of runs must lie above 1, at most 1e6.")

    @property
    def factor(self) -> float:
        """How many times the price of one run all of them cost together."""
        return 2 + self.shape

    @property
    def gamma(self) -> float:
        """The rate with the asked expectation, by bisection: fewer runs at a larger rate."""
        low, high = 0.0, 1.0
        while True:
            middle = (low + high) / 2
            if middle in (low, high):
                return middle
            if _expectation(self.shape, middle) > self.expected:
                low = middle
            else:
                high = middle

    def law(self, largest: int) -> NDArray[np.float64]:
        """Return the probabilities of 1, 2, ..., ``largest`` runs."""
        gamma = self.gamma
        k = np.arange(1, largest + 1, dtype=np.float64)
        if self.shape == 0:
            first = (1 - gamma) / math.log(1 / gamma)
        else:
            first = self.shape * (1 - gamma) / (gamma**-self.shape - 1)
        ratios = (1 - gamma) * (k[:-1] + self.shape) / (k[:-1] + 1)
        return np.asarray(first * np.cumprod(np.concatenate([[1.0], ratios])))

    def draw(self, source: RandomSource) -> int:
        """Return a number of runs."""
        u, largest = float(source.uniforms(1)[0]), 1024
        while True:
            ends = np.cumsum(self.law(largest))
            if u <= ends[-1] or 1 - ends[-1] < 1e-14:
                return min(int(np.searchsorted(ends, u)) + 1, largest)
            largest *= 4


def _expectation(shape: float, gamma: float) -> float:
    if shape == 0:
        return (1 / gamma - 1) / math.log(1 / gamma)
    return float(shape * (1 - gamma) / (gamma * (1 - gamma**shape)))


def brier_score(probabilities: NDArray[np.float64], codes: NDArray[np.intp]) -> int:
    """Return the rows' squared errors added up, rounded down; one row moves it by one at most.

    A row's error is half the squared distance of its probabilities from its class, in whole
    thousandths. It is bounded once it is an integer, from 0 to 1000, whatever the probabilities
    are; what is no number counts as the worst. Sums of integers are exact, and rounding down keeps
    a move of at most one at most one.

    Parameters
    ----------
    probabilities : (n, K) array
        Of every class.
    codes : (n,) array
        The classes, ``0 .. K-1``.
    """
    errors = np.clip(probabilities, 0.0, 1.0)
    errors[np.arange(len(codes)), codes] -= 1
    parts = np.rint(_UNITS / 2 * (errors**2).sum(axis=1))
    thousandths = np.where(np.isnan(parts), _UNITS, parts).astype(np.int64)
    return int(np.clip(thousandths, 0, _UNITS).sum()) // _UNITS
