"""Gaussian objective perturbation of regularised logistic regression: (epsilon, delta)-privacy.

Proof: docs/proofs/gaussian.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from confrere.kernel.guarantee import Guarantee, public_facts
from confrere.maths.gaussian import GaussianObjective, calibrate_gaussian, check_delta
from confrere.mechanisms.hidden_size import declared_count
from confrere.mechanisms.laws import GaussianNoise
from confrere.mechanisms.noisy_minimiser import SOLVER_SHARE
from confrere.mechanisms.objective_perturbation import PerturbedObjective

THEOREM = "docs/proofs/gaussian.md"
ASSUMPTIONS = (
    "each person is in at most one record",
    "tails of 104-bit uniforms (total variation below 1e-17)",
)


@dataclass(frozen=True, kw_only=True)
class GaussianObjectivePerturbation(PerturbedObjective):
    """Noise ``N(0, sigma^2 I)``: less of it, at the price of a delta.

    Parameters
    ----------
    delta : float
        Probability mass on which epsilon does not hold; below ``1/n_samples``.
    """

    delta: float
    sigma: float = field(init=False)

    def _calibrate(self, budget: float) -> None:
        check_delta(self.delta, declared_count(self.n_samples))
        sigma = calibrate_gaussian(budget, self.delta, self.accountant)
        object.__setattr__(self, "sigma", sigma)

    @property
    def accountant(self) -> GaussianObjective:
        """What the theorem speaks of."""
        return GaussianObjective(
            ridge=self.ridge, cap=self.cap, n_classes=self.n_classes, neighbours=self.neighbours
        )

    @property
    def law(self) -> GaussianNoise:
        """The law of the linear term."""
        return GaussianNoise(self.sigma)

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

    def noise_facts(self) -> dict[str, Any]:
        """Return all that an accountant needs to compose this release with others."""
        return {
            "sigma": self.sigma,
            "cap": self.cap,
            "n_classes": self.n_classes,
            "output_epsilon": self.epsilon * SOLVER_SHARE,
        }
