"""Coefficients of the expanded loss, released by every party and summed (OFAA).

Proof: docs/proofs/functional_mechanism.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from typing_extensions import override

from confrere.arrays import Floats
from confrere.data.body import BodyFrame
from confrere.kernel.guarantee import Guarantee
from confrere.kernel.streams import RandomSource
from confrere.mechanisms.functional import LINEAR_SHARE, FunctionalMechanism, unpack
from confrere.methods.allowance import free_ridge
from confrere.methods.asking import (
    Arrays,
    Ask,
    AskedOfRows,
    Labels,
    PartyRows,
    Protocol,
    Reader,
    Rows,
    Sizes,
    known_sizes,
    over_parties,
    relation,
)
from confrere.methods.average import Collaboration, Combined
from confrere.methods.linear import Coordinates
from confrere.methods.plan import Term


@dataclass(frozen=True, kw_only=True, eq=False)
class ExpandedLoss(AskedOfRows):
    """Coefficients of a party's expanded loss."""

    operation: ClassVar[str] = "coefficients"
    stream: ClassVar[str] = "coefficients"

    frame: Coordinates
    epsilon: float
    linear_share: float = LINEAR_SHARE
    delta: float = 0.0

    def mechanism(self, n_samples: int) -> FunctionalMechanism:
        """Return what a party of that size runs."""
        return FunctionalMechanism(
            epsilon=self.epsilon,
            n_samples=self.count(n_samples),
            n_features=self.frame.size,
            linear_share=self.linear_share,
            n_classes=self.n_classes,
            delta=self.delta,
        )

    @override
    def release(self, X: Rows, y: Labels, source: RandomSource, engine: Reader = None) -> Arrays:
        rows: Rows = self.frame.rows(X)
        made = self.mechanism(len(y))
        both = made.both(made.sample(rows, y, source=source)[0])
        return dict(zip(("linear", "quadratic"), both, strict=True))


@dataclass(frozen=True, kw_only=True, eq=False)
class Expansion(Collaboration):
    """Every party releases the coefficients of its expanded loss once; their sum is minimised.

    The automatic ``alpha`` is the larger of the public rule and the typical size of the noise in
    the curvature.
    """

    linear_share: float = LINEAR_SHARE  #: Of epsilon, for the linear coefficients

    def request(self, sizes: Sizes) -> ExpandedLoss:
        """Return what parties of these sizes are asked, once coordinates are made for them."""
        return ExpandedLoss(
            frame=self.space,
            epsilon=self.epsilon,
            linear_share=self.linear_share,
            delta=self.delta,
            n_classes=self.n_classes,
            **relation(sizes),
        )

    @override
    def guarantee(self, sizes: Sizes) -> Guarantee:
        asked = self.at(sizes).request(sizes)
        prices = [asked.mechanism(n).guarantee() for n in sorted(set(sizes.counts.values()))]
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
        mechanism = self.request(sizes).mechanism(max(sizes.counts.values()))
        # Coordinates of M are entries times sqrt(2); a symmetric matrix of entries sigma has norm
        # 2 sigma sqrt(d), and the curvature is 2M.
        entry = mechanism.noise.deviations[1] / math.sqrt(2)
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
    def steps(self, sizes: Sizes | Sequence[str]) -> Protocol[Combined]:
        sizes = yield from known_sizes(sizes, self.delta)
        made = self.at(sizes)
        told = yield Ask(made.request(sizes), sizes.counts)
        there = {name: sizes.counts[name] for name in told.names}
        weights = made.combine(told.arrays["linear"], told.arrays["quadratic"], sizes)
        return Combined(made.space, weights, there)

    @override
    def terms(self, parties: PartyRows, sizes: Sizes) -> list[Term]:
        asked = self.at(sizes).request(sizes)
        return [
            Term(name, asked.mechanism(len(y)), (asked.frame.rows(X), y))
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
