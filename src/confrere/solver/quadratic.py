"""A quadratic objective: sums of products of rows, and its minimiser with noise on it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from confrere.arrays import Floats

#: Rows that are added up before others: sums in two stages are rounded less often.
_BLOCK = 4096


def row_products(left: Any, right: Any) -> Floats:
    blocks = [slice(at, at + _BLOCK) for at in range(0, max(1, left.shape[0]), _BLOCK)]
    parts = [np.asarray(left[one]).T @ np.asarray(right[one]) for one in blocks]
    return np.asarray(parts[0] if len(parts) == 1 else np.sum(parts, axis=0))


def roundings(n_rows: int) -> int:
    return n_rows if n_rows <= _BLOCK else _BLOCK + math.ceil(n_rows / _BLOCK)


def pack(matrix: Floats) -> Floats:
    """Return a symmetric matrix as coordinates whose Euclidean norm is its Frobenius norm."""
    rows, columns = np.triu_indices(len(matrix))
    factors = np.where(rows == columns, 1.0, math.sqrt(2))
    return np.asarray(matrix[rows, columns] * factors)


def unpack(coordinates: Floats, size: int) -> Floats:
    rows, columns = np.triu_indices(size)
    factors = np.where(rows == columns, 1.0, math.sqrt(0.5))
    matrix = np.zeros((size, size))
    matrix[rows, columns] = coordinates * factors
    matrix[columns, rows] = coordinates * factors
    return matrix


def minimise_quadratic(
    linear: Floats, quadratic: Floats, *, ridge: float, prior: Floats | None = None
) -> Floats:
    """Minimise ``v.w + w'Mw + (L/2)||w - u||^2`` with M's negative eigenvalues set to zero."""
    centre = np.zeros_like(linear) if prior is None else prior
    eigenvalues, vectors = np.linalg.eigh((quadratic + quadratic.T) / 2)
    curvature = 2 * np.maximum(eigenvalues, 0.0) + ridge
    return np.asarray((((ridge * centre - linear) @ vectors) / curvature) @ vectors.T)
