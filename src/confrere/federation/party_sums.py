"""Votes, shares or weights of many parties, added up where nobody sees into the sum.

Every party draws a share of the noise, so that no coordinator has to be trusted with what parties
send, or with adding noise to it; what is made of the noised sum everybody can compute. All of a
party's data are protected together, and nothing about their number is asked.

Proof: docs/proofs/secure_sums.md, and the page of each statistic.
"""

from __future__ import annotations

from typing import Any, Literal, cast, get_args

import numpy as np
from numpy.typing import NDArray

from confrere.arrays import Floats
from confrere.errors import InvalidMessage
from confrere.federation.federation import Federation
from confrere.federation.operation import (
    PartyFacts,
    auxiliary_of,
    check_prices,
    framed,
    own_frame,
)
from confrere.federation.party import LocalParty
from confrere.federation.payload import Payload
from confrere.federation.summing import Summed, install_sum
from confrere.guarantee import check_bound
from confrere.maths.parties import PartySolutions, solve_parties, solve_parties_softmax
from confrere.maths.public_cells import Cells
from confrere.maths.voting import count_votes
from confrere.mechanisms.objective_perturbation import Calibration
from confrere.mechanisms.party_average import PartyAverage
from confrere.mechanisms.party_cells import PartyCells, shares_of_parties
from confrere.mechanisms.party_statistic import PartyStatistic, Radius
from confrere.mechanisms.secure_sum import SecureSum
from confrere.plans.voting_plan import Released, Voting
from confrere.rows.frame import Frame

Part = Literal["statistic", "cells", "weights"]

#: The arrays that a request of a method has besides the frame's.
_ARRAYS: dict[str, set[str]] = {"statistic": {"auxiliary"}, "cells": {"directions", "offsets"}}

_VALUES = {
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
    "calibration": str,
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
    request = _request(plan, len(names), mechanism)
    summed = federation.sum(PARTY_SHARE.name, request, mechanism, to=names, timeout=timeout)
    return plan.release_sum(summed.value, len(names)), summed


def _request(plan: Voting, n_parties: int, mechanism: SecureSum) -> Payload:
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
        "calibration": plan.calibration,
        "spacing": float(mechanism.spacing),
    }
    if plan.delta:
        values["delta"] = float(plan.delta)
    if plan.method == "cells":
        return framed(plan.frame, values, **cell_arrays(plan.cells(n_parties)))
    return framed(plan.frame, values, auxiliary=plan.auxiliary if plan.votes else None)


def _read(request: Payload, facts: PartyFacts) -> tuple[Voting, float, int]:
    """Read a message; what does not fit is refused."""
    values = request.values
    if values.keys() - {"delta"} != _VALUES.keys():
        raise InvalidMessage("the request has missing or unknown fields.")
    wrong = [name for name, kind in _VALUES.items() if type(values[name]) is not kind]
    if wrong:
        raise InvalidMessage(f"{wrong[0]} is of the wrong kind.")
    method = values["method"]
    if method not in get_args(Part):
        raise InvalidMessage("method must be one whose parts can be added up.")
    if request.arrays.keys() - {"feature_scale"} != _ARRAYS.get(method, set()):
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
        calibration=cast(Calibration, values["calibration"]),
        trust="sum",
        colluding=values["colluding"],
        reserve=values["reserve"],
        quorum=values["quorum"],
        partition=read_cells(request, frame) if method == "cells" else None,
    )
    return plan, values["alpha"], values["n_parties"]


def _sum_of(request: Payload, facts: PartyFacts) -> SecureSum:
    plan, _, n_parties = _read(request, facts)
    mechanism = plan.shared(n_parties)
    # Uploads on different lattices would add up to nothing.
    if request.values["spacing"] != mechanism.spacing:
        raise InvalidMessage("spacing is not the one that follows from the request.")
    return mechanism


def _part(request: Payload, party: LocalParty) -> Floats:
    """Return what a party adds; one whose own problem cannot be solved adds nothing."""
    plan, alpha, n_parties = _read(request, party.facts)
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
