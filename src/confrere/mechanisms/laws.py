"""Laws of noise: what a noisy minimiser has to know of the noise in its objective.

A law is four facts: which rows its accountant speaks of, how noise is drawn, how long it gets, and
its density. The accountants, from a budget to a law, are with the theorems: see
docs/proofs/objective_perturbation.md (L2, classes), docs/proofs/averaging.md (Laplace),
docs/proofs/geometry.md (bodies) and docs/proofs/gaussian.md.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy import special

from confrere.arrays import Floats
from confrere.errors import InvalidData
from confrere.kernel.streams import (
    RandomSource,
    gaussian_noise,
    l2_noise,
    laplace_noise,
    product_noise,
)
from confrere.rows.body import Body
from confrere.rows.frame import Rows, certify_rows

#: Probability of noise longer than certificates reckon with.
FARTHEST = 1e-18


class NoiseLaw(ABC):
    """A law of noise on vectors.

    Attributes
    ----------
    every_class : bool
        Whether noise on matrices of several classes is drawn for every class; else where their
        columns sum to zero.
    """

    every_class: ClassVar[bool] = False

    @abstractmethod
    def certify(self, rows: Rows) -> None:
        """Refuse rows outside the body that the accountant speaks of, before any draw."""

    @abstractmethod
    def draw(self, source: RandomSource, count: int, size: int) -> Floats:
        """Return ``(count, size)`` independent draws."""

    @abstractmethod
    def longest(self, size: int) -> float:
        """Return a Euclidean norm that a draw exceeds with probability :data:`FARTHEST`."""

    @abstractmethod
    def log_density(self, noise: Floats) -> float:
        """Return the logarithm of the density, up to a constant."""

    @property
    @abstractmethod
    def rate(self) -> float:
        """One over the scale of the noise, whatever its law."""

    def mean_length(self, size: int) -> float:
        """Return the mean of the norm that is in the density: Gamma's, unless told otherwise."""
        return size / self.rate


@dataclass(frozen=True, slots=True)
class L2Noise(NoiseLaw):
    """Density proportional to ``exp(-rho ||b||_2)``, for rows in the unit ball."""

    rho: float

    @property
    def rate(self) -> float:
        """The rate of the norm."""
        return self.rho

    def certify(self, rows: Rows) -> None:
        """Refuse rows outside the unit ball."""
        certify_rows(rows)

    def draw(self, source: RandomSource, count: int, size: int) -> Floats:
        """Return ``(count, size)`` independent draws."""
        return l2_noise(self.rho, size, source, count=count)

    def longest(self, size: int) -> float:
        """Return a quantile of the norm, which is Gamma(size) of scale ``1/rho``."""
        return float(special.gammainccinv(size, FARTHEST)) / self.rho

    def log_density(self, noise: Floats) -> float:
        """Return ``-rho ||b||_2``."""
        return -self.rho * float(np.linalg.norm(noise))


@dataclass(frozen=True, slots=True)
class ClassNoise(NoiseLaw):
    """Density proportional to ``exp(-rho sum_k ||B_k||_2)``: noise of its own for every class."""

    every_class: ClassVar[bool] = True

    rho: float
    n_classes: int

    @property
    def rate(self) -> float:
        """The rate of the norm."""
        return self.rho

    def certify(self, rows: Rows) -> None:
        """Refuse rows outside the unit ball."""
        certify_rows(rows)

    def draw(self, source: RandomSource, count: int, size: int) -> Floats:
        """Return ``(count, size)`` independent draws, class after class."""
        each = size // self.n_classes
        drawn = l2_noise(self.rho, each, source, count=count * self.n_classes)
        return drawn.reshape(count, size)

    def longest(self, size: int) -> float:
        """Return a quantile of the sum of norms, Gamma(size): the L2 norm is no longer."""
        return float(special.gammainccinv(size, FARTHEST)) / self.rho

    def log_density(self, noise: Floats) -> float:
        """Return ``-rho`` times the sum of the classes' norms."""
        rows = np.reshape(noise, (self.n_classes, -1))
        return -self.rho * float(np.linalg.norm(rows, axis=1).sum())


@dataclass(frozen=True, slots=True)
class LaplaceNoise(NoiseLaw):
    """Density proportional to ``exp(-rho ||b||_1)``, for rows in the unit ball of L1."""

    every_class: ClassVar[bool] = True

    rho: float

    @property
    def rate(self) -> float:
        """The rate of the norm."""
        return self.rho

    def certify(self, rows: Rows) -> None:
        """Refuse rows outside the L1 ball."""
        certify_rows(rows, norm="l1")

    def draw(self, source: RandomSource, count: int, size: int) -> Floats:
        """Return ``(count, size)`` independent draws."""
        return laplace_noise(self.rho, size, source, count=count)

    def longest(self, size: int) -> float:
        """Return a quantile of the L1 norm, Gamma(size) again: the L2 norm is no longer."""
        return float(special.gammainccinv(size, FARTHEST)) / self.rho

    def log_density(self, noise: Floats) -> float:
        """Return ``-rho ||b||_1``."""
        return -self.rho * float(np.abs(noise).sum())


@dataclass(frozen=True, slots=True)
class BodyNoise(NoiseLaw):
    """Density proportional to ``exp(-rho ||b||)`` in the gauge of a body, for rows inside it."""

    rho: float
    body: Body

    @property
    def rate(self) -> float:
        """The rate of the norm."""
        return self.rho

    def certify(self, rows: Rows) -> None:
        """Refuse rows outside the body, and outside the unit ball that the ridge speaks of."""
        self.body.certify(rows)
        certify_rows(rows)

    def draw(self, source: RandomSource, count: int, size: int) -> Floats:
        """Return ``(count, size)`` independent draws: a product body's law in every group."""
        body = self.body
        if size != body.size:
            raise InvalidData("noise of a body has the body's number of columns.")
        noise = np.empty((count, size))
        for g, share in enumerate(body.shares):
            mine = [part for part, group in zip(body.parts, body.groups, strict=True) if group == g]
            sizes = [part.stop - part.start for part in mine]
            drawn = product_noise(self.rho * share, sizes, source, count=count)
            noise[:, np.concatenate([np.arange(part.start, part.stop) for part in mine])] = drawn
        return body.coordinates(noise)

    def longest(self, size: int) -> float:
        """Return a quantile of the gauge, Gamma(size) again, in the length that it can have."""
        gauge = float(special.gammainccinv(size, FARTHEST)) / self.rho
        return gauge * self.body.longest_of_gauge

    def log_density(self, noise: Floats) -> float:
        """Return ``-rho ||b||`` in the body's gauge."""
        return -self.rho * float(self.body.gauge(noise)[0])


@dataclass(frozen=True, slots=True)
class GaussianNoise(NoiseLaw):
    """``N(0, sigma^2 I)``, for rows in the unit ball."""

    sigma: float

    @property
    def rate(self) -> float:
        """One over the deviation."""
        return 1 / self.sigma

    def mean_length(self, size: int) -> float:
        """Return the root of the mean square norm, all but the mean of the norm."""
        return self.sigma * math.sqrt(size)

    def certify(self, rows: Rows) -> None:
        """Refuse rows outside the unit ball."""
        certify_rows(rows)

    def draw(self, source: RandomSource, count: int, size: int) -> Floats:
        """Return ``(count, size)`` independent draws."""
        return gaussian_noise(self.sigma, size, source, count=count)

    def longest(self, size: int) -> float:
        """Return a quantile of the norm, ``sigma`` times a chi variable."""
        return self.sigma * math.sqrt(float(special.chdtri(size, FARTHEST)))

    def log_density(self, noise: Floats) -> float:
        """Return ``-||b||^2/(2 sigma^2)``."""
        return -float(np.square(noise).sum()) / (2 * self.sigma**2)
