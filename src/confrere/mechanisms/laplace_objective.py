"""Objective perturbation with Laplace noise, for rows bounded in L1 (OFPA, made sound).

Proof: docs/proofs/averaging.md, section "Laplace noise".
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from confrere.errors import InvalidData
from confrere.guarantee import Guarantee, Neighbours, check_epsilon, check_positive
from confrere.maths.calibration import Term, calibrate
from confrere.maths.solver import minimise
from confrere.mechanisms.lattice import LatticeStep
from confrere.mechanisms.objective_perturbation import (
    ASSUMPTIONS,
    PUBLIC,
    SOLVER_PART,
    SOLVER_SHARE,
    public_tolerance,
)
from confrere.noise.samplers import laplace_noise
from confrere.noise.sources import RandomSource

THEOREM = "docs/proofs/averaging.md"


@dataclass(frozen=True, kw_only=True)
class LaplaceObjectivePerturbation:
    """Minimise a logistic objective with a Laplace linear term, then take the output step.

    Rows lie in the unit ball of L1, so the same accountant holds with Laplace noise of rate
    ``rho`` on every coordinate: a noise vector of length about ``sqrt(2 d)/rho``, not ``d/rho``.

    Parameters
    ----------
    epsilon : float
        The whole price, solver's share included.
    n_samples, n_features : int
        Public sizes; ``n_features`` counts the constant column.
    ridge : float
        ``L`` of the summed objective.
    cap : float, default=1.0
        Largest slope of the loss.
    neighbours : Neighbours
        The relation that the guarantee speaks of.
    prior_norm : float, default=0.0
        Public bound on the Euclidean norm of the point shrunk towards.
    """

    epsilon: float
    n_samples: int
    n_features: int
    ridge: float
    cap: float = 1.0
    neighbours: Neighbours = Neighbours.REPLACE_ONE
    prior_norm: float = 0.0
    rho: float = field(init=False)

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        check_positive(self.ridge, "ridge")
        if self.n_samples < 1 or self.n_features < 1:
            raise InvalidData("X needs at least one row and one column.")
        budget = self.epsilon * (1 - SOLVER_SHARE)
        term = Term(ridge=self.ridge, cap=self.cap)
        object.__setattr__(self, "rho", calibrate(budget, [term], self.neighbours))

    @property
    def tolerance(self) -> float:
        """Certified bound on the gradient; the noise's L2 norm is below its Gamma L1 norm."""
        return public_tolerance(
            self.n_samples,
            self.n_features,
            rho=self.rho,
            ridge=self.ridge,
            prior_norm=self.prior_norm,
        )

    @property
    def output_step(self) -> LatticeStep:
        """The step that pays for the tolerance."""
        return LatticeStep(
            epsilon=self.epsilon * SOLVER_SHARE,
            radius=self.tolerance / self.ridge,
            size=self.n_features,
        )

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
        self,
        X: NDArray[np.float64],
        y: NDArray[np.float64],
        *,
        source: RandomSource,
        centre: NDArray[np.float64] | None = None,
    ) -> NDArray[np.float64]:
        """Return the released weights for rows in the L1 unit ball and labels -1 and +1."""
        if X.shape != (self.n_samples, self.n_features):
            raise InvalidData("X does not have the declared number of rows and columns.")
        certify_rows_l1(X)
        point = minimise(
            X,
            y,
            ridge=self.ridge,
            linear=laplace_noise(self.rho, self.n_features, source)[0],
            centre=centre,
            cap=self.cap,
            tolerance=SOLVER_PART * self.tolerance,
        ).w
        return self.output_step.release(point, source)


def certify_rows_l1(X: NDArray[np.float64]) -> None:
    """Refuse rows outside the L1 ball: the theorem's hypothesis, checked before any draw."""
    # Written so that NaN is refused: no comparison with it is true.
    if not float(np.abs(X).sum(axis=1).max()) <= 1:
        raise InvalidData("a row is longer than the declared bound; clip the rows first.")
