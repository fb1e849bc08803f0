r"""Public choices of a geometry: how much noise a body makes, and the ridge that suits it.

A body is a product of cross-polytopes (an interval is one of a single column). Noise of density
``exp(-||b||)`` for its gauge is ``r U`` with ``r ~ Gamma(d + 1)`` and ``U`` uniform in the body, so
a coordinate in a factor of ``m`` columns has the variance ``(d+1)(d+2) 2/((m+1)(m+2))``.

The ridge is a prior: the log-odds of a row have a prior variance of :data:`LOG_ODDS`, dealt out
to the factors by how many shapes they can take, and every factor's ridge is raised by the noise
over the curvature, ``A = (1 + s2/h) (t R)^{-1}``, which is what minimises the expected squared
error of a weight of prior variance ``t`` that is seen through noise of variance ``h + s2``.
Nothing here is needed for privacy: every block ridge has its exact price, see
docs/proofs/geometry.md.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

#: Prior variance of a row's log-odds.
LOG_ODDS = 2.0

#: A curve takes no more shapes than this many free hats.
CURVE_SHAPES = 6

#: What the kernel of a curve has on its diagonal on top: a level of its own for every hat.
NUGGET = 0.05

#: Part of epsilon that the Jacobian may cost.
JACOBIAN = 0.15


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
        Of the whole body.
    size : int
        Columns of the cross-polytope that the coordinate belongs to.
    """
    return (dimension + 1) * (dimension + 2) * 2 / ((size + 1) * (size + 2))


def prior_variances(sizes: Sequence[int], smooth: Sequence[int]) -> Floats:
    """Return the prior variance of one weight of every factor; over factors they sum to 2.

    A row has one active column in every factor, so the sum is that of its log-odds.
    """
    shapes = np.array(
        [
            1 if size == 1 else max(1, min(CURVE_SHAPES, size - 1) if curve else size - 1)
            for size, curve in zip(sizes, smooth, strict=True)
        ],
        dtype=np.float64,
    )
    return np.asarray(LOG_ODDS * shapes / shapes.sum())


def factor_kernel(size: int, smooth: int) -> Floats:
    """Return the prior covariance of a factor's weights, of scale one."""
    kernel = np.eye(size)
    kernel[:smooth, :smooth] = curve_kernel(smooth)
    return kernel
