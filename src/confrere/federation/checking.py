"""Every party answers how far a declared prior holds on its records; answers are added up.

Proof: docs/proofs/prior_check.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from confrere.errors import InvalidMessage, InvalidParameter
from confrere.federation.expected import Expected, Numbers
from confrere.federation.federation import Federation, stacked
from confrere.federation.operation import Operation, PartyFacts, check_price, install
from confrere.federation.outcome import receipts_in
from confrere.federation.party import LocalParty
from confrere.federation.payload import Payload
from confrere.guarantee import Guarantee, Neighbours
from confrere.ledger import Receipt
from confrere.mechanisms.hidden_size import HiddenSize, RowCount
from confrere.mechanisms.prior_check import Belief, PriorCheck
from confrere.model import PriorFacts
from confrere.noise.sources import RandomSource
from confrere.plans.checked_average import CheckedAveraging
from confrere.plans.checked_plan import prior_facts
from confrere.plans.collaborative_plan import Averaging
from confrere.plans.declared_priors import Prior
from confrere.plans.party_rows import Sizes
from confrere.rows.frame import LARGEST

#: Rehearsals have parties with one record, and with far more than this.
_REHEARSED = 1000

_VALUES = frozenset({"epsilon", "base_rate", "deviation", "data_norm", "neighbours", "declared"})


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
        return Payload({name: getattr(self, name) for name in _VALUES}, arrays)

    @classmethod
    def from_payload(cls, request: Payload, facts: PartyFacts) -> CheckRequest:
        """Read a message; what does not fit is refused."""
        values, coef = request.values, request.arrays.get("coef")
        scale = request.arrays.get("feature_scale")
        known = {"coef", "feature_scale"}
        if values.keys() != _VALUES or coef is None or not request.arrays.keys() <= known:
            raise InvalidMessage("the request has missing or unknown fields.")
        check_price(values["epsilon"])
        for name in ("base_rate", "deviation", "data_norm"):
            if type(values[name]) is not float or not 0 < values[name] <= LARGEST:
                raise InvalidMessage(f"{name} must be a float above 0, to {LARGEST:g}.")
        if values["neighbours"] not in tuple(Neighbours) or type(values["declared"]) is not int:
            raise InvalidMessage("neighbours must be a known relation, declared a whole number.")
        if coef.dtype != np.float64 or coef.shape != (facts.n_features,):
            raise InvalidMessage("coef must be one number per column.")
        if not float(np.abs(coef).max()) <= LARGEST:
            raise InvalidMessage("coef must be of reasonable length.")
        found = cls(coef, feature_scale=scale, **{name: values[name] for name in _VALUES})
        try:
            _ = found.prior.frame
        except InvalidParameter as error:
            raise InvalidMessage(str(error)) from error
        return found


def _price(request: Payload, facts: PartyFacts) -> Guarantee:
    return CheckRequest.from_payload(request, facts).mechanism(facts.n_samples).guarantee()


def _run(request: Payload, party: LocalParty, source: RandomSource) -> Payload:
    asked = CheckRequest.from_payload(request, party.facts)
    scores = asked.prior.scores(party.X)
    seen = asked.mechanism(party.facts.n_samples).run(scores, party.y, source=source)
    return Payload(arrays={"prior": np.array([float(seen)])})


CHECK = install(Operation("check", _price, _run))


def check_prior(
    federation: Federation,
    plan: CheckedAveraging,
    sizes: Sizes,
    *,
    quorum: float = 1.0,
    timeout: float | None = None,
) -> tuple[Averaging, PriorFacts, dict[str, tuple[Receipt, ...]]]:
    """Ask every party, and return the average that follows, what was seen and what it cost."""
    check = plan.check(sizes)
    hidden = sizes.neighbours is Neighbours.ADD_REMOVE
    declared = math.ceil(sizes.total / len(sizes.counts)) if hidden else 0
    asked = CheckRequest(
        plan.prior.coef,
        epsilon=float(check.epsilon),
        base_rate=float(check.base_rate),
        deviation=float(check.deviation),
        data_norm=float(plan.prior.data_norm),
        neighbours=str(sizes.neighbours),
        declared=declared,
        feature_scale=plan.prior.feature_scale,
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
