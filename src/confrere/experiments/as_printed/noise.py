"""The papers' noise, from a seeded generator: for figures and audits, never for a release."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def gamma_noise(
    rho: float, dimension: int, count: int, generator: np.random.Generator
) -> NDArray[np.float64]:
    """Return ``(count, dimension)`` draws of density proportional to ``exp(-rho ||b||)``."""
    directions = generator.normal(size=(count, dimension))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    norms = generator.gamma(dimension, 1 / rho, size=(count, 1))
    return np.asarray(norms * directions)
