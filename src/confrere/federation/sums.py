"""Every party adds to sums that nobody sees into: one message each, or rounds of gradients.

Proof: docs/proofs/secure_sums.md.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from confrere.arrays import Floats
from confrere.errors import InvalidMessage
from confrere.federation.counting import ask_sizes
from confrere.federation.federation import Federation
from confrere.federation.operation import (
    PartyFacts,
    check_price,
    frame_of,
    framed,
)
from confrere.federation.outcome import Outcome, joined
from confrere.federation.party import LocalParty
from confrere.federation.payload import Payload
from confrere.federation.summing import Summed, install_sum
from confrere.mechanisms.secure_sum import SecureSum, colluders_of
from confrere.plans.party_rows import Sizes
from confrere.plans.sums_plan import GradientRounds, OneMessage

Sums = OneMessage | GradientRounds

_COMMON = frozenset(
    {"frame", "epsilon", "cap", "colluding", "reserve", "quorum", "sizes", "spacing"}
)
_ONE = _COMMON | {"alpha"}
_ROUND = _COMMON | {"delta", "rounds", "round"}


def add_up(
    federation: Federation, plan: Sums, *, quorum: float = 1.0, timeout: float | None = None
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
    mechanism = plan.mechanism(sizes)
    names = list(sizes.counts)
    if isinstance(plan, OneMessage):
        asked = _request(plan, sizes, mechanism, plan.prior)
        summed = federation.sum(MINIMISER.name, asked, mechanism, to=names, timeout=timeout)
        weights = plan.weights_of(_whole(summed, sizes), sizes)
        return _outcome(plan, weights, sizes, summed, dict(summed.receipts))
    descent = plan.descent(sizes)
    receipts: dict[str, Any] = {}
    for number in range(plan.rounds):
        asked = _request(plan, sizes, mechanism, descent.weights, round=number)
        summed = federation.sum(
            GRADIENT.name,
            asked,
            mechanism,
            to=names,
            timeout=timeout,
            later=plan.rounds - number - 1,
        )
        receipts = joined(receipts, summed.receipts)
        descent.take(_whole(summed, sizes))
    return _outcome(plan, descent.average, sizes, summed, receipts)


def _outcome(
    plan: Sums, weights: Floats, sizes: Sizes, summed: Summed, receipts: dict[str, Any]
) -> Outcome:
    counts = {name: sizes.counts[name] for name in summed.roster}
    return Outcome(plan.frame, np.asarray(weights), counts, receipts)


def _whole(summed: Summed, sizes: Sizes) -> Floats:
    """Return a sum as if everyone were in it: those who are stand for those who are not."""
    there = sum(sizes.counts[name] for name in summed.roster)
    return np.asarray(summed.value * (sizes.total / there))


def _request(
    plan: Sums, sizes: Sizes, mechanism: SecureSum, weights: Floats | None, **more: Any
) -> Payload:
    values: dict[str, Any] = {
        "epsilon": float(plan.epsilon),
        "cap": float(plan.cap),
        "colluding": int(mechanism.colluders),
        "reserve": int(plan.reserve),
        "quorum": float(plan.quorum),
        "sizes": {name: int(count) for name, count in sizes.counts.items()},
        "spacing": float(mechanism.spacing),
        **more,
    }
    if isinstance(plan, OneMessage):
        values["alpha"] = plan.alpha if plan.alpha == "auto" else float(plan.alpha)
    else:
        values |= {"delta": float(plan.delta), "rounds": int(plan.rounds)}
    return framed(plan.frame, values, weights=weights)


def _read(
    request: Payload, facts: PartyFacts, known: frozenset[str]
) -> tuple[dict[str, Any], Sizes]:
    """Read what all requests have; what does not fit is refused."""
    values = dict(request.values)
    if values.keys() != known or not request.arrays.keys() <= {
        "feature_scale",
        "weights",
    }:
        raise InvalidMessage("the request has missing or unknown fields.")
    frame = frame_of(request)
    if facts.n_features != frame.n_features or frame.norm != "l2":
        raise InvalidMessage("the request is for rows of another number of columns or norm.")
    weights = request.arrays.get("weights")
    shape = (frame.size,) if facts.n_classes == 2 else (facts.n_classes, frame.size)
    if weights is not None and (weights.dtype != np.float64 or weights.shape != shape):
        raise InvalidMessage("weights must be one float64 per coordinate.")
    check_price(values["epsilon"])
    for name in ("cap", "quorum", "spacing"):
        if type(values[name]) is not float or not values[name] > 0:
            raise InvalidMessage(f"{name} must be a float above 0.")
    for name in ("colluding", "reserve"):
        if type(values[name]) is not int:
            raise InvalidMessage(f"{name} must be an int.")
    if not values["cap"] <= 1:
        raise InvalidMessage("cap must be at most 1, the largest slope of the loss.")
    counts = values["sizes"]
    fit = isinstance(counts, dict) and all(type(n) is int and n > 0 for n in counts.values())
    if not fit or not counts:
        raise InvalidMessage("sizes must be a number of records for every party.")
    settings = {n: values[n] for n in ("epsilon", "cap", "colluding", "reserve", "quorum")}
    return settings | {"n_classes": facts.n_classes, "frame": frame}, Sizes(counts)


def _one_message(request: Payload, facts: PartyFacts) -> tuple[OneMessage, Sizes]:
    settings, sizes = _read(request, facts, _ONE)
    alpha = request.values["alpha"]
    if alpha != "auto" and not (type(alpha) is float and alpha > 0):
        raise InvalidMessage("alpha must be 'auto' or a float above 0.")
    prior = request.arrays.get("weights")
    return OneMessage(**settings, alpha=alpha, prior=prior), sizes


def _gradient_rounds(request: Payload, facts: PartyFacts) -> tuple[GradientRounds, Sizes]:
    settings, sizes = _read(request, facts, _ROUND)
    values = request.values
    if type(values["delta"]) is not float or "weights" not in request.arrays:
        raise InvalidMessage("a gradient is asked for with a delta, at weights.")
    if type(values["rounds"]) is not int or type(values["round"]) is not int:
        raise InvalidMessage("round and rounds must be ints.")
    if not 0 <= values["round"] < values["rounds"]:
        raise InvalidMessage("round must be one of the rounds.")
    return GradientRounds(**settings, delta=values["delta"], rounds=values["rounds"]), sizes


def _checked(mechanism: SecureSum, request: Payload) -> SecureSum:
    # Uploads on different lattices would add up to nothing.
    if request.values["spacing"] != mechanism.spacing:
        raise InvalidMessage("spacing is not the one that follows from the request.")
    return mechanism


def _sum_minimisers(request: Payload, facts: PartyFacts) -> SecureSum:
    plan, sizes = _one_message(request, facts)
    return _checked(plan.mechanism(sizes), request)


def _minimiser(request: Payload, party: LocalParty) -> Floats:
    plan, sizes = _one_message(request, party.facts)
    return plan.message(plan.frame.rows(party.X), party.y, sizes)


def _sum_gradients(request: Payload, facts: PartyFacts) -> SecureSum:
    plan, sizes = _gradient_rounds(request, facts)
    return _checked(plan.mechanism(sizes), request)


def _gradient(request: Payload, party: LocalParty) -> Floats:
    plan, _ = _gradient_rounds(request, party.facts)
    return plan.message(plan.frame.rows(party.X), party.y, request.arrays["weights"])


MINIMISER = install_sum("minimiser", _sum_minimisers, _minimiser, many_classes=True)
GRADIENT = install_sum("gradient", _sum_gradients, _gradient, many_classes=True)
