"""The functional mechanism: noisy coefficients of the quadratic expansion of the loss (OFAA).

Proof: docs/proofs/functional_mechanism.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from confrere.arrays import Floats
from confrere.errors import InvalidData, InvalidParameter
from confrere.kernel.accountants import check_delta
from confrere.kernel.guarantee import (
    ASSUMPTIONS,
    Guarantee,
    Neighbours,
    check_epsilon,
    public_facts,
)
from confrere.kernel.norms import certify_rows
from confrere.kernel.streams import RandomSource
from confrere.mechanisms.measurements import (
    HiddenSize,
    RowCount,
    declared_count,
    largest_count,
    row_patterns,
)
from confrere.mechanisms.output_step import (
    ROUNDING_SHARE,
    AddedNoise,
    coordinate_rounding,
    coordinates,
    from_coordinates,
    roundings,
    row_products,
)
from confrere.mechanisms.terms import NoisedPoint

THEOREM = "docs/proofs/functional_mechanism.md"


_UNIT_ROUNDOFF = 2.0**-53

#: Weights come from ``v``: less noise there helps more than in the curvature ``M``.
LINEAR_SHARE = 0.7


@dataclass(frozen=True, kw_only=True)
class FunctionalMechanism:
    """Release ``v = -(1/2) sum y x`` and ``M = (1/8) sum x x'``, each with noise, once.

    They are the coefficients of ``sum log(1 + exp(-y w.x))`` expanded to second order at zero:
    ``v.w + w'Mw``. Everything computed from them afterwards is post-processing. Of K > 2 classes
    the softmax loss has ``v = sum (1/K - e_c) x'``, a matrix whose columns sum to zero, and
    ``M = sum x x'/(2K)``, the same for every class.

    Parameters
    ----------
    epsilon : float
        The price of both.
    n_samples : int or HiddenSize
        Public number of rows, or what stands for it: then neighbours are add-remove.
    n_features : int
        Public number of columns, the constant among them.
    linear_share : float, default=0.7
        How much of epsilon goes to ``v``; measured, and near where both together are cheapest.
    n_classes : int, default=2
        ``K``.
    delta : float, default=0.0
        With one the noise of both is Gaussian.
    """

    epsilon: float
    n_samples: RowCount
    n_features: int
    linear_share: float = LINEAR_SHARE
    n_classes: int = 2
    delta: float = 0.0

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        if self.delta:
            check_delta(self.delta, declared_count(self.n_samples))
        if declared_count(self.n_samples) < 1 or self.n_features < 1:
            raise InvalidData("X needs at least one row and one column.")
        if not 0 < self.linear_share < 1:
            raise InvalidParameter("linear_share must lie strictly between 0 and 1.")

    @property
    def neighbours(self) -> Neighbours:
        """Which change is hidden: whether the number of rows is public decides."""
        hidden = isinstance(self.n_samples, HiddenSize)
        return Neighbours.ADD_REMOVE if hidden else Neighbours.REPLACE_ONE

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
        if self.neighbours is Neighbours.ADD_REMOVE:
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
        if self.neighbours is Neighbours.REPLACE_ONE:
            together = (joint_gaussian_move if self.delta else joint_move)(share)
        if self.delta:
            return together + math.hypot(off_v, off_m)
        return together + share * off_v + (1 - share) * off_m

    @property
    def noises(self) -> tuple[AddedNoise, AddedNoise]:
        """The noise on ``v``, and on ``M`` in the ``d(d+1)/2`` coordinates of such matrices."""
        d, share = self.n_features, self.linear_share
        prices = self.epsilon * share, self.epsilon * (1 - share)
        scales = 1.0, 1.0
        if self.delta:
            # One Gaussian noise on both, and an output step for each: see the proof.
            prices = (self.epsilon / (1 + ROUNDING_SHARE),) * 2
            scales = math.sqrt(share), math.sqrt(1 - share)
        sizes = d * (self.n_classes - 1), d * (d + 1) // 2
        on_v, on_m = (
            AddedNoise(
                epsilon=price,
                sensitivity=self.sensitivity * move / scale,
                reach=self._most * length + self._rounding,
                size=size,
                delta=self.delta,
            )
            for price, move, scale, length, size in zip(
                prices, self.moves, scales, self.lengths, sizes, strict=True
            )
        )
        return on_v, on_m

    def guarantee(self) -> Guarantee:
        """Return the price, without touching data."""
        return Guarantee(
            epsilon=self.epsilon,
            delta=self.delta,
            neighbours=self.neighbours,
            theorem=THEOREM,
            public=public_facts(self.neighbours),
            assumptions=ASSUMPTIONS,
        )

    def run(self, X: Floats, y: Floats, *, source: RandomSource) -> tuple[Floats, Floats]:
        """Return the noised ``v`` and the packed ``M``, see :func:`unpack`.

        ``v`` has the shape ``(d,)``, for more than two classes ``(K, d)``.
        """
        released = self.sample(X, y, source=source, count=1)
        size = self.noises[0].size
        return from_coordinates(released[:, :size], self.n_classes)[0], released[0, size:]

    def sample(self, X: Floats, y: Floats, *, source: RandomSource, count: int = 1) -> Floats:
        """Return ``count`` independent releases, each ``v`` and then the packed ``M``."""
        source = source.book(self.guarantee(), count)
        self._certify(X)
        points = [np.empty((count, noise.size)) for noise in self.noises]
        for rows, mine in row_patterns(self.n_samples, X.shape[0], source, count):
            for every, point in zip(points, self._points(X[rows], y[rows]), strict=True):
                every[mine] = point
        pairs = zip(self.noises, points, strict=True)
        return np.hstack([noise.release(each, source) for noise, each in pairs])

    def terms(self, X: Floats, y: Floats) -> list[NoisedPoint]:
        """Return what is noised, for an exact audit."""
        self._certify(X)
        pairs = zip(self.noises, self._points(X, y), strict=True)
        return [NoisedPoint(point, noise.law, noise.output_step) for noise, point in pairs]

    def _certify(self, X: Floats) -> None:
        rows = X.shape[0] if isinstance(self.n_samples, HiddenSize) else self.n_samples
        if X.shape != (rows, self.n_features):
            raise InvalidData("X does not have the declared number of rows and columns.")
        certify_rows(X)

    def _points(self, X: Floats, y: Floats) -> tuple[Floats, Floats]:
        quadratic = pack(row_products(X, X) * self.lengths[1])
        if self.n_classes == 2:
            return np.asarray(-0.5 * row_products(X, y)), quadratic
        errors = np.full((len(y), self.n_classes), 1 / self.n_classes)
        errors[np.arange(len(y)), np.asarray(y, dtype=np.intp)] -= 1
        return coordinates(row_products(errors, X)), quadratic


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
