"""A stack over groups of features (PST-F, PST-H), planned from public facts.

Proof: docs/proofs/feature_groups.md; towards released stacks: docs/proofs/transfer.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import special
from typing_extensions import override

from confrere.arrays import Floats
from confrere.errors import InvalidData
from confrere.kernel.accountants import Exposure, gaussian_rate, gaussian_sigmas
from confrere.kernel.guarantee import Apart, Guarantee
from confrere.kernel.norms import L2, Norm
from confrere.maths.partition import high_share
from confrere.mechanisms.measurements import Act, Columns, Objective
from confrere.methods.design import SOLVER, Allowance, Alpha, Alphas, Near, group_ridges, ridge_for
from confrere.methods.linear import Source
from confrere.methods.plan import LabelledTable, Term
from confrere.methods.shaped_groups import PlannedGroups, SchemaGroups
from confrere.methods.stack import (
    Combiner,
    Division,
    HighStart,
    StackPlan,
    check_stack_classes,
    class_coefficients,
    high_level_mechanism,
    high_level_prior,
)
from confrere.model import Clip, Facts, LowLevelModel, StackFacts
from confrere.model.models import UNIT_ROWS
from confrere.rows.body import GroupBodies, GroupRows

#: Coefficients and intercept of every group: a public point to shrink towards.
Centres = Sequence[tuple[Floats, float | Floats]]


@dataclass(frozen=True, kw_only=True, eq=False)
class FeatureStackPlan(StackPlan):
    """One perturbed objective per group of features, all on the same rows.

    Attributes
    ----------
    rows : GroupRows or GroupBodies
        The map from rows to bounded group rows.
    importances : array
        Share of importance of every group in use.
    low : Objective
        All groups' noise, ridges and price.
    centres : list of array
        The public points that groups shrink towards: the baseline's, or a source's.
    sources : tuple
        Released stacks that ``centres`` were made from.
    """

    rows: GroupRows | GroupBodies
    importances: Floats
    low: Objective
    centres: list[Floats]
    sources: tuple[Any, ...] = ()
    theorem: str = "docs/proofs/feature_groups.md"

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
        if self.n_classes > 2:
            return [np.zeros((self.n_classes, size)) for size in self.rows.sizes]
        return [self.rows.baseline(self.baseline, k) for k in range(len(self.rows.groups))]

    @property
    def high_weights(self) -> Sequence[float]:
        """The sum of the groups: the naive Bayes rule."""
        return [1.0] * len(self.rows.groups)

    @override
    def event(self) -> Apart:
        return self.apart([self.low])

    def facts(self) -> Facts:
        """Return the public facts that a release of this stack carries."""
        return Facts(
            n_samples=sum(self.division.records),
            body=self._body,
            stack=StackFacts(
                norms=tuple(map(float, self.rows.norms)),
                rows=self.rows.rule,
                clipping=self.rows.clipping,
                constant=float(self.rows.constant),
                n_low=self.division.records[0],
                baseline=float(self.baseline),
                ridges=self.ridges,
                rates=self.rates,
            ),
        )

    @property
    def _body(self) -> tuple[int, ...] | None:
        """Columns of every factor of the groups' bodies, without the constants."""
        return tuple(size for body in self.rows.bodies for size in body.sizes[:-1]) or None

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
        """Epsilon of every group's own release, for rows in the unit ball."""
        return list(self.low.shares)

    @property
    def ridges(self) -> tuple[float, ...]:
        """Every group's ridge."""
        return tuple(float(block.ridge) for block in self.low.blocks)

    @property
    def rates(self) -> tuple[float, ...]:
        """Rate of every group's noise norm; of Gaussian noise, one over its deviation."""
        return tuple(float(act.law.rate) for act in self.low.acts)

    def low_minimisers(self) -> Sequence[Act]:
        """Return every group's act."""
        return self.low.acts

    def low_terms(self, data: LabelledTable, parts: Sequence[NDArray[np.intp]]) -> list[Term]:
        """Return the groups' objectives."""
        used = parts[0]
        rows = self.rows(data.X[used])
        return [Term("groups", self.low, (rows, data.labels[used]), {"centres": self.centres})]

    def model(self, k: int, weights: Floats, sharpness: float) -> LowLevelModel:
        """Return a group's model of rows as given."""
        coef, intercept = class_coefficients(lambda w: self.rows.coefficients(w, k), weights)
        return LowLevelModel(
            name=self.names[k],
            features=self.rows.groups[k],
            coef=coef,
            intercept=intercept,
            importance=float(self.importances[k]),
            epsilon=self.epsilon_shares[k],
            noise=self.low.acts[k].law.mean_length,
            baseline=self.baseline,
            sharpness=sharpness,
        )

    def scores(self, models: Sequence[LowLevelModel], X: Floats) -> Floats:
        """Return the models' scores, models last."""
        parts = self.rows.parts(X)
        found = [model.score(part) for part, model in zip(parts, models, strict=True)]
        return np.stack(found, axis=-1)


def plan_feature_stack(
    allowed: Allowance,
    groups: PlannedGroups,
    importances: Floats,
    weights: Floats,
    *,
    combiner: Combiner,
    high_fraction: float | Literal["auto"],
    alpha: Alphas,
    high_alpha: Alpha,
    split_seed: int | None,
    baseline: float = 0.0,
    centres: Centres | None = None,
    variance: float | None = None,
    high_start: HighStart | None = None,
    sources: tuple[Source, ...] = (),
) -> FeatureStackPlan:
    """Return the plan of a stack; votes and a single group have no high level.

    ``centres`` are points to shrink towards in place of the baseline, and ``variance`` that of the
    log odds around them: ridges then follow from it. The automatic ridge of a body is its own.
    ``high_start`` is another organisation's high level. ``alpha`` may be one per group.
    """
    n_classes = allowed.loss.n_classes
    check_stack_classes(n_classes, baseline)
    stacked = combiner == "stack" and len(groups.groups) > 1
    share = high_share(high_fraction, allowed.records, n_classes) if stacked else 0.0
    division = Division(allowed.count, (1 - share, share), split_seed)
    if min(division.records[: 1 + stacked]) == 0:
        raise InvalidData("n_samples is too small: each of both levels needs one sample.")
    own = allowed.on(division.counts[0])
    rows: GroupRows | GroupBodies
    if isinstance(groups, SchemaGroups):
        rows = groups.at(own, weights.tolist(), variance=variance)
    else:
        rows = groups
    sizes = rows.sizes
    bases = [rows.baseline(baseline, k) for k in range(len(sizes))]
    if n_classes > 2:
        bases = [np.zeros((n_classes, size)) for size in sizes]
    points = bases
    if centres is not None:
        points = [_weights(rows, k, *centre) for k, centre in enumerate(centres)]
    joined = rows.clipping == "joint"
    rate = float(special.expit(baseline)) if n_classes == 2 else 1 / n_classes
    near = None if variance is None else Near(variance=variance, base_rate=rate)
    shares = tuple(float(q) for q in weights)

    def ridge(k: int, chosen: Alpha) -> float:
        if isinstance(rows, GroupBodies) and chosen == "auto":
            return rows.frames[k].ridge
        # A group with weight q is a private regression at budget q epsilon; under joint clipping
        # its rows are shorter, by the square root of its part of the columns.
        return ridge_for(
            own,
            sizes[k],
            chosen,
            near=near,
            share=shares[k],
            spread=sum(sizes) if joined else None,
            noise=_gaussian_noise(own, shares, joined, k) if own.delta else None,
        )

    norms: Sequence[Norm] = rows.bodies or [L2(size) for size in sizes]
    low = Objective(
        epsilon=own.epsilon,
        delta=own.delta,
        n_samples=own.count,
        blocks=tuple(
            Columns(norms[k], ridge(k, chosen), shares[k])
            for k, chosen in enumerate(group_ridges(alpha, len(sizes)))
        ),
        loss=own.loss,
        joint=joined,
        neighbours=own.relation,
        prior_norm=max(float(np.linalg.norm(point)) for point in [*bases, *points]),
        solver=SOLVER,
    )
    high = None
    if stacked:
        prior, known = high_level_prior(np.ones(len(sizes)), baseline, n_classes), None
        if high_start is not None:
            prior = high_start.weights
            known = Near(variance=high_start.variance, base_rate=rate if n_classes == 2 else 0.5)
        high = high_level_mechanism(allowed.on(division.counts[1]), high_alpha, prior, known)
    return FeatureStackPlan(
        combiner=combiner,
        rows=rows,
        importances=importances,
        low=low,
        centres=points,
        sources=sources,
        high=high,
        division=division,
        baseline=baseline,
        high_start=high_start,
        n_classes=n_classes,
    )


def _gaussian_noise(allowed: Allowance, shares: tuple[float, ...], joint: bool, k: int) -> float:
    """Return the variance of a group's Gaussian noise, without what the Jacobian costs."""
    free = Exposure(
        loss=allowed.loss,
        ridges=(math.inf,) * len(shares),
        weights=shares,
        joint=joint,
        neighbours=allowed.relation,
    )
    return gaussian_sigmas(gaussian_rate(allowed.budget, allowed.delta, free), free)[k] ** 2


def _weights(
    rows: GroupRows | GroupBodies, k: int, coef: Floats, intercept: float | Floats
) -> Floats:
    """Return a group's coefficients in its coordinates, of several classes one row each."""
    if np.ndim(coef) == 1:
        return rows.weights(coef, float(intercept), k)
    pairs = zip(coef, np.asarray(intercept), strict=True)
    return np.array([rows.weights(each, float(one), k) for each, one in pairs])
