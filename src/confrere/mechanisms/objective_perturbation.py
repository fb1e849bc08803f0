"""Objective perturbation of regularised logistic regression (PLR, Algorithm 1), made exact.

Proof: docs/proofs/objective_perturbation.md.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from confrere.errors import InvalidData, InvalidParameter
from confrere.guarantee import Guarantee, Neighbours, check_epsilon, check_positive
from confrere.maths.calibration import (
    Term,
    calibrate,
    calibrate_softmax,
    printed_calibration,
)
from confrere.maths.solver import minimise, minimise_softmax, smallest_tolerance
from confrere.mechanisms.lattice import LatticeStep
from confrere.noise.samplers import in_sum_zero_space, l2_noise
from confrere.noise.sources import RandomSource
from confrere.rows.ball import Rows, certify_rows

THEOREM = "docs/proofs/objective_perturbation.md"
PUBLIC = ("number of records", "number of features", "label set", "bounds", "every parameter")
ASSUMPTIONS = (
    "each person is in at most one record",
    "floats: rounding of the noise and its far tails (total variation below 1e-15)",
)

#: Share of epsilon that pays for the solver's tolerance and the floats.
SOLVER_SHARE = 0.01

#: Tolerance on the gradient of the summed objective, where rounding allows it.
TOLERANCE = 1e-6

#: Part of the tolerance that the solver may use; the rest is for the rounding of the noise itself.
SOLVER_PART = 0.9

#: Probability of noise longer than the certificate reckons with.
FARTHEST = 1e-18

Calibration = Literal["tight", "printed"]


def public_tolerance(
    n_samples: int,
    n_features: int,
    *,
    rho: float,
    ridge: float,
    prior_norm: float = 0.0,
    n_classes: int = 2,
) -> float:
    """Return a bound on the gradient that the solver can certify on every run.

    A function of public quantities alone: it stands above the rounding error of the gradient and
    of the noise for every noise vector but the longest (probability :data:`FARTHEST`).
    """
    return certified_tolerance(
        n_samples,
        n_features,
        longest_noise=_longest(rho, n_features * (n_classes - 1)),
        ridge=ridge,
        prior_norm=prior_norm,
        n_classes=n_classes,
    )


def certified_tolerance(
    n_samples: int,
    n_features: int,
    *,
    longest_noise: float,
    ridge: float,
    prior_norm: float,
    n_classes: int,
) -> float:
    """Return the same for noise of any law, up to its longest."""
    smallest = smallest_tolerance(
        n_samples,
        n_features,
        ridge=ridge,
        linear_norm=longest_noise,
        centre_norm=prior_norm,
        n_classes=n_classes if n_classes > 2 else None,
    )
    rounding = 64 * longest_noise * float(np.finfo(np.float64).eps)
    return max(TOLERANCE, smallest / SOLVER_PART, rounding)


@dataclass(frozen=True, kw_only=True)
class PerturbedObjective(ABC):
    """Minimise a logistic objective with random linear term, then take the output step.

    Price and act are two methods: :meth:`guarantee` touches no data, :meth:`run` does. The law of
    the linear term, and with it the theorem, is a subclass's.

    Parameters
    ----------
    epsilon : float
        The whole price, solver's share included.
    n_samples, n_features : int
        Public sizes; ``n_features`` counts the constant column if there is one.
    ridge : float
        ``L`` of the summed objective.
    n_classes : int, default=2
        Two classes use the tight binary accountant, more the multinomial bound.
    cap : float, default=1.0
        Largest slope of the loss; 1 is the logistic loss.
    neighbours : Neighbours
        The relation that the guarantee speaks of.
    prior_norm : float, default=0.0
        Public bound on the norm of the point shrunk towards.
    largest_samples : int, optional
        Public bound on the number of rows where that number itself is not public; the solver's
        tolerance comes from it.
    """

    epsilon: float
    n_samples: int
    n_features: int
    ridge: float
    n_classes: int = 2
    cap: float = 1.0
    neighbours: Neighbours = Neighbours.REPLACE_ONE
    prior_norm: float = 0.0
    largest_samples: int | None = None

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        check_positive(self.ridge, "ridge")
        if self.n_samples < 1 or self.n_features < 1:
            raise InvalidData("X needs at least one row and one column.")
        if self.n_classes < 2:
            raise InvalidParameter("classes must name at least two labels.")
        if self.n_classes > 2 and self.cap < 1:
            raise InvalidParameter("loss='capped' is for two classes only.")
        self._calibrate(self.epsilon * (1 - SOLVER_SHARE))

    @abstractmethod
    def _calibrate(self, budget: float) -> None:
        """Set the noise level to what ``budget`` allows."""

    @property
    @abstractmethod
    def longest_noise(self) -> float:
        """A norm that the noise exceeds with probability :data:`FARTHEST`."""

    @abstractmethod
    def draw(self, source: RandomSource, count: int = 1) -> NDArray[np.float64]:
        """Return ``(count, noise_dimension)`` draws of the linear term."""

    @abstractmethod
    def guarantee(self) -> Guarantee:
        """Return the price, without touching data."""

    @abstractmethod
    def noise_facts(self) -> dict[str, Any]:
        """Return the public facts about the noise, plain values."""

    @property
    def size(self) -> int:
        """How many numbers are released."""
        return self.n_features * (1 if self.n_classes == 2 else self.n_classes)

    @property
    def noise_dimension(self) -> int:
        """Dimension of the space that the noise lives in."""
        return self.n_features * (self.n_classes - 1)

    @property
    def tolerance(self) -> float:
        """Certified bound on the gradient at the released point's pre-image."""
        return certified_tolerance(
            self.largest_samples or self.n_samples,
            self.n_features,
            longest_noise=self.longest_noise,
            ridge=self.ridge,
            prior_norm=self.prior_norm,
            n_classes=self.n_classes,
        )

    @property
    def output_step(self) -> LatticeStep:
        """The step that pays for the tolerance."""
        return LatticeStep(
            epsilon=self.epsilon * SOLVER_SHARE,
            radius=self.tolerance / self.ridge,
            size=self.size,
        )

    def run(
        self,
        X: Rows,
        y: NDArray[np.float64] | NDArray[np.intp],
        *,
        source: RandomSource,
        centre: NDArray[np.float64] | None = None,
    ) -> NDArray[np.float64]:
        """Return the released weights: ``(d,)`` for two classes, ``(K, d)`` for more.

        Parameters
        ----------
        X : (n, d) array or CSR
            Rows in the unit ball.
        y : (n,) array
            Labels -1 and +1, or class codes ``0 .. K-1``.
        source : RandomSource
            Where the noise comes from.
        centre : array, optional
            Public point to shrink towards, of the shape that is released.
        """
        if X.shape != (self.n_samples, self.n_features):
            raise InvalidData("X does not have the declared number of rows and columns.")
        certify_rows(X)
        tolerance = SOLVER_PART * self.tolerance
        noise = self.draw(source)[0]
        if self.n_classes == 2:
            point = minimise(
                X,
                y,
                ridge=self.ridge,
                linear=noise,
                centre=centre,
                cap=self.cap,
                tolerance=tolerance,
            ).w
        else:
            point = minimise_softmax(
                X,
                np.asarray(y, dtype=np.intp),
                self.n_classes,
                ridge=self.ridge,
                linear=in_sum_zero_space(noise, self.n_classes),
                centre=centre,
                tolerance=tolerance,
            ).w
        return self.output_step.release(point, source)


@dataclass(frozen=True, kw_only=True)
class ObjectivePerturbation(PerturbedObjective):
    """Noise with density proportional to ``exp(-rho ||b||)``: pure privacy.

    Parameters
    ----------
    calibration : {"tight", "printed"}
        ``"printed"`` is Algorithm 1 as published: sound, but it wastes noise.
    """

    calibration: Calibration = "tight"
    rho: float = field(init=False)

    def _calibrate(self, budget: float) -> None:
        if self.calibration == "printed":
            self._set_printed(budget)
        elif self.n_classes > 2:
            rho = calibrate_softmax(budget, self.ridge, self.n_classes, neighbours=self.neighbours)
            object.__setattr__(self, "rho", rho)
        else:
            term = Term(ridge=self.ridge, cap=self.cap)
            object.__setattr__(self, "rho", calibrate(budget, [term], self.neighbours))

    def _set_printed(self, budget: float) -> None:
        if self.n_classes > 2 or self.cap < 1 or self.neighbours is not Neighbours.REPLACE_ONE:
            raise InvalidParameter(
                "calibration='printed' was published for two classes, the logistic loss and "
                "replace-one neighbours; use calibration='tight'."
            )
        printed = printed_calibration(budget, self.n_samples, self.ridge / self.n_samples)
        object.__setattr__(self, "rho", printed.rho)
        object.__setattr__(self, "ridge", self.ridge + self.n_samples * printed.extra_ridge)

    @property
    def longest_noise(self) -> float:
        """A norm that the noise exceeds with probability :data:`FARTHEST`."""
        return _longest(self.rho, self.noise_dimension)

    def draw(self, source: RandomSource, count: int = 1) -> NDArray[np.float64]:
        """Return ``(count, noise_dimension)`` draws of the linear term."""
        return l2_noise(self.rho, self.noise_dimension, source, count=count)

    def guarantee(self) -> Guarantee:
        """Return the price, without touching data."""
        return Guarantee(
            epsilon=self.epsilon,
            neighbours=self.neighbours,
            theorem=THEOREM,
            public=PUBLIC,
            assumptions=ASSUMPTIONS,
        )

    def noise_facts(self) -> dict[str, Any]:
        """Return the rate of the noise."""
        return {"rho": self.rho}


def _longest(rho: float, dimension: int) -> float:
    return float(stats.gamma.isf(FARTHEST, dimension)) / rho
