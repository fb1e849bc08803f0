"""The functional mechanism: noisy coefficients of the quadratic expansion of the loss (OFAA).

Proof: docs/proofs/functional_mechanism.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from confrere.errors import InvalidData, InvalidParameter
from confrere.guarantee import Guarantee, check_epsilon
from confrere.mechanisms.objective_perturbation import ASSUMPTIONS, PUBLIC
from confrere.noise.samplers import l2_noise
from confrere.noise.sources import RandomSource
from confrere.rows.ball import certify_rows

THEOREM = "docs/proofs/functional_mechanism.md"

_UNIT_ROUNDOFF = 2.0**-53


@dataclass(frozen=True, kw_only=True)
class FunctionalMechanism:
    """Release ``v = -(1/2) sum y x`` and ``M = (1/8) sum x x'``, each with noise, once.

    They are the coefficients of ``sum log(1 + exp(-y w.x))`` expanded to second order at zero:
    ``v.w + w'Mw``. Everything computed from them afterwards is post-processing.

    Parameters
    ----------
    epsilon : float
        The price of both.
    n_samples, n_features : int
        Public sizes; ``n_features`` counts the constant column.
    linear_share : float, default=0.5
        Share of epsilon for ``v``.
    """

    epsilon: float
    n_samples: int
    n_features: int
    linear_share: float = 0.5

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        if self.n_samples < 1 or self.n_features < 1:
            raise InvalidData("X needs at least one row and one column.")
        if not 0 < self.linear_share < 1:
            raise InvalidParameter("linear_share must lie strictly between 0 and 1.")

    @property
    def _rounding(self) -> float:
        """Bound on the error of a float sum of ``n`` vectors of norm at most one."""
        return 2 * self.n_samples * (self.n_samples + 4) * _UNIT_ROUNDOFF

    @property
    def linear_sensitivity(self) -> float:
        """L2 move of the computed ``v``: half a row goes, half a row comes."""
        return 1 + self._rounding

    @property
    def quadratic_sensitivity(self) -> float:
        """Frobenius move of the computed ``M``: ``||xx' - zz'|| <= sqrt 2`` in the unit ball."""
        return math.sqrt(2) / 8 + self._rounding / 4

    @property
    def linear_rate(self) -> float:
        """Rate of the noise on ``v``."""
        return self.epsilon * self.linear_share / self.linear_sensitivity

    @property
    def quadratic_rate(self) -> float:
        """Rate of the noise on ``M``, in the ``d(d+1)/2`` coordinates of symmetric matrices."""
        return self.epsilon * (1 - self.linear_share) / self.quadratic_sensitivity

    def guarantee(self) -> Guarantee:
        """Return the price, without touching data."""
        return Guarantee(
            epsilon=self.epsilon, theorem=THEOREM, public=PUBLIC, assumptions=ASSUMPTIONS
        )

    def run(
        self, X: NDArray[np.float64], y: NDArray[np.float64], *, source: RandomSource
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the noised ``v`` of shape ``(d,)`` and the packed ``M``, see :func:`unpack`."""
        if X.shape != (self.n_samples, self.n_features):
            raise InvalidData("X does not have the declared number of rows and columns.")
        certify_rows(X)
        v = -0.5 * (X.T @ y)
        packed = pack(X.T @ X / 8)
        v = v + l2_noise(self.linear_rate, len(v), source)[0]
        packed = packed + l2_noise(self.quadratic_rate, len(packed), source)[0]
        return _on_grid(v, self.linear_rate), _on_grid(packed, self.quadratic_rate)


def pack(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a symmetric matrix as coordinates whose Euclidean norm is its Frobenius norm."""
    rows, columns = np.triu_indices(len(matrix))
    factors = np.where(rows == columns, 1.0, math.sqrt(2))
    return np.asarray(matrix[rows, columns] * factors)


def unpack(coordinates: NDArray[np.float64], size: int) -> NDArray[np.float64]:
    """Return the symmetric matrix of :func:`pack`'s coordinates."""
    rows, columns = np.triu_indices(size)
    factors = np.where(rows == columns, 1.0, math.sqrt(0.5))
    matrix = np.zeros((size, size))
    matrix[rows, columns] = coordinates * factors
    matrix[columns, rows] = coordinates * factors
    return matrix


def _on_grid(noised: NDArray[np.float64], rate: float) -> NDArray[np.float64]:
    # Far below the noise, and above the last bits of the floats, which would leak.
    spacing = 2.0 ** math.floor(math.log2(1e-6 / rate))
    return np.asarray(np.rint(noised / spacing) * spacing)
