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
from typing import Any, ClassVar, Literal, Self, get_args

import numpy as np

from confrere.arrays import ClassRows, Floats, coordinate_rounding, coordinates
from confrere.data.encoding import SchemaEncoder
from confrere.data.frame import BodyFrame, BoundedRows
from confrere.errors import InvalidParameter
from confrere.kernel.accountants import Loss, loss_of
from confrere.kernel.guarantee import Guarantee, Neighbours, check_epsilon, check_positive
from confrere.kernel.measurements import (
    TOLERANCE,
    Objective,
    Part,
    Point,
    RowCount,
    certified,
    check_centre,
    largest_count,
    relation_of,
    row_promise,
    smallest_tolerance,
)
from confrere.kernel.noise import L2, RandomSource
from confrere.methods.allowance import (
    LOSSES,
    SOLVER,
    Allowance,
    Alpha,
    Near,
    alike,
    equal_part,
    free_ridge,
    problem,
    ridge_for,
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
from confrere.methods.geometry import ExpectedArea, SchemaGeometry, expected_in
from confrere.methods.plan import (
    Coordinates,
    LabelledTable,
    Names,
    Plan,
    Target,
    Term,
    linear_model,
)
from confrere.methods.priors import (
    THEOREM,
    UNCHECKED,
    Belief,
    Prior,
    PriorCheck,
    by_belief,
    rest_of,
)
from confrere.model import Facts, Linear, PriorFacts
from confrere.solver.descent import minimise_quadratic
from confrere.solver.row_blocks import roundings, row_products

Method = Literal["average", "ofpa", "ofaa", "laplace", "sums"]


@dataclass(frozen=True, eq=False)
class Combined:
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
    target: Target = Target(LOSSES["capped"])  # noqa: RUF009
    #: Ridge per record, or the public rule; 0 is the least that there can be
    alpha: Alpha = "auto"
    #: Public coefficients to shrink towards, for rows as encoded; an array is a point in the
    #: coordinates, which `at` makes of them.
    prior: Prior | Floats | None = None
    belief: Belief = UNCHECKED  #: How far they are believed
    near: Near | None = None  #: What is known of the point, where it says more than a base rate
    rounds: int = 1  #: How often parties release; 0 is a rule of sizes

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        if self.alpha not in ("auto", 0.0):
            check_positive(self.alpha, "alpha")

    @property
    def loss(self) -> Loss:
        return self.target.loss

    @property
    def n_classes(self) -> int:
        return self.loss.n_classes

    @property
    def space(self) -> Coordinates:
        assert not isinstance(self.frame, SchemaGeometry), "made by `at`"
        return self.frame

    @property
    def shape(self) -> tuple[int, ...]:
        return self.loss.weight_shape(self.space.size)

    @property
    def centre(self) -> Floats | None:
        assert not isinstance(self.prior, Prior), "made by `at`"
        return self.prior

    def allowed(self, sizes: Sizes) -> Allowance:
        price = {"epsilon": self.epsilon, "delta": self.delta, "count": sizes.all_records}
        return self.target.allowance(**price)

    def at(self, sizes: Sizes) -> Self:
        """Return the same in coordinates that are made for parties of these public sizes."""
        if self.delta:
            sizes.check_delta(self.delta)
        frame, prior, near = self.frame, self.prior, self.near
        if isinstance(prior, Prior) and np.any(prior.coef):
            near = prior.near(self.belief)
        if isinstance(frame, SchemaGeometry):
            known = self.allowed(sizes)
            frame = frame.frame(known, known.variance if near is None else near.variance)
        if isinstance(prior, Prior):
            prior = self.target.wide(prior.point(frame, self.belief))
        return replace(self, frame=frame, prior=prior, near=near)

    @abstractmethod
    def steps(self, sizes: Sizes | Sequence[str]) -> Protocol[Combined]:
        """Ask parties of these sizes, or of these names, and return what is made of it."""

    @abstractmethod
    def asked(self, sizes: Sizes) -> AskedOfRows | AskedSum:
        """Return what every party is asked first, once coordinates are made for these sizes."""

    def guarantee(self, sizes: Sizes) -> Guarantee:
        first = self.at(sizes).asked(sizes).guarantee(sizes)
        return replace(first, epsilon=self.epsilon, delta=self.delta)

    def likely(self, sizes: Sizes) -> Collaboration:
        """Return what follows a check, if it brings what is believed before; itself without one."""
        return self

    def shown(self, sizes: Sizes) -> ExpectedArea | None:
        """Return what records are expected to show by themselves, where there is a rule for it."""
        return None

    def terms(self, parties: PartyRows, sizes: Sizes) -> list[Term]:
        return self.at(sizes).asked(sizes).terms(parties, sizes)

    def run_many(
        self, parties: PartyRows, sizes: Sizes, source: RandomSource, count: int
    ) -> Floats:
        return np.hstack([term.run_many(source, count) for term in self.terms(parties, sizes)])


@dataclass(frozen=True, eq=False)
class CollaborativePlan(Plan[Linear]):
    """A protocol among parties of known sizes, all of whose rows are here."""

    method: Method  #: How the catalogue calls it
    protocol: Collaboration
    sizes: Sizes
    encoder: SchemaEncoder | None = None  #: What encodes raw tables, if anything does

    def guarantee(self) -> Guarantee:
        return self.protocol.guarantee(self.sizes)

    @property
    def expected(self) -> ExpectedArea | None:
        made = self.protocol.likely(self.sizes)
        shown = made.shown(self.sizes)
        if shown is None or not isinstance(made.prior, Prior):
            return shown
        return made.prior.expected(shown, made.belief)

    def run(self, data: LabelledTable, source: RandomSource) -> Linear:
        steps = self.protocol.steps(self.sizes)
        return self.model(in_process(steps, self._parties(data), self.sizes, source), data.names)

    def model(self, made: Combined, names: Names) -> Linear:
        own = isinstance(self.protocol.frame, SchemaGeometry)
        shown = self.protocol.likely(self.sizes).shown(self.sizes) if own else None
        facts = Facts(
            method=self.method,
            parties=len(made.sizes),
            rounds=self.rounds,
            n_samples=sum(made.sizes.values()),
            prior=made.prior,
            kept=None if shown is None else shown.kept,
        )
        return linear_model(made.frame, made.weights, facts, names, self.protocol.target)

    def terms(self, data: LabelledTable) -> list[Term]:
        return self.protocol.terms(self._parties(data), self.sizes)

    def run_many(self, data: LabelledTable, source: RandomSource, count: int) -> Floats:
        return self.protocol.run_many(self._parties(data), self.sizes, source, count)

    def _parties(self, data: LabelledTable) -> PartyRows:
        return PartyRows.of(data, len(self.sizes.counts))

    @property
    def rounds(self) -> int:
        return self.protocol.rounds or self.protocol.at(self.sizes).rounds

    @property
    def batched(self) -> bool:
        return self.rounds == 1  # rounds follow one another


@dataclass(frozen=True, kw_only=True, eq=False)
class Weights(AskedOfRows):
    """A party's weights, with noise in the objective."""

    operation: ClassVar[str] = "objective"
    gives: ClassVar[tuple[str, ...]] = ("weights",)

    frame: Coordinates  #: Public; noise is shaped like a body's rows
    epsilon: float  #: What one answer may spend
    ridge: float  #: The smallest of a party's summed objective
    alpha: float = 0.0  #: Ridge per record: a party of n records has ``max(ridge, n alpha)``
    loss: Loss = LOSSES["logistic"]
    delta: float = 0.0  #: What one answer may spend of it; with one the noise is Gaussian
    centre: Floats | None = None  #: Public point to shrink towards, in the coordinates

    def ridge_for(self, n_samples: int) -> float:
        if self.alpha > 0 and self.neighbours == Neighbours.ADD_REMOVE:
            raise InvalidParameter("alpha: under add-remove neighbours a ridge must not follow n.")
        return max(self.ridge, n_samples * self.alpha)

    def mechanism(self, n_samples: int) -> Objective | Point:
        ridge, count = self.ridge_for(n_samples), self.count(n_samples)
        price = {"epsilon": self.epsilon, "delta": self.delta}
        allowed = Allowance(**price, loss=self.loss, count=count)
        return allowed.objective(self.frame.bound, ridge, self.centre)

    def seen(self, X: Rows, y: Labels, engine: Reader = None) -> object:
        return [self.frame.rows(X, engine)], y


class NoisedMinimiser(Weights):
    """A party's weights, with noise on the minimiser."""

    operation: ClassVar[str] = "output"

    def mechanism(self, n_samples: int) -> Point:
        return noised_minimiser(
            n_samples=self.count(n_samples),
            n_features=self.frame.size,
            ridge=self.ridge_for(n_samples),
            **{name: getattr(self, name) for name in ("epsilon", "delta", "loss", "centre")},
        )

    def seen(self, X: Rows, y: Labels, engine: Reader = None) -> object:
        return self.frame.rows(X, engine), y


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
    """Return noise on the minimiser: docs/proofs/output_perturbation.md."""
    check_positive(ridge, "ridge")
    k, shape = loss.n_classes, loss.weight_shape(n_features)
    check_centre(centre, shape)
    far = 0.0 if centre is None else float(np.linalg.norm(centre))
    how: dict[str, Any] = {"ridge": ridge, "centre_norm": far, "loss": loss}
    # The certified bound on the gradient at the point before noise.
    tolerance = max(TOLERANCE, smallest_tolerance(largest_count(n_samples), n_features, **how))
    # No minimiser is longer: its objective is not above that of the centre.
    each = math.log(loss.n_classes) + loss.slope * far
    reach = math.sqrt(2 * largest_count(n_samples) * each / ridge) + tolerance / ridge + far
    changes = 2 if relation_of(n_samples) is Neighbours.REPLACE_ONE else 1
    moved = (changes * loss.slope + 2 * tolerance) / ridge

    def value(X: BoundedRows, y: Labels) -> tuple[Floats]:
        """Return the certified minimiser, or else the centre."""
        asked = problem(X, y, loss, ridge, centre=centre)
        return (coordinates(certified(SOLVER, asked, tolerance).reshape(shape)),)

    return Point(
        promise=row_promise(epsilon, n_samples, "docs/proofs/output_perturbation.md", delta=delta),
        sensitivity=moved + 2 * coordinate_rounding(reach, k),
        parts=(Part(n_features * (k - 1), reach, told=ClassRows(k)),),
        value=value,
        n_samples=n_samples,
        rows=L2(n_features),
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class PriorQuestion(AskedOfRows):
    operation: ClassVar[str] = "check"
    gives: ClassVar[tuple[str, ...]] = ("prior",)

    prior: Prior
    epsilon: float

    def mechanism(self, n_samples: int) -> PriorCheck:
        return PriorCheck(prior=self.prior, epsilon=self.epsilon, n_samples=self.count(n_samples))

    def seen(self, X: Rows, y: Labels, engine: Reader = None) -> object:
        return self.prior.scores(X), y

    def release(self, X: Rows, y: Labels, source: RandomSource, engine: Reader = None) -> Arrays:
        ((told,),) = source.draw(self.mechanism(len(y)).measurement, self.seen(X, y))
        return {"prior": told.astype(np.float64)}


@dataclass(frozen=True, kw_only=True, eq=False)
class Averaging(Collaboration):
    """Every party releases weights, once or in rounds; their average is the model.

    The automatic ``alpha`` is the public rule with the records of all parties together, since their
    average is what is used. Of several rounds each has an equal part of epsilon.
    """

    perturb: Literal["objective", "output"] = "objective"  #: Where noise enters
    #: Every party first answers how far the prior holds; the average is as near to it as the
    #: answers say together.
    checked: bool = False
    #: What is made of the parties' weights: their mean by records; or, coordinate by coordinate,
    #: one without the largest and smallest fifth, or the median: against parties that lie.
    combine: Combine = "mean"

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.rounds, bool) or not 1 <= self.rounds <= 1000:
            raise InvalidParameter("rounds must be a whole number from 1 to 1000.")
        if self.perturb not in ("objective", "output"):
            raise InvalidParameter("perturb must be 'objective' or 'output'.")
        if self.combine not in get_args(Combine):
            raise InvalidParameter("combine must be 'mean', 'trimmed' or 'median'.")
        if self.checked and not isinstance(self.prior, Prior):
            raise InvalidParameter("prior must say something of columns where it is checked.")

    def allowed(self, sizes: Sizes) -> Allowance:
        each = {name: equal_part(getattr(self, name), self.rounds) for name in ("epsilon", "delta")}
        return super().allowed(sizes).at(**each)

    def request(self, sizes: Sizes, centre: Floats | None) -> Weights:
        frame, size = self.space, self.space.size
        allowed, alpha = self.allowed(sizes), 0.0
        # Laplace noise on d coordinates has the variance of L2 noise in two dimensions, and
        # rows of the L1 ball are shorter by sqrt(d): d^3 becomes 2 d^2.
        short = frame.norm == "l1"
        if self.alpha != "auto":
            alpha = float(self.alpha)
            ridge = free_ridge(allowed.budget, allowed.floor or 2.0)
        elif isinstance(frame, BodyFrame):
            ridge = frame.ridge
        elif short:
            ridge = ridge_for(allowed, 2, spread=size)
        else:
            ridge = ridge_for(allowed, size, near=None if self.perturb == "output" else self.near)
        if self.alpha == "auto" and self.perturb == "output":
            # Noise on the minimiser is not damped by the data's curvature, which for unit rows is
            # n/(4d) per direction: a ridge below it would only let noise in.
            alpha = 1 / (4 * size)
        if sizes.hidden:
            # A party's own size is not public: the average of the counted ones stands for it.
            ridge, alpha = max(ridge, alpha * sizes.total / len(sizes.counts)), 0.0
        asked = Weights if self.perturb == "objective" else NoisedMinimiser
        told = relation(sizes) | {"epsilon": allowed.epsilon, "delta": allowed.delta}
        told |= {"loss": self.loss, "n_classes": self.n_classes, "centre": centre}
        return asked(frame=frame, ridge=ridge, alpha=alpha, **told)

    def asked(self, sizes: Sizes) -> Weights:
        return self.request(sizes, self.centre)

    def guarantee(self, sizes: Sizes) -> Guarantee:
        if not self.checked:
            return super().guarantee(sizes)
        price = self.likely(sizes).guarantee(sizes)
        return replace(price, epsilon=self.epsilon, theorem=THEOREM)

    def steps(self, sizes: Sizes | Sequence[str]) -> Protocol[Combined]:
        sizes = yield from known_sizes(sizes, self.delta)
        plan, names, known = self, list(sizes.counts), None
        if self.checked:
            check = self.check(sizes)
            told = yield Ask(self.prior_question(check, sizes), sizes.counts)
            names = list(told.names)
            belief = check.belief(float(told.arrays["prior"].sum()))
            if told.made_up:  # from .5 to 1: no two may lead to one belief, or one that is sure
                belief = Belief(float(told.arrays["prior"].mean()) - 0.5, check.sigma)
            plan, known = self.after(check, belief), belief.facts(check.epsilon)
        plan = plan.at(sizes)
        centre, counts = plan.centre, {name: sizes.counts[name] for name in names}
        for step in range(plan.rounds):
            told = yield Ask(plan.request(sizes, centre), counts, step)
            there = {name: counts[name] for name in told.names}
            centre = combine_weights(told.arrays["weights"], list(there.values()), self.combine)
        assert centre is not None
        return Combined(plan.space, centre, there, known)

    def terms(self, parties: PartyRows, sizes: Sizes) -> list[Term]:
        if self.checked:  # and the average at what is believed before
            return [*self._checks(parties, sizes), *self.likely(sizes).terms(parties, sizes)]
        if self.rounds > 1:
            raise InvalidParameter(
                "rounds: releases that follow one another have no simple density."
            )
        return super().terms(parties, sizes)

    # --- a prior that is checked ------------------------------------------------------------------

    def check(self, sizes: Sizes) -> PriorCheck:
        assert isinstance(self.prior, Prior)
        return self.prior.check_within(self.epsilon, sizes.all_records, len(sizes.counts))

    def prior_question(self, check: PriorCheck, sizes: Sizes) -> PriorQuestion:
        told = relation(sizes) | {"prior": check.prior, "epsilon": check.epsilon}
        return PriorQuestion(n_classes=self.n_classes, **told)

    def _checks(self, parties: PartyRows, sizes: Sizes) -> list[Term]:
        asked = self.prior_question(self.check(sizes), sizes)
        found = []
        for name, (X, y) in zip(sizes.counts, parties.members(), strict=True):
            check = asked.mechanism(len(y))
            found.append(Term(f"prior, {name}", check.measurement, asked.seen(X, y), check))
        return found

    def likely(self, sizes: Sizes) -> Averaging:
        if not self.checked:
            return self
        check = self.check(sizes)
        return self.after(check, check.before)

    def shown(self, sizes: Sizes) -> ExpectedArea | None:
        if isinstance(self.frame, BodyFrame) or self.n_classes != 2:
            return None
        epsilon = self.epsilon / self.rounds / math.sqrt(alike(sizes.counts.values()))
        return expected_in(self.frame, self.allowed(sizes).at(epsilon=epsilon, delta=0.0))

    def after(self, check: PriorCheck, belief: Belief) -> Averaging:
        left = rest_of(self.epsilon, check.epsilon)
        return replace(self, checked=False, belief=belief, epsilon=left)

    def run_many(
        self, parties: PartyRows, sizes: Sizes, source: RandomSource, count: int
    ) -> Floats:
        if not self.checked:
            return super().run_many(parties, sizes, source, count)
        answers = np.hstack([term.run_many(source, count) for term in self._checks(parties, sizes)])
        check = self.check(sizes)
        beliefs = [check.belief(float(one)) for one in answers.sum(axis=1)]

        def drawn(belief: Belief, n: int) -> Floats:
            return self.after(check, belief).run_many(parties, sizes, source, n)

        return np.hstack([answers, by_belief(beliefs, drawn)])


# --- coefficients of an expanded loss -------------------------------------------------------------


def pack(matrix: Floats) -> Floats:
    """Return a symmetric matrix as coordinates whose Euclidean norm is its Frobenius norm."""
    rows, columns = np.triu_indices(len(matrix))
    factors = np.where(rows == columns, 1.0, math.sqrt(2))
    return np.asarray(matrix[rows, columns] * factors)


def unpack(coordinates: Floats, size: int) -> Floats:
    rows, columns = np.triu_indices(size)
    factors = np.where(rows == columns, 1.0, math.sqrt(0.5))
    matrix = np.zeros((size, size))
    matrix[rows, columns] = coordinates * factors
    matrix[columns, rows] = coordinates * factors
    return matrix


_UNIT_ROUNDOFF = 2.0**-53

#: Weights come from ``v``: less noise there helps more than in the curvature ``M``.
LINEAR_SHARE = 0.7


@dataclass(frozen=True, kw_only=True, eq=False)
class ExpandedLoss(AskedOfRows):
    operation: ClassVar[str] = "coefficients"

    gives: ClassVar[tuple[str, ...]] = ("linear", "quadratic")

    frame: Coordinates
    epsilon: float
    delta: float = 0.0

    def mechanism(self, n_samples: int) -> Point:
        return noised_coefficients(
            epsilon=self.epsilon,
            n_samples=self.count(n_samples),
            n_features=self.frame.size,
            n_classes=self.n_classes,
            delta=self.delta,
        )

    def seen(self, X: Rows, y: Labels, engine: Reader = None) -> object:
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

    Of ``sum log(1 + exp(-y w.x))`` expanded at zero, ``v.w + w'Mw``. Of K > 2 classes the softmax
    loss has ``v = sum (1/K - e_c) x'`` and ``M = sum x x'/(2K)``, packed: see :func:`unpack`.
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
        angle = worst_angle(linear_share)
        together = shares[0] * math.sin(angle / 2) + shares[1] * math.sin(angle)
        together = joint_gaussian_move(linear_share) if delta else together
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
        return coordinates(row_products(errors, X)), quadratic

    return Point(
        promise=row_promise(epsilon, n_samples, "docs/proofs/functional_mechanism.md", delta=delta),
        sensitivity=together + off,
        parts=tuple(
            Part(size, most * length + rounding, share, move, ClassRows(classes))
            for size, length, share, move, classes in zip(
                sizes, lengths, shares, moves, (n_classes, 2), strict=True
            )
        ),
        value=value,
        n_samples=n_samples,
        rows=L2(n_features),
    )


def part_lengths(k: int) -> tuple[float, float]:
    return (1 / 2, 1 / 8) if k == 2 else (math.sqrt(1 - 1 / k), 1 / (2 * k))


def largest_moves(n_classes: int, relation: Neighbours) -> tuple[float, float]:
    """Return how far one record moves ``v`` and ``M``: ``||xx' - zz'|| <= sqrt 2``."""
    on_v, on_m = part_lengths(n_classes)
    if relation is Neighbours.ADD_REMOVE:
        return on_v, on_m
    return 2 * on_v, math.sqrt(2) * on_m


def worst_angle(share: float) -> float:
    """Return where ``s sin(t/2) + (1-s) sin t`` is largest: ``4 (1-s) c^2 + s c = 2 (1-s)``."""
    rest = 1 - share
    return 2 * math.acos(4 * rest / (share + math.sqrt(share**2 + 32 * rest**2)))


def joint_gaussian_move(share: float) -> float:
    """Return the same for Gaussian noise: ``s u + 4 (1-s) u (1-u)`` with ``u = sin^2(t/2)``."""
    rest = 4 * (1 - share)
    u = min(1.0, (share + rest) / (2 * rest))
    return math.sqrt(share * u + rest * u * (1 - u))


@dataclass(frozen=True, kw_only=True, eq=False)
class Expansion(Collaboration):
    """Every party releases the coefficients of its expanded loss once; their sum is minimised."""

    def asked(self, sizes: Sizes) -> ExpandedLoss:
        told = relation(sizes) | {"epsilon": self.epsilon, "delta": self.delta}
        return ExpandedLoss(frame=self.space, n_classes=self.n_classes, **told)

    def ridge(self, sizes: Sizes) -> float:
        frame, size = self.space, self.space.size
        if self.alpha != "auto":
            return sizes.total * float(self.alpha)
        budget = self.epsilon * LINEAR_SHARE
        rule = max(free_ridge(budget), size**3 / (sizes.total * budget**2))
        if isinstance(frame, BodyFrame):
            rule = frame.ridge
        mechanism = self.asked(sizes).mechanism(max(sizes.counts.values()))
        # Coordinates of M are entries times sqrt(2); a symmetric matrix of entries sigma has norm
        # 2 sigma sqrt(d), and the curvature is 2M.
        entry = mechanism.deviations[1] / math.sqrt(2)
        return max(4 * entry * math.sqrt(size * len(sizes.counts)), rule)

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
