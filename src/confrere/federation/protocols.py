"""Protocols in which every party releases numbers, and the coordinator combines them.

What parties are asked, by operation, and what is made of their answers: how many records a party
has, and how many a public model gets wrong (sizes are declared, or counted with noise where they
are not public; errors are always counted with noise); whether a prior fits; weights, by objective
and by output perturbation, which are averaged once or in rounds; and coefficients of an expanded
loss (OFAA), which are added up.

Proofs: docs/proofs/counting.md, private_evaluation.md, prior_check.md, averaging.md,
objective_perturbation.md, output_perturbation.md, functional_mechanism.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from confrere.arrays import Floats
from confrere.errors import InvalidMessage, InvalidParameter
from confrere.federation.federation import Federation, StackedAnswers, stacked
from confrere.federation.messages import (
    FARTHEST,
    MOST_RECORDS,
    Expected,
    Numbers,
    Payload,
    receipt_of,
)
from confrere.federation.operation import (
    Operation,
    PartyFacts,
    check_price,
    check_prices,
    coordinates_of,
    framed,
    install,
)
from confrere.federation.party import LocalParty, PartyGroup
from confrere.kernel.guarantee import RELATIONS, Guarantee, Neighbours, in_sequence
from confrere.kernel.streams import RandomSource
from confrere.ledger import Receipt
from confrere.mechanisms.counts import PrivateCounts
from confrere.mechanisms.functional import LINEAR_SHARE, FunctionalMechanism
from confrere.mechanisms.hidden_size import HiddenSize, RowCount, largest_count
from confrere.mechanisms.objective import Objective
from confrere.mechanisms.output_perturbation import OutputPerturbation
from confrere.mechanisms.prior_check import Belief, PriorCheck
from confrere.model import PriorFacts
from confrere.model.models import readable_rows, scores
from confrere.plans.checked_plan import prior_facts
from confrere.plans.collaborative_plan import Averaging, WeightRequest
from confrere.plans.declared_priors import Prior
from confrere.plans.expansion_plan import Expansion
from confrere.plans.linear_plan import Coordinates
from confrere.plans.party_rows import Combine, Sizes, combine_weights, over_parties, run_parties
from confrere.rows.engines import opened_engine
from confrere.rows.frame import LARGEST


@dataclass(frozen=True, eq=False)
class Outcome:
    """A model of several parties: post-processing of what each of them released.

    Parameters
    ----------
    frame : Frame or BodyFrame
        The coordinates that ``weights`` are in.
    weights : (d,) or (K, d) array
        The released model; one row per class of more than two.
    sizes : mapping of str to int
        The parties in it and their number of records, declared or privately counted.
    receipts : mapping of str to tuple of Receipt
        What each party paid, in order.
    prior : PriorFacts, optional
        What a check of a prior has shown.
    """

    frame: Coordinates
    weights: Floats
    sizes: Mapping[str, int]
    receipts: Mapping[str, tuple[Receipt, ...]]
    prior: PriorFacts | None = None

    @property
    def coef(self) -> Floats:
        """Coefficients of two classes, for rows as encoded."""
        return self.frame.coefficients(self.weights)[0]

    @property
    def intercept(self) -> float:
        """Intercept of two classes, for rows as encoded."""
        return self.frame.coefficients(self.weights)[1]

    @property
    def guarantee(self) -> Guarantee:
        """In sequence within a party, in parallel over parties: they hold disjoint records."""
        return guarantee_of(self.receipts)

    @property
    def simulated(self) -> bool:
        """Whether any party's noise was seeded."""
        return any(receipt.simulated for paid in self.receipts.values() for receipt in paid)

    def to_payload(self) -> Payload:
        """Return everything as one payload, to be kept or sent."""
        paid = {name: [r.to_dict() for r in receipts] for name, receipts in self.receipts.items()}
        values: dict[str, Any] = {"sizes": dict(self.sizes), "receipts": paid}
        if self.prior is not None:
            values["prior"] = asdict(self.prior)
        return framed(self.frame, values, weights=self.weights)

    @classmethod
    def from_payload(cls, payload: Payload) -> Outcome:
        """Read what :meth:`to_payload` wrote."""
        try:
            receipts = {
                name: tuple(Receipt.from_dict(r) for r in paid)
                for name, paid in payload.values["receipts"].items()
            }
            frame = coordinates_of(payload)
            known = payload.values.get("prior")
            prior = None if known is None else PriorFacts(**known)
            return cls(frame, payload.arrays["weights"], payload.values["sizes"], receipts, prior)
        except (KeyError, AttributeError, TypeError) as error:
            raise InvalidMessage("this payload is not an outcome.") from error


def guarantee_of(receipts: Mapping[str, tuple[Receipt, ...]]) -> Guarantee:
    """Return what a person in one party's data is promised about everything released."""
    distinct = {tuple((r.ledger_id, r.row) for r in paid): paid for paid in receipts.values()}
    totals = [
        paid[0].guarantee if len(paid) == 1 else in_sequence(r.guarantee for r in paid)
        for paid in distinct.values()
    ]
    return totals[0] if len(totals) == 1 else over_parties(totals, len(receipts))


def receipts_in(answers: Mapping[str, Payload]) -> dict[str, tuple[Receipt, ...]]:
    """Return the receipt that came with every answer; members of a group share one."""
    if isinstance(answers, StackedAnswers):
        return dict.fromkeys(answers, _receipts(answers.whole))
    return {name: _receipts(answer) for name, answer in answers.items()}


def _receipts(answer: Payload) -> tuple[Receipt, ...]:
    receipt = receipt_of(answer)
    return () if receipt is None else (receipt,)


def joined(
    earlier: Mapping[str, tuple[Receipt, ...]], later: Mapping[str, tuple[Receipt, ...]]
) -> dict[str, tuple[Receipt, ...]]:
    """Append receipts, party by party; one that several answers share counts once."""
    return {
        name: tuple(dict.fromkeys(earlier.get(name, ()) + later.get(name, ())))
        for name in {**earlier, **later}
    }


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


#: Rehearsals have parties with one record, and with far more than this.
_REHEARSED = 1000

_CHECK_VALUES = frozenset(
    {"epsilon", "base_rate", "deviation", "data_norm", "neighbours", "declared"}
)


@dataclass(frozen=True, eq=False)
class CheckRequest:
    """What a coordinator asks about a prior.

    Parameters
    ----------
    coef : array
        The prior's log odds per unit of each column.
    epsilon, base_rate, deviation : float
        As in :class:`PriorCheck`.
    data_norm : float
        Declared bound on the rows' norm.
    neighbours : str
        The relation that the answer's guarantee speaks of.
    declared : int, default=0
        Under add-remove neighbours: what stands for a party's number of records.
    feature_scale : array, optional
        Public factors of the columns.
    """

    coef: NDArray[np.float64]
    epsilon: float
    base_rate: float
    deviation: float
    data_norm: float
    neighbours: str
    declared: int = 0
    feature_scale: NDArray[np.float64] | None = None

    def mechanism(self, n_samples: int) -> PriorCheck:
        """Return what a party of that size runs."""
        hidden = self.neighbours == Neighbours.ADD_REMOVE
        count: RowCount = HiddenSize(self.declared) if hidden else n_samples
        return PriorCheck(
            epsilon=self.epsilon,
            n_samples=count,
            base_rate=self.base_rate,
            deviation=self.deviation,
            neighbours=Neighbours(self.neighbours),
        )

    @property
    def prior(self) -> Prior:
        """What is checked."""
        return Prior(self.coef, data_norm=self.data_norm, feature_scale=self.feature_scale)

    def to_payload(self) -> Payload:
        """Return the message."""
        arrays = {"coef": self.coef}
        if self.feature_scale is not None:
            arrays["feature_scale"] = self.feature_scale
        return Payload({name: getattr(self, name) for name in _CHECK_VALUES}, arrays)

    @classmethod
    def from_payload(cls, request: Payload, facts: PartyFacts) -> CheckRequest:
        """Read a message; what does not fit is refused."""
        values, coef = request.values, request.arrays.get("coef")
        scale = request.arrays.get("feature_scale")
        known = {"coef", "feature_scale"}
        if values.keys() != _CHECK_VALUES or coef is None or not request.arrays.keys() <= known:
            raise InvalidMessage("the request has missing or unknown fields.")
        check_price(values["epsilon"])
        for name in ("base_rate", "deviation", "data_norm"):
            if type(values[name]) is not float or not 0 < values[name] <= LARGEST:
                raise InvalidMessage(f"{name} must be a float above 0, to {LARGEST:g}.")
        if values["neighbours"] not in RELATIONS or type(values["declared"]) is not int:
            raise InvalidMessage("neighbours must be a known relation, declared a whole number.")
        if coef.dtype != np.float64 or coef.shape != (facts.n_features,):
            raise InvalidMessage("coef must be one number per column.")
        if not float(np.abs(coef).max()) <= LARGEST:
            raise InvalidMessage("coef must be of reasonable length.")
        found = cls(coef, feature_scale=scale, **{name: values[name] for name in _CHECK_VALUES})
        try:
            _ = found.prior.frame
        except InvalidParameter as error:
            raise InvalidMessage(str(error)) from error
        return found


def _price_check(request: Payload, facts: PartyFacts) -> Guarantee:
    return CheckRequest.from_payload(request, facts).mechanism(facts.n_samples).guarantee()


def _run_check(request: Payload, party: LocalParty, source: RandomSource) -> Payload:
    asked = CheckRequest.from_payload(request, party.facts)
    scores = asked.prior.scores(party.X)
    seen = asked.mechanism(party.facts.n_samples).run(scores, party.y, source=source)
    return Payload(arrays={"prior": np.array([float(seen)])})


CHECK = install(Operation("check", _price_check, _run_check))


def check_prior(
    federation: Federation,
    plan: Averaging,
    sizes: Sizes,
    *,
    quorum: float = 1.0,
    timeout: float | None = None,
) -> tuple[Averaging, PriorFacts, dict[str, tuple[Receipt, ...]]]:
    """Ask every party, and return the average that follows, what was seen and what it cost."""
    check, prior = plan.check(sizes), plan.prior
    assert isinstance(prior, Prior)
    hidden = sizes.neighbours is Neighbours.ADD_REMOVE
    declared = math.ceil(sizes.total / len(sizes.counts)) if hidden else 0
    asked = CheckRequest(
        prior.coef[0],
        epsilon=float(check.epsilon),
        base_rate=float(check.base_rate),
        deviation=float(check.deviation),
        data_norm=float(prior.data_norm),
        neighbours=str(sizes.neighbours),
        declared=declared,
        feature_scale=prior.feature_scale,
    )

    def expected(name: str) -> Expected:
        one = asked.mechanism(sizes.counts[name])
        return Expected({"prior": Numbers((1,), longest=one.longest)}, one.guarantee())

    answers = federation.gather(
        CHECK.name,
        asked.to_payload(),
        to=list(sizes.counts),
        quorum=quorum,
        timeout=timeout,
        expect=expected,
    )
    seen = float(stacked(answers, "prior", (1,)).sum())
    belief = check.belief(seen)
    if federation.rehearses:  # made-up sums may all lead to one belief, and must not
        beliefs = check.beliefs()
        small = sizes.total < _REHEARSED * len(sizes.counts)
        belief = beliefs[len(beliefs) // 2 if small else -1]
    return (
        plan.after(belief),
        prior_facts(Belief(belief.factor, check.sigma), check),
        receipts_in(answers),
    )


#: A prior with a coordinate further out than this is a mistake or an attack.
FARTHEST_PRIOR = 1e6

#: More records than this are no party's.
LARGEST_DECLARED = 10**9

_RELEASE_VALUES = frozenset({"frame", "epsilon", "ridge", "alpha", "cap", "neighbours", "declared"})

#: What only some requests have: pure ones have no delta.
_RELEASE_MORE = frozenset({"delta"})


class ReleaseRequest(WeightRequest):
    """What a coordinator asks for when it asks for weights, as a message."""

    @classmethod
    def of(cls, request: WeightRequest) -> ReleaseRequest:
        """Return what a plan asks."""
        return cls(**{each.name: getattr(request, each.name) for each in fields(request)})

    def to_payload(self) -> Payload:
        """Return the message."""
        values = {name: getattr(self, name) for name in _RELEASE_VALUES - {"frame"}}
        for name in _RELEASE_MORE:
            if getattr(self, name):
                values[name] = float(getattr(self, name))
        floats = {name: float(values[name]) for name in ("epsilon", "ridge", "alpha", "cap")}
        return framed(self.frame, values | floats, centre=self.centre)

    @classmethod
    def from_payload(cls, request: Payload) -> ReleaseRequest:
        """Read a message; what does not fit is refused."""
        values = request.values
        if values.keys() - _RELEASE_MORE != _RELEASE_VALUES or not request.arrays.keys() <= {
            "centre",
            "feature_scale",
            "roots",
        }:
            raise InvalidMessage("the request has missing or unknown fields.")
        check_prices(values)
        for name in ("ridge", "alpha", "cap"):
            if type(values[name]) is not float or not 0 <= values[name] <= LARGEST:
                raise InvalidMessage(f"{name} must be a float from 0 to {LARGEST:g}.")
        if values["neighbours"] not in RELATIONS:
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


def longest_weights(mechanism: Objective | OutputPerturbation) -> float:
    """Return a bound on the released weights' norm from public facts alone.

    Noise on the output comes on top of what the gradients allow, undivided by the ridge.
    """
    if not isinstance(mechanism, OutputPerturbation):
        return mechanism.act.longest
    slope = mechanism.cap if mechanism.n_classes == 2 else math.sqrt(2)
    slopes = largest_count(mechanism.n_samples) * slope / mechanism.ridge
    noise = mechanism.noise
    return 1.01 * (slopes + noise.law.longest) + 1.0


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
        with opened_engine(party.engine) as engine:
            rows = asked.frame.lazy(party.X, engine)
            if isinstance(made, OutputPerturbation):
                weights = made.run(rows, party.y, source=source, centre=asked.centre)
            else:
                (weights,) = made.run([rows], party.y, source=source, centres=[asked.centre])
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
    plan: Averaging,
    *,
    quorum: float = 1.0,
    timeout: float | None = None,
) -> Outcome:
    """Run the protocol.

    Parameters
    ----------
    federation : Federation
        Whom to ask, and under which run.
    plan : Averaging
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
    if plan.checked:
        plan, known, paid = check_prior(federation, plan, sizes, quorum=quorum, timeout=timeout)
        receipts = joined(receipts, paid)
        names = [name for name in names if name in paid]
    plan = plan.at(sizes)
    operation = OBJECTIVE if plan.perturb == "objective" else OUTPUT
    centre = plan.centre
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
    return Outcome(plan.space, centre, {n: sizes.counts[n] for n in answers}, receipts, known)


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


_COEFFICIENT_VALUES = frozenset({"frame", "epsilon", "linear_share"})

#: What only some requests have: pure ones have no delta.
_COEFFICIENT_MORE = frozenset({"delta"})


@dataclass(frozen=True, kw_only=True, eq=False)
class CoefficientRequest:
    """What a coordinator asks for when it asks for coefficients.

    Parameters
    ----------
    frame : Frame or BodyFrame
        The public coordinates.
    epsilon : float
        What the answer may spend.
    linear_share : float, default=0.7
        Share of it for the linear coefficients.
    delta : float, default=0.0
        What the answer may spend of it.
    """

    frame: Coordinates
    epsilon: float
    linear_share: float = LINEAR_SHARE
    delta: float = 0.0

    @classmethod
    def of(cls, plan: Expansion) -> CoefficientRequest:
        """Return what a plan asks."""
        return cls(
            frame=plan.space,
            epsilon=float(plan.epsilon),
            linear_share=float(plan.linear_share),
            delta=float(plan.delta),
        )

    def to_payload(self) -> Payload:
        """Return the message."""
        values = {"epsilon": float(self.epsilon), "linear_share": float(self.linear_share)}
        if self.delta:
            values["delta"] = float(self.delta)
        return framed(self.frame, values)

    @classmethod
    def from_payload(cls, request: Payload) -> CoefficientRequest:
        """Read a message; what does not fit is refused."""
        values = request.values
        if (
            values.keys() - _COEFFICIENT_MORE != _COEFFICIENT_VALUES
            or not request.arrays.keys() <= {"feature_scale", "roots"}
        ):
            raise InvalidMessage("the request has missing or unknown fields.")
        check_prices(values)
        if type(values["linear_share"]) is not float:
            raise InvalidMessage("linear_share must be a float.")
        frame = coordinates_of(request)
        known = {name: value for name, value in values.items() if name != "frame"}
        return cls(frame=frame, **known)

    def mechanism(self, facts: PartyFacts) -> FunctionalMechanism:
        """Return the mechanism of a party of these sizes."""
        if facts.n_features != self.frame.n_features:
            raise InvalidMessage("the request is for rows of another number of columns.")
        plan = Expansion(
            frame=self.frame,
            epsilon=self.epsilon,
            delta=self.delta,
            n_classes=facts.n_classes,
            linear_share=self.linear_share,
        )
        return plan.mechanism(facts.n_samples)

    def expected(self, n_samples: int, shape: tuple[int, ...]) -> Expected:
        """Return what a party of that size may answer; ``shape`` is that of the weights.

        ``v`` and ``M`` are sums of n records' parts, and noise.
        """
        n_classes = 2 if len(shape) == 1 else shape[0]
        mechanism = self.mechanism(PartyFacts(n_samples, self.frame.n_features, n_classes))
        linear, quadratic = (
            1.01 * (n_samples * length + noise.law.longest) + 1
            for length, noise in zip(mechanism.lengths, mechanism.noises, strict=True)
        )
        bounds = {
            "linear": Numbers(shape, longest=linear),
            "quadratic": Numbers((mechanism.noises[1].size,), longest=quadratic),
        }
        return Expected(bounds, mechanism.guarantee())


def _price_coefficients(request: Payload, facts: PartyFacts) -> Guarantee:
    return CoefficientRequest.from_payload(request).mechanism(facts).guarantee()


def _run_coefficients(request: Payload, party: LocalParty, source: RandomSource) -> Payload:
    asked = CoefficientRequest.from_payload(request)
    rows = asked.frame.rows(party.X)
    linear, quadratic = asked.mechanism(party.facts).run(rows, party.y, source=source)
    return Payload(arrays={"linear": linear, "quadratic": quadratic})


COEFFICIENTS = install(
    Operation("coefficients", _price_coefficients, _run_coefficients, many_classes=True)
)


def expand(
    federation: Federation,
    plan: Expansion,
    *,
    quorum: float = 1.0,
    timeout: float | None = None,
) -> Outcome:
    """Run the protocol; whatever follows the parties' one answer is post-processing.

    Parameters
    ----------
    federation : Federation
        Whom to ask, and under which run.
    plan : Expansion
        What to ask.
    quorum, timeout
        As for :meth:`~confrere.federation.Federation.gather`.
    """
    sizes = ask_sizes(federation, quorum=quorum, timeout=timeout)
    if federation.rehearses and plan.delta:
        sizes = few_enough(sizes, plan.delta)  # what is made up must be enough for a plan
    plan = plan.at(sizes)
    asked = CoefficientRequest.of(plan)
    answers = federation.gather(
        COEFFICIENTS.name,
        asked.to_payload(),
        to=list(sizes.counts),
        quorum=quorum,
        timeout=timeout,
        expect=lambda name: asked.expected(sizes.counts[name], plan.shape),
    )
    size = plan.space.size
    linear = stacked(answers, "linear", plan.shape)
    packed = stacked(answers, "quadratic", (size * (size + 1) // 2,))
    weights = plan.combine(linear, packed, sizes)
    counts = {name: sizes.counts[name] for name in answers}
    return Outcome(plan.space, weights, counts, receipts_in(answers))
