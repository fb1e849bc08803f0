"""Private stacking over parts of the samples (PST-S)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from confrere.estimators.constraints import Bound, Count, Finite, Fraction
from confrere.estimators.stacking import StackingClassifier
from confrere.plans.base_plan import PublicFacts
from confrere.plans.linear_plan import linear_frame
from confrere.plans.sample_stack_plan import SampleStackPlan, plan_sample_stack


@dataclass(kw_only=True, eq=False, repr=False)
class SampleStackingClassifier(StackingClassifier):
    """Private stacking over parts of the samples (PST-S, Algorithm 2).

    Rows are split, without looking at them, into ``n_groups`` parts and one more for the high
    level; every part pays for its own model only, so each gets the whole budget.

    Parameters
    ----------
    epsilon : float, default=1.0
        Price of one ``fit``.
    delta : float, default=0.0
        Probability with which epsilon may not hold; 0 is pure. With one, noise is Gaussian.
    data_norm : float, default=1.0
        Declared bound on the norm of a row; longer rows are clipped.
    n_groups : int, default=5
        Number of parts of the low level.
    combiner : {"stack", "vote"}, default="stack"
        How low-level models are combined; votes need no part of their own.
    high_fraction : float or "auto", default="auto"
        Share of the rows for the high level; ``"auto"`` is 0.5 for two classes, and 0.05 for more.
    alpha, high_alpha : float or "auto", default="auto"
        Ridge on the mean loss of the low and of the high level.
    loss : {"capped", "logistic"}, default="capped"
        Of both levels; see :class:`PrivateLogisticRegression`.
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
        The public label set. Of more than two labels every low-level model is a softmax
        regression, and the high level weighs groups, the same for all classes.
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

    Notes
    -----
    **Privacy**

    :Unit: record
    :Neighbours: replace one row of ``(X, y)``
    :Guarantee: ``epsilon``-DP, pure; ``(epsilon, delta)``-DP with a ``delta``
    :Spends: ``epsilon`` on ``account``, once per ``fit``, before noise is drawn
    :Public: n_samples, n_features, the label set, the split, every parameter
    :Releases: ``low_level_``, ``high_level_``
    :Proof: docs/proofs/sample_stacking.md
    """

    data_norm: Bound = 1.0
    n_groups: Count = 5
    combiner: Literal["stack", "vote"] = "stack"
    intercept_scale: Fraction = 0.4
    prior_intercept: Finite = 0.0

    _kind = "pst-s"

    def plan(self, facts: PublicFacts) -> SampleStackPlan:
        """Return everything that is decided before the data are touched."""
        frame = linear_frame(
            facts.n_features, data_norm=self.data_norm, intercept_scale=self.intercept_scale
        )
        return plan_sample_stack(
            facts.n_samples,
            frame,
            epsilon=self.epsilon,
            n_groups=self.n_groups,
            combiner=self.combiner,
            high_fraction=self.high_fraction,
            alpha=self.alpha,
            high_alpha=self.high_alpha,
            loss=self.loss,
            calibration=self.calibration,
            baseline=self.prior_intercept,
            split_seed=self.split_seed,
            delta=self.delta,
            n_classes=facts.n_classes,
        )
