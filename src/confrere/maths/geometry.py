r"""Public choices of a geometry: roots, groups and the ridge that suits a body.

All follow from the model of :mod:`confrere.maths.expected_signal`: with the best shares of the rate
most signal survives, and ``A = (1 + s2/h) (t R)^{-1}`` is the ridge of the least expected squared
error. But the model guesses which columns matter, and a wrong guess costs most where it is sure. So
what is used lies between its answer and that of somebody who knows nothing, :data:`BELIEF` of the
way on the scale of logarithms. A curve is a line with bends, which get their own part of the rate.
Nothing here is needed for privacy: every block ridge has its exact price, see
docs/proofs/geometry.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from confrere.arrays import Floats
from confrere.maths.expected_signal import (
    LOG_ODDS,
    SEEN,
    ExpectedSignal,
    Factor,
    Group,
    NoiseModel,
    coordinate_variance,
    expected_signal,
    grouped,
    prior_scale,
    squared_length,
    surviving,
)

#: Part of epsilon that the Jacobian may cost.
JACOBIAN = 0.15

#: How far the model is believed: 1 is all the way, 0 deals out the rate by the number of columns
#: and shrinks all columns alike.
BELIEF = 0.6

#: Shares of the rate are whole numbers of parts of one, the same on every machine.
_PARTS = 64

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
    shares = hedged_shares(factors, expected)
    scale = prior_scale(factors, log_odds)
    inverses, ridge = _block_ridge(factors, shares, SEEN * n_samples * curvature, noise, scale)
    reach = _reach(inverses)
    names = list(shares)
    return Geometry(
        tuple(
            np.asarray(np.linalg.cholesky(inverse / reach).T * (1 - _HAIR)) for inverse in inverses
        ),
        tuple(names.index(factor.group) for factor in factors),
        tuple(shares.values()),
        # The Jacobian costs at most log(1 + s/4).
        max(ridge / reach, _least_ridge(JACOBIAN * budget)),
    )


def hedged_shares(factors: Sequence[Factor], expected: ExpectedSignal) -> dict[Group, float]:
    """Return the shares of the rate that are used: the model's, half believed.

    Bends keep what the model gives them, since a line says most of what a curve does. The rest is
    dealt out to lines and one-hot blocks.
    """
    sizes = {
        group: sum(count * factor.size for factor, count in counts.items())
        for group, counts in grouped(factors).items()
    }
    rest = 1 - expected.shares.get("bends", 0.0)
    wanted = {
        group: share**BELIEF * sizes[group] ** (1 - BELIEF)
        for group, share in expected.shares.items()
        if group != "bends"
    }
    parts = {
        group: max(1, round(_PARTS * rest * wanted[group] / sum(wanted.values())))
        if group in wanted
        else round(_PARTS * share)
        for group, share in expected.shares.items()
    }
    first = next(iter(parts))
    parts[first] += _PARTS - sum(parts.values())
    if parts[first] < 1:  # beside thousands of columns
        parts[max(parts, key=lambda group: parts[group])] -= 1 - parts[first]
        parts[first] = 1
    return {group: part / _PARTS for group, part in parts.items()}


def _reach(inverses: Sequence[Floats]) -> float:
    """Return the largest squared length of a row in coordinates with the ridge 1."""
    return sum(float(np.diagonal(inverse).max()) for inverse in inverses)


def _least_ridge(jacobian: float) -> float:
    """Return ``1/(4(e^j - 1))``, at which ``log(1 + 1/(4L))`` is ``j``; 0 where that is huge."""
    return math.exp(-jacobian) / (-4 * math.expm1(-jacobian))


def _block_ridge(
    factors: Sequence[Factor],
    shares: Mapping[Group, float],
    records: float,
    noise: NoiseModel,
    scale: float,
) -> tuple[list[Floats], float]:
    """Return ``A^{-1}`` of every factor up to a scale, and the ridge that goes with that scale."""
    found: dict[Factor, Floats] = {}
    best: dict[Factor, Floats] = {}
    ridges, signals = [], []
    for group, counts in grouped(factors).items():
        share, length = shares[group], squared_length(counts)
        for factor, count, each in noise.variances(counts, share):
            raised = 1 + each / (records * factor.spread)
            if noise.gaussian:
                # Shares of the rows' length decide where noise goes, and one ridge serves all.
                mine = share * factor.length / length
                found[factor] = mine * factor.kernel
                ridges.append(float(np.median(raised)) * mine / (scale * factor.weight))
                signals.append(count * surviving(factor, scale, each, records))
            else:
                level = scale * factor.weight / float(raised[0])
                best[factor], found[factor] = (
                    power * factor.kernel for power in (level, level**BELIEF)
                )
    inverses = [found[factor] for factor in factors]
    if not noise.gaussian:
        # Belief moves what columns have beside each other; how much there is in all stays.
        return inverses, _reach(inverses) / _reach([best[factor] for factor in factors])
    if not sum(signals) > 0:
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
    shares = hedged_shares(factors, expected)
    scale = prior_scale(factors, log_odds)
    inverses, _ = _block_ridge(factors, shares, SEEN * n_samples * curvature, noise, scale)
    reach = _reach(inverses)
    found = []
    for factor, inverse in zip(factors, inverses, strict=True):
        dimension = sum(other.size for other in factors if other.group == factor.group)
        share = shares[factor.group]
        each = coordinate_variance(dimension, factor.size) / (rate * share) ** 2
        inverse = np.asarray(np.linalg.inv(inverse), dtype=np.float64)
        found.append((each * np.eye(factor.size), ridge * reach * inverse))
    return found
