"""Private stacking over parts of the samples (PST-S)."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from confrere.errors import InvalidData, InvalidParameter
from confrere.estimators.base import PrivateClassifier, check_finite
from confrere.estimators.releasing import release_of
from confrere.estimators.stack import (
    Stacking,
    common_sharpness,
    high_level_mechanism,
    high_level_model,
    high_level_prior,
    high_level_rows,
    stack_model,
)
from confrere.guarantee import Guarantee, Split, check_epsilon, in_parallel
from confrere.ledger import Ledger
from confrere.maths.calibration import automatic_ridge, free_ridge
from confrere.maths.partition import split_rows
from confrere.mechanisms.objective_perturbation import (
    SOLVER_SHARE,
    Calibration,
    ObjectivePerturbation,
)
from confrere.model import Facts, LowLevelModel, Stack
from confrere.noise.sources import RandomSource, Seed
from confrere.release import Release
from confrere.rows.ball import into_ball
from confrere.schema import PublicSchema


class SampleStackingClassifier(Stacking, PrivateClassifier):
    """Private stacking over parts of the samples (PST-S, Algorithm 2).

    Rows are split, without looking at them, into ``n_groups`` parts and one more for the high
    level; every part pays for its own model only, so each gets the whole budget.

    Parameters
    ----------
    epsilon : float, default=1.0
        Price of one ``fit``.
    data_norm : float, default=1.0
        Declared bound on the norm of a row; longer rows are clipped.
    n_groups : int, default=5
        Number of parts of the low level.
    combiner : {"stack", "vote"}, default="stack"
        How low-level models are combined; votes need no part of their own.
    high_fraction : float, default=0.5
        Share of the rows for the high level.
    alpha, high_alpha : float or "auto", default="auto"
        Ridge on the mean loss of the low and of the high level.
    loss : {"logistic", "capped"}, default="logistic"
        Loss of the low level.
    calibration : {"tight", "printed"}, default="tight"
        ``"printed"`` is the published formula: sound, with more noise.
    intercept_scale : float, default=0.4
        Public constant inside the norm bound.
    prior_intercept : float, default=0.0
        Public log-odds of the second class (of a declared base rate) that intercepts shrink
        towards.
    split_seed : int or None, default=0
        Public seed of the split; None splits by index.
    classes : list, optional
        The public label set, two labels.
    ledger, account, random_state
        As in :class:`PrivateLogisticRegression`.

    Attributes
    ----------
    low_level_ : tuple of LowLevelModel
        Released models of the parts.
    high_level_ : HighLevelModel or None
        The released combination; None for votes and for a single part.
    classes_, guarantee_, receipt_, simulated_
        As in :class:`PrivateLogisticRegression`.

    Privacy
    -------
    Unit : record
    Neighbours : replace one row of ``(X, y)``
    Guarantee : ``epsilon``-DP, pure
    Spends : ``epsilon`` on ``account``, once per ``fit``, before noise is drawn
    Public : n_samples, n_features, the label set, the split, every parameter
    Releases : low_level_, high_level_
    Proof : docs/proofs/sample_stacking.md
    """

    def __init__(
        self,
        *,
        epsilon: float = 1.0,
        data_norm: float = 1.0,
        n_groups: int = 5,
        combiner: Literal["stack", "vote"] = "stack",
        high_fraction: float = 0.5,
        alpha: float | Literal["auto"] = "auto",
        high_alpha: float | Literal["auto"] = "auto",
        loss: Literal["logistic", "capped"] = "logistic",
        calibration: Calibration = "tight",
        intercept_scale: float = 0.4,
        prior_intercept: float = 0.0,
        split_seed: int | None = 0,
        classes: ArrayLike | None = None,
        ledger: Ledger | None = None,
        account: str | None = None,
        random_state: Seed | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.data_norm = data_norm
        self.n_groups = n_groups
        self.combiner = combiner
        self.high_fraction = high_fraction
        self.alpha = alpha
        self.high_alpha = high_alpha
        self.loss = loss
        self.calibration = calibration
        self.intercept_scale = intercept_scale
        self.prior_intercept = prior_intercept
        self.split_seed = split_seed
        self.classes = classes
        self.ledger = ledger
        self.account = account
        self.random_state = random_state

    def price(self, n_samples: int, n_features: int) -> Guarantee:
        """Return what one ``fit`` on data of these sizes would spend; touches no data."""
        low, high, _ = self._plan(n_samples, n_features)
        return self._guarantee(low, high)

    def fit(self, X: Any, y: Any) -> SampleStackingClassifier:
        """Charge ``epsilon``, then release a stack of ``(X, y)``."""
        self._check_parameters()
        ledger = self._open_ledger()
        rows, labels, classes = self._validate_binary(X, y)
        low, high, parts = self._plan(*rows.shape)
        centre = self._low_prior(rows.shape[1])
        bounded = into_ball(rows, self.data_norm, constant=self.intercept_scale)

        known = {"facts": Facts(n_samples=len(rows)), **self._meaning(classes)}

        def act(source: RandomSource) -> Stack:
            weights = [
                mechanism.run(bounded[part], labels[part], source=source, centre=centre)
                for part, mechanism in zip(parts, low, strict=False)
            ]
            factor = 1.0 if high is None else common_sharpness([w - centre for w in weights])
            models = tuple(self._model(k, w, low[k], factor) for k, w in enumerate(weights))
            if high is None:
                return stack_model(models, None, self.combiner, **known)
            last = parts[-1]
            released = high.run(
                high_level_rows(_scores(models, rows[last])),
                labels[last],
                source=source,
                centre=self._high_prior(),
            )
            return stack_model(models, high_level_model(released), self.combiner, **known)

        self.model_ = self._spend(
            ledger,
            self._guarantee(low, high),
            act,
            purpose="fit SampleStackingClassifier",
            detail={
                "parts": [
                    {"part": f"part {k}", "rows": m.n_samples, "epsilon": m.epsilon, "rate": m.rho}
                    for k, m in enumerate([*low, *([high] if high else [])])
                ]
            },
        )
        self.classes_ = classes
        return self

    def to_release(self, schema: PublicSchema | None = None) -> Release:
        """Return what may leave: the released numbers and the public facts about them."""
        return release_of(self, "pst-s", schema)

    def _check_parameters(self) -> None:
        self._check_stack(("stack", "vote"))
        check_epsilon(self.data_norm, "data_norm")
        if not 0 < self.intercept_scale < 1:
            raise InvalidParameter("intercept_scale must lie strictly between 0 and 1.")
        check_finite(self.prior_intercept, "prior_intercept")
        if isinstance(self.n_groups, bool) or int(self.n_groups) < 1:
            raise InvalidParameter("n_groups must be at least 1.")

    def _plan(
        self, n_samples: int, n_features: int
    ) -> tuple[list[ObjectivePerturbation], ObjectivePerturbation | None, list[NDArray[np.intp]]]:
        """Return the parts' mechanisms, the high level's, and the rows of each."""
        self._check_parameters()
        stacked = self.combiner == "stack" and self.n_groups > 1
        share = self.high_fraction if stacked else 0.0
        fractions = [(1 - share) / self.n_groups] * self.n_groups + [share] * stacked
        parts = split_rows(n_samples, fractions, seed=self.split_seed)
        if any(len(part) == 0 for part in parts):
            raise InvalidData(f"n_samples = {n_samples} is fewer than the parts; lower n_groups.")
        low = [self._low_mechanism(len(part), n_features + 1) for part in parts[: self.n_groups]]
        high = None
        if stacked:
            high = high_level_mechanism(
                self.epsilon,
                len(parts[-1]),
                self.n_groups,
                alpha=self.high_alpha,
                prior_norm=float(np.linalg.norm(self._high_prior())),
            )
        return low, high, parts

    def _low_mechanism(self, n_samples: int, dimension: int) -> ObjectivePerturbation:
        budget = self.epsilon * (1 - SOLVER_SHARE)
        capped = self.loss == "capped"
        if self.alpha == "auto":
            ridge = automatic_ridge(budget, n_samples, dimension, capped=capped)
        else:
            ridge = n_samples * float(self.alpha)
            if self.calibration == "tight":
                ridge = max(ridge, free_ridge(budget))
        return ObjectivePerturbation(
            epsilon=self.epsilon,
            n_samples=n_samples,
            n_features=dimension,
            ridge=ridge,
            cap=0.5 if capped else 1.0,
            calibration=self.calibration,
            prior_norm=float(np.linalg.norm(self._low_prior(dimension - 1))),
        )

    def _guarantee(
        self, low: list[ObjectivePerturbation], high: ObjectivePerturbation | None
    ) -> Guarantee:
        split = Split.BY_INDEX if self.split_seed is None else Split.SEEDED_PERMUTATION
        parts = [mechanism.guarantee() for mechanism in [*low, *([high] if high else [])]]
        return in_parallel(parts, split=split, theorem="docs/proofs/sample_stacking.md")

    def _model(
        self,
        k: int,
        weights: NDArray[np.float64],
        mechanism: ObjectivePerturbation,
        factor: float,
    ) -> LowLevelModel:
        shrink = np.sqrt(1 - self.intercept_scale**2) / self.data_norm
        return LowLevelModel(
            name=f"part {k} ({mechanism.n_samples} rows)",
            features=np.arange(len(weights) - 1),
            coef=weights[:-1] * shrink,
            intercept=float(weights[-1] * self.intercept_scale),
            importance=1 / self.n_groups,
            epsilon=self.epsilon,
            noise=mechanism.n_features / mechanism.rho,
            baseline=float(self.prior_intercept),
            sharpness=factor,
        )

    def _high_prior(self) -> NDArray[np.float64]:
        return high_level_prior([1 / self.n_groups] * self.n_groups, self.prior_intercept)

    def _low_prior(self, n_features: int) -> NDArray[np.float64]:
        return np.append(np.zeros(n_features), self.prior_intercept / self.intercept_scale)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = False
        tags.classifier_tags.multi_class = False
        return tags


def _scores(models: tuple[LowLevelModel, ...], X: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.column_stack([model.score(X) for model in models])
