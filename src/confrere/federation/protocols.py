"""Protocols in which every party releases numbers, and the coordinator combines them.

What parties are asked, by operation, and what is made of their answers: how many records a party
has, and how many a public model gets wrong (sizes are declared, or counted with noise where they
are not public; errors are always counted with noise); whether a prior fits; weights, by objective
and by output perturbation, which are averaged once or in rounds; and coefficients of an expanded
loss (OFAA), which are added up.

Proofs: docs/proofs/counting.md, private_evaluation.md, prior_check.md, averaging.md,
objective_perturbation.md, output_perturbation.md, functional_mechanism.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from typing_extensions import override

from confrere.arrays import Floats
from confrere.errors import InvalidMessage
from confrere.federation.federation import Federation, StackedAnswers, stacked
from confrere.federation.messages import (
    FARTHEST,
    MOST_RECORDS,
    Expected,
    Numbers,
    Payload,
    receipt_of,
)
from confrere.federation.operation import (
    Arrays,
    Delta,
    Epsilon,
    InCoordinates,
    Least,
    Operation,
    PartyFacts,
    Positive,
    Relation,
    Vector,
    framed,
    install,
    number,
    numbers,
    read_frame,
)
from confrere.federation.party import LocalParty, PartyGroup
from confrere.kernel.guarantee import Guarantee, Neighbours, in_sequence
from confrere.kernel.streams import RandomSource
from confrere.ledger import Receipt
from confrere.mechanisms.counts import PrivateCounts
from confrere.mechanisms.measurements import HiddenSize, Objective, largest_count
from confrere.mechanisms.output_perturbation import OutputPerturbation
from confrere.mechanisms.prior_check import Belief, PriorCheck
from confrere.methods.checked import prior_facts
from confrere.methods.collaborative import Averaging, WeightRequest
from confrere.methods.expansion import Expansion
from confrere.methods.linear import Coordinates
from confrere.methods.party_rows import Combine, Sizes, combine_weights, over_parties, run_parties
from confrere.methods.priors import Prior
from confrere.model import PriorFacts
from confrere.model.models import readable_rows, scores

#: A prior with a coordinate further out than this is a mistake or an attack.
FARTHEST_PRIOR = 1e6

#: More records than this are no party's.
LARGEST_DECLARED = 10**9


@dataclass(frozen=True, eq=False)
class Outcome:
    """A model of several parties: post-processing of what each of them released.

    Parameters
    ----------
    frame : Frame or BodyFrame
        The coordinates that ``weights`` are in.
    weights : (d,) or (K, d) array
        The released model; one row per class of more than two.
    sizes : mapping of str to int
        The parties in it and their number of records, declared or privately counted.
    receipts : mapping of str to tuple of Receipt
        What each party paid, in order.
    prior : PriorFacts, optional
        What a check of a prior has shown.
    """

    frame: Coordinates
    weights: Floats
    sizes: Mapping[str, int]
    receipts: Mapping[str, tuple[Receipt, ...]]
    prior: PriorFacts | None = None

    @property
    def coef(self) -> Floats:
        """Coefficients of two classes, for rows as encoded."""
        return self.frame.coefficients(self.weights)[0]

    @property
    def intercept(self) -> float:
        """Intercept of two classes, for rows as encoded."""
        return self.frame.coefficients(self.weights)[1]

    @property
    def guarantee(self) -> Guarantee:
        """In sequence within a party, in parallel over parties: they hold disjoint records."""
        return guarantee_of(self.receipts)

    @property
    def simulated(self) -> bool:
        """Whether any party's noise was seeded."""
        return any(receipt.simulated for paid in self.receipts.values() for receipt in paid)

    def to_payload(self) -> Payload:
        """Return everything as one payload, to be kept or sent."""
        paid = {name: [r.to_dict() for r in receipts] for name, receipts in self.receipts.items()}
        values: dict[str, Any] = {"sizes": dict(self.sizes), "receipts": paid}
        if self.prior is not None:
            values["prior"] = asdict(self.prior)
        return framed(self.frame, values, weights=self.weights)

    @classmethod
    def from_payload(cls, payload: Payload) -> Outcome:
        """Read what :meth:`to_payload` wrote."""
        try:
            receipts = {
                name: tuple(Receipt.from_dict(r) for r in paid)
                for name, paid in payload.values["receipts"].items()
            }
            frame = read_frame(payload.values["frame"], dict(payload.arrays))
            known = payload.values.get("prior")
            prior = None if known is None else PriorFacts(**known)
            return cls(frame, payload.arrays["weights"], payload.values["sizes"], receipts, prior)
        except (KeyError, AttributeError, TypeError) as error:
            raise InvalidMessage("this payload is not an outcome.") from error


def guarantee_of(receipts: Mapping[str, tuple[Receipt, ...]]) -> Guarantee:
    """Return what a person in one party's data is promised about everything released."""
    distinct = {tuple((r.ledger_id, r.row) for r in paid): paid for paid in receipts.values()}
    totals = [
        paid[0].guarantee if len(paid) == 1 else in_sequence(r.guarantee for r in paid)
        for paid in distinct.values()
    ]
    return totals[0] if len(totals) == 1 else over_parties(totals, len(receipts))


def receipts_in(answers: Mapping[str, Payload]) -> dict[str, tuple[Receipt, ...]]:
    """Return the receipt that came with every answer; members of a group share one."""
    if isinstance(answers, StackedAnswers):
        return dict.fromkeys(answers, _receipts(answers.whole))
    return {name: _receipts(answer) for name, answer in answers.items()}


def _receipts(answer: Payload) -> tuple[Receipt, ...]:
    receipt = receipt_of(answer)
    return () if receipt is None else (receipt,)


def joined(
    earlier: Mapping[str, tuple[Receipt, ...]], later: Mapping[str, tuple[Receipt, ...]]
) -> dict[str, tuple[Receipt, ...]]:
    """Append receipts, party by party; one that several answers share counts once."""
    return {
        name: tuple(dict.fromkeys(earlier.get(name, ()) + later.get(name, ())))
        for name in {**earlier, **later}
    }


@install
class Size(Operation):
    """The number of records: where one is replaced by another, it is public."""

    operation: ClassVar[str] = "size"

    @override
    def expected(self, n_samples: int) -> Expected:
        return Expected({"size": Numbers((), "<i8", lowest=1, highest=MOST_RECORDS)})

    @override
    def answer(self, party: LocalParty, source: RandomSource) -> Arrays:
        return {"size": np.array(party.facts.n_samples)}

    @override
    def answers(self, group: PartyGroup, source: RandomSource) -> Arrays:
        return {"size": group.sizes}


THEOREM = "docs/proofs/counting.md"


def _within(counts: PrivateCounts, most: int) -> Numbers:
    """Return what a noised count of at most so many records must be."""
    # The tail of discrete Laplace noise of scale 1/epsilon, and one for the rounding.
    reach = 1 + math.ceil(-math.log(FARTHEST) / counts.epsilon)
    return Numbers((), "<i8", lowest=-reach, highest=most + reach)


@install
@dataclass(frozen=True, kw_only=True, eq=False)
class Count(Operation):
    """The number of records, with noise: where one may come or go."""

    operation: ClassVar[str] = "count"
    epsilon: Epsilon

    @property
    def mechanism(self) -> PrivateCounts:
        """What counts: a record that comes or goes moves it by one, as a replaced one others."""
        return PrivateCounts(
            epsilon=self.epsilon,
            sensitivity=1,
            neighbours=Neighbours.ADD_REMOVE,
            public=("number of features", "every parameter"),
        )

    @override
    def expected(self, n_samples: int) -> Expected:
        price = replace(self.mechanism.guarantee(), theorem=THEOREM)
        return Expected({"size": _within(self.mechanism, MOST_RECORDS)}, price)

    @override
    def answer(self, party: LocalParty, source: RandomSource) -> Arrays:
        return {"size": self.mechanism.run(np.array(party.facts.n_samples), source=source)}


@dataclass(frozen=True, kw_only=True, eq=False)
class Scored(Operation):
    """What is asked about a public model of two classes."""

    two_classes: ClassVar[bool] = True
    coef: Vector
    intercept: Annotated[float, number(float)]

    @property
    def n_features(self) -> int:
        """Columns of the rows that it is about."""
        return len(self.coef)

    def errors_of(self, party: LocalParty) -> int:
        """Return how many records of a party the model gets wrong, without noise."""
        rows = readable_rows(party.X, party.n_features)
        score = scores(rows, self.coef[None], np.array([self.intercept]))[:, 0]
        return int(np.count_nonzero((score > 0) != (party.y > 0)))


@install
@dataclass(frozen=True, kw_only=True, eq=False)
class Errors(Scored):
    """How many records a public model gets wrong, with noise."""

    operation: ClassVar[str] = "errors"
    epsilon: Epsilon

    @property
    def mechanism(self) -> PrivateCounts:
        """What counts."""
        return PrivateCounts(epsilon=self.epsilon, sensitivity=1)

    @override
    def expected(self, n_samples: int) -> Expected:
        counted = _within(self.mechanism, n_samples)
        return Expected({"errors": counted}, self.mechanism.guarantee())

    @override
    def answer(self, party: LocalParty, source: RandomSource) -> Arrays:
        return {"errors": self.mechanism.run(np.array(self.errors_of(party)), source=source)}


@dataclass(frozen=True, kw_only=True, eq=False)
class Related(Operation):
    """What is asked of rows that are hidden by a relation."""

    neighbours: Relation
    declared: Annotated[int, number(int, 0, LARGEST_DECLARED)]

    @override
    def check(self, facts: PartyFacts) -> None:
        super().check(facts)
        if (self.declared > 0) != (self.neighbours == Neighbours.ADD_REMOVE):
            raise InvalidMessage(
                "declared must be a number of records under add-remove neighbours, else 0."
            )


@install
@dataclass(frozen=True, kw_only=True, eq=False)
class Check(Related):
    """How far a prior holds, with noise."""

    operation: ClassVar[str] = "check"
    two_classes: ClassVar[bool] = True
    coef: Vector
    epsilon: Epsilon
    base_rate: Annotated[float, number(float, above=0.0, below=1.0)]
    deviation: Positive
    data_norm: Positive
    feature_scale: Annotated[Floats | None, numbers(1)] = None

    @property
    def n_features(self) -> int:
        """Columns of the rows that it is about."""
        return len(self.coef)

    @property
    def prior(self) -> Prior:
        """What is checked."""
        return Prior(self.coef, data_norm=self.data_norm, feature_scale=self.feature_scale)

    @override
    def check(self, facts: PartyFacts) -> None:
        super().check(facts)
        _ = self.prior.frame  # says so if there is none

    def mechanism(self, n_samples: int) -> PriorCheck:
        """Return what a party of that size runs."""
        hidden = self.neighbours == Neighbours.ADD_REMOVE
        return PriorCheck(
            epsilon=self.epsilon,
            n_samples=HiddenSize(self.declared) if hidden else n_samples,
            base_rate=self.base_rate,
            deviation=self.deviation,
            neighbours=Neighbours(self.neighbours),
        )

    @override
    def expected(self, n_samples: int) -> Expected:
        one = self.mechanism(n_samples)
        return Expected({"prior": Numbers((1,), longest=one.longest)}, one.guarantee())

    @override
    def answer(self, party: LocalParty, source: RandomSource) -> Arrays:
        seen = self.mechanism(party.facts.n_samples)
        told = seen.run(self.prior.scores(party.X), party.y, source=source)
        return {"prior": np.array([float(told)])}


@install
@dataclass(frozen=True, kw_only=True, eq=False)
class ObjectiveWeights(WeightRequest, Related):
    """Weights, with noise in the objective."""

    operation: ClassVar[str] = "objective"
    frame: InCoordinates
    epsilon: Epsilon
    ridge: Least
    alpha: Least = field()  # what a plan may leave out, a message says
    cap: Least = field()
    neighbours: Relation = field()
    declared: Annotated[int, number(int, 0, LARGEST_DECLARED)] = field()
    delta: Delta = 0.0
    centre: Annotated[Floats | None, numbers(1, 2, highest=FARTHEST_PRIOR)] = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the weights."""
        return (self.frame.size,) if self.n_classes == 2 else (self.n_classes, self.frame.size)

    @override
    def check(self, facts: PartyFacts) -> None:
        super().check(facts)
        if self.centre is not None and self.centre.shape != self.shape:
            raise InvalidMessage("centre must be one number per weight of every class.")

    def mechanism(self, n_samples: int) -> Objective | OutputPerturbation:
        """Return what a party of that size runs."""
        return self.objective(n_samples)

    @override
    def expected(self, n_samples: int) -> Expected:
        made = self.mechanism(n_samples)
        longest = longest_weights(made)
        return Expected({"weights": Numbers(self.shape, longest=longest)}, made.guarantee())

    @override
    def answer(self, party: LocalParty, source: RandomSource) -> Arrays:
        made = self.mechanism(party.facts.n_samples)
        with party.opened_engine() as engine:
            rows = self.frame.lazy(party.X, engine)
            if isinstance(made, OutputPerturbation):
                told = made.run(rows, party.y, source=source, centre=self.centre)
                return {"weights": told}
            ((weights,),) = made.sample([rows], party.y, source=source, centres=[self.centre])
        return {"weights": weights}

    @override
    def answers(self, group: PartyGroup, source: RandomSource) -> Arrays:
        made = {size: self.mechanism(size) for size in group.rows.distinct_sizes}
        run = run_parties(made, group.rows, self.frame, source=source, centre=self.centre)
        return {"weights": run}


@install
class OutputWeights(ObjectiveWeights):
    """Weights, with noise on the minimiser."""

    operation: ClassVar[str] = "output"

    @override
    def mechanism(self, n_samples: int) -> OutputPerturbation:
        return self.output(n_samples)


def longest_weights(mechanism: Objective | OutputPerturbation) -> float:
    """Return a bound on the released weights' norm from public facts alone.

    Noise on the output comes on top of what the gradients allow, undivided by the ridge.
    """
    if not isinstance(mechanism, OutputPerturbation):
        return mechanism.act.longest
    slope = mechanism.cap if mechanism.n_classes == 2 else math.sqrt(2)
    slopes = largest_count(mechanism.n_samples) * slope / mechanism.ridge
    noise = mechanism.noise
    return 1.01 * (mechanism.prior_norm + slopes + noise.law.longest) + 1.0


@install
@dataclass(frozen=True, kw_only=True, eq=False)
class Coefficients(Expansion, Operation):
    """Coefficients of the expanded loss."""

    operation: ClassVar[str] = "coefficients"
    frame: InCoordinates
    epsilon: Epsilon
    linear_share: Annotated[float, number(float, above=0.0, below=1.0)] = field()
    delta: Delta = 0.0

    def expected(self, n_samples: int) -> Expected:
        """Return what a party may answer: ``v`` and ``M`` are sums of n records' parts, noised."""
        made = self.mechanism(n_samples)
        linear, quadratic = (
            1.01 * (n_samples * length + noise.law.longest) + 1
            for length, noise in zip(made.lengths, made.noises, strict=True)
        )
        bounds = {
            "linear": Numbers(self.shape, longest=linear),
            "quadratic": Numbers((made.noises[1].size,), longest=quadratic),
        }
        return Expected(bounds, made.guarantee())

    @override
    def answer(self, party: LocalParty, source: RandomSource) -> Arrays:
        rows: Any = self.frame.rows(party.X)
        made = self.mechanism(party.facts.n_samples).run(rows, party.y, source=source)
        return dict(zip(("linear", "quadratic"), made, strict=True))


def ask_sizes(
    federation: Federation,
    *,
    count_epsilon: float | None = None,
    step: int = 0,
    to: Sequence[str] | None = None,
    quorum: float = 1.0,
    timeout: float | None = None,
) -> Sizes:
    """Ask everyone for its number of records.

    Parameters
    ----------
    federation : Federation
    count_epsilon : float, optional
        Have every party count with noise at this price, under add-remove neighbours. By default
        sizes are public facts, as replace-one neighbours take them to be.
    step, to, quorum, timeout
        As for :meth:`~confrere.federation.Federation.gather`.
    """
    request = Size() if count_epsilon is None else Count(epsilon=count_epsilon)
    names = federation.parties() if to is None else to
    answers = federation.gather(
        request, dict.fromkeys(names, 0), step=step, quorum=quorum, timeout=timeout
    )
    neighbours = Neighbours.REPLACE_ONE if count_epsilon is None else Neighbours.ADD_REMOVE
    told: list[int] = np.maximum(1, stacked(answers, "size", (), "<i8")).tolist()
    counts = dict(zip(answers, told, strict=True))
    return Sizes(counts, neighbours, receipts_in(answers) if count_epsilon is not None else {})


@dataclass(frozen=True)
class FederatedEvaluation:
    """Noised counts of errors.

    Parameters
    ----------
    errors : mapping of str to float
        Per party, or of all together under one name; noise may take it below 0 or above the size.
    sizes : mapping of str to int
        Records per party.
    receipts : mapping of str to tuple of Receipt
        What each party paid.
    """

    errors: Mapping[str, float]
    sizes: Mapping[str, int]
    receipts: Mapping[str, tuple[Receipt, ...]]

    @property
    def error_rate(self) -> float:
        """Share of all records that the model gets wrong, clipped to [0, 1]."""
        rate = sum(self.errors.values()) / sum(self.sizes.values())
        return min(1.0, max(0.0, rate))

    @property
    def guarantee(self) -> Guarantee:
        """What a person in one party's data is promised."""
        return guarantee_of(self.receipts)


def public_coef(coef: ArrayLike) -> Floats:
    """Return the coefficients of a public model, as a message has them."""
    return np.asarray(coef, dtype=np.float64).ravel()


def evaluate(
    federation: Federation,
    coef: ArrayLike,
    intercept: float = 0.0,
    *,
    epsilon: float,
    step: int = 0,
    sizes: Mapping[str, int] | None = None,
    quorum: float = 1.0,
    timeout: float | None = None,
) -> FederatedEvaluation:
    """Have every party count the errors of a public model.

    Parameters
    ----------
    federation : Federation
        Whom to ask, and under which run.
    coef : array of shape (n_features,)
        Public coefficients for rows as encoded.
    intercept : float, default=0.0
    epsilon : float
        What each party spends.
    step : int, default=0
        Which evaluation of the run this is.
    sizes : mapping of str to int, optional
        Records of the parties to ask, where they are known; by default everyone is asked.
    quorum, timeout
        As for :meth:`~confrere.federation.Federation.gather`.
    """
    known = sizes
    if known is None:
        known = ask_sizes(federation, quorum=quorum, timeout=timeout).counts
    request = Errors(epsilon=epsilon, coef=public_coef(coef), intercept=intercept)
    answers = federation.gather(request, known, step=step, quorum=quorum, timeout=timeout)
    counts = {name: int(answer.arrays["errors"]) for name, answer in answers.items()}
    return FederatedEvaluation(counts, {n: known[n] for n in answers}, receipts_in(answers))


def few_enough(sizes: Sizes, delta: float) -> Sizes:
    """Return parties so small that ``delta`` promises something to all of them together."""
    most = max(1, int(0.5 / (delta * len(sizes.counts))))
    return replace(sizes, counts={name: min(n, most) for name, n in sizes.counts.items()})


#: Rehearsals have parties with one record, and with far more than this.
_REHEARSED = 1000


def check_prior(
    federation: Federation,
    plan: Averaging,
    sizes: Sizes,
    *,
    quorum: float = 1.0,
    timeout: float | None = None,
) -> tuple[Averaging, PriorFacts, dict[str, tuple[Receipt, ...]]]:
    """Ask every party, and return the average that follows, what was seen and what it cost."""
    check, prior = plan.check(sizes), plan.prior
    assert isinstance(prior, Prior)
    hidden = sizes.neighbours is Neighbours.ADD_REMOVE
    declared = math.ceil(sizes.total / len(sizes.counts)) if hidden else 0
    asked = Check(
        coef=prior.coef[0],
        epsilon=check.epsilon,
        base_rate=check.base_rate,
        deviation=check.deviation,
        data_norm=prior.data_norm,
        neighbours=sizes.neighbours,
        declared=declared,
        feature_scale=prior.feature_scale,
    )
    answers = federation.gather(asked, sizes.counts, quorum=quorum, timeout=timeout)
    seen = float(stacked(answers, "prior", (1,)).sum())
    belief = check.belief(seen)
    if federation.rehearses:  # made-up sums may all lead to one belief, and must not
        beliefs = check.beliefs()
        small = sizes.total < _REHEARSED * len(sizes.counts)
        belief = beliefs[len(beliefs) // 2 if small else -1]
    return (
        plan.after(belief),
        prior_facts(Belief(belief.factor, check.sigma), check),
        receipts_in(answers),
    )


def average(
    federation: Federation,
    plan: Averaging,
    *,
    quorum: float = 1.0,
    timeout: float | None = None,
) -> Outcome:
    """Run the protocol.

    Parameters
    ----------
    federation : Federation
        Whom to ask, and under which run.
    plan : Averaging
        What to ask.
    quorum : float, default=1.0
        Share of the parties that must answer in every round.
    timeout : float, optional
        Seconds to wait for a round.

    Returns
    -------
    Outcome
        The average of the last round, weighted by records.
    """
    sizes = ask_sizes(federation, count_epsilon=plan.count_epsilon, quorum=quorum, timeout=timeout)
    if federation.rehearses and plan.delta:
        sizes = few_enough(sizes, plan.delta)  # what is made up must be enough for a plan
    names: Sequence[str] = list(sizes.counts)
    receipts = dict(sizes.receipts)
    known = None
    if plan.checked:
        plan, known, paid = check_prior(federation, plan, sizes, quorum=quorum, timeout=timeout)
        receipts = joined(receipts, paid)
        names = [name for name in names if name in paid]
    plan = plan.at(sizes)
    operation = ObjectiveWeights if plan.perturb == "objective" else OutputWeights
    centre = plan.centre
    for step, epsilon in enumerate(plan.round_epsilons):
        asked = operation.of(plan.request(epsilon, sizes, centre))
        answers = federation.gather(
            asked,
            {name: sizes.counts[name] for name in names},
            step=step,
            quorum=quorum,
            timeout=timeout,
        )
        receipts = joined(receipts, receipts_in(answers))
        before, centre = centre, combined(answers, sizes.counts, plan.shape, plan.combine)
        if plan.settled(step, before, centre) and not federation.rehearses:
            break
    assert centre is not None
    return Outcome(plan.space, centre, {n: sizes.counts[n] for n in answers}, receipts, known)


def combined(
    answers: Mapping[str, Payload],
    counts: Mapping[str, int],
    shape: tuple[int, ...],
    how: Combine,
) -> Floats:
    """Return the parties' weights as one vector, or one matrix of several classes."""
    released = stacked(answers, "weights", shape)
    return combine_weights(released, [counts[name] for name in answers], how)


def expand(
    federation: Federation,
    plan: Expansion,
    *,
    quorum: float = 1.0,
    timeout: float | None = None,
) -> Outcome:
    """Run the protocol; whatever follows the parties' one answer is post-processing.

    Parameters
    ----------
    federation : Federation
        Whom to ask, and under which run.
    plan : Expansion
        What to ask.
    quorum, timeout
        As for :meth:`~confrere.federation.Federation.gather`.
    """
    sizes = ask_sizes(federation, quorum=quorum, timeout=timeout)
    if federation.rehearses and plan.delta:
        sizes = few_enough(sizes, plan.delta)  # what is made up must be enough for a plan
    plan = plan.at(sizes)
    asked = Coefficients.of(plan, frame=plan.space)
    answers = federation.gather(asked, sizes.counts, quorum=quorum, timeout=timeout)
    size = plan.space.size
    linear = stacked(answers, "linear", plan.shape)
    packed = stacked(answers, "quadratic", (size * (size + 1) // 2,))
    weights = plan.combine(linear, packed, sizes)
    counts = {name: sizes.counts[name] for name in answers}
    return Outcome(plan.space, weights, counts, receipts_in(answers))
