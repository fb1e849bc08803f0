"""From a main hospital to a branch, group of features by group (PST-H, PPTL-FS)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import special

from confrere.errors import InvalidParameter, InvalidRelease, SchemaMismatch
from confrere.estimators.constraints import Weights
from confrere.estimators.stacking import StackingClassifier
from confrere.estimators.starting_points import (
    SourceLike,
    check_classes,
    check_same_meaning,
    form_of,
    known,
    open_sources,
)
from confrere.maths.partition import allocate
from confrere.maths.prior_ridge import (
    DECLARED,
    UNKNOWN,
    intercept_of,
    mean_curvature,
    noise_variance,
    precision_of,
    variance_near,
)
from confrere.mechanisms.prior_check import UNCHECKED, Belief
from confrere.model import Encoder, LowLevelModel, Stack, StackFacts
from confrere.plans.base_plan import PublicFacts
from confrere.plans.body_plan import Noise
from confrere.plans.checked_plan import CheckedPlan, plan_near
from confrere.plans.declared_priors import ClassPrior, Prior
from confrere.plans.feature_stack_plan import Centres, FeatureStackPlan, plan_feature_stack
from confrere.plans.shaped_groups import PlannedGroups, SchemaGroups
from confrere.plans.stack_plan import HighStart, high_level_coefficients, high_level_weights
from confrere.release import Release
from confrere.rows.groups import GroupRows
from confrere.schema import SchemaEncoder
from confrere.schema.encoder import Form

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
    combiner, high_fraction, allocation, alpha, high_alpha, loss, calibration, split_seed
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
    :Neighbours: replace one row of the target's ``(X, y)``
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
    allocation: Literal["importance", "least-noise"] = "importance"
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
        if not self.prior_check:
            return self._fit_plan(facts, self.epsilon, start, UNCHECKED)
        prior = start.prior(facts.n_features, 1 - np.asarray(self.eta, dtype=np.float64))
        if prior.deviation == 0:
            return self._fit_plan(facts, self.epsilon, start, UNCHECKED)
        return plan_near(
            prior,
            lambda epsilon, belief: self._fit_plan(facts, epsilon, start, belief),
            epsilon=self.epsilon,
            n_samples=facts.n_samples,
            sources=sources,
        )

    def _fit_plan(
        self, facts: PublicFacts, epsilon: float, start: _Start, belief: Belief
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
            facts.n_samples,
            groups,
            importances,
            allocate(
                importances,
                [len(group) for group in groups.groups],
                clipping=groups.clipping,
                allocation=self.allocation,
            ),
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

    def prior(self, n_features: int, keep: NDArray[np.float64]) -> Prior | ClassPrior:
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
        groups, moments, bound = self.groups, None, 1.0
        if isinstance(groups, SchemaGroups) and start is not None:
            factors = factors / self._bent(groups, start)
        each = np.broadcast_to(keep, n_groups)
        centres = self.centres(each * factors)
        for group, (scores, _) in zip(groups.groups, centres, strict=True):
            coef[:, group] = scores
        if isinstance(groups, SchemaGroups):
            moments = groups.encoder.score_moments(coef[0])
        elif groups.rule == "clip":
            bound = float(max(groups.norms))
        if several:
            return ClassPrior(coef, np.zeros(self.n_classes), self.variance, bound)
        return Prior(
            coef[0],
            _stack_facts(self.sources[0])[0].baseline,
            variance=self.variance,
            data_norm=bound,
            most=1.0,
            moments=moments,
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
            coef = np.zeros(len(groups.encoder.names))
            coef[group] = scores
            deviation = groups.encoder.score_moments(coef)[1]
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
