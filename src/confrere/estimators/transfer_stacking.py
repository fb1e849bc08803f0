"""From a main hospital to a branch, group of features by group (PST-H, PPTL-FS)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from confrere.errors import InvalidParameter, InvalidRelease, SchemaMismatch
from confrere.estimators.constraints import Weights
from confrere.estimators.stacking import StackingClassifier
from confrere.estimators.starting_points import SourceLike, check_same_meaning, open_sources
from confrere.maths.partition import allocate
from confrere.model import Encoder, LowLevelModel, Stack, StackFacts
from confrere.plans.base_plan import PublicFacts
from confrere.plans.feature_stack_plan import FeatureStackPlan, plan_feature_stack
from confrere.release import Release
from confrere.rows.groups import GroupRows

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
    combiner, high_fraction, allocation, alpha, high_alpha, loss, calibration, split_seed
        As in :class:`FeatureStackingClassifier`. The automatic ridge of the low level is multiplied
        by ``1 + n_source / n_target``.
    schema : PublicSchema or SchemaEncoder, optional
        What raw columns mean: ``fit`` takes raw tables, and a source with another meaning is
        refused.
    source_keys : mapping of party to public key, optional
        Signatures that a source read from disk must carry.
    data_norm : None
        Comes from the source; kept so that all estimators share their common parameters.
    classes : list, optional
        The public label set, two labels.
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
    :Neighbours: replace one row of the target's ``(X, y)``
    :Guarantee: ``epsilon``-DP, pure, for the target's records; the sources' hold as released
    :Spends: ``epsilon`` on ``account``, once per ``fit``, before noise is drawn
    :Public: n_samples, n_features, the label set, groups, importances, the sources, every parameter
    :Releases: low_level_, high_level_
    :Proof: docs/proofs/transfer.md
    """

    source: SourceLike | Sequence[SourceLike] | None = None
    eta: Weights = 0.0
    data_norm: None = None
    allocation: Literal["importance", "least-noise"] = "importance"
    source_keys: Mapping[str, Any] | None = None

    _kind = "pst-h"
    _weighted = False

    def plan(self, facts: PublicFacts) -> FeatureStackPlan:
        """Return everything that is decided before the data are touched; reads the sources."""
        if self.data_norm is not None:
            raise InvalidParameter("data_norm comes from the source; leave it None.")
        sources = self._open_sources()
        encoder = self._encoder()
        check_same_meaning(
            sources,
            features=facts.features,
            classes=facts.classes,
            encoder=None if encoder is None else Encoder.of(encoder),
        )
        if len(sources[0].model.features) != facts.n_features:
            raise InvalidParameter("n_features must be the source's number of columns.")
        released, models = _stack_facts(sources[0])
        rows = GroupRows(
            tuple(model.features for model in models),
            released.norms,
            released.rows,
            released.clipping,
            released.constant,
        )
        importances = np.array([model.importance for model in models])
        return plan_feature_stack(
            facts.n_samples,
            rows,
            importances,
            allocate(
                importances,
                [len(group) for group in rows.groups],
                clipping=rows.clipping,
                allocation=self.allocation,
            ),
            epsilon=self.epsilon,
            combiner=self.combiner,
            high_fraction=self.high_fraction,
            alpha=self.alpha,
            high_alpha=self.high_alpha,
            calibration=self.calibration,
            loss=self.loss,
            split_seed=self.split_seed,
            baseline=released.baseline,
            n_source=sum(_stack_facts(source)[0].n_low for source in sources),
            centres=self._centres(rows, sources),
            sources=sources,
        )

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

    def _centres(self, rows: GroupRows, sources: Sequence[Release]) -> list[NDArray[np.float64]]:
        """Return every group's point to shrink towards, in the unit ball's coordinates."""
        n_groups = len(rows.groups)
        eta = np.broadcast_to(np.atleast_1d(np.asarray(self.eta, dtype=np.float64)), n_groups)
        models = [_stack_facts(source)[1] for source in sources]
        centres = []
        for k in range(n_groups):
            precision = np.array([_precision(release, k) for release in sources])
            points = [rows.weights(low[k].coef, low[k].intercept, k) for low in models]
            combined = np.average(points, axis=0, weights=precision)
            centres.append(np.asarray((1 - eta[k]) * combined))
        return centres


def _precision(release: Release, k: int) -> float:
    """Return what the noise leaves of group ``k``; see :func:`precision_weights`."""
    facts, groups = _stack_facts(release)
    stiffness = facts.ridges[k] + facts.n_low / (4 * len(groups[k].features))
    return float((facts.rates[k] * stiffness) ** 2)


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
