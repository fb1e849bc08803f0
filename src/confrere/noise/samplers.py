"""Noise laws, built from uniforms. Only mechanisms may draw from them.

A uniform has 53 significant bits and is at least 2^-105, so every draw is a few units in the last
place from a real one's, and the tails end at a probability of about 2^-104 per variable.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import special

from confrere.guarantee import check_positive
from confrere.noise.sources import RandomSource

#: Geometrics of a larger scale have their low binary digits drawn, down to this many.
_LARGE, _DIGITS = 2.0**16, 12


def gamma_norm(rho: float, dimension: int, count: int, source: RandomSource) -> NDArray[np.float64]:
    """Return ``count`` draws of Gamma(shape ``dimension``, *scale* ``1/rho``).

    A sum of exponentials: exact for an integer shape, and sharp in both tails.
    """
    check_positive(rho, "rho")
    exponentials = -np.log(source.uniforms(count, dimension))
    return np.asarray(exponentials.sum(axis=1) / rho)


def directions(dimension: int, count: int, source: RandomSource) -> NDArray[np.float64]:
    """Return ``count`` unit vectors, uniform on the sphere."""
    drawn = normals(dimension, count, source)
    return np.asarray(drawn / np.linalg.norm(drawn, axis=1, keepdims=True))


def l2_noise(
    rho: float, dimension: int, source: RandomSource, count: int = 1
) -> NDArray[np.float64]:
    """Return ``(count, dimension)`` draws with density proportional to ``exp(-rho ||b||_2)``."""
    norms = gamma_norm(rho, dimension, count, source)
    return np.asarray(norms[:, None] * directions(dimension, count, source))


def laplace_noise(
    rho: float, dimension: int, source: RandomSource, count: int = 1
) -> NDArray[np.float64]:
    """Return ``(count, dimension)`` draws with density proportional to ``exp(-rho ||b||_1)``.

    The difference of two exponentials of one rate has Laplace's law.
    """
    rises, falls = (gamma_norm(rho, 1, count * dimension, source) for _ in range(2))
    return np.asarray((rises - falls).reshape(count, dimension))


def cross_polytope_points(size: int, count: int, source: RandomSource) -> NDArray[np.float64]:
    """Return ``(count, size)`` uniform draws of the vectors whose magnitudes sum to at most one.

    Of ``size + 1`` exponentials all but the first, over their sum, are uniform in the corner of
    the orthant; signs are drawn. Nothing is rejected.
    """
    exponentials = -np.log(source.uniforms(count, size + 1))
    corner = exponentials[:, 1:] / exponentials.sum(axis=1, keepdims=True)
    return np.asarray(corner * source.signs(count, size))


def product_noise(
    rho: float, sizes: Sequence[int], source: RandomSource, count: int = 1
) -> NDArray[np.float64]:
    """Return ``(count, d)`` draws with density proportional to ``exp(-rho max_k ||b_k||_1)``.

    ``b_k`` are factors of the given sizes, which add up to ``d``: noise for rows in a product of
    cross-polytopes is a uniform point of the product times Gamma(``d + 1``) of scale ``1/rho``.
    """
    lengths = gamma_norm(rho, sum(sizes) + 1, count, source)
    points = [cross_polytope_points(size, count, source) for size in sizes]
    return np.asarray(lengths[:, None] * np.hstack(points))


def normals(dimension: int, count: int, source: RandomSource) -> NDArray[np.float64]:
    """Return ``(count, dimension)`` standard normals, sharp in both tails.

    The lower half of the law is inverted, where uniforms are fine, and a sign is drawn.
    """
    halves = special.ndtri(source.uniforms(count, dimension) / 2)
    return np.asarray(halves * source.signs(count, dimension))


def gaussian_noise(
    sigma: float, dimension: int, source: RandomSource, count: int = 1
) -> NDArray[np.float64]:
    """Return ``(count, dimension)`` draws of ``N(0, sigma^2 I)``."""
    check_positive(sigma, "sigma")
    return np.asarray(sigma * normals(dimension, count, source))


def sum_zero_noise(
    rho: float, n_classes: int, dimension: int, source: RandomSource
) -> NDArray[np.float64]:
    """Return ``(n_classes, dimension)`` noise in the subspace whose columns sum to zero.

    The density there, of dimension ``(n_classes - 1) dimension``, is proportional to
    ``exp(-rho ||B||_F)``.
    """
    return in_sum_zero_space(l2_noise(rho, (n_classes - 1) * dimension, source)[0], n_classes)


def in_sum_zero_space(coordinates: NDArray[np.float64], n_classes: int) -> NDArray[np.float64]:
    """Return the ``(n_classes, d)`` matrix with these ``(n_classes - 1) d`` coordinates.

    The basis is orthonormal, so a law that depends on the norm alone stays what it is.
    """
    return np.asarray(sum_zero_basis(n_classes) @ coordinates.reshape(n_classes - 1, -1))


def sum_zero_basis(n_classes: int) -> NDArray[np.float64]:
    """Return ``(K, K-1)`` orthonormal columns, each summing to zero (Helmert's)."""
    basis = np.zeros((n_classes, n_classes - 1))
    for k in range(1, n_classes):
        basis[:k, k - 1] = 1.0
        basis[k, k - 1] = -k
        basis[:, k - 1] /= np.sqrt(k * (k + 1))
    return basis


def discrete_laplace(
    scale: float | NDArray[np.float64], shape: tuple[int, ...], source: RandomSource
) -> NDArray[np.int64]:
    """Return integers with probability proportional to ``exp(-|k|/scale)``.

    The difference of two geometrics has this law. An array of scales is broadcast to ``shape``.
    """
    check_positive(float(np.min(scale)), "scale")
    rises, falls = _geometric(np.asarray(scale, dtype=np.float64), (2, *shape), source)
    return np.asarray(rises - falls)


def _geometric(
    scale: NDArray[np.float64], shape: tuple[int, ...], source: RandomSource
) -> NDArray[np.int64]:
    """Return integers with probability proportional to ``exp(-k/scale)``, k from 0 on.

    The floor of an exponential, which in floats is off where the exponential is large. Binary
    digits of a geometric are independent, so of large ones the low digits are drawn as such, and
    the floor is taken of what is above them.
    """
    largest = float(np.max(scale))
    digits = math.ceil(math.log2(largest)) - _DIGITS if largest > _LARGE else 0
    drawn = np.floor(-(scale / 2.0**digits) * np.log(source.uniforms(*shape))).astype(np.int64)
    for place in reversed(range(digits)):
        ones = source.uniforms(*shape) < special.expit(-(2.0**place) / scale)
        drawn = 2 * drawn + ones
    return drawn
