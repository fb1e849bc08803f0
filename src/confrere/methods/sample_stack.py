"""A stack over parts of the rows (PST-S), planned from public facts.

Proof: docs/proofs/sample_stacking.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from confrere.arrays import Floats
from confrere.errors import InvalidData
from confrere.kernel.guarantee import Apart, Guarantee
from confrere.maths.geometry import LOG_ODDS
from confrere.maths.partition import high_share
from confrere.mechanisms.measurements import Act, Objective, declared_count
from confrere.mechanisms.prior_check import UNCHECKED, Belief
from confrere.methods.design import Allowance, Alpha, ridge_for
from confrere.methods.linear import Coordinates, Geometry
from confrere.methods.plan import LabelledTable, Term
from confrere.methods.priors import Prior
from confrere.methods.stack import (
    Division,
    StackPlan,
    check_stack_classes,
    class_coefficients,
    high_level_mechanism,
    high_level_prior,
)
from confrere.model import Facts, LowLevelModel
from confrere.rows.body import BodyFrame

THEOREM = "docs/proofs/sample_stacking.md"


@dataclass(frozen=True, kw_only=True, eq=False)
class SampleStackPlan(StackPlan):
    """One perturbed objective per part of the rows, each at the whole price.

    Attributes
    ----------
    frame : Frame or BodyFrame
        The public coordinates of all parts.
    low : tuple of Objective
        One per part.
    centre : array
        The public point that every part shrinks towards.
    """

    frame: Coordinates
    low: tuple[Objective, ...]
    centre: Floats
    theorem: str = THEOREM

    @property
    def low_guarantees(self) -> list[Guarantee]:
        """Every part's price."""
        return [mechanism.guarantee() for mechanism in self.low]

    @property
    def baselines(self) -> list[Floats]:
        """The point that every part shrinks towards."""
        if self.n_classes > 2:
            return [np.zeros((self.n_classes, self.frame.size))] * len(self.low)
        return [self.frame.weights(None, self.baseline)] * len(self.low)

    @property
    def high_weights(self) -> Sequence[float]:
        """The average of the parts."""
        return [1 / len(self.low)] * len(self.low)

    @override
    def event(self) -> Apart:
        return self.apart(self.low)

    def facts(self) -> Facts:
        """Return the public facts that a release of this stack carries."""
        return Facts(n_samples=sum(self.division.records))

    def low_minimisers(self) -> Sequence[Act]:
        """Return every part's act."""
        return [mechanism.act for mechanism in self.low]

    def low_terms(self, data: LabelledTable, parts: Sequence[NDArray[np.intp]]) -> list[Term]:
        """Return every part's objective."""
        rows, labels, centre = self.frame.rows(data.X), data.labels, self.centre
        return [
            Term(f"part {k}", mechanism, ([rows[part]], labels[part]), {"centres": [centre]})
            for k, (part, mechanism) in enumerate(zip(parts, self.low, strict=False))
        ]

    def model(self, k: int, weights: Floats, sharpness: float) -> LowLevelModel:
        """Return a part's model of rows as given."""
        coef, intercept = class_coefficients(self.frame.coefficients, weights)
        mechanism = self.low[k]
        return LowLevelModel(
            name=f"part {k} ({declared_count(mechanism.n_samples)} rows)",
            features=np.arange(self.frame.n_features),
            coef=coef,
            intercept=intercept,
            importance=1 / len(self.low),
            epsilon=mechanism.epsilon,
            noise=mechanism.act.law.mean_length,
            baseline=self.baseline,
            sharpness=sharpness,
        )

    def scores(self, models: Sequence[LowLevelModel], X: Floats) -> Floats:
        """Return the models' scores, models last."""
        return np.stack([model.score(X) for model in models], axis=-1)


def plan_sample_stack(
    allowed: Allowance,
    geometry: Geometry,
    prior: Prior | None = None,
    belief: Belief = UNCHECKED,
    *,
    n_groups: int,
    combiner: Literal["stack", "vote"],
    high_fraction: float | Literal["auto"],
    alpha: Alpha,
    high_alpha: Alpha,
    baseline: float,
    split_seed: int | None,
) -> SampleStackPlan:
    """Return the plan of a stack over ``n_groups`` parts of the rows."""
    n_classes = allowed.loss.n_classes
    check_stack_classes(n_classes, baseline)
    stacked = combiner == "stack" and n_groups > 1
    share = high_share(high_fraction, allowed.records, n_classes) if stacked else 0.0
    fractions = [(1 - share) / n_groups] * n_groups + [share] * stacked
    division = Division(allowed.count, tuple(fractions), split_seed)
    if min(division.records) == 0:
        raise InvalidData("n_samples is too small: every part needs one sample; lower n_groups.")
    # The law is chosen before a check has shown anything; coordinates may follow from that.
    known = LOG_ODDS if prior is None else prior.variance
    part = geometry.law(allowed.on(division.counts[0]), known)
    variance = known if prior is None else prior.variance_at(belief)
    frame: Coordinates = geometry.frame(part, variance)
    centre, near = frame.weights(None, baseline), None
    if n_classes > 2:
        centre = np.zeros((n_classes, frame.size))
    if prior is not None:
        centre, near = prior.point(frame, belief), prior.near(belief)
    low = []
    for count in division.counts[:n_groups]:
        own = part.on(count)
        ridge = ridge_for(own, frame.size, alpha, near=near)
        if alpha == "auto" and isinstance(frame, BodyFrame):
            ridge = frame.ridge
        low.append(own.objective(frame.bound, ridge, centre))
    high = None
    if stacked:
        start = high_level_prior([1 / n_groups] * n_groups, baseline, n_classes)
        high = high_level_mechanism(part.on(division.counts[-1]), high_alpha, start)
    return SampleStackPlan(
        frame=frame,
        low=tuple(low),
        centre=centre,
        combiner=combiner,
        high=high,
        division=division,
        baseline=float(baseline),
        n_classes=n_classes,
    )
