"""A stack over groups of features (PST-F, PST-H), planned from public facts.

Proof: docs/proofs/feature_groups.md; towards released stacks: docs/proofs/transfer.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from confrere.errors import InvalidData
from confrere.guarantee import Guarantee, Split
from confrere.maths.partition import split_rows
from confrere.maths.prior_ridge import (
    informed_ridge,
    mean_curvature,
    noise_variance,
    with_floor,
)
from confrere.mechanisms.feature_groups import THEOREM, FeatureGroupPerturbation
from confrere.mechanisms.noisy_minimiser import NoisyMinimiser
from confrere.mechanisms.objective_perturbation import Calibration
from confrere.model import Clip, Facts, LowLevelModel, StackFacts
from confrere.model.scoring import UNIT_ROWS
from confrere.noise.sources import RandomSource
from confrere.plans.base_plan import Floats, LabelledTable, Term
from confrere.plans.linear_plan import (
    Alpha,
    Loss,
    Source,
    noise_budget,
    slope_of,
    sources_noted,
    summed_ridge,
)
from confrere.plans.ridges import Alphas, group_ridges
from confrere.plans.stack_plan import (
    Combiner,
    HighStart,
    StackPlan,
    high_level_mechanism,
    high_level_prior,
)
from confrere.rows.groups import GroupRows


@dataclass(frozen=True, kw_only=True, eq=False)
class FeatureStackPlan(StackPlan):
    """One perturbed objective per group of features, all on the same rows.

    Attributes
    ----------
    rows : GroupRows
        The map from rows to bounded group rows.
    importances : array
        Share of importance of every group in use.
    low : FeatureGroupPerturbation
        All groups' noise, ridges and price.
    centres : list of array
        The public points that groups shrink towards: the baseline's, or a source's.
    sources : tuple
        Released stacks that ``centres`` were made from.
    """

    rows: GroupRows
    importances: Floats
    low: FeatureGroupPerturbation
    centres: list[Floats]
    sources: tuple[Any, ...] = ()
    theorem: str = THEOREM

    @property
    def low_guarantees(self) -> list[Guarantee]:
        """The price of all groups together."""
        return [self.low.guarantee()]

    def guarantee(self) -> Guarantee:
        """Return the price of the whole stack: disjoint parts, so the larger of the two."""
        return self.low.guarantee() if self.high is None else super().guarantee()

    @property
    def baselines(self) -> list[Floats]:
        """Weights of every group that score every row the baseline."""
        return [self.rows.baseline(self.baseline, k) for k in range(len(self.rows.groups))]

    @property
    def high_weights(self) -> Sequence[float]:
        """The sum of the groups: the naive Bayes rule."""
        return [1.0] * len(self.rows.groups)

    def detail(self) -> dict[str, Any]:
        """Return what the ledger notes about the parts."""
        parts: list[dict[str, Any]] = [
            {"part": name, "epsilon_share": share, "rate": rate, "ridge": ridge}
            for name, share, rate, ridge in zip(
                self.names, self.epsilon_shares, self.low.rates, self.low.ridges, strict=True
            )
        ]
        if self.high is not None:
            high = self.high
            parts.append(
                {
                    "part": "high level",
                    "epsilon_share": high.epsilon,
                    "rate": high.rho,
                    "ridge": high.ridge,
                }
            )
        noted = {"parts": parts, "rows_low": len(self.parts[0]), "rows_high": len(self.parts[1])}
        return noted | sources_noted(self.sources)

    def facts(self) -> Facts:
        """Return the public facts that a release of this stack carries."""
        return Facts(
            n_samples=sum(len(part) for part in self.parts),
            stack=StackFacts(
                norms=tuple(map(float, self.rows.norms)),
                rows=self.rows.rule,
                clipping=self.rows.clipping,
                constant=float(self.rows.constant),
                n_low=len(self.parts[0]),
                baseline=float(self.baseline),
                ridges=tuple(map(float, self.low.ridges)),
                rates=tuple(map(float, self.low.rates)),
            ),
        )

    @property
    def clips(self) -> tuple[Clip | None, Clip | None]:
        """Whether whole rows, or every group's columns, are brought to length one."""
        unit = Clip(bound=UNIT_ROWS) if self.rows.rule == "unit" else None
        return (unit, None) if self.rows.clipping == "joint" else (None, unit)

    @property
    def names(self) -> list[str]:
        """Names of the groups in use."""
        return [f"group {k}" for k in range(len(self.rows.groups))]

    @property
    def epsilon_shares(self) -> list[float]:
        """Epsilon of every group's own release: ``2 rate`` for rows in the unit ball."""
        return [2 * self.low.cap * rate for rate in self.low.rates]

    def low_minimisers(self) -> Sequence[NoisyMinimiser]:
        """Return every group's act."""
        return self.low.minimisers

    def run_low(self, data: LabelledTable, source: RandomSource) -> list[Floats]:
        """Return every group's released weights."""
        (term,) = self.terms(data)
        return self.low.run(*term.data, source=source, **term.settings)

    def terms(self, data: LabelledTable) -> list[Term]:
        """Return the groups' objectives; see :meth:`later_mechanisms` for the high level."""
        used = self.parts[0]
        rows = self.rows(data.X[used])
        return [Term("groups", self.low, (rows, data.signs[used]), {"centres": self.centres})]

    def model(self, k: int, weights: Floats, sharpness: float) -> LowLevelModel:
        """Return a group's model of rows as given."""
        coef, intercept = self.rows.coefficients(weights, k)
        return LowLevelModel(
            name=self.names[k],
            features=self.rows.groups[k],
            coef=coef,
            intercept=intercept,
            importance=float(self.importances[k]),
            epsilon=self.epsilon_shares[k],
            noise=self.low.sizes[k] / self.low.rates[k],
            baseline=self.baseline,
            sharpness=sharpness,
        )

    def scores(self, models: Sequence[LowLevelModel], X: Floats) -> Floats:
        """Return the models' scores, one column each."""
        parts = self.rows.parts(X)
        return np.column_stack(
            [model.score(part) for part, model in zip(parts, models, strict=True)]
        )


def plan_feature_stack(
    n_samples: int,
    rows: GroupRows,
    importances: Floats,
    weights: Floats,
    *,
    epsilon: float,
    combiner: Combiner,
    high_fraction: float,
    alpha: Alphas,
    high_alpha: Alpha,
    calibration: Calibration,
    loss: Loss,
    split_seed: int | None,
    baseline: float = 0.0,
    centres: list[Floats] | None = None,
    variance: float | None = None,
    high_start: HighStart | None = None,
    sources: tuple[Source, ...] = (),
) -> FeatureStackPlan:
    """Return the plan of a stack; votes and a single group have no high level.

    ``centres`` are points to shrink towards in place of the baseline, and ``variance`` that of the
    log odds around them: ridges then follow from it. ``high_start`` is another organisation's high
    level. ``alpha`` may be one per group.
    """
    stacked = combiner == "stack" and len(rows.groups) > 1
    share = high_fraction if stacked else 0.0
    low_rows, high_rows = split_rows(n_samples, [1 - share, share], seed=split_seed)
    if not len(low_rows) or (stacked and not len(high_rows)):
        raise InvalidData(f"n_samples = {n_samples} is too few for both levels.")
    sizes = tuple(len(group) + 1 for group in rows.groups)
    bases = [rows.baseline(baseline, k) for k in range(len(sizes))]
    points = bases if centres is None else centres
    budget, cap = noise_budget(epsilon), slope_of(loss)
    rate = float(special.expit(baseline))

    def ridge(size: int, weight: float, own: Alpha) -> float:
        if variance is not None and own == "auto":
            known = informed_ridge(
                len(low_rows),
                sum(sizes) if rows.clipping == "joint" else size,
                noise=noise_variance(weight * budget, size, cap),
                curvature=mean_curvature(rate),
                variance=variance,
            )
            return with_floor(known, weight * budget)
        # A group with weight q is a private regression at budget q epsilon; under joint clipping
        # its rows are shorter, by the square root of its part of the columns.
        joint = size * sum(sizes) ** 2 if rows.clipping == "joint" else None
        return summed_ridge(own, weight * budget, len(low_rows), size, cap=cap, noise=joint)

    low = FeatureGroupPerturbation(
        epsilon=epsilon,
        n_samples=len(low_rows),
        sizes=sizes,
        ridges=tuple(
            ridge(size, float(q), own)
            for size, q, own in zip(sizes, weights, group_ridges(alpha, len(sizes)), strict=True)
        ),
        weights=tuple(float(q) for q in weights),
        clipping=rows.clipping,
        calibration=calibration,
        cap=cap,
        prior_norm=max(float(np.linalg.norm(point)) for point in [*bases, *points]),
    )
    high = None
    if stacked:
        prior = high_level_prior(np.ones(len(sizes)), baseline)
        known: dict[str, Any] = {}
        if high_start is not None:
            prior = high_start.weights
            known = {"variance": high_start.variance, "base_rate": rate}
        high = high_level_mechanism(epsilon, len(high_rows), high_alpha, prior, cap, **known)
    return FeatureStackPlan(
        combiner=combiner,
        rows=rows,
        importances=importances,
        low=low,
        centres=points,
        sources=sources,
        high=high,
        parts=(low_rows, high_rows),
        split=Split.BY_INDEX if split_seed is None else Split.SEEDED_PERMUTATION,
        baseline=baseline,
        high_start=high_start,
    )
