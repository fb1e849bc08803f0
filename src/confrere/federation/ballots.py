"""Parties send votes on public rows, weights or moments; the coordinator adds up and adds noise.

**Whom to trust.** What a party sends here carries no noise of its own. The promise is about what
the coordinator publishes: everyone else sees noised numbers only, and the coordinator sees votes on
the auxiliary rows (or weights, or moments), never rows or labels of a party. Only sums are used, so
a secure aggregation in front of the coordinator would hide the single votes from it as well; it
would have to prove that every vote is 0 or 1, and every upload no longer than the bound, which the
coordinator sees to here. A party pays its whole price when it answers, published or not.

Proof: docs/proofs/multiparty.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from confrere.errors import InvalidMessage, InvalidParameter, QuorumMissed
from confrere.federation.federation import Federation, PartyError
from confrere.federation.operation import Facts, Operation, check_price, frame_of, framed, install
from confrere.federation.outcome import receipts_in
from confrere.federation.party import LocalParty
from confrere.federation.payload import Payload
from confrere.federation.voting import Method, Released, Voting
from confrere.guarantee import Guarantee, check_epsilon
from confrere.ledger import Receipt
from confrere.maths.parties import solve_parties
from confrere.maths.voting import count_votes
from confrere.mechanisms.party_moments import moments_of_parties
from confrere.mechanisms.party_tally import Tally
from confrere.noise.sources import RandomSource, Seed, source_for
from confrere.rows.ball import Floats
from confrere.rows.frame import Frame

OnFaulty = Literal["leave-out", "refuse"]

#: What a party is told besides coordinates, price and method; and what it sends.
_FIELDS = {"ballot": {"alpha", "auxiliary_private"}, "upload": {"alpha"}, "moments": set()}
_SENT = {"ballot": "ballot", "upload": "weights", "moments": "moments"}


@dataclass(frozen=True, eq=False)
class Elected:
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


def poll(
    federation: Federation,
    plan: Voting,
    *,
    on_faulty: OnFaulty = "leave-out",
    timeout: float | None = None,
    random_state: Seed | None = None,
) -> Elected:
    """Run the protocol, as the coordinator whom the parties trust to add the noise.

    Parameters
    ----------
    federation : Federation
        Whom to ask. The number of its parties is public, answered or not.
    plan : Voting
        What to ask, and what to make of it; two classes.
    on_faulty : {"leave-out", "refuse"}, default="leave-out"
        What to do without a party's valid answer: count it as a split vote (as zero weights), or
        release nothing.
    timeout : float, optional
        Seconds to wait.
    random_state : int or generator, optional
        Of the coordinator's noise, for simulation only.
    """
    if plan.n_classes != 2:
        raise InvalidParameter("n_classes must be 2: parties of a federation have labels -1, +1.")
    if on_faulty not in ("leave-out", "refuse"):
        raise InvalidParameter("on_faulty must be 'leave-out' or 'refuse'.")
    names = federation.parties()
    operation = _operation(plan.method)
    answers = federation.ask(operation.name, _request(plan), to=names, timeout=timeout)
    read = {name: _read(answer, plan) for name, answer in answers.items()}
    left_out = {name: why for name, why in read.items() if isinstance(why, str)}
    if left_out and on_faulty == "refuse":
        told = ", ".join(f"{name}: {why}" for name, why in list(left_out.items())[:5])
        raise QuorumMissed(f"{len(left_out)} of {len(names)} parties sent nothing valid. {told}")
    sent = [array for array in read.values() if not isinstance(array, str)]
    source = source_for(random_state)
    if plan.votes:
        votes = np.zeros(len(plan.rows), dtype=np.int64)
        for ballot in sent:
            votes += ballot
        tally = Tally(votes, len(sent), len(names))
        released = plan.release_votes(tally, source=source)
    else:
        mechanism = plan.mean(len(names))
        total = np.zeros(mechanism.shape)
        for upload in sent:
            total += mechanism.clipped(upload[None])[0]
        released = plan.release_mean(total, len(names), source=source)
    valid = {n: a for n, a in answers.items() if isinstance(a, Payload) and n not in left_out}
    receipts = receipts_in(valid)
    seeded = any(receipt.simulated for paid in receipts.values() for receipt in paid)
    return Elected(plan, released, receipts, left_out, source.simulated or seeded)


def _operation(method: Method) -> Operation:
    return {"average": UPLOAD, "moments": MOMENTS}.get(method, BALLOT)


def _request(plan: Voting) -> Payload:
    values: dict[str, Any] = {"epsilon": float(plan.epsilon), "method": plan.method}
    if plan.method == "average":
        return framed(plan.frame, values | {"alpha": plan.average(1).alpha})
    if plan.method == "moments":
        return framed(plan.frame, values)
    values |= {
        "alpha": float(plan.local_alpha),
        "auxiliary_private": bool(plan.auxiliary_private),
    }
    return framed(plan.frame, values, auxiliary=plan.auxiliary)


def _read(answer: Payload | PartyError, plan: Voting) -> NDArray[Any] | str:
    """Return what a party sent, or why it does not count."""
    if isinstance(answer, PartyError):
        return answer.code
    kind, size = ("b", len(plan.rows)) if plan.votes else ("f", plan.frame.size)
    sent = answer.arrays.get(_SENT[_operation(plan.method).name])
    fits = sent is not None and sent.dtype.kind == kind and sent.shape == (size,)
    return sent if sent is not None and fits else "InvalidReply"


@dataclass(frozen=True, kw_only=True, eq=False)
class _Asked:
    """A request as a party reads it."""

    frame: Frame
    alpha: float
    price: Guarantee
    auxiliary: Floats | None

    @classmethod
    def read(cls, request: Payload, facts: Facts, operation: str) -> _Asked:
        """Read a message; what does not fit is refused."""
        values = request.values
        fields = {"frame", "epsilon", "method"} | _FIELDS[operation]
        arrays = {"auxiliary"} if operation == "ballot" else set()
        if values.keys() != fields or request.arrays.keys() - {"feature_scale"} != arrays:
            raise InvalidMessage("the request has missing or unknown fields.")
        check_price(values["epsilon"])
        alpha = values.get("alpha", 1.0)
        if type(alpha) is not float:
            raise InvalidMessage("alpha must be a float.")
        private = values.get("auxiliary_private", False)
        if type(private) is not bool or not isinstance(values["method"], str):
            raise InvalidMessage("method must be a text and auxiliary_private a truth value.")
        frame = frame_of(request)
        if facts.n_features != frame.n_features:
            raise InvalidMessage("the request is for rows of another number of columns.")
        auxiliary = request.arrays.get("auxiliary")
        if auxiliary is not None and (
            auxiliary.dtype != np.float64
            or auxiliary.ndim != 2
            or auxiliary.shape[0] == 0
            or auxiliary.shape[1] != frame.n_features
        ):
            raise InvalidMessage("auxiliary must be rows of one float64 per column.")
        plan = Voting(
            frame=frame,
            epsilon=values["epsilon"],
            method=cast(Method, values["method"]),  # checked by the plan
            auxiliary_private=private,
        )
        if _operation(plan.method).name != operation:
            raise InvalidMessage("the method asks for something else.")
        check_epsilon(alpha, "alpha")
        return cls(frame=frame, alpha=alpha, price=plan.guarantee(), auxiliary=auxiliary)

    def solution(self, party: LocalParty) -> Floats:
        """Return the party's own classifier."""
        offsets = np.array([0, len(party.y)])
        rows = self.frame.rows(party.X)
        return np.asarray(solve_parties(rows, party.y, offsets, alpha=self.alpha).W)


def _price_ballot(request: Payload, facts: Facts) -> Guarantee:
    return _Asked.read(request, facts, "ballot").price


def _run_ballot(request: Payload, party: LocalParty, source: RandomSource) -> Payload:  # noqa: ARG001
    asked = _Asked.read(request, party.facts, "ballot")
    assert asked.auxiliary is not None
    rows = asked.frame.rows(asked.auxiliary)
    return Payload(arrays={"ballot": count_votes(asked.solution(party), rows) > 0})


def _price_upload(request: Payload, facts: Facts) -> Guarantee:
    return _Asked.read(request, facts, "upload").price


def _run_upload(request: Payload, party: LocalParty, source: RandomSource) -> Payload:  # noqa: ARG001
    asked = _Asked.read(request, party.facts, "upload")
    return Payload(arrays={"weights": asked.solution(party)[0]})


def _price_moments(request: Payload, facts: Facts) -> Guarantee:
    return _Asked.read(request, facts, "moments").price


def _run_moments(request: Payload, party: LocalParty, source: RandomSource) -> Payload:  # noqa: ARG001
    asked = _Asked.read(request, party.facts, "moments")
    codes = (party.y > 0).astype(np.intp)
    offsets = np.array([0, len(codes)])
    return Payload(
        arrays={"moments": moments_of_parties(asked.frame.rows(party.X), codes, offsets, 2)[0]}
    )


BALLOT = install(Operation("ballot", _price_ballot, _run_ballot))
UPLOAD = install(Operation("upload", _price_upload, _run_upload))
MOMENTS = install(Operation("moments", _price_moments, _run_moments))
