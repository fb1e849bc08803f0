"""Private stacking: parts of the samples (PST-S), or groups of features (PST-F, PST-H, PPTL-FS)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from confrere.estimators.base import (
    AutoFraction,
    Bound,
    Bounds,
    Count,
    Declared,
    Delta,
    Epsilon,
    Experts,
    Finite,
    Fitted,
    Fraction,
    PrivateClassifier,
    Ridge,
    Ridges,
    Weights,
    estimator,
)
from confrere.estimators.transfer import SourceLike, open_sources
from confrere.extras import extra
from confrere.methods.geometry import Noise
from confrere.model import LowLevelModel, Stack
from confrere.release import Release


class HighLevelModel(NamedTuple):
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


@estimator
class StackingClassifier(FittedStack, PrivateClassifier):
    """What every stacking classifier takes.

    Parameters
    ----------
    n_groups : int
        How many groups, or parts of the rows, to make.
    combiner : {"stack", "vote", "weighted_vote"}
        How low-level models are combined. Votes need no part of the rows for a high level, and are
        weighted by importance for groups of features only.
    high_fraction : float or "auto"
        Share of the rows for the high level; ``"auto"`` is 0.5 for two classes, and 0.05 for more.
    alpha : float or "auto"
        Ridge of the low level on the mean loss, for rows in the unit ball.
    high_alpha : float or "auto"
        The same of the high level.
    intercept_scale : float
        Public constant inside every bound.
    split_seed : int or None
        Public seed of the split of rows and of random groups; None splits rows by their index.
    declared_samples : int
        Public stand-in for the number of rows: given, that number is hidden (add-remove
        neighbours), and every row draws its part of the split.
    classes : list
        The public label set. Of more than two labels every low-level model is a softmax
        regression, and the high level weighs groups, the same for all classes.

    Attributes
    ----------
    low_level_ : tuple of LowLevelModel
        Released models with their groups or parts, importances and shares.
    high_level_ : HighLevelModel or None
        The released combination; None for votes and for a single model.
    """

    epsilon: Epsilon = 1.0
    delta: Delta = 0.0
    combiner: Literal["stack", "vote", "weighted_vote"] = "stack"
    high_fraction: AutoFraction = "auto"
    alpha: Ridge = "auto"
    high_alpha: Ridge = "auto"
    loss: Literal["capped", "logistic"] = "capped"
    split_seed: int | None = 0
    declared_samples: Declared = None

    _sparse = False

    def plot_groups(self, ax: Any = None) -> Any:
        """Draw every group's importance, share of epsilon and noise; returns the axes."""
        check_is_fitted(self)
        return plot_groups(self.low_level_, ax=ax)


def plot_groups(models: Sequence[LowLevelModel], *, ax: Any = None) -> Any:
    """Draw importance and share of epsilon as bars, and noise as points on its own axis."""
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


@estimator
class SampleStackingClassifier(StackingClassifier):
    """Private stacking over parts of the samples (PST-S, Algorithm 2).

    Rows are split, without looking at them, into ``n_groups`` parts and one more for the high
    level; every part pays for its own model only, so each gets the whole budget.

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


@estimator
class FeatureStackingClassifier(StackingClassifier):
    """Private stacking over feature groups (PST-F, Algorithm 3); importances make it PST-F(W).

    One private model per group of features is learned on one part of the rows, and a private
    logistic regression on the other part combines them. Important groups get a larger share of the
    budget, hence less noise.

    Parameters
    ----------
    data_norm : float or sequence of float, default=1.0
        Declared bound on the norm of a row's part in a group; one number for all groups or one per
        group. Under joint clipping, one number for the whole row.
    importance : array of shape (n_features,), optional
        Public importances, >= 0: features are grouped by them (W). Without them groups are random
        and equal (U). A schema's own importances are taken unless others are given.
    groups : sequence of int arrays or of lists of names, optional
        Declared groups, every column exactly once; by the names of its columns where there is a
        schema.
    rows : {"clip", "unit"}, default="clip"
        Shorten long rows to the bound, or give every row's part length one.
    clipping : {"joint", "separate"}, default="joint"
        Bound the whole row at once, or every group by itself (the papers).
    alpha : float, "auto" or a sequence of them, default="auto"
        Ridge on the mean loss of the low level; one for all groups in use, or one for each.
    noise : {"auto", "ball", "schema"}, default="auto"
        Which body noise is made for; see :class:`PrivateLogisticRegression`. Where it is the one
        that the schema declares, groups are of whole columns of the schema, each with a body of its
        own: ``importance`` and ``groups`` then speak of these. ``"auto"`` takes the ball if
        ``importance``, ``groups`` by positions, ``rows``, a ``prior`` or a ``delta`` is given.
        ``data_norm``, ``clipping`` and ``intercept_scale`` are the ball's.

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


@estimator
class TransferStackingClassifier(StackingClassifier):
    """A private stack that shrinks, group by group, towards a released one (PST-H, PPTL-FS).

    The source is a release of :class:`FeatureStackingClassifier`; groups of features, their bounds
    and importances come from it, so that both sides mean the same.

    Parameters
    ----------
    eta : float or sequence of float, default=0.0
        Shrink group k towards ``(1 - eta_k)`` times the source's weights.
    alpha : float, "auto" or a sequence of them, default="auto"
        As in :class:`FeatureStackingClassifier`. Automatic ridges follow from what the sources'
        records and noise leave unknown; their high level is where the target's starts.
    noise : {"auto", "ball", "schema"}, default="auto"
        Which body noise is made for: that of the sources, unless a ball is asked for.
        ``"schema"`` is an error where theirs is a ball's.
    data_norm : None
        Comes from the source; kept so that all estimators share their common parameters.

    Attributes
    ----------
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

    def _sources(self) -> tuple[Release, ...]:
        return open_sources(
            self.source,
            kinds=("pst-f", "pst-h"),
            keys=self.source_keys,
            simulation=self.random_state is not None,
        )
