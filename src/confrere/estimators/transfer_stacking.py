"""From a main hospital to a branch, group of features by group (PST-H, PPTL-FS)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from confrere.errors import InvalidParameter, InvalidRelease, SchemaMismatch
from confrere.estimators.base import PrivateClassifier, check_choice
from confrere.estimators.feature_plan import FeatureStackPlan, plan_feature_stack
from confrere.estimators.group_plot import plot_groups
from confrere.estimators.linear_plan import Alpha, Loss
from confrere.estimators.releasing import release_of
from confrere.estimators.sources import (
    SourceLike,
    check_same_meaning,
    open_sources,
)
from confrere.estimators.stack import Combiner, Stacking, group_rows, stack_model
from confrere.guarantee import Guarantee
from confrere.ledger import Ledger
from confrere.maths.partition import Allocation, allocate
from confrere.mechanisms.objective_perturbation import Calibration
from confrere.model import LowLevelModel, Stack, StackFacts
from confrere.noise.sources import RandomSource, Seed
from confrere.release import Release
from confrere.rows.groups import GroupRows
from confrere.schema import PublicSchema

#: The public facts on which source and target must agree.
SHARED_FACTS = ("norms", "rows", "clipping", "constant")


class TransferStackingClassifier(Stacking, PrivateClassifier):
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
    schema : PublicSchema, optional
        What the target means by its columns; a source with another meaning is refused.
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

    Privacy
    -------
    Unit : record
    Neighbours : replace one row of the target's ``(X, y)``
    Guarantee : ``epsilon``-DP, pure, for the target's records; the sources' hold as released
    Spends : ``epsilon`` on ``account``, once per ``fit``, before noise is drawn
    Public : n_samples, n_features, the label set, groups, importances, the sources, every parameter
    Releases : low_level_, high_level_
    Proof : docs/proofs/transfer.md
    """

    def __init__(
        self,
        *,
        source: SourceLike | Sequence[SourceLike] | None = None,
        eta: float | Sequence[float] = 0.0,
        epsilon: float = 1.0,
        data_norm: None = None,
        combiner: Combiner = "stack",
        high_fraction: float = 0.5,
        allocation: Allocation = "importance",
        alpha: Alpha = "auto",
        high_alpha: Alpha = "auto",
        loss: Loss = "logistic",
        calibration: Calibration = "tight",
        split_seed: int | None = 0,
        schema: PublicSchema | None = None,
        source_keys: Mapping[str, Any] | None = None,
        classes: ArrayLike | None = None,
        ledger: Ledger | None = None,
        account: str | None = None,
        random_state: Seed | None = None,
    ) -> None:
        self.source = source
        self.eta = eta
        self.epsilon = epsilon
        self.data_norm = data_norm
        self.combiner = combiner
        self.high_fraction = high_fraction
        self.allocation = allocation
        self.alpha = alpha
        self.high_alpha = high_alpha
        self.loss = loss
        self.calibration = calibration
        self.split_seed = split_seed
        self.schema = schema
        self.source_keys = source_keys
        self.classes = classes
        self.ledger = ledger
        self.account = account
        self.random_state = random_state

    def price(self, n_samples: int, n_features: int) -> Guarantee:
        """Return what one ``fit`` on data of these sizes would spend; touches no data."""
        self._check_parameters()
        sources = self._open_sources()
        if len(sources[0].model.features) != n_features:
            raise InvalidParameter("n_features must be the source's number of columns.")
        return self._plan(n_samples, sources).guarantee()

    def fit(self, X: Any, y: Any) -> TransferStackingClassifier:
        """Charge ``epsilon``, then release a stack of ``(X, y)`` near the source's."""
        self._check_parameters()
        ledger = self._open_ledger()
        sources = self._open_sources()
        rows, labels, classes = self._validate_binary(X, y)
        meaning = self._meaning(classes)
        check_same_meaning(
            sources, features=meaning["features"], classes=classes, schema=self.schema
        )
        plan = self._plan(len(rows), sources)
        centres = self._centres(plan.rows, sources)
        known = {"rows": plan.rows, "facts": plan.facts(), **meaning}

        def act(randomness: RandomSource) -> Stack:
            low, high = plan.run(rows, labels, randomness, centres=centres)
            return stack_model(low, high, self.combiner, **known)

        self.model_ = self._spend(
            ledger,
            plan.guarantee(),
            act,
            purpose="fit TransferStackingClassifier",
            detail={**plan.detail(), "sources": [release.release_id for release in sources]},
        )
        self.classes_ = classes
        self.sources_ = tuple(sources)
        return self

    def to_release(self, schema: PublicSchema | None = None) -> Release:
        """Return what may leave; its card says what a person in both domains pays."""
        return release_of(self, "pst-h", schema or self.schema, sources=self.sources_)

    def plot_groups(self, ax: Any = None) -> Any:
        """Draw every group's importance, share of epsilon and noise; returns the axes."""
        check_is_fitted(self)
        return plot_groups(self.low_level_, ax=ax)

    def _check_parameters(self) -> None:
        self._check_stack(("stack", "vote", "weighted_vote"))
        check_choice(self.allocation, "allocation", ("importance", "least-noise"))
        if self.data_norm is not None:
            raise InvalidParameter("data_norm comes from the source; leave it None.")
        eta = np.atleast_1d(np.asarray(self.eta, dtype=np.float64))
        if eta.ndim != 1 or not np.all((eta >= 0) & (eta <= 1)):
            raise InvalidParameter("eta must be a number between 0 and 1, or one per group.")

    def _open_sources(self) -> list[Release]:
        if self.source is None:
            raise InvalidParameter("source must be given: the release to start from, or its path.")
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

    def _plan(self, n_samples: int, sources: list[Release]) -> FeatureStackPlan:
        facts, models = _stack_facts(sources[0])
        rows = group_rows(facts, models)
        importances = np.array([model.importance for model in models])
        stacked = self.combiner == "stack" and len(rows.groups) > 1
        share = self.high_fraction if stacked else 0.0
        n_source = sum(_stack_facts(source)[0].n_low for source in sources)
        centres = self._centres(rows, sources)
        return plan_feature_stack(
            n_samples,
            rows,
            importances,
            allocate(
                importances,
                [len(group) for group in rows.groups],
                clipping=rows.clipping,
                allocation=self.allocation,
            ),
            epsilon=self.epsilon,
            high_fraction=share,
            alpha=self.alpha,
            high_alpha=self.high_alpha,
            ridge_factor=1 + n_source / max((1 - share) * n_samples, 1),
            calibration=self.calibration,
            clipping=rows.clipping,
            cap=0.5 if self.loss == "capped" else 1.0,
            split_seed=self.split_seed,
            baseline=facts.baseline,
            prior_norm=max(float(np.linalg.norm(centre)) for centre in centres),
        )

    def _centres(self, rows: GroupRows, sources: list[Release]) -> list[NDArray[np.float64]]:
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

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = False
        tags.classifier_tags.multi_class = False
        return tags


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
