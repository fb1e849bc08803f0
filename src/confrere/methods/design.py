"""From what is asked and public facts to a plan: the one place where a fit is designed.

Form, geometry, law, prior, centre and ridge are chosen here, from settings, declared facts and
public sizes. Nothing in it comes from a record.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from confrere.arrays import Floats
from confrere.data import grouping
from confrere.data.encoding import SchemaEncoder, score_moments
from confrere.data.features import Form
from confrere.data.frame import Clipping, Frame, GroupRows
from confrere.data.schema import PublicSchema
from confrere.errors import InvalidData, InvalidParameter
from confrere.kernel.accountants import Logistic, loss_of
from confrere.kernel.measurements import Columns, Objective
from confrere.kernel.noise import L2, Ball, HiddenSize, Norm
from confrere.methods import stacks
from confrere.methods.allowance import (
    APART,
    DECLARED,
    LOG_ODDS,
    LOSSES,
    UNKNOWN,
    Allowance,
    Alpha,
    Alphas,
    LossName,
    Near,
    alike,
    column_ridges,
    objective,
    ridge_for,
)
from confrere.methods.asking import Colluding, Combine
from confrere.methods.average import Averaging, Collaboration, Expansion
from confrere.methods.geometry import (
    GAIN,
    SHAPED,
    ExpectedArea,
    Geometry,
    GeometryName,
    Leaf,
    SchemaGeometry,
    choose_form,
    expected_in,
    fits,
)
from confrere.methods.plan import (
    Coordinates,
    LinearPlan,
    ModelPlan,
    PublicFacts,
    Source,
    Target,
    plan_linear,
)
from confrere.methods.priors import (
    UNCHECKED,
    Belief,
    Prior,
    check_sources,
    declared_prior,
    form_of,
    plan_near,
    released_prior,
)
from confrere.methods.sums import SUMMED, GradientRounds, LabelContrast, OneMessage

#: What noise is made for in a schema's coordinates by protocols between organisations.
_LEAVES: dict[str, Leaf] = {"average": "Max", "ofpa": "L1"}  # of others L2

#: Methods that learn best from columns as they are: importances deal out epsilon to their groups.
UNWEIGHTED = ("pst-f", "pst-h")

#: From which epsilon on intercepts start from a declared base rate, unless experts say more: below
#: it costs up to .06 AUC (docs/priors.md, "The base rate"), from here on nothing.
BASE_RATE_FROM = 0.5

#: What coefficients are for: scores that rank, or log odds that are read.
Purpose = Literal["prediction", "inference"]


@dataclass(frozen=True)
class AddRemove:
    """Neighbours of which one has a row more: the number of rows is not public.

    ``n_samples`` stands for it: about how many there are, from public knowledge or a noised count.
    """

    n_samples: int

    def __post_init__(self) -> None:
        whole = isinstance(self.n_samples, int | np.integer)
        if not whole or isinstance(self.n_samples, bool) or self.n_samples < 1:
            raise InvalidParameter("n_samples of AddRemove must be a whole number from 1 on.")


@dataclass(frozen=True, kw_only=True, eq=False)
class Settings:
    """What may be asked, by the names of estimators' parameters, and of ``designed`` besides."""

    #: Of its releases: "plr", "transfer", "pst-s", "pst-f", "pst-h", "collaborative", "multiparty"
    kind: str
    epsilon: float = 1.0
    delta: float = 0.0
    purpose: Purpose = "prediction"
    neighbours: Literal["replace-one"] | AddRemove = "replace-one"
    schema: PublicSchema | SchemaEncoder | None = None
    classes: ArrayLike | None = None
    geometry: GeometryName = "l2"
    data_norm: Any = 1.0
    #: Whether there is a public constant inside the norm's bound, and which, between 0 and 1.
    fit_intercept: bool = True
    intercept_scale: float = 0.4
    alpha: Alphas = "auto"
    ridge_floor: float = 2.0  #: The summed ridge is at least this over epsilon
    prior: ArrayLike | None = None
    prior_check: bool = True  #: Whether a noised answer is paid for to how far a prior holds
    #: Log odds to start intercepts from; None is the rule for the schema's base rate
    prior_intercept: Floats | float | None = None
    sources: tuple[Source, ...] = ()
    eta: Any = 0.0
    # Of stacks.
    n_groups: int = 5
    importance: ArrayLike | None = None
    groups: Sequence[ArrayLike] | None = None
    clipping: Clipping = "joint"
    combiner: stacks.Combiner = "stack"
    high_fraction: float | Literal["auto"] = "auto"
    high_alpha: Alpha = "auto"
    split_seed: int | None = 0
    target: Target | None = None  #: Of an outcome that is no class
    # Of several organisations.
    method: str = "average"
    rounds: int = 1
    combine: Combine = "mean"
    collusion_threshold: Colluding = "auto"
    max_retries: int = 0

    @property
    def loss(self) -> LossName:
        return "logistic" if self.read else "capped"

    @property
    def read(self) -> bool:
        """Whether coefficients are read as log odds: nothing else may pull at them."""
        return self.purpose == "inference"

    @property
    def ridge(self) -> Alphas:
        """Ridge of a linear model on the mean loss: none where it is read, so that its floor holds.

        Of noise in an objective: noise on a minimiser, or on coefficients, lives off its ridge.
        """
        least = self.read and isinstance(self.alpha, str) and self.method in ("average", "ofpa")
        return 0.0 if least else self.alpha

    @property
    def meaning(self) -> PublicSchema | None:
        return self.schema.schema if isinstance(self.schema, SchemaEncoder) else self.schema

    @property
    def base_rate(self) -> float | None:
        schema = self.meaning
        return None if schema is None or schema.outcome is None else schema.outcome.base_rate

    @property
    def level(self) -> Floats | float:
        """Log odds that intercepts start from: of the base rate that the schema declares."""
        if self.prior_intercept is not None:
            return self.prior_intercept
        if self.target is not None:
            return self.target.level
        rate = self.base_rate
        # Noise on the minimiser leaves no room for a prior.
        early = self.epsilon < BASE_RATE_FROM and not self.read
        if rate is None or early or self.method == "laplace":
            return 0.0
        return math.log(rate / (1 - rate))

    def allowed(self, n_samples: int, n_classes: int) -> Allowance:
        hidden = isinstance(self.neighbours, AddRemove) and HiddenSize(self.neighbours.n_samples)
        price = {"epsilon": self.epsilon, "delta": self.delta, "count": hidden or n_samples}
        return self.learned(n_classes).allowance(**price, cap=LOSSES[self.loss].slope)

    def learned(self, n_classes: int) -> Target:
        return self.target or Target(LOSSES[self.loss] if n_classes == 2 else loss_of(n_classes))

    def encoder(
        self, n_samples: int | None = None, sizes: Collection[int] = ()
    ) -> SchemaEncoder | None:
        """Return what encodes raw tables; without public sizes, what columns mean."""
        if self.schema is None or isinstance(self.schema, SchemaEncoder):
            return self.schema
        form = "standardised" if n_samples is None else self._form(self.schema, n_samples, sizes)
        if form != "standardised":
            return self.schema.encoder(form=form)
        weighted = self.schema.has_importances and self.kind not in UNWEIGHTED
        return self.schema.encoder(weighted=weighted)

    def _form(self, schema: PublicSchema, n_samples: int, sizes: Collection[int]) -> Form:
        if self.kind in ("transfer", "pst-h"):
            return form_of(self.sources)
        geometry, n_classes = self.geometry, declared_number(schema, self.classes)
        each = self._column_by_column(n_classes)
        allowed = self.allowed(n_samples, n_classes)
        if self.kind == "pst-s":
            allowed = self.allowed(max(1, n_samples // (self.n_groups + 1)), n_classes)
        elif self.kind == "pst-f":
            stacked = self.combiner == "stack"
            share = stacks.high_share(self.high_fraction, n_samples, 2) if stacked else 0.0
            allowed = self.allowed(max(1, round((1 - share) * n_samples)), n_classes).at(delta=0.0)
            geometry = "schema" if geometry == "auto" and not each else geometry
        elif self.kind == "collaborative":
            # The average of M alike has M times the noise variance of one with all records.
            hidden = isinstance(self.neighbours, AddRemove)
            parties = alike([1] * len(sizes) if hidden else sizes) if len(sizes) else 1.0
            parties = SUMMED if self.method == "sums" else parties
            epsilon = self.epsilon / self.rounds / math.sqrt(parties)
            allowed = allowed.at(epsilon=epsilon, delta=0.0)
        experts = isinstance(self._declared(n_classes), str)
        if geometry == "auto" and not each and (self.read or experts):
            # Importances are the experts', inside the schema's geometry.
            geometry = "schema" if fits(schema.encoder(form="curves").blocks()) else geometry
        if geometry == "auto" and (schema.has_importances or each):
            return "standardised"
        form = choose_form(schema, geometry, allowed)
        return "straight" if form != "standardised" and self.read else form

    def contrasts(self, n_classes: int) -> bool:
        """Whether sums are of rows by label, which a declared base rate balances."""
        plain = isinstance(self.alpha, str) and not self.delta and not self.read
        return self.method == "sums" and plain and n_classes == 2 and self.base_rate is not None

    def _declared(self, n_classes: int) -> ArrayLike | None:
        """Return the prior; ``"auto"`` is the experts' where they say signs that can be checked."""
        if not isinstance(self.prior, str) or self.prior == "experts":
            return self.prior
        together = self.method == "average" or self.contrasts(n_classes)
        checked = self.kind == "plr" or (self.kind == "collaborative" and together)
        asked = self.prior == "auto" and not self.read and n_classes == 2
        speak = self.meaning is not None and self.meaning.has_signs
        return "experts" if speak and checked and asked else None

    def opinion(
        self, facts: PublicFacts, encoder: SchemaEncoder | None, body: SchemaEncoder | None
    ) -> tuple[Prior | None, Floats | float]:
        told, level = self._declared(facts.n_classes), self.level
        if told is None and not np.any(level):
            return None, level
        norm = float(np.max(self.data_norm))
        return declared_prior(told, level, facts, encoder, body, data_norm=norm)

    def _column_by_column(self, n_classes: int) -> bool:
        """Whether something speaks of columns that no other setting may change: a ball's."""
        prior = self._declared(n_classes)
        experts = isinstance(prior, str) and self.kind in ("plr", "collaborative")
        if prior is not None and not experts:
            return True
        if self.kind == "plr":
            return np.ndim(self.alpha) > 0
        if self.kind == "collaborative":
            return self.method != "average" and not self.contrasts(n_classes)
        placed = self.groups is not None and not grouping.by_name(self.groups)
        each = self.delta > 0 or n_classes > 2 or self.importance is not None or placed
        return each and self.kind == "pst-f"

    def shaped(self, encoder: SchemaEncoder | None) -> SchemaEncoder | None:
        found = _shaped(encoder)
        if self.geometry == "schema" and found is None:
            raise InvalidParameter(
                "geometry='schema' needs schema=: a PublicSchema of raw columns, or the encoder "
                "(of form 'linear' or 'curves') by which all encode them; and sources, if any, "
                "whose noise was shaped so."
            )
        return None if self.geometry == "l2" else found

    def space(self, encoder: SchemaEncoder | None, n_features: int) -> Geometry:
        shaped = self.shaped(encoder)
        if shaped is not None:
            return SchemaGeometry(shaped, self.fit_intercept, _LEAVES.get(self.method, "L2"))
        return self.ball(n_features)

    def ball(self, n_features: int) -> Frame:
        if self.fit_intercept and not 0 < self.intercept_scale < 1:
            raise InvalidParameter("intercept_scale must lie strictly between 0 and 1.")
        constant = float(self.intercept_scale) if self.fit_intercept else 0.0
        norm: Ball = "l1" if self.method == "ofpa" else "l2"
        return Frame(int(n_features), float(self.data_norm), constant, norm=norm)

    def near(
        self, facts: PublicFacts, prior: Prior | None, fit: Callable[[Allowance, Belief], ModelPlan]
    ) -> ModelPlan:
        """Return the plan of a fit, after a paid check of its prior if there is one to check."""
        allowed = self.allowed(facts.n_samples, facts.n_classes)
        if prior is None or not self.prior_check or prior.deviation == 0:
            return fit(allowed, UNCHECKED)
        return plan_near(prior, fit, allowed, self.sources)


def _shaped(encoder: SchemaEncoder | None) -> SchemaEncoder | None:
    return encoder if encoder is not None and encoder.shaped else None


def declared_number(schema: PublicSchema, classes: ArrayLike | None) -> int:
    declared = classes if schema.outcome is None else schema.outcome.labels
    return 2 if declared is None else max(2, int(np.size(declared)))


def design(asked: Settings, facts: PublicFacts) -> ModelPlan:
    made = _STACKS.get(asked.kind, _linear)
    return made(asked, facts, asked.encoder(facts.n_samples))


def _law_in(space: Geometry, allowed: Allowance) -> Allowance:
    """Return what is spent: in a ball all of a delta, in a body none."""
    return allowed.at(delta=0.0) if isinstance(space, SchemaGeometry) else allowed


def _frame_in(space: Geometry, allowed: Allowance, log_odds: float) -> Coordinates:
    return space.frame(allowed, log_odds) if isinstance(space, SchemaGeometry) else space


def _linear(asked: Settings, facts: PublicFacts, encoder: SchemaEncoder | None) -> ModelPlan:
    """PLR, towards a prior or (SimComb) towards released models."""
    prior, level, alpha = None, asked.level, asked.ridge
    known, best = 0.0, None  # share of the signal that a source keeps
    body = _shaped(encoder)
    if asked.kind == "transfer":
        check_sources(asked.sources, facts, encoder)
        size, norm = facts.n_features + asked.fit_intercept, asked.data_norm
        keep = None if asked.eta is None else 1 - asked.eta
        prior, known, best = released_prior(asked.sources, size, keep, body, data_norm=norm)
    else:
        prior, _ = asked.opinion(facts, encoder, body)
    space = asked.space(encoder, facts.n_features)

    @cache
    def expected(own: Allowance, variance: float) -> ExpectedArea | None:
        return expected_in(space, own, variance) if facts.n_classes == 2 else None

    @cache
    def framed(own: Allowance, variance: float) -> tuple[Coordinates, Alpha]:
        frame = _frame_in(space, own, variance)
        if np.ndim(alpha) == 0:
            return frame, alpha  # type: ignore[return-value]
        smallest, shorter = column_ridges(alpha, frame.n_features)
        frame, reach = frame.weighted(shorter)
        return frame, smallest / reach

    def fit(left: Allowance, belief: Belief) -> LinearPlan:
        own, point, near = _law_in(space, left), None, None
        if prior is None:
            frame, ridge = framed(own, own.variance)
            if np.any(level):
                levels = [frame.weights(None, float(one)) for one in np.atleast_1d(level)]
                point = np.array(levels) if own.loss.n_classes > 2 else levels[0]
                point = asked.learned(facts.n_classes).wide(point)
        else:
            frame, ridge = framed(own, prior.variance_at(belief))
            point, near = prior.point(frame, belief), prior.near(belief)
        shown = expected(own, LOG_ODDS)  # by records, whatever is known before
        area = shown if shown is None or prior is None else prior.expected(shown, belief)
        floor = asked.ridge_floor
        if best is not None and area is not None:  # as much as it keeps, and what records add
            area = expected(own, LOG_ODDS * (1 - known + APART)) or area
            power = SHAPED if isinstance(space, SchemaGeometry) else area.exponent
            shown = area = replace(area, kept=min(1.0, area.kept + APART), exponent=power)
        enough = asked.eta is None and area is not None and area.gain(known) < GAIN
        return replace(
            plan_linear(own, frame, alpha=ridge, ridge_floor=floor, prior=point, near=near),
            sources=asked.sources,
            expected=area,
            kept=None if shown is None else shown.kept,
            known=known,
            instead=best if enough else None,
            target=asked.learned(facts.n_classes),
        )

    if asked.sources and asked.eta is None:  # all of epsilon is the fit's
        return fit(asked.allowed(facts.n_samples, facts.n_classes), UNCHECKED)
    return asked.near(facts, prior, fit)


def _sample_stack(asked: Settings, facts: PublicFacts, encoder: SchemaEncoder | None) -> ModelPlan:
    """PST-S: parts of the rows."""
    space, count = asked.space(encoder, facts.n_features), asked.n_groups
    body = _shaped(encoder)
    prior, _ = asked.opinion(facts, encoder, body)
    baseline = float(asked.level)

    def fit(left: Allowance, belief: Belief) -> stacks.StackPlan:
        division, near = _division(asked, left, count, count), None
        part = _law_in(space, left.at(count=division.counts[0]))
        frame = _frame_in(space, part, LOG_ODDS if prior is None else prior.variance_at(belief))
        maps = stacks.PartRows(frame, count)
        centre = stacks.baselines(maps, baseline, facts.n_classes)[0]
        if prior is not None:
            centre, near = prior.point(frame, belief), prior.near(belief)
        low, (alpha,) = [], _group_ridges(asked.alpha, 1)
        for records in division.counts[:count]:
            own = part.at(count=records)
            plan = plan_linear(own, frame, alpha=alpha, prior=centre, near=near)
            low.append(plan.mechanism)
        return _stack(asked, part, division, low, maps, np.full(count, 1 / count), baseline)

    return asked.near(facts, prior, fit)


def _feature_stack(asked: Settings, facts: PublicFacts, encoder: SchemaEncoder | None) -> ModelPlan:
    """PST-F: groups of features."""
    shaped = asked.shaped(encoder)
    prior, level = asked.opinion(facts, encoder, shaped)
    groups, shares = _feature_groups(asked, facts, encoder, shaped)
    told = asked, groups, float(level) if facts.n_classes == 2 else 0.0, None

    def fit(left: Allowance, belief: Belief) -> stacks.StackPlan:
        if prior is None:
            return _group_stack(*told, left, shares)
        believed = shares**belief.trust
        centres = []
        for group in groups.groups:
            coef = np.zeros_like(prior.coef)
            coef[:, group] = prior.factor_at(belief) * prior.coef[:, group]
            # In a body columns are not centred.
            level = prior.intercept - (0.0 if shaped is None else score_moments(shaped, coef)[0])
            centres.append((coef[:, group], level))
        shown = believed / believed.sum()
        return _group_stack(*told, left, shown, centres, prior.variance_at(belief))

    return asked.near(facts, prior, fit)


def _transfer_stack(
    asked: Settings, facts: PublicFacts, encoder: SchemaEncoder | None
) -> ModelPlan:
    """PST-H, PPTL-FS: group by group towards released stacks."""
    check_sources(asked.sources, facts, encoder)
    stacks.check_stacks(asked.sources, facts.n_features)
    released, models = stacks.stack_facts(asked.sources[0])
    columns = tuple(model.features for model in models)
    shaped = asked.shaped(encoder if asked.sources[0].model.facts.body is not None else None)
    groups: grouping.PlannedGroups = GroupRows(
        columns, released.norms, released.clipping, released.constant
    )
    if shaped is not None:
        groups = grouping.SchemaGroups.of_encoded(shaped, columns)
    start = stacks.StackStart(asked.sources, groups, facts.n_classes)
    told = asked, groups, start.baseline, start.high
    keep = 1 - np.broadcast_to(np.asarray(asked.eta, np.float64), len(columns))
    # Turned round, several classes mean nothing.
    least = -1.0 if facts.n_classes == 2 else 0.0

    def fit(left: Allowance, belief: Belief) -> stacks.StackPlan:
        factor = max(least, min(1.0, belief.factor))
        trust = belief.trust if belief.factor >= least else 0.0
        variance = start.variance + (UNKNOWN - DECLARED) * (1 - trust)
        centres = start.centres(factor * keep)
        made = _group_stack(*told, left, start.importances, centres, variance)
        return start.shown_by(made) if facts.n_classes == 2 else made

    return asked.near(facts, start.prior(facts.n_features, keep), fit)


#: Of its releases' kinds that are no linear model.
_STACKS = {"pst-s": _sample_stack, "pst-f": _feature_stack, "pst-h": _transfer_stack}


def _division(asked: Settings, allowed: Allowance, n_models: int, parts: int) -> stacks.Division:
    stacked = asked.combiner == "stack" and n_models > 1
    n_rows, n_classes = allowed.records, allowed.loss.n_classes
    share = stacks.high_share(asked.high_fraction, n_rows, n_classes) if stacked else 0.0
    fractions = (*[(1 - share) / parts] * parts, *[share] * stacked)
    made = stacks.Division(allowed.count, fractions, asked.split_seed)
    if min(made.records) == 0:
        raise InvalidData("n_groups: ask for fewer, since every part needs one sample.")
    return made


def _stack(
    asked: Settings,
    allowed: Allowance,  # Of the high level
    division: stacks.Division,
    low: Sequence[Objective],
    maps: stacks.Maps,
    importances: Floats,
    baseline: float,
    start: stacks.HighStart | None = None,
) -> stacks.StackPlan:
    n_classes, high, near = allowed.loss.n_classes, None, None
    # Towards the average of the parts' logits, or the sum of the groups': the naive Bayes rule.
    weights = importances if len(low) > 1 else np.ones(len(importances))
    prior = stacks.high_level_prior(weights, baseline, n_classes)
    if start is not None:
        rate = float(special.expit(baseline)) if n_classes == 2 else 0.5
        prior, near = start.weights, Near(variance=start.variance, base_rate=rate)
    if len(division.fractions) > len(low):
        own = allowed.at(count=division.counts[-1], loss=Logistic(allowed.cap))
        ridge = ridge_for(own, len(prior), asked.high_alpha, near=near)
        high = own.objective(L2(len(prior)), ridge, prior)
    return stacks.StackPlan(
        low=tuple(low),
        maps=maps,
        importances=importances,
        combiner=asked.combiner,
        high=high,
        division=division,
        baseline=baseline,
        sharpness=None if start is None else start.sharpness,
        sources=asked.sources,
    )


@lru_cache(64)  # many beliefs in a prior lead to the same bodies
def _bodies(
    groups: grouping.SchemaGroups, own: Allowance, shares: tuple[float, ...], log_odds: float
) -> GroupRows:
    frames = []
    for columns, share in zip(groups.columns, shares, strict=True):
        part = own.at(epsilon=share * own.epsilon)
        own_columns = SchemaGeometry(groups.encoder, columns=columns.tolist())
        frames.append(own_columns.frame(part, log_odds))
    bounds = (1.0,) * len(frames)
    return GroupRows(groups.groups, bounds, frames=tuple(frames))


def _group_stack(
    asked: Settings,
    groups: grouping.PlannedGroups,
    baseline: float,
    start: stacks.HighStart | None,  # The sources' high level
    allowed: Allowance,
    importances: Floats,
    centres: stacks.Centres | None = None,  # Points to shrink towards in place of the baseline
    variance: float | None = None,  # Of the log odds around them: ridges then follow from it
) -> stacks.StackPlan:
    """Return the plan of a stack over groups of features; a single one has no high level."""
    n_classes, count = allowed.loss.n_classes, len(groups.groups)
    division = _division(asked, allowed, count, 1)
    own = allowed.at(count=division.counts[0])
    allotted = grouping.check_importance(importances)
    power = 1.0 if groups.clipping == "separate" else 0.5  # of joint clipping squares add up
    shares = tuple(((allotted / allotted.sum()) ** power).tolist())
    rows = groups
    if not isinstance(rows, GroupRows):
        rows = _bodies(rows, own, shares, LOG_ODDS if variance is None else variance)
    points = stacks.baselines(rows, baseline, n_classes)
    for k, (coef, level) in enumerate(centres or ()):
        pairs = zip(np.atleast_2d(coef), np.atleast_1d(level), strict=True)
        point = [rows.weights(each, float(one), k) for each, one in pairs]
        points[k] = np.array(point) if n_classes > 2 else point[0]
    joint, sizes = rows.clipping == "joint", rows.sizes
    rate = float(special.expit(baseline)) if n_classes == 2 else 1 / n_classes
    near = None if variance is None else Near(variance=variance, base_rate=rate)
    sigmas = own.sigmas(*shares, joint=joint) if own.delta else None
    norms: Sequence[Norm] = rows.bodies or [L2(size) for size in sizes]
    blocks, spread = [], sum(sizes) if joint else None
    for k, alpha in enumerate(_group_ridges(asked.alpha, count)):
        # A group with weight q is a private regression at budget q epsilon; under joint clipping
        # its rows are shorter, by the square root of its part of the columns.
        noise = None if sigmas is None else sigmas[k] ** 2
        how = {"near": near, "share": shares[k], "spread": spread, "noise": noise}
        shaped = rows.frames and alpha == "auto"
        ridge = rows.frames[k].ridge if shaped else ridge_for(own, sizes[k], alpha, **how)
        blocks.append(Columns(norms[k], ridge, shares[k], points[k]))
    shape = {"n_samples": own.count, "blocks": tuple(blocks), "loss": own.loss, "joint": joint}
    low = objective(epsilon=own.epsilon, delta=own.delta, **shape)
    return _stack(asked, allowed, division, [low], rows, importances, baseline, start)


def _group_ridges(alpha: Alphas, n_groups: int) -> list[Alpha]:
    each = np.atleast_1d(np.asarray(alpha, dtype=object))
    if len(each) not in (n_groups, n_groups if np.ndim(alpha) else 1):
        raise InvalidParameter(f"alpha must have one number per group in use ({n_groups}).")
    every = np.broadcast_to(each, n_groups)
    return ["auto" if isinstance(one, str) else float(one) for one in every]


def _feature_groups(
    asked: Settings, facts: PublicFacts, encoder: SchemaEncoder | None, shaped: SchemaEncoder | None
) -> tuple[grouping.PlannedGroups, Floats]:
    """Return the groups in use and importances: in bodies of the schema's columns."""
    given, schema = asked.importance, None if encoder is None else encoder.schema
    n_columns = facts.n_features if shaped is None else len(shaped.schema.features)
    if given is None and schema is not None and schema.has_importances:
        given = schema.importances()
        if shaped is not None:  # one column counts as much as its most important value
            given = np.array([max(f.importances or (1.0,)) for f in schema.features])
    importance = np.ones(n_columns) if given is None else grouping.check_importance(given)
    if len(importance) != n_columns:
        raise InvalidParameter(f"importance must have one entry per column ({n_columns}).")
    n_groups = min(asked.n_groups, n_columns)
    if asked.groups is not None:
        groups = grouping.given_groups(asked.groups, n_columns, encoder)
    elif given is not None:
        groups = grouping.importance_groups(importance, n_groups)
    else:
        groups = grouping.random_groups(n_columns, n_groups, seed=asked.split_seed or 0)
    shares = grouping.group_importance(importance, groups)
    if given is None and asked.groups is None:
        shares = np.full(len(groups), 1 / len(groups))
    used = [k for k, share in enumerate(shares) if share > 0]
    groups, shares = tuple(groups[k] for k in used), shares[used]
    if shaped is not None:
        return grouping.SchemaGroups(shaped, groups), shares
    norms = np.atleast_1d(np.asarray(asked.data_norm, dtype=np.float64))
    if len(norms) > 1 and (asked.clipping == "joint" or len(norms) != len(groups)):
        raise InvalidParameter(
            f"data_norm must be one number, or one per group in use ({len(groups)})."
        )
    each = tuple(np.broadcast_to(norms, len(groups)).tolist())
    return GroupRows(groups, each, asked.clipping, asked.intercept_scale), shares


def design_protocol(
    asked: Settings, n_features: int, n_classes: int, encoder: SchemaEncoder | None
) -> Collaboration:
    method = asked.method
    once = method == "ofaa" or (method == "sums" and not asked.delta)
    if asked.rounds != 1 and once:
        raise InvalidParameter(
            f"rounds must be 1 for method={method!r}, whose parties release only once."
        )
    if asked.combine != "mean" and method in ("ofaa", "sums"):
        raise InvalidParameter(f"combine must be 'mean' for method={method!r}: it adds.")
    space = asked.space(encoder, n_features)
    facts = PublicFacts(n_samples=0, n_features=n_features, n_classes=n_classes)
    shaped = space.encoder if isinstance(space, SchemaGeometry) else None
    prior, level = asked.opinion(facts, encoder, shaped)
    checks = asked.prior_check and method == "average"
    checked = checks and prior is not None and prior.deviation > 0
    if prior is None and np.any(level):
        prior = Prior(np.zeros((np.size(level), n_features)), level)
    target = asked.learned(n_classes)
    common: dict[str, Any] = {"epsilon": asked.epsilon, "delta": asked.delta, "alpha": asked.ridge}
    common |= {"frame": space, "target": target, "prior": prior}
    if method == "ofaa":
        return Expansion(**common)
    if method == "sums":
        rate = special.expit(np.asarray(level, np.float64))
        spread = float(rate * (1 - rate)) if n_classes == 2 else 1 / max(1, n_classes)
        common |= {name: getattr(asked, name) for name in ("collusion_threshold", "max_retries")}
        if shaped is not None and asked.contrasts(n_classes):
            return LabelContrast(**common, encoder=shaped, checked=asked.prior_check)
        # Of times as many events as are expected.
        bent = target.curvature or min(1.0, math.exp(target.level))
        common |= {
            "curvature": min(0.2, 0.88 * spread) if n_classes else bent,
            "second_moments": None if encoder is None else encoder.mean_squares(),
        }
        if not asked.delta:
            return OneMessage(**common)
        return GradientRounds(**common, rounds=0 if asked.rounds == 1 else asked.rounds)
    if method == "average" and shaped is not None and asked.geometry == "auto":
        common["delta"] = 0.0  # which bought nothing there
    common |= {"rounds": asked.rounds, "combine": asked.combine, "checked": checked}
    return Averaging(**common, perturb="output" if method == "laplace" else "objective")
