"""Models that others have released, as a starting point: checked that they fit, brought to one.

All of it is public, so starting from releases costs nothing. Proof: docs/proofs/transfer.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import special

from confrere.arrays import Floats
from confrere.data import SchemaEncoder
from confrere.data.body import GroupRows
from confrere.data.encoding import Form
from confrere.errors import InvalidParameter, InvalidRelease, SchemaMismatch
from confrere.kernel.guarantee import Guarantee
from confrere.methods.allowance import (
    MISSED,
    intercept_of,
    mean_curvature,
    noise_variance,
    precision_of,
    variance_near,
)
from confrere.methods.plan import PublicFacts
from confrere.methods.priors import Prior
from confrere.methods.stacks import (
    Centres,
    HighStart,
    PlannedGroups,
    SchemaGroups,
    high_level_coefficients,
    high_level_weights,
)
from confrere.model import Encoder, Linear, LowLevelModel, Model, Stack, StackFacts

#: The public facts on which stacks must agree that are started from together.
SHARED_FACTS = ("norms", "rows", "clipping", "constant")


class Source(Protocol):
    """A released model that a fit starts from."""

    @property
    def release_id(self) -> str:
        """What the ledger notes."""

    @property
    def kind(self) -> str:
        """Of what it is a release."""

    @property
    def model(self) -> Model:
        """What was released."""

    @property
    def guarantee(self) -> Guarantee:
        """What was promised to those whom it was learned from."""


def check_same_meaning(
    sources: Sequence[Source],
    *,
    features: Sequence[str] | None,
    classes: NDArray[Any] | None,
    encoder: Encoder | None,
) -> None:
    """Refuse sources that do not speak of the same features, in the same order, and labels.

    Without features and classes there is nothing to compare: only a price is asked.
    """
    if features is None or classes is None:
        return
    for source in sources:
        theirs = source.model.encoder
        if encoder is not None and theirs is not None:
            encoder.schema.require_same(theirs.schema)
        if source.model.features != tuple(features):
            raise SchemaMismatch(
                "source and target have different features:\n"
                + _difference(source.model.features, features)
            )
        if list(source.model.classes) != classes.tolist():
            raise SchemaMismatch(
                f"source has classes {list(source.model.classes)}, the target declares "
                f"{classes.tolist()}."
            )
        if encoder is None:
            continue
        if theirs is None:
            raise SchemaMismatch(
                "source carries no encoder to compare with; ask for a release of a model that was "
                "fitted with schema=..."
            )
        if not encoder.same_encoding(theirs):
            raise SchemaMismatch("source encodes its rows in another way; rows and weights differ.")


def check_sources(
    sources: Sequence[Source], facts: PublicFacts, encoder: SchemaEncoder | None
) -> None:
    """Refuse sources of other features, labels or encodings than a target has."""
    check_same_meaning(
        sources,
        features=facts.features,
        classes=facts.classes,
        encoder=None if encoder is None else Encoder.of(encoder),
    )
    if any(len(source.model.classes) != facts.n_classes for source in sources):
        raise SchemaMismatch("source has another number of classes than the target.")


def _difference(theirs: Sequence[str], ours: Sequence[str]) -> str:
    if len(theirs) != len(ours):
        return f"  source has {len(theirs)} columns, target {len(ours)}"
    pairs = [(j, a, b) for j, (a, b) in enumerate(zip(theirs, ours, strict=True)) if a != b]
    lines = [f"  column {j}: source {a!r}, target {b!r}" for j, a, b in pairs[:10]]
    if len(pairs) > 10:
        lines.append(f"  and {len(pairs) - 10} more")
    return "\n".join(lines)


def form_of(sources: Sequence[Source]) -> Form:
    """Return how sources encode columns: whoever starts from them does the same."""
    encoders = [source.model.encoder for source in sources]
    forms = {encoder.form for encoder in encoders if encoder is not None}
    return forms.pop() if len(forms) == 1 else "standardised"


def _known(fact: float | None, name: str) -> float:
    """Return a fact that a source must state to be started from."""
    if fact is None:
        raise InvalidRelease(f"source does not state its {name}; it cannot be started from.")
    return fact


def _precisions(sources: Sequence[Source], size: int, base_rate: float) -> Floats:
    """Return how precisely each source tells a weight: of the noise, and of its records.

    An average of parties has noise from each.
    """
    found = []
    for source in sources:
        facts = source.model.facts
        if facts.sigma is not None:
            noise = facts.sigma**2
        elif facts.rho is not None:
            noise = (size + 1) / facts.rho**2
        else:
            # Noise of a capped loss at that price, for every party whose model is averaged.
            noise = (facts.parties or 1) * noise_variance(source.guarantee.epsilon, size, 0.5)
        records = _known(facts.n_samples, "n_samples")
        curvature = mean_curvature(base_rate)
        found.append(precision_of(records, size, noise=noise, curvature=curvature))
    return np.asarray(found)


def released_prior(
    sources: Sequence[Source],
    size: int,  # Number of weights, the intercept among them
    keep: float,  # How much of the sources' weights is shrunk towards
    **told: Any,  # What a prior knows of the rows
) -> Prior:
    """Return so much of linear models' weights, and what they leave unknown."""
    models = [source.model for source in sources if isinstance(source.model, Linear)]
    intercepts = np.array([model.intercept for model in models])
    coefs = np.array([model.coef for model in models])

    def around(coef: Floats, intercept: Floats, variance: float = 0.0) -> Prior:
        known = Prior(coef, variance=variance, most=1.0, released=intercept, **told)
        return known.with_shares()

    rate = around(coefs.mean(axis=0), intercepts.mean(axis=0)).base_rate
    precise = _precisions(sources, size, rate)
    shares = keep * precise / precise.sum()
    missed = MISSED if len(coefs[0]) == 1 else 0.0
    left = variance_near(precise, missed=missed)
    return around(np.tensordot(shares, coefs, 1), shares @ intercepts, left)


def stack_facts(source: Source) -> tuple[StackFacts, tuple[LowLevelModel, ...]]:
    """Return the plan and the low level of a released stack over feature groups."""
    model = source.model
    if not isinstance(model, Stack) or model.facts.stack is None:
        raise InvalidRelease(
            f"a release of kind {source.kind!r} has no feature groups to start from."
        )
    facts = model.facts.stack
    if not len(model.groups) == len(facts.norms) == len(facts.ridges) == len(facts.rates):
        raise InvalidRelease("source states other facts than its groups have; do not use it.")
    return facts, model.groups


def check_stacks(sources: Sequence[Source], n_features: int) -> None:
    """Refuse stacks over other groups, or of other columns than a target has."""
    first, first_groups = stack_facts(sources[0])
    for other, groups in map(stack_facts, sources[1:]):
        differing = [f for f in SHARED_FACTS if getattr(other, f) != getattr(first, f)]
        if [g.features.tolist() for g in groups] != [g.features.tolist() for g in first_groups]:
            differing.insert(0, "groups")
        if differing:
            raise SchemaMismatch(f"sources disagree on {', '.join(differing)}.")
    if len(sources[0].model.features) != n_features:
        raise InvalidParameter("n_features must be the source's number of columns.")


@dataclass(frozen=True, eq=False)
class StackStart:
    """Released stacks as one starting point: each group's model, and the high level."""

    sources: tuple[Source, ...]
    groups: PlannedGroups
    n_classes: int = 2

    @property
    def baseline(self) -> float:
        """Public score of the base rate."""
        return stack_facts(self.sources[0])[0].baseline

    @property
    def importances(self) -> Floats:
        """Of the groups."""
        return np.array([model.importance for model in stack_facts(self.sources[0])[1]])

    @property
    def base_rate(self) -> float:
        """Declared share of positive rows; of several classes, as if all were alike."""
        return 1 / self.n_classes if self.n_classes > 2 else float(special.expit(self.baseline))

    @cached_property
    def low_precisions(self) -> Floats:
        """How precisely each source tells a weight of each group, ``(sources, groups)``."""
        sizes = [len(group) + 1 for group in self.groups.groups]
        spread = sum(sizes) if self.groups.clipping == "joint" else None
        return np.array(
            [
                [
                    precision_of(
                        stack_facts(source)[0].n_low,
                        spread or size,
                        noise=(1 if source.guarantee.delta > 0 else size + 1) / rate**2,
                        curvature=mean_curvature(self.base_rate),
                    )
                    for size, rate in zip(sizes, stack_facts(source)[0].rates, strict=True)
                ]
                for source in self.sources
            ]
        )

    @property
    def variance(self) -> float:
        """Of the log odds around the combined low level: the mean of the groups'."""
        return float(np.mean([variance_near(each) for each in self.low_precisions.T]))

    def centres(self, keep: Floats) -> Centres:
        """Return every group's point to shrink towards: so much of the sources' coefficients.

        The intercept is no opinion about columns: it is kept whatever they are worth.
        """
        models = [stack_facts(source)[1] for source in self.sources]
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
            rest = _known(stack.facts.n_samples, "n_samples") - stack_facts(source)[0].n_low
            noise = noise_variance(source.guarantee.epsilon, size, 0.5)
            curvature = mean_curvature(0.5 if several else self.base_rate)
            precise.append(precision_of(rest, size, noise=noise, curvature=curvature))
            # Scores that are sharper need smaller weights for the same log odds.
            coef = stack.coef * stack.groups[0].sharpness / sharpness
            points.append(2 * coef if several else high_level_weights(coef, stack.intercept))
        weights = np.average(points, axis=0, weights=precise)
        return HighStart(weights, sharpness, variance_near(precise))

    def prior(self, n_features: int, keep: Floats) -> Prior:
        """Return the stacks' log odds as a linear function of the columns, for the check."""
        several, start, groups = self.n_classes > 2, self.high(), self.groups
        encoder = groups.encoder if isinstance(groups, SchemaGroups) else None
        factors = np.ones(len(groups.groups))
        if start is not None:
            # A meta feature is tanh(s/2)/sqrt(K), about s/2 where scores are small.
            shrunk = start.weights / 2 if several else high_level_coefficients(start.weights)[0]
            factors = shrunk * start.sharpness / (2 * len(factors) ** 0.5)
            if encoder is not None:
                factors = factors / self._bent(encoder, start)
        coef = np.zeros((self.n_classes if several else 1, n_features))
        for group, (scores, _) in zip(groups.groups, self.centres(keep * factors), strict=True):
            coef[:, group] = scores
        bound = 1.0
        if isinstance(groups, GroupRows) and groups.rule == "clip":
            bound = float(max(groups.norms))
        return Prior(
            coef,
            0.0 if several else self.baseline,
            variance=self.variance,
            data_norm=bound,
            most=1.0,
            encoder=encoder,
        )

    def _bent(self, encoder: SchemaEncoder, start: HighStart) -> Floats:
        """Return by how much less than in the middle ``tanh`` grows with scores that spread.

        Rows in bodies are not shrunk to a bound, and neither are scores: groups that tell much lie
        where a meta feature is nearly full.
        """
        found, groups = [], self.groups.groups
        for group, (scores, _) in zip(groups, self.centres(np.ones(len(groups))), strict=True):
            coef = np.zeros((np.atleast_2d(scores).shape[0], len(encoder.names)))
            coef[:, group] = scores
            deviation = Prior(coef, encoder=encoder).deviation
            found.append(intercept_of(1.0, start.sharpness * deviation))
        return np.array(found)
