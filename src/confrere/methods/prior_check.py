"""A paid check of what is declared before any data: whether labels go the prior's way.

Proof: docs/proofs/prior_check.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from confrere.arrays import Floats
from confrere.errors import InvalidData, InvalidParameter
from confrere.kernel.guarantee import (
    ASSUMPTIONS,
    Guarantee,
    Neighbours,
    check_epsilon,
    check_relation,
    public_facts,
)
from confrere.mechanisms.measurements import (
    Point,
    RowCount,
    check_row_count,
    declared_count,
    largest_count,
)

THEOREM = "docs/proofs/prior_check.md"

Integers = NDArray[np.int64]

#: Steps of one unit of a record's part: contributions are whole numbers, so that integer noise is
#: all the noise there has to be.
LEVELS = 1024

#: Mean of ``z clip(z, -1, 1)`` for a standard normal score, by Stein's identity P(|z| < 1).
_STEIN = 0.6827

#: About the deviation of a record's part where there are several classes: of a clipped normal.
_PART = 0.72

#: What is believed of a prior's factor before the check: its mean and variance.
BELIEVED, DOUBT = 0.8, 0.36

#: The factor is rounded to these steps and bounded: the fits that may follow can be counted.
STEPS, LARGEST_FACTOR = 32, 1.5

#: Noise in the factor that the check's share of the budget aims at: 4.7 is sqrt(2)/.3.
_AIM, _LEAST, _MOST = 4.7, 0.05, 0.3

#: A check whose error is larger says nothing.
VERIFIABLE = 0.6


@dataclass(frozen=True)
class Belief:
    """How far a prior is to be believed.

    Attributes
    ----------
    factor : float
        What the prior's log odds are multiplied by; a negative one turns the prior round.
    sigma : float
        Standard error of what was seen, from public facts.
    """

    factor: float
    sigma: float

    @property
    def trust(self) -> float:
        """Share, 0 to 1, that importances and the tightness of the prior keep."""
        return min(1.0, abs(self.factor) / 0.7)

    @property
    def verifiable(self) -> bool:
        """Whether the budget was enough to tell a right prior from a wrong one."""
        return self.sigma <= VERIFIABLE


#: Of a prior that nobody checks.
UNCHECKED = Belief(1.0, math.inf)


@dataclass(frozen=True, kw_only=True)
class PriorCheck:
    """Discrete Laplace noise on ``sum_i (1{y_i = 1} - pi) c_i``, in whole steps.

    ``c_i`` is the prior's score of row i in units of its deviation, clipped to [-1, 1]. Of more
    than two classes a record's part is how far its own class's score lies above the mean of all.
    """

    epsilon: float  #: What it spends
    #: Public number of rows, or what stands for it; of all parties where answers are added.
    n_samples: RowCount
    base_rate: float = 0.5  #: Declared share of positive rows, ``pi``
    deviation: float = 1.0  #: Declared standard deviation of the prior's log odds
    neighbours: Neighbours = Neighbours.REPLACE_ONE
    answers: int = 1  #: How many parties' answers are added up
    #: Of more than two classes: their declared shares, in place of ``base_rate``.
    rates: tuple[float, ...] | None = None
    strength: float = 0.0  #: Of more than two classes: the mean part if the prior holds

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        check_relation(self.neighbours)
        if not 0 < self.base_rate < 1:
            raise InvalidParameter("base_rate must lie strictly between 0 and 1.")
        if self.rates is not None and not (min(self.rates) > 0 and self.strength > 0):
            raise InvalidParameter("rates and strength must be above 0 for several classes.")
        if not 0 < self.deviation < math.inf:
            raise InvalidParameter("prior must not score all rows alike.")
        check_row_count(self.n_samples, self.neighbours)

    @property
    def sensitivity(self) -> int:
        """Largest change of the sum, in steps, when one record is changed."""
        positive, negative = self._parts
        one = max(positive, negative)
        return one if self.neighbours is Neighbours.ADD_REMOVE else 2 * one

    @property
    def scale(self) -> float:
        """Scale of the integer noise."""
        return self.measurement.scale

    @property
    def sigma(self) -> float:
        """Standard error of the factor: of the noise, and of the sample."""
        if self.rates is not None:
            size = declared_count(self.n_samples)
            noise = math.sqrt(2 * self.answers) * self.scale / LEVELS
            return math.hypot(noise, _PART * math.sqrt(size)) / self._expected
        return _sigma(self.scale / LEVELS, self._expected, self.answers, self.deviation)

    @property
    def longest(self) -> float:
        """A bound on the length of an answer that noise exceeds with probability 1e-18."""
        return float(largest_count(self.n_samples) * LEVELS + 42 * self.scale)

    def guarantee(self) -> Guarantee:
        """Return the price, without touching data."""
        return Guarantee(
            epsilon=self.epsilon,
            neighbours=self.neighbours,
            theorem=THEOREM,
            public=public_facts(self.neighbours, "the prior"),
            assumptions=ASSUMPTIONS,
        )

    def total(self, scores: Floats, y: Floats) -> int:
        """Return the sum of the records' parts, each a whole number of its own row alone.

        Parameters
        ----------
        scores : (n,) array, or (n, K) of more than two classes
            Log odds that the prior gives every row, or every class; any number.
        y : (n,) array
            Labels -1 and +1, or codes.
        """
        if len(scores) != len(y):
            raise InvalidData("scores and labels must be of the same records.")
        if self.rates is not None:
            return self._total_of_classes(scores, y)
        # Not a number, which no score is, would be no opinion.
        clipped = np.clip(np.nan_to_num(scores / self.deviation), -1.0, 1.0)
        positive, negative = self._parts
        parts = np.rint(np.where(y > 0, positive, -negative) * clipped)
        return int(parts.astype(np.int64).sum())

    def _total_of_classes(self, scores: Floats, y: Floats) -> int:
        assert self.rates is not None
        parts = class_parts(scores, self.rates, self.deviation)
        own = np.rint(LEVELS * parts[np.arange(len(y)), y.astype(np.intp)])
        return int(own.astype(np.int64).sum())

    @property
    def measurement(self) -> Point:
        """What is released: of scores and labels the sum of the records' parts."""

        def value(scores: Floats, y: Floats) -> tuple[Integers]:
            return (np.array([self.total(scores, y)], dtype=np.int64),)

        return Point(promise=self.guarantee(), sensitivity=self.sensitivity, value=value)

    def belief(self, released: float) -> Belief:
        """Return the factor that the noised sum speaks for: post-processing."""
        seen = released / LEVELS / self._expected
        precision = self.sigma**-2
        mean = (BELIEVED / DOUBT + precision * seen) / (1 / DOUBT + precision)
        steps = np.clip(np.rint(mean * STEPS), -LARGEST_FACTOR * STEPS, LARGEST_FACTOR * STEPS)
        return Belief(float(steps / STEPS), self.sigma)

    def beliefs(self) -> list[Belief]:
        """Return every belief that a release can lead to."""
        most = round(LARGEST_FACTOR * STEPS)
        return [Belief(k / STEPS, self.sigma) for k in range(-most, most + 1)]

    @property
    def before(self) -> Belief:
        """What is believed before the check."""
        return Belief(round(BELIEVED * STEPS) / STEPS, self.sigma)

    @property
    def _parts(self) -> tuple[int, int]:
        """Largest parts of a positive and of a negative record."""
        if self.rates is not None:
            return LEVELS, LEVELS
        return round(LEVELS * (1 - self.base_rate)), round(LEVELS * self.base_rate)

    @property
    def _expected(self) -> float:
        size = declared_count(self.n_samples)
        if self.rates is not None:
            return size * self.strength
        return _expected(size, self.base_rate, self.deviation)


def check_share(
    epsilon: float,
    n_samples: float,
    *,
    base_rate: float,
    deviation: float = 1.0,
    strength: float | None = None,
) -> float:
    """Return the part of epsilon that pays for the check: a public rule of public sizes.

    ``strength`` is that of several classes.
    """
    move = 2 * max(base_rate, 1 - base_rate)
    expected = _expected(n_samples, base_rate, deviation)
    if strength is not None:
        move, expected = 2.0, n_samples * strength
    return min(_MOST, max(_LEAST, _AIM * move / (epsilon * max(expected, 1e-9))))


def class_parts(scores: Floats, rates: tuple[float, ...], deviation: float) -> Floats:
    """Return the part of every row, were it of each class: between -1 and 1, ``(n, K)``.

    How far the class's score is above the mean of all, clipped. If labels had nothing to do with
    scores a record's mean part would be zero.

    Parameters
    ----------
    scores : (n, K) array
        Any numbers; what is none is no opinion.
    rates : tuple of float
        Shares of the classes.
    deviation : float
        What scores above the mean are measured in.
    """

    def mean(values: Floats) -> Floats:
        # Column after column, so that no other row changes the last bit of one's part.
        found = np.zeros(len(values))
        for k, rate in enumerate(rates):
            found += rate * values[:, k]
        return found[:, None]

    with np.errstate(over="ignore", invalid="ignore"):
        centred = scores - mean(scores)
    clipped = np.clip(np.nan_to_num(centred / deviation), -1.0, 1.0)
    return np.asarray(np.clip(clipped - mean(clipped), -1.0, 1.0))


def _expected(n_samples: float, base_rate: float, deviation: float) -> float:
    """Return the mean of the sum if the prior's log odds are right."""
    return _STEIN * n_samples * base_rate * (1 - base_rate) * deviation


def _sigma(scale: float, expected: float, answers: int, deviation: float) -> float:
    return math.hypot(
        math.sqrt(2 * answers) * scale / expected, 1 / math.sqrt(expected * deviation)
    )
