"""The functional mechanism: coefficients of the quadratic expansion of the loss (OFAA).

Proof: docs/proofs/functional_mechanism.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from typing_extensions import override

from confrere.arrays import Floats
from confrere.errors import InvalidParameter
from confrere.kernel.guarantee import Neighbours
from confrere.kernel.losses import Labels
from confrere.kernel.norms import Rows
from confrere.mechanisms.measurements import Part, Point, largest_count
from confrere.mechanisms.noised import (
    OfRows,
    coordinate_rounding,
    coordinates,
    from_coordinates,
    roundings,
    row_products,
)

_UNIT_ROUNDOFF = 2.0**-53

#: Weights come from ``v``: less noise there helps more than in the curvature ``M``.
LINEAR_SHARE = 0.7


@dataclass(frozen=True, kw_only=True)
class FunctionalMechanism(OfRows):
    """Release ``v = -(1/2) sum y x`` and ``M = (1/8) sum x x'``, each with noise, once.

    They are the coefficients of ``sum log(1 + exp(-y w.x))`` expanded to second order at zero:
    ``v.w + w'Mw``. Everything computed from them afterwards is post-processing. Of K > 2 classes
    the softmax loss has ``v = sum (1/K - e_c) x'``, a matrix whose columns sum to zero, and
    ``M = sum x x'/(2K)``, the same for every class.
    """

    theorem = "docs/proofs/functional_mechanism.md"

    #: How much of epsilon goes to ``v``; measured, and near where both together are cheapest.
    linear_share: float = LINEAR_SHARE

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.linear_share < 1:
            raise InvalidParameter("linear_share must lie strictly between 0 and 1.")

    @property
    def _most(self) -> int:
        return largest_count(self.n_samples)

    @property
    def _rounding(self) -> float:
        """Bound on the error of a float sum of ``n`` vectors of norm at most one."""
        return 2 * self._most * (roundings(self._most) + 4) * _UNIT_ROUNDOFF

    @property
    def lengths(self) -> tuple[float, float]:
        """The largest norms of one record's part of ``v`` and of ``M``."""
        k = self.n_classes
        return (1 / 2, 1 / 8) if k == 2 else (math.sqrt(1 - 1 / k), 1 / (2 * k))

    @property
    def moves(self) -> tuple[float, float]:
        """How far one record moves ``v`` and ``M`` at the most; a replaced one not both together.

        Opposite rows of one label move ``v`` by twice its part; ``||xx' - zz'|| <= sqrt 2``. A row
        that comes or goes moves either by its part.
        """
        on_v, on_m = self.lengths
        if self.relation is Neighbours.ADD_REMOVE:
            return on_v, on_m
        return 2 * on_v, math.sqrt(2) * on_m

    @property
    def sensitivity(self) -> float:
        """Largest sum of the moves of ``v`` and ``M``, each over its own largest, by their shares.

        With a delta it is the root of the sum of squares. Rounding of both sums comes on top.
        """
        share = self.linear_share
        (on_v, on_m), (move_v, move_m) = self.lengths, self.moves
        turned = coordinate_rounding(self._most * on_v, self.n_classes)
        off_v = 2 * (on_v * self._rounding + turned) / move_v
        off_m = 2 * on_m * self._rounding / move_m
        together = 1.0  # one row alone moves both as far as it can
        if self.relation is Neighbours.REPLACE_ONE:
            together = (joint_gaussian_move if self.delta else joint_move)(share)
        if self.delta:
            return together + math.hypot(off_v, off_m)
        return together + share * off_v + (1 - share) * off_m

    @property
    @override
    def noise(self) -> Point:
        """The noise on ``v``, and on ``M`` in the ``d(d+1)/2`` coordinates of such matrices."""
        d, share = self.n_features, self.linear_share
        sizes = d * (self.n_classes - 1), d * (d + 1) // 2
        return Point(
            promise=self.guarantee(),
            sensitivity=self.sensitivity,
            parts=tuple(
                Part(size, self._most * length + self._rounding, part, move)
                for size, length, part, move in zip(
                    sizes, self.lengths, (share, 1 - share), self.moves, strict=True
                )
            ),
            n_samples=self.n_samples,
        )

    @override
    def turned(self, released: Floats) -> Floats:
        return released

    def both(self, released: Floats) -> tuple[Floats, Floats]:
        """Return ``v``, ``(d,)`` or ``(K, d)``, and the packed ``M`` of one release."""
        size = self.noise.parts[0].size
        return from_coordinates(released[None, :size], self.n_classes)[0], released[size:]

    @override
    def value(self, X: Rows, y: Labels) -> Floats:
        """Return ``v`` and the packed ``M``, see :func:`unpack`."""
        quadratic = pack(row_products(X, X) * self.lengths[1])
        if self.n_classes == 2:
            return np.concatenate([-0.5 * row_products(X, y), quadratic])
        errors = np.full((len(y), self.n_classes), 1 / self.n_classes)
        errors[np.arange(len(y)), np.asarray(y, dtype=np.intp)] -= 1
        return np.concatenate([coordinates(row_products(errors, X)), quadratic])


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


def joint_gaussian_move(share: float) -> float:
    """Return the same for Gaussian noise: the root of ``s sin^2(t/2) + (1-s) sin^2 t`` at most.

    With ``u = sin^2(t/2)`` that is ``s u + 4 (1-s) u (1-u)``, largest at ``(4 - 3s)/(8 (1-s))`` or
    at one.
    """
    rest = 4 * (1 - share)
    u = min(1.0, (share + rest) / (2 * rest))
    return math.sqrt(share * u + rest * u * (1 - u))


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
