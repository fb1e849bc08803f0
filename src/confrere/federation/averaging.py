"""Every party releases weights, the coordinator averages them: once, or in rounds.

A party's operations, by objective and by output perturbation, and the protocol over them. Proofs:
docs/proofs/averaging.md, docs/proofs/objective_perturbation.md, docs/proofs/output_perturbation.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, Literal

import numpy as np

from confrere.arrays import Floats
from confrere.errors import InvalidMessage
from confrere.federation.checking import check_prior
from confrere.federation.counting import ask_sizes, few_enough
from confrere.federation.expected import Expected, Numbers
from confrere.federation.federation import Federation, stacked
from confrere.federation.operation import (
    Operation,
    PartyFacts,
    check_prices,
    coordinates_of,
    framed,
    install,
)
from confrere.federation.outcome import Outcome, joined, receipts_in
from confrere.federation.party import LocalParty, PartyGroup
from confrere.federation.payload import Payload
from confrere.guarantee import Guarantee, Neighbours
from confrere.mechanisms.hidden_size import largest_count
from confrere.mechanisms.objective_perturbation import PerturbedObjective
from confrere.mechanisms.output_perturbation import OutputPerturbation
from confrere.noise.sources import RandomSource
from confrere.plans.checked_average import CheckedAveraging
from confrere.plans.collaborative_plan import Averaging, WeightRequest
from confrere.plans.party_rows import Combine, combine_weights, run_parties
from confrere.plans.shaped_average import ShapedAveraging
from confrere.rows.engines import opened_engine
from confrere.rows.frame import LARGEST

#: A prior with a coordinate further out than this is a mistake or an attack.
FARTHEST_PRIOR = 1e6

#: More records than this are no party's.
LARGEST_DECLARED = 10**9

_VALUES = frozenset(
    {"frame", "epsilon", "ridge", "alpha", "cap", "calibration", "neighbours", "declared"}
)

#: What only some requests have: pure ones have no delta.
_MORE = frozenset({"delta"})


class ReleaseRequest(WeightRequest):
    """What a coordinator asks for when it asks for weights, as a message."""

    @classmethod
    def of(cls, request: WeightRequest) -> ReleaseRequest:
        """Return what a plan asks."""
        return cls(**{each.name: getattr(request, each.name) for each in fields(request)})

    def to_payload(self) -> Payload:
        """Return the message."""
        values = {name: getattr(self, name) for name in _VALUES - {"frame"}}
        for name in _MORE:
            if getattr(self, name):
                values[name] = float(getattr(self, name))
        floats = {name: float(values[name]) for name in ("epsilon", "ridge", "alpha", "cap")}
        return framed(self.frame, values | floats, centre=self.centre)

    @classmethod
    def from_payload(cls, request: Payload) -> ReleaseRequest:
        """Read a message; what does not fit is refused."""
        values = request.values
        if values.keys() - _MORE != _VALUES or not request.arrays.keys() <= {
            "centre",
            "feature_scale",
            "roots",
        }:
            raise InvalidMessage("the request has missing or unknown fields.")
        check_prices(values)
        for name in ("ridge", "alpha", "cap"):
            if type(values[name]) is not float or not 0 <= values[name] <= LARGEST:
                raise InvalidMessage(f"{name} must be a float from 0 to {LARGEST:g}.")
        if values["calibration"] not in ("tight", "printed"):
            raise InvalidMessage("calibration must be 'tight' or 'printed'.")
        if values["neighbours"] not in tuple(Neighbours):
            raise InvalidMessage("neighbours must be a known relation.")
        hidden = values["neighbours"] == Neighbours.ADD_REMOVE
        if (
            type(values["declared"]) is not int
            or not 0 <= values["declared"] <= LARGEST_DECLARED
            or (values["declared"] > 0) != hidden
        ):
            raise InvalidMessage(
                f"declared must be a number of records up to {LARGEST_DECLARED:g} under "
                "add-remove neighbours, and 0 under others."
            )
        frame = coordinates_of(request)
        centre = request.arrays.get("centre")
        if centre is not None and (
            centre.dtype != np.float64
            or centre.ndim not in (1, 2)
            or centre.shape[-1] != frame.size
            or float(np.abs(centre).max()) > FARTHEST_PRIOR
        ):
            raise InvalidMessage("centre must be one number per weight, of reasonable length.")
        known = {name: value for name, value in values.items() if name != "frame"}
        return cls(frame=frame, centre=centre, **known)

    def checked(self, facts: PartyFacts) -> ReleaseRequest:
        """Return the request for a party's own number of classes; refuse one for other rows."""
        if facts.n_features != self.frame.n_features:
            raise InvalidMessage("the request is for rows of another number of columns.")
        shape: tuple[int, ...] = (self.frame.size,)
        if facts.n_classes > 2:
            shape = (facts.n_classes, *shape)
        if self.centre is not None and self.centre.shape != shape:
            raise InvalidMessage("centre must be one number per weight of every class.")
        return replace(self, n_classes=facts.n_classes)


def longest_weights(mechanism: PerturbedObjective | OutputPerturbation) -> float:
    """Return a bound on the released weights' norm from public facts alone.

    Noise on the output comes on top of what the gradients allow, undivided by the ridge.
    """
    if not isinstance(mechanism, OutputPerturbation):
        return mechanism.minimiser.longest
    slope = mechanism.cap if mechanism.n_classes == 2 else math.sqrt(2)
    slopes = largest_count(mechanism.n_samples) * slope / mechanism.ridge
    noise = mechanism.noise
    return 1.01 * (slopes + noise.law.longest(noise.size)) + 1.0


def _releasing(name: Literal["objective", "output"]) -> Operation:
    """Install what parties release weights by: the mechanism of that name of a request."""

    def read(request: Payload, facts: PartyFacts) -> tuple[ReleaseRequest, Callable[[int], Any]]:
        asked = ReleaseRequest.from_payload(request).checked(facts)
        return asked, getattr(asked, name)

    def price(request: Payload, facts: PartyFacts) -> Guarantee:
        guarantee: Guarantee = read(request, facts)[1](facts.n_samples).guarantee()
        return guarantee

    def run(request: Payload, party: LocalParty, source: RandomSource) -> Payload:
        asked, mechanism = read(request, party.facts)
        made = mechanism(party.facts.n_samples)
        near = {} if asked.centre is None else {"centre": asked.centre}
        with opened_engine(party.engine) as engine:
            rows = asked.frame.lazy(party.X, engine)
            weights = made.run(rows, party.y, source=source, **near)
        return Payload(arrays={"weights": weights})

    def run_group(request: Payload, group: PartyGroup, source: RandomSource) -> Payload:
        asked, mechanism = read(request, next(iter(group.distinct_facts().values())))
        made = {size: mechanism(size) for size in group.rows.distinct_sizes}
        weights = run_parties(made, group.rows, asked.frame, source=source, centre=asked.centre)
        return Payload(arrays={"weights": weights})

    return install(Operation(name, price, run, run_group, many_classes=True))


OBJECTIVE, OUTPUT = _releasing("objective"), _releasing("output")


def average(
    federation: Federation,
    plan: Averaging | CheckedAveraging | ShapedAveraging,
    *,
    quorum: float = 1.0,
    timeout: float | None = None,
) -> Outcome:
    """Run the protocol.

    Parameters
    ----------
    federation : Federation
        Whom to ask, and under which run.
    plan : Averaging, CheckedAveraging or ShapedAveraging
        What to ask.
    quorum : float, default=1.0
        Share of the parties that must answer in every round.
    timeout : float, optional
        Seconds to wait for a round.

    Returns
    -------
    Outcome
        The average of the last round, weighted by records.
    """
    sizes = ask_sizes(federation, count_epsilon=plan.count_epsilon, quorum=quorum, timeout=timeout)
    if federation.rehearses and plan.delta:
        sizes = few_enough(sizes, plan.delta)  # what is made up must be enough for a plan
    names: Sequence[str] = list(sizes.counts)
    receipts = dict(sizes.receipts)
    known = None
    if isinstance(plan, ShapedAveraging):
        plan = plan.at(sizes)
    if isinstance(plan, CheckedAveraging):
        plan, known, paid = check_prior(federation, plan, sizes, quorum=quorum, timeout=timeout)
        receipts = joined(receipts, paid)
        names = [name for name in names if name in paid]
    operation = OBJECTIVE if plan.perturb == "objective" else OUTPUT
    centre = plan.prior
    for step, epsilon in enumerate(plan.round_epsilons):
        asked = ReleaseRequest.of(plan.request(epsilon, sizes, centre))
        bounds = {n: expected_weights(plan, asked, n) for n in set(sizes.counts.values())}
        answers = federation.gather(
            operation.name,
            asked.to_payload(),
            to=names,
            step=step,
            quorum=quorum,
            timeout=timeout,
            expect=lambda name, bounds=bounds: bounds[sizes.counts[name]],  # type: ignore[misc]
        )
        receipts = joined(receipts, receipts_in(answers))
        before, centre = centre, combined(answers, sizes.counts, plan.shape, plan.combine)
        if plan.settled(step, before, centre) and not federation.rehearses:
            break
    assert centre is not None
    return Outcome(plan.frame, centre, {n: sizes.counts[n] for n in answers}, receipts, known)


def expected_weights(plan: Averaging, request: ReleaseRequest, n_samples: int) -> Expected:
    """Return what a party of that size may answer."""
    mechanism = plan.mechanism(request, n_samples)
    bound = {"weights": Numbers(plan.shape, longest=longest_weights(mechanism))}
    return Expected(bound, mechanism.guarantee())


def combined(
    answers: Mapping[str, Payload],
    counts: Mapping[str, int],
    shape: tuple[int, ...],
    how: Combine,
) -> Floats:
    """Return the parties' weights as one vector, or one matrix of several classes."""
    released = stacked(answers, "weights", shape)
    return combine_weights(released, [counts[name] for name in answers], how)
