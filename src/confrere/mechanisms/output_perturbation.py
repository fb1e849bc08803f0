"""Output perturbation of regularised logistic regression.

Proof: docs/proofs/output_perturbation.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from confrere.errors import InvalidData
from confrere.guarantee import Guarantee, Neighbours, check_epsilon, check_positive
from confrere.maths.solver import minimise, minimise_softmax, smallest_tolerance
from confrere.mechanisms.objective_perturbation import ASSUMPTIONS, PUBLIC, TOLERANCE
from confrere.noise.samplers import l2_noise, sum_zero_noise
from confrere.noise.sources import RandomSource
from confrere.rows.ball import Rows, certify_rows

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
    n_samples, n_features : int
        Public sizes.
    ridge : float
        ``L`` of the summed objective.
    n_classes : int, default=2
        More than two use the softmax loss.
    cap : float, default=1.0
        Largest slope of the binary loss.
    neighbours : Neighbours
        The relation that the guarantee speaks of.
    """

    epsilon: float
    n_samples: int
    n_features: int
    ridge: float
    n_classes: int = 2
    cap: float = 1.0
    neighbours: Neighbours = Neighbours.REPLACE_ONE

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        check_positive(self.ridge, "ridge")
        if self.n_samples < 1 or self.n_features < 1:
            raise InvalidData("X needs at least one row and one column.")

    @property
    def tolerance(self) -> float:
        """Certified bound on the gradient at the point before noise."""
        smallest = smallest_tolerance(
            self.n_samples,
            self.n_features,
            ridge=self.ridge,
            n_classes=self.n_classes if self.n_classes > 2 else None,
        )
        return max(TOLERANCE, smallest)

    @property
    def sensitivity(self) -> float:
        """Largest L2 move of the solver's answer between neighbours."""
        slope = self.cap if self.n_classes == 2 else math.sqrt(2)
        changes = 2 if self.neighbours is Neighbours.REPLACE_ONE else 1
        if self.neighbours is Neighbours.LABEL_ONLY and self.n_classes == 2:
            slope = 1.0  # p and 1-p of the two labels add up to one, capped or not
        return (changes * slope + 2 * self.tolerance) / self.ridge

    @property
    def spacing(self) -> float:
        """Of the public grid, far below the noise, that drops the bits that floats would leak."""
        size = self.n_features * (self.n_classes if self.n_classes > 2 else 1)
        return 2.0 ** math.floor(math.log2(self.tolerance / self.ridge / size))

    def guarantee(self) -> Guarantee:
        """Return the price, without touching data."""
        return Guarantee(
            epsilon=self.epsilon,
            neighbours=self.neighbours,
            theorem=THEOREM,
            public=PUBLIC,
            assumptions=ASSUMPTIONS,
        )

    def run(
        self, X: Rows, y: NDArray[np.float64] | NDArray[np.intp], *, source: RandomSource
    ) -> NDArray[np.float64]:
        """Return the noised minimiser: ``(d,)`` for two classes, ``(K, d)`` for more."""
        if X.shape != (self.n_samples, self.n_features):
            raise InvalidData("X does not have the declared number of rows and columns.")
        certify_rows(X)
        rho = self.epsilon / self.sensitivity
        if self.n_classes == 2:
            point = minimise(X, y, ridge=self.ridge, cap=self.cap, tolerance=self.tolerance).w
            noise = l2_noise(rho, self.n_features, source)[0]
        else:
            point = minimise_softmax(
                X,
                np.asarray(y, dtype=np.intp),
                self.n_classes,
                ridge=self.ridge,
                tolerance=self.tolerance,
            ).w
            # The minimiser's columns sum to zero; projecting the solver's answer keeps distances.
            point = point - point.mean(axis=0)
            noise = sum_zero_noise(rho, self.n_classes, self.n_features, source)
        return np.asarray(np.rint((point + noise) / self.spacing) * self.spacing)
