"""The functional mechanism: noisy coefficients of the quadratic expansion of the loss (OFAA).

Proof: docs/proofs/functional_mechanism.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from confrere.errors import InvalidData, InvalidParameter
from confrere.guarantee import Guarantee, Neighbours, check_epsilon
from confrere.mechanisms.output_step import AddedNoise, check_repeated
from confrere.mechanisms.statements import ASSUMPTIONS, public_facts
from confrere.mechanisms.terms import NoisedPoint, Term
from confrere.noise.sources import RandomSource
from confrere.rows.ball import certify_rows

THEOREM = "docs/proofs/functional_mechanism.md"

Floats = NDArray[np.float64]

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
    def noises(self) -> tuple[AddedNoise, AddedNoise]:
        """The noise on ``v``, and on ``M`` in the ``d(d+1)/2`` coordinates of such matrices."""
        d, share = self.n_features, self.linear_share
        return (
            AddedNoise(
                epsilon=self.epsilon * share,
                sensitivity=self.linear_sensitivity,
                reach=self.n_samples / 2 + self._rounding,
                size=d,
            ),
            AddedNoise(
                epsilon=self.epsilon * (1 - share),
                sensitivity=self.quadratic_sensitivity,
                reach=self.n_samples / 8 + self._rounding,
                size=d * (d + 1) // 2,
            ),
        )

    def guarantee(self) -> Guarantee:
        """Return the price, without touching data."""
        return Guarantee(
            epsilon=self.epsilon,
            theorem=THEOREM,
            public=public_facts(Neighbours.REPLACE_ONE),
            assumptions=ASSUMPTIONS,
        )

    def run(self, X: Floats, y: Floats, *, source: RandomSource) -> tuple[Floats, Floats]:
        """Return the noised ``v`` of shape ``(d,)`` and the packed ``M``, see :func:`unpack`."""
        released = self.run_many(X, y, source=source, count=1)[0]
        return released[: self.n_features], released[self.n_features :]

    def run_many(self, X: Floats, y: Floats, *, source: RandomSource, count: int) -> Floats:
        """Return ``count`` independent releases, each ``v`` and then the packed ``M``."""
        check_repeated(source, count)
        pairs = zip(self.noises, self._points(X, y), strict=True)
        return np.hstack([noise.release_many(point, source, count) for noise, point in pairs])

    def terms(self, X: Floats, y: Floats) -> list[Term]:
        """Return what is noised, for an exact audit."""
        pairs = zip(self.noises, self._points(X, y), strict=True)
        return [NoisedPoint(point, noise.law) for noise, point in pairs]

    def _points(self, X: Floats, y: Floats) -> tuple[Floats, Floats]:
        if X.shape != (self.n_samples, self.n_features):
            raise InvalidData("X does not have the declared number of rows and columns.")
        certify_rows(X)
        return np.asarray(-0.5 * (X.T @ y)), pack(X.T @ X / 8)


def pack(matrix: Floats) -> Floats:
    """Return a symmetric matrix as coordinates whose Euclidean norm is its Frobenius norm."""
    rows, columns = np.triu_indices(len(matrix))
    factors = np.where(rows == columns, 1.0, math.sqrt(2))
    return np.asarray(matrix[rows, columns] * factors)


def unpack(coordinates: Floats, size: int) -> Floats:
    """Return the symmetric matrix of :func:`pack`'s coordinates."""
    rows, columns = np.triu_indices(size)
    factors = np.where(rows == columns, 1.0, math.sqrt(0.5))
    matrix = np.zeros((size, size))
    matrix[rows, columns] = coordinates * factors
    matrix[columns, rows] = coordinates * factors
    return matrix
