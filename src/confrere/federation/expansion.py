"""Every party releases coefficients of its expanded loss (OFAA); the coordinator adds them up.

Proof: docs/proofs/functional_mechanism.md.
"""

from __future__ import annotations

from dataclasses import dataclass

from confrere.errors import InvalidMessage
from confrere.federation.counting import ask_sizes
from confrere.federation.expected import Expected, Numbers, longest_noise
from confrere.federation.federation import Federation, stacked
from confrere.federation.operation import (
    Operation,
    PartyFacts,
    check_price,
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
    """

    frame: Frame
    epsilon: float
    linear_share: float = LINEAR_SHARE

    @classmethod
    def of(cls, plan: Expansion) -> CoefficientRequest:
        """Return what a plan asks."""
        return cls(
            frame=plan.frame, epsilon=float(plan.epsilon), linear_share=float(plan.linear_share)
        )

    def to_payload(self) -> Payload:
        """Return the message."""
        return framed(
            self.frame, {"epsilon": float(self.epsilon), "linear_share": float(self.linear_share)}
        )

    @classmethod
    def from_payload(cls, request: Payload) -> CoefficientRequest:
        """Read a message; what does not fit is refused."""
        values = request.values
        if values.keys() != _VALUES or not request.arrays.keys() <= {"feature_scale"}:
            raise InvalidMessage("the request has missing or unknown fields.")
        check_price(values["epsilon"])
        if type(values["linear_share"]) is not float:
            raise InvalidMessage("linear_share must be a float.")
        frame = frame_of(request)
        if frame.norm != "l2":
            raise InvalidMessage("the functional mechanism bounds rows in L2.")
        return cls(frame=frame, epsilon=values["epsilon"], linear_share=values["linear_share"])

    def mechanism(self, facts: PartyFacts) -> FunctionalMechanism:
        """Return the mechanism of a party of these sizes."""
        if facts.n_features != self.frame.n_features:
            raise InvalidMessage("the request is for rows of another number of columns.")
        plan = Expansion(frame=self.frame, epsilon=self.epsilon, linear_share=self.linear_share)
        return plan.mechanism(facts.n_samples)

    def expected(self, n_samples: int) -> Expected:
        """Return what a party of that size may answer.

        ``v`` is half a sum of n rows, ``M`` an eighth of one of their squares, and noise.
        """
        facts = PartyFacts(n_samples, self.frame.n_features)
        mechanism = self.mechanism(facts)
        size = self.frame.size
        packed = size * (size + 1) // 2
        on_v, on_m = mechanism.noises
        linear = n_samples / 2 + longest_noise(on_v.rho, size)
        quadratic = n_samples / 8 + longest_noise(on_m.rho, packed)
        bounds = {
            "linear": Numbers((size,), longest=1.01 * linear + 1),
            "quadratic": Numbers((packed,), longest=1.01 * quadratic + 1),
        }
        return Expected(bounds, mechanism.guarantee())


def _price(request: Payload, facts: PartyFacts) -> Guarantee:
    return CoefficientRequest.from_payload(request).mechanism(facts).guarantee()


def _run(request: Payload, party: LocalParty, source: RandomSource) -> Payload:
    asked = CoefficientRequest.from_payload(request)
    rows = asked.frame.rows(party.X)
    linear, quadratic = asked.mechanism(party.facts).run(rows, party.y, source=source)
    return Payload(arrays={"linear": linear, "quadratic": quadratic})


COEFFICIENTS = install(Operation("coefficients", _price, _run))


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
    asked = CoefficientRequest.of(plan)
    answers = federation.gather(
        COEFFICIENTS.name,
        asked.to_payload(),
        to=list(sizes.counts),
        quorum=quorum,
        timeout=timeout,
        expect=lambda name: asked.expected(sizes.counts[name]),
    )
    size = plan.frame.size
    linear = stacked(answers, "linear", (size,))
    packed = stacked(answers, "quadratic", (size * (size + 1) // 2,))
    weights = plan.combine(linear, packed, sizes)
    counts = {name: sizes.counts[name] for name in answers}
    return Outcome(plan.frame, weights, counts, receipts_in(answers))
