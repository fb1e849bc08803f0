"""Protocols between organisations that are no method's own, and what runs around any of them.

Counts of a public model's errors, by every party or over all as one sum: then there is one price
per record, whatever the number of parties; a count of each with noise of its own would have their
number times the variance, and tell how each of them fares. Facts of a schema: nobody's own means
are seen.

**Whom to trust with votes.** With ``trust="coordinator"`` what a party sends carries no noise of
its own (:class:`Trusted`). The promise is about what the coordinator publishes: everyone else sees
noised numbers only, and the coordinator sees votes on the auxiliary rows (or weights), never rows
or labels of a party. With ``trust="sum"`` nobody sees what a party adds: every party draws a share
of the noise; what is made of the noised sum everybody can compute. All of a party's data are
protected together, and nothing about their number is asked. A party pays its whole price when it
answers, published or not.

Proofs: docs/proofs/secure_sums.md, docs/proofs/learned_facts.md, docs/proofs/multiparty.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeVar, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from confrere.arrays import Floats
from confrere.data.fact_counts import STEPS
from confrere.data.schema import PaidFacts, PublicSchema
from confrere.errors import InvalidParameter, QuorumMissed
from confrere.kernel.guarantee import Guarantee, Neighbours, Together, Unit
from confrere.kernel.release import paid_by_parties
from confrere.kernel.streams import Seed, simulation_of
from confrere.ledger import Receipt
from confrere.methods.asking import (
    Ask,
    Protocol,
    Receipts,
    Sizes,
    Told,
    known_sizes,
    over_parties,
)
from confrere.methods.average import Collaboration, Combined
from confrere.methods.sums import Hides
from confrere.methods.votes import Polled, Tally, Voting, accumulate_votes
from confrere_federation.parties import requests
from confrere_federation.parties.answers import Answers, Key
from confrere_federation.parties.federation import Federation, checked
from confrere_federation.parties.messages import PartyError, Payload, receipts_of
from confrere_federation.parties.requests import (
    Errors,
    ErrorsOfAll,
    FactsOfAll,
    request_for,
    sent_schema,
)

T = TypeVar("T")
OnFaulty = Literal["leave-out", "refuse"]

#: What stands for all parties where their counts are one.
ALL = "all parties"

#: Sizes are asked for once by facts, and by what comes after in its own steps.
_SIZES_STEP = 1

#: A party's number of records at most, where it is not public and nothing else is said.
MOST_HIDDEN = 1 << 20


def changed(protocol: Protocol[T], change: Callable[[Ask], Ask]) -> Protocol[T]:
    """Run a protocol as part of another, whose questions are changed before they are asked."""
    try:
        ask = next(protocol)
        while True:
            ask = protocol.send((yield change(ask)))
    except StopIteration as end:
        found: T = end.value
        return found


def with_quorum(protocol: Protocol[T], quorum: float) -> Protocol[T]:
    """Run a protocol as part of another, in which such a share of the parties must answer."""
    if isinstance(quorum, bool) or not 0 < quorum <= 1:
        raise InvalidParameter("quorum must be a number above 0 and at most 1.")
    return changed(protocol, lambda ask: replace(ask, quorum=quorum))


def with_receipts(protocol: Protocol[T]) -> Protocol[tuple[T, Receipts]]:
    """Run a protocol as part of another, and return also what parties have paid for it."""
    paid: Receipts = {}
    try:
        ask = next(protocol)
        while True:
            told = yield ask
            paid = joined(paid, told.receipts)
            ask = protocol.send(told)
    except StopIteration as end:
        return end.value, paid


def joined(earlier: Receipts, later: Receipts) -> Receipts:
    """Append receipts, party by party; one that several answers share counts once."""
    every = {
        name: tuple(dict.fromkeys(earlier.get(name, ()) + later.get(name, ())))
        for name in {**earlier, **later}
    }
    # Who was only asked for what is free, and then lost, has no part in it.
    return {name: paid for name, paid in every.items() if paid}


def guarantee_of(receipts: Receipts) -> Guarantee:
    """Return what a person in one party's data is promised about everything released.

    In sequence within a party, in parallel over parties: they hold disjoint records.
    """
    distinct = {tuple((r.ledger_id, r.row) for r in paid): paid for paid in receipts.values()}
    totals = [Together([one.guarantee for one in paid]).guarantee() for paid in distinct.values()]
    return totals[0] if len(totals) == 1 else over_parties(totals, len(receipts))


@dataclass(frozen=True, eq=False)
class Outcome(Combined):
    """A model of several parties: post-processing of what each of them released."""

    receipts: Receipts = field(default_factory=dict)  #: What each party paid, in order

    @property
    def guarantee(self) -> Guarantee:
        """What a person in one party's data is promised."""
        return guarantee_of(self.receipts)


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


def evaluation(
    coef: ArrayLike,  # Public coefficients for rows as encoded
    intercept: float,
    sizes: Mapping[str, int],  # Records of the parties to ask
    *,
    epsilon: float,  # What each party spends
    step: int = 0,  # Which evaluation of the run this is
) -> Protocol[FederatedEvaluation]:
    """Have every party count the errors of a public model."""
    public = np.asarray(coef, dtype=np.float64).ravel()
    told = yield Ask(Errors(epsilon=epsilon, coef=public, intercept=intercept), sizes, step)
    counts = dict(zip(told.names, told.arrays["errors"].tolist(), strict=True))
    return FederatedEvaluation(counts, {name: sizes[name] for name in counts}, told.receipts)


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
        coef=np.asarray(coef, dtype=np.float64).ravel(),
        intercept=intercept,
        **tries,
    )
    told = yield Ask(asked, sizes)
    there = {name: sizes[name] for name in told.names}
    return FederatedEvaluation({ALL: float(told.arrays["sum"][0])}, there, told.receipts)


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


@dataclass(frozen=True, eq=False)
class Trusted:
    """How a coordinator whom parties trust adds the noise: once per run, and kept on disk.

    Every question carries a digest of the whole plan and names the file of releases, so that
    another plan, or another file, under the same run is another question: every party refuses it
    and spends nothing.
    """

    #: The file that what is released is kept in. Only a simulation can do without.
    releases: Answers | None = None
    #: Without a party's valid answer: count it as a split vote (zero weights), or release nothing.
    on_faulty: OnFaulty = "leave-out"
    random_state: Seed | None = None  #: Of the coordinator's noise, for simulation only

    def __post_init__(self) -> None:
        if self.on_faulty not in get_args(OnFaulty):
            raise InvalidParameter("on_faulty must be 'leave-out' or 'refuse'.")

    def poll(self, federation: Federation, asked: Polled, timeout: float | None) -> Told:
        """Ask everyone, add up what is valid, and noise it; or return what was released before."""
        releases = self.releases
        if releases is None:
            if self.random_state is None and not federation.pretends:
                raise InvalidParameter(
                    "releases must be the Answers file that keeps what is released: noise is drawn "
                    "once per run."
                )
            releases = Answers()
        request = request_for(asked)
        assert isinstance(request, requests.UnnoisedPoll)
        key = Key(federation.run, "released", 0)
        epsilon = asked.voting.epsilon
        kept = releases.claim(key, question=request.plan, epsilon=epsilon, cap=None).answer
        if kept is None:
            request.releases = releases.id
            told = request.operation, request.write()
            answers = federation.ask(*told, to=federation.parties(), timeout=timeout)
            kept = releases.keep(key, self._noised(asked, request, answers).encode())
        found = Payload.decode(kept)
        federation.left_out |= found.values["left_out"]
        paid = [tuple(map(Receipt.from_dict, each)) for each in found.values["receipts"]]
        receipts = dict(zip(found.values["parties"], paid, strict=True))
        return Told(tuple(receipts), {"noised": found.arrays["noised"]}, receipts)

    def _noised(
        self,
        asked: Polled,
        request: requests.UnnoisedPoll,
        answers: Mapping[str, Payload | PartyError],
    ) -> Payload:
        wanted, plan, count = request.expected(0), asked.voting, len(answers)
        found = {name: checked(one, name, lambda _: wanted) for name, one in answers.items()}
        valid = {n: one for n, one in sorted(found.items()) if isinstance(one, Payload)}
        left_out = {name: one.code for name, one in found.items() if isinstance(one, PartyError)}
        if not valid or (left_out and self.on_faulty == "refuse"):
            told = ", ".join(f"{name}: {why}" for name, why in list(left_out.items())[:5])
            raise QuorumMissed(f"{len(left_out)} of {count} parties sent nothing valid. {told}")
        receipts = {name: receipts_of(answer) for name, answer in valid.items()}
        paid = [receipt for each in receipts.values() for receipt in each]
        sent = [answer.arrays[request.answers[0]] for answer in valid.values()]
        simulation = simulation_of(self.random_state)
        with paid_by_parties(paid, plan.guarantee(), simulation) as ticket:
            noised = plan.noised(_total(plan, sent, count), count, source=ticket)
        values = {
            "parties": list(receipts),
            "receipts": [[one.to_dict() for one in each] for each in receipts.values()],
            "left_out": left_out,
        }
        return Payload(values, {"noised": noised})


def _total(plan: Voting, sent: Sequence[NDArray[Any]], n_parties: int) -> Tally | Floats:
    """Return valid ballots or uploads, added up."""
    if plan.votes:
        codes = (ballot.astype(np.int64) for ballot in sent)
        votes, counted = accumulate_votes(codes, n_rows=len(plan.rows), n_classes=plan.n_classes)
        return Tally(votes, counted, n_parties)
    mechanism: Any = plan.mechanism(n_parties)
    total = np.zeros(mechanism.shape)
    for upload in sent:
        total += mechanism.clipped(upload[None])[0]
    return total
