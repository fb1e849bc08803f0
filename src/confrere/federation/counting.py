"""Counting: how many records a party has, and how many a public model gets wrong.

Sizes are declared, or counted with noise where they are not public; errors are always counted with
noise. Proofs: docs/proofs/counting.md, docs/proofs/private_evaluation.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from confrere.errors import InvalidMessage
from confrere.federation.expected import FARTHEST, MOST_RECORDS, Expected, Numbers
from confrere.federation.federation import Federation, stacked
from confrere.federation.operation import Operation, PartyFacts, check_price, install
from confrere.federation.outcome import guarantee_of, receipts_in
from confrere.federation.party import LocalParty, PartyGroup
from confrere.federation.payload import Payload
from confrere.guarantee import Guarantee, Neighbours
from confrere.ledger import Receipt
from confrere.mechanisms.counts import PrivateCounts
from confrere.model.models import readable_rows, scores
from confrere.noise.sources import RandomSource
from confrere.plans.party_rows import Sizes

THEOREM = "docs/proofs/counting.md"


def _price_size(request: Payload, facts: PartyFacts) -> None:  # noqa: ARG001
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


def _price_count(request: Payload, facts: PartyFacts) -> Guarantee:  # noqa: ARG001
    return replace(_count(request).guarantee(), theorem=THEOREM)


def _run_count(request: Payload, party: LocalParty, source: RandomSource) -> Payload:
    size = np.array(party.facts.n_samples)
    return Payload(arrays={"size": _count(request).run(size, source=source)})


def _errors(request: Payload, facts: PartyFacts) -> PrivateCounts:
    if request.values.keys() != {"epsilon", "intercept"}:
        raise InvalidMessage("errors takes an epsilon, an intercept and coef.")
    check_model(request, facts)
    return PrivateCounts(epsilon=check_price(request.values["epsilon"]), sensitivity=1)


def check_model(request: Payload, facts: PartyFacts) -> None:
    """Refuse a request whose model is none for a party's rows."""
    values = request.values
    if request.arrays.keys() != {"coef"}:
        raise InvalidMessage("errors are counted of a model: coef.")
    if type(values["intercept"]) is not float or not math.isfinite(values["intercept"]):
        raise InvalidMessage("intercept must be a finite float.")
    coef = request.arrays["coef"]
    if coef.dtype != np.float64 or coef.shape != (facts.n_features,):
        raise InvalidMessage("coef must be one float64 per column.")
    if not np.isfinite(coef).all():
        raise InvalidMessage("coef must be finite.")


def _price_errors(request: Payload, facts: PartyFacts) -> Guarantee:
    return _errors(request, facts).guarantee()


def count_errors(request: Payload, party: LocalParty) -> int:
    """Return how many records of a party the model of a request gets wrong, without noise."""
    rows = readable_rows(party.X, party.n_features)
    intercept = np.array([request.values["intercept"]])
    score = scores(rows, request.arrays["coef"][None], intercept)[:, 0]
    return int(np.count_nonzero((score > 0) != (party.y > 0)))


def _run_errors(request: Payload, party: LocalParty, source: RandomSource) -> Payload:
    wrong = np.array(count_errors(request, party))
    return Payload(arrays={"errors": _errors(request, party.facts).run(wrong, source=source)})


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
    price = operation.priced(request, PartyFacts(n_samples, columns))
    # The tail of discrete Laplace noise of scale 1/epsilon, and one for the rounding.
    reach = 1 + math.ceil(-math.log(FARTHEST) / request.values["epsilon"])
    name = "errors" if operation.name == "errors" else "size"
    numbers = Numbers((), "<i8", lowest=-reach, highest=n_samples + reach)
    return Expected({name: numbers}, price)


SIZE = install(Operation("size", _price_size, _run_size, _run_sizes, many_classes=True))
COUNT = install(Operation("count", _price_count, _run_count, many_classes=True))
ERRORS = install(Operation("errors", _price_errors, _run_errors))


def ask_sizes(
    federation: Federation,
    *,
    count_epsilon: float | None = None,
    step: int = 0,
    to: Sequence[str] | None = None,
    quorum: float = 1.0,
    timeout: float | None = None,
) -> Sizes:
    """Ask everyone for its number of records.

    Parameters
    ----------
    federation : Federation
    count_epsilon : float, optional
        Have every party count with noise at this price, under add-remove neighbours. By default
        sizes are public facts, as replace-one neighbours take them to be.
    step, to, quorum, timeout
        As for :meth:`~confrere.federation.Federation.gather`.
    """
    told_by: dict[str, Any] = {"to": to, "step": step, "quorum": quorum, "timeout": timeout}
    if count_epsilon is None:
        declared = Expected({"size": Numbers((), "<i8", lowest=1, highest=MOST_RECORDS)})
        answers = federation.gather(SIZE.name, Payload(), expect=lambda _: declared, **told_by)
        neighbours = Neighbours.REPLACE_ONE
    else:
        request = Payload({"epsilon": float(count_epsilon)})
        counted = expected_count(COUNT, request, MOST_RECORDS)
        answers = federation.gather(COUNT.name, request, expect=lambda _: counted, **told_by)
        neighbours = Neighbours.ADD_REMOVE
    told: list[int] = np.maximum(1, stacked(answers, "size", (), "<i8")).tolist()
    counts = dict(zip(answers, told, strict=True))
    return Sizes(counts, neighbours, receipts_in(answers) if count_epsilon is not None else {})


@dataclass(frozen=True)
class FederatedEvaluation:
    """Noised counts of errors.

    Parameters
    ----------
    errors : mapping of str to float
        Per party, or of all together under one name; noise may take it below 0 or above the size.
    sizes : mapping of str to int
        Records per party.
    receipts : mapping of str to tuple of Receipt
        What each party paid.
    """

    errors: Mapping[str, float]
    sizes: Mapping[str, int]
    receipts: Mapping[str, tuple[Receipt, ...]]

    @property
    def error_rate(self) -> float:
        """Share of all records that the model gets wrong, clipped to [0, 1]."""
        rate = sum(self.errors.values()) / sum(self.sizes.values())
        return min(1.0, max(0.0, rate))

    @property
    def guarantee(self) -> Guarantee:
        """What a person in one party's data is promised."""
        return guarantee_of(self.receipts)


def scored_by(coef: ArrayLike, intercept: float, values: Mapping[str, Any]) -> Payload:
    """Return a request about the errors of a public model."""
    return Payload(
        {**values, "intercept": float(intercept)},
        {"coef": np.asarray(coef, dtype=np.float64).ravel()},
    )


def evaluate(
    federation: Federation,
    coef: ArrayLike,
    intercept: float = 0.0,
    *,
    epsilon: float,
    step: int = 0,
    sizes: Mapping[str, int] | None = None,
    quorum: float = 1.0,
    timeout: float | None = None,
) -> FederatedEvaluation:
    """Have every party count the errors of a public model.

    Parameters
    ----------
    federation : Federation
        Whom to ask, and under which run.
    coef : array of shape (n_features,)
        Public coefficients for rows as encoded.
    intercept : float, default=0.0
    epsilon : float
        What each party spends.
    step : int, default=0
        Which evaluation of the run this is.
    sizes : mapping of str to int, optional
        Records of the parties to ask, where they are known; by default everyone is asked.
    quorum, timeout
        As for :meth:`~confrere.federation.Federation.gather`.
    """
    known = sizes
    if known is None:
        known = ask_sizes(federation, quorum=quorum, timeout=timeout).counts
    request = scored_by(coef, intercept, {"epsilon": float(epsilon)})
    answers = federation.gather(
        ERRORS.name,
        request,
        to=list(known),
        step=step,
        quorum=quorum,
        timeout=timeout,
        expect=lambda name: expected_count(ERRORS, request, known[name]),
    )
    counts = {name: int(answer.arrays["errors"]) for name, answer in answers.items()}
    return FederatedEvaluation(counts, {n: known[n] for n in answers}, receipts_in(answers))


def few_enough(sizes: Sizes, delta: float) -> Sizes:
    """Return parties so small that ``delta`` promises something to all of them together."""
    most = max(1, int(0.5 / (delta * len(sizes.counts))))
    return replace(sizes, counts={name: min(n, most) for name, n in sizes.counts.items()})
