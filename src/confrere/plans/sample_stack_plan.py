"""A stack over parts of the rows (PST-S), planned from public facts.

Proof: docs/proofs/sample_stacking.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from confrere.arrays import Floats
from confrere.errors import InvalidData
from confrere.kernel.guarantee import Guarantee, Neighbours, Split
from confrere.kernel.streams import RandomSource
from confrere.maths.partition import high_share, split_rows
from confrere.mechanisms.noisy_minimiser import NoisyMinimiser
from confrere.mechanisms.objective_perturbation import PerturbedObjective
from confrere.model import Facts, LowLevelModel
from confrere.plans.base_plan import LabelledTable, Term
from confrere.plans.linear_plan import (
    Loss,
    ball_objective,
    levels_noted,
    slope_of,
)
from confrere.plans.ridges import Alpha, class_floor, gaussian_ridge, noise_budget, summed_ridge
from confrere.plans.stack_plan import (
    StackPlan,
    check_stack_classes,
    class_coefficients,
    high_level_mechanism,
    high_level_prior,
)
from confrere.rows.frame import Frame

THEOREM = "docs/proofs/sample_stacking.md"


@dataclass(frozen=True, kw_only=True, eq=False)
class SampleStackPlan(StackPlan):
    """One perturbed objective per part of the rows, each at the whole price.

    Attributes
    ----------
    frame : Frame
        The public coordinates of all parts.
    low : tuple of PerturbedObjective
        One per part.
    """

    frame: Frame
    low: tuple[PerturbedObjective, ...]
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

    def detail(self) -> dict[str, Any]:
        """Return what the ledger notes about the parts."""
        mechanisms = [*self.low, *([] if self.high is None else [self.high])]
        noted: dict[str, Any] = {
            "parts": [
                {"part": f"part {k}", "rows": m.n_samples, "epsilon": m.epsilon, "rate": m.law.rate}
                for k, m in enumerate(mechanisms)
            ]
        }
        if self.guarantee().delta:
            noted["levels"] = levels_noted(mechanisms)
        return noted

    def facts(self) -> Facts:
        """Return the public facts that a release of this stack carries."""
        rows = sum(len(part) for part in self.parts)
        return Facts(n_samples=rows)

    def low_minimisers(self) -> Sequence[NoisyMinimiser]:
        """Return every part's act."""
        return [mechanism.minimiser for mechanism in self.low]

    def run_low(self, data: LabelledTable, parts: Iterator[RandomSource]) -> list[Floats]:
        """Return every part's released weights."""
        return [
            term.mechanism.run(*term.data, source=next(parts), **term.settings)
            for term in self.terms(data)
        ]

    def terms(self, data: LabelledTable) -> list[Term]:
        """Return every part's objective; see :meth:`later_mechanisms` for the high level."""
        rows, labels = self.frame.rows(data.X), data.labels
        centre = self.baselines[0]
        return [
            Term(f"part {k}", mechanism, (rows[part], labels[part]), {"centre": centre})
            for k, (part, mechanism) in enumerate(zip(self.parts, self.low, strict=False))
        ]

    def model(self, k: int, weights: Floats, sharpness: float) -> LowLevelModel:
        """Return a part's model of rows as given."""
        coef, intercept = class_coefficients(self.frame.coefficients, weights)
        mechanism = self.low[k]
        return LowLevelModel(
            name=f"part {k} ({mechanism.n_samples} rows)",
            features=np.arange(self.frame.n_features),
            coef=coef,
            intercept=intercept,
            importance=1 / len(self.low),
            epsilon=mechanism.epsilon,
            noise=mechanism.law.mean_length(mechanism.noise_dimension),
            baseline=self.baseline,
            sharpness=sharpness,
        )

    def scores(self, models: Sequence[LowLevelModel], X: Floats) -> Floats:
        """Return the models' scores, models last."""
        return np.stack([model.score(X) for model in models], axis=-1)


def plan_sample_stack(
    n_samples: int,
    frame: Frame,
    *,
    epsilon: float,
    n_groups: int,
    combiner: Literal["stack", "vote"],
    high_fraction: float | Literal["auto"],
    alpha: Alpha,
    high_alpha: Alpha,
    loss: Loss,
    baseline: float,
    split_seed: int | None,
    delta: float = 0.0,
    n_classes: int = 2,
) -> SampleStackPlan:
    """Return the plan of a stack over ``n_groups`` parts of the rows."""
    check_stack_classes(n_classes, baseline)
    stacked = combiner == "stack" and n_groups > 1
    share = high_share(high_fraction, n_samples, n_classes) if stacked else 0.0
    fractions = [(1 - share) / n_groups] * n_groups + [share] * stacked
    parts = split_rows(n_samples, fractions, seed=split_seed)
    if any(len(part) == 0 for part in parts):
        raise InvalidData("n_samples is too small: every part needs one sample; lower n_groups.")
    centre = frame.weights(None, baseline)
    budget, cap = noise_budget(epsilon), slope_of(loss, n_classes)
    floor = class_floor(n_classes) if alpha == "auto" else 2.0

    def ridge(n_rows: int) -> float:
        if alpha == "auto" and delta:
            return gaussian_ridge(
                budget,
                delta,
                n_rows,
                frame.size,
                cap=cap,
                n_classes=n_classes,
                neighbours=Neighbours.REPLACE_ONE,
                floor=2.0,
            )
        return summed_ridge(alpha, budget, n_rows, frame.size, cap=cap, floor=floor)

    low = tuple(
        ball_objective(
            delta,
            epsilon=epsilon,
            n_samples=len(part),
            n_features=frame.size,
            ridge=ridge(len(part)),
            n_classes=n_classes,
            cap=cap,
            prior_norm=float(np.linalg.norm(centre)),
        )
        for part in parts[:n_groups]
    )
    high = None
    if stacked:
        prior = high_level_prior([1 / n_groups] * n_groups, baseline, n_classes)
        slope = slope_of(loss)
        high = high_level_mechanism(epsilon, len(parts[-1]), high_alpha, prior, slope, delta=delta)
    return SampleStackPlan(
        frame=frame,
        low=low,
        combiner=combiner,
        high=high,
        parts=tuple(parts),
        split=Split.BY_INDEX if split_seed is None else Split.SEEDED_PERMUTATION,
        baseline=float(baseline),
        n_classes=n_classes,
    )
