"""Output perturbation of regularised logistic regression: the minimiser, as it is noised.

Proof: docs/proofs/output_perturbation.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from typing_extensions import override

from confrere.arrays import Floats
from confrere.errors import InvalidData
from confrere.kernel.guarantee import Neighbours, check_positive
from confrere.kernel.losses import Labels, loss_of
from confrere.kernel.norms import Rows, certify_rows
from confrere.maths.parties import Descent
from confrere.maths.solver.certificate import certified, certified_parties, smallest_tolerance
from confrere.mechanisms.measurements import TOLERANCE, Offsets, Part, Point, largest_count
from confrere.mechanisms.noised import OfRows, coordinate_rounding, coordinates


@dataclass(frozen=True, kw_only=True)
class OutputPerturbation(OfRows):
    """Minimise, then add noise to the minimiser.

    The minimiser of an ``L``-strongly convex sum moves by at most the change of one record's
    gradient over ``L``; the solver's own error is added to that distance, so nothing else has to
    pay for it.
    """

    theorem = "docs/proofs/output_perturbation.md"

    ridge: float  #: ``L`` of the summed objective
    cap: float = 1.0  #: Largest slope of the binary loss
    neighbours: Neighbours = Neighbours.REPLACE_ONE
    prior_norm: float = 0.0  #: Public bound on the norm of the point that is shrunk towards

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self.ridge, "ridge")

    @property
    @override
    def relation(self) -> Neighbours:
        return self.neighbours

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
        changes = 2 if self.neighbours is Neighbours.REPLACE_ONE else 1
        exact = (changes * self.slope + 2 * self.tolerance) / self.ridge
        return exact + 2 * coordinate_rounding(self._reach, self.n_classes)

    @property
    def slope(self) -> float:
        """How long one record's gradient can be."""
        return loss_of(self.n_classes, self.cap).slope

    @property
    def _reach(self) -> float:
        """No minimiser is longer: its objective is not above that of the centre."""
        each = math.log(self.n_classes) + self.slope * self.prior_norm
        apart = math.sqrt(2 * largest_count(self.n_samples) * each / self.ridge)
        return apart + self.tolerance / self.ridge + self.prior_norm

    @property
    @override
    def noise(self) -> Point:
        return Point(
            promise=self.guarantee(),
            sensitivity=self.sensitivity,
            parts=(Part(self.n_features * (self.n_classes - 1), self._reach),),
            n_samples=self.n_samples,
        )

    @override
    def value(self, X: Rows, y: Labels, centre: Floats | None = None) -> Floats:
        """Return the certified minimiser in the coordinates of the noise, or else the centre."""
        shape = (self.n_features,) if self.n_classes == 2 else (self.n_classes, self.n_features)
        towards = np.zeros(shape) if centre is None else centre
        if towards.shape != shape or not np.linalg.norm(towards) <= self.prior_norm:
            raise InvalidData("the centre must have one number per weight, and no longer norm.")
        (found,) = certified(
            Descent(),
            X,
            y,
            loss=loss_of(self.n_classes, self.cap),
            ridge=self.ridge,
            linear=np.zeros((1, *shape)),
            centre=towards,
            tolerance=self.tolerance,
        )
        return coordinates(found)


def party_minimisers(
    mechanisms: Mapping[int, OutputPerturbation],  # That of a party of so many rows
    centre: Floats | None,  # Public point to shrink towards
) -> Callable[[Floats, Floats, Offsets, Offsets], Floats]:
    """Return what makes every party's minimiser, one per row, two classes, of the rows it uses."""

    def value(X: Floats, y: Floats, starts: Offsets, sizes: Offsets) -> Floats:
        certify_rows(X)
        own = [mechanisms[size] for size in sizes.tolist()]
        return certified_parties(
            Descent(),
            (X, y, starts),
            loss=loss_of(2, own[0].cap),
            ridge=np.array([one.ridge for one in own]),
            linear=np.zeros((len(own), X.shape[1])),
            centre=centre,
            tolerance=np.array([one.tolerance for one in own]),
        )

    return value
