r"""Which path to a model: alone, near a source, or together; with what experts know, or without.

A prior ranks with the area :math:`a_0` by itself, the best linear score with :math:`a`. In the log
odds that is a variance :math:`\tau^2 = D^2((D/D_0)^2 - 1)` of what the prior gets wrong, with
:math:`D = \sqrt2\,\Phi^{-1}(a)` and :math:`D_0` the same of :math:`a_0`. Records and noise add
precision to every weight, by the model of :mod:`confrere.methods.allowance`; what stays unknown, V,
leaves the area :math:`\Phi(D/\sqrt{2(1 + V/D^2)})`.

Many organisations take one of three ways to one model, by public facts alone. An **average** of
releases has the noise of every party, each at its whole price. **One message** has the noise of one
sum, whatever the number of parties, but on the weights themselves, and its ridge shrinks them.
**Rounds** have one sum's noise on gradients, and need a delta. What to expect of each follows from
the working model of :mod:`confrere.planning.forecast`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from scipy import special

from confrere.data.frame import Frame
from confrere.errors import InvalidParameter
from confrere.kernel.guarantee import check_epsilon
from confrere.mechanisms.measurements import Objective
from confrere.methods.allowance import DRIFT, mean_curvature, noise_variance, precision_of
from confrere.methods.asking import Colluding, Sizes
from confrere.methods.average import CHECK_SHARE, Averaging
from confrere.methods.priors import PriorCheck, check_share
from confrere.methods.sums import GradientRounds, OneMessage
from confrere.planning.forecast import DECAY, Forecast, PlannedObjective, Population, WorkingModel

Path = Literal["experts alone", "one organisation", "main to branches", "many centres"]

#: Slope of the capped loss, which every path uses.
_CAP = 0.5

#: A path that asks for less is taken if it is expected to be worse by no more than this.
_SAME = 0.002


@dataclass(frozen=True, slots=True)
class ExpectedPath:
    """What one path is expected to bring."""

    path: Path
    auc: float  #: Expected area under the curve
    how: str  #: What to run


@dataclass(frozen=True, kw_only=True)
class Recommendation:
    """Paths compared, from public facts and guesses alone."""

    expected: tuple[ExpectedPath, ...]  #: The path that asks least first
    without_prior: float  #: Expected area of one organisation by itself if nothing were declared
    #: Whether the budget tells a right prior from a wrong one; None without a prior.
    verifiable: bool | None

    @property
    def best(self) -> ExpectedPath:
        """The path that asks least, of those that are expected to be about as good as any."""
        return _first_of_the_best(self.expected)

    def __str__(self) -> str:
        lines = [f"{one.path}: expected AUC {one.auc:.3f}, {one.how}" for one in self.expected]
        lines.append(f"one organisation without a prior: expected AUC {self.without_prior:.3f}")
        if self.verifiable is False:
            lines.append("prior not verifiable at this budget: a wrong one would not be noticed")
        return "\n".join([*lines, f"recommended: {self.best.path}, {self.best.how}"])


def recommend(
    *,
    # ``n``, ``d``: records of the organisation that asks, and features.
    n: int,
    d: int,
    epsilon: float = 1.0,  # What every organisation spends
    # What the best linear model would reach without privacy: a guess, from the literature.
    auc: float = 0.85,
    # What experts' signs and importances reach without data, from public data or the literature;
    # None if nothing is declared.
    prior_auc: float | None = None,
    base_rate: float = 0.5,  # Share of positive rows
    n_source: int | None = None,  # Records of a main organisation that would release first
    # Records of every organisation that would take part in an average.
    parties: Sequence[int] | None = None,
) -> Recommendation:
    """Recommend a path to a model without touching data, and say what to expect of each."""
    check_epsilon(epsilon)
    if min(n, d, *(parties or ()), n_source or 1) < 1:
        raise InvalidParameter("n, d, n_source and parties must be at least 1.")
    if not 0.5 < auc < 1 or (prior_auc is not None and not 0.5 < prior_auc < auc):
        raise InvalidParameter("prior_auc must lie between 0.5 and auc, and auc below 1.")
    if not 0 < base_rate < 1:
        raise InvalidParameter("base_rate must lie strictly between 0 and 1.")
    apart = math.sqrt(2) * float(special.ndtri(auc))
    open_ = _left_open(apart, prior_auc)
    curvature, size = mean_curvature(base_rate), d + 1
    known = prior_auc is not None
    share = check_share(epsilon, n, base_rate=base_rate)

    def told(records: float, spent: float, releases: int = 1) -> float:
        noise = releases * noise_variance(epsilon * (1 - spent), size, _CAP)
        return precision_of(records, size, noise=noise, curvature=curvature)

    def area(precision: float, drift: float = 0.0) -> float:
        unknown = 1 / (1 / open_ + precision) + drift * open_
        return float(special.ndtr(apart / math.sqrt(2 * (1 + unknown / apart**2))))

    alone = told(n, share if known else 0.0)
    near = 'schema=schema, prior="experts", ' if known else ""
    found = (
        [] if prior_auc is None else [ExpectedPath("experts alone", prior_auc, "no data at all")]
    )
    found.append(
        ExpectedPath(
            "one organisation", area(alone), f"PrivateLogisticRegression({near}epsilon=...)"
        )
    )
    if n_source is not None:
        both = told(n, share) + told(n_source, share if known else 0.0)
        how = "TransferClassifier(source=..., epsilon=...)"
        found.append(ExpectedPath("main to branches", area(both, DRIFT), how))
    if parties is not None:
        total = told(sum(parties), CHECK_SHARE if known else 0.0, len(parties))
        how = f"CollaborativeClassifier({near}epsilon=...)"
        found.append(ExpectedPath("many centres", area(total), how))
    check = PriorCheck(epsilon=share * epsilon, n_samples=n, base_rate=base_rate)
    plain = Forecast(n=n, d=d, epsilon=epsilon, auc=auc, base_rate=base_rate)
    return Recommendation(
        expected=tuple(found),
        without_prior=plain.expected_auc(),
        verifiable=check.before.verifiable if known else None,
    )


E = TypeVar("E", ExpectedPath, "Expectation")


def _first_of_the_best(expected: Sequence[E]) -> E:
    most = max(one.auc for one in expected)
    return next(one for one in expected if one.auc >= most - _SAME)


def _left_open(apart: float, prior_auc: float | None) -> float:
    """Return the variance of the log odds around a prior; as much as there is, without one."""
    if prior_auc is None:
        return apart**2
    alone = math.sqrt(2) * float(special.ndtri(prior_auc))
    return float(apart**2 * ((apart / alone) ** 2 - 1))


Way = Literal["average", "one message", "rounds"]


@dataclass(frozen=True, slots=True)
class Expectation:
    """What one way is expected to bring."""

    way: Way
    auc: float  #: Expected area under the curve, under the working model
    noise: float  #: Standard deviation that noise adds to the score of a row at the declared bound
    why: str  #: Where its noise comes from


@dataclass(frozen=True, kw_only=True)
class Choice:
    """Three ways compared. Nothing in it comes from data."""

    #: ``records``, ``parties``, ``features``: of all parties, their number, and columns.
    records: int
    parties: int
    features: int
    #: ``epsilon``, ``delta``: what every party spends.
    epsilon: float
    delta: float
    #: The simplest way first; rounds only where a delta is allowed.
    expected: tuple[Expectation, ...]

    @property
    def best(self) -> Expectation:
        """The simplest way that is expected to be about as good as any."""
        return _first_of_the_best(self.expected)

    @property
    def settings(self) -> Mapping[str, Any]:
        """Arguments of :class:`~confrere.CollaborativeClassifier`, and of a study's method."""
        method = "average" if self.best.way == "average" else "sums"
        spent = {"delta": self.delta} if self.best.way == "rounds" else {}
        return {"method": method, "epsilon": self.epsilon, **spent}

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
    """
    check_epsilon(epsilon)
    if len(sizes) < 2 or min(sizes) < 1:
        raise InvalidParameter("sizes must hold at least two parties with at least one record.")
    if d < 1:
        raise InvalidParameter("d must be at least 1.")
    frame = Frame(d)
    counts = Sizes({f"party {k}": int(n) for k, n in enumerate(sizes)})
    population = Population(auc, base_rate, decay, row_norm, frame.constant)
    common: dict[str, Any] = {"frame": frame, "epsilon": epsilon, "cap": _CAP}
    bent = min(0.2, 0.88 * base_rate * (1 - base_rate))
    shared: dict[str, Any] = {"colluding": colluding, "curvature": bent}
    made: list[Averaging | OneMessage | GradientRounds] = [
        Averaging(**common),
        OneMessage(**common, **shared),
    ]
    if delta > 0:
        made.append(GradientRounds(**common, **shared, delta=delta))
    return Choice(
        records=counts.total,
        parties=len(sizes),
        features=d,
        epsilon=float(epsilon),
        delta=float(delta),
        expected=tuple(_expected(one, counts, population) for one in made),
    )


def _expected(
    plan: Averaging | OneMessage | GradientRounds, sizes: Sizes, population: Population
) -> Expectation:
    """Return what one way is expected to bring parties of these sizes."""
    features, size, count = plan.space.n_features, plan.space.size, len(sizes.counts)
    way: Way
    model: tuple[Any, ...]
    if isinstance(plan, Averaging):
        # Weighted by records, unequal parties are worth as many equal ones as their squares say.
        alike = sizes.total**2 / sum(n * n for n in sizes.counts.values())
        each, alike = max(1, round(sizes.total / alike)), max(1, round(alike))
        mechanism = plan.asked(sizes).mechanism(each)
        assert isinstance(mechanism, Objective)
        act = mechanism.act
        way, model = "average", (act.norm.size, act.law.rate, act.ridge, _CAP)
        why = f"noise of a release of its own at each of {count} parties, averaged"
    elif isinstance(plan, OneMessage):
        summed = plan.mechanism(sizes)
        rate = summed.rate * (summed.parts / summed.n_parties) ** 0.5
        way, model = "one message", (size, rate, plan.ridge(sizes) / count, _CAP, "weights")
        each, alike = max(1, sizes.total // count), count
        why = "noise of one sum on the weights, whatever the number of parties, and a ridge "
        why += "against it"
    else:
        summed = plan.mechanism(sizes)
        rate = summed.releases**0.5 / summed.deviation
        way, model = "rounds", (size, rate, float(plan.ridge(sizes)[0]), _CAP, "normal")
        each, alike = sizes.total, 1
        why = f"noise of {plan.rounds} sums of gradients, as if one curator had all records"
    found = WorkingModel([PlannedObjective(way, features, *model)], population, each, alike)
    return Expectation(way, found.area(), found.spread, why)
