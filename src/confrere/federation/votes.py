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

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, cast, get_args

import numpy as np
from numpy.typing import NDArray

from confrere.arrays import Floats
from confrere.errors import InvalidMessage, InvalidParameter, QuorumMissed
from confrere.federation.answers import Answers, Key
from confrere.federation.federation import Federation, StackedAnswers, checked
from confrere.federation.messages import Expected, Numbers, PartyError, Payload
from confrere.federation.operation import (
    Operation,
    PartyFacts,
    auxiliary_of,
    check_prices,
    framed,
    install,
    own_frame,
)
from confrere.federation.party import LocalParty
from confrere.federation.protocols import receipts_in
from confrere.federation.summing import Summed, install_sum
from confrere.kernel.guarantee import Guarantee, check_bound
from confrere.kernel.release import paid_by_parties
from confrere.kernel.streams import RandomSource, Seed, SeededSource, simulation_of
from confrere.ledger import Receipt
from confrere.maths.parties import PartySolutions, solve_parties, solve_parties_softmax
from confrere.maths.public_cells import Cells
from confrere.maths.voting import Tally, accumulate_votes, count_votes
from confrere.mechanisms.party_average import PartyAverage
from confrere.mechanisms.party_cells import WHOLE, PartyCells, shares_of_parties
from confrere.mechanisms.party_statistic import PartyStatistic, Radius
from confrere.mechanisms.secure_sum import SecureSum
from confrere.plans.voting_plan import Method, Released, Voting
from confrere.rows.frame import Frame

Part = Literal["statistic", "cells", "weights"]

#: The arrays that a request of a method has besides the frame's.
_SUM_ARRAYS: dict[str, set[str]] = {"statistic": {"auxiliary"}, "cells": {"directions", "offsets"}}

_SUM_VALUES = {
    "frame": dict,
    "epsilon": float,
    "method": str,
    "n_parties": int,
    "n_classes": int,
    "colluding": int,
    "reserve": int,
    "quorum": float,
    "alpha": float,
    "radius": str,
    "normalise": bool,
    "spacing": float,
}


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
    mechanism = plan.shared(len(names))
    request = _sum_request(plan, len(names), mechanism)
    summed = federation.sum(PARTY_SHARE.name, request, mechanism, to=names, timeout=timeout)
    return plan.release_sum(summed.value, len(names)), summed


def _sum_request(plan: Voting, n_parties: int, mechanism: SecureSum) -> Payload:
    alpha = plan.average(n_parties).alpha if plan.method == "weights" else plan.local_alpha
    values: dict[str, Any] = {
        "epsilon": float(plan.epsilon),
        "method": plan.method,
        "n_parties": int(n_parties),
        "n_classes": int(plan.n_classes),
        "colluding": int(mechanism.colluders),
        "reserve": int(plan.reserve),
        "quorum": float(plan.quorum),
        "alpha": float(alpha),
        "radius": plan.radius,
        "normalise": bool(plan.normalise),
        "spacing": float(mechanism.spacing),
    }
    if plan.delta:
        values["delta"] = float(plan.delta)
    if plan.method == "cells":
        return framed(plan.frame, values, **cell_arrays(plan.cells(n_parties)))
    return framed(plan.frame, values, auxiliary=plan.auxiliary if plan.votes else None)


def _read_part(request: Payload, facts: PartyFacts) -> tuple[Voting, float, int]:
    """Read a message; what does not fit is refused."""
    values = request.values
    if values.keys() - {"delta"} != _SUM_VALUES.keys():
        raise InvalidMessage("the request has missing or unknown fields.")
    wrong = [name for name, kind in _SUM_VALUES.items() if type(values[name]) is not kind]
    if wrong:
        raise InvalidMessage(f"{wrong[0]} is of the wrong kind.")
    method = values["method"]
    if method not in get_args(Part):
        raise InvalidMessage("method must be one whose parts can be added up.")
    if request.arrays.keys() - {"feature_scale"} != _SUM_ARRAYS.get(method, set()):
        raise InvalidMessage("the request has missing or unknown arrays.")
    check_prices(values)
    check_bound(values["alpha"], "alpha")
    check_classes(values["n_classes"], facts)
    frame = own_frame(request, facts)
    auxiliary = auxiliary_of(request, frame)
    plan = Voting(
        frame=frame,
        epsilon=values["epsilon"],
        delta=values.get("delta", 0.0),
        method=cast(Part, method),
        auxiliary=auxiliary,
        n_classes=facts.n_classes,
        alpha=values["alpha"] if method == "weights" else "auto",
        radius=cast(Radius, values["radius"]),  # checked by the plan
        normalise=values["normalise"],
        trust="sum",
        colluding=values["colluding"],
        reserve=values["reserve"],
        quorum=values["quorum"],
        partition=read_cells(request, frame) if method == "cells" else None,
    )
    return plan, values["alpha"], values["n_parties"]


def _sum_of(request: Payload, facts: PartyFacts) -> SecureSum:
    plan, _, n_parties = _read_part(request, facts)
    mechanism = plan.shared(n_parties)
    # Uploads on different lattices would add up to nothing.
    if request.values["spacing"] != mechanism.spacing:
        raise InvalidMessage("spacing is not the one that follows from the request.")
    return mechanism


def _part(request: Payload, party: LocalParty) -> Floats:
    """Return what a party adds; one whose own problem cannot be solved adds nothing."""
    plan, alpha, n_parties = _read_part(request, party.facts)
    mechanism = plan.summand(n_parties)
    if isinstance(mechanism, PartyCells):
        return mechanism.part(own_shares(party, plan.frame, plan.cells(n_parties)))
    if isinstance(mechanism, PartyStatistic):
        ballot = own_ballot(party, len(plan.rows))
        if ballot is not None:
            return mechanism.part(ballot)
    found = own_solution(party, plan.frame, alpha)
    if not found.solved[0]:
        return np.zeros(plan.frame.size * (plan.n_classes - 1))
    if isinstance(mechanism, PartyStatistic):
        return mechanism.part(ballot_of(found.W, plan.rows))
    assert isinstance(mechanism, PartyAverage)
    return mechanism.part(found.W[0])


def check_classes(asked: object, facts: PartyFacts) -> None:
    """Refuse a question about other numbers of classes than a party's labels have."""
    if type(asked) is not int or asked != facts.n_classes:
        raise InvalidMessage("n_classes must be the number of the party's declared labels.")


def own_solution(party: LocalParty, frame: Frame, alpha: float) -> PartySolutions:
    """Return a party's own classifier, a logistic regression with this ridge."""
    rows, offsets = frame.rows(party.X), np.array([0, len(party.y)])
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


def cell_arrays(cells: Cells) -> dict[str, Floats]:
    """Return a partition as arrays of a request."""
    return {"directions": cells.directions, "offsets": cells.offsets}


def read_cells(request: Payload, frame: Frame) -> Cells:
    """Read a partition; what does not fit is refused."""
    directions, offsets = request.arrays["directions"], request.arrays["offsets"]
    fits = directions.dtype == offsets.dtype == np.float64 and offsets.ndim == 1
    if not fits or len(offsets) == 0 or directions.shape != (len(offsets), frame.size):
        raise InvalidMessage("directions and offsets must be float64, for one cell or more.")
    if not (np.isfinite(directions).all() and np.isfinite(offsets).all()):
        raise InvalidMessage("directions and offsets must be finite.")
    return Cells(directions, offsets)


def own_shares(party: LocalParty, frame: Frame, cells: Cells) -> NDArray[np.int64]:
    """Return how a party's rows are shared over cells and classes, in whole numbers."""
    offsets, shape = np.array([0, len(party.y)]), (len(cells), party.n_classes)
    found = shares_of_parties(cells.of(frame.rows(party.X)), party.codes, offsets, shape)
    return np.asarray(found[0])


PARTY_SHARE = install_sum("party_share", _sum_of, _part, many_classes=True)


_HEX = re.compile("[0-9a-f]{32,64}")

OnFaulty = Literal["leave-out", "refuse"]

#: What a party is told besides coordinates, price and method; and what it sends.
_POLL_FIELDS: dict[str, set[str]] = {
    "ballot": {"alpha", "auxiliary_private"},
    "upload": {"alpha"},
    "shares": set(),
}
_SENT = {"ballot": "ballot", "upload": "weights", "shares": "shares"}
_POLL_ARRAYS: dict[str, set[str]] = {"ballot": {"auxiliary"}, "shares": {"directions", "offsets"}}


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
        request = _poll_request(plan, len(names), digest, releases.id)
        answers = federation.ask(_operation(plan.method).name, request, to=names, timeout=timeout)
        if not isinstance(answers, StackedAnswers):  # a group answers as a whole, in this process
            wanted = _expected(plan, len(names))
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
    cells = {} if plan.partition is None else cell_arrays(plan.partition)
    return framed(plan.frame, values, auxiliary=plan.auxiliary, **cells).digest


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


def _operation(method: Method) -> Operation:
    return {"weights": UPLOAD, "cells": SHARES}.get(method, BALLOT)


def _poll_request(plan: Voting, n_parties: int, digest: str, releases: str) -> Payload:
    values: dict[str, Any] = {
        "epsilon": float(plan.epsilon),
        "method": plan.method,
        "n_classes": int(plan.n_classes),
        "plan": digest,
        "releases": releases,
    }
    if plan.delta:
        values["delta"] = float(plan.delta)
    if plan.method == "weights":
        return framed(plan.frame, values | {"alpha": plan.average(1).alpha})
    if plan.method == "cells":
        return framed(plan.frame, values, **cell_arrays(plan.cells(n_parties)))
    values |= {
        "alpha": float(plan.local_alpha),
        "auxiliary_private": bool(plan.auxiliary_private),
    }
    return framed(plan.frame, values, auxiliary=plan.auxiliary)


def _expected(plan: Voting, n_parties: int) -> Expected:
    """Return what a party may send; how long an upload may be, the mechanism sees to."""
    if plan.method == "cells":
        numbers = Numbers(plan.shares(n_parties).shape, "<i8", lowest=0, highest=WHOLE)
    elif not plan.votes:
        numbers = Numbers(plan.mean(n_parties).shape)
    elif plan.n_classes == 2:
        numbers = Numbers((len(plan.rows),), "|b1")
    else:
        numbers = Numbers((len(plan.rows),), "<i8", lowest=0, highest=plan.n_classes - 1)
    return Expected({_SENT[_operation(plan.method).name]: numbers}, plan.guarantee())


def _sent_by(answer: Payload | PartyError, plan: Voting) -> NDArray[Any] | str:
    """Return what a party sent, or why it does not count."""
    if isinstance(answer, PartyError):
        return answer.code
    return answer.arrays[_SENT[_operation(plan.method).name]]


@dataclass(frozen=True, kw_only=True, eq=False)
class _Asked:
    """A request as a party reads it."""

    frame: Frame
    alpha: float
    price: Guarantee
    auxiliary: Floats | None
    cells: Cells | None

    @classmethod
    def read(cls, request: Payload, facts: PartyFacts, operation: str) -> _Asked:
        """Read a message; what does not fit is refused."""
        values = request.values
        known = {"frame", "epsilon", "method", "n_classes", "plan", "releases"}
        known |= _POLL_FIELDS[operation]
        arrays = _POLL_ARRAYS.get(operation, set())
        if (
            values.keys() - {"delta"} != known
            or request.arrays.keys() - {"feature_scale"} != arrays
        ):
            raise InvalidMessage("the request has missing or unknown fields.")
        check_prices(values)
        alpha = values.get("alpha", 1.0)
        if type(alpha) is not float:
            raise InvalidMessage("alpha must be a float.")
        private = values.get("auxiliary_private", False)
        if type(private) is not bool or not isinstance(values["method"], str):
            raise InvalidMessage("method must be a text and auxiliary_private a truth value.")
        if not all(_HEX.fullmatch(str(values[name])) for name in ("plan", "releases")):
            raise InvalidMessage("plan and releases must be digests.")
        check_classes(values["n_classes"], facts)
        frame = own_frame(request, facts)
        auxiliary = auxiliary_of(request, frame)
        cells = read_cells(request, frame) if operation == "shares" else None
        plan = Voting(
            frame=frame,
            epsilon=values["epsilon"],
            delta=values.get("delta", 0.0),
            method=cast(Method, values["method"]),  # checked by the plan
            n_classes=facts.n_classes,
            auxiliary_private=private,
            partition=cells,
        )
        if _operation(plan.method).name != operation:
            raise InvalidMessage("the method asks for something else.")
        check_bound(alpha, "alpha")
        return cls(
            frame=frame, alpha=alpha, price=plan.guarantee(), auxiliary=auxiliary, cells=cells
        )


def _ballot(asked: _Asked, party: LocalParty) -> NDArray[Any]:
    assert asked.auxiliary is not None
    ballot = own_ballot(party, len(asked.auxiliary))
    if ballot is not None:
        return ballot
    found = own_solution(party, asked.frame, asked.alpha)
    return ballot_of(found.W, asked.frame.rows(asked.auxiliary))


def _upload(asked: _Asked, party: LocalParty) -> NDArray[Any]:
    return np.asarray(own_solution(party, asked.frame, asked.alpha).W[0])


def _shares(asked: _Asked, party: LocalParty) -> NDArray[Any]:
    assert asked.cells is not None
    return own_shares(party, asked.frame, asked.cells)


def _poll(name: str, sent: Callable[[_Asked, LocalParty], NDArray[Any]]) -> Operation:
    """Install what parties are polled for; under a run there is one poll, whatever it asks for."""

    def price(request: Payload, facts: PartyFacts) -> Guarantee:
        return _Asked.read(request, facts, name).price

    def run(request: Payload, party: LocalParty, source: RandomSource) -> Payload:  # noqa: ARG001
        asked = _Asked.read(request, party.facts, name)
        return Payload(arrays={_SENT[name]: sent(asked, party)})

    return install(
        Operation(
            name,
            price,
            run,
            slot="poll",
            noised=False,
            chosen=("releases",),
            many_classes=True,
        )
    )


BALLOT = _poll("ballot", _ballot)
UPLOAD = _poll("upload", _upload)
SHARES = _poll("shares", _shares)
