"""Objective perturbation with Laplace noise, for rows bounded in L1 (OFPA, made sound).

Proof: docs/proofs/averaging.md, section "Laplace noise".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from confrere.kernel.guarantee import ASSUMPTIONS, Guarantee, public_facts
from confrere.maths.calibration import RidgeTerm, calibrate, calibrate_classwise
from confrere.mechanisms.laws import LaplaceNoise
from confrere.mechanisms.objective_perturbation import PerturbedObjective

THEOREM = "docs/proofs/averaging.md"


@dataclass(frozen=True, kw_only=True)
class LaplaceObjectivePerturbation(PerturbedObjective):
    """Noise with density proportional to ``exp(-rho ||b||_1)``: pure privacy.

    Rows lie in the unit ball of L1, so the same accountant holds with Laplace noise of rate
    ``rho`` on every coordinate: a noise vector of length about ``sqrt(2 d)/rho``, not ``d/rho``. Of
    several classes every coordinate of every class has it.
    """

    rho: float = field(init=False)

    def _calibrate(self, budget: float) -> None:
        if self.n_classes > 2:
            rho = calibrate_classwise(
                budget, self.ridge, self.n_classes, neighbours=self.neighbours
            )
        else:
            term = RidgeTerm(ridge=self.ridge, cap=self.cap)
            rho = calibrate(budget, [term], self.neighbours)
        object.__setattr__(self, "rho", rho)

    @property
    def law(self) -> LaplaceNoise:
        """The law of the linear term."""
        return LaplaceNoise(self.rho)

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
