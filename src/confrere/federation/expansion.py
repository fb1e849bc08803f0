"""Every party releases coefficients of its expanded loss (OFAA); the coordinator adds them up.

Proof: docs/proofs/functional_mechanism.md.
"""

from __future__ import annotations

from dataclasses import dataclass

from confrere.errors import InvalidMessage
from confrere.federation.counting import ask_sizes, few_enough
from confrere.federation.expected import Expected, Numbers
from confrere.federation.federation import Federation, stacked
from confrere.federation.operation import (
    Operation,
    PartyFacts,
    check_prices,
    frame_of,
    framed,
    install,
)
from confrere.federation.outcome import Outcome, receipts_in
from confrere.federation.party import LocalParty
from confrere.federation.payload import Payload
from confrere.guarantee import Guarantee
from confrere.mechanisms.functional import LINEAR_SHARE, FunctionalMechanism
from confrere.noise.sources import RandomSource
from confrere.plans.expansion_plan import Expansion
from confrere.rows.frame import Frame

_VALUES = frozenset({"frame", "epsilon", "linear_share"})

#: What only some requests have: pure ones have no delta.
_MORE = frozenset({"delta"})


@dataclass(frozen=True, kw_only=True, eq=False)
class CoefficientRequest:
    """What a coordinator asks for when it asks for coefficients.

    Parameters
    ----------
    frame : Frame
        The public coordinates, in L2.
    epsilon : float
        What the answer may spend.
    linear_share : float, default=0.7
        Share of it for the linear coefficients.
    delta : float, default=0.0
        What the answer may spend of it.
    """

    frame: Frame
    epsilon: float
    linear_share: float = LINEAR_SHARE
    delta: float = 0.0

    @classmethod
    def of(cls, plan: Expansion) -> CoefficientRequest:
        """Return what a plan asks."""
        return cls(
            frame=plan.frame,
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
        if values.keys() - _MORE != _VALUES or not request.arrays.keys() <= {"feature_scale"}:
            raise InvalidMessage("the request has missing or unknown fields.")
        check_prices(values)
        if type(values["linear_share"]) is not float:
            raise InvalidMessage("linear_share must be a float.")
        frame = frame_of(request)
        if frame.norm != "l2":
            raise InvalidMessage("the functional mechanism bounds rows in L2.")
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
            1.01 * (n_samples * length + noise.law.longest(noise.size)) + 1
            for length, noise in zip(mechanism.lengths, mechanism.noises, strict=True)
        )
        bounds = {
            "linear": Numbers(shape, longest=linear),
            "quadratic": Numbers((mechanism.noises[1].size,), longest=quadratic),
        }
        return Expected(bounds, mechanism.guarantee())


def _price(request: Payload, facts: PartyFacts) -> Guarantee:
    return CoefficientRequest.from_payload(request).mechanism(facts).guarantee()


def _run(request: Payload, party: LocalParty, source: RandomSource) -> Payload:
    asked = CoefficientRequest.from_payload(request)
    rows = asked.frame.rows(party.X)
    linear, quadratic = asked.mechanism(party.facts).run(rows, party.y, source=source)
    return Payload(arrays={"linear": linear, "quadratic": quadratic})


COEFFICIENTS = install(Operation("coefficients", _price, _run, many_classes=True))


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
    asked = CoefficientRequest.of(plan)
    answers = federation.gather(
        COEFFICIENTS.name,
        asked.to_payload(),
        to=list(sizes.counts),
        quorum=quorum,
        timeout=timeout,
        expect=lambda name: asked.expected(sizes.counts[name], plan.shape),
    )
    size = plan.frame.size
    linear = stacked(answers, "linear", plan.shape)
    packed = stacked(answers, "quadratic", (size * (size + 1) // 2,))
    weights = plan.combine(linear, packed, sizes)
    counts = {name: sizes.counts[name] for name in answers}
    return Outcome(plan.frame, weights, counts, receipts_in(answers))
