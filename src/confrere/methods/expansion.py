"""Coefficients of the expanded loss, released by every party and summed (OFAA).

Proof: docs/proofs/functional_mechanism.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from typing_extensions import override

from confrere.arrays import Floats
from confrere.kernel.guarantee import Guarantee, Split
from confrere.kernel.streams import RandomSource
from confrere.maths.prior_ridge import free_ridge
from confrere.mechanisms.functional import LINEAR_SHARE, FunctionalMechanism, unpack
from confrere.mechanisms.measurements import RowCount
from confrere.methods.party_rows import PartyRows, Sizes, over_parties
from confrere.methods.plan import Term
from confrere.methods.together import Collaboration, Combined
from confrere.rows.body import BodyFrame


@dataclass(frozen=True, kw_only=True, eq=False)
class Expansion(Collaboration):
    """Every party releases the coefficients of its expanded loss once; their sum is minimised.

    Parameters
    ----------
    frame, epsilon, delta, n_classes, prior, belief
        As for :class:`~confrere.methods.together.Collaboration`.
    alpha : float or "auto", default="auto"
        Ridge per record of all parties; ``"auto"`` is the larger of the public rule and the
        typical size of the noise in the curvature.
    linear_share : float, default=0.7
        Share of epsilon for the linear coefficients.
    """

    linear_share: float = LINEAR_SHARE

    def mechanism(self, n_samples: RowCount) -> FunctionalMechanism:
        """Return the mechanism of a party of that size."""
        return FunctionalMechanism(
            epsilon=self.epsilon,
            n_samples=n_samples,
            n_features=self.space.size,
            linear_share=self.linear_share,
            n_classes=self.n_classes,
            delta=self.delta,
        )

    @override
    def guarantee(self, sizes: Sizes) -> Guarantee:
        made = self.at(sizes)
        prices = [made.mechanism(count).guarantee() for count in sizes.distinct]
        return over_parties(prices, len(sizes.counts))

    def ridge(self, sizes: Sizes) -> float:
        """Return the public ridge."""
        frame, size = self.space, self.space.size
        if self.alpha != "auto":
            return sizes.total * float(self.alpha)
        budget = self.epsilon * self.linear_share
        rule = max(free_ridge(budget), size**3 / (sizes.total * budget**2))
        if isinstance(frame, BodyFrame):
            rule = frame.ridge
        mechanism = self.mechanism(sizes.count(max(sizes.counts.values())))
        # Coordinates of M are entries times sqrt(2); a symmetric matrix of entries sigma has norm
        # 2 sigma sqrt(d), and the curvature is 2M.
        entry = mechanism.noises[1].deviation / math.sqrt(2)
        return max(4 * entry * math.sqrt(size * len(sizes.counts)), rule)

    def combine(self, linear: Floats, packed: Floats, sizes: Sizes) -> Floats:
        """Return the minimiser of the sum of all parties' coefficients: post-processing."""
        return minimise_quadratic(
            linear.sum(axis=0),
            unpack(packed.sum(axis=0), self.space.size),
            ridge=self.ridge(sizes),
            prior=self.centre,
        )

    @override
    def run(self, parties: PartyRows, sizes: Sizes, source: RandomSource) -> Combined:
        made = self.at(sizes)
        own = source.stream("coefficients", 0).apart(Split.BY_ORGANISATION)
        released = [
            term.mechanism.run(*term.data, source=next(own)) for term in made.terms(parties, sizes)
        ]
        linear, packed = (np.stack(each) for each in zip(*released, strict=True))
        return Combined(made.space, made.combine(linear, packed, sizes))

    @override
    def terms(self, parties: PartyRows, sizes: Sizes) -> list[Term]:
        made = self.at(sizes)
        return [
            Term(name, made.mechanism(sizes.count(len(y))), (made.space.rows(X), y))
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
