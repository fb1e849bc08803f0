"""Private stacking over feature groups (PST-F)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from confrere.errors import InvalidParameter
from confrere.estimators.constraints import Bounds, Count, Experts, Finite, Fraction, Ridges
from confrere.estimators.experts import Opinion, opinion_of
from confrere.estimators.stacking import StackingClassifier
from confrere.maths.partition import (
    Groups,
    allocate,
    check_importance,
    given_groups,
    group_importance,
    high_share,
    importance_groups,
    random_groups,
)
from confrere.mechanisms.prior_check import UNCHECKED, Belief
from confrere.plans.base_plan import PublicFacts
from confrere.plans.body_plan import Noise, encodes, form_for, refuse_beyond
from confrere.plans.checked_plan import CheckedPlan, plan_near
from confrere.plans.declared_priors import Prior
from confrere.plans.feature_stack_plan import FeatureStackPlan, plan_feature_stack
from confrere.plans.shaped_groups import PlannedGroups, SchemaGroups, encoded_columns
from confrere.rows.groups import GroupRows
from confrere.schema import PublicSchema, SchemaEncoder
from confrere.schema.encoder import Form


def _by_name(groups: Sequence[ArrayLike]) -> bool:
    """Whether declared groups hold names of columns."""
    return any(isinstance(name, str) for group in groups for name in np.ravel(group))


@dataclass(kw_only=True, eq=False, repr=False)
class FeatureStackingClassifier(StackingClassifier):
    """Private stacking over feature groups (PST-F, Algorithm 3); importances make it PST-F(W).

    One private model per group of features is learned on one part of the rows, and a private
    logistic regression on the other part combines them. Important groups get a larger share of the
    budget, hence less noise.

    Parameters
    ----------
    epsilon : float, default=1.0
        Price of one ``fit``.
    delta : float, default=0.0
        Probability with which epsilon may not hold; 0 is pure. With one, noise is Gaussian.
    data_norm : float or sequence of float, default=1.0
        Declared bound on the norm of a row's part in a group; one number for all groups or one per
        group. Under joint clipping, one number for the whole row.
    n_groups : int, default=5
        How many groups to make when ``groups`` is not given.
    importance : array of shape (n_features,), optional
        Public importances, >= 0: features are grouped by them (W). Without them groups are random
        and equal (U). A schema's own importances are taken unless others are given.
    groups : sequence of int arrays or of lists of names, optional
        Declared groups, every column exactly once; by the names of its columns where there is a
        schema.
    combiner : {"stack", "vote", "weighted_vote"}, default="stack"
        How low-level models are combined. Votes need no second part of the rows.
    high_fraction : float or "auto", default="auto"
        Share of the rows for the high level; ``"auto"`` is 0.5 for two classes, and 0.05 for more.
    rows : {"clip", "unit"}, default="clip"
        Shorten long rows to the bound, or give every row's part length one.
    clipping : {"joint", "separate"}, default="joint"
        Bound the whole row at once, or every group by itself (the papers).
    allocation : {"importance", "least-noise"}, default="importance"
        Shares in proportion to importance (the papers), or those with the least weighted noise.
    alpha, high_alpha : float or "auto", default="auto"
        Ridge on the mean loss of the low and of the high level, for rows in the unit ball.
        ``alpha`` may be one number per group in use, in the groups' order.
    loss : {"capped", "logistic"}, default="capped"
        Of both levels; see :class:`PrivateLogisticRegression`.
    calibration : {"tight", "printed"}, default="tight"
        ``"printed"`` is the published formula of the low level: sound, with more noise.
    intercept_scale : float, default=0.4
        Public constant inside every group's bound.
    prior_intercept : float, default=0.0
        Public log-odds of the second class (of a declared base rate) that intercepts shrink
        towards; low-level models vote for the second class where they score above it.
    prior : array of shape (n_features,) or "experts", optional
        Public coefficients that groups shrink towards; see :class:`PrivateLogisticRegression`.
    prior_check : bool, default=True
        Pay a twentieth to three tenths of ``epsilon`` for a noised answer to how far ``prior``
        holds on these records, and use it so far.
    noise : {"auto", "ball", "schema"}, default="auto"
        Which body noise is made for; see :class:`PrivateLogisticRegression`. Where it is the one
        that the schema declares, groups are of whole columns of the schema, each with a body of its
        own. ``importance``, ``groups`` by positions, ``rows="unit"``, a ``prior`` and a ``delta``
        are the ball's, as are ``data_norm``, ``clipping`` and ``intercept_scale``.
    split_seed : int or None, default=0
        Public seed of the split of rows and of random groups; None splits rows by their index.
    classes : list, optional
        The public label set. Of more than two labels every low-level model is a softmax
        regression, and the high level weighs groups, the same for all classes.
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

    Notes
    -----
    **Privacy**

    :Unit: record
    :Neighbours: replace one row of ``(X, y)``
    :Guarantee: ``epsilon``-DP, pure; ``(epsilon, delta)``-DP with a ``delta``
    :Spends: ``epsilon`` on ``account``, once per ``fit``, before noise is drawn
    :Public: n_samples, n_features, the label set, groups, importances, every parameter
    :Releases: ``low_level_``, ``high_level_``
    :Proof: docs/proofs/feature_groups.md
    """

    data_norm: Bounds = 1.0
    alpha: Ridges = "auto"  # type: ignore[assignment]
    n_groups: Count = 5
    importance: ArrayLike | None = None
    groups: Sequence[ArrayLike] | None = None
    rows: Literal["clip", "unit"] = "clip"
    clipping: Literal["joint", "separate"] = "joint"
    allocation: Literal["importance", "least-noise"] = "importance"
    intercept_scale: Fraction = 0.4
    prior_intercept: Finite = 0.0
    prior: Experts = None
    prior_check: bool = True
    noise: Noise = "auto"

    _kind = "pst-f"
    _weighted = False

    def plan(self, facts: PublicFacts) -> FeatureStackPlan | CheckedPlan:
        """Return everything that is decided before the data are touched."""
        norm = 1.0 if self.rows == "unit" else float(np.max(self.data_norm))
        opinion = self._opinion()
        if facts.n_classes > 2 and (opinion.coef is not None or opinion.intercept != 0):
            raise InvalidParameter("prior is for two classes.")
        prior = opinion.prior(norm, facts.n_features)
        if prior is None or not self.prior_check:
            return self._fit_plan(facts, self.epsilon, prior, UNCHECKED)
        return plan_near(
            prior,
            lambda epsilon, belief: self._fit_plan(facts, epsilon, prior, belief),
            epsilon=self.epsilon,
            n_samples=facts.n_samples,
        )

    def _fit_plan(
        self, facts: PublicFacts, epsilon: float, prior: Prior | None, belief: Belief
    ) -> FeatureStackPlan:
        """Return the plan of the stack itself, as near to a prior as it is believed."""
        rows, importances = self._rows_and_importances(facts)
        if prior is not None:
            importances = importances**belief.trust
            importances /= importances.sum()
        weights = allocate(
            importances,
            [len(group) for group in rows.groups],
            clipping=rows.clipping,
            allocation=self.allocation,
        )
        known: dict[str, Any] = {}
        if prior is not None:
            coef = prior.factor_at(belief) * prior.coef
            known["centres"] = [(coef[group], prior.intercept) for group in rows.groups]
            known["variance"] = prior.variance_at(belief)
        return plan_feature_stack(
            facts.n_samples,
            rows,
            importances,
            weights,
            epsilon=epsilon,
            combiner=self.combiner,
            high_fraction=self.high_fraction,
            alpha=self.alpha,
            high_alpha=self.high_alpha,
            calibration=self.calibration,
            loss=self.loss,
            split_seed=self.split_seed,
            delta=self.delta,
            n_classes=facts.n_classes,
            baseline=self._opinion().intercept,
            **known,
        )

    def _opinion(self) -> Opinion:
        """Return what is declared about the columns and the base rate."""
        return opinion_of(self.prior, self.prior_intercept, self._encoder())

    def plot_groups(self, ax: Any = None) -> Any:
        """Draw every group's importance, share of epsilon and noise; returns the axes."""
        return self._draw_groups(ax)

    def _form(self, n_samples: int) -> Form:
        """Return how a schema's columns are encoded: a rule of public facts."""
        assert isinstance(self.schema, PublicSchema)
        stacked = self.combiner == "stack"
        share = high_share(self.high_fraction, n_samples, 2) if stacked else 0.0
        return form_for(
            self.schema,
            self.noise,
            max(1, round((1 - share) * n_samples)),
            self.epsilon,
            classes=self.classes,
            beyond=self._beyond(),
            loss=self.loss,
            grouped=True,
        )

    def _beyond(self) -> dict[str, bool]:
        """Return by name what noise shaped like the rows does not know, and whether it is set."""
        return {
            "calibration='printed'": self.calibration == "printed",
            "delta": self.delta > 0,
            "prior": self.prior is not None,
            "rows='unit'": self.rows == "unit",
            "importance=": self.importance is not None,
            "groups by positions": self.groups is not None and not _by_name(self.groups),
        }

    def _rows_and_importances(
        self, facts: PublicFacts
    ) -> tuple[PlannedGroups, NDArray[np.float64]]:
        """Return the groups in use and their importances; a group of importance 0 is left out."""
        encoder = self._encoder(facts.n_samples)
        shaped = encoder is not None and encoder.shaped and encodes(encoder, facts.features)
        if self.noise == "schema" and not shaped:
            raise InvalidParameter("noise='schema' needs schema=, a PublicSchema of raw columns.")
        if encoder is not None and shaped and self.noise != "ball":
            if self.noise == "schema":  # an encoder of a body's form comes by no rule
                refuse_beyond(self._beyond())
            # One column of the schema counts as much as its most important value.
            each = [max(f.importances or (1.0,)) for f in encoder.schema.features]
            important = np.array(each) if encoder.schema.has_importances else None
            groups, shares = self._groups(len(each), important, encoder)
            return SchemaGroups(encoder, groups), shares
        groups, shares = self._groups(facts.n_features, self._importance(), encoder)
        norms = self._norms(groups)
        return GroupRows(groups, norms, self.rows, self.clipping, self.intercept_scale), shares

    def _groups(
        self, n_columns: int, given: ArrayLike | None, encoder: SchemaEncoder | None
    ) -> tuple[Groups, NDArray[np.float64]]:
        """Return the groups in use of so many columns, and their shares of the importance."""
        if given is None:
            importance = np.ones(n_columns)
        else:
            importance = check_importance(given)
            if len(importance) != n_columns:
                raise InvalidParameter(f"importance must have one entry per column ({n_columns}).")
        n_groups = min(self.n_groups, n_columns)
        if self.groups is not None:
            groups = given_groups(self._positions(encoder, n_columns), n_columns)
        elif given is not None:
            groups = importance_groups(importance, n_groups)
        else:
            groups = random_groups(n_columns, n_groups, seed=self.split_seed or 0)
        shares = group_importance(importance, groups)
        if given is None and self.groups is None:
            shares = np.full(len(groups), 1 / len(groups))
        used = [k for k, share in enumerate(shares) if share > 0]
        return tuple(groups[k] for k in used), shares[used]

    def _positions(self, encoder: SchemaEncoder | None, n_columns: int) -> Sequence[ArrayLike]:
        """Return declared groups by positions: of the schema's columns, or of encoded ones."""
        assert self.groups is not None
        if not _by_name(self.groups):
            return self.groups
        if encoder is None:
            raise InvalidParameter("groups: columns have names where there is a schema.")
        place = {column: j for j, column in enumerate(encoder.schema.columns)}
        unknown = [name for group in self.groups for name in np.ravel(group) if name not in place]
        if unknown:
            raise InvalidParameter(f"groups: the schema has no column {str(unknown[0])!r}.")
        found = [np.array([place[name] for name in np.ravel(group)]) for group in self.groups]
        if n_columns == len(place):
            return found
        sizes = [len(feature.names) for feature in encoder.schema.features]
        return encoded_columns(
            [block.size for block in encoder.blocks()] if encoder.shaped else sizes, found
        )

    def _importance(self) -> ArrayLike | None:
        """Return the declared importances: of the schema, unless they are given."""
        encoder = self._encoder()
        if self.importance is not None or encoder is None or not encoder.schema.has_importances:
            return self.importance
        return encoder.schema.importances()

    def _norms(self, groups: Groups) -> tuple[float, ...]:
        norms = np.atleast_1d(np.asarray(self.data_norm, dtype=np.float64))
        if len(norms) == 1:
            return tuple(float(norms[0]) for _ in groups)
        if self.clipping == "joint" or len(norms) != len(groups):
            raise InvalidParameter(
                f"data_norm must be one number, or one per group in use ({len(groups)})."
            )
        return tuple(float(norm) for norm in norms)
