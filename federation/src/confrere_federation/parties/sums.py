"""Every party adds to sums that nobody sees into, and a share of the noise of one sum.

Models: one message of each party, or rounds of gradients. Counts of records, or of a public model's
errors, over all parties: one price per record, whatever the number of parties; a count of each
party with noise of its own would have their number times the variance, and tell how each of them
fares. Facts of a schema: nobody's own means are seen.

Proofs: docs/proofs/secure_sums.md, docs/proofs/learned_facts.md.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Annotated, Any, ClassVar, NoReturn, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from typing_extensions import override

from confrere.arrays import Floats
from confrere.data.fact_counts import STEPS, FactCounts
from confrere.data.frame import LARGEST
from confrere.data.schema import PaidFacts, PublicSchema
from confrere.errors import InvalidMessage, SchemaError
from confrere.kernel.guarantee import Neighbours, Unit
from confrere.kernel.streams import RandomSource
from confrere.mechanisms.measurements import Picked
from confrere.mechanisms.secure_sum import Colluding, SecureSum, colluders_of
from confrere.methods.allowance import Alpha
from confrere.methods.asking import Ask, AskedSum, Labels, Protocol, Rows, Sizes, Told, known_sizes
from confrere.methods.sums import (
    CountedSum,
    Gradient,
    GradientRounds,
    Hides,
    Minimiser,
    OneMessage,
)
from confrere_federation.parties.messages import MOST_RECORDS
from confrere_federation.parties.operation import (
    Arrays,
    Delta,
    Epsilon,
    InCoordinates,
    PartyFacts,
    Positive,
    Records,
    Relation,
    Share,
    SumOperation,
    Weights,
    Whole,
    install,
    number,
    numbers,
    one_of,
)
from confrere_federation.parties.party import LocalParty
from confrere_federation.parties.protocols import FederatedEvaluation, Scored, public_coef

P = TypeVar("P", OneMessage, GradientRounds)

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

    Raises InvalidMessage if it is none.
    """
    try:
        return PublicSchema.from_dict(json.loads(written.tobytes()))
    except UNREADABLE:
        raise InvalidMessage("schema is not one that can be read.") from None


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
    neighbours: Relation
    weights: Weights = None

    @classmethod
    @override
    def to_ask(cls, asked: Any) -> Self:
        plan, mechanism = asked.plan, asked.mechanism
        told = {
            "frame": plan.space,
            "sizes": asked.sizes.counts,
            "neighbours": asked.sizes.neighbours,
            "spacing": mechanism.spacing,
            "colluding": mechanism.colluders,
        }
        return cls.of(plan, **told, **cls._told(asked))

    @classmethod
    @abstractmethod
    def _told(cls, asked: Any) -> dict[str, Any]:
        """Return what is not the plan's or the sizes'."""

    def _plan(self, kind: type[P], **more: Any) -> tuple[P, Sizes]:
        names = {one.name for one in fields(kind)} & {one.name for one in fields(self)}
        plan = kind(**{name: getattr(self, name) for name in names}, **more)
        return plan, Sizes(self.sizes, Neighbours(self.neighbours))

    @override
    def check(self, facts: PartyFacts) -> None:
        shape = (self.frame.size,) if facts.n_classes == 2 else (facts.n_classes, self.frame.size)
        if self.weights is not None and self.weights.shape != shape:
            raise InvalidMessage("weights must be one number per coordinate.")
        super().check(facts)


@install
@dataclass(frozen=True, kw_only=True, eq=False)
class MinimiserOf(_Addend):
    """A party's minimiser, near public weights."""

    operation: ClassVar[str] = Minimiser.operation
    alpha: Annotated[Alpha, number(float, above=0.0, highest=LARGEST, others=("auto",))]

    @classmethod
    @override
    def _told(cls, asked: Minimiser) -> dict[str, Any]:
        return {"weights": asked.plan.told}

    @cached_property
    @override
    def asked(self) -> Minimiser:
        return Minimiser(*self._plan(OneMessage, prior=self.weights))


@install
@dataclass(frozen=True, kw_only=True, eq=False)
class GradientOf(_Addend):
    """A party's gradient at public weights."""

    operation: ClassVar[str] = Gradient.operation
    delta: Delta
    rounds: Annotated[int, number(int, 1, 10**6)]
    round: Whole

    @classmethod
    @override
    def _told(cls, asked: Gradient) -> dict[str, Any]:
        return {"weights": asked.weights, "round": asked.round}

    @override
    def check(self, facts: PartyFacts) -> None:
        super().check(facts)
        if self.weights is None or self.round >= self.rounds:
            raise InvalidMessage("a gradient is asked for at weights, in one of the rounds.")

    @cached_property
    @override
    def asked(self) -> Gradient:
        assert self.weights is not None
        return Gradient(*self._plan(GradientRounds), self.weights, self.round)


#: What stands for all parties where their counts are one.
ALL = "all parties"


@dataclass(frozen=True, kw_only=True, eq=False)
class CountOfAll(SumOperation, AskedSum):
    """Counts of all parties, of which one record moves each by one."""

    epsilon: Epsilon
    n_parties: Whole
    colluding: Whole  #: How many of them may pool what they know
    reserve: Whole  #: How many lost sums are paid for
    quorum: Share  #: Of the parties, that a sum needs
    largest: Annotated[int, number(int, 1, MOST_RECORDS)]  #: No party counts more

    @classmethod
    def among(
        cls,
        n_parties: int,
        *,
        quorum: float,
        colluding: Colluding = "auto",
        reserve: int = 1,
        **told: Any,
    ) -> Self:
        """Return the request to so many parties, of which by default a minority may collude."""
        known = colluders_of(colluding, n_parties, quorum)
        return cls(n_parties=n_parties, colluding=known, quorum=quorum, reserve=reserve, **told)

    @property
    def neighbours(self) -> Neighbours:
        """The relation that the promise speaks of."""
        return Neighbours.REPLACE_ONE

    @cached_property
    @override
    def mechanism(self) -> SecureSum:
        return self._counted.records(self.neighbours)

    @property
    def _counted(self) -> CountedSum:
        tries = (self.colluding, self.reserve, self.quorum)
        return CountedSum(self.epsilon, self.n_parties, *tries, self.largest)


@install
class RecordsOfAll(CountOfAll):
    """How many records all have together."""

    operation: ClassVar[str] = "records_of_all"

    @property
    @override
    def neighbours(self) -> Neighbours:
        return Neighbours.ADD_REMOVE

    @override
    def vector(self, X: Rows, y: Labels, picked: Picked | None = None) -> Floats:
        return np.array([float(len(y))])


@install
@dataclass(frozen=True, kw_only=True, eq=False)
class ErrorsOfAll(CountOfAll, Scored):
    """How many records of all a public model gets wrong."""

    operation: ClassVar[str] = "errors_of_all"

    @override
    def vector(self, X: Rows, y: Labels, picked: Picked | None = None) -> Floats:
        return np.array([float(self.errors_of(X, y))])


def total_records(
    parties: Sequence[str], *, epsilon: float, quorum: float = 1.0, **tries: Any
) -> Protocol[Told]:
    """Count the records of all parties, under add-remove neighbours: nobody's number is told.

    ``tries`` are as for :func:`evaluation_together`.
    """
    told: dict[str, Any] = {"epsilon": epsilon, "largest": MOST_RECORDS}
    asked = RecordsOfAll.among(len(parties), quorum=quorum, **told, **tries)
    return (yield Ask(asked, dict.fromkeys(parties, 0)))


def evaluation_together(
    coef: ArrayLike,
    intercept: float,
    sizes: Mapping[str, int],
    *,
    epsilon: float,
    quorum: float = 1.0,  # Share of the parties that a sum needs
    # ``colluding``: how many parties may pool what they know, by default a minority of those of a
    # sum; ``reserve``: how many lost sums are paid for.
    **tries: Any,
) -> Protocol[FederatedEvaluation]:
    """Count, over all parties as one, the errors of a public model."""
    asked = ErrorsOfAll.among(
        len(sizes),
        quorum=quorum,
        epsilon=epsilon,
        largest=max(sizes.values()),
        coef=public_coef(coef),
        intercept=intercept,
        **tries,
    )
    told = yield Ask(asked, sizes)
    there = {name: sizes[name] for name in told.names}
    return FederatedEvaluation({ALL: float(told.arrays["sum"][0])}, there, told.receipts)


#: Sizes are asked for once by facts, and by what comes after in its own steps.
_SIZES_STEP = 1

#: A party's number of records at most, where it is not public and nothing else is said.
MOST_HIDDEN = 1 << 20


@dataclass(frozen=True, eq=False)
class RawRows:
    """What a party can count where facts are learned before a model is."""

    counts: FactCounts  #: What is counted
    sums: NDArray[np.int64]  #: The sums of its own records, without noise
    n_samples: int  #: How many records those are


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
        return self._counted.facts(self.counts, Hides(self.hides))

    @override
    def check(self, facts: PartyFacts) -> None:
        super().check(facts)
        if self.hides == Hides.PARTY and self.largest != 1:
            raise InvalidMessage("largest must be 1: whole parties add means.")

    @override
    def answer(self, party: LocalParty, source: RandomSource) -> Arrays:
        own = self.sums_of(party.raw)
        return self.upload(own, source)

    def sums_of(self, raw: RawRows | None) -> Floats:
        """Return what a party with these raw rows adds."""
        if raw is None or not np.array_equal(sent_schema(raw.counts.schema), self.schema):
            raise InvalidMessage("this party has no raw rows of that schema to count.")
        sums = raw.sums
        if self.hides == Hides.PARTY:
            sums = raw.counts.means(sums, raw.n_samples)
        elif self.hides == Hides.PRESENCE:
            sums = np.append(sums, STEPS * raw.n_samples)
        return sums.astype(np.float64)

    @override
    def vector(self, X: Rows, y: Labels, picked: Picked | None = None) -> NoReturn:
        raise InvalidMessage("facts are counted of raw rows.")


def facts_together(
    parties: Sequence[str],
    schema: PublicSchema,  # What it declares is not learned again
    *,
    epsilon: float,  # What each party spends
    # What is hidden: a record that is replaced, or that comes or goes, in which case the number of
    # records is counted with the rest; or all records of a party, in which case facts are means
    # over parties of their means, and nobody tells how many records it has.
    unit: Unit = Unit.RECORD,
    neighbours: Neighbours = Neighbours.REPLACE_ONE,
    # Where records may come or go, a public bound on a party's number of them: sums beyond it are
    # cut.
    most_records: int = MOST_HIDDEN,
    quorum: float = 1.0,
    **tries: Any,  # As for :func:`evaluation_together`
) -> Protocol[PublicSchema]:
    """Learn the facts that a schema lacks from the records of all; receipts are in ``paid``."""
    hides = Hides.of(unit, neighbours)
    sizes = dict.fromkeys(parties, 1 if hides is Hides.PARTY else most_records)
    if hides is Hides.RECORD:
        known = yield from known_sizes(parties, step=_SIZES_STEP)
        sizes = dict(known.counts)
    asked = FactsOfAll.among(
        len(parties),
        quorum=quorum,
        epsilon=epsilon,
        largest=max(sizes.values()),
        hides=str(hides),
        schema=sent_schema(schema),
        **tries,
    )
    told = yield Ask(asked, sizes)
    n_samples, summed = float(sum(sizes[name] for name in told.names)), told.arrays["sum"]
    if hides is Hides.PRESENCE:
        n_samples = max(1.0, float(summed[-1]) / STEPS)
    total = summed[: asked.counts.size]
    learned, what = asked.counts.learned(total, n_samples, asked.mechanism.deviation)
    receipts = {name: paid[0].to_dict() for name, paid in told.receipts.items() if paid}
    if receipts:  # in a rehearsal nobody has paid
        learned = replace(learned, paid=(*schema.paid, PaidFacts(what, receipts)))
    return learned
