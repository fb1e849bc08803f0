r"""Public choices of a geometry: how much noise a body makes, and the ridge that suits it.

A body is a product of cross-polytopes (an interval is one of a single column). Noise of density
``exp(-||b||)`` for its gauge is ``r U`` with ``r ~ Gamma(d + 1)`` and ``U`` uniform in the body, so
a coordinate in a factor of ``m`` columns has the variance ``(d+1)(d+2) 2/((m+1)(m+2))``.

The ridge is a prior: the log-odds of a row have the prior variance :data:`LOG_ODDS`, dealt out
to the factors by how much each of them can matter, and every factor's ridge is raised by the noise
over the curvature, ``A = (1 + s2/h) (t R)^{-1}``: what minimises the expected squared error of a
weight of prior variance ``t`` that is seen through a gradient of variance ``h + s2``. Nothing here
is needed for privacy: every block ridge has its exact price, see docs/proofs/geometry.md. The
constants were chosen on two tables and confirmed on others, see docs/geometry.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Kind = Literal["number", "flag", "category", "curve", "constant"]

#: Prior variance of a row's log-odds.
LOG_ODDS = 2.0

#: How much a column of every kind can matter: a slope, a level, a free level of a category.
NUMBER, LEVEL, CATEGORY = 3.0, 1.0, 0.15

#: A curve takes no more shapes than this many free hats.
CURVE_SHAPES = 6

#: What the kernel of a curve has on its diagonal on top: a level of its own for every hat.
NUGGET = 0.05

#: Part of epsilon that the Jacobian may cost.
JACOBIAN = 0.15

#: Columns per record, epsilon and curvature beyond which one product is the better body.
NOISY = 1.5

#: Part of epsilon that is reckoned with for noise while the ridge is chosen.
_NOISE = 0.9

#: Roots are shorter by this share, so that rounding keeps rows in the unit ball.
_HAIR = 1e-9


@dataclass(frozen=True, slots=True)
class Factor:
    """One factor of a body: the columns that one raw column, or the constant, becomes.

    Attributes
    ----------
    size : int
        Number of columns.
    kind : str
        What they come from.
    spread : float
        Mean square of one of the columns, as far as public facts tell.
    smooth : int, default=0
        How many of the first columns are neighbouring hats of a curve.
    """

    size: int
    kind: Kind
    spread: float
    smooth: int = 0

    @property
    def weight(self) -> float:
        """How much the factor can matter, beside others."""
        if self.kind == "curve":
            return float(max(1, min(CURVE_SHAPES, self.size - 1)))
        if self.kind == "category":
            return max(LEVEL, CATEGORY * (self.size - 1))
        return NUMBER if self.kind == "number" else LEVEL

    @property
    def kernel(self) -> Floats:
        """The prior covariance of its weights, of scale one."""
        kernel = np.eye(self.size)
        kernel[: self.smooth, : self.smooth] = curve_kernel(self.smooth)
        return kernel


#: The column of ones.
CONSTANT = Factor(1, "constant", 1.0)


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


def curve_kernel(hats: int) -> Floats:
    """Return the prior covariance of neighbouring hats, of mean diagonal one plus a nugget.

    Values of neighbouring hats are alike, and their mean is zero: a curve's level belongs to the
    intercept. Without the centring the level would be shrunk twice.
    """
    if hats < 3:
        return np.eye(hats)
    places = np.arange(hats)
    smooth = np.exp(-np.abs(places[:, None] - places[None, :]) / (hats - 1))
    centring = np.eye(hats) - 1 / hats
    smooth = centring @ smooth @ centring
    return np.asarray(smooth * hats / np.trace(smooth) + NUGGET * np.eye(hats))


def coordinate_variance(dimension: int, size: int) -> float:
    """Return the variance of one coordinate of noise of rate 1.

    Parameters
    ----------
    dimension : int
        Of the product that the coordinate's factor belongs to.
    size : int
        Columns of that factor.
    """
    return (dimension + 1) * (dimension + 2) * 2 / ((size + 1) * (size + 2))


def prior_variances(factors: Sequence[Factor], log_odds: float = LOG_ODDS) -> Floats:
    """Return the prior variance of one weight of every factor.

    A row has one active column in every factor, so they sum to the variance of its log-odds.
    """
    weights = np.array([factor.weight for factor in factors])
    return np.asarray(log_odds * weights / weights.sum())


def group_factors(
    factors: Sequence[Factor], *, noisy: bool = False
) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """Return the group of every factor, and the groups' shares of the rate.

    With curves, or where it is ``noisy``, all factors are one product. Otherwise intervals are
    one body and one-hot blocks another, with rates in proportion to the third root of their noise
    over the prior variance: what minimises the sum of the two, each of which falls with the
    square of its rate.
    """
    kinds = {factor.size == 1 for factor in factors}
    if noisy or any(factor.smooth for factor in factors) or len(kinds) == 1:
        return (0,) * len(factors), (1.0,)
    groups = tuple(int(factor.size > 1) for factor in factors)
    variances = prior_variances(factors)
    noise = [0.0, 0.0]
    for factor, group, variance in zip(factors, groups, variances, strict=True):
        each = coordinate_variance(_dimension(factors, groups, group), factor.size)
        noise[group] += factor.size * each / float(variance)
    shares = [each ** (1 / 3) for each in noise]
    return groups, (shares[0] / sum(shares), shares[1] / sum(shares))


def choose_geometry(
    factors: Sequence[Factor],
    *,
    n_samples: int,
    budget: float,
    curvature: float,
    cap: float,
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
    cap : float
        Largest slope of the loss.
    log_odds : float, default=2.0
        Prior variance of a row's log-odds around what is shrunk towards.
    """
    columns = sum(factor.size for factor in factors)
    groups, shares = group_factors(factors, noisy=columns > NOISY * n_samples * budget * curvature)
    rate = _NOISE * budget / (2 * cap)
    inverses = []
    variances = prior_variances(factors, log_odds)
    for factor, group, variance in zip(factors, groups, variances, strict=True):
        unit = coordinate_variance(_dimension(factors, groups, group), factor.size)
        noise = unit / (rate * shares[group]) ** 2
        raised = 1 + noise / (n_samples * curvature * factor.spread)
        inverses.append(variance * factor.kernel / raised)
    reach = sum(float(np.diagonal(inverse).max()) for inverse in inverses)
    # The Jacobian costs at most log(1 + s/4).
    ridge = max(1 / reach, 1 / (4 * math.expm1(JACOBIAN * budget)))
    roots = tuple(
        np.asarray(np.linalg.cholesky(inverse / reach).T * (1 - _HAIR)) for inverse in inverses
    )
    return Geometry(roots, groups, shares, ridge)


def weight_noise(
    factors: Sequence[Factor],
    place: int,
    *,
    n_samples: int,
    rate: float,
    ridge: float,
    curvature: float,
    log_odds: float = LOG_ODDS,
) -> Floats:
    """Return the covariance that noise gives the weights of one factor of a body with curves.

    The minimiser moves by ``(H + A)^-1 b`` for noise ``b``. ``A`` is the block ridge. ``H`` only
    the records know; for it stands ``n v / 2`` times the mean squares of hats as if records were
    spread evenly over the knots, since about half of the records lie where a capped loss is
    straight: an estimate from public facts alone.

    Parameters
    ----------
    factors : sequence of Factor
        Of the rows, the constant among them.
    place : int
        Which factor.
    n_samples : int
        Public number of records.
    rate, ridge : float
        Of the noise, and in the body's coordinates.
    curvature : float
        As in :func:`choose_geometry`.
    log_odds : float, default=2.0
        As there.
    """
    columns = sum(factor.size for factor in factors)
    variances = prior_variances(factors, log_odds)
    inverses, noises = [], []
    for factor, variance in zip(factors, variances, strict=True):
        noise = coordinate_variance(columns, factor.size) / rate**2
        raised = 1 + noise / (n_samples * curvature * factor.spread)
        inverses.append(variance * factor.kernel / raised)
        noises.append(noise)
    reach = sum(float(np.diagonal(inverse).max()) for inverse in inverses)
    factor = factors[place]
    stiff = ridge * reach * np.linalg.inv(inverses[place])
    stiff += n_samples * curvature / 2 * _even_squares(factor)
    moved = np.linalg.inv(stiff)
    return np.asarray(noises[place] * moved @ moved.T)


def _even_squares(factor: Factor) -> Floats:
    """Return the mean products of a factor's columns; of hats, if all places are equally likely."""
    found = factor.spread * np.eye(factor.size)
    hats = factor.smooth
    if hats > 1:
        # Hats are linear between knots: 2/3 of a gap squared, half of it at the ends, 1/6 across.
        squares = np.full(hats, 2 / 3)
        squares[[0, -1]] = 1 / 3
        across = np.full(hats - 1, 1 / 6)
        gram = np.diag(squares) + np.diag(across, 1) + np.diag(across, -1)
        found[:hats, :hats] = gram / (hats - 1)
    return np.asarray(found)


def _dimension(factors: Sequence[Factor], groups: Sequence[int], group: int) -> int:
    return sum(factor.size for factor, own in zip(factors, groups, strict=True) if own == group)
