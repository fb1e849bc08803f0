r"""How much ranking the noise costs, under a model of the data that everybody can check.

Features of the two classes are normal with means :math:`\pm\mu/2` and one public variance
:math:`v` per coordinate, so the best linear score is binormal with area
:math:`\Phi(\|\mu\|/\sqrt{2v})`. For rows near to normal the mean gradient of the loss is linear in
the weights, with the mean curvature :math:`\kappa` at the scores' own spread for a slope:

.. math:: w_k = H_k^{-1}(n\mu_k/4 + \text{sampling error} + b_k)

with :math:`H_k = L_k + n\kappa v` across :math:`\mu_k` and
:math:`L_k + n\kappa(v + \|\mu_k\|^2/4)` along it. A released :math:`w` then ranks with area
:math:`\Phi(w\cdot\mu/\sqrt{2v\|w\|^2})`; its mean over sampling error and noise is what is
expected. Models of ``M`` parties are averaged.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

Floats = NDArray[np.float64]

#: Rounds in which curvature and spread of the scores settle.
_ROUNDS = 30

_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(60)
_WEIGHTS = _WEIGHTS / math.sqrt(2 * math.pi)

#: Draws behind an expectation: its own error is then below .002.
DRAWS = 4_000


@dataclass(frozen=True, slots=True)
class Objective:
    """One perturbed objective: features, noise rate and dimension, ridge, share of the signal.

    ``noise_size`` counts the constant as well; a rate of infinity has no noise.
    """

    n_features: int
    noise_size: int
    rate: float
    ridge: float
    signal: float


def expected_area(
    objectives: Sequence[Objective],
    *,
    n_samples: int,
    n_parties: int,
    area: float,
    row_norm: float,
    draws: int = DRAWS,
) -> float:
    """Return the expected area under the curve of a released model.

    Parameters
    ----------
    objectives : sequence of Objective
        One per group of features; their signals sum to one.
    n_samples : int
        Records of every party behind the objectives.
    n_parties : int
        Models that are averaged.
    area : float
        What the best linear score reaches, between 1/2 and 1.
    row_norm : float
        Root mean square of the norms of the rows that the objective sees.
    draws : int
        Of the expectation, from a fixed seed.
    """
    generator = np.random.default_rng(0)
    v = coordinate_variance(objectives, area=area, row_norm=row_norm)
    distance = class_distance(area)
    pull, square = np.zeros(draws), np.zeros(draws)
    for each in objectives:
        mean = distance * math.sqrt(v * each.signal)
        along, across = stiffness(each, n_samples, area=area, v=v)
        sampling = math.sqrt(n_samples * v / 4 / n_parties)
        noise, stray_noise = _noise(each, n_parties, draws, generator)
        error = generator.normal(scale=sampling, size=draws)
        rest = each.n_features - 1
        stray_error = sampling * np.sqrt(_squares(rest, draws, generator))
        angle = _cosine(rest, draws, generator)
        stray = stray_noise**2 + stray_error**2 + 2 * angle * stray_noise * stray_error
        straight = (n_samples * mean / 4 + error + noise) / along
        pull += straight * mean
        square += straight**2 + np.maximum(stray, 0) / across**2
    return float(np.mean(special.ndtr(pull / np.sqrt(2 * v * square))))


def expected_margin(
    objectives: Sequence[Objective], *, n_samples: int, area: float, row_norm: float
) -> float:
    """Return the score of a class's mean row without noise: half of what parts the classes."""
    v = coordinate_variance(objectives, area=area, row_norm=row_norm)
    margin = 0.0
    for each in objectives:
        along, _ = stiffness(each, n_samples, area=area, v=v)
        margin += n_samples * class_distance(area) ** 2 * v * each.signal / 8 / along
    return margin


def class_distance(area: float) -> float:
    """Return the distance of the classes along the best score, in its standard deviations."""
    return math.sqrt(2) * float(special.ndtri(area))


def coordinate_variance(objectives: Sequence[Objective], *, area: float, row_norm: float) -> float:
    """Return ``v`` such that rows have the given root mean square norm."""
    d = sum(each.n_features for each in objectives)
    return row_norm**2 / (d + class_distance(area) ** 2 / 4)


def stiffness(each: Objective, n_samples: int, *, area: float, v: float) -> tuple[float, float]:
    """Return ridge plus curvature along and across the signal, at the scores' own spread."""
    square = class_distance(area) ** 2 * v * each.signal
    noise = 0.0 if math.isinf(each.rate) else (each.noise_size + 1) / each.rate**2
    slope = 0.25
    for _ in range(_ROUNDS):
        across = each.ridge + n_samples * slope * v
        along = across + n_samples * slope * square / 4
        signal = (n_samples / 4 / along) ** 2 * square * (v + square / 4)
        stray = each.n_features * v * (noise + n_samples * v / 4) / across**2
        # Half way each time: the spread falls as the slope grows, and would swing.
        slope = (slope + _mean_slope(math.sqrt(signal + stray))) / 2
    return along, across


def _mean_slope(spread: float) -> float:
    """Return the mean derivative of the sigmoid at normal scores of this spread."""
    p = special.expit(spread * _NODES)
    return float(_WEIGHTS @ (p * (1 - p)))


def _noise(
    each: Objective, n_parties: int, draws: int, generator: np.random.Generator
) -> tuple[Floats, Floats]:
    """Return the mean noise along one direction, and its length across it, constant aside."""
    if math.isinf(each.rate):
        return np.zeros(draws), np.zeros(draws)
    rest = each.n_features - 1
    if n_parties > 1:
        # A mean of many is nearly normal; a coordinate of one has variance (size + 1)/rate^2.
        spread = math.sqrt((each.noise_size + 1) / n_parties) / each.rate
        straight = generator.normal(scale=spread, size=draws)
        return straight, spread * np.sqrt(_squares(rest, draws, generator))
    lengths = generator.gamma(each.noise_size, 1 / each.rate, size=draws)
    first = generator.normal(size=draws)
    others, constant = (
        _squares(size, draws, generator) for size in (rest, each.noise_size - each.n_features)
    )
    total = np.sqrt(first**2 + others + constant)
    return lengths * first / total, lengths * np.sqrt(others) / total


def _squares(dimension: int, draws: int, generator: np.random.Generator) -> Floats:
    """Return sums of squares of normal coordinates; zero in no dimension."""
    return generator.chisquare(dimension, size=draws) if dimension else np.zeros(draws)


def _cosine(dimension: int, draws: int, generator: np.random.Generator) -> Floats:
    """Return cosines of the angle between two random directions."""
    if dimension < 1:
        return np.zeros(draws)
    first = generator.normal(size=draws)
    return np.asarray(first / np.sqrt(first**2 + _squares(dimension - 1, draws, generator)))
