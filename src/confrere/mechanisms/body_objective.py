"""Objective perturbation with noise shaped like the rows: a schema's body in place of a ball.

Proof: docs/proofs/geometry.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from confrere.errors import InvalidParameter
from confrere.kernel.guarantee import ASSUMPTIONS, Guarantee, public_facts
from confrere.maths.calibration import RidgeTerm, calibrate
from confrere.mechanisms.laws import BodyNoise
from confrere.mechanisms.objective_perturbation import PerturbedObjective
from confrere.rows.body import Body

THEOREM = "docs/proofs/geometry.md"


@dataclass(frozen=True, kw_only=True)
class BodyObjectivePerturbation(PerturbedObjective):
    """Noise of density ``exp(-rho ||b||)`` in the gauge of a body that the schema declares.

    Rows are in the body's coordinates, in which the block ridge of the schema's columns is
    ``ridge`` times the unit matrix and no row is longer than one: the accountant is that of the
    ball, whose noise is longer.

    Parameters
    ----------
    body : Body
        Of the rows.
    """

    body: Body
    rho: float = field(init=False)

    def _calibrate(self, budget: float) -> None:
        if self.n_classes > 2:
            raise InvalidParameter("noise='schema' is for two classes; use noise='ball'.")
        if self.body.size != self.n_features:
            raise InvalidParameter("the body must have as many columns as the rows.")
        term = RidgeTerm(ridge=self.ridge, cap=self.cap)
        object.__setattr__(self, "rho", calibrate(budget, [term], self.neighbours))

    @property
    def law(self) -> BodyNoise:
        """The law of the linear term."""
        return BodyNoise(self.rho, self.body)

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
        """Return the rate of the noise and the shares of the groups of columns."""
        return {"rho": self.rho, "noise_shares": list(self.body.shares)}
