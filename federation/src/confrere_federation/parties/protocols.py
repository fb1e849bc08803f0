"""What a party can be asked for with noise of its own, as messages have it.

How many records it has, and how many a public model gets wrong; whether a prior fits; weights, by
objective and by output perturbation; and coefficients of an expanded loss. Which of these is asked
when, and what is made of the answers, are the protocols of :mod:`confrere.methods`.

Proofs: docs/proofs/counting.md, private_evaluation.md, prior_check.md, averaging.md,
objective_perturbation.md, output_perturbation.md, functional_mechanism.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from typing_extensions import override

from confrere.arrays import Floats
from confrere.errors import InvalidMessage
from confrere.kernel.guarantee import Guarantee, Neighbours, Together
from confrere.kernel.streams import RandomSource
from confrere.mechanisms.measurements import Point
from confrere.mechanisms.noised import counts
from confrere.methods import average, expansion
from confrere.methods.asking import (
    Arrays,
    Ask,
    Asked,
    Labels,
    Measured,
    Protocol,
    Reader,
    Receipts,
    Rows,
    Size,
    Sizes,
    over_parties,
)
from confrere.methods.average import Collaboration, Combined
from confrere.methods.priors import Prior
from confrere.model.models import readable_rows, scores
from confrere_federation.parties.federation import Federation, with_quorum, with_receipts
from confrere_federation.parties.messages import FARTHEST, MOST_RECORDS, Expected, Numbers
from confrere_federation.parties.operation import (
    Delta,
    Epsilon,
    InCoordinates,
    Least,
    Operation,
    PartyFacts,
    Positive,
    Relation,
    Vector,
    install,
    number,
    numbers,
)

#: A prior with a coordinate further out than this is a mistake or an attack.
FARTHEST_PRIOR = 1e6

#: More records than this are no party's.
LARGEST_DECLARED = 10**9

Declared = Annotated[int, number(int, 0, LARGEST_DECLARED)]


@dataclass(frozen=True, eq=False)
class Outcome(Combined):
    """A model of several parties: post-processing of what each of them released."""

    receipts: Receipts = field(default_factory=dict)  #: What each party paid, in order

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


def guarantee_of(receipts: Receipts) -> Guarantee:
    """Return what a person in one party's data is promised about everything released."""
    distinct = {tuple((r.ledger_id, r.row) for r in paid): paid for paid in receipts.values()}
    totals = [Together([one.guarantee for one in paid]).guarantee() for paid in distinct.values()]
    return totals[0] if len(totals) == 1 else over_parties(totals, len(receipts))


def collaborate(
    federation: Federation,  # Whom to ask, and under which run
    plan: Collaboration,  # What to ask
    *,
    # Of all parties, where they are declared; by default everyone is asked for its own
    sizes: Sizes | None = None,
    quorum: float = 1.0,  # Share of the parties that must answer in every round
    timeout: float | None = None,  # Seconds to wait for a round
) -> Outcome:
    """Run the protocol of a plan."""
    steps = plan.steps(federation.parties() if sizes is None else sizes)
    asking = with_quorum(with_receipts(steps), quorum)
    made, paid = federation.run_protocol(asking, timeout=timeout)
    return Outcome(made.frame, made.weights, made.sizes, made.prior, paid)


@install
class SizeOf(Operation):
    """The number of records."""

    operation: ClassVar[str] = Size.operation

    @property
    @override
    def asked(self) -> Asked:
        return Size()

    @override
    def expected(self, n_samples: int) -> Expected:
        return Expected({"size": Numbers((), "<i8", lowest=1, highest=MOST_RECORDS)})


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

    def errors_of(self, X: Any, y: NDArray[Any]) -> int:
        """Return how many records of a party the model gets wrong, without noise."""
        rows = readable_rows(X, self.n_features)
        score = scores(rows, self.coef[None], np.array([self.intercept]))[:, 0]
        return int(np.count_nonzero((score > 0) != (y > 0)))


@install
@dataclass(frozen=True, kw_only=True, eq=False)
class Errors(Scored, Measured):
    """How many records a public model gets wrong, with noise."""

    operation: ClassVar[str] = "errors"
    epsilon: Epsilon

    @property
    def mechanism(self) -> Point:
        """What counts."""
        return counts(self.epsilon, 1)

    @override
    def expected(self, n_samples: int) -> Expected:
        # The tail of discrete Laplace noise of scale 1/epsilon, and one for the rounding.
        reach = 1 + math.ceil(-math.log(FARTHEST) / self.epsilon)
        counted = Numbers((), "<i8", lowest=-reach, highest=n_samples + reach)
        return Expected({"errors": counted}, self.mechanism.guarantee())

    @override
    def release(self, X: Rows, y: Labels, source: RandomSource, engine: Reader = None) -> Arrays:
        errors = np.array(self.errors_of(X, y))
        return {"errors": source.draw(self.mechanism, errors)[0].reshape(())}


@dataclass(frozen=True, kw_only=True, eq=False)
class Related(Operation):
    """What is asked of rows that are hidden by a relation."""

    neighbours: Relation = field()
    declared: Declared = field()

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

    operation: ClassVar[str] = average.PriorQuestion.operation
    two_classes: ClassVar[bool] = True
    coef: Vector
    intercept: Annotated[float, number(float)]
    epsilon: Epsilon
    data_norm: Positive
    feature_scale: Annotated[Floats | None, numbers(1)] = None

    @classmethod
    @override
    def to_ask(cls, asked: Asked) -> Check:
        assert isinstance(asked, average.PriorQuestion)
        prior = asked.prior
        return cls(
            coef=prior.coef[0],
            intercept=float(prior.intercept[0]),
            epsilon=asked.epsilon,
            data_norm=prior.data_norm,
            feature_scale=prior.feature_scale,
            neighbours=asked.neighbours,
            declared=asked.declared,
            n_classes=asked.n_classes,
        )

    @cached_property
    @override
    def asked(self) -> average.PriorQuestion:
        return average.PriorQuestion(
            prior=Prior(
                self.coef,
                self.intercept,
                data_norm=self.data_norm,
                feature_scale=self.feature_scale,
            ),
            epsilon=self.epsilon,
            neighbours=self.neighbours,
            declared=self.declared,
        )

    @property
    def n_features(self) -> int:
        """Columns of the rows that it is about."""
        return len(self.coef)

    @override
    def check(self, facts: PartyFacts) -> None:
        super().check(facts)
        _ = self.asked.prior.frame  # says so if there is none

    @override
    def expected(self, n_samples: int) -> Expected:
        one = self.asked.mechanism(n_samples)
        return Expected({"prior": Numbers((1,), longest=one.longest)}, one.guarantee())


@install
@dataclass(frozen=True, kw_only=True, eq=False)
class ObjectiveWeights(average.Weights, Related):
    """Weights, with noise in the objective."""

    frame: InCoordinates
    epsilon: Epsilon
    ridge: Least
    alpha: Least = field()  # what a plan may leave out, a message says
    cap: Least = field()
    neighbours: Relation = field()
    declared: Declared = field()
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

    @override
    def expected(self, n_samples: int) -> Expected:
        made = self.mechanism(n_samples)
        (longest,) = made.longest
        return Expected({"weights": Numbers(self.shape, longest=longest)}, made.guarantee())


@install
class OutputWeights(average.NoisedMinimiser, ObjectiveWeights):
    """Weights, with noise on the minimiser."""


@install
@dataclass(frozen=True, kw_only=True, eq=False)
class Coefficients(expansion.ExpandedLoss, Related):
    """Coefficients of the expanded loss."""

    frame: InCoordinates
    epsilon: Epsilon
    linear_share: Annotated[float, number(float, above=0.0, below=1.0)] = field()
    neighbours: Relation = field()
    declared: Declared = field()
    delta: Delta = 0.0

    @override
    def expected(self, n_samples: int) -> Expected:
        """Return what a party may answer: ``v`` and ``M`` are sums of n records' parts, noised."""
        made, size = self.mechanism(n_samples), self.frame.size
        linear, quadratic = made.longest
        bounds = {
            "linear": Numbers(
                (size,) if self.n_classes == 2 else (self.n_classes, size), longest=linear
            ),
            "quadratic": Numbers((made.parts[1].size,), longest=quadratic),
        }
        return Expected(bounds, made.guarantee())


@dataclass(frozen=True)
class FederatedEvaluation:
    """Noised counts of errors."""

    #: Per party, or of all together under one name; noise may take it below 0 or above the size.
    errors: Mapping[str, float]
    sizes: Mapping[str, int]  #: Records per party
    receipts: Receipts  #: What each party paid

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


def evaluation(
    coef: ArrayLike,  # Public coefficients for rows as encoded
    intercept: float,
    sizes: Mapping[str, int],  # Records of the parties to ask
    *,
    epsilon: float,  # What each party spends
    step: int = 0,  # Which evaluation of the run this is
) -> Protocol[FederatedEvaluation]:
    """Have every party count the errors of a public model."""
    asked = Errors(epsilon=epsilon, coef=public_coef(coef), intercept=intercept)
    told = yield Ask(asked, sizes, step)
    counts = dict(zip(told.names, told.arrays["errors"].tolist(), strict=True))
    return FederatedEvaluation(counts, {name: sizes[name] for name in counts}, told.receipts)
