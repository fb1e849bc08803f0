"""Coefficients of the expanded loss, released by every party and summed (OFAA).

Proof: docs/proofs/functional_mechanism.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from typing_extensions import override

from confrere.arrays import Floats
from confrere.data.body import BodyFrame
from confrere.errors import InvalidParameter
from confrere.kernel.guarantee import Guarantee, Neighbours
from confrere.kernel.losses import loss_of
from confrere.kernel.norms import L2
from confrere.kernel.streams import RandomSource
from confrere.mechanisms.measurements import (
    Part,
    Point,
    RowCount,
    largest_count,
    relation_of,
    row_promise,
)
from confrere.mechanisms.noised import coordinate_rounding, roundings, row_products
from confrere.methods.allowance import free_ridge
from confrere.methods.asking import (
    Arrays,
    Ask,
    AskedOfRows,
    Labels,
    PartyRows,
    Protocol,
    Reader,
    Rows,
    Sizes,
    known_sizes,
    over_parties,
    relation,
)
from confrere.methods.average import Collaboration, Combined
from confrere.methods.plan import Coordinates, Term

_THEOREM = "docs/proofs/functional_mechanism.md"

_UNIT_ROUNDOFF = 2.0**-53

#: Weights come from ``v``: less noise there helps more than in the curvature ``M``.
LINEAR_SHARE = 0.7


@dataclass(frozen=True, kw_only=True, eq=False)
class ExpandedLoss(AskedOfRows):
    """Coefficients of a party's expanded loss."""

    operation: ClassVar[str] = "coefficients"

    frame: Coordinates
    epsilon: float
    linear_share: float = LINEAR_SHARE
    delta: float = 0.0

    def mechanism(self, n_samples: int) -> Point:
        """Return what a party of that size runs."""
        return noised_coefficients(
            epsilon=self.epsilon,
            n_samples=self.count(n_samples),
            n_features=self.frame.size,
            linear_share=self.linear_share,
            n_classes=self.n_classes,
            delta=self.delta,
        )

    @override
    def release(self, X: Rows, y: Labels, source: RandomSource, engine: Reader = None) -> Arrays:
        (linear,), (quadratic,) = source.draw(self.mechanism(len(y)), (self.frame.rows(X), y))
        return {"linear": linear, "quadratic": quadratic}


def noised_coefficients(
    *,
    epsilon: float,
    n_samples: RowCount,
    n_features: int,
    n_classes: int = 2,
    delta: float = 0.0,
    # How much of epsilon goes to ``v``; measured, and near where both together are cheapest.
    linear_share: float = LINEAR_SHARE,
) -> Point:
    """Return noise on ``v = -(1/2) sum y x`` and ``M = (1/8) sum x x'``.

    They are the coefficients of ``sum log(1 + exp(-y w.x))`` expanded to second order at zero:
    ``v.w + w'Mw``. Everything computed from them afterwards is post-processing. Of K > 2 classes
    the softmax loss has ``v = sum (1/K - e_c) x'``, a matrix whose columns sum to zero, and
    ``M = sum x x'/(2K)``, the same for every class. ``M`` is in the ``d(d+1)/2`` coordinates of
    symmetric matrices, see :func:`unpack`.
    """
    if not 0 < linear_share < 1:
        raise InvalidParameter("linear_share must lie strictly between 0 and 1.")
    most, shares = largest_count(n_samples), (linear_share, 1 - linear_share)
    lengths, moves = part_lengths(n_classes), largest_moves(n_classes, relation_of(n_samples))
    # Bound on the error of a float sum of n vectors of norm at most one.
    rounding = 2 * most * (roundings(most) + 4) * _UNIT_ROUNDOFF
    turned = coordinate_rounding(most * lengths[0], n_classes)
    off_v = 2 * (lengths[0] * rounding + turned) / moves[0]
    off_m = 2 * lengths[1] * rounding / moves[1]
    together = 1.0  # one row alone moves both as far as it can
    if relation_of(n_samples) is Neighbours.REPLACE_ONE:
        together = (joint_gaussian_move if delta else joint_move)(linear_share)
    # Moves of v and M, each over its own largest, by their shares; with a delta their squares.
    off = math.hypot(off_v, off_m) if delta else linear_share * off_v + shares[1] * off_m
    sizes = n_features * (n_classes - 1), n_features * (n_features + 1) // 2

    def value(X: Rows, y: Labels) -> tuple[Floats, Floats]:
        loss_of(n_classes).check_labels(y)
        quadratic = pack(row_products(X, X) * lengths[1])
        if n_classes == 2:
            return -0.5 * row_products(X, y), quadratic
        errors = np.full((len(y), n_classes), 1 / n_classes)
        errors[np.arange(len(y)), np.asarray(y, dtype=np.intp)] -= 1
        return row_products(errors, X), quadratic

    return Point(
        promise=row_promise(epsilon, n_samples, _THEOREM, delta=delta),
        sensitivity=together + off,
        parts=tuple(
            Part(size, most * length + rounding, share, move, classes)
            for size, length, share, move, classes in zip(
                sizes, lengths, shares, moves, (n_classes, 2), strict=True
            )
        ),
        value=value,
        n_samples=n_samples,
        rows=L2(n_features),
    )


def part_lengths(n_classes: int) -> tuple[float, float]:
    """Return the largest norms of one record's part of ``v`` and of ``M``."""
    k = n_classes
    return (1 / 2, 1 / 8) if k == 2 else (math.sqrt(1 - 1 / k), 1 / (2 * k))


def largest_moves(n_classes: int, relation: Neighbours) -> tuple[float, float]:
    """Return how far one record moves ``v`` and ``M``; a replaced one not both together.

    Opposite rows of one label move ``v`` by twice its part; ``||xx' - zz'|| <= sqrt 2``. A row
    that comes or goes moves either by its part.
    """
    on_v, on_m = part_lengths(n_classes)
    if relation is Neighbours.ADD_REMOVE:
        return on_v, on_m
    return 2 * on_v, math.sqrt(2) * on_m


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


@dataclass(frozen=True, kw_only=True, eq=False)
class Expansion(Collaboration):
    """Every party releases the coefficients of its expanded loss once; their sum is minimised.

    The automatic ``alpha`` is the larger of the public rule and the typical size of the noise in
    the curvature.
    """

    linear_share: float = LINEAR_SHARE  #: Of epsilon, for the linear coefficients

    def request(self, sizes: Sizes) -> ExpandedLoss:
        """Return what parties of these sizes are asked, once coordinates are made for them."""
        return ExpandedLoss(
            frame=self.space,
            epsilon=self.epsilon,
            linear_share=self.linear_share,
            delta=self.delta,
            n_classes=self.n_classes,
            **relation(sizes),
        )

    @override
    def guarantee(self, sizes: Sizes) -> Guarantee:
        asked = self.at(sizes).request(sizes)
        prices = [asked.mechanism(n).guarantee() for n in sorted(set(sizes.counts.values()))]
        return over_parties(prices, len(sizes.counts))

    def ridge(self, sizes: Sizes) -> float:
        """Return the public ridge."""
        frame, size = self.space, self.space.size
        if self.alpha != "auto":
            return sizes.total * float(self.alpha)
        budget = self.epsilon * self.linear_share
        rule = max(free_ridge(budget), size**3 / (sizes.total * budget**2))
        if isinstance(frame, BodyFrame):
            rule = frame.ridge
        mechanism = self.request(sizes).mechanism(max(sizes.counts.values()))
        # Coordinates of M are entries times sqrt(2); a symmetric matrix of entries sigma has norm
        # 2 sigma sqrt(d), and the curvature is 2M.
        entry = mechanism.deviations[1] / math.sqrt(2)
        return max(4 * entry * math.sqrt(size * len(sizes.counts)), rule)

    def combine(self, linear: Floats, packed: Floats, sizes: Sizes) -> Floats:
        """Return the minimiser of the sum of all parties' coefficients: post-processing."""
        return minimise_quadratic(
            linear.sum(axis=0),
            unpack(packed.sum(axis=0), self.space.size),
            ridge=self.ridge(sizes),
            prior=self.centre,
        )

    @override
    def steps(self, sizes: Sizes | Sequence[str]) -> Protocol[Combined]:
        sizes = yield from known_sizes(sizes, self.delta)
        made = self.at(sizes)
        told = yield Ask(made.request(sizes), sizes.counts)
        there = {name: sizes.counts[name] for name in told.names}
        weights = made.combine(told.arrays["linear"], told.arrays["quadratic"], sizes)
        return Combined(made.space, weights, there)

    @override
    def terms(self, parties: PartyRows, sizes: Sizes) -> list[Term]:
        asked = self.at(sizes).request(sizes)
        return [
            Term(name, asked.mechanism(len(y)), (asked.frame.rows(X), y))
            for name, (X, y) in zip(sizes.counts, parties.members(), strict=True)
        ]


def minimise_quadratic(
    linear: Floats, quadratic: Floats, *, ridge: float, prior: Floats | None = None
) -> Floats:
    """Minimise ``v.w + w'Mw + (L/2)||w - u||^2`` with M's negative eigenvalues set to zero.

    Of several classes, with one row of ``linear`` each, every one by itself.
    """
    centre = np.zeros_like(linear) if prior is None else prior
    eigenvalues, vectors = np.linalg.eigh((quadratic + quadratic.T) / 2)
    curvature = 2 * np.maximum(eigenvalues, 0.0) + ridge
    return np.asarray((((ridge * centre - linear) @ vectors) / curvature) @ vectors.T)
