"""Arrays by what they hold, and matrices of classes by coordinates."""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import helmert

Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]


def sum_zero_basis(n_classes: int) -> Floats:
    """Return ``(K, K-1)`` orthonormal columns, each summing to zero."""
    return np.asarray(helmert(n_classes).T)


def coordinates(point: NDArray[np.number]) -> Floats:
    """Return a vector as it is, and a matrix by its coordinates where columns sum to zero."""
    flat = point if point.ndim == 1 else (sum_zero_basis(len(point)).T @ point).ravel()
    return np.asarray(flat, dtype=np.float64)


@dataclass(frozen=True)
class ClassRows:
    """From rows of such coordinates back to matrices; of two classes, or none, they are vectors."""

    n_classes: int = 2

    def __call__(self, released: Floats) -> Floats:
        """Return one matrix, or vector, for every row."""
        if self.n_classes <= 2:
            return released
        basis = sum_zero_basis(self.n_classes)
        return np.stack([basis @ each.reshape(self.n_classes - 1, -1) for each in released])

    def shape(self, size: int) -> tuple[int, ...]:
        """Return the shape of what so many coordinates stand for."""
        k = self.n_classes
        return (size,) if k == 2 else (k, size // (k - 1))


def coordinate_rounding(reach: float, n_classes: int) -> float:
    """Bound what floats are off by in coordinates of something no longer than ``reach``."""
    return 0.0 if n_classes <= 2 else 4 * n_classes * 2.0**-52 * reach
