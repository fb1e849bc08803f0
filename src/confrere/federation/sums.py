"""Every party adds to sums that nobody sees into, and a share of the noise of one sum.

Models: one message of each party, or rounds of gradients. Counts of records, or of a public model's
errors, over all parties: one price per record, whatever the number of parties; a count of each
party with noise of its own would have their number times the variance, and tell how each of them
fares. Facts of a schema: nobody's own means are seen.

Proofs: docs/proofs/secure_sums.md, docs/proofs/learned_facts.md.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from functools import cached_property
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from typing_extensions import override

from confrere.arrays import Floats
from confrere.errors import InvalidMessage, InvalidParameter, SchemaError
from confrere.federation.federation import Federation
from confrere.federation.messages import MOST_RECORDS
from confrere.federation.operation import (
    Delta,
    Epsilon,
    InCoordinates,
    PartyFacts,
    Positive,
    Records,
    Share,
    SumOperation,
    Weights,
    Whole,
    install,
    number,
    numbers,
    one_of,
)
from confrere.federation.party import LocalParty
from confrere.federation.protocols import (
    FederatedEvaluation,
    Outcome,
    Scored,
    ask_sizes,
    joined,
    public_coef,
)
from confrere.federation.summing import Summed
from confrere.kernel.guarantee import Neighbours, Unit
from confrere.mechanisms.secure_sum import (
    Colluding,
    SecureSum,
    check_tries,
    colluders_of,
    fewest_of,
)
from confrere.methods.design import Alpha
from confrere.methods.party_rows import Sizes
from confrere.methods.sums import GradientRounds, OneMessage
from confrere.rows.frame import LARGEST
from confrere.schema import PublicSchema
from confrere.schema.codes import Coded
from confrere.schema.fact_counts import STEPS, FactCounts
from confrere.schema.public_schema import PaidFacts

#: What reading a stranger's schema may raise.
UNREADABLE = (
    SchemaError,
    TypeError,
    ValueError,
    ArithmeticError,
    LookupError,
    AttributeError,
    RecursionError,
)


def sent_schema(schema: PublicSchema) -> NDArray[np.uint8]:
    """Return a schema as bytes of JSON: of many columns, it is longer than a text may be."""
    text = json.dumps(schema.to_dict(), sort_keys=True, separators=(",", ":"))
    return np.frombuffer(text.encode(), dtype=np.uint8)


def received_schema(written: NDArray[np.uint8]) -> PublicSchema:
    """Read the schema of a request.

    Raises
    ------
    InvalidMessage
        If it is none.
    """
    try:
        return PublicSchema.from_dict(json.loads(written.tobytes()))
    except UNREADABLE:
        raise InvalidMessage("schema is not one that can be read.") from None


Sums = OneMessage | GradientRounds


@dataclass(frozen=True, kw_only=True, eq=False)
class _Addend(SumOperation):
    """What a party adds to a sum of all, whose sizes are known."""

    frame: InCoordinates
    epsilon: Epsilon
    cap: Share
    colluding: Whole
    reserve: Whole
    quorum: Share
    sizes: Records
    spacing: Positive
    weights: Weights = None

    #: The plan that it is of.
    kind: ClassVar[type[OneMessage | GradientRounds]]

    @classmethod
    def at(
        cls, plan: Sums, sizes: Sizes, mechanism: SecureSum, weights: Floats | None, **more: Any
    ) -> Self:
        """Return the request for a sum of parties of these sizes."""
        told = {
            "frame": plan.space,
            "sizes": sizes.counts,
            "spacing": mechanism.spacing,
            "colluding": mechanism.colluders,
            "weights": weights,
            **more,
        }
        return cls.of(plan, **told)

    @cached_property
    def counts(self) -> Sizes:
        """Everybody's number of records."""
        return Sizes(self.sizes)

    @cached_property
    def plan(self) -> Any:
        """What everybody carries out."""
        names = {one.name for one in fields(self.kind)} & {one.name for one in fields(self)}
        return self.kind(**{name: getattr(self, name) for name in names}, prior=self._prior)

    @property
    def _prior(self) -> Floats | None:
        return None

    @cached_property
    def mechanism(self) -> SecureSum:
        mechanism: SecureSum = self.plan.mechanism(self.counts)
        return mechanism

    def check(self, facts: PartyFacts) -> None:
        shape = (self.frame.size,) if facts.n_classes == 2 else (facts.n_classes, self.frame.size)
        if self.weights is not None and self.weights.shape != shape:
            raise InvalidMessage("weights must be one number per coordinate.")
        super().check(facts)


@install
@dataclass(frozen=True, kw_only=True, eq=False)
class Minimiser(_Addend):
    """A party's minimiser, near public weights."""

    operation: ClassVar[str] = "minimiser"
    kind: ClassVar[type[OneMessage | GradientRounds]] = OneMessage
    alpha: Annotated[Alpha, number(float, above=0.0, highest=LARGEST, others=("auto",))]

    @property
    def _prior(self) -> Floats | None:
        return self.weights

    @override
    def vector(self, party: LocalParty) -> Floats:
        made: Floats = self.plan.message(
            self.frame.rows(party.X), party.y, self.counts, len(party.y)
        )
        return made


@install
@dataclass(frozen=True, kw_only=True, eq=False)
class Gradient(_Addend):
    """A party's gradient at public weights."""

    operation: ClassVar[str] = "gradient"
    kind: ClassVar[type[OneMessage | GradientRounds]] = GradientRounds
    delta: Delta
    rounds: Annotated[int, number(int, 1, 10**6)]
    round: Whole

    @override
    def check(self, facts: PartyFacts) -> None:
        super().check(facts)
        if self.weights is None or self.round >= self.rounds:
            raise InvalidMessage("a gradient is asked for at weights, in one of the rounds.")

    @override
    def vector(self, party: LocalParty) -> Floats:
        made: Floats = self.plan.message(self.frame.rows(party.X), party.y, self.weights)
        return made


def add_up(
    federation: Federation,
    plan: OneMessage | GradientRounds,
    *,
    quorum: float = 1.0,
    timeout: float | None = None,
) -> Outcome:
    """Run the protocol.

    Parameters
    ----------
    federation : Federation
        Whom to ask, and under which run.
    plan : OneMessage or GradientRounds
        What to ask.
    quorum : float, default=1.0
        Share of the parties that must take part in every sum; the noise is made for it.
    timeout : float, optional
        Seconds to wait for a question.

    Returns
    -------
    Outcome
        Weights of all parties in the last sum.
    """
    # Who does not tell its size must not lower the number of those who may collude.
    colluding = colluders_of(plan.colluding, len(federation.parties()), quorum)
    plan = replace(plan, quorum=float(quorum), colluding=colluding)
    sizes = ask_sizes(federation, quorum=quorum, timeout=timeout)
    plan = plan.at(sizes)
    mechanism = plan.mechanism(sizes)
    names = list(sizes.counts)
    if isinstance(plan, OneMessage):
        one = Minimiser.at(plan, sizes, mechanism, plan.told)
        summed = federation.sum(one, names, timeout=timeout)
        weights = plan.weights_of(_whole(summed, sizes), sizes)
        return _outcome(plan, weights, sizes, summed, dict(summed.receipts))
    descent = plan.descent(sizes)
    receipts: dict[str, Any] = {}
    for step in range(plan.rounds):
        asked = Gradient.at(plan, sizes, mechanism, descent.weights, round=step)
        summed = federation.sum(asked, names, timeout=timeout, later=plan.rounds - step - 1)
        receipts = joined(receipts, summed.receipts)
        descent.take(_whole(summed, sizes))
    return _outcome(plan, descent.average, sizes, summed, receipts)


def _outcome(
    plan: Sums, weights: Floats, sizes: Sizes, summed: Summed, receipts: dict[str, Any]
) -> Outcome:
    counts = {name: sizes.counts[name] for name in summed.roster}
    return Outcome(plan.space, np.asarray(weights), counts, receipts)


def _whole(summed: Summed, sizes: Sizes) -> Floats:
    """Return a sum as if everyone were in it: those who are stand for those who are not."""
    there = sum(sizes.counts[name] for name in summed.roster)
    return np.asarray(summed.value * (sizes.total / there))


#: What stands for all parties where their counts are one.
ALL = "all parties"


@dataclass(frozen=True, kw_only=True, eq=False)
class CountOfAll(SumOperation):
    """Counts of all parties, of which one record moves each by one."""

    epsilon: Epsilon
    n_parties: Whole
    colluding: Whole  #: How many of them may pool what they know
    reserve: Whole  #: How many lost sums are paid for
    quorum: Share  #: Of the parties, that a sum needs
    largest: Annotated[int, number(int, 1, MOST_RECORDS)]  #: No party counts more

    @classmethod
    def among(cls, n_parties: int, colluding: Colluding, quorum: float, **told: Any) -> Self:
        """Return the request to so many parties, of which by default a minority may collude."""
        known = colluders_of(colluding, n_parties, quorum)
        return cls(n_parties=n_parties, colluding=known, quorum=quorum, **told)

    @property
    def neighbours(self) -> Neighbours:
        """The relation that the promise speaks of."""
        return Neighbours.REPLACE_ONE

    @cached_property
    @override
    def mechanism(self) -> SecureSum:
        check_tries(self.reserve, self.quorum)
        return SecureSum(
            epsilon=self.epsilon,
            law="integer",
            size=1,
            sensitivity=1.0,
            n_parties=self.n_parties,
            # Those who are left of a run may be few: never so few that they could all pool.
            fewest=max(fewest_of(self.n_parties, self.quorum), self.colluding + 1),
            colluding=self.colluding,
            releases=1 + self.reserve,
            largest=float(self.largest),
            neighbours=self.neighbours,
        )


@install
class RecordsOfAll(CountOfAll):
    """How many records all have together."""

    operation: ClassVar[str] = "records_of_all"

    @property
    @override
    def neighbours(self) -> Neighbours:
        return Neighbours.ADD_REMOVE

    @override
    def vector(self, party: LocalParty) -> Floats:
        return np.array([float(party.facts.n_samples)])


@install
@dataclass(frozen=True, kw_only=True, eq=False)
class ErrorsOfAll(CountOfAll, Scored):
    """How many records of all a public model gets wrong."""

    operation: ClassVar[str] = "errors_of_all"

    @override
    def vector(self, party: LocalParty) -> Floats:
        return np.array([float(self.errors_of(party))])


def total_records(
    federation: Federation,
    *,
    epsilon: float,
    colluding: Colluding = "auto",
    reserve: int = 1,
    quorum: float = 1.0,
    timeout: float | None = None,
) -> Summed:
    """Count the records of all parties, under add-remove neighbours: nobody's number is told.

    Parameters
    ----------
    federation : Federation
    epsilon : float
        What each party spends.
    colluding, reserve : int
        How many parties may pool what they know, by default a minority of those of a sum, and how
        many lost sums are paid for.
    quorum, timeout
        As for :meth:`~confrere.federation.Federation.sum`.
    """
    names = federation.parties()
    told: dict[str, Any] = {"epsilon": epsilon, "reserve": reserve, "largest": MOST_RECORDS}
    asked = RecordsOfAll.among(len(names), colluding, quorum, **told)
    return federation.sum(asked, names, timeout=timeout)


def evaluate_together(
    federation: Federation,
    coef: ArrayLike,
    intercept: float = 0.0,
    *,
    epsilon: float,
    colluding: Colluding = "auto",
    reserve: int = 1,
    sizes: Mapping[str, int] | None = None,
    quorum: float = 1.0,
    timeout: float | None = None,
) -> FederatedEvaluation:
    """Count, over all parties as one, the errors of a public model.

    Parameters
    ----------
    federation, coef, intercept, epsilon, sizes, quorum, timeout
        As for :func:`confrere.federation.evaluate`.
    colluding, reserve : int
        How many parties may pool what they know, by default a minority of those of a sum, and how
        many lost sums are paid for.
    """
    known = sizes
    if known is None:
        known = ask_sizes(federation, quorum=quorum, timeout=timeout).counts
    asked = ErrorsOfAll.among(
        len(known),
        colluding,
        quorum,
        epsilon=epsilon,
        reserve=reserve,
        largest=max(known.values()),
        coef=public_coef(coef),
        intercept=intercept,
    )
    summed = federation.sum(asked, list(known), timeout=timeout)
    there = {name: known[name] for name in summed.roster}
    return FederatedEvaluation({ALL: float(summed.value[0])}, there, summed.receipts)


#: Sizes are asked for once by facts, and by what comes after in its own steps.
_SIZES_STEP = 1

#: A party's number of records at most, where it is not public and nothing else is said.
MOST_HIDDEN = 1 << 20


class Hides(StrEnum):
    """What facts are learned without telling: a record, that it is there, or all of a party's."""

    RECORD = "record"
    PRESENCE = "presence"
    PARTY = "party"

    @classmethod
    def of(cls, unit: Unit, neighbours: Neighbours) -> Hides:
        """Return what a promise of this unit and relation asks for."""
        known = {(one.unit, one.neighbours): one for one in cls}
        if (unit, neighbours) not in known:
            raise InvalidParameter(
                "unit and neighbours: facts are learned per record, replaced or added and removed, "
                "or per party, replaced; declare them."
            )
        return known[unit, neighbours]

    @property
    def unit(self) -> Unit:
        """Whose data change."""
        return Unit.PARTY if self is Hides.PARTY else Unit.RECORD

    @property
    def neighbours(self) -> Neighbours:
        """How."""
        return Neighbours.ADD_REMOVE if self is Hides.PRESENCE else Neighbours.REPLACE_ONE


@dataclass(frozen=True, eq=False)
class RawRows:
    """What a party can count, and encode anew, where facts are learned before a model is.

    Parameters
    ----------
    counts : FactCounts
        What is counted.
    sums : array of int
        The sums of its own records, without noise.
    n_samples : int
        How many records those are.
    encode : callable
        From a schema to its rows, encoded by it.
    """

    counts: FactCounts
    sums: NDArray[np.int64]
    n_samples: int
    encode: Callable[[PublicSchema], Floats | Coded]


@install
@dataclass(frozen=True, kw_only=True, eq=False)
class FactsOfAll(CountOfAll):
    """Everybody's sums, which one record moves by the counts' sensitivity.

    Where a record may come or go the number of records is one more sum; where whole parties are
    hidden everybody adds means.
    """

    operation: ClassVar[str] = "facts_of_all"
    hides: Annotated[str, one_of(*Hides)]
    schema: Annotated[NDArray[np.uint8], numbers(1, dtype="|u1", lowest=0)]

    @cached_property
    def counts(self) -> FactCounts:
        """What is counted: the sensitivity follows from the schema, and is nobody's word."""
        try:
            return FactCounts(received_schema(self.schema))
        except UNREADABLE:
            raise InvalidMessage("schema is not one whose facts can be learned.") from None

    @property
    @override
    def neighbours(self) -> Neighbours:
        return Hides(self.hides).neighbours

    @cached_property
    @override
    def mechanism(self) -> SecureSum:
        hides, counts = Hides(self.hides), self.counts
        moved = {
            Hides.RECORD: counts.sensitivity,
            Hides.PRESENCE: counts.longest + STEPS,
            Hides.PARTY: counts.party_sensitivity,
        }[hides]
        return replace(
            super().mechanism,
            size=counts.size + (hides is Hides.PRESENCE),
            sensitivity=float(moved),
            largest=float(self.largest * STEPS),
            unit=hides.unit,
        )

    @override
    def check(self, facts: PartyFacts) -> None:
        super().check(facts)
        if self.hides == Hides.PARTY and self.largest != 1:
            raise InvalidMessage("largest must be 1: whole parties add means.")

    @override
    def vector(self, party: LocalParty) -> Floats:
        raw = party.raw
        if raw is None or not np.array_equal(sent_schema(raw.counts.schema), self.schema):
            raise InvalidMessage("this party has no raw rows of that schema to count.")
        sums = raw.sums
        if self.hides == Hides.PARTY:
            sums = raw.counts.means(sums, raw.n_samples)
        elif self.hides == Hides.PRESENCE:
            sums = np.append(sums, STEPS * raw.n_samples)
        return sums.astype(np.float64)


def learn_together(
    federation: Federation,
    schema: PublicSchema,
    *,
    epsilon: float,
    unit: Unit = Unit.RECORD,
    neighbours: Neighbours = Neighbours.REPLACE_ONE,
    most_records: int = MOST_HIDDEN,
    colluding: Colluding = "auto",
    reserve: int = 1,
    quorum: float = 1.0,
    timeout: float | None = None,
) -> PublicSchema:
    """Learn the facts that a schema lacks from the records of all parties.

    Everyone is told the schema that comes out, and encodes its rows by it from then on.

    Parameters
    ----------
    federation : Federation
    schema : PublicSchema
        What it declares is not learned again.
    epsilon : float
        What each party spends.
    unit, neighbours
        What is hidden: a record that is replaced, or that comes or goes, in which case the number
        of records is counted with the rest; or all records of a party, in which case facts are
        means over parties of their means, and nobody tells how many records it has.
    most_records : int, default=1048576
        Where records may come or go, a public bound on a party's number of them: sums beyond it
        are cut.
    colluding, reserve : int
        How many parties may pool what they know, by default a minority of those of a sum, and how
        many lost sums are paid for.
    quorum, timeout
        As for :meth:`~confrere.federation.Federation.sum`.

    Returns
    -------
    PublicSchema
        With everyone's receipts in ``paid``.
    """
    hides = Hides.of(unit, neighbours)
    names = federation.parties()
    sizes = dict.fromkeys(names, 1 if hides is Hides.PARTY else most_records)
    if hides is Hides.RECORD:
        told = ask_sizes(federation, step=_SIZES_STEP, quorum=quorum, timeout=timeout)
        sizes = dict(told.counts)
    asked = FactsOfAll.among(
        len(names),
        colluding,
        quorum,
        epsilon=epsilon,
        reserve=reserve,
        largest=max(sizes.values()),
        hides=str(hides),
        schema=sent_schema(schema),
    )
    summed = federation.sum(asked, list(sizes), timeout=timeout)
    n_samples = float(sum(sizes[name] for name in summed.roster))
    if hides is Hides.PRESENCE:
        n_samples = max(1.0, float(summed.value[-1]) / STEPS)
    total = summed.value[: asked.counts.size]
    learned, what = asked.counts.learned(total, n_samples, asked.mechanism.deviation)
    receipts = {name: paid[0].to_dict() for name, paid in summed.receipts.items() if paid}
    if receipts:  # in a rehearsal nobody has paid
        learned = replace(learned, paid=(*schema.paid, PaidFacts(what, receipts)))
    federation.use_schema(learned)
    return learned
