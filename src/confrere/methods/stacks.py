"""Stacks: private models of parts of the data, and a private model that combines them.

Over parts of the rows (PST-S, docs/proofs/sample_stacking.md), or over groups of features (PST-F,
docs/proofs/feature_groups.md; PST-H, PPTL-FS: docs/proofs/transfer.md). Splits never look at data.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import special

from confrere.arrays import Floats
from confrere.data.encoding import SchemaEncoder, score_moments
from confrere.data.frame import Clipping, GroupRows, Groups, into_ball
from confrere.data.grouping import PlannedGroups, SchemaGroups
from confrere.errors import InvalidParameter, InvalidRelease, SchemaMismatch
from confrere.kernel.guarantee import Priced, Split
from confrere.kernel.measurements import Act, Objective, RowCount, declared_count
from confrere.kernel.noise import HiddenSize, RandomSource
from confrere.ledger.compose import Apart
from confrere.methods.allowance import (
    APART,
    LOG_ODDS,
    intercept_of,
    mean_curvature,
    noise_variance,
    precision_of,
    variance_near,
)
from confrere.methods.geometry import PLAIN, SHAPED, ExpectedArea
from confrere.methods.plan import (
    Coordinates,
    LabelledTable,
    ModelPlan,
    Names,
    Source,
    Term,
    coefficients,
)
from confrere.methods.priors import Prior, stated
from confrere.model import Facts, Link, LowLevelModel, Stack, StackFacts
from confrere.model.models import meta_features
from confrere.simulation import SeededSource

Combiner = Literal["stack", "vote", "weighted_vote"]

#: The public constant of the high level, inside its norm bound.
HIGH_LEVEL_CONSTANT = 0.5
_SHRINK = math.sqrt(1 - HIGH_LEVEL_CONSTANT**2)


@dataclass(frozen=True, eq=False)
class Division:
    """Disjoint parts of the rows, made without looking at them."""

    #: Of all rows. Where it is not public every row draws its part: a place among the others would
    #: move when one of them goes.
    count: RowCount
    fractions: tuple[float, ...]  #: Of the parts; the high level's last
    seed: int | None  #: Public, of the permutation; None keeps the rows in their order

    @property
    def split(self) -> Split:
        if isinstance(self.count, HiddenSize):
            return Split.BY_OWN_DRAW
        return Split.BY_INDEX if self.seed is None else Split.SEEDED_PERMUTATION

    @cached_property
    def counts(self) -> tuple[RowCount, ...]:
        if not isinstance(self.count, HiddenSize):
            return tuple(np.diff(part_ends(self.count, self.fractions), prepend=0).tolist())
        declared, whole = self.count.declared, math.fsum(self.fractions)
        return tuple(HiddenSize(max(1, round(declared * f / whole))) for f in self.fractions)

    def parts(self, n_rows: int, source: RandomSource) -> list[NDArray[np.intp]]:
        if isinstance(self.count, HiddenSize):
            return source.deal(n_rows, self.fractions)
        return split_rows(self.count, self.fractions, seed=self.seed)

    @property
    def records(self) -> tuple[int, ...]:
        return tuple(map(declared_count, self.counts))


@dataclass(frozen=True, eq=False)
class PartRows:
    """Rows in one frame, whichever part of them a model learns from."""

    frame: Coordinates
    count: int  #: Of the parts

    clipping: ClassVar[Clipping] = "separate"

    @property
    def groups(self) -> Groups:
        return (np.arange(self.frame.n_features),) * self.count

    @property
    def sizes(self) -> tuple[int, ...]:
        return (self.frame.size,) * self.count

    def parts(self, X: Floats) -> Sequence[Floats]:
        return [X] * self.count

    def coefficients(self, weights: Floats, _: int) -> tuple[Floats, float]:
        return self.frame.coefficients(weights)

    def baseline(self, intercept: float, _: int) -> Floats:
        return self.frame.weights(None, intercept)


Maps = GroupRows | PartRows


def baselines(maps: Maps, baseline: float, n_classes: int) -> list[Floats]:
    if n_classes > 2:
        return [np.zeros((n_classes, size)) for size in maps.sizes]
    return [maps.baseline(baseline, k) for k in range(len(maps.sizes))]


@dataclass(frozen=True, kw_only=True, eq=False)
class StackPlan(ModelPlan):
    """Low-level models on parts of the data, then a high level on rows that they did not see."""

    low: tuple[Objective, ...]  #: Of disjoint parts of the rows: one each, or of all groups at once
    maps: Maps  #: From rows to those of every low-level model
    importances: Floats  #: Their shares of importance
    combiner: Combiner  #: How several models are combined
    high: Objective | None  #: None where votes or a single model need no second part
    division: Division  #: Into parts of the low level, and the high level's last
    baseline: float  #: Public score of the base rate: what every intercept shrinks towards
    #: Factor on the low level's scores of another organisation's high level to start from
    sharpness: float | None = None
    sources: tuple[Source, ...] = ()  #: Released stacks that it starts from
    expected: ExpectedArea | None = None  #: Its area by public facts, near sources of two classes
    known: float = 0.0  #: Share of the signal that sources keep by themselves

    @property
    def n_classes(self) -> int:
        """Of more than two the high level weighs groups, the same for all: :func:`margin_rows`."""
        return self.low[0].loss.n_classes

    @property
    def acts(self) -> list[Act]:
        return [act for mechanism in self.low for act in mechanism.acts]

    @property
    def names(self) -> list[str]:
        count, sizes = len(self.maps.groups), self.division.records
        if isinstance(self.maps, PartRows):
            return [f"part {k} ({size} rows)" for k, size in enumerate(sizes[:count])]
        return [f"group {k}" for k in range(count)]

    @cached_property
    def baselines(self) -> list[Floats]:
        return baselines(self.maps, self.baseline, self.n_classes)

    @property
    def priced(self) -> Priced:
        """All mechanisms, of disjoint parts: the price is the largest of them."""
        every = (*self.low, *self.later_mechanisms())
        page = "sample_stacking" if isinstance(self.maps, PartRows) else "feature_groups"
        proof = f"docs/proofs/{page}.md"
        return every[0] if len(every) == 1 else Apart(every, self.division.split, proof)

    def facts(self) -> Facts:
        records, maps = self.division.records, self.maps
        if isinstance(maps, PartRows):
            return Facts(n_samples=sum(records))
        told = StackFacts(
            norms=tuple(map(float, maps.norms)),
            clipping=maps.clipping,
            constant=float(maps.constant),
            n_low=records[0],
            baseline=float(self.baseline),
            ridges=tuple(float(act.ridge) for act in self.acts),
            rates=tuple(float(act.law.rate) for act in self.acts),
        )
        # Columns of every factor of the groups' bodies, without the constants.
        body = tuple(size for one in maps.bodies for size in one.sizes[:-1]) or None
        return Facts(n_samples=sum(records), body=body, stack=told)

    def low_terms(self, data: LabelledTable, parts: Sequence[NDArray[np.intp]]) -> list[Term]:
        mapped: list[object]
        if isinstance(self.maps, PartRows):
            whole = self.maps.frame.rows(data.X)
            mapped = [[whole[part]] for part in parts]
        else:
            mapped = [self.maps(data.X[parts[0]])]
        names = self.names if len(self.low) > 1 else ["low level"]
        labels = data.labels
        return [
            Term(name, mechanism, (rows, labels[part]))
            for name, mechanism, rows, part in zip(names, self.low, mapped, parts, strict=False)
        ]

    def release(self, data: LabelledTable, source: RandomSource) -> dict[str, Floats]:
        own, rows_of = source.apart(self.division.split), self._parts(data, source)
        weights: list[Floats] = []
        for term in self.low_terms(data, rows_of):
            weights += [each[0] for each in next(own).draw(term.mechanism, term.data)]
        released = {f"low_{k}": w for k, w in enumerate(weights)}
        if self.high is not None:
            last = rows_of[-1]
            scores = self.scores(self._models(weights), data.X[last])
            if self.n_classes > 2:
                codes, labels = data.codes[last].astype(np.intp), np.ones(len(last))
                rows = margin_rows(scores, codes)
            else:
                rows = into_ball(meta_features(scores), constant=HIGH_LEVEL_CONSTANT)
                labels = data.labels[last]
            ((released["high"],),) = next(own).draw(self.high, ([rows], labels))
        return released

    def terms(self, data: LabelledTable) -> list[Term]:
        return self.low_terms(data, self._parts(data, SeededSource(0)))

    def _parts(self, data: LabelledTable, source: RandomSource) -> list[NDArray[np.intp]]:
        return self.division.parts(len(data.codes), source)

    @property
    def batched(self) -> bool:
        return self.n_classes == 2 and isinstance(self.division.count, int)

    def assemble(self, released: Mapping[str, Floats], names: Names) -> Stack:
        low = self._models([released[f"low_{k}"] for k in range(len(self.baselines))])
        return Stack(
            groups=tuple(low),
            facts=self.facts(),
            **vars(names),
            link=Link(1.0 if self.n_classes > 2 else self.low[0].loss.slope),
            **self._combined(low, released.get("high")),
        )

    def bounds(self) -> dict[str, tuple[tuple[int, ...], float]]:
        acts = {f"low_{k}": act for k, act in enumerate(self.acts)}
        acts |= {} if self.high is None else {"high": self.high.act}
        return {name: (act.shape, act.longest) for name, act in acts.items()}

    def _models(self, weights: Sequence[Floats]) -> list[LowLevelModel]:
        factor = 1.0
        if self.high is not None:
            # A source's own: its high level was learned with it.
            learned = [w - base for w, base in zip(weights, self.baselines, strict=True)]
            factor = self.sharpness or common_sharpness(learned)
        return [self.model(k, w, factor) for k, w in enumerate(weights)]

    def model(self, k: int, weights: Floats, sharpness: float) -> LowLevelModel:
        maps, law = self.maps, self.acts[k].law
        whole = isinstance(maps, PartRows)  # every part has the whole price
        coef, intercept = coefficients(lambda w: maps.coefficients(w, k), weights)
        return LowLevelModel(
            name=self.names[k],
            features=maps.groups[k],
            coef=coef[0] if weights.ndim == 1 else coef,
            intercept=float(intercept[0]) if weights.ndim == 1 else intercept,
            importance=float(self.importances[k]),
            epsilon=self.low[k].epsilon if whole else _share(self.low[0], k),
            noise=(math.sqrt(law.size) if self.low[0].delta else law.size) / law.rate,
            baseline=self.baseline,
            sharpness=sharpness,
        )

    def scores(self, models: Sequence[LowLevelModel], X: Floats) -> Floats:
        pairs = zip(self.maps.parts(X), models, strict=True)
        return np.stack([model.score(part) for part, model in pairs], axis=-1)

    def _combined(self, low: Sequence[LowLevelModel], high: Floats | None) -> dict[str, Any]:
        if high is not None:
            coef, intercept = high_level_coefficients(high, self.n_classes)
            return {"coef": coef, "intercept": intercept}
        if len(low) == 1:
            return {"coef": np.ones(1), "intercept": low[0].baseline, "combine": "alone"}
        weighted = self.combiner == "weighted_vote"
        votes = [model.importance if weighted else 1 / len(low) for model in low]
        return {"coef": np.asarray(votes), "combine": "vote"}

    def later_mechanisms(self) -> tuple[Objective, ...]:
        return () if self.high is None else (self.high,)


def _share(made: Objective, k: int) -> float:
    weight = made.blocks[k].weight
    if made.delta:
        return made.epsilon * weight ** (2 if made.joint else 1)
    slope = made.loss.slope if made.loss.n_classes == 2 else 2.0
    return 2 * slope * made.rate * weight


def common_sharpness(released: Sequence[Floats]) -> float:
    """Return what brings the longest of the weights on unit rows to ``sqrt(d)``, at least one."""
    each = [
        (float(np.linalg.norm(one)) / math.sqrt(len(np.atleast_2d(one))), one) for one in released
    ]
    length, longest = max(each, key=lambda pair: pair[0])
    return max(1.0, math.sqrt(longest.shape[-1]) / length) if length else 1.0


# --- the high level -------------------------------------------------------------------------------


def margin_rows(scores: Floats, codes: NDArray[np.intp]) -> Floats:
    """Return rows of several classes for the high level, inside the ball whatever the scores.

    Half of what the meta feature of a record's own class is above the mean of the others': margins
    to the strongest rival would turn weak stacks round.
    """
    meta = meta_features(scores)
    own = meta[np.arange(len(codes)), codes]
    others = (meta.sum(axis=1) - own) / (meta.shape[1] - 1)
    return np.asarray(into_ball((own - others) / 2))


def high_level_prior(factors: Floats, baseline: float, n_classes: int) -> Floats:
    """Return the weighted sum of the low level's logits, ``2 tanh(s/2)`` for small scores."""
    if n_classes > 2:
        return np.asarray(4 * math.sqrt(len(factors)) * factors)
    scale = 2 * math.sqrt(len(factors)) / _SHRINK
    return np.append(scale * factors, baseline / HIGH_LEVEL_CONSTANT)


def high_level_coefficients(weights: Floats, n_classes: int) -> tuple[Floats, float]:
    if n_classes > 2:
        return np.asarray(weights / 2), 0.0
    return np.asarray(weights[:-1] * _SHRINK), float(weights[-1] * HIGH_LEVEL_CONSTANT)


# --- parts ----------------------------------------------------------------------------------------


#: Share of the rows for the high level of a stack, of two classes and of more; and the fewest of
#: them, as far as half of the rows go.
_HIGH, _HIGH_CLASSES, _HIGH_ROWS = 0.5, 0.05, 20


def split_rows(
    n_rows: int, fractions: Sequence[float], *, seed: int | None = 0
) -> list[NDArray[np.intp]]:
    ends = part_ends(n_rows, fractions)
    order = np.arange(n_rows) if seed is None else np.random.default_rng(seed).permutation(n_rows)
    return np.split(order, ends[:-1])


def part_ends(n_rows: int, fractions: Sequence[float]) -> NDArray[np.intp]:
    """Return where parts end; somebody else's number of rows may be anything, and is not made."""
    weights = np.asarray(fractions, dtype=np.float64)
    if weights.ndim != 1 or not np.all(np.isfinite(weights) & (weights >= 0)) or not weights.sum():
        raise InvalidParameter("fractions must be numbers >= 0 with a positive sum.")
    return np.asarray(np.rint(np.cumsum(weights) / weights.sum() * n_rows), dtype=np.intp)


def high_share(fraction: float | Literal["auto"], n_rows: int, n_classes: int) -> float:
    """Return the share of the rows for the high level: of several classes it needs few."""
    if fraction != "auto":
        return float(fraction)
    if n_classes == 2:
        return _HIGH
    return max(_HIGH_CLASSES, min(_HIGH, _HIGH_ROWS / max(n_rows, 1)))


# --- released stacks ------------------------------------------------------------------------------

#: Coefficients and intercept of every group: a public point to shrink towards.
Centres = Sequence[tuple[Floats, float | Floats]]


@dataclass(frozen=True, eq=False)
class HighStart:
    weights: Floats  #: Of the high level's rows, the constant last
    sharpness: float  #: Factor on the low level's scores that it was learned with
    variance: float  #: Of the log odds around it


def stack_facts(source: Source) -> tuple[StackFacts, tuple[LowLevelModel, ...]]:
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
    first, first_groups = stack_facts(sources[0])
    for other, groups in map(stack_facts, sources[1:]):
        shared = ("norms", "clipping", "constant")
        differing = [f for f in shared if getattr(other, f) != getattr(first, f)]
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

    @cached_property
    def told(self) -> list[tuple[StackFacts, tuple[LowLevelModel, ...]]]:
        return [stack_facts(source) for source in self.sources]

    @property
    def baseline(self) -> float:
        return self.told[0][0].baseline

    @property
    def importances(self) -> Floats:
        return np.array([model.importance for model in self.told[0][1]])

    @property
    def base_rate(self) -> float:
        """Declared share of positive rows; of several classes, as if all were alike."""
        return 1 / self.n_classes if self.n_classes > 2 else float(special.expit(self.baseline))

    @cached_property
    def low_precisions(self) -> Floats:
        """How precisely each source tells a weight of each group, ``(sources, groups)``."""
        pairs = zip(self.told, (source.guarantee.delta > 0 for source in self.sources), strict=True)
        return np.array([self._precisions(facts, gaussian) for (facts, _), gaussian in pairs])

    def _precisions(self, facts: StackFacts, gaussian: bool) -> list[float]:
        sizes = [len(group) + 1 for group in self.groups.groups]
        spread = sum(sizes) if self.groups.clipping == "joint" else None
        curvature, found = mean_curvature(self.base_rate), []
        for size, rate in zip(sizes, facts.rates, strict=True):
            noise = (1 if gaussian else size + 1) / rate**2
            known = precision_of(facts.n_low, spread or size, noise=noise, curvature=curvature)
            found.append(known)
        return found

    def shown_by(self, plan: StackPlan) -> StackPlan:
        """Return a plan of two classes with what its low level is expected to add to the sources.

        Group by group, of what the sources leave open: as a fit around one model is forecast.
        """
        facts = plan.facts().stack
        assert facts is not None
        own = np.array(self._precisions(facts, plan.low[0].delta > 0))
        before = LOG_ODDS * self.low_precisions.sum(axis=0)
        known = before / (1 + before)
        left = 1 - known + APART
        shown = LOG_ODDS * left * own / (1 + LOG_ODDS * left * own)
        both = (known, np.minimum(1.0, known + left * shown))
        had, kept = (float(np.average(each, weights=self.importances)) for each in both)
        power = SHAPED if isinstance(self.groups, SchemaGroups) else PLAIN
        return replace(plan, expected=ExpectedArea(kept, exponent=power), known=had)

    @property
    def variance(self) -> float:
        """Of the log odds around the combined low level: the mean of the groups'."""
        return float(np.mean([variance_near(each) for each in self.low_precisions.T]))

    def centres(self, keep: Floats) -> Centres:
        """Return so much of the sources' coefficients; intercepts are kept as they are."""
        models, centres = [low for _, low in self.told], []
        for k, precise in enumerate(self.low_precisions.T):
            coef = np.average([low[k].coef for low in models], axis=0, weights=precise)
            intercept = np.average([low[k].intercept for low in models], axis=0, weights=precise)
            centres.append((keep[k] * coef, intercept))
        return centres

    @cached_property
    def high(self) -> HighStart | None:
        stacks = [source.model for source in self.sources if isinstance(source.model, Stack)]
        if any(stack.combine != "stack" for stack in stacks):
            return None
        sharpness = stacks[0].groups[0].sharpness
        several = self.n_classes > 2  # there is a weight per group, and no intercept
        size = len(self.groups.groups) + (not several)
        curvature = mean_curvature(0.5 if several else self.base_rate)
        precise, points = [], []
        for source, stack, (facts, _) in zip(self.sources, stacks, self.told, strict=True):
            rest = stated(stack.facts.n_samples, "n_samples") - facts.n_low
            noise = noise_variance(source.guarantee.epsilon, size, 0.5)
            precise.append(precision_of(rest, size, noise=noise, curvature=curvature))
            # Sharper scores need smaller weights; then as high_level_coefficients, inverted.
            coef = stack.coef * stack.groups[0].sharpness / sharpness
            level = stack.intercept / HIGH_LEVEL_CONSTANT
            points.append(2 * coef if several else np.append(coef / _SHRINK, level))
        weights = np.average(points, axis=0, weights=precise)
        return HighStart(weights, sharpness, variance_near(precise))

    def prior(self, n_features: int, keep: Floats) -> Prior:
        """Return the stacks' log odds as a linear function of the columns, for the check."""
        several, start, groups = self.n_classes > 2, self.high, self.groups
        encoder = groups.encoder if isinstance(groups, SchemaGroups) else None
        factors = np.ones(len(groups.groups))
        if start is not None:
            # A meta feature is tanh(s/2)/sqrt(K), about s/2 where scores are small.
            shrunk = high_level_coefficients(start.weights, self.n_classes)[0]
            factors = shrunk * start.sharpness / (2 * len(factors) ** 0.5)
            if encoder is not None:
                factors = factors / self._bent(encoder, start)
        coef = np.zeros((self.n_classes if several else 1, n_features))
        for group, (scores, _) in zip(groups.groups, self.centres(keep * factors), strict=True):
            coef[:, group] = scores
        ball = isinstance(groups, GroupRows)
        return Prior(
            coef,
            0.0 if several else self.baseline,
            variance=self.variance,
            data_norm=float(max(groups.norms)) if ball else 1.0,  # type: ignore[union-attr]
            most=1.0,
            moments=None if encoder is None else score_moments(encoder, coef),
        )

    def _bent(self, encoder: SchemaEncoder, start: HighStart) -> Floats:
        """Return by how much less than in the middle ``tanh`` grows with scores that spread."""
        found, groups = [], self.groups.groups
        for group, (scores, _) in zip(groups, self.centres(np.ones(len(groups))), strict=True):
            coef = np.zeros((np.atleast_2d(scores).shape[0], len(encoder.names)))
            coef[:, group] = scores
            deviation = Prior(coef, moments=score_moments(encoder, coef)).deviation
            found.append(intercept_of(1.0, start.sharpness * deviation))
        return np.array(found)
