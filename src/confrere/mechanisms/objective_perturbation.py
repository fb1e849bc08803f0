"""Objective perturbation of regularised logistic regression (PLR, Algorithm 1), made exact.

Proof: docs/proofs/objective_perturbation.md.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confrere.errors import InvalidData, InvalidParameter
from confrere.kernel.guarantee import (
    ASSUMPTIONS,
    Guarantee,
    Neighbours,
    check_epsilon,
    check_positive,
    check_relation,
    public_facts,
)
from confrere.kernel.streams import RandomSource
from confrere.maths.calibration import (
    CLASSWISE_FROM,
    RidgeTerm,
    calibrate,
    calibrate_classwise,
    calibrate_softmax,
)
from confrere.mechanisms.hidden_size import RowCount, check_row_count, declared_count
from confrere.mechanisms.laws import ClassNoise, L2Noise, NoiseLaw
from confrere.mechanisms.noisy_minimiser import (
    SOLVER_PART,
    SOLVER_SHARE,
    TOLERANCE,
    Labels,
    NoisyMinimiser,
)
from confrere.mechanisms.output_step import LatticeStep
from confrere.mechanisms.terms import Density, PerturbedObjectiveTerm, PerturbedSoftmaxTerm
from confrere.rows.frame import Rows

__all__ = [
    "ASSUMPTIONS",
    "SOLVER_PART",
    "SOLVER_SHARE",
    "TOLERANCE",
    "ObjectivePerturbation",
    "PerturbedObjective",
]

THEOREM = "docs/proofs/objective_perturbation.md"


@dataclass(frozen=True, kw_only=True)
class PerturbedObjective(ABC):
    """A noisy minimiser with its price.

    Price and act are two methods: :meth:`guarantee` touches no data, :meth:`run` does. A subclass
    adds the law of the noise, the accountant that finds it, and the theorem.

    Parameters
    ----------
    epsilon : float
        The whole price, solver's share included.
    n_samples : int or HiddenSize
        Public number of rows; under add-remove neighbours what stands for it.
    n_features : int
        Public number of columns, the constant one included.
    ridge : float
        ``L`` of the summed objective.
    n_classes : int, default=2
        Two classes use the tight binary accountant, more the multinomial bound; from four on
        pure noise is every class's own.
    cap : float, default=1.0
        Largest slope of the loss; 1 is the logistic loss.
    neighbours : Neighbours
        The relation that the guarantee speaks of.
    prior_norm : float, default=0.0
        Public bound on the norm of the point shrunk towards.
    """

    epsilon: float
    n_samples: RowCount
    n_features: int
    ridge: float
    n_classes: int = 2
    cap: float = 1.0
    neighbours: Neighbours = Neighbours.REPLACE_ONE
    prior_norm: float = 0.0

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        check_relation(self.neighbours)
        check_positive(self.ridge, "ridge")
        check_row_count(self.n_samples, self.neighbours)
        if declared_count(self.n_samples) < 1 or self.n_features < 1:
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
    def law(self) -> NoiseLaw:
        """The law of the linear term."""

    @abstractmethod
    def guarantee(self) -> Guarantee:
        """Return the price, without touching data."""

    @abstractmethod
    def noise_facts(self) -> dict[str, Any]:
        """Return the public facts about the noise, plain values."""

    @property
    def minimiser(self) -> NoisyMinimiser:
        """The act that is priced."""
        return NoisyMinimiser(
            law=self.law,
            n_samples=self.n_samples,
            n_features=self.n_features,
            ridge=self.ridge,
            output_epsilon=self.epsilon * SOLVER_SHARE,
            n_classes=self.n_classes,
            cap=self.cap,
            prior_norm=self.prior_norm,
        )

    @property
    def noise_dimension(self) -> int:
        """Dimension of the space that the noise lives in."""
        return self.minimiser.noise_dimension

    @property
    def tolerance(self) -> float:
        """Certified bound on the gradient at the released point's pre-image."""
        return self.minimiser.tolerance

    @property
    def output_step(self) -> LatticeStep:
        """The step that pays for the tolerance."""
        return self.minimiser.output_step

    def run(
        self, X: Rows, y: Labels, *, source: RandomSource, centre: NDArray[np.float64] | None = None
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
        return np.asarray(self.run_many(X, y, source=source, count=1, centre=centre)[0])

    def run_many(
        self,
        X: Rows,
        y: Labels,
        *,
        source: RandomSource,
        count: int,
        centre: NDArray[np.float64] | None = None,
    ) -> NDArray[np.float64]:
        """Return ``count`` independent releases; more than one needs a seeded source."""
        stream = source.book(self.guarantee(), count)
        return self.minimiser.run_many(X, y, source=stream, count=count, centre=centre)

    def terms(self, X: Rows, y: Labels, centre: NDArray[np.float64] | None = None) -> list[Density]:
        """Return the density of the release, for an exact audit."""
        rows = np.asarray(X)
        if self.n_classes == 2:
            return [PerturbedObjectiveTerm(rows, np.asarray(y), self.minimiser, centre)]
        return [PerturbedSoftmaxTerm(rows, np.asarray(y, dtype=np.intp), self.minimiser, centre)]


@dataclass(frozen=True, kw_only=True)
class ObjectivePerturbation(PerturbedObjective):
    """Noise with density proportional to ``exp(-rho ||b||)``: pure privacy.

    From four classes on the norm is the sum of the classes' norms.
    """

    rho: float = field(init=False)

    def _calibrate(self, budget: float) -> None:
        if self.n_classes > 2:
            found = calibrate_classwise if self.n_classes >= CLASSWISE_FROM else calibrate_softmax
            rho = found(budget, self.ridge, self.n_classes, neighbours=self.neighbours)
            object.__setattr__(self, "rho", rho)
        else:
            term = RidgeTerm(ridge=self.ridge, cap=self.cap)
            object.__setattr__(self, "rho", calibrate(budget, [term], self.neighbours))

    @property
    def law(self) -> L2Noise | ClassNoise:
        """The law of the linear term."""
        if self.n_classes >= CLASSWISE_FROM:
            return ClassNoise(self.rho, self.n_classes)
        return L2Noise(self.rho)

    def guarantee(self) -> Guarantee:
        """Return the price, without touching data."""
        return Guarantee(
            epsilon=self.epsilon,
            neighbours=self.neighbours,
            theorem=THEOREM,
            public=public_facts(self.neighbours),
            assumptions=ASSUMPTIONS,
        )

    def noise_facts(self) -> dict[str, Any]:
        """Return the rate of the noise."""
        return {"rho": self.rho}
