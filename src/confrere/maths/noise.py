"""Noise laws, built from uniforms. Only mechanisms may draw from them.

The tails end where 52-bit uniforms end (probability about 2^-53 per variable), which is the
``1e-15`` that the proof pages carry; those of normals end later.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import special

from confrere.maths.randomness import RandomSource
from confrere.privacy import check_positive


def gamma_norm(rho: float, dimension: int, count: int, source: RandomSource) -> NDArray[np.float64]:
    """Return ``count`` draws of Gamma(shape ``dimension``, *scale* ``1/rho``).

    A sum of exponentials: exact for an integer shape, and sharp in both tails.
    """
    check_positive(rho, "rho")
    exponentials = -np.log(source.uniforms(count, dimension))
    return np.asarray(exponentials.sum(axis=1) / rho)


def directions(dimension: int, count: int, source: RandomSource) -> NDArray[np.float64]:
    """Return ``count`` unit vectors, uniform on the sphere."""
    normals = special.ndtri(source.uniforms(count, dimension))
    return np.asarray(normals / np.linalg.norm(normals, axis=1, keepdims=True))


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


def normals(dimension: int, count: int, source: RandomSource) -> NDArray[np.float64]:
    """Return ``(count, dimension)`` standard normals, sharp in both tails.

    A second uniform fills the cell of the first one's grid, so that what is inverted has some 52
    bits of its own however small it is, and a third chooses the sign. The tails end at 2^-104, and
    the rounding of a draw is a few units in its last place except with probability 1e-20.
    """
    coarse, fine, signs = source.uniforms(3, count, dimension)
    tail = ((coarse - 2.0**-53) + fine * 2.0**-52) / 2
    return np.asarray(np.copysign(special.ndtri(tail), signs - 0.5))


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

    The floor of an exponential is geometric, and the difference of two geometrics is this law.
    An array of scales is broadcast to ``shape``.
    """
    check_positive(float(np.min(scale)), "scale")
    geometric = np.floor(-scale * np.log(source.uniforms(2, *shape)))
    return np.asarray(geometric[0] - geometric[1], dtype=np.int64)
