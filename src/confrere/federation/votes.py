"""Parties give votes on public rows, shares of cells, or weights; what is added up is noised.

**Whom to trust.** With ``trust="coordinator"`` what a party sends carries no noise of its own. The
promise is about what the coordinator publishes: everyone else sees noised numbers only, and the
coordinator sees votes on the auxiliary rows (or weights), never rows or labels of a party. With
``trust="sum"`` nobody sees what a party adds: every party draws a share of the noise, so that no
coordinator has to be trusted with what parties send, or with adding noise to it; what is made of
the noised sum everybody can compute. All of a party's data are protected together, and nothing
about their number is asked. A party pays its whole price when it answers, published or not.

Proofs: docs/proofs/multiparty.md, docs/proofs/secure_sums.md, and the page of each statistic.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal, Self, cast, get_args

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from confrere.arrays import Floats
from confrere.errors import InvalidMessage, InvalidParameter, QuorumMissed
from confrere.federation.answers import Answers, Key
from confrere.federation.federation import Federation, StackedAnswers, checked
from confrere.federation.messages import Expected, Numbers, PartyError, Payload
from confrere.federation.operation import (
    Arrays,
    Delta,
    Digest,
    Epsilon,
    Flag,
    InBall,
    Operation,
    PartyFacts,
    Positive,
    Share,
    SumOperation,
    Whole,
    framed,
    install,
    number,
    numbers,
    one_of,
)
from confrere.federation.party import LocalParty
from confrere.federation.protocols import receipts_in
from confrere.federation.summing import Summed
from confrere.kernel.release import paid_by_parties
from confrere.kernel.streams import RandomSource, Seed, SeededSource, simulation_of
from confrere.ledger import Receipt
from confrere.maths.parties import PartySolutions, solve_parties, solve_parties_softmax
from confrere.maths.public_cells import Cells
from confrere.maths.voting import Tally, accumulate_votes, count_votes
from confrere.mechanisms.party_cells import WHOLE, PartyCells, shares_of_parties
from confrere.mechanisms.party_statistic import PartyStatistic, Radius
from confrere.mechanisms.secure_sum import SecureSum
from confrere.methods.voting import Method, Released, Voting
from confrere.rows.frame import Frame

Classes = Annotated[int, number(int, 2, 10**4)]
Rows = Annotated[Floats | None, numbers(2)]


@dataclass(frozen=True, kw_only=True, eq=False)
class _Polled(Operation):
    """What is asked of a whole party: votes on public rows, shares of cells, or weights."""

    frame: InBall
    epsilon: Epsilon
    delta: Delta = 0.0
    n_classes: Classes = 2
    auxiliary: Rows = None
    directions: Rows = None
    offsets: Annotated[Floats | None, numbers(1)] = None

    @cached_property
    def partition(self) -> Cells | None:
        """Public cells, if the request has any."""
        if self.directions is None or self.offsets is None:
            return None
        return Cells(self.directions, self.offsets)

    def check(self, facts: PartyFacts) -> None:
        super().check(facts)
        rows, cells = self.auxiliary, self.directions
        if rows is not None and rows.shape[1] != facts.n_features:
            raise InvalidMessage("auxiliary must be rows of one number per column.")
        count = None if self.offsets is None else (len(self.offsets), self.frame.size)
        if (None if cells is None else cells.shape) != count:
            raise InvalidMessage("directions and offsets must be of the same cells.")

    def given(self, *names: str) -> None:
        """Refuse a request that has other arrays than these."""
        each = ("auxiliary", "directions", "offsets")
        if [name for name in each if getattr(self, name) is not None] != list(names):
            raise InvalidMessage("the request has missing or unknown arrays.")


def sum_parties(
    federation: Federation, plan: Voting, *, timeout: float | None = None
) -> tuple[Released, Summed]:
    """Have every party add its part, and make the model of the noised sum.

    Parameters
    ----------
    federation : Federation
        Whom to ask. The number of its parties is public; who is not there adds nothing.
    plan : Voting
        What is added up, with ``trust="sum"``.
    timeout : float, optional
        Seconds to wait for a question.
    """
    names = federation.parties()
    summed = federation.sum(PartyShare.at(plan, len(names)), names, timeout=timeout)
    return plan.release_sum(summed.value, len(names)), summed


@install
@dataclass(frozen=True, kw_only=True, eq=False)
class PartyShare(SumOperation, _Polled):
    """What a party adds to the sum that a model is made of."""

    operation: ClassVar[str] = "party_share"
    method: Annotated[str, one_of("statistic", "cells", "weights")]
    n_parties: Whole
    colluding: Whole
    reserve: Whole
    quorum: Share
    alpha: Positive
    radius: Annotated[str, one_of(*get_args(Radius))]
    normalise: Flag
    spacing: Positive

    @classmethod
    def at(cls, plan: Voting, n_parties: int) -> Self:
        """Return the request to so many parties."""
        mechanism = plan.shared(n_parties)
        weights = plan.method == "weights"
        return cls.of(
            plan,
            n_parties=n_parties,
            colluding=mechanism.colluders,
            alpha=plan.average(n_parties).alpha if weights else plan.local_alpha,
            spacing=mechanism.spacing,
            auxiliary=plan.auxiliary if plan.votes else None,
            **cell_arrays(plan, n_parties),
        )

    @cached_property
    def plan(self) -> Voting:
        """What everybody carries out."""
        return Voting(
            frame=self.frame,
            epsilon=self.epsilon,
            delta=self.delta,
            method=cast(Method, self.method),
            auxiliary=self.auxiliary,
            n_classes=self.n_classes,
            alpha=self.alpha if self.method == "weights" else "auto",
            radius=cast(Radius, self.radius),
            normalise=self.normalise,
            trust="sum",
            colluding=self.colluding,
            reserve=self.reserve,
            quorum=self.quorum,
            partition=self.partition,
        )

    @cached_property
    @override
    def mechanism(self) -> SecureSum:
        return self.plan.shared(self.n_parties)

    @override
    def check(self, facts: PartyFacts) -> None:
        self.given(*_ARRAYS.get(self.method, ()))
        super().check(facts)

    def vector(self, party: LocalParty) -> Floats:
        """Return what a party adds; one whose own problem cannot be solved adds nothing."""
        plan = self.plan
        summand = plan.summand(self.n_parties)
        if isinstance(summand, PartyCells):
            return summand.part(own_shares(party, plan.frame, plan.cells(self.n_parties)))
        if isinstance(summand, PartyStatistic):
            ballot = own_ballot(party, len(plan.rows))
            if ballot is not None:
                return summand.part(ballot)
        found = own_solution(party, plan.frame, self.alpha)
        if not found.solved[0]:
            return np.zeros(plan.frame.size * (plan.n_classes - 1))
        if isinstance(summand, PartyStatistic):
            return summand.part(ballot_of(found.W, plan.rows))
        return summand.part(found.W[0])


#: The arrays that a request of a method has besides the frame's.
_ARRAYS = {"statistic": ("auxiliary",), "cells": ("directions", "offsets")}


def own_solution(party: LocalParty, frame: Frame, alpha: float) -> PartySolutions:
    """Return a party's own classifier, a logistic regression with this ridge."""
    rows, offsets = frame.rows(party.X).written(), np.array([0, len(party.y)])
    if party.n_classes == 2:
        return solve_parties(rows, party.y, offsets, alpha=alpha)
    return solve_parties_softmax(rows, party.codes, offsets, party.n_classes, alpha=alpha)


def own_ballot(party: LocalParty, n_rows: int) -> NDArray[np.bool_] | NDArray[np.int64] | None:
    """Return how a party's own classifier votes; None if it has none for so many rows."""
    ballot = party.ballot
    return ballot if ballot is not None and len(ballot) == n_rows else None


def ballot_of(W: Floats, rows: Floats) -> NDArray[np.bool_] | NDArray[np.int64]:
    """Return how one linear classifier votes on every row; of more than two classes, codes."""
    votes = count_votes(W, rows)
    return votes > 0 if votes.ndim == 1 else np.argmax(votes, axis=1).astype(np.int64)


def cell_arrays(plan: Voting, n_parties: int) -> dict[str, Floats | None]:
    """Return the partition of a plan as arrays of a request."""
    cells = plan.cells(n_parties) if plan.method == "cells" else None
    return {
        "directions": None if cells is None else cells.directions,
        "offsets": None if cells is None else cells.offsets,
    }


def own_shares(party: LocalParty, frame: Frame, cells: Cells) -> NDArray[np.int64]:
    """Return how a party's rows are shared over cells and classes, in whole numbers."""
    offsets, shape = np.array([0, len(party.y)]), (len(cells), party.n_classes)
    own = cells.of(frame.rows(party.X).written())
    found = shares_of_parties(own, party.codes, offsets, shape)
    return np.asarray(found[0])


OnFaulty = Literal["leave-out", "refuse"]


@dataclass(frozen=True, eq=False)
class VotingOutcome:
    """A model of many parties, and what stands behind it.

    Parameters
    ----------
    plan : Voting
        How it was made.
    released : Released
        What may be published.
    receipts : mapping of str to tuple of Receipt
        What each party paid.
    left_out : mapping of str to str
        Parties without a valid answer and why; the coordinator's business, not to be published.
    simulated : bool
        Whether any noise was seeded.
    """

    plan: Voting
    released: Released
    receipts: Mapping[str, tuple[Receipt, ...]]
    left_out: Mapping[str, str]
    simulated: bool

    def to_payload(self) -> Payload:
        """Return all but the plan as one payload, to be kept."""
        # Members of a group share their receipts: each is written once.
        distinct = list(dict.fromkeys(self.receipts.values()))
        places = {paid: place for place, paid in enumerate(distinct)}
        values = {
            "alpha": float(self.released.alpha),
            "parties": list(self.receipts),
            "receipts": [[receipt.to_dict() for receipt in paid] for paid in distinct],
            "left_out": dict(self.left_out),
            "simulated": bool(self.simulated),
        }
        arrays = {
            "weights": self.released.weights,
            "statistic": self.released.statistic,
            "paid": np.array([places[paid] for paid in self.receipts.values()], dtype=np.int64),
        }
        return Payload(values, {n: array for n, array in arrays.items() if array is not None})

    @classmethod
    def from_payload(cls, plan: Voting, payload: Payload) -> VotingOutcome:
        """Read what :meth:`to_payload` wrote."""
        values, arrays = payload.values, payload.arrays
        paid = [tuple(Receipt.from_dict(one) for one in each) for each in values["receipts"]]
        places = arrays["paid"].tolist()
        return cls(
            plan,
            Released(arrays["weights"], values["alpha"], arrays.get("statistic")),
            {name: paid[k] for name, k in zip(values["parties"], places, strict=True)},
            values["left_out"],
            values["simulated"],
        )


def poll(
    federation: Federation,
    plan: Voting,
    *,
    releases: Answers | None = None,
    on_faulty: OnFaulty = "leave-out",
    timeout: float | None = None,
    random_state: Seed | None = None,
) -> VotingOutcome:
    """Run the protocol, as the coordinator whom the parties trust to add the noise, or who adds up.

    Where the plan has ``trust="sum"`` the parties draw the noise; ``releases``, ``on_faulty`` and
    ``random_state`` mean nothing then. Elsewhere noise is drawn once per run: what was released is
    on disk before it is returned, and polling again under the same run returns the same bytes.
    Every question carries a digest of the whole
    plan and names the file of releases, so that another plan, or another file, under the same run
    is another question: every party refuses it and spends nothing.

    Parameters
    ----------
    federation : Federation
        Whom to ask. The number of its parties is public, answered or not.
    plan : Voting
        What to ask, and what to make of it.
    releases : Answers, optional
        The file that what is released is kept in. Only a simulation can do without.
    on_faulty : {"leave-out", "refuse"}, default="leave-out"
        What to do without a party's valid answer: count it as a split vote (as zero weights), or
        release nothing.
    timeout : float, optional
        Seconds to wait.
    random_state : int or generator, optional
        Of the coordinator's noise, for simulation only.
    """
    if plan.trust == "sum":
        return _summed(federation, plan, timeout)
    if on_faulty not in ("leave-out", "refuse"):
        raise InvalidParameter("on_faulty must be 'leave-out' or 'refuse'.")
    if releases is None:
        if random_state is None and not federation.pretends:
            raise InvalidParameter(
                "releases must be the Answers file that keeps what is released: noise is drawn "
                "once per run."
            )
        releases = Answers()
    names = federation.parties()
    key, digest = Key(federation.run, "released", 0), plan_digest(plan, len(names))
    kept = releases.claim(key, question=digest, epsilon=plan.epsilon, cap=None).answer
    if kept is None:
        request = _operation(plan).at(plan, len(names), digest, releases.id)
        answers = federation.ask(request.operation, request.write(), to=names, timeout=timeout)
        if not isinstance(answers, StackedAnswers):  # a group answers as a whole, in this process
            wanted = request.expected(0)
            answers = {n: checked(answer, n, lambda _: wanted) for n, answer in answers.items()}
        elected = _elected(plan, answers, on_faulty, simulation_of(random_state))
        kept = releases.keep(key, elected.to_payload().encode())
    return VotingOutcome.from_payload(plan, Payload.decode(kept))


def _summed(federation: Federation, plan: Voting, timeout: float | None) -> VotingOutcome:
    """Add up what parties noise themselves; who is not on the last roster is left out."""
    released, summed = sum_parties(federation, plan, timeout=timeout)
    left_out = {
        name: federation.left_out.get(name, "NotReady")
        for name in federation.parties()
        if name not in summed.roster
    }
    seeded = any(receipt.simulated for paid in summed.receipts.values() for receipt in paid)
    return VotingOutcome(plan, released, summed.receipts, left_out, seeded)


def plan_digest(plan: Voting, n_parties: int) -> str:
    """Return the name of a plan: of all that the released numbers' law depends on."""
    apart = {"frame", "auxiliary", "partition"}
    settings = {f.name: getattr(plan, f.name) for f in fields(plan) if f.name not in apart}
    values = settings | {"n_parties": n_parties}
    arrays = {"auxiliary": plan.auxiliary}
    if plan.partition is not None:
        arrays |= cell_arrays(plan, n_parties)
    return framed(plan.frame, values, **arrays).digest


def _elected(
    plan: Voting,
    answers: Mapping[str, Payload | PartyError],
    on_faulty: OnFaulty,
    simulation: SeededSource | None,
) -> VotingOutcome:
    """Add up what parties sent, and draw the noise."""
    read = {name: _sent_by(answer, plan) for name, answer in answers.items()}
    left_out = {name: why for name, why in read.items() if isinstance(why, str)}
    if len(left_out) == len(answers) or (left_out and on_faulty == "refuse"):
        told = ", ".join(f"{name}: {why}" for name, why in list(left_out.items())[:5])
        raise QuorumMissed(f"{len(left_out)} of {len(answers)} parties sent nothing valid. {told}")
    valid = {n: a for n, a in answers.items() if isinstance(a, Payload) and n not in left_out}
    receipts = receipts_in(valid)
    paid = [receipt for each in receipts.values() for receipt in each]
    sent = [array for array in read.values() if not isinstance(array, str)]
    with paid_by_parties(paid, plan.guarantee(), simulation) as ticket:
        released = _noised(plan, sent, len(answers), ticket)
    seeded = simulation is not None or any(receipt.simulated for receipt in paid)
    return VotingOutcome(plan, released, receipts, left_out, seeded)


def _noised(
    plan: Voting, sent: Sequence[NDArray[Any]], n_parties: int, source: RandomSource
) -> Released:
    """Return what is made of the valid ballots or uploads, with noise."""
    if plan.votes:
        codes = (ballot.astype(np.int64) for ballot in sent)
        votes, counted = accumulate_votes(codes, n_rows=len(plan.rows), n_classes=plan.n_classes)
        return plan.release_votes(Tally(votes, counted, n_parties), source=source)
    mechanism = plan.mean(n_parties)
    total = np.zeros(mechanism.shape)
    for upload in sent:
        total += mechanism.clipped(upload[None])[0]
    return plan.release_mean(total, n_parties, source=source)


def _operation(plan: Voting) -> type[_Told]:
    known: dict[str, type[_Told]] = {"weights": Upload, "cells": Shares}
    return known.get(plan.method, Ballot)


def _sent_by(answer: Payload | PartyError, plan: Voting) -> NDArray[Any] | str:
    """Return what a party sent, or why it does not count."""
    if isinstance(answer, PartyError):
        return answer.code
    return answer.arrays[_operation(plan).sent]


@dataclass(frozen=True, kw_only=True, eq=False)
class _Told(_Polled):
    """What a trusted coordinator is told without noise; under a run there is one such poll."""

    slot: ClassVar[str] = "poll"
    noised: ClassVar[bool] = False
    chosen: ClassVar[tuple[str, ...]] = ("releases",)
    #: The array that a party sends.
    sent: ClassVar[str]
    method: Annotated[str, one_of(*get_args(Method))]
    plan: Digest
    releases: Digest

    @classmethod
    def at(cls, plan: Voting, n_parties: int, digest: str, releases: str) -> Self:
        """Return the request to so many parties."""
        more: dict[str, Any] = {}
        if plan.method == "weights":
            more["alpha"] = plan.average(1).alpha
        elif plan.votes:
            more["alpha"] = plan.local_alpha
        rows = plan.auxiliary if plan.votes else None
        arrays = {"auxiliary": rows, **cell_arrays(plan, n_parties)}
        return cls.of(plan, plan=digest, releases=releases, **more, **arrays)

    @cached_property
    def voting(self) -> Voting:
        """The plan, as far as a party has to know it."""
        return Voting(
            frame=self.frame,
            epsilon=self.epsilon,
            delta=self.delta,
            method=cast(Method, self.method),
            n_classes=self.n_classes,
            auxiliary=self.auxiliary,
            auxiliary_private=getattr(self, "auxiliary_private", False),
            partition=self.partition,
        )

    def check(self, facts: PartyFacts) -> None:
        super().check(facts)
        if _operation(self.voting) is not type(self):
            raise InvalidMessage("the method asks for something else.")

    @property
    @abstractmethod
    def numbers(self) -> Numbers:
        """What a party may send; how long an upload may be, the mechanism sees to."""

    @override
    def expected(self, n_samples: int) -> Expected:
        return Expected({self.sent: self.numbers}, self.voting.guarantee())


@install
@dataclass(frozen=True, kw_only=True, eq=False)
class Ballot(_Told):
    """How a party's own classifier votes on public rows."""

    operation: ClassVar[str] = "ballot"
    sent: ClassVar[str] = "ballot"
    alpha: Positive
    auxiliary_private: Flag

    @override
    def check(self, facts: PartyFacts) -> None:
        self.given("auxiliary")
        super().check(facts)

    @property
    @override
    def numbers(self) -> Numbers:
        n_rows = len(self.voting.rows)
        if self.n_classes == 2:
            return Numbers((n_rows,), "|b1")
        return Numbers((n_rows,), "<i8", lowest=0, highest=self.n_classes - 1)

    @override
    def answer(self, party: LocalParty, source: RandomSource) -> Arrays:
        ballot = own_ballot(party, len(self.voting.rows))
        if ballot is None:
            found = own_solution(party, self.frame, self.alpha)
            ballot = ballot_of(found.W, self.voting.rows)
        return {self.sent: ballot}


@install
@dataclass(frozen=True, kw_only=True, eq=False)
class Upload(_Told):
    """The weights of a party's own classifier."""

    operation: ClassVar[str] = "upload"
    sent: ClassVar[str] = "weights"
    alpha: Positive

    @override
    def check(self, facts: PartyFacts) -> None:
        self.given()
        super().check(facts)

    @property
    @override
    def numbers(self) -> Numbers:
        return Numbers(self.voting.mean(1).shape)

    @override
    def answer(self, party: LocalParty, source: RandomSource) -> Arrays:
        return {self.sent: np.asarray(own_solution(party, self.frame, self.alpha).W[0])}


@install
class Shares(_Told):
    """How a party's rows are shared over public cells and classes."""

    operation: ClassVar[str] = "shares"
    sent: ClassVar[str] = "shares"

    @override
    def check(self, facts: PartyFacts) -> None:
        self.given("directions", "offsets")
        super().check(facts)

    @property
    @override
    def numbers(self) -> Numbers:
        return Numbers(self.voting.shares(1).shape, "<i8", lowest=0, highest=WHOLE)

    @override
    def answer(self, party: LocalParty, source: RandomSource) -> Arrays:
        assert self.partition is not None
        return {self.sent: own_shares(party, self.frame, self.partition)}
