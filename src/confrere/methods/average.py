"""Several organisations, one model: what their protocols share, averages and expanded losses.

Coordinates are made once sizes are known, a prior is a point in them, and what may be spent is one
allowance: of a ball or a schema, of two classes or more, whatever the protocol asks of parties.

Proofs: docs/proofs/averaging.md, docs/proofs/output_perturbation.md, of coefficients (OFAA)
docs/proofs/functional_mechanism.md and, of a prior that parties answer about first,
docs/proofs/prior_check.md.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Literal, Self, get_args

import numpy as np
from numpy.typing import ArrayLike
from typing_extensions import override

from confrere.arrays import Floats
from confrere.data.body import BodyFrame
from confrere.data.encoding import SchemaEncoder
from confrere.errors import InvalidParameter
from confrere.kernel.accountants import Loss, loss_of
from confrere.kernel.guarantee import (
    Guarantee,
    Neighbours,
    check_epsilon,
    check_positive,
    exact,
)
from confrere.kernel.norms import L2
from confrere.kernel.streams import RandomSource
from confrere.mechanisms.measurements import (
    TOLERANCE,
    Columns,
    Objective,
    Part,
    Point,
    RowCount,
    check_centre,
    coordinate_rounding,
    largest_count,
    relation_of,
    roundings,
    row_products,
    row_promise,
)
from confrere.methods.allowance import (
    LOG_ODDS,
    SOLVER,
    Allowance,
    Alpha,
    ExpectedArea,
    Near,
    alike,
    free_ridge,
    ridge_for,
    shares,
)
from confrere.methods.asking import (
    Arrays,
    Ask,
    AskedOfRows,
    AskedSum,
    Combine,
    Labels,
    PartyRows,
    Protocol,
    Reader,
    Rows,
    Sizes,
    combine_weights,
    in_process,
    known_sizes,
    relation,
)
from confrere.methods.geometry import SchemaGeometry, expected_in
from confrere.methods.plan import Coordinates, LabelledTable, Names, Plan, Term, linear_model
from confrere.methods.priors import (
    THEOREM,
    UNCHECKED,
    Belief,
    Prior,
    PriorCheck,
    prior_facts,
    rest_of,
)
from confrere.model import Facts, Linear, PriorFacts
from confrere.solver.certificate import Problem, certified, smallest_tolerance

Method = Literal["average", "ofpa", "ofaa", "laplace", "sums"]


@dataclass(frozen=True, eq=False)
class Combined:
    """What was made of the parties' releases."""

    frame: Coordinates  #: That ``weights`` are in
    weights: Floats  #: The model: ``(d,)``, of several classes ``(K, d)``
    sizes: Mapping[str, int]  #: The parties in it, with their numbers of records
    prior: PriorFacts | None = None  #: What a check of a prior has shown


@dataclass(frozen=True, kw_only=True, eq=False)
class Collaboration(ABC):
    """What parties release, and what is made of it."""

    frame: Coordinates | SchemaGeometry  #: The public coordinates; a schema's are made by `at`
    epsilon: float  #: What each party spends in all
    delta: float = 0.0  #: With one the noise is Gaussian
    n_classes: int = 2  #: More than two have the softmax loss
    alpha: Alpha = "auto"  #: Ridge per record, or the public rule
    cap: float = 0.5  #: Largest slope of the loss of two classes; 1 is the logistic loss
    feature_scale: ArrayLike | None = None  #: Public factors of the columns
    #: Public coefficients to shrink towards, for rows as encoded; an array is a point in the
    #: coordinates, which `at` makes of them.
    prior: Prior | Floats | None = None
    belief: Belief = UNCHECKED  #: How far they are believed
    near: Near | None = None  #: What is known of the point, where it says more than a base rate
    rounds: int = 1  #: How often parties release

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        if self.alpha != "auto":
            check_positive(self.alpha, "alpha")

    @property
    def loss(self) -> Loss:
        """Of the model."""
        return loss_of(self.n_classes, self.cap)

    @property
    def space(self) -> Coordinates:
        """The coordinates, once they are made."""
        assert not isinstance(self.frame, SchemaGeometry), "made by `at`"
        return self.frame

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the weights."""
        size = self.space.size
        return (size,) if self.n_classes == 2 else (self.n_classes, size)

    @property
    def centre(self) -> Floats | None:
        """The point that is shrunk towards, in the coordinates."""
        assert not isinstance(self.prior, Prior), "made by `at`"
        return self.prior

    def allowed(self, sizes: Sizes) -> Allowance:
        """Return what one release may spend, of all parties' records together."""
        return Allowance(
            epsilon=self.epsilon, delta=self.delta, loss=self.loss, count=sizes.all_records
        )

    def at(self, sizes: Sizes) -> Self:
        """Return the same in coordinates that are made for parties of these public sizes."""
        if self.delta:
            sizes.check_delta(self.delta)
        frame, prior, near = self.frame, self.prior, self.near
        if isinstance(prior, Prior) and np.any(prior.coef):
            near = prior.near(self.belief)
        if isinstance(frame, SchemaGeometry):
            frame = frame.frame(self.allowed(sizes), LOG_ODDS if near is None else near.variance)
        frame = frame.weighted(self.feature_scale)[0]
        point = prior.point(frame, self.belief) if isinstance(prior, Prior) else prior
        return replace(self, frame=frame, prior=point, near=near, feature_scale=None)

    @abstractmethod
    def steps(self, sizes: Sizes | Sequence[str]) -> Protocol[Combined]:
        """Ask parties of these sizes, or of these names, and return what is made of it."""

    @abstractmethod
    def asked(self, sizes: Sizes) -> AskedOfRows | AskedSum:
        """Return what every party is asked first, once coordinates are made for these sizes."""

    def guarantee(self, sizes: Sizes) -> Guarantee:
        """Return what is promised, for parties of these public sizes."""
        first = self.at(sizes).asked(sizes).guarantee(sizes)
        return replace(first, epsilon=self.epsilon, delta=self.delta)

    def terms(self, parties: PartyRows, sizes: Sizes) -> list[Term]:
        """Return the mechanisms and what they see."""
        return self.at(sizes).asked(sizes).terms(parties, sizes)

    def run_many(
        self, parties: PartyRows, sizes: Sizes, source: RandomSource, count: int
    ) -> Floats:
        """Return what parties release, one run per row."""
        return np.hstack([term.run_many(source, count) for term in self.terms(parties, sizes)])


@dataclass(frozen=True, eq=False)
class CollaborativePlan(Plan[Linear]):
    """A protocol among parties of known sizes, all of whose rows are here."""

    method: Method  #: How the catalogue calls it
    protocol: Collaboration
    sizes: Sizes
    encoder: SchemaEncoder | None = None  #: What encodes raw tables, if anything does

    @override
    def guarantee(self) -> Guarantee:
        return self.protocol.guarantee(self.sizes)

    @property
    def expected(self) -> ExpectedArea | None:
        """What the area of an average of two classes is expected to be, by public facts."""
        made = self.protocol
        near = made.prior.open_at(made.belief) if isinstance(made.prior, Prior) else LOG_ODDS
        return self._shown(near)

    def _shown(self, known: float) -> ExpectedArea | None:
        made, frame, parties = self.protocol, self.protocol.frame, alike(self.sizes.counts.values())
        if isinstance(frame, BodyFrame) or not isinstance(made, Averaging) or made.n_classes > 2:
            return None
        spent = made.allowed(self.sizes)
        spent = spent.at(epsilon=made.epsilon / made.rounds / math.sqrt(parties), delta=0.0)
        return expected_in(frame, spent, known)

    @override
    def run(self, data: LabelledTable, source: RandomSource) -> Linear:
        steps = self.protocol.steps(self.sizes)
        return self.model(in_process(steps, self._parties(data), self.sizes, source), data.names)

    def model(self, made: Combined, names: Names) -> Linear:
        """Return the model of what parties in it have released."""
        shown = self._shown(LOG_ODDS) if isinstance(self.protocol.frame, SchemaGeometry) else None
        facts = Facts(
            method=self.method,
            parties=len(made.sizes),
            rounds=self.protocol.rounds,
            n_samples=sum(made.sizes.values()),
            prior=made.prior,
            kept=None if shown is None else shown.kept,
            **made.frame.learned_with(),
        )
        return linear_model(made.frame, made.weights, facts, names, self.protocol.loss)

    @override
    def terms(self, data: LabelledTable) -> list[Term]:
        return self.protocol.terms(self._parties(data), self.sizes)

    @override
    def run_many(self, data: LabelledTable, source: RandomSource, count: int) -> Floats:
        return self.protocol.run_many(self._parties(data), self.sizes, source, count)

    def _parties(self, data: LabelledTable) -> PartyRows:
        return PartyRows.of(data, len(self.sizes.counts))

    @property
    @override
    def batched(self) -> bool:
        return self.protocol.rounds == 1  # rounds follow one another


PartyMechanism = Objective | Point

#: Part of epsilon that pays for a check of a prior. It must not depend on sizes: parties grant
#: prices before they know who else takes part. Answers of all are added, so little is enough.
CHECK_SHARE = 0.05

_OUTPUT = "docs/proofs/output_perturbation.md"


@dataclass(frozen=True, kw_only=True, eq=False)
class Weights(AskedOfRows):
    """A party's weights, with noise in the objective."""

    operation: ClassVar[str] = "objective"
    gives: ClassVar[tuple[str, ...]] = ("weights",)

    frame: Coordinates  #: Public; noise is shaped like a body's rows
    epsilon: float  #: What one answer may spend
    ridge: float  #: The smallest of a party's summed objective
    alpha: float = 0.0  #: Ridge per record: a party of n records has ``max(ridge, n alpha)``
    cap: float = 1.0  #: Largest slope of the loss
    delta: float = 0.0  #: What one answer may spend of it; with one the noise is Gaussian
    centre: Floats | None = None  #: Public point to shrink towards, in the coordinates

    def ridge_for(self, n_samples: int) -> float:
        """Return the ridge of a party of that size."""
        if self.alpha > 0 and self.neighbours == Neighbours.ADD_REMOVE:
            raise InvalidParameter("alpha: under add-remove neighbours a ridge must not follow n.")
        return max(self.ridge, n_samples * self.alpha)

    @override
    def mechanism(self, n_samples: int) -> PartyMechanism:
        if n_samples not in self._made:
            self._made[n_samples] = self._make(n_samples)
        return self._made[n_samples]

    @cached_property
    def _made(self) -> dict[int, PartyMechanism]:
        return {}

    def _make(self, n_samples: int) -> PartyMechanism:
        ridge, count = self.ridge_for(n_samples), self.count(n_samples)
        return Objective(
            epsilon=self.epsilon,
            delta=self.delta,
            n_samples=count,
            blocks=(Columns(self.frame.bound, ridge, centre=self.centre),),
            loss=loss_of(self.n_classes, self.cap),
            solver=SOLVER,
        )

    @override
    def seen(self, X: Rows, y: Labels, engine: Reader = None) -> Any:
        return [self.frame.rows(X) if engine is None else self.frame.lazy(X, engine)], y


class NoisedMinimiser(Weights):
    """A party's weights, with noise on the minimiser."""

    operation: ClassVar[str] = "output"

    @override
    def _make(self, n_samples: int) -> Point:
        return noised_minimiser(
            epsilon=self.epsilon,
            delta=self.delta,
            n_samples=self.count(n_samples),
            n_features=self.frame.size,
            ridge=self.ridge_for(n_samples),
            loss=loss_of(self.n_classes, self.cap),
            centre=self.centre,
        )

    @override
    def seen(self, X: Rows, y: Labels, engine: Reader = None) -> Any:
        (rows,), y = super().seen(X, y, engine)
        return rows, y


def noised_minimiser(
    *,
    epsilon: float,
    n_samples: RowCount,
    n_features: int,
    ridge: float,  # ``L`` of the summed objective
    loss: Loss,
    delta: float = 0.0,
    centre: Floats | None = None,
) -> Point:
    """Return noise on the minimiser: docs/proofs/output_perturbation.md.

    The minimiser of an ``L``-strongly convex sum moves by at most the change of one record's
    gradient over ``L``; the solver's own error is added to that distance, so nothing else has to
    pay for it.
    """
    check_positive(ridge, "ridge")
    shape = (n_features,) if loss.n_scores == 1 else (loss.n_scores, n_features)
    check_centre(centre, shape)
    far = 0.0 if centre is None else float(np.linalg.norm(centre))
    how: dict[str, Any] = {"ridge": ridge, "centre_norm": far, "n_classes": loss.n_classes}
    # The certified bound on the gradient at the point before noise.
    tolerance = max(TOLERANCE, smallest_tolerance(largest_count(n_samples), n_features, **how))
    # No minimiser is longer: its objective is not above that of the centre.
    each = math.log(loss.n_classes) + loss.slope * far
    reach = math.sqrt(2 * largest_count(n_samples) * each / ridge) + tolerance / ridge + far
    changes = 2 if relation_of(n_samples) is Neighbours.REPLACE_ONE else 1
    moved = (changes * loss.slope + 2 * tolerance) / ridge

    def value(X: Rows, y: Labels) -> tuple[Floats]:
        """Return the certified minimiser, or else the centre."""
        loss.check_labels(y)
        rows, nothing = SOLVER.rows(X), np.zeros((1, math.prod(shape)))
        towards = nothing if centre is None else centre.reshape(1, -1)
        problem = Problem(rows, rows.keep(y), loss, ridge, nothing, towards)
        return (certified(SOLVER, problem, tolerance).reshape(shape),)

    return Point(
        promise=row_promise(epsilon, n_samples, _OUTPUT, delta=delta),
        sensitivity=moved + 2 * coordinate_rounding(reach, loss.n_classes),
        parts=(Part(n_features * (loss.n_classes - 1), reach, n_classes=loss.n_classes),),
        value=value,
        n_samples=n_samples,
        rows=L2(n_features),
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class PriorQuestion(AskedOfRows):
    """How far a prior holds on a party's records, with noise."""

    operation: ClassVar[str] = "check"
    gives: ClassVar[tuple[str, ...]] = ("prior",)

    prior: Prior
    epsilon: float

    @override
    def mechanism(self, n_samples: int) -> PriorCheck:
        count = self.count(n_samples)
        return self.prior.check(self.epsilon, count)

    @override
    def seen(self, X: Rows, y: Labels, engine: Reader = None) -> Any:
        return self.prior.scores(X), y

    @override
    def release(self, X: Rows, y: Labels, source: RandomSource, engine: Reader = None) -> Arrays:
        ((told,),) = source.draw(self.mechanism(len(y)).measurement, self.seen(X, y))
        return {"prior": told.astype(np.float64)}


@dataclass(frozen=True, kw_only=True, eq=False)
class Averaging(Collaboration):
    """Every party releases weights, once or in rounds; their average is the model.

    With ``norm="l1"`` the noise is Laplace's, and in a body's coordinates it is shaped like the
    rows, with the ridge that the body was made for. The automatic ``alpha`` is the public rule with
    the records of all parties together, since their average is what is used. Of several rounds each
    has an equal part of epsilon, and parties shrink towards what was averaged in the one before.
    """

    perturb: Literal["objective", "output"] = "objective"  #: Where noise enters
    #: Every party first answers how far the prior holds; the average is as near to it as the
    #: answers say together.
    checked: bool = False
    #: What is made of the parties' weights: their mean by records; or, coordinate by coordinate and
    #: with one vote per party, the mean without the largest and smallest fifth (one at least of
    #: each), or the median. The last two bound what parties that lie can do, at the cost of what
    #: sizes tell.
    combine: Combine = "mean"
    #: Stop before the last round once the average moves by less (the papers' eta): a decision on
    #: what was released, so it costs nothing, and what is left is not spent.
    stop_below: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.rounds, bool) or not 1 <= self.rounds <= 1000:
            raise InvalidParameter("rounds must be a whole number from 1 to 1000.")
        if self.perturb not in ("objective", "output"):
            raise InvalidParameter("perturb must be 'objective' or 'output'.")
        if not 0 <= self.stop_below < math.inf:
            raise InvalidParameter("stop_below must be a number, 0 or more.")
        if self.combine not in get_args(Combine):
            raise InvalidParameter("combine must be 'mean', 'trimmed' or 'median'.")
        if self.checked and not isinstance(self.prior, Prior):
            raise InvalidParameter("prior must say something of columns where it is checked.")

    @property
    def round_epsilons(self) -> tuple[float, ...]:
        """What each round spends."""
        whole = self.epsilon
        if self.rounds == 1:
            return (whole,)
        parts = shares(whole, [1.0] * self.rounds)
        # Ledgers add the decimals that floats print as: eleven times 1/11 would be above one.
        while sum(map(exact, parts)) > exact(whole):
            parts = tuple(math.nextafter(part, 0.0) for part in parts)
        return parts

    @property
    def round_delta(self) -> float:
        """What each round spends of delta: no more, in decimals, than its part."""
        part = self.delta / self.rounds
        while part and exact(part) * self.rounds > exact(self.delta):
            part = math.nextafter(part, 0.0)
        return part

    @override
    def allowed(self, sizes: Sizes) -> Allowance:
        return super().allowed(sizes).at(epsilon=self.round_epsilons[0], delta=self.round_delta)

    def request(self, epsilon: float, sizes: Sizes, centre: Floats | None) -> Weights:
        """Return what parties are asked in a round."""
        frame, size = self.space, self.space.size
        allowed, alpha = self.allowed(sizes).at(epsilon=epsilon), 0.0
        # Laplace noise on d coordinates has the variance of L2 noise in two dimensions, and
        # rows of the L1 ball are shorter by sqrt(d): d^3 becomes 2 d^2.
        short = frame.norm == "l1"
        if self.alpha != "auto":
            alpha = float(self.alpha)
            ridge = free_ridge(allowed.budget)
        elif isinstance(frame, BodyFrame):
            ridge = frame.ridge
        else:
            near = None if short or self.perturb == "output" else self.near
            ridge = ridge_for(
                allowed, 2 if short else size, near=near, spread=size if short else None
            )
        if self.alpha == "auto" and self.perturb == "output":
            # Noise on the minimiser is not damped by the data's curvature, which for unit rows is
            # n/(4d) per direction: a ridge below it would only let noise in.
            alpha = 1 / (4 * size)
        if sizes.hidden:
            # A party's own size is not public: the average of the counted ones stands for it.
            ridge, alpha = max(ridge, alpha * sizes.total / len(sizes.counts)), 0.0
        asked = Weights if self.perturb == "objective" else NoisedMinimiser
        return asked(
            frame=frame,
            epsilon=float(epsilon),
            ridge=ridge,
            alpha=alpha,
            cap=self.cap,
            n_classes=self.n_classes,
            delta=self.round_delta,
            centre=centre,
            **relation(sizes),
        )

    @override
    def asked(self, sizes: Sizes) -> Weights:
        return self.request(self.round_epsilons[0], sizes, self.centre)

    @override
    def guarantee(self, sizes: Sizes) -> Guarantee:
        if not self.checked:
            return super().guarantee(sizes)
        price = self.after(self.check(sizes).before).guarantee(sizes)
        return replace(price, epsilon=self.epsilon, theorem=THEOREM)

    @override
    def steps(self, sizes: Sizes | Sequence[str]) -> Protocol[Combined]:
        sizes = yield from known_sizes(sizes, self.delta)
        plan, names, known = self, list(sizes.counts), None
        if self.checked:
            told = yield Ask(self.prior_question(sizes), sizes.counts)
            check, names = self.check(sizes), list(told.names)
            belief = check.belief(float(told.arrays["prior"].sum()))
            if told.made_up:  # from .5 to 1: no two may lead to one belief, or one that is sure
                belief = Belief(float(told.arrays["prior"].mean()) - 0.5, check.sigma)
            plan, known = self.after(belief), prior_facts(belief, check)
        plan = plan.at(sizes)
        centre, counts = plan.centre, {name: sizes.counts[name] for name in names}
        for step, epsilon in enumerate(plan.round_epsilons):
            told = yield Ask(plan.request(epsilon, sizes, centre), counts, step)
            there = {name: counts[name] for name in told.names}
            before = centre
            centre = combine_weights(told.arrays["weights"], list(there.values()), self.combine)
            # So near to the average of the round before that this may be the last.
            moved = math.inf if not step or before is None else np.linalg.norm(centre - before)
            if moved < self.stop_below and not told.made_up:
                break
        assert centre is not None
        return Combined(plan.space, centre, there, known)

    @override
    def terms(self, parties: PartyRows, sizes: Sizes) -> list[Term]:
        if self.checked:  # and the average at what is believed before
            after = self.after(self.check(sizes).before)
            return [*self._checks(parties, sizes), *after.terms(parties, sizes)]
        if self.rounds > 1:
            raise InvalidParameter(
                "rounds: releases that follow one another have no simple density."
            )
        return super().terms(parties, sizes)

    # --- a prior that is checked ------------------------------------------------------------------

    @property
    def check_epsilon(self) -> float:
        """What a check spends."""
        return CHECK_SHARE * self.epsilon

    def check(self, sizes: Sizes) -> PriorCheck:
        """Return the check of all parties together."""
        assert isinstance(self.prior, Prior)
        count = sizes.all_records
        return self.prior.check(self.check_epsilon, count, len(sizes.counts))

    def prior_question(self, sizes: Sizes) -> PriorQuestion:
        """Return what every party is asked of the prior."""
        assert isinstance(self.prior, Prior)
        return PriorQuestion(
            prior=self.prior,
            epsilon=self.check_epsilon,
            n_classes=self.n_classes,
            **relation(sizes),
        )

    def _checks(self, parties: PartyRows, sizes: Sizes) -> list[Term]:
        """Return every party's check."""
        asked = self.prior_question(sizes)
        found = []
        for name, (X, y) in zip(sizes.counts, parties.members(), strict=True):
            check = asked.mechanism(len(y))
            found.append(Term(f"prior, {name}", check.measurement, asked.seen(X, y), check))
        return found

    def after(self, belief: Belief) -> Averaging:
        """Return the average that a belief calls for, at what is left of the price."""
        left = rest_of(self.epsilon, self.check_epsilon)
        return replace(self, checked=False, belief=belief, epsilon=left)

    @override
    def run_many(
        self, parties: PartyRows, sizes: Sizes, source: RandomSource, count: int
    ) -> Floats:
        if not self.checked:
            return super().run_many(parties, sizes, source, count)
        answers = np.hstack([term.run_many(source, count) for term in self._checks(parties, sizes)])
        check = self.check(sizes)
        beliefs = [check.belief(float(one)) for one in answers.sum(axis=1)]
        runs: list[Any] = [None] * count
        for belief in dict.fromkeys(beliefs):
            mine = [i for i, each in enumerate(beliefs) if each == belief]
            drawn = self.after(belief).run_many(parties, sizes, source, len(mine))
            for i, row in zip(mine, drawn, strict=True):
                runs[i] = row
        return np.hstack([answers, np.vstack(runs)])


# --- coefficients of an expanded loss -------------------------------------------------------------

_EXPANDED = "docs/proofs/functional_mechanism.md"

_UNIT_ROUNDOFF = 2.0**-53

#: Weights come from ``v``: less noise there helps more than in the curvature ``M``.
LINEAR_SHARE = 0.7


@dataclass(frozen=True, kw_only=True, eq=False)
class ExpandedLoss(AskedOfRows):
    """Coefficients of a party's expanded loss."""

    operation: ClassVar[str] = "coefficients"

    gives: ClassVar[tuple[str, ...]] = ("linear", "quadratic")

    frame: Coordinates
    epsilon: float
    linear_share: float = LINEAR_SHARE
    delta: float = 0.0

    @override
    def mechanism(self, n_samples: int) -> Point:
        return noised_coefficients(
            epsilon=self.epsilon,
            n_samples=self.count(n_samples),
            n_features=self.frame.size,
            linear_share=self.linear_share,
            n_classes=self.n_classes,
            delta=self.delta,
        )

    @override
    def seen(self, X: Rows, y: Labels, engine: Reader = None) -> Any:
        return self.frame.rows(X), y


def noised_coefficients(
    *,
    epsilon: float,
    n_samples: RowCount,
    n_features: int,
    n_classes: int = 2,
    delta: float = 0.0,
    # How much of epsilon goes to ``v``; measured, and near where both together are cheapest.
    linear_share: float = LINEAR_SHARE,
) -> Point:
    """Return noise on ``v = -(1/2) sum y x`` and ``M = (1/8) sum x x'``.

    They are the coefficients of ``sum log(1 + exp(-y w.x))`` expanded to second order at zero:
    ``v.w + w'Mw``. Everything computed from them afterwards is post-processing. Of K > 2 classes
    the softmax loss has ``v = sum (1/K - e_c) x'``, a matrix whose columns sum to zero, and
    ``M = sum x x'/(2K)``, the same for every class. ``M`` is in the ``d(d+1)/2`` coordinates of
    symmetric matrices, see :func:`unpack`.
    """
    if not 0 < linear_share < 1:
        raise InvalidParameter("linear_share must lie strictly between 0 and 1.")
    most, shares = largest_count(n_samples), (linear_share, 1 - linear_share)
    lengths, moves = part_lengths(n_classes), largest_moves(n_classes, relation_of(n_samples))
    # Bound on the error of a float sum of n vectors of norm at most one.
    rounding = 2 * most * (roundings(most) + 4) * _UNIT_ROUNDOFF
    turned = coordinate_rounding(most * lengths[0], n_classes)
    off_v = 2 * (lengths[0] * rounding + turned) / moves[0]
    off_m = 2 * lengths[1] * rounding / moves[1]
    together = 1.0  # one row alone moves both as far as it can
    if relation_of(n_samples) is Neighbours.REPLACE_ONE:
        together = (joint_gaussian_move if delta else joint_move)(linear_share)
    # Moves of v and M, each over its own largest, by their shares; with a delta their squares.
    off = math.hypot(off_v, off_m) if delta else linear_share * off_v + shares[1] * off_m
    sizes = n_features * (n_classes - 1), n_features * (n_features + 1) // 2

    def value(X: Rows, y: Labels) -> tuple[Floats, Floats]:
        loss_of(n_classes).check_labels(y)
        quadratic = pack(row_products(X, X) * lengths[1])
        if n_classes == 2:
            return -0.5 * row_products(X, y), quadratic
        errors = np.full((len(y), n_classes), 1 / n_classes)
        errors[np.arange(len(y)), np.asarray(y, dtype=np.intp)] -= 1
        return row_products(errors, X), quadratic

    return Point(
        promise=row_promise(epsilon, n_samples, _EXPANDED, delta=delta),
        sensitivity=together + off,
        parts=tuple(
            Part(size, most * length + rounding, share, move, classes)
            for size, length, share, move, classes in zip(
                sizes, lengths, shares, moves, (n_classes, 2), strict=True
            )
        ),
        value=value,
        n_samples=n_samples,
        rows=L2(n_features),
    )


def part_lengths(n_classes: int) -> tuple[float, float]:
    """Return the largest norms of one record's part of ``v`` and of ``M``."""
    k = n_classes
    return (1 / 2, 1 / 8) if k == 2 else (math.sqrt(1 - 1 / k), 1 / (2 * k))


def largest_moves(n_classes: int, relation: Neighbours) -> tuple[float, float]:
    """Return how far one record moves ``v`` and ``M``; a replaced one not both together.

    Opposite rows of one label move ``v`` by twice its part; ``||xx' - zz'|| <= sqrt 2``. A row
    that comes or goes moves either by its part.
    """
    on_v, on_m = part_lengths(n_classes)
    if relation is Neighbours.ADD_REMOVE:
        return on_v, on_m
    return 2 * on_v, math.sqrt(2) * on_m


def worst_angle(share: float) -> float:
    """Return the angle ``t`` at which ``s sin(t/2) + (1-s) sin t`` is largest.

    With ``c = cos(t/2)`` that is ``sqrt(1 - c^2) (s + 2 (1-s) c)``, largest where
    ``4 (1-s) c^2 + s c = 2 (1-s)``.
    """
    rest = 1 - share
    return 2 * math.acos(4 * rest / (share + math.sqrt(share**2 + 32 * rest**2)))


def joint_move(share: float) -> float:
    """Return how far one record moves ``v`` and ``M`` together, by their shares: at most one."""
    angle = worst_angle(share)
    return share * math.sin(angle / 2) + (1 - share) * math.sin(angle)


def joint_gaussian_move(share: float) -> float:
    """Return the same for Gaussian noise: the root of ``s sin^2(t/2) + (1-s) sin^2 t`` at most.

    With ``u = sin^2(t/2)`` that is ``s u + 4 (1-s) u (1-u)``, largest at ``(4 - 3s)/(8 (1-s))`` or
    at one.
    """
    rest = 4 * (1 - share)
    u = min(1.0, (share + rest) / (2 * rest))
    return math.sqrt(share * u + rest * u * (1 - u))


def pack(matrix: Floats) -> Floats:
    """Return a symmetric matrix as coordinates whose Euclidean norm is its Frobenius norm."""
    rows, columns = np.triu_indices(len(matrix))
    factors = np.where(rows == columns, 1.0, math.sqrt(2))
    return np.asarray(matrix[rows, columns] * factors)


def unpack(coordinates: Floats, size: int) -> Floats:
    """Return the symmetric matrix of :func:`pack`'s coordinates."""
    rows, columns = np.triu_indices(size)
    factors = np.where(rows == columns, 1.0, math.sqrt(0.5))
    matrix = np.zeros((size, size))
    matrix[rows, columns] = coordinates * factors
    matrix[columns, rows] = coordinates * factors
    return matrix


@dataclass(frozen=True, kw_only=True, eq=False)
class Expansion(Collaboration):
    """Every party releases the coefficients of its expanded loss once; their sum is minimised.

    The automatic ``alpha`` is the larger of the public rule and the typical size of the noise in
    the curvature.
    """

    linear_share: float = LINEAR_SHARE  #: Of epsilon, for the linear coefficients

    @override
    def asked(self, sizes: Sizes) -> ExpandedLoss:
        return ExpandedLoss(
            frame=self.space,
            epsilon=self.epsilon,
            linear_share=self.linear_share,
            delta=self.delta,
            n_classes=self.n_classes,
            **relation(sizes),
        )

    def ridge(self, sizes: Sizes) -> float:
        """Return the public ridge."""
        frame, size = self.space, self.space.size
        if self.alpha != "auto":
            return sizes.total * float(self.alpha)
        budget = self.epsilon * self.linear_share
        rule = max(free_ridge(budget), size**3 / (sizes.total * budget**2))
        if isinstance(frame, BodyFrame):
            rule = frame.ridge
        mechanism = self.asked(sizes).mechanism(max(sizes.counts.values()))
        # Coordinates of M are entries times sqrt(2); a symmetric matrix of entries sigma has norm
        # 2 sigma sqrt(d), and the curvature is 2M.
        entry = mechanism.deviations[1] / math.sqrt(2)
        return max(4 * entry * math.sqrt(size * len(sizes.counts)), rule)

    @override
    def steps(self, sizes: Sizes | Sequence[str]) -> Protocol[Combined]:
        sizes = yield from known_sizes(sizes, self.delta)
        made = self.at(sizes)
        told = yield Ask(made.asked(sizes), sizes.counts)
        weights = minimise_quadratic(  # post-processing
            told.arrays["linear"].sum(axis=0),
            unpack(told.arrays["quadratic"].sum(axis=0), made.space.size),
            ridge=made.ridge(sizes),
            prior=made.centre,
        )
        return Combined(made.space, weights, {name: sizes.counts[name] for name in told.names})


def minimise_quadratic(
    linear: Floats, quadratic: Floats, *, ridge: float, prior: Floats | None = None
) -> Floats:
    """Minimise ``v.w + w'Mw + (L/2)||w - u||^2`` with M's negative eigenvalues set to zero.

    Of several classes, with one row of ``linear`` each, every one by itself.
    """
    centre = np.zeros_like(linear) if prior is None else prior
    eigenvalues, vectors = np.linalg.eigh((quadratic + quadratic.T) / 2)
    curvature = 2 * np.maximum(eigenvalues, 0.0) + ridge
    return np.asarray((((ridge * centre - linear) @ vectors) / curvature) @ vectors.T)
