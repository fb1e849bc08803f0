"""Output perturbation of regularised logistic regression.

Proof: docs/proofs/output_perturbation.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from confrere.arrays import Floats
from confrere.errors import InvalidData
from confrere.kernel.accountants import check_delta
from confrere.kernel.guarantee import (
    ASSUMPTIONS,
    Guarantee,
    Neighbours,
    check_epsilon,
    check_positive,
    check_relation,
    public_facts,
)
from confrere.kernel.losses import Labels
from confrere.kernel.norms import certify_rows
from confrere.kernel.streams import RandomSource
from confrere.maths.parties import minimise_parties
from confrere.maths.solver import UNSOLVED, minimise, minimise_softmax, smallest_tolerance
from confrere.mechanisms.measurements import (
    TOLERANCE,
    HiddenSize,
    Offsets,
    RowCount,
    by_size,
    check_row_count,
    declared_count,
    largest_count,
    row_patterns,
    some_rows,
    used_rows,
)
from confrere.mechanisms.output_step import (
    AddedNoise,
    coordinate_rounding,
    coordinates,
    from_coordinates,
)
from confrere.mechanisms.terms import NoisedPoint
from confrere.rows.frame import Rows

THEOREM = "docs/proofs/output_perturbation.md"


@dataclass(frozen=True, kw_only=True)
class OutputPerturbation:
    """Minimise, then add noise to the minimiser.

    The minimiser of an ``L``-strongly convex sum moves by at most the change of one record's
    gradient over ``L``; the solver's own error is added to that distance, so nothing else has to
    pay for it.

    Parameters
    ----------
    epsilon : float
        The price.
    n_samples : int or HiddenSize
        Public number of rows; under add-remove neighbours what stands for it.
    n_features : int
        Public number of columns.
    ridge : float
        ``L`` of the summed objective.
    n_classes : int, default=2
        More than two use the softmax loss.
    cap : float, default=1.0
        Largest slope of the binary loss.
    neighbours : Neighbours
        The relation that the guarantee speaks of.
    delta : float, default=0.0
        With one the noise is Gaussian.
    prior_norm : float, default=0.0
        Public bound on the norm of the point that is shrunk towards.
    """

    epsilon: float
    n_samples: RowCount
    n_features: int
    ridge: float
    n_classes: int = 2
    cap: float = 1.0
    neighbours: Neighbours = Neighbours.REPLACE_ONE
    delta: float = 0.0
    prior_norm: float = 0.0

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        check_relation(self.neighbours)
        if self.delta:
            check_delta(self.delta, declared_count(self.n_samples))
        check_positive(self.ridge, "ridge")
        check_row_count(self.n_samples, self.neighbours)
        if declared_count(self.n_samples) < 1 or self.n_features < 1:
            raise InvalidData("X needs at least one row and one column.")

    @property
    def tolerance(self) -> float:
        """Certified bound on the gradient at the point before noise."""
        smallest = smallest_tolerance(
            largest_count(self.n_samples),
            self.n_features,
            ridge=self.ridge,
            centre_norm=self.prior_norm,
            n_classes=self.n_classes if self.n_classes > 2 else None,
        )
        return max(TOLERANCE, smallest)

    @property
    def sensitivity(self) -> float:
        """Largest L2 move of the solver's answer between neighbours."""
        slope = self.slope
        changes = 2 if self.neighbours is Neighbours.REPLACE_ONE else 1
        exact = (changes * slope + 2 * self.tolerance) / self.ridge
        return exact + 2 * coordinate_rounding(self._reach, self.n_classes)

    @property
    def slope(self) -> float:
        """How long one record's gradient can be."""
        return self.cap if self.n_classes == 2 else math.sqrt(2)

    @property
    def _reach(self) -> float:
        """No minimiser is longer: its objective is not above that of the centre."""
        each = math.log(self.n_classes) + self.slope * self.prior_norm
        apart = math.sqrt(2 * largest_count(self.n_samples) * each / self.ridge)
        return apart + self.tolerance / self.ridge + self.prior_norm

    @property
    def noise(self) -> AddedNoise:
        """The noise on the minimiser."""
        return AddedNoise(
            epsilon=self.epsilon,
            sensitivity=self.sensitivity,
            reach=self._reach,
            size=self.n_features * (self.n_classes - 1),
            delta=self.delta,
        )

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

    def run(
        self, X: Rows, y: Labels, *, source: RandomSource, centre: Floats | None = None
    ) -> Floats:
        """Return the noised minimiser: ``(d,)`` for two classes, ``(K, d)`` for more."""
        return np.asarray(self.sample(X, y, source=source, count=1, centre=centre)[0])

    def sample(
        self,
        X: Rows,
        y: Labels,
        *,
        source: RandomSource,
        count: int = 1,
        centre: Floats | None = None,
    ) -> Floats:
        """Return ``count`` independent releases; more than one needs a seeded source.

        ``centre`` is a public point to shrink towards, of the shape that is released.
        """
        source = source.book(self.guarantee(), count)
        self._certify(X)
        noise = self.noise
        points = np.empty((count, noise.size))
        for rows, mine in row_patterns(self.n_samples, X.shape[0], source, count):
            points[mine] = self._point(*some_rows(X, y, rows), self._centre(centre))
        return from_coordinates(noise.release(points, source), self.n_classes)

    def terms(self, X: Rows, y: Labels, centre: Floats | None = None) -> list[NoisedPoint]:
        """Return what is noised, for an exact audit."""
        self._certify(X)
        point = self._point(X, y, self._centre(centre))
        return [NoisedPoint(point, self.noise.law, self.noise.output_step)]

    def _certify(self, X: Rows) -> None:
        rows = X.shape[0] if isinstance(self.n_samples, HiddenSize) else self.n_samples
        if X.shape != (rows, self.n_features):
            raise InvalidData("X does not have the declared number of rows and columns.")
        certify_rows(X)

    def _centre(self, centre: Floats | None) -> Floats:
        """Return the point that is shrunk towards, if it is no longer than was said."""
        point = np.zeros(self.shape) if centre is None else centre
        if point.shape != self.shape or not np.linalg.norm(point) <= self.prior_norm:
            raise InvalidData("the centre must have one number per weight, and no longer norm.")
        return point

    def _point(self, X: Rows, y: Labels, centre: Floats) -> Floats:
        """Return the certified minimiser in the coordinates of the noise, or else the centre."""
        near: dict[str, Any] = {"ridge": self.ridge, "tolerance": self.tolerance, "centre": centre}
        try:
            if self.n_classes == 2:
                return minimise(X, y, cap=self.cap, **near).w
            codes = np.asarray(y, dtype=np.intp)
            return coordinates(minimise_softmax(X, codes, self.n_classes, **near).w)
        except UNSOLVED:
            return coordinates(centre)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of what is released."""
        one = (self.n_features,)
        return one if self.n_classes == 2 else (self.n_classes, *one)


def run_output_parties(
    mechanisms: Mapping[int, OutputPerturbation],
    X: Floats,
    y: Floats,
    offsets: Offsets,
    *,
    source: RandomSource,
    centre: Floats | None = None,
) -> Floats:
    """Return every party's noised minimiser, one per row, two classes.

    ``mechanisms`` holds that of a party of so many rows; the rest is as for
    :func:`~confrere.mechanisms.measurements.sample_parties`.
    """
    certify_rows(X)
    any_one = next(iter(mechanisms.values()))
    rows, labels, starts = used_rows(any_one.n_samples, X, y, offsets, source)
    kinds = by_size(offsets)
    ridge, tolerance = np.empty(len(offsets) - 1), np.empty(len(offsets) - 1)
    for size, members in kinds:
        ridge[members] = mechanisms[size].ridge
        tolerance[members] = mechanisms[size].tolerance
    points = minimise_parties(
        rows,
        labels,
        starts,
        ridge=ridge,
        cap=any_one.cap,
        tolerance=tolerance,
        centre=centre,
    )
    for size, members in kinds:
        points[members] = mechanisms[size].noise.release(points[members], source)
    return points
