r"""Public choices of a geometry: roots, groups and the ridge that suits a body.

All follow from the model of :mod:`confrere.maths.expected_signal`: the rate is dealt out so that
most signal survives, and ``A = (1 + s2/h) (t R)^{-1}`` is the ridge of the least expected squared
error. A curve is a line with bends, which get their own part of the rate. Nothing here is
needed for privacy: every block ridge has its exact price, see docs/proofs/geometry.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from confrere.maths.expected_signal import (
    LOG_ODDS,
    SEEN,
    ExpectedSignal,
    Factor,
    NoiseModel,
    coordinate_variance,
    expected_signal,
    grouped,
    prior_scale,
    squared_length,
    surviving,
)

Floats = NDArray[np.float64]

#: Part of epsilon that the Jacobian may cost.
JACOBIAN = 0.15

#: Roots are shorter by this share, so that rounding keeps rows in the unit ball.
_HAIR = 1e-9


@dataclass(frozen=True, eq=False)
class Geometry:
    """What a body is made of, and the ridge in its coordinates.

    Attributes
    ----------
    roots : tuple of array
        ``T_k`` of every factor.
    groups : tuple of int
        The group of every factor.
    shares : tuple of float
        The groups' shares of the rate.
    ridge : float
        ``1/s``.
    """

    roots: tuple[Floats, ...]
    groups: tuple[int, ...]
    shares: tuple[float, ...]
    ridge: float


def choose_geometry(
    factors: Sequence[Factor],
    *,
    n_samples: int,
    budget: float,
    curvature: float,
    noise: NoiseModel,
    log_odds: float = LOG_ODDS,
) -> Geometry:
    """Return roots, groups and ridge from public facts alone.

    Parameters
    ----------
    factors : sequence of Factor
        Of the rows, the constant among them.
    n_samples : int
        Public number of records.
    budget : float
        What pays for noise and Jacobian.
    curvature : float
        Mean of ``p(1-p)`` that a declared base rate implies.
    noise : NoiseModel
        What is reckoned with.
    log_odds : float, default=4.0
        Prior variance of a row's log-odds around what is shrunk towards.
    """
    expected = expected_signal(
        factors, n_samples=n_samples, curvature=curvature, noise=noise, log_odds=log_odds
    )
    scale = prior_scale(factors, log_odds)
    inverses, ridge = _block_ridge(factors, expected, SEEN * n_samples * curvature, noise, scale)
    reach = sum(float(np.diagonal(inverse).max()) for inverse in inverses)
    names = list(expected.shares)
    return Geometry(
        tuple(
            np.asarray(np.linalg.cholesky(inverse / reach).T * (1 - _HAIR)) for inverse in inverses
        ),
        tuple(names.index(factor.group) for factor in factors),
        tuple(expected.shares.values()),
        # The Jacobian costs at most log(1 + s/4).
        max(ridge / reach, _least_ridge(JACOBIAN * budget)),
    )


def _least_ridge(jacobian: float) -> float:
    """Return ``1/(4(e^j - 1))``, at which ``log(1 + 1/(4L))`` is ``j``; 0 where that is huge."""
    return math.exp(-jacobian) / (-4 * math.expm1(-jacobian))


def _block_ridge(
    factors: Sequence[Factor],
    expected: ExpectedSignal,
    records: float,
    noise: NoiseModel,
    scale: float,
) -> tuple[list[Floats], float]:
    """Return ``A^{-1}`` of every factor up to a scale, and the ridge that goes with that scale."""
    found: dict[Factor, Floats] = {}
    ridges, signals = [], []
    for group, counts in grouped(factors).items():
        share, length = expected.shares[group], squared_length(counts)
        for factor, count, each in noise.variances(counts, share):
            raised = 1 + each / (records * factor.spread)
            if noise.gaussian:
                # Shares of the rows' length decide where noise goes, and one ridge serves all.
                mine = share * factor.length / length
                found[factor] = mine * factor.kernel
                ridges.append(float(np.median(raised)) * mine / (scale * factor.weight))
                signals.append(count * surviving(factor, scale, each, records))
            else:
                found[factor] = scale * factor.weight / float(raised[0]) * factor.kernel
    inverses = [found[factor] for factor in factors]
    if not noise.gaussian or not sum(signals) > 0:
        return inverses, 1.0
    return inverses, float(np.average(ridges, weights=signals))


def weight_noise(
    factors: Sequence[Factor],
    *,
    n_samples: int,
    rate: float,
    ridge: float,
    curvature: float,
    log_odds: float = LOG_ODDS,
) -> list[tuple[Floats, Floats]]:
    """Return the covariance of the noise and the ridge of every factor, as public facts tell them.

    The minimiser moves by ``(H + A)^-1 b`` for noise ``b`` of such a covariance and the block
    ridge ``A``; ``H`` only the records know.

    Parameters
    ----------
    factors : sequence of Factor
        Of the rows, the constant among them.
    n_samples : int
        Public number of records.
    rate, ridge : float
        Of the noise, and in the body's coordinates.
    curvature, log_odds : float
        As in :func:`choose_geometry`.
    """
    noise = NoiseModel(rate=rate)
    expected = expected_signal(
        factors, n_samples=n_samples, curvature=curvature, noise=noise, log_odds=log_odds
    )
    scale = prior_scale(factors, log_odds)
    inverses, _ = _block_ridge(factors, expected, SEEN * n_samples * curvature, noise, scale)
    reach = sum(float(np.diagonal(inverse).max()) for inverse in inverses)
    found = []
    for factor, inverse in zip(factors, inverses, strict=True):
        dimension = sum(other.size for other in factors if other.group == factor.group)
        share = expected.shares[factor.group]
        each = coordinate_variance(dimension, factor.size) / (rate * share) ** 2
        inverse = np.asarray(np.linalg.inv(inverse), dtype=np.float64)
        found.append((each * np.eye(factor.size), ridge * reach * inverse))
    return found
