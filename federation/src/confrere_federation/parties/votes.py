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
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal, Self, cast, get_args

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from confrere.arrays import Floats
from confrere.errors import InvalidMessage, InvalidParameter, QuorumMissed
from confrere.kernel.release import paid_by_parties
from confrere.kernel.streams import RandomSource, Seed, simulation_of
from confrere.ledger import Receipt
from confrere.mechanisms.secure_sum import SecureSum
from confrere.methods.asking import Receipts, Told
from confrere.methods.public_cells import Cells
from confrere.methods.votes import Added, Method, Polled, Released, Voting
from confrere.methods.voting import WHOLE, Radius, Tally, accumulate_votes
from confrere_federation.parties.answers import Answers, Key
from confrere_federation.parties.federation import Federation, checked, with_receipts
from confrere_federation.parties.messages import Expected, Numbers, PartyError, Payload, receipts_of
from confrere_federation.parties.operation import (
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
    installed,
    number,
    numbers,
    one_of,
)
from confrere_federation.parties.party import LocalParty

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
    @override
    def to_ask(cls, asked: Any) -> Self:
        plan, n_parties = asked.voting, asked.n_parties
        mechanism = plan.shared(n_parties)
        weights = plan.method == "weights"
        return cls.of(
            plan,
            n_parties=n_parties,
            colluding=mechanism.colluders,
            alpha=_mechanism(asked, n_parties).alpha if weights else plan.local_alpha,
            spacing=mechanism.spacing,
            auxiliary=plan.auxiliary if plan.votes else None,
            **cell_arrays(plan, n_parties),
        )

    @cached_property
    @override
    def asked(self) -> Polled:
        weights = self.method == "weights"
        voting = Voting(
            frame=self.frame,
            epsilon=self.epsilon,
            delta=self.delta,
            method=cast(Method, self.method),
            auxiliary=self.auxiliary,
            n_classes=self.n_classes,
            alpha=self.alpha if weights else "auto",
            local_alpha=1e-4 if weights else self.alpha,
            radius=cast(Radius, self.radius),
            normalise=self.normalise,
            trust="sum",
            colluding=self.colluding,
            reserve=self.reserve,
            quorum=self.quorum,
            partition=self.partition,
        )
        return Added(voting, self.n_parties)

    @cached_property
    @override
    def mechanism(self) -> SecureSum:
        return self.asked.voting.shared(self.n_parties)

    @override
    def check(self, facts: PartyFacts) -> None:
        self.given(*_ARRAYS.get(self.method, ()))
        super().check(facts)

    @override
    def answer(self, party: LocalParty, source: RandomSource) -> Arrays:
        (words,) = source.draw(self.mechanism.share, self.part(party))
        return {"masked": words.view(np.int64)}

    def part(self, party: LocalParty) -> Floats:
        """Return what a party adds; one whose own problem cannot be solved adds nothing."""
        return self.asked.voting.part(*sent_by(party, self.asked), self.n_parties)


def _mechanism(asked: Polled, n_parties: int) -> Any:
    """Return what noises the total, of which a request knows the kind."""
    return asked.voting.mechanism(n_parties)


def sent_by(party: LocalParty, asked: Polled) -> tuple[NDArray[Any], bool]:
    """Return what a party sends, without noise, and whether its own problem was solved.

    Who has a classifier of its own votes by that; others by logistic regression.
    """
    plan = asked.voting
    if plan.votes and party.ballot is not None and len(party.ballot) == len(plan.rows):
        return party.ballot, True
    whole = np.array([0, len(party.y)])
    (own,), (solved,) = plan.weights(party.X, party.codes, whole, asked.n_parties)
    return plan.sent(own), bool(solved)


#: The arrays that a request of a method has besides the frame's.
_ARRAYS = {"statistic": ("auxiliary",), "cells": ("directions", "offsets")}


def cell_arrays(plan: Voting, n_parties: int) -> dict[str, Floats | None]:
    """Return the partition of a plan as arrays of a request."""
    cells = plan.cells(n_parties) if plan.method == "cells" else None
    return {
        "directions": None if cells is None else cells.directions,
        "offsets": None if cells is None else cells.offsets,
    }


OnFaulty = Literal["leave-out", "refuse"]


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
        plan, names = asked.voting, federation.parties()
        request = installed(asked.operation).to_ask(asked)
        assert isinstance(request, _Told)
        key = Key(federation.run, "released", 0)
        kept = releases.claim(key, question=request.plan, epsilon=plan.epsilon, cap=None).answer
        if kept is None:
            told = replace(request, releases=releases.id)
            answers = federation.ask(told.operation, told.write(), to=names, timeout=timeout)
            kept = releases.keep(key, self._noised(asked, request, answers).encode())
        found = Payload.decode(kept)
        federation.left_out |= found.values["left_out"]
        paid = [tuple(map(Receipt.from_dict, each)) for each in found.values["receipts"]]
        receipts = dict(zip(found.values["parties"], paid, strict=True))
        return Told(tuple(receipts), {"noised": found.arrays["noised"]}, receipts)

    def _noised(
        self, asked: Polled, request: _Told, answers: Mapping[str, Payload | PartyError]
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
        sent = [answer.arrays[request.sent] for answer in valid.values()]
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


@dataclass(frozen=True, eq=False)
class VotingOutcome:
    """A model of many parties, and what stands behind it."""

    plan: Voting  #: How it was made
    released: Released  #: What may be published
    receipts: Receipts  #: What each party paid
    #: Parties without a valid answer and why; the coordinator's business, not to be published.
    left_out: Mapping[str, str]
    simulated: bool  #: Whether any noise was seeded


def poll(
    federation: Federation,  # Whom to ask; the number of its parties is public, answered or not
    plan: Voting,
    *,
    timeout: float | None = None,
    **trusted: Any,  # As for :class:`Trusted`; they mean nothing where ``trust="sum"``
) -> VotingOutcome:
    """Run the protocol, as the coordinator whom parties trust to add the noise, or who adds up."""
    steps = with_receipts(plan.steps(federation.parties()))
    coordinator = Trusted(**trusted)
    released, receipts = federation.run_protocol(steps, timeout=timeout, trusted=coordinator)
    seeded = any(receipt.simulated for paid in receipts.values() for receipt in paid)
    left_out = {
        name: federation.left_out.get(name, "NotReady")
        for name in federation.parties()
        if name not in receipts
    }
    return VotingOutcome(
        plan, released, receipts, left_out, seeded or coordinator.random_state is not None
    )


def plan_digest(plan: Voting, n_parties: int) -> str:
    """Return the name of a plan: of all that the released numbers' law depends on."""
    apart = {"frame", "auxiliary", "partition"}
    settings = {f.name: getattr(plan, f.name) for f in fields(plan) if f.name not in apart}
    values = settings | {"n_parties": n_parties}
    arrays = {"auxiliary": plan.auxiliary}
    if plan.partition is not None:
        arrays |= cell_arrays(plan, n_parties)
    return framed(plan.frame, values, **arrays).digest


#: A file of releases that is none.
_NOWHERE = "0" * 32


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
    @override
    def to_ask(cls, asked: Any) -> Self:
        plan, n_parties, more = asked.voting, asked.n_parties, {}
        if plan.method == "weights":
            more["alpha"] = _mechanism(asked, 1).alpha
        elif plan.votes:
            more["alpha"] = plan.local_alpha
        rows = plan.auxiliary if plan.votes else None
        arrays = {"auxiliary": rows, **cell_arrays(plan, n_parties)}
        digest = plan_digest(plan, n_parties)
        return cls.of(plan, plan=digest, releases=_NOWHERE, **more, **arrays)

    @cached_property
    @override
    def asked(self) -> Polled:
        # As far as a party has to know it.
        alpha, votes = getattr(self, "alpha", 1e-4), self.method not in ("weights", "cells")
        voting = Voting(
            frame=self.frame,
            epsilon=self.epsilon,
            delta=self.delta,
            method=cast(Method, self.method),
            n_classes=self.n_classes,
            auxiliary=self.auxiliary,
            auxiliary_private=getattr(self, "auxiliary_private", False),
            partition=self.partition,
            alpha=alpha if self.method == "weights" else "auto",
            local_alpha=alpha if votes else 1e-4,
        )
        return voting.asked(1)

    def check(self, facts: PartyFacts) -> None:
        super().check(facts)
        if self.asked.operation != self.operation:
            raise InvalidMessage("the method asks for something else.")

    @property
    @abstractmethod
    def numbers(self) -> Numbers:
        """What a party may send; how long an upload may be, the mechanism sees to."""

    @override
    def expected(self, n_samples: int) -> Expected:
        return Expected({self.sent: self.numbers}, self.asked.voting.guarantee())

    @override
    def answer(self, party: LocalParty, source: RandomSource) -> Arrays:
        return {self.sent: sent_by(party, self.asked)[0]}


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
        n_rows = len(self.asked.voting.rows)
        if self.n_classes == 2:
            return Numbers((n_rows,), "|b1")
        return Numbers((n_rows,), "<i8", lowest=0, highest=self.n_classes - 1)


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
        return Numbers(_mechanism(self.asked, 1).shape)


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
        return Numbers(_mechanism(self.asked, 1).shape, "<i8", lowest=0, highest=WHOLE)
