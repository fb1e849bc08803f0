r"""How much ranking the noise costs, under a model of the data that everybody can check.

Rows are normal around their class's mean. Along principal directions of the table the variance
falls like :math:`\lambda_j \propto j^{-a}`, with the public guess ``a`` (``decay``), and classes
differ where rows vary: direction ``j`` has the share :math:`s_j \propto \lambda_j` of the squared
distance of the classes, in units of the deviation within a class. A share ``pi`` of the rows is
positive (``base_rate``). The best linear score is then binormal with area :math:`\Phi(D/\sqrt 2)`,
which the user guesses, and rows have a public root mean square norm.

For such rows the mean gradient of a loss is known by Stein's identity: with the mean residuals
:math:`r_1, r_0` of the classes and the mean curvature :math:`\kappa`, all at the scores' own spread
and offset, the expected weights and their answer to sampling error and noise are

.. math:: \bar w = (L + n\kappa v)^{-1} n\pi(1-\pi)(r_1 + r_0)\mu, \qquad
          w - \bar w = H^{-1}(\text{sampling error} + b), \qquad
          H = L + n\kappa(\operatorname{diag}(v) + \pi(1-\pi)\mu\mu')

A released :math:`w` ranks with area :math:`\Phi(w\cdot\mu/\sqrt{2\sum v_j w_j^2})`; its mean over
sampling error and noise is what is expected. Models of ``M`` parties are averaged; scores of
groups of features are added.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special, stats

Floats = NDArray[np.float64]

#: Rounds in which curvature, spread and offset of the scores settle.
_ROUNDS = 30

#: Principal directions are followed one by one up to here, and in bands of one variance beyond.
_SINGLE, _BANDS = 16, 48

#: Of a standard normal variable; close together, for the curvature of a capped loss jumps.
_NODES = np.linspace(-8, 8, 801)
_WEIGHTS = np.exp(-(_NODES**2) / 2) / np.exp(-(_NODES**2) / 2).sum()

#: Draws behind an expectation: its own error is then below .002.
DRAWS = 4_000


@dataclass(frozen=True, slots=True)
class Population:
    """What is guessed about the data.

    Attributes
    ----------
    area : float
        What the best linear score reaches, between 1/2 and 1.
    base_rate : float
        Share of positive rows.
    decay : float
        How fast the principal variances fall; 0 is not at all.
    row_norm : float
        Root mean square norm of rows, the constant aside, where the bound is one.
    constant : float
        The public constant of the intercept.
    """

    area: float
    base_rate: float
    decay: float
    row_norm: float
    constant: float

    @property
    def distance(self) -> float:
        """Distance of the classes along the best score, in its standard deviations."""
        return math.sqrt(2) * float(special.ndtri(self.area))

    @property
    def between(self) -> float:
        """Variance of the label: pi (1 - pi)."""
        return self.base_rate * (1 - self.base_rate)


@dataclass(frozen=True, slots=True)
class NoiseTerm:
    """The noise in one objective, for rows in the unit ball.

    Attributes
    ----------
    name : str
        Which objective.
    size : int
        Dimension of the noise, the constant included.
    rate : float
        Its density is proportional to ``exp(-rate ||b||)``; of Gaussian noise one over sigma.
    ridge : float
        ``L`` of the summed objective.
    gaussian : bool, default=False
        Whether there is a delta to pay with.
    """

    name: str
    size: int
    rate: float
    ridge: float
    gaussian: bool = False

    @property
    def mean(self) -> float:
        """Expected norm of the noise."""
        return float(stats.chi.mean(self.size) if self.gaussian else self.size) / self.rate

    def quantile(self, probability: float) -> float:
        """Return the norm that the noise stays below with this probability."""
        law = stats.chi if self.gaussian else stats.gamma
        return float(law.ppf(probability, self.size)) / self.rate


@dataclass(frozen=True, slots=True)
class PlannedObjective:
    """One perturbed objective: features, noise rate and dimension, ridge, share of the signal.

    ``noise_size`` counts the constant as well; a rate of infinity has no noise. ``cap`` is the
    largest slope of the loss. ``law`` says where noise goes: of a random norm into the gradients of
    every party (``"norm"``) or normal (``"own normal"``), normal into the gradient of all records
    (``"normal"``), or of a random norm onto the weights themselves, once for all parties
    (``"weights"``).
    """

    n_features: int
    noise_size: int
    rate: float
    ridge: float
    signal: float
    cap: float = 1.0
    law: Literal["norm", "own normal", "normal", "weights"] = "norm"

    @property
    def coordinate_noise(self) -> float:
        """Variance of one coordinate of the noise."""
        if math.isinf(self.rate):
            return 0.0
        return (1.0 if "normal" in self.law else self.noise_size + 1) / self.rate**2

    def in_weights(self, stiffness: Floats) -> Floats:
        """Return the factor from noise to weights, per band."""
        return np.ones_like(stiffness) if self.law == "weights" else 1 / stiffness


@dataclass(frozen=True)
class _Settled:
    """An objective on its population: bands of directions, curvature and expected weights.

    Per band: ``size`` directions of variance ``v`` within a class, ``mu`` the length of the
    classes' difference in it, ``mean`` the expected weight along that difference, ``stiffness``
    ridge plus curvature across it.
    """

    size: Floats
    v: Floats
    mu: Floats
    mean: Floats
    stiffness: Floats
    coupling: float
    error: Floats

    def solve(self, pulls: Floats) -> Floats:
        """Return how weights along every band's difference answer to pulls ``(draws, bands)``."""
        loose = pulls / self.stiffness
        return np.asarray(loose - np.outer(loose @ self.mu, self.coupling * self._loose_mu))

    @property
    def _loose_mu(self) -> Floats:
        return self.mu / self.stiffness


def expected_area(
    objectives: Sequence[PlannedObjective],
    population: Population,
    *,
    n_samples: int,
    n_parties: int,
    draws: int = DRAWS,
) -> float:
    """Return the expected area under the curve of a released model.

    Parameters
    ----------
    objectives : sequence of PlannedObjective
        One per group of features; their signals sum to one.
    population : Population
        What is guessed about the data.
    n_samples : int
        Records of every party behind the objectives.
    n_parties : int
        Models that are averaged.
    draws : int
        Of the expectation, from a fixed seed.
    """
    generator = np.random.default_rng(0)
    pull, square = np.zeros(draws), np.zeros(draws)
    for each, bands in zip(objectives, _bands(objectives, population), strict=True):
        settled = _settle(each, *bands, n_samples, population)
        noise, stray_noise = _noise(each, settled.size, n_parties, draws, generator)
        spread = settled.error / math.sqrt(n_parties)
        error = generator.normal(size=noise.shape) * spread
        rest = settled.size - 1
        stray_error = spread * np.sqrt(_squares(rest, draws, generator))
        angle = _cosine(rest, draws, generator)
        stray_noise = stray_noise * each.in_weights(settled.stiffness)
        stray_error = stray_error / settled.stiffness
        stray = stray_noise**2 + stray_error**2 + 2 * angle * stray_noise * stray_error
        if each.law == "weights":
            straight = settled.mean + settled.solve(error) + noise
        else:
            straight = settled.mean + settled.solve(error + noise)
        pull += straight @ settled.mu
        square += (straight**2 + np.maximum(stray, 0)) @ settled.v
    return float(np.mean(special.ndtr(pull / np.sqrt(2 * square))))


def expected_margin(
    objectives: Sequence[PlannedObjective], population: Population, *, n_samples: int
) -> float:
    """Return half of what parts the classes' mean rows in score, without noise."""
    margin = 0.0
    for each, bands in zip(objectives, _bands(objectives, population), strict=True):
        settled = _settle(each, *bands, n_samples, population)
        margin += float(settled.mean @ settled.mu) / 2
    return margin


def noise_in_scores(
    objectives: Sequence[PlannedObjective],
    population: Population,
    *,
    n_samples: int,
    n_parties: int,
) -> float:
    """Return the variance that noise adds to the score of a row of norm one.

    The noise is divided by ridge plus curvature; an average of parties has less of it. A row's
    squared length lies in directions in proportion to their variances.
    """
    total = length = 0.0
    for each, bands in zip(objectives, _bands(objectives, population), strict=True):
        settled = _settle(each, *bands, n_samples, population)
        lengths = settled.size * settled.v
        noise = each.coordinate_noise * each.in_weights(settled.stiffness) ** 2
        own = each.law in ("norm", "own normal")
        total += float(lengths @ noise) / (n_parties if own else 1)
        length += float(lengths.sum())
    return total / length


def _bands(
    objectives: Sequence[PlannedObjective], population: Population
) -> list[tuple[Floats, Floats, Floats]]:
    """Return every objective's bands: sizes, variances within a class, lengths of ``mu``."""
    found = []
    for each in objectives:
        ends = np.arange(1, min(each.n_features, _SINGLE) + 1)
        if each.n_features > _SINGLE:
            far = np.geomspace(_SINGLE, each.n_features, _BANDS + 1)
            ends = np.unique(np.concatenate([ends, np.rint(far).astype(np.intp)]))
        if population.decay == 0:
            ends = np.array([each.n_features])
        size = np.diff(ends, prepend=0).astype(np.float64)
        middle = ends - (size - 1) / 2
        total = middle**-population.decay
        total *= each.n_features / (size @ total)  # a group's variance goes by its features
        share = each.signal * size * total / (size @ total)
        within = total / (1 + population.between * population.distance**2 * share / size)
        found.append((size, total, within, share))
    scale = population.row_norm**2 / sum(float(size @ total) for size, total, _, _ in found)
    return [
        (size, scale * within, population.distance * np.sqrt(scale * within * share))
        for size, _, within, share in found
    ]


def _settle(
    each: PlannedObjective,
    size: Floats,
    v: Floats,
    mu: Floats,
    n_samples: int,
    population: Population,
) -> _Settled:
    """Find residuals, curvature, spread and offset of the scores that agree with one another."""
    q, rate = population.between, population.base_rate
    pull, slope, square = 1.0, 0.25, 0.25
    for _ in range(_ROUNDS):
        stiffness = each.ridge + n_samples * slope * v
        mean = n_samples * q * pull * mu / stiffness
        error = np.sqrt(n_samples * square * v)
        noise = each.coordinate_noise * each.in_weights(stiffness) ** 2
        stray = size * v * (noise + (error / stiffness) ** 2)
        spread = math.sqrt(mean**2 @ v + stray.sum())
        apart = float(mean @ mu)
        scores = _scores(spread, apart, each, n_samples, population)
        positive, negative = (_residual(score, each.cap) for score in scores)
        # Half way each time: the spread falls as the slope grows, and would swing.
        pull = (pull + float(_WEIGHTS @ (positive + negative))) / 2
        bends = [_curvature(score, each.cap) for score in scores]
        slope = (slope + float(_WEIGHTS @ (rate * bends[0] + (1 - rate) * bends[1]))) / 2
        square = float(_WEIGHTS @ (rate * positive**2 + (1 - rate) * negative**2))
    inner = n_samples * slope * q
    coupling = inner / (1 + inner * float(mu @ (mu / stiffness)))
    return _Settled(size, v, mu, mean, stiffness, coupling, error)


def _residual(margins: Floats, cap: float) -> Floats:
    return np.asarray(np.minimum(special.expit(-margins), cap))


def _curvature(margins: Floats, cap: float) -> Floats:
    p = special.expit(-margins)
    return np.where(p < cap, p * (1 - p), 0.0)


def _scores(
    spread: float, apart: float, each: PlannedObjective, n_samples: int, population: Population
) -> tuple[Floats, Floats]:
    """Return margins of the classes at the nodes, with the intercept that the ridge allows."""
    rate = population.base_rate

    def margins(offset: float) -> tuple[Floats, Floats]:
        positive = offset + (1 - rate) * apart + spread * _NODES
        return positive, -(offset - rate * apart + spread * _NODES)

    def gradient(offset: float) -> float:
        positive, negative = (_residual(margin, each.cap) for margin in margins(offset))
        pulls = rate * float(_WEIGHTS @ positive) - (1 - rate) * float(_WEIGHTS @ negative)
        return each.ridge * offset / population.constant**2 - n_samples * pulls

    # A capped loss goes beyond the log odds, by no more than the factor of its residuals.
    farthest = (abs(float(special.logit(rate))) + 1) * (1 + spread) + apart + 1
    return margins(float(optimize.brentq(gradient, -farthest, farthest)))


def _noise(
    each: PlannedObjective, size: Floats, n_parties: int, draws: int, generator: np.random.Generator
) -> tuple[Floats, Floats]:
    """Return the mean noise along every band's difference, and its length across it."""
    shape = (draws, len(size))
    if math.isinf(each.rate):
        return np.zeros(shape), np.zeros(shape)
    first = generator.normal(size=shape)
    others = _squares(size - 1, draws, generator)
    if "normal" in each.law or (each.law == "norm" and n_parties > 1):
        # A mean of many is nearly normal.
        spread = math.sqrt(each.coordinate_noise / n_parties)
        return spread * first, spread * np.sqrt(others)
    constant = _squares(np.array([each.noise_size - size.sum()]), draws, generator)
    total = np.sqrt((first**2 + others).sum(axis=1) + constant[:, 0])
    factor = generator.gamma(each.noise_size, 1 / each.rate, size=draws) / total
    return factor[:, None] * first, factor[:, None] * np.sqrt(others)


def _squares(dimensions: Floats, draws: int, generator: np.random.Generator) -> Floats:
    """Return sums of squares of normal coordinates, one column each; zero in no dimension."""
    found = np.zeros((draws, len(dimensions)))
    some = dimensions > 0
    found[:, some] = generator.chisquare(dimensions[some], size=(draws, int(some.sum())))
    return found


def _cosine(dimensions: Floats, draws: int, generator: np.random.Generator) -> Floats:
    """Return cosines of the angles between two random directions, one column each."""
    first = generator.normal(size=(draws, len(dimensions)))
    length = np.sqrt(first**2 + _squares(dimensions - 1, draws, generator))
    return np.where(dimensions > 0, first / length, 0.0)
