"""Coefficients of the expanded loss, released by every party and summed (OFAA).

Proof: docs/proofs/functional_mechanism.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from confrere.arrays import Floats
from confrere.kernel.guarantee import Guarantee, Split
from confrere.kernel.streams import RandomSource
from confrere.maths.prior_ridge import free_ridge
from confrere.mechanisms.functional import LINEAR_SHARE, FunctionalMechanism, unpack
from confrere.plans.base_plan import Term
from confrere.plans.design import Alpha
from confrere.plans.party_rows import PartyRows, Sizes, over_parties
from confrere.rows.frame import Frame


@dataclass(frozen=True, kw_only=True, eq=False)
class Expansion:
    """Every party releases the coefficients of its expanded loss once; their sum is minimised.

    Parameters
    ----------
    frame : Frame
        The public coordinates, in L2.
    epsilon : float
        What each party spends.
    alpha : float or "auto", default="auto"
        Ridge per record of all parties; ``"auto"`` is the larger of the public rule and the
        typical size of the noise in the curvature.
    prior : array, optional
        Public weights to shrink towards, in the frame's coordinates.
    linear_share : float, default=0.7
        Share of epsilon for the linear coefficients.
    delta : float, default=0.0
        With one the noise is Gaussian.
    n_classes : int, default=2
        More than two have the softmax loss, and no prior.
    """

    frame: Frame
    epsilon: float
    delta: float = 0.0
    n_classes: int = 2
    alpha: Alpha = "auto"
    prior: Floats | None = None
    linear_share: float = LINEAR_SHARE

    @property
    def rounds(self) -> int:
        """How often parties release."""
        return 1

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the weights."""
        return (self.frame.size,) if self.n_classes == 2 else (self.n_classes, self.frame.size)

    def mechanism(self, n_samples: int) -> FunctionalMechanism:
        """Return the mechanism of a party of that size."""
        return FunctionalMechanism(
            epsilon=self.epsilon,
            n_samples=n_samples,
            n_features=self.frame.size,
            linear_share=self.linear_share,
            n_classes=self.n_classes,
            delta=self.delta,
        )

    def guarantee(self, sizes: Sizes) -> Guarantee:
        """Return what is promised, for parties of these public sizes."""
        prices = [self.mechanism(n).guarantee() for n in sorted(set(sizes.counts.values()))]
        return over_parties(prices, len(sizes.counts))

    def ridge(self, sizes: Sizes) -> float:
        """Return the public ridge."""
        size = self.frame.size
        if self.alpha != "auto":
            return sizes.total * float(self.alpha)
        budget = self.epsilon * self.linear_share
        rule = max(free_ridge(budget), size**3 / (sizes.total * budget**2))
        mechanism = self.mechanism(max(sizes.counts.values()))
        # Coordinates of M are entries times sqrt(2); a symmetric matrix of entries sigma has norm
        # 2 sigma sqrt(d), and the curvature is 2M.
        entry = mechanism.noises[1].deviation / math.sqrt(2)
        return max(4 * entry * math.sqrt(size * len(sizes.counts)), rule)

    def combine(self, linear: Floats, packed: Floats, sizes: Sizes) -> Floats:
        """Return the minimiser of the sum of all parties' coefficients: post-processing."""
        return minimise_quadratic(
            linear.sum(axis=0),
            unpack(packed.sum(axis=0), self.frame.size),
            ridge=self.ridge(sizes),
            prior=self.prior,
        )

    def run(self, parties: PartyRows, sizes: Sizes, source: RandomSource) -> Floats:
        """Return the weights."""
        own = source.stream("coefficients", 0).apart(Split.BY_ORGANISATION)
        released = [
            self.mechanism(len(y)).run(self.frame.rows(X), y, source=next(own))
            for X, y in parties.members()
        ]
        linear, packed = (np.stack(each) for each in zip(*released, strict=True))
        return self.combine(linear, packed, sizes)

    def terms(self, parties: PartyRows, sizes: Sizes) -> list[Term]:
        """Return every party's mechanism and rows."""
        return [
            Term(name, self.mechanism(len(y)), (self.frame.rows(X), y))
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
