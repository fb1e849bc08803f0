"""A stack over feature groups, planned from public facts: what it costs, then what it does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from confrere.errors import InvalidData
from confrere.estimators.stack import (
    HighLevelModel,
    common_sharpness,
    high_level_mechanism,
    high_level_model,
    high_level_prior,
    high_level_rows,
)
from confrere.guarantee import Guarantee, Split, in_parallel
from confrere.maths.calibration import automatic_ridge, free_ridge
from confrere.maths.partition import Clipping, split_rows
from confrere.mechanisms.feature_groups import FeatureGroupPerturbation
from confrere.mechanisms.objective_perturbation import (
    SOLVER_SHARE,
    Calibration,
    ObjectivePerturbation,
)
from confrere.model import Facts, LowLevelModel, StackFacts
from confrere.noise.sources import RandomSource
from confrere.rows.groups import GroupRows

Alpha = float | Literal["auto"]


@dataclass(frozen=True)
class FeatureStackPlan:
    """Everything that is decided before the data are touched.

    Attributes
    ----------
    rows : GroupRows
        The map from rows to bounded group rows.
    importances : array
        Share of importance of every group in use.
    low, high : mechanisms
        ``high`` is None where votes or a single group need no second part.
    parts : pair of int arrays
        Rows of the low and of the high level.
    split : Split
        How the parts were made.
    baseline : float
        Public score of the base rate: what every intercept shrinks towards.
    """

    rows: GroupRows
    importances: NDArray[np.float64]
    low: FeatureGroupPerturbation
    high: ObjectivePerturbation | None
    parts: tuple[NDArray[np.intp], NDArray[np.intp]]
    split: Split
    baseline: float

    def guarantee(self) -> Guarantee:
        """Return the price of the whole stack: disjoint parts, so the larger of the two."""
        low = self.low.guarantee()
        if self.high is None:
            return low
        return in_parallel([low, self.high.guarantee()], split=self.split, theorem=low.theorem)

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
        return {"parts": parts, "rows_low": len(self.parts[0]), "rows_high": len(self.parts[1])}

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
    def names(self) -> list[str]:
        """Names of the groups in use."""
        return [f"group {k}" for k in range(len(self.rows.groups))]

    @property
    def epsilon_shares(self) -> list[float]:
        """Epsilon of every group's own release: ``2 rate`` for rows in the unit ball."""
        return [2 * self.low.cap * rate for rate in self.low.rates]

    def run(
        self,
        X: NDArray[np.float64],
        y: NDArray[np.float64],
        source: RandomSource,
        centres: Sequence[NDArray[np.float64] | None] | None = None,
    ) -> tuple[tuple[LowLevelModel, ...], HighLevelModel | None]:
        """Return the released models of rows ``X`` with labels -1 and +1."""
        low_rows, high_rows = self.parts
        if centres is None:
            centres = [self.rows.baseline(self.baseline, k) for k in range(len(self.rows.groups))]
        weights = self.low.run(self.rows(X[low_rows]), y[low_rows], source=source, centres=centres)
        learned = [w - self.rows.baseline(self.baseline, k) for k, w in enumerate(weights)]
        factor = 1.0 if self.high is None else common_sharpness(learned)
        models = tuple(self._model(w, k, factor) for k, w in enumerate(weights))
        if self.high is None:
            return models, None
        scores = low_scores(models, self.rows, X[high_rows])
        released = self.high.run(
            high_level_rows(scores), y[high_rows], source=source, centre=self._high_prior()
        )
        return models, high_level_model(released)

    def _model(self, weights: NDArray[np.float64], k: int, factor: float) -> LowLevelModel:
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
            sharpness=factor,
        )

    def _high_prior(self) -> NDArray[np.float64]:
        return high_level_prior(np.ones(len(self.rows.groups)), self.baseline)


def low_scores(
    models: Sequence[LowLevelModel], rows: GroupRows, X: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the released models' scores, one column each."""
    return np.column_stack(
        [model.score(part) for part, model in zip(rows.parts(X), models, strict=True)]
    )


def plan_feature_stack(
    n_samples: int,
    rows: GroupRows,
    importances: NDArray[np.float64],
    weights: NDArray[np.float64],
    *,
    epsilon: float,
    high_fraction: float,
    alpha: Alpha,
    high_alpha: Alpha,
    ridge_factor: float = 1.0,
    calibration: Calibration,
    clipping: Clipping,
    cap: float,
    split_seed: int | None,
    baseline: float = 0.0,
    prior_norm: float = 0.0,
) -> FeatureStackPlan:
    """Return the plan of a stack; a ``high_fraction`` of 0 has no high level."""
    low_rows, high_rows = split_rows(n_samples, [1 - high_fraction, high_fraction], seed=split_seed)
    if not len(low_rows) or (high_fraction and not len(high_rows)):
        raise InvalidData(f"n_samples = {n_samples} is too few for both levels.")
    sizes = tuple(len(group) + 1 for group in rows.groups)
    ridges = _low_ridges(
        epsilon * (1 - SOLVER_SHARE),
        len(low_rows),
        sizes,
        weights,
        alpha=alpha,
        clipping=clipping,
        capped=cap < 1,
    )
    low = FeatureGroupPerturbation(
        epsilon=epsilon,
        n_samples=len(low_rows),
        sizes=sizes,
        ridges=tuple(ridge_factor * ridge for ridge in ridges),
        weights=tuple(float(q) for q in weights),
        clipping=clipping,
        calibration=calibration,
        cap=cap,
        prior_norm=max(
            prior_norm,
            *(float(np.linalg.norm(rows.baseline(baseline, k))) for k in range(len(sizes))),
        ),
    )
    high = None
    if high_fraction:
        prior = high_level_prior(np.ones(len(rows.groups)), baseline)
        high = high_level_mechanism(
            epsilon,
            len(high_rows),
            len(rows.groups),
            alpha=high_alpha,
            prior_norm=float(np.linalg.norm(prior)),
        )
    split = Split.BY_INDEX if split_seed is None else Split.SEEDED_PERMUTATION
    return FeatureStackPlan(rows, importances, low, high, (low_rows, high_rows), split, baseline)


def _low_ridges(
    budget: float,
    n_samples: int,
    sizes: Sequence[int],
    weights: NDArray[np.float64],
    *,
    alpha: Alpha,
    clipping: Clipping,
    capped: bool,
) -> list[float]:
    """Return every group's ridge, at least where its Jacobian is free.

    A group with weight ``q`` is a private regression at budget ``q epsilon``; under joint clipping
    its rows are shorter, by the square root of its part of the columns.
    """
    total = sum(sizes)
    ridges = []
    for size, q in zip(sizes, weights, strict=True):
        share = float(q) * budget
        if alpha != "auto":
            ridges.append(max(n_samples * float(alpha), free_ridge(share)))
        elif clipping == "separate":
            ridges.append(automatic_ridge(share, n_samples, size, capped=capped))
        else:
            k = 0.3 if capped else 1.0
            ridges.append(max(free_ridge(share), k * size * total**2 / (n_samples * share**2)))
    return ridges
