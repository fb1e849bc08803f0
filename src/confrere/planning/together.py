"""Which of three ways many organisations take to one model, by public facts alone.

An **average** of releases has the noise of every party, each at its whole price. **One message**
has the noise of one sum, whatever the number of parties, but on the weights themselves, and its
ridge shrinks them. **Rounds** have one sum's noise on gradients, and need a delta. What to expect
of each follows from the working model of :mod:`confrere.planning.working_model`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from confrere.errors import InvalidParameter
from confrere.guarantee import check_epsilon, check_positive
from confrere.mechanisms.objective_perturbation import ObjectivePerturbation
from confrere.mechanisms.secure_sum import Colluding
from confrere.planning.forecast import DECAY
from confrere.planning.working_model import (
    PlannedObjective,
    Population,
    expected_area,
    noise_in_scores,
)
from confrere.plans.collaborative_plan import Averaging
from confrere.plans.party_rows import Sizes
from confrere.plans.sums_plan import GradientRounds, OneMessage
from confrere.rows.frame import Frame

Way = Literal["average", "one message", "rounds"]

#: A simpler way is taken if it is expected to be worse by no more than this.
_SAME = 0.002

#: Slope of the capped loss, which all three ways use.
_CAP = 0.5


@dataclass(frozen=True, slots=True)
class Expectation:
    """What one way is expected to bring.

    Attributes
    ----------
    way : {"average", "one message", "rounds"}
    auc : float
        Expected area under the curve, under the working model.
    noise : float
        Standard deviation that noise adds to the score of a row at the declared bound.
    why : str
        Where its noise comes from.
    """

    way: Way
    auc: float
    noise: float
    why: str


@dataclass(frozen=True, kw_only=True)
class Choice:
    """Three ways compared. Nothing in it comes from data.

    Attributes
    ----------
    records, parties, features : int
        Of all parties, their number, and columns.
    epsilon, delta : float
        What every party spends.
    expected : tuple of Expectation
        The simplest way first; rounds only where a delta is allowed.
    """

    records: int
    parties: int
    features: int
    epsilon: float
    delta: float
    expected: tuple[Expectation, ...]

    @property
    def best(self) -> Expectation:
        """The simplest way that is expected to be about as good as any."""
        most = max(one.auc for one in self.expected)
        return next(one for one in self.expected if one.auc >= most - _SAME)

    @property
    def settings(self) -> Mapping[str, Any]:
        """Arguments of :class:`~confrere.CollaborativeClassifier`, and of a study's method."""
        if self.best.way == "average":
            return {"method": "average", "epsilon": self.epsilon}
        if self.best.way == "one message":
            return {"method": "sums", "epsilon": self.epsilon}
        return {"method": "sums", "epsilon": self.epsilon, "delta": self.delta}

    def __str__(self) -> str:
        said = ", ".join(f"{name} = {value!r}" for name, value in self.settings.items())
        return "\n".join(
            [
                f"{self.parties} parties, {self.records} records in all, {self.features} features, "
                f"epsilon {self.epsilon:g}"
                + (f", delta {self.delta:g}" if self.delta else ", no delta"),
                *(
                    f"{one.way}: expected AUC {one.auc:.3f}, noise in a score {one.noise:.3g}: "
                    f"{one.why}"
                    for one in self.expected
                ),
                f"choose {self.best.way}: {said}",
            ]
        )


def choose(
    *,
    sizes: Sequence[int],
    d: int,
    epsilon: float = 1.0,
    delta: float = 0.0,
    auc: float = 0.85,
    base_rate: float = 0.5,
    decay: float = DECAY,
    row_norm: float = 1.0,
    colluding: Colluding = "auto",
) -> Choice:
    """Compare the ways in which organisations may learn one model; touches no data.

    Parameters
    ----------
    sizes : sequence of int
        Records of every party.
    d : int
        Features.
    epsilon, delta : float
        What every party may spend. Rounds need a delta.
    auc, base_rate, decay, row_norm
        Guesses about the data, as for :func:`confrere.planning.plan`.
    colluding : int or "auto", default="auto"
        How many parties may pool what they know; by default a minority.

    Returns
    -------
    Choice
    """
    check_epsilon(epsilon)
    check_positive(row_norm, "row_norm")
    if len(sizes) < 2 or min(sizes) < 1:
        raise InvalidParameter("sizes must hold at least two parties with at least one record.")
    if d < 1:
        raise InvalidParameter("d must be at least 1.")
    if not 0.5 < auc < 1 or not 0 < base_rate < 1 or not 0 <= decay <= 3:
        raise InvalidParameter(
            "auc must lie between 0.5 and 1, base_rate between 0 and 1, decay from 0 to 3."
        )
    frame = Frame(d)
    counts = Sizes({f"party {k}": int(n) for k, n in enumerate(sizes)})
    population = Population(
        area=auc,
        base_rate=base_rate,
        decay=decay,
        row_norm=row_norm * (1 - frame.constant**2) ** 0.5,
        constant=frame.constant,
    )
    common: dict[str, Any] = {"frame": frame, "epsilon": epsilon, "cap": _CAP}
    bent = min(0.2, 0.88 * base_rate * (1 - base_rate))
    shared: dict[str, Any] = {"colluding": colluding, "curvature": bent}
    found = [
        _average(Averaging(**common), counts, population),
        _one_message(OneMessage(**common, **shared), counts, population),
    ]
    if delta > 0:
        rounds = GradientRounds(**common, **shared, delta=delta)
        found.append(_rounds(rounds, counts, population))
    return Choice(
        records=counts.total,
        parties=len(sizes),
        features=d,
        epsilon=float(epsilon),
        delta=float(delta),
        expected=tuple(found),
    )


def _average(plan: Averaging, sizes: Sizes, population: Population) -> Expectation:
    # Weighted by records, unequal parties are worth as many equal ones as their squares say.
    alike = sizes.total**2 / sum(n * n for n in sizes.counts.values())
    each, count = max(1, round(sizes.total / alike)), max(1, round(alike))
    mechanism = plan.mechanism(plan.request(plan.epsilon, sizes, None), each)
    assert isinstance(mechanism, ObjectivePerturbation)
    objective = PlannedObjective(
        plan.frame.n_features,
        mechanism.n_features,
        mechanism.rho,
        mechanism.ridge,
        1.0,
        _CAP,
    )
    why = f"noise of a release of its own at each of {len(sizes.counts)} parties, averaged"
    return _expected("average", objective, population, each, count, why)


def _one_message(plan: OneMessage, sizes: Sizes, population: Population) -> Expectation:
    mechanism = plan.mechanism(sizes)
    count = len(sizes.counts)
    objective = PlannedObjective(
        plan.frame.n_features,
        plan.frame.size,
        mechanism.rate * (mechanism.parts / mechanism.n_parties) ** 0.5,
        plan.ridge(sizes) / count,
        1.0,
        _CAP,
        "weights",
    )
    why = "noise of one sum on the weights, whatever the number of parties, and a ridge against it"
    each = max(1, sizes.total // count)
    return _expected("one message", objective, population, each, count, why)


def _rounds(plan: GradientRounds, sizes: Sizes, population: Population) -> Expectation:
    mechanism = plan.mechanism(sizes)
    objective = PlannedObjective(
        plan.frame.n_features,
        plan.frame.size,
        mechanism.releases**0.5 / mechanism.deviation,
        float(plan.ridge(sizes)[0]),
        1.0,
        _CAP,
        "normal",
    )
    why = f"noise of {plan.rounds} sums of gradients, as if one curator had all records"
    return _expected("rounds", objective, population, sizes.total, 1, why)


def _expected(
    way: Way,
    objective: PlannedObjective,
    population: Population,
    n_samples: int,
    n_parties: int,
    why: str,
) -> Expectation:
    sized: dict[str, Any] = {"n_samples": n_samples, "n_parties": n_parties}
    noise = noise_in_scores([objective], population, **sized) * (1 - population.constant**2)
    return Expectation(way, expected_area([objective], population, **sized), noise**0.5, why)
