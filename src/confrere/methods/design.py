"""From what is asked and public facts to a plan: the one place where a fit is designed.

Form, geometry, law, prior, centre and ridge are chosen here, from settings, declared facts and
public sizes. Nothing in it comes from a record.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from confrere.arrays import Floats
from confrere.data.body import Clipping, GroupRows, Groups, RowRule
from confrere.data.encoding import SchemaEncoder
from confrere.data.features import Form
from confrere.data.schema import PublicSchema
from confrere.errors import InvalidParameter
from confrere.kernel.guarantee import Neighbours, check_relation
from confrere.methods.allowance import (
    DECLARED,
    UNKNOWN,
    Allowance,
    Alpha,
    Alphas,
    LossName,
    allowance,
    column_ridges,
    row_count,
    slope_of,
)
from confrere.methods.average import Averaging, Collaboration
from confrere.methods.expansion import Expansion
from confrere.methods.geometry import (
    LOG_ODDS,
    BallGeometry,
    Geometry,
    Leaf,
    Noise,
    SchemaGeometry,
    choose_form,
    declared_number,
    encodes,
)
from confrere.methods.plan import (
    Coordinates,
    LinearPlan,
    ModelPlan,
    PublicFacts,
    linear_frame,
    plan_linear,
)
from confrere.methods.priors import (
    UNCHECKED,
    Belief,
    CheckedPlan,
    DeclaredPrior,
    Prior,
    Source,
    check_sources,
    form_of,
    plan_near,
    released_prior,
    resolve_prior,
)
from confrere.methods.stacks import (
    Combiner,
    Levels,
    PlannedGroups,
    SchemaGroups,
    StackPlan,
    StackStart,
    check_importance,
    check_stacks,
    encoded_columns,
    given_groups,
    group_importance,
    high_share,
    importance_groups,
    plan_feature_stack,
    plan_sample_stack,
    random_groups,
    stack_facts,
)
from confrere.methods.sums import GradientRounds, OneMessage

Kind = Literal["plr", "simcomb", "pst-s", "pst-f", "pst-h", "collaborative", "multiparty"]

#: What noise is made for in a schema's coordinates by protocols between organisations.
_LEAVES: dict[str, Leaf] = {
    "average": "Max",
    "ofpa": "L1",
    "ofaa": "L2",
    "laplace": "L2",
    "sums": "L2",
}

#: Sums of gradients, unless told otherwise: more gained nothing, half as many lost .002.
_ROUNDS = 20

#: Methods that learn best from columns as they are: importances deal out epsilon to their groups.
_UNWEIGHTED = ("pst-f", "pst-h")


@dataclass(frozen=True, kw_only=True, eq=False)
class Settings:
    """What may be asked of a fit, by the names that the estimators' parameters have."""

    kind: str  #: A :data:`Kind`, unless nothing is designed here
    epsilon: float = 1.0
    delta: float = 0.0
    loss: LossName = "capped"
    neighbours: str | None = None  #: Where nothing names it, a declared number of rows does
    declared_samples: int | None = None
    schema: PublicSchema | SchemaEncoder | None = None
    classes: Any = None
    noise: Noise = "ball"
    data_norm: Any = 1.0
    fit_intercept: bool = True
    intercept_scale: float = 0.4
    feature_scale: ArrayLike | None = None
    alpha: Alphas = "auto"
    ridge_floor: float = 2.0
    prior: Any = None
    prior_check: bool = True
    prior_intercept: Any = 0.0
    sources: tuple[Source, ...] = ()
    eta: Any = 0.0
    # Of stacks.
    n_groups: int = 5
    importance: ArrayLike | None = None
    groups: Sequence[ArrayLike] | None = None
    rows: RowRule = "clip"
    clipping: Clipping = "joint"
    combiner: Combiner = "stack"
    high_fraction: float | Literal["auto"] = "auto"
    high_alpha: Alpha = "auto"
    split_seed: int | None = 0
    # Of several organisations.
    method: str = "average"
    rounds: int = 1
    combine: Any = "mean"
    stop_below: float = 0.0
    colluding: Any = "auto"
    reserve: int = 0

    @property
    def relation(self) -> Neighbours:
        """Which change is hidden."""
        hidden = self.declared_samples is not None
        default = Neighbours.ADD_REMOVE if hidden else Neighbours.REPLACE_ONE
        return check_relation(self.neighbours or default)

    def allowed(self, n_samples: int, n_classes: int) -> Allowance:
        """Return what a fit may spend, on so many rows as far as their number is public."""
        count = row_count(n_samples, self.relation, self.declared_samples)
        return allowance(self.epsilon, count, delta=self.delta, loss=self.loss, n_classes=n_classes)

    def encoder(self, n_samples: int | None = None, n_parties: int = 1) -> SchemaEncoder | None:
        """Return what encodes raw tables; as studies do, unless the schema comes with its own.

        How columns are encoded may follow from a public number of rows; without one, only what
        they mean is asked.
        """
        if self.schema is None or isinstance(self.schema, SchemaEncoder):
            return self.schema
        form = (
            "standardised" if n_samples is None else self._form(self.schema, n_samples, n_parties)
        )
        if form != "standardised":
            return self.schema.encoder(form=form)
        weighted = self.schema.has_importances and self.kind not in _UNWEIGHTED
        return self.schema.encoder(weighted=weighted)

    def _form(self, schema: PublicSchema, n_samples: int, n_parties: int) -> Form:
        """Return how a schema's columns are encoded: a rule of public facts."""
        if self.kind in ("simcomb", "pst-h"):
            return form_of(self.sources)
        noise, n_classes = self.noise, declared_number(schema, self.classes)
        each = self._column_by_column(n_classes)
        allowed = self.allowed(n_samples, n_classes)
        if self.kind == "pst-s":
            allowed = self.allowed(max(1, n_samples // (self.n_groups + 1)), n_classes)
        elif self.kind == "pst-f":
            stacked = self.combiner == "stack"
            share = high_share(self.high_fraction, n_samples, 2) if stacked else 0.0
            allowed = self.allowed(max(1, round((1 - share) * n_samples)), n_classes).at(delta=0.0)
            noise = "schema" if noise == "auto" and not each else noise
        elif self.kind == "collaborative":
            # The average of M parties has M times the noise variance of one with all records.
            epsilon = self.epsilon / self.rounds / math.sqrt(n_parties)
            allowed = allowed.at(epsilon=epsilon, delta=0.0)
        return choose_form(schema, noise, allowed, each=each)

    def _column_by_column(self, n_classes: int) -> bool:
        """Whether something speaks of columns that no other setting may change: a ball's."""
        each = [self.prior is not None, self.feature_scale is not None]
        if self.kind == "plr":
            each += [np.ndim(self.alpha) > 0]
        if self.kind == "collaborative":
            each += [self.method != "average", self.delta > 0]
        if self.kind == "pst-f":
            each += [self.delta > 0, n_classes > 2, self.rows == "unit"]
            each += [self.importance is not None]
            each += [self.groups is not None and not _by_name(self.groups)]
        return any(each)

    def body(self, facts: PublicFacts) -> SchemaEncoder | None:
        """Return what rows are encoded by, if that is for a body."""
        encoder = self.encoder(facts.n_samples)
        shaped = encoder is not None and encoder.shaped and encodes(encoder, facts.features)
        return encoder if shaped else None

    def shaped(self, facts: PublicFacts) -> SchemaEncoder | None:
        """Return the encoder if noise is shaped like the rows."""
        encoder = self.body(facts)
        if self.noise == "schema" and encoder is None:
            raise InvalidParameter(
                "noise='schema' needs schema=, a PublicSchema of raw columns, and sources, if any, "
                "whose noise was shaped so."
            )
        return None if self.noise == "ball" else encoder

    def geometry(self, facts: PublicFacts) -> Geometry:
        """Return where rows are: in a body if they are encoded for one, or in a ball."""
        encoder = self.shaped(facts)
        if encoder is not None:
            return SchemaGeometry(encoder, self.fit_intercept)
        plain = linear_frame(
            facts.n_features,
            data_norm=self.data_norm,
            fit_intercept=self.fit_intercept,
            intercept_scale=self.intercept_scale,
        )
        return BallGeometry(plain)

    def told(self, encoder: SchemaEncoder | None, n_classes: int) -> DeclaredPrior:
        """Return what is declared about the columns and the base rate."""
        return resolve_prior(self.prior, self.prior_intercept, encoder, n_classes)

    def levels(self, baseline: float, **start: Any) -> Levels:
        """Return how a stack is made of two levels."""
        return Levels(
            combiner=self.combiner,
            high_fraction=self.high_fraction,
            alpha=self.alpha,
            high_alpha=self.high_alpha,
            split_seed=self.split_seed,
            baseline=baseline,
            **start,
        )

    def near(
        self,
        facts: PublicFacts,
        prior: Prior | None,
        fit: Callable[[Allowance, Belief], ModelPlan],
    ) -> ModelPlan:
        """Return the plan of a fit, after a paid check of its prior if there is one to check."""
        allowed = self.allowed(facts.n_samples, facts.n_classes)
        if prior is None or not self.prior_check or (self.sources and prior.deviation == 0):
            return fit(allowed, UNCHECKED)
        return plan_near(prior, fit, allowed, self.sources)


def design(asked: Settings, facts: PublicFacts) -> ModelPlan:
    """Return everything that is decided before the data of one organisation are touched."""
    return _DESIGNS[asked.kind](asked, facts)


def _linear(asked: Settings, facts: PublicFacts) -> LinearPlan | CheckedPlan:
    """PLR, towards a prior or (SimComb) towards released models."""
    encoder, scale = asked.encoder(facts.n_samples), asked.feature_scale
    scale = None if scale is None else np.asarray(scale, dtype=np.float64)
    prior: Prior | None = None
    if asked.kind == "simcomb":
        check_sources(asked.sources, facts, encoder)
        prior = released_prior(
            asked.sources,
            facts.n_features + asked.fit_intercept,
            1 - asked.eta,
            data_norm=asked.data_norm,
            feature_scale=scale,
            encoder=asked.body(facts),
        )
    elif asked.prior is not None or np.any(asked.prior_intercept):
        prior = asked.told(encoder, facts.n_classes).prior(
            facts, asked.data_norm, scale, encoder=asked.body(facts)
        )
    return design_linear(
        asked.allowed(facts.n_samples, facts.n_classes),
        asked.geometry(facts),
        prior,
        alpha=asked.alpha,
        feature_scale=asked.feature_scale,
        intercept=asked.prior_intercept,
        ridge_floor=asked.ridge_floor,
        check=asked.prior_check,
        sources=asked.sources,
    )


def _sample_stack(asked: Settings, facts: PublicFacts) -> ModelPlan:
    """PST-S: parts of the rows."""
    geometry, levels = asked.geometry(facts), asked.levels(asked.prior_intercept)
    told = asked.told(asked.encoder(), facts.n_classes)
    prior = told.prior(facts, asked.data_norm, encoder=asked.body(facts))

    def fit(left: Allowance, belief: Belief) -> StackPlan:
        return plan_sample_stack(left, geometry, asked.n_groups, levels, prior, belief)

    return asked.near(facts, prior, fit)


def _feature_stack(asked: Settings, facts: PublicFacts) -> ModelPlan:
    """PST-F: groups of features."""
    norm = 1.0 if asked.rows == "unit" else float(np.max(asked.data_norm))
    told = asked.told(asked.encoder(), facts.n_classes)
    prior = told.prior(facts, norm, encoder=asked.shaped(facts))
    rows, shares = _feature_groups(asked, facts)
    levels = asked.levels(told.intercept if facts.n_classes == 2 else 0.0)

    def fit(left: Allowance, belief: Belief) -> StackPlan:
        if prior is None:
            return plan_feature_stack(left, rows, shares, levels)
        believed = shares**belief.trust
        coef, level = prior.factor_at(belief) * prior.coef, prior.intercept
        if not prior.several:
            coef, level = coef[0], level[0]
        return plan_feature_stack(
            left,
            rows,
            believed / believed.sum(),
            levels,
            centres=[(coef[..., group], level) for group in rows.groups],
            variance=prior.variance_at(belief),
        )

    return asked.near(facts, prior, fit)


def _transfer_stack(asked: Settings, facts: PublicFacts) -> ModelPlan:
    """PST-H, PPTL-FS: group by group towards released stacks."""
    if asked.data_norm is not None:
        raise InvalidParameter("data_norm comes from the source; leave it None.")
    sources, encoder = asked.sources, asked.encoder(facts.n_samples)
    check_sources(sources, facts, encoder)
    check_stacks(sources, facts.n_features)
    start = StackStart(sources, _source_groups(asked, encoder), facts.n_classes)
    levels = asked.levels(start.baseline, high_start=start.high(), sources=sources)
    keep = 1 - np.broadcast_to(np.asarray(asked.eta, np.float64), len(start.groups.groups))
    # Turned round, several classes mean nothing.
    least = -1.0 if facts.n_classes == 2 else 0.0

    def fit(left: Allowance, belief: Belief) -> StackPlan:
        factor = max(least, min(1.0, belief.factor))
        trust = belief.trust if belief.factor >= least else 0.0
        return plan_feature_stack(
            left,
            start.groups,
            start.importances,
            levels,
            centres=start.centres(factor * keep),
            variance=start.variance + (UNKNOWN - DECLARED) * (1 - trust),
        )

    return asked.near(facts, start.prior(facts.n_features, keep), fit)


def design_protocol(
    asked: Settings, n_features: int, n_classes: int, encoder: SchemaEncoder | None
) -> Collaboration:
    """Return what parties are asked, whatever their number and sizes."""
    method, once = (
        asked.method,
        asked.method == "ofaa" or (asked.method == "sums" and not asked.delta),
    )
    if asked.rounds != 1 and once:
        raise InvalidParameter(
            f"rounds must be 1 for method={method!r}, whose parties release only once."
        )
    if asked.combine != "mean" and method in ("ofaa", "sums"):
        raise InvalidParameter(f"combine must be 'mean' for method={method!r}: it adds.")
    told, space = asked.told(encoder, n_classes), _space(asked, n_features, encoder)
    facts = PublicFacts(n_samples=0, n_features=n_features, n_classes=n_classes)
    shaped = space.encoder if isinstance(space, SchemaGeometry) else None
    prior = told.prior(facts, asked.data_norm, asked.feature_scale, encoder=shaped)
    checks = asked.prior_check and method == "average"
    checked = checks and prior is not None and prior.deviation > 0
    if prior is None and np.any(told.intercept):
        prior = Prior(np.zeros((np.size(told.intercept), n_features)), told.intercept)
    common: dict[str, Any] = {
        "frame": space,
        "epsilon": asked.epsilon,
        "delta": asked.delta,
        "n_classes": n_classes,
        "alpha": asked.alpha,
        "cap": slope_of(asked.loss, n_classes),
        "feature_scale": asked.feature_scale,
        "prior": prior,
    }
    if method == "ofaa":
        return Expansion(**common)
    if method == "sums":
        rate = special.expit(np.asarray(told.intercept, np.float64))
        spread = float(rate * (1 - rate)) if n_classes == 2 else 1 / n_classes
        common |= {
            "colluding": asked.colluding,
            "reserve": asked.reserve,
            "curvature": min(0.2, 0.88 * spread),
            "second_moments": None if encoder is None else encoder.mean_squares(),
        }
        if not asked.delta:
            return OneMessage(**common)
        return GradientRounds(**common, rounds=_ROUNDS if asked.rounds == 1 else asked.rounds)
    return Averaging(
        **common,
        rounds=asked.rounds,
        combine=asked.combine,
        stop_below=asked.stop_below,
        perturb="output" if method == "laplace" else "objective",
        checked=checked,
    )


def _space(
    asked: Settings, n_features: int, encoder: SchemaEncoder | None
) -> Coordinates | SchemaGeometry:
    """Return the public coordinates: a ball's, or those of an encoder's body."""
    if encoder is not None and encoder.shaped and asked.noise != "ball":
        return SchemaGeometry(encoder, asked.fit_intercept, _LEAVES.get(asked.method, "L2"))
    if asked.noise == "schema":
        raise InvalidParameter(
            "noise='schema' needs schema=: a PublicSchema of raw columns, or where the number of "
            "rows is not known yet the encoder (of form 'linear' or 'curves') by which all parties "
            "encode them."
        )
    return linear_frame(
        n_features,
        data_norm=asked.data_norm,
        fit_intercept=asked.fit_intercept,
        intercept_scale=asked.intercept_scale,
        norm="l1" if asked.method == "ofpa" else "l2",
    )


_DESIGNS: dict[str, Callable[[Settings, PublicFacts], ModelPlan]] = {
    "plr": _linear,
    "simcomb": _linear,
    "pst-s": _sample_stack,
    "pst-f": _feature_stack,
    "pst-h": _transfer_stack,
}


def _source_groups(asked: Settings, encoder: SchemaEncoder | None) -> PlannedGroups:
    """Return the sources' groups: in bodies where their noise was shaped like the rows."""
    source = asked.sources[0]
    released, models = stack_facts(source)
    groups = tuple(model.features for model in models)
    shaped = encoder is not None and encoder.shaped and source.model.facts.body is not None
    if asked.noise == "schema" and not shaped:
        raise InvalidParameter(
            "noise='schema' needs schema= and sources whose noise was shaped by it."
        )
    if encoder is not None and shaped and asked.noise != "ball":
        return SchemaGroups.of_encoded(encoder, groups, released.rows)
    return GroupRows(groups, released.norms, released.rows, released.clipping, released.constant)


def _feature_groups(asked: Settings, facts: PublicFacts) -> tuple[PlannedGroups, Floats]:
    """Return the groups in use and their importances; a group of importance 0 is left out.

    In bodies groups and importances are of the schema's columns, in a ball of encoded ones.
    """
    encoder, shaped = asked.encoder(facts.n_samples), asked.shaped(facts)
    given, declares = asked.importance, encoder is not None and encoder.schema.has_importances
    if shaped is not None:
        features = shaped.schema.features
        if given is None and declares:
            # One column of the schema counts as much as its most important value.
            given = np.array([max(f.importances or (1.0,)) for f in features])
        groups, shares = _groups(asked, len(features), given, shaped)
        return SchemaGroups(shaped, groups, asked.rows), shares
    if given is None and encoder is not None and declares:
        given = encoder.schema.importances()
    groups, shares = _groups(asked, facts.n_features, given, encoder)
    norms = np.atleast_1d(np.asarray(asked.data_norm, dtype=np.float64))
    if len(norms) > 1 and (asked.clipping == "joint" or len(norms) != len(groups)):
        raise InvalidParameter(
            f"data_norm must be one number, or one per group in use ({len(groups)})."
        )
    each = tuple(np.broadcast_to(norms, len(groups)).tolist())
    return GroupRows(groups, each, asked.rows, asked.clipping, asked.intercept_scale), shares


def _groups(
    asked: Settings, n_columns: int, given: ArrayLike | None, encoder: SchemaEncoder | None
) -> tuple[Groups, Floats]:
    """Return the groups in use of so many columns, and their shares of the importance."""
    importance = np.ones(n_columns) if given is None else check_importance(given)
    if len(importance) != n_columns:
        raise InvalidParameter(f"importance must have one entry per column ({n_columns}).")
    n_groups = min(asked.n_groups, n_columns)
    if asked.groups is not None:
        groups = given_groups(_positions(asked.groups, encoder, n_columns), n_columns)
    elif given is not None:
        groups = importance_groups(importance, n_groups)
    else:
        groups = random_groups(n_columns, n_groups, seed=asked.split_seed or 0)
    shares = group_importance(importance, groups)
    if given is None and asked.groups is None:
        shares = np.full(len(groups), 1 / len(groups))
    used = [k for k, share in enumerate(shares) if share > 0]
    return tuple(groups[k] for k in used), shares[used]


def _by_name(groups: Sequence[ArrayLike]) -> bool:
    """Whether declared groups hold names of columns."""
    return any(isinstance(name, str) for group in groups for name in np.ravel(group))


def _positions(
    groups: Sequence[ArrayLike], encoder: SchemaEncoder | None, n_columns: int
) -> Sequence[ArrayLike]:
    """Return declared groups by positions: of the schema's columns, or of encoded ones."""
    if not _by_name(groups):
        return groups
    if encoder is None:
        raise InvalidParameter("groups: columns have names where there is a schema.")
    place = {column: j for j, column in enumerate(encoder.schema.columns)}
    unknown = [name for group in groups for name in np.ravel(group) if name not in place]
    if unknown:
        raise InvalidParameter(f"groups: the schema has no column {str(unknown[0])!r}.")
    found = [np.array([place[name] for name in np.ravel(group)]) for group in groups]
    if n_columns == len(place):
        return found
    sizes = [len(feature.names) for feature in encoder.schema.features]
    if encoder.shaped:
        sizes = [block.size for block in encoder.blocks()]
    return encoded_columns(sizes, found)


def design_linear(
    allowed: Allowance,  # Of the check and the fit
    geometry: Geometry,  # Where rows are
    prior: Prior | None = None,  # What is shrunk towards
    *,
    alpha: Alphas = "auto",  # Ridge on the mean loss
    feature_scale: ArrayLike | None = None,  # Public factors of the columns; a prior has its own
    intercept: ArrayLike = 0.0,  # Public intercept to shrink towards where there is no prior
    ridge_floor: float = 2.0,  # Of a ball
    # Whether the prior is checked; one that scores all rows alike has nothing to check
    check: bool = True,
    sources: tuple[Any, ...] = (),  # Released models that the prior was made from
) -> LinearPlan | CheckedPlan:
    """Return the plan of a private linear model, near a prior if there is one.

    Law, coordinates, centre and ridge are decided here, once for all that a check may show.
    """
    known = LOG_ODDS if prior is None else prior.variance
    law = cache(lambda left: geometry.law(left, known))

    @cache
    def framed(own: Allowance, variance: float, believed: float) -> tuple[Coordinates, Alpha]:
        scale = feature_scale if prior is None else prior.scale_at(Belief(believed, math.inf))
        frame: Coordinates = geometry.frame(own, variance).weighted(scale)[0]
        if np.ndim(alpha) == 0:
            return frame, alpha  # type: ignore[return-value]
        smallest, shorter = column_ridges(alpha, frame.n_features)
        frame, reach = frame.weighted(shorter)
        return frame, smallest / reach

    def fit(left: Allowance, belief: Belief) -> LinearPlan:
        own = law(left)
        if prior is None:
            frame, ridge = framed(own, known, 1.0)
            point = None
            if np.any(intercept):
                levels = [frame.weights(None, float(one)) for one in np.atleast_1d(intercept)]
                point = np.array(levels) if own.loss.n_scores > 1 else levels[0]
            return plan_linear(own, frame, alpha=ridge, ridge_floor=ridge_floor, prior=point)
        believed = 1.0 if belief.trust == 1 else belief.factor  # many lead to the same coordinates
        frame, ridge = framed(own, prior.variance_at(belief), believed)
        return plan_linear(
            own,
            frame,
            alpha=ridge,
            ridge_floor=ridge_floor,
            prior=prior.point(frame, belief),
            near=prior.near(belief),
            sources=sources,
        )

    if prior is None or not check or prior.deviation == 0:
        return fit(allowed, UNCHECKED)
    return plan_near(prior, fit, allowed, sources)
