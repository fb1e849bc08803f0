"""The functional mechanism: noisy coefficients of the quadratic expansion of the loss (OFAA).

Proof: docs/proofs/functional_mechanism.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from confrere.errors import InvalidData, InvalidParameter
from confrere.guarantee import ASSUMPTIONS, Guarantee, Neighbours, check_epsilon, public_facts
from confrere.mechanisms.output_step import AddedNoise, check_repeated
from confrere.mechanisms.terms import Density, NoisedPoint
from confrere.noise.sources import RandomSource
from confrere.rows.ball import certify_rows

THEOREM = "docs/proofs/functional_mechanism.md"

Floats = NDArray[np.float64]

_UNIT_ROUNDOFF = 2.0**-53

#: Weights come from ``v``: less noise there helps more than in the curvature ``M``.
LINEAR_SHARE = 0.7

#: Largest Frobenius move of ``M``: ``||xx' - zz'|| <= sqrt 2`` in the unit ball.
_QUADRATIC = math.sqrt(2) / 8


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
    linear_share : float, default=0.7
        How much of epsilon goes to ``v``; measured, and near where both together are cheapest.
    """

    epsilon: float
    n_samples: int
    n_features: int
    linear_share: float = LINEAR_SHARE

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
    def sensitivity(self) -> float:
        """Largest sum of the moves of ``v`` and ``M``, each over its own largest, by their shares.

        ``v`` moves by at most 1 and ``M`` by at most ``sqrt(2)/8``, but not together; rounding of
        both sums comes on top.
        """
        share = self.linear_share
        rounding = share + (1 - share) / 4 / _QUADRATIC
        return joint_move(share) + rounding * self._rounding

    @property
    def noises(self) -> tuple[AddedNoise, AddedNoise]:
        """The noise on ``v``, and on ``M`` in the ``d(d+1)/2`` coordinates of such matrices."""
        d, share = self.n_features, self.linear_share
        return (
            AddedNoise(
                epsilon=self.epsilon * share,
                sensitivity=self.sensitivity,
                reach=self.n_samples / 2 + self._rounding,
                size=d,
            ),
            AddedNoise(
                epsilon=self.epsilon * (1 - share),
                sensitivity=self.sensitivity * _QUADRATIC,
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

    def terms(self, X: Floats, y: Floats) -> list[Density]:
        """Return what is noised, for an exact audit."""
        pairs = zip(self.noises, self._points(X, y), strict=True)
        return [NoisedPoint(point, noise.law, noise.output_step) for noise, point in pairs]

    def _points(self, X: Floats, y: Floats) -> tuple[Floats, Floats]:
        if X.shape != (self.n_samples, self.n_features):
            raise InvalidData("X does not have the declared number of rows and columns.")
        certify_rows(X)
        return np.asarray(-0.5 * (X.T @ y)), pack(X.T @ X / 8)


def worst_angle(share: float) -> float:
    """Return the angle ``t`` at which ``s sin(t/2) + (1-s) sin t`` is largest.

    With ``c = cos(t/2)`` that is ``sqrt(1 - c^2) (s + 2 (1-s) c)``, largest where
    ``4 (1-s) c^2 + s c = 2 (1-s)``.
    """
    rest = 1 - share
    return 2 * math.acos(4 * rest / (share + math.sqrt(share**2 + 32 * rest**2)))


def joint_move(share: float) -> float:
    """Return how far one record moves ``v`` and ``M`` together, by their shares: at most one."""
    angle = worst_angle(share)
    return share * math.sin(angle / 2) + (1 - share) * math.sin(angle)


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
