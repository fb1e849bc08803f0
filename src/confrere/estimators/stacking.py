"""Private stacking: parts of the samples (PST-S), or groups of features (PST-F, PST-H, PPTL-FS)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special
from sklearn.utils.validation import check_is_fitted

from confrere.errors import InvalidParameter, InvalidRelease, SchemaMismatch
from confrere.estimators.base import Fitted, Opinion, PrivateClassifier, opinion_of
from confrere.estimators.constraints import (
    AutoFraction,
    Bound,
    Bounds,
    Count,
    Delta,
    Epsilon,
    Experts,
    Finite,
    Fraction,
    Ridge,
    Ridges,
    Weights,
)
from confrere.estimators.transfer import (
    SourceLike,
    check_classes,
    check_same_meaning,
    form_of,
    known,
    open_sources,
)
from confrere.extras import extra
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
from confrere.maths.prior_ridge import (
    DECLARED,
    UNKNOWN,
    intercept_of,
    mean_curvature,
    noise_variance,
    precision_of,
    variance_near,
)
from confrere.mechanisms.measurements import HiddenSize
from confrere.mechanisms.prior_check import UNCHECKED, Belief
from confrere.methods.body import (
    Noise,
    choose_form,
    declared_number,
    encodes,
    form_for,
    refuse_beyond,
)
from confrere.methods.checked import CheckedPlan, plan_near
from confrere.methods.design import Allowance, allowance
from confrere.methods.feature_stack import Centres, FeatureStackPlan, plan_feature_stack
from confrere.methods.plan import PublicFacts
from confrere.methods.priors import Prior
from confrere.methods.sample_stack import SampleStackPlan, plan_sample_stack
from confrere.methods.shaped_groups import PlannedGroups, SchemaGroups, encoded_columns
from confrere.methods.stack import HighStart, high_level_coefficients, high_level_weights
from confrere.model import Encoder, LowLevelModel, Stack, StackFacts
from confrere.release import Release
from confrere.rows.body import GroupRows
from confrere.schema import PublicSchema, SchemaEncoder
from confrere.schema.encoding import Form


@dataclass(frozen=True)
class HighLevelModel:
    """The released combination of meta features ``tanh(score / 2) / sqrt(groups)``."""

    coef: NDArray[np.float64]
    intercept: float


class FittedStack(Fitted):
    """What every fitted stack has."""

    model_: Stack

    @property
    def low_level_(self) -> tuple[LowLevelModel, ...]:
        """Released models with their groups, importances and shares."""
        return self.model_.groups

    @property
    def high_level_(self) -> HighLevelModel | None:
        """The released combination; None for votes and for a single group."""
        if self.model_.combine != "stack":
            return None
        return HighLevelModel(self.model_.coef, self.model_.intercept)


_Stacked = TypeVar("_Stacked", SampleStackPlan, FeatureStackPlan)


@dataclass(kw_only=True, eq=False, repr=False)
class StackingClassifier(FittedStack, PrivateClassifier):
    """What every stacking classifier takes."""

    epsilon: Epsilon = 1.0
    delta: Delta = 0.0
    combiner: Literal["stack", "vote", "weighted_vote"] = "stack"
    high_fraction: AutoFraction = "auto"
    alpha: Ridge = "auto"
    high_alpha: Ridge = "auto"
    loss: Literal["capped", "logistic"] = "capped"
    split_seed: int | None = 0
    declared_samples: int | None = None

    _sparse = False

    def _allowed(self, n_samples: int, n_classes: int) -> Allowance:
        """Return what both levels may spend, each on records of its own."""
        count = n_samples if self.declared_samples is None else HiddenSize(self.declared_samples)
        return allowance(self.epsilon, count, delta=self.delta, loss=self.loss, n_classes=n_classes)

    def _near(
        self, facts: PublicFacts, prior: Prior | None, fit: Callable[[Allowance, Belief], _Stacked]
    ) -> _Stacked | CheckedPlan:
        """Return the plan of a stack, after a paid check of its prior if there is one."""
        allowed = self._allowed(facts.n_samples, facts.n_classes)
        if prior is None or not self.prior_check:
            return fit(allowed, UNCHECKED)
        return plan_near(prior, fit, allowed)

    def _draw_groups(self, ax: Any) -> Any:
        """Draw importances, shares and noise of the low level."""
        check_is_fitted(self)
        return plot_groups(self.low_level_, ax=ax)


def plot_groups(models: Sequence[LowLevelModel], *, ax: Any = None) -> Any:
    """Draw importance and share of epsilon as bars, and noise as points on its own axis.

    Parameters
    ----------
    models : sequence of LowLevelModel
        Released low-level models.
    ax : matplotlib axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib axes
    """
    plt = extra("plot", "matplotlib.pyplot")

    if ax is None:
        _, ax = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
    places = np.arange(len(models))
    shares = np.array([model.epsilon for model in models])
    ax.bar(places - 0.2, [m.importance for m in models], 0.38, color="#0072b2", label="importance")
    ax.bar(places + 0.2, shares / shares.sum(), 0.38, color="#56b4e9", label="share of epsilon")
    names = [f"{model.name}\n{len(model.features)} features" for model in models]
    ax.set_xticks(places, names)
    ax.set_ylabel("share")
    ax.set_ylim(0, None)
    noise = ax.twinx()
    noise.plot(places, [model.noise for model in models], "o", color="#d55e00", label="noise")
    noise.set_ylabel("expected norm of the noise")
    noise.set_ylim(0, 1.08 * max(model.noise for model in models))
    handles = [*ax.get_legend_handles_labels()[0], *noise.get_legend_handles_labels()[0]]
    # Above the axes, where no bar or point can be.
    ax.legend(
        handles,
        [handle.get_label() for handle in handles],
        frameon=False,
        ncols=3,
        loc="lower center",
        bbox_to_anchor=(0.5, 1.0),
    )
    ax.spines["top"].set_visible(False)
    noise.spines["top"].set_visible(False)
    return ax


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
    intercept_scale : float, default=0.4
        Public constant inside the norm bound.
    prior_intercept : float, default=0.0
        Public log-odds of the second class (of a declared base rate) that intercepts shrink
        towards.
    prior : array of shape (n_features,) or (n_classes, n_features), or "experts", optional
        Public coefficients that every part shrinks towards, as far as a paid ``prior_check`` finds
        that they hold; see :class:`PrivateLogisticRegression`.
    prior_check : bool, default=True
        Whether they are checked.
    noise : {"ball", "auto", "schema"}, default="ball"
        Which body noise is made for; see :class:`PrivateLogisticRegression`.
    split_seed : int or None, default=0
        Public seed of the split; None splits by index.
    declared_samples : int, optional
        Public stand-in for the number of rows: given, that number is hidden (add-remove
        neighbours), and every row draws its part of the split.
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
    :Neighbours: replace one row of ``(X, y)``; with ``declared_samples`` one is there or not
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
    prior: Experts = None
    prior_check: bool = True
    prior_intercept: Finite = 0.0
    noise: Noise = "ball"

    _kind = "pst-s"

    def plan(self, facts: PublicFacts) -> SampleStackPlan | CheckedPlan:
        """Return everything that is decided before the data are touched."""
        geometry, encoder = self._geometry(facts), self._body_encoder(facts)
        opinion = opinion_of(self.prior, self.prior_intercept, self._encoder(), facts.n_classes)
        prior = opinion.prior(
            self.data_norm, facts.n_features, n_classes=facts.n_classes, encoder=encoder
        )

        def fit(left: Allowance, belief: Belief) -> SampleStackPlan:
            return plan_sample_stack(
                left,
                geometry,
                prior,
                belief,
                n_groups=self.n_groups,
                combiner=self.combiner,
                high_fraction=self.high_fraction,
                alpha=self.alpha,
                high_alpha=self.high_alpha,
                baseline=self.prior_intercept,
                split_seed=self.split_seed,
            )

        return self._near(facts, prior, fit)

    def _form(self, n_samples: int) -> Form:
        """Return how a schema's columns are encoded: a rule of public facts."""
        assert isinstance(self.schema, PublicSchema)
        low = max(1, n_samples // (self.n_groups + 1))
        allowed = self._allowed(low, declared_number(self.schema, self.classes))
        return choose_form(self.schema, self.noise, allowed, each=self.prior is not None)


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
    alpha, high_alpha : float or "auto", default="auto"
        Ridge on the mean loss of the low and of the high level, for rows in the unit ball.
        ``alpha`` may be one number per group in use, in the groups' order.
    loss : {"capped", "logistic"}, default="capped"
        Of both levels; see :class:`PrivateLogisticRegression`.
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
        own. ``importance``, ``groups`` by positions and ``rows="unit"`` are the ball's, as are
        ``data_norm``, ``clipping`` and ``intercept_scale``.
    split_seed : int or None, default=0
        Public seed of the split of rows and of random groups; None splits rows by their index.
    declared_samples : int, optional
        Public stand-in for the number of rows: given, that number is hidden (add-remove
        neighbours), and every row draws its part of the split.
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
    :Neighbours: replace one row of ``(X, y)``; with ``declared_samples`` one is there or not
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
        encoder = self._body_encoder(facts) if self.noise != "ball" else None
        prior = self._opinion(facts.n_classes).prior(
            norm, facts.n_features, n_classes=facts.n_classes, encoder=encoder
        )
        return self._near(
            facts, prior, lambda left, belief: self._fit_plan(facts, left, prior, belief)
        )

    def _fit_plan(
        self, facts: PublicFacts, allowed: Allowance, prior: Prior | None, belief: Belief
    ) -> FeatureStackPlan:
        """Return the plan of the stack itself, as near to a prior as it is believed."""
        rows, importances = self._rows_and_importances(facts)
        if prior is not None:
            importances = importances**belief.trust
            importances /= importances.sum()
        weights = allocate(importances, clipping=rows.clipping)
        known: dict[str, Any] = {}
        if prior is not None:
            coef, level = prior.factor_at(belief) * prior.coef, prior.intercept
            if not prior.several:
                coef, level = coef[0], level[0]
            known["centres"] = [(coef[..., group], level) for group in rows.groups]
            known["variance"] = prior.variance_at(belief)
        return plan_feature_stack(
            allowed,
            rows,
            importances,
            weights,
            combiner=self.combiner,
            high_fraction=self.high_fraction,
            alpha=self.alpha,
            high_alpha=self.high_alpha,
            split_seed=self.split_seed,
            baseline=self._opinion(facts.n_classes).intercept if facts.n_classes == 2 else 0.0,
            **known,
        )

    def _opinion(self, n_classes: int) -> Opinion:
        """Return what is declared about the columns and the base rate."""
        return opinion_of(self.prior, self.prior_intercept, self._encoder(), n_classes)

    def plot_groups(self, ax: Any = None) -> Any:
        """Draw every group's importance, share of epsilon and noise; returns the axes."""
        return self._draw_groups(ax)

    def _form(self, n_samples: int) -> Form:
        """Return how a schema's columns are encoded: a rule of public facts."""
        assert isinstance(self.schema, PublicSchema)
        if self.noise == "auto" and (self.delta or self.prior is not None):
            return "standardised"
        stacked = self.combiner == "stack"
        share = high_share(self.high_fraction, n_samples, 2) if stacked else 0.0
        low = max(1, round((1 - share) * n_samples))
        allowed = self._allowed(low, declared_number(self.schema, self.classes)).at(delta=0.0)
        return form_for(self.schema, self.noise, allowed, beyond=self._beyond(), grouped=True)

    def _beyond(self) -> dict[str, bool]:
        """Return by name what noise shaped like the rows does not know, and whether it is set."""
        return {
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


#: The public facts on which source and target must agree.
SHARED_FACTS = ("norms", "rows", "clipping", "constant")


@dataclass(kw_only=True, eq=False, repr=False)
class TransferStackingClassifier(StackingClassifier):
    """A private stack that shrinks, group by group, towards a released one (PST-H, PPTL-FS).

    The source is a release of :class:`FeatureStackingClassifier`; groups of features, their bounds
    and importances come from it, so that both sides mean the same.

    Parameters
    ----------
    source : Release, path, or a sequence of them
        Released stacks over the same groups; required by ``fit``.
    eta : float or sequence of float, default=0.0
        Shrink group k towards ``(1 - eta_k)`` times the source's weights.
    epsilon : float, default=1.0
        Price of one ``fit``, paid by the target's records.
    delta : float, default=0.0
        Probability with which epsilon may not hold; 0 is pure. With one, noise is Gaussian.
    combiner, high_fraction, alpha, high_alpha, loss, split_seed, declared_samples
        As in :class:`FeatureStackingClassifier`. Automatic ridges follow
        from what the sources' records and noise leave unknown; their high level is where the
        target's starts.
    prior_check : bool, default=True
        Pay a twentieth to three tenths of ``epsilon`` for a noised answer to how far the sources
        hold on these records; without, a wrong source is believed.
    noise : {"auto", "ball", "schema"}, default="auto"
        Which body noise is made for: that of the sources, unless a ball is asked for.
        ``"schema"`` is an error where theirs is a ball's.
    schema : PublicSchema or SchemaEncoder, optional
        What raw columns mean: ``fit`` takes raw tables, and a source with another meaning is
        refused.
    source_keys : mapping of party to public key, optional
        Signatures that a source read from disk must carry.
    data_norm : None
        Comes from the source; kept so that all estimators share their common parameters.
    classes : list, optional
        The public label set, that of the sources.
    ledger, account, random_state
        As in :class:`PrivateLogisticRegression`.

    Attributes
    ----------
    low_level_, high_level_, classes_, guarantee_, receipt_, simulated_
        As in :class:`FeatureStackingClassifier`; the guarantee is the target's.
    sources_ : tuple of Release
        What was started from, each with its own guarantee.

    Notes
    -----
    **Privacy**

    :Unit: record
    :Neighbours: replace one row of the target's ``(X, y)``; with ``declared_samples`` one is there
        or not
    :Guarantee: ``epsilon``-DP, pure, for the target's records (with a ``delta``
        ``(epsilon, delta)``-DP); the sources' hold as released
    :Spends: ``epsilon`` on ``account``, once per ``fit``, before noise is drawn
    :Public: n_samples, n_features, the label set, groups, importances, the sources, every parameter
    :Releases: ``low_level_``, ``high_level_``
    :Proof: docs/proofs/transfer.md
    """

    source: SourceLike | Sequence[SourceLike] | None = None
    eta: Weights = 0.0
    prior_check: bool = True
    noise: Noise = "auto"
    data_norm: None = None
    source_keys: Mapping[str, Any] | None = None

    _kind = "pst-h"
    _weighted = False

    def plan(self, facts: PublicFacts) -> FeatureStackPlan | CheckedPlan:
        """Return everything that is decided before the data are touched; reads the sources."""
        if self.data_norm is not None:
            raise InvalidParameter("data_norm comes from the source; leave it None.")
        sources = self._open_sources()
        encoder = self._encoder(facts.n_samples)
        check_same_meaning(
            sources,
            features=facts.features,
            classes=facts.classes,
            encoder=None if encoder is None else Encoder.of(encoder),
        )
        if len(sources[0].model.features) != facts.n_features:
            raise InvalidParameter("n_features must be the source's number of columns.")
        check_classes(sources, facts.n_classes)
        start = _Start(sources, self._groups(sources[0], encoder), facts.n_classes)
        allowed = self._allowed(facts.n_samples, facts.n_classes)
        if not self.prior_check:
            return self._fit_plan(facts, allowed, start, UNCHECKED)
        prior = start.prior(facts.n_features, 1 - np.asarray(self.eta, dtype=np.float64))
        if prior.deviation == 0:
            return self._fit_plan(facts, allowed, start, UNCHECKED)
        return plan_near(
            prior,
            lambda left, belief: self._fit_plan(facts, left, start, belief),
            allowed,
            sources,
        )

    def _fit_plan(
        self, facts: PublicFacts, allowed: Allowance, start: _Start, belief: Belief
    ) -> FeatureStackPlan:
        """Return the plan of the stack itself, as near to the sources as they are believed."""
        released, models = _stack_facts(start.sources[0])
        importances = np.array([model.importance for model in models])
        groups = start.groups
        n_groups = len(groups.groups)
        keep = 1 - np.broadcast_to(np.asarray(self.eta, dtype=np.float64), n_groups)
        # Turned round, several classes mean nothing.
        least = -1.0 if facts.n_classes == 2 else 0.0
        factor = max(least, min(1.0, belief.factor))
        trust = belief.trust if belief.factor >= least else 0.0
        return plan_feature_stack(
            allowed,
            groups,
            importances,
            allocate(importances, clipping=groups.clipping),
            combiner=self.combiner,
            high_fraction=self.high_fraction,
            alpha=self.alpha,
            high_alpha=self.high_alpha,
            split_seed=self.split_seed,
            baseline=released.baseline,
            centres=start.centres(factor * keep),
            variance=start.variance + (UNKNOWN - DECLARED) * (1 - trust),
            high_start=start.high(),
            sources=start.sources,
        )

    def _groups(self, source: Release, encoder: SchemaEncoder | None) -> PlannedGroups:
        """Return the source's groups: in bodies where its noise was shaped like the rows."""
        released, models = _stack_facts(source)
        groups = tuple(model.features for model in models)
        shaped = encoder is not None and encoder.shaped and source.model.facts.body is not None
        if self.noise == "schema" and not shaped:
            raise InvalidParameter(
                "noise='schema' needs schema= and sources whose noise was shaped by it."
            )
        if encoder is not None and shaped and self.noise != "ball":
            return SchemaGroups.of_encoded(encoder, groups)
        return GroupRows(
            groups, released.norms, released.rows, released.clipping, released.constant
        )

    def _form(self, n_samples: int) -> Form:  # noqa: ARG002
        """Return how the sources encode columns."""
        return form_of(self._open_sources())

    def plot_groups(self, ax: Any = None) -> Any:
        """Draw every group's importance, share of epsilon and noise; returns the axes."""
        return self._draw_groups(ax)

    def _open_sources(self) -> tuple[Release, ...]:
        sources = open_sources(
            self.source,
            kinds=("pst-f", "pst-h"),
            keys=self.source_keys,
            simulation=self.random_state is not None,
        )
        first, first_groups = _stack_facts(sources[0])
        for other, groups in map(_stack_facts, sources[1:]):
            differing = [f for f in SHARED_FACTS if getattr(other, f) != getattr(first, f)]
            if [g.features.tolist() for g in groups] != [g.features.tolist() for g in first_groups]:
                differing.insert(0, "groups")
            if differing:
                raise SchemaMismatch(f"sources disagree on {', '.join(differing)}.")
        return sources


@dataclass(frozen=True, eq=False)
class _Start:
    """Released stacks as one starting point: each group's model, and the high level."""

    sources: tuple[Release, ...]
    groups: PlannedGroups
    n_classes: int = 2

    @property
    def base_rate(self) -> float:
        """Declared share of positive rows; of several classes, as if all were alike."""
        if self.n_classes > 2:
            return 1 / self.n_classes
        return float(special.expit(_stack_facts(self.sources[0])[0].baseline))

    @property
    def low_precisions(self) -> NDArray[np.float64]:
        """How precisely each source tells a weight of each group, ``(sources, groups)``."""
        sizes = [len(group) + 1 for group in self.groups.groups]
        found = []
        for source in self.sources:
            facts = _stack_facts(source)[0]
            spread = sum(sizes) if self.groups.clipping == "joint" else None
            gaussian = source.guarantee.delta > 0
            found.append(
                [
                    precision_of(
                        facts.n_low,
                        spread or size,
                        noise=(1 if gaussian else size + 1) / rate**2,
                        curvature=mean_curvature(self.base_rate),
                    )
                    for size, rate in zip(sizes, facts.rates, strict=True)
                ]
            )
        return np.asarray(found)

    @property
    def variance(self) -> float:
        """Of the log odds around the combined low level: the mean of the groups'."""
        return float(np.mean([variance_near(each) for each in self.low_precisions.T]))

    def centres(self, keep: NDArray[np.float64]) -> Centres:
        """Return every group's point to shrink towards: so much of the sources' coefficients.

        The intercept is no opinion about columns: it is kept whatever they are worth.
        """
        models = [_stack_facts(source)[1] for source in self.sources]
        centres = []
        for k, precise in enumerate(self.low_precisions.T):
            coef = np.average([low[k].coef for low in models], axis=0, weights=precise)
            intercept = np.average([low[k].intercept for low in models], axis=0, weights=precise)
            centres.append((keep[k] * coef, intercept))
        return centres

    def high(self) -> HighStart | None:
        """Return the sources' high level; None unless every one of them has it."""
        stacks = [source.model for source in self.sources if isinstance(source.model, Stack)]
        if any(stack.combine != "stack" for stack in stacks):
            return None
        sharpness = stacks[0].groups[0].sharpness
        several = self.n_classes > 2  # there is a weight per group, and no intercept
        size = len(self.groups.groups) + (not several)
        precise, points = [], []
        for source, stack in zip(self.sources, stacks, strict=True):
            facts = _stack_facts(source)[0]
            rest = known(stack.facts.n_samples, "n_samples") - facts.n_low
            noise = noise_variance(source.guarantee.epsilon, size, 0.5)
            curvature = mean_curvature(0.5 if several else self.base_rate)
            precise.append(precision_of(rest, size, noise=noise, curvature=curvature))
            # Scores that are sharper need smaller weights for the same log odds.
            coef = stack.coef * stack.groups[0].sharpness / sharpness
            points.append(2 * coef if several else high_level_weights(coef, stack.intercept))
        weights = np.average(points, axis=0, weights=precise)
        return HighStart(weights, sharpness, variance_near(precise))

    def prior(self, n_features: int, keep: NDArray[np.float64]) -> Prior:
        """Return the stacks' log odds as a linear function of the columns, for the check."""
        several = self.n_classes > 2
        coef = np.zeros((self.n_classes if several else 1, n_features))
        start = self.high()
        n_groups = len(self.groups.groups)
        factors = np.ones(n_groups)
        if start is not None:
            # A meta feature is tanh(s/2)/sqrt(K), about s/2 where scores are small.
            shrunk = start.weights / 2 if several else high_level_coefficients(start.weights)[0]
            factors = shrunk * start.sharpness / (2 * n_groups**0.5)
        groups, bound = self.groups, 1.0
        if isinstance(groups, SchemaGroups) and start is not None:
            factors = factors / self._bent(groups, start)
        each = np.broadcast_to(keep, n_groups)
        centres = self.centres(each * factors)
        for group, (scores, _) in zip(groups.groups, centres, strict=True):
            coef[:, group] = scores
        if not isinstance(groups, SchemaGroups) and groups.rule == "clip":
            bound = float(max(groups.norms))
        return Prior(
            coef,
            0.0 if several else _stack_facts(self.sources[0])[0].baseline,
            variance=self.variance,
            data_norm=bound,
            most=1.0,
            encoder=groups.encoder if isinstance(groups, SchemaGroups) else None,
        )

    def _bent(self, groups: SchemaGroups, start: HighStart) -> NDArray[np.float64]:
        """Return by how much less than in the middle ``tanh`` grows with scores that spread.

        Rows in bodies are not shrunk to a bound, and neither are scores: groups that tell much lie
        where a meta feature is nearly full.
        """
        found = []
        for group, (scores, _) in zip(
            groups.groups, self.centres(np.ones(len(groups.groups))), strict=True
        ):
            coef = np.zeros((np.atleast_2d(scores).shape[0], len(groups.encoder.names)))
            coef[:, group] = scores
            deviation = Prior(coef, encoder=groups.encoder).deviation
            found.append(intercept_of(1.0, start.sharpness * deviation))
        return np.array(found)


def _stack_facts(release: Release) -> tuple[StackFacts, tuple[LowLevelModel, ...]]:
    """Return the plan and the low level of a released stack over feature groups."""
    model = release.model
    if not isinstance(model, Stack) or model.facts.stack is None:
        raise InvalidRelease(
            f"a release of kind {release.kind!r} has no feature groups to start from."
        )
    facts = model.facts.stack
    if not len(model.groups) == len(facts.norms) == len(facts.ridges) == len(facts.rates):
        raise InvalidRelease("source states other facts than its groups have; do not use it.")
    return facts, model.groups
