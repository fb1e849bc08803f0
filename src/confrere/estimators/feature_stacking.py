"""Private stacking over feature groups (PST-F)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from confrere.errors import InvalidParameter
from confrere.estimators.base import PrivateClassifier, check_choice, check_finite
from confrere.estimators.feature_plan import (
    Alpha,
    FeatureStackPlan,
    plan_feature_stack,
)
from confrere.estimators.group_plot import plot_groups
from confrere.estimators.releasing import release_of
from confrere.estimators.stack import Combiner, Stacking, stack_model
from confrere.guarantee import Guarantee, check_epsilon
from confrere.ledger import Ledger
from confrere.maths.partition import (
    Allocation,
    Clipping,
    Groups,
    allocate,
    check_importance,
    given_groups,
    group_importance,
    importance_groups,
    random_groups,
)
from confrere.mechanisms.objective_perturbation import Calibration
from confrere.noise.sources import Seed
from confrere.release import Release
from confrere.rows.groups import GroupRows, RowRule
from confrere.schema import PublicSchema


class FeatureStackingClassifier(Stacking, PrivateClassifier):
    """Private stacking over feature groups (PST-F, Algorithm 3); importances make it PST-F(W).

    One private model per group of features is learned on one part of the rows, and a private
    logistic regression on the other part combines them. Important groups get a larger share of the
    budget, hence less noise.

    Parameters
    ----------
    epsilon : float, default=1.0
        Price of one ``fit``.
    data_norm : float or sequence of float, default=1.0
        Declared bound on the norm of a row's part in a group; one number for all groups or one per
        group. Under joint clipping, one number for the whole row.
    n_groups : int, default=5
        How many groups to make when ``groups`` is not given.
    importance : array of shape (n_features,), optional
        Public importances, >= 0: features are grouped by them (W). Without them groups are random
        and equal (U).
    groups : sequence of int arrays, optional
        Declared groups, every column exactly once.
    combiner : {"stack", "vote", "weighted_vote"}, default="stack"
        How low-level models are combined. Votes need no second part of the rows.
    high_fraction : float, default=0.5
        Share of the rows for the high level.
    rows : {"clip", "unit"}, default="clip"
        Shorten long rows to the bound, or give every row's part length one.
    clipping : {"joint", "separate"}, default="joint"
        Bound the whole row at once, or every group by itself (the papers).
    allocation : {"importance", "least-noise"}, default="importance"
        Shares in proportion to importance (the papers), or those with the least weighted noise.
    alpha, high_alpha : float or "auto", default="auto"
        Ridge on the mean loss of the low and of the high level, for rows in the unit ball.
    loss : {"logistic", "capped"}, default="logistic"
        Loss of the low level.
    calibration : {"tight", "printed"}, default="tight"
        ``"printed"`` is the published formula of the low level: sound, with more noise.
    intercept_scale : float, default=0.4
        Public constant inside every group's bound.
    prior_intercept : float, default=0.0
        Public log-odds of the second class (of a declared base rate) that intercepts shrink
        towards; low-level models vote for the second class where they score above it.
    split_seed : int or None, default=0
        Public seed of the split of rows and of random groups; None splits rows by their index.
    classes : list, optional
        The public label set, two labels.
    ledger, account, random_state
        As in :class:`PrivateLogisticRegression`.

    Attributes
    ----------
    low_level_ : tuple of LowLevelModel
        Released models with their groups, importances and shares.
    high_level_ : HighLevelModel or None
        The released combination; None for votes and for a single group.
    classes_, guarantee_, receipt_, simulated_
        As in :class:`PrivateLogisticRegression`.

    Privacy
    -------
    Unit : record
    Neighbours : replace one row of ``(X, y)``
    Guarantee : ``epsilon``-DP, pure
    Spends : ``epsilon`` on ``account``, once per ``fit``, before noise is drawn
    Public : n_samples, n_features, the label set, groups, importances, every parameter
    Releases : low_level_, high_level_
    Proof : docs/proofs/feature_groups.md
    """

    def __init__(
        self,
        *,
        epsilon: float = 1.0,
        data_norm: float | Sequence[float] = 1.0,
        n_groups: int = 5,
        importance: ArrayLike | None = None,
        groups: Sequence[ArrayLike] | None = None,
        combiner: Combiner = "stack",
        high_fraction: float = 0.5,
        rows: RowRule = "clip",
        clipping: Clipping = "joint",
        allocation: Allocation = "importance",
        alpha: Alpha = "auto",
        high_alpha: Alpha = "auto",
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
        self.importance = importance
        self.groups = groups
        self.combiner = combiner
        self.high_fraction = high_fraction
        self.rows = rows
        self.clipping = clipping
        self.allocation = allocation
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
        return self._plan(n_samples, n_features).guarantee()

    def fit(self, X: Any, y: Any) -> FeatureStackingClassifier:
        """Charge ``epsilon``, then release a stack of ``(X, y)``."""
        self._check_parameters()
        ledger = self._open_ledger()
        rows, labels, classes = self._validate_binary(X, y)
        plan = self._plan(*rows.shape)
        known = {"rows": plan.rows, "facts": plan.facts(), **self._meaning(classes)}
        self.model_ = self._spend(
            ledger,
            plan.guarantee(),
            lambda source: stack_model(*plan.run(rows, labels, source), self.combiner, **known),
            purpose="fit FeatureStackingClassifier",
            detail=plan.detail(),
        )
        self.classes_ = classes
        return self

    def to_release(self, schema: PublicSchema | None = None) -> Release:
        """Return what may leave: the released numbers and the public facts about them."""
        return release_of(self, "pst-f", schema)

    def plot_groups(self, ax: Any = None) -> Any:
        """Draw every group's importance, share of epsilon and noise; returns the axes."""
        check_is_fitted(self)
        return plot_groups(self.low_level_, ax=ax)

    def _check_parameters(self) -> None:
        self._check_stack(("stack", "vote", "weighted_vote"))
        check_choice(self.rows, "rows", ("clip", "unit"))
        check_choice(self.clipping, "clipping", ("separate", "joint"))
        check_choice(self.allocation, "allocation", ("importance", "least-noise"))
        if not 0 < self.intercept_scale < 1:
            raise InvalidParameter("intercept_scale must lie strictly between 0 and 1.")
        check_finite(self.prior_intercept, "prior_intercept")

    def _plan(self, n_samples: int, n_features: int) -> FeatureStackPlan:
        self._check_parameters()
        groups, importances = self._groups(n_features)
        weights = allocate(
            importances,
            [len(group) for group in groups],
            clipping=self.clipping,
            allocation=self.allocation,
        )
        stacked = self.combiner == "stack" and len(groups) > 1
        return plan_feature_stack(
            n_samples,
            GroupRows(groups, self._norms(groups), self.rows, self.clipping, self.intercept_scale),
            importances,
            weights,
            epsilon=self.epsilon,
            high_fraction=self.high_fraction if stacked else 0.0,
            alpha=self.alpha,
            high_alpha=self.high_alpha,
            calibration=self.calibration,
            clipping=self.clipping,
            cap=0.5 if self.loss == "capped" else 1.0,
            split_seed=self.split_seed,
            baseline=float(self.prior_intercept),
        )

    def _groups(self, n_features: int) -> tuple[Groups, NDArray[np.float64]]:
        """Return the groups in use and their importances; a group of importance 0 is left out."""
        if self.importance is None:
            importance = np.ones(n_features)
        else:
            importance = check_importance(self.importance)
            if len(importance) != n_features:
                raise InvalidParameter(f"importance must have one entry per column ({n_features}).")
        n_groups = min(self.n_groups, n_features)
        if self.groups is not None:
            groups = given_groups(self.groups, n_features)
        elif self.importance is not None:
            groups = importance_groups(importance, n_groups)
        else:
            groups = random_groups(n_features, n_groups, seed=self.split_seed or 0)
        shares = group_importance(importance, groups)
        if self.importance is None and self.groups is None:
            shares = np.full(len(groups), 1 / len(groups))
        used = [k for k, share in enumerate(shares) if share > 0]
        return tuple(groups[k] for k in used), shares[used]

    def _norms(self, groups: Groups) -> tuple[float, ...]:
        norms = np.atleast_1d(np.asarray(self.data_norm, dtype=np.float64))
        for norm in norms:
            check_epsilon(norm, "data_norm")
        if len(norms) == 1:
            return tuple(float(norms[0]) for _ in groups)
        if self.clipping == "joint" or len(norms) != len(groups):
            raise InvalidParameter(
                f"data_norm must be one number, or one per group in use ({len(groups)})."
            )
        return tuple(float(norm) for norm in norms)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = False
        tags.classifier_tags.multi_class = False
        return tags
