"""The operations that count: how many records a party has, and how many a model gets wrong."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from confrere.errors import InvalidMessage
from confrere.federation.expected import FARTHEST, Expected, Numbers
from confrere.federation.operation import Facts, Operation, check_price, install
from confrere.federation.party import LocalParty, PartyGroup
from confrere.federation.payload import Payload
from confrere.guarantee import Guarantee, Neighbours
from confrere.mechanisms.counts import PrivateCounts
from confrere.model.scoring import readable_rows, scores
from confrere.noise.sources import RandomSource

THEOREM = "docs/proofs/counting.md"


def _price_size(request: Payload, facts: Facts) -> None:  # noqa: ARG001
    # Where one record is replaced by another, the number of records is public.
    if request.values or request.arrays:
        raise InvalidMessage("size takes no arguments.")


def _run_size(request: Payload, party: LocalParty, source: RandomSource) -> Payload:  # noqa: ARG001
    return Payload(arrays={"size": np.int64(party.facts.n_samples)})


def _run_sizes(request: Payload, group: PartyGroup, source: RandomSource) -> Payload:  # noqa: ARG001
    return Payload(arrays={"size": group.sizes})


def _count(request: Payload) -> PrivateCounts:
    if request.values.keys() != {"epsilon"} or request.arrays:
        raise InvalidMessage("a count takes an epsilon and nothing else.")
    # A record that comes or goes moves the count by one, as a replaced one moves other counts.
    return PrivateCounts(
        epsilon=check_price(request.values["epsilon"]),
        sensitivity=1,
        neighbours=Neighbours.ADD_REMOVE,
        public=("number of features", "every parameter"),
    )


def _price_count(request: Payload, facts: Facts) -> Guarantee:  # noqa: ARG001
    return replace(_count(request).guarantee(), theorem=THEOREM)


def _run_count(request: Payload, party: LocalParty, source: RandomSource) -> Payload:
    size = np.array(party.facts.n_samples)
    return Payload(arrays={"size": _count(request).run(size, source=source)})


def _errors(request: Payload, facts: Facts) -> PrivateCounts:
    values = request.values
    if values.keys() != {"epsilon", "intercept"} or request.arrays.keys() != {"coef"}:
        raise InvalidMessage("errors takes an epsilon, an intercept and coef.")
    if type(values["intercept"]) is not float or not math.isfinite(values["intercept"]):
        raise InvalidMessage("intercept must be a finite float.")
    coef = request.arrays["coef"]
    if coef.dtype != np.float64 or coef.shape != (facts.n_features,):
        raise InvalidMessage("coef must be one float64 per column.")
    if not np.isfinite(coef).all():
        raise InvalidMessage("coef must be finite.")
    return PrivateCounts(epsilon=check_price(values["epsilon"]), sensitivity=1)


def _price_errors(request: Payload, facts: Facts) -> Guarantee:
    return _errors(request, facts).guarantee()


def _run_errors(request: Payload, party: LocalParty, source: RandomSource) -> Payload:
    mechanism = _errors(request, party.facts)
    rows = readable_rows(party.X, party.n_features)
    intercept = np.array([request.values["intercept"]])
    score = scores(rows, request.arrays["coef"][None], intercept)[:, 0]
    wrong = np.array(np.count_nonzero((score > 0) != (party.y > 0)))
    return Payload(arrays={"errors": mechanism.run(wrong, source=source)})


def expected_count(operation: Operation, request: Payload, n_samples: int) -> Expected:
    """Return what a noised count of at most so many records must be.

    Parameters
    ----------
    operation : Operation
        ``count`` or ``errors``.
    request : Payload
        What was asked.
    n_samples : int
        The party's public number of records, or a bound on it.
    """
    columns = request.arrays["coef"].shape[0] if "coef" in request.arrays else 1
    price = operation.priced(request, Facts(n_samples, columns))
    # The tail of discrete Laplace noise of scale 1/epsilon, and one for the rounding.
    reach = 1 + math.ceil(-math.log(FARTHEST) / request.values["epsilon"])
    name = "errors" if operation.name == "errors" else "size"
    numbers = Numbers((), "<i8", lowest=-reach, highest=n_samples + reach)
    return Expected({name: numbers}, price)


SIZE = install(Operation("size", _price_size, _run_size, _run_sizes))
COUNT = install(Operation("count", _price_count, _run_count))
ERRORS = install(Operation("errors", _price_errors, _run_errors))
