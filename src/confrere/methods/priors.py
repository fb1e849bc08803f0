"""What is known before any data: of experts, or of models that others have released.

Proof: docs/proofs/prior_check.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import zip_longest
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from confrere.arrays import Floats
from confrere.data.encoding import SchemaEncoder, score_moments
from confrere.data.features import Form
from confrere.data.frame import BodyFrame, Frame, row_scores
from confrere.errors import InvalidData, InvalidParameter, InvalidRelease, SchemaMismatch
from confrere.kernel.guarantee import Guarantee, Neighbours, at_most, check_epsilon, exact, minus
from confrere.kernel.measurements import (
    Objective,
    Point,
    RowCount,
    declared_count,
    largest_count,
    relation_of,
    row_promise,
)
from confrere.kernel.noise import RandomSource
from confrere.ledger.compose import Then
from confrere.methods.allowance import (
    DECLARED,
    DRIFT,
    LOG_ODDS,
    MISSED,
    UNKNOWN,
    Allowance,
    Near,
    intercept_of,
    mean_curvature,
    noise_variance,
    precision_of,
    variance_near,
)
from confrere.methods.geometry import KNOWN, TRUSTED, ExpectedArea
from confrere.methods.plan import ENOUGH, LabelledTable, ModelPlan, Names, PublicFacts, Source, Term
from confrere.model import Encoder, Facts, Linear, Link, Model, PriorFacts

M = TypeVar("M", bound=Model)

THEOREM = "docs/proofs/prior_check.md"

#: Steps of one unit of a record's part: contributions are whole numbers, so that integer noise is
#: all the noise there has to be.
LEVELS = 1024

#: Mean of ``z clip(z, -1, 1)`` for a standard normal score, by Stein's identity P(|z| < 1).
STEIN = 0.6827

#: About the deviation of a record's part where there are several classes: of a clipped normal.
_PART = 0.72

#: What is believed of a prior's factor before the check: its mean and variance.
BELIEVED, DOUBT = 0.8, 0.36

#: The factor is rounded to these steps and bounded: the fits that may follow can be counted.
STEPS, LARGEST_FACTOR = 32, 1.5

#: Noise in the factor that the check's share of the budget aims at: its deviation, and with that of
#: Laplace noise of scale one, sqrt(2)/.3.
CHECK_ERROR, _AIM, _LEAST, _MOST = 0.3, 4.7, 0.05, 0.9


def check_share(wanted: float) -> float:
    return min(_MOST, max(_LEAST, wanted))


#: A factor with fewer standard errors than this may as well have the other sign: it counts as none.
SURE = 0.7

#: A check whose error is larger says nothing.
VERIFIABLE = 0.6


@dataclass(frozen=True)
class Belief:
    """How far a prior is to be believed."""

    factor: float  #: What the prior's log odds are multiplied by; below 0 it is turned round
    sigma: float  #: Standard error of what was seen, from public facts

    @property
    def trust(self) -> float:
        return min(1.0, abs(self.factor) / TRUSTED)

    @property
    def verifiable(self) -> bool:
        """Whether the budget was enough to tell a right prior from a wrong one."""
        return self.sigma <= VERIFIABLE

    def facts(self, epsilon: float) -> PriorFacts:
        told = {"factor": self.factor, "sigma": self.sigma, "epsilon": epsilon}
        return PriorFacts(**told, verifiable=self.verifiable)


#: Of a prior that nobody checks.
UNCHECKED = Belief(1.0, math.inf)


def believed(seen: float, sigma: float) -> Belief:
    """Return the factor that one seen with this error speaks for: post-processing."""
    known, precision = 1 / DOUBT, sigma**-2
    mean = (BELIEVED * known + precision * seen) / (known + precision)
    if abs(mean) < SURE / math.sqrt(known + precision):
        mean = 0.0
    steps = np.clip(np.rint(mean * STEPS), -LARGEST_FACTOR * STEPS, LARGEST_FACTOR * STEPS)
    return Belief(float(steps / STEPS), sigma)


def class_parts(scores: Floats, rates: tuple[float, ...], deviation: float) -> Floats:
    """Return how far each class's score is above the mean of all, clipped: ``(n, K)``."""

    def mean(values: Floats) -> Floats:
        # Column after column, so that no other row changes the last bit of one's part.
        found = np.zeros(len(values))
        for k, rate in enumerate(rates):
            found += rate * values[:, k]
        return found[:, None]

    with np.errstate(over="ignore", invalid="ignore"):
        centred = scores - mean(scores)
    clipped = np.clip(np.nan_to_num(centred / deviation), -1.0, 1.0)
    return np.asarray(np.clip(clipped - mean(clipped), -1.0, 1.0))


#: Made-up rows that say what to expect of a check of several classes.
_DRAWS = 4096


@dataclass(frozen=True, eq=False)
class Prior:
    """What is declared, or was released by others, before any data are touched."""

    #: ``(n_features,)``: Log odds per unit of each column, for rows as given; kept with one row per
    #: score
    coef: Floats
    #: Log odds of the declared shares; :meth:`intercept_at` is what a model starts from
    intercept: Any = 0.0
    variance: float = DECLARED  #: Of the log odds around the prior, if it is right
    data_norm: float = 1.0  #: Declared bound on the rows' norm
    most: float = 1.5  #: Largest factor that a check may find
    opens: float = UNKNOWN - DECLARED  #: By how much more is open where it is not believed
    #: Whether the share of positive rows is the same experts', and is believed as far as they are
    theirs: bool = False
    #: The intercepts of others' models: kept as they are, however far they are believed
    released: Any = None
    #: ``(1 + K, K)``: Means of the scores, and a root of their covariance, see
    #: :func:`score_moments`. By default rows are centred, and their norm is the bound.
    moments: Floats | None = None

    def __post_init__(self) -> None:
        coef = np.atleast_2d(np.asarray(self.coef, dtype=np.float64))
        if coef.ndim != 2 or not np.all(np.isfinite(coef)):
            raise InvalidParameter("prior must hold one finite number per column, and class.")
        object.__setattr__(self, "coef", coef)
        if self.moments is not None and self.moments.shape != (1 + len(coef), len(coef)):
            raise InvalidParameter(
                "moments must be the scores' means, and a root of how they vary."
            )
        for name in ("intercept", "released"):
            if (given := getattr(self, name)) is not None:
                each = np.broadcast_to(np.asarray(given, dtype=np.float64), (len(coef),))
                object.__setattr__(self, name, each)

    @property
    def several(self) -> bool:
        return len(self.coef) > 1

    @property
    def base_rate(self) -> float:
        """Declared share of positive rows; of a class, if all of several were alike."""
        if self.several:
            return 1 / len(self.coef)
        return float(1 / (1 + np.exp(-np.clip(self.intercept[0], -30, 30))))

    @property
    def rates(self) -> tuple[float, ...] | None:
        """Shares of several classes, by the intercepts; of two the base rate tells them."""
        if not self.several:
            return None
        centred = self.intercept - np.mean(self.intercept)
        return tuple(special.softmax(np.clip(centred, -4, 4)).tolist())

    def with_shares(self) -> Prior:
        """Return the same with the shares that its own intercepts, and their spread, speak of."""
        if self.several:
            return replace(self, intercept=self.released)
        middle = float(self.released[0] + self._moments[0][0])
        level = np.clip(middle / intercept_of(1.0, self.deviation), -4, 4)
        return replace(self, intercept=float(level))

    @cached_property
    def _moments(self) -> tuple[Floats, Floats]:
        """Means of the scores, and what they are of independent columns of deviation one."""
        if self.moments is not None:
            return self.moments[0], self.moments[1:]
        loads = self._weights
        return np.zeros(len(loads)), loads / math.sqrt(loads.shape[1])

    @property
    def _weights(self) -> Floats:
        return np.array([self.frame.weights(each) for each in self.coef])

    @property
    def score_mean(self) -> float:
        """Mean of the prior's log odds, of two classes."""
        return float(self._moments[0][0])

    @cached_property
    def deviation(self) -> float:
        """Standard deviation of the prior's log odds; of a class's above the mean of all."""
        shares, loads = np.ones(1), self._moments[1]
        if self.rates is not None:
            shares = np.array(self.rates)
            loads = loads - shares @ loads
        return math.sqrt(float(shares @ np.square(loads).sum(axis=1)))

    @cached_property
    def strength(self) -> float:
        """Mean part of a record of several classes in the check, if the prior holds: by draws."""
        loads, rates = self._moments[1], self.rates or ()
        scores = np.random.default_rng(0).normal(size=(_DRAWS, loads.shape[1])) @ loads.T
        shares = special.softmax(scores + np.log(rates), axis=1)
        parts = class_parts(scores, rates, self.deviation)
        return float((shares * parts).sum(axis=1).mean())

    @property
    def frame(self) -> Frame:
        """The bounded rows that the check scores: in a body they are no longer than one."""
        return Frame(self.coef.shape[1], data_norm=self.data_norm, constant=0.0)

    def scores(self, X: Any) -> Floats:
        scores = row_scores(self.frame, self._weights, X) - self._moments[0]
        return scores if self.several else np.asarray(scores[:, 0])

    def check_within(self, epsilon: float, count: RowCount, answers: int = 1) -> PriorCheck:
        """Return the check that leaves what is best left to a fit: a public rule of public sizes.

        So much that its noise in the factor has the deviation .3, or in log odds that vary less
        than one, in these: the fewer records there are, the less a fit could say against a wrong
        prior, and the weaker it is, the less there is to say. Every party's answer has noise.
        """
        whole = PriorCheck(prior=self, epsilon=epsilon, n_samples=count, answers=answers)
        share = _AIM * min(1.0, self.deviation) * math.sqrt(answers) * whole.sensitivity / LEVELS
        share /= epsilon * max(whole.expected, 1e-9)
        return replace(whole, epsilon=check_share(share) * epsilon)

    def variance_at(self, belief: Belief) -> float:
        trust = 0.0 if self.several and belief.factor <= 0 else belief.trust
        return self.variance + self.opens * (1 - trust)

    def expected(self, area: ExpectedArea, belief: Belief) -> ExpectedArea:
        if not np.any(self.coef):
            return area
        if self.released is not None:
            return area.near(self.variance_at(belief))
        return area.with_experts(belief.trust)

    def near(self, belief: Belief) -> Near:
        return Near(
            variance=self.variance_at(belief),
            base_rate=self.base_rate,
            precise=self.released is not None and not self.several,
        )

    def factor_at(self, belief: Belief) -> float:
        """Return what the prior is multiplied by: what hardly holds counts for less."""
        seen = max(0.0 if self.several else -self.most, min(self.most, belief.factor))
        return seen if self.released is not None else seen * belief.trust**2

    def intercept_at(self, belief: Belief) -> Floats:
        """Return the intercepts to start from: the believed prior then has the base rate."""
        if self.released is not None:
            return np.asarray(self.released)
        factor = self.factor_at(belief)
        spread = 0.0 if self.several else factor * self.deviation
        level = self.intercept * (belief.trust**2 if self.theirs else 1.0)
        return np.asarray(intercept_of(1.0, spread) * level - factor * self._moments[0])

    def point(self, frame: Frame | BodyFrame, belief: Belief) -> Floats:
        """Return the believed prior as weights in a frame's coordinates: what a fit starts from."""
        pairs = zip(self.factor_at(belief) * self.coef, self.intercept_at(belief), strict=True)
        points = [frame.weights(coef, float(one)) for coef, one in pairs]
        return np.array(points) if self.several else points[0]


@dataclass(frozen=True, kw_only=True)
class PriorCheck:
    """Discrete Laplace noise on ``sum_i (1{y_i = 1} - pi) c_i``, in whole steps.

    ``c_i`` is the prior's score of row i in units of its deviation, clipped to [-1, 1]. Of more
    than two classes a record's part is how far its own class's score lies above the mean of all.
    """

    prior: Prior  #: Whose base rate is ``pi``, or whose rates are those of several classes
    epsilon: float  #: What it spends
    #: Public number of rows, or what stands for it; of all parties where answers are added.
    n_samples: RowCount
    answers: int = 1  #: How many parties' answers are added up

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        known = not self.prior.several or self.prior.strength > 0
        if not (0 < self.prior.deviation < math.inf and known):
            raise InvalidParameter("prior must not score all rows alike.")

    @property
    def neighbours(self) -> Neighbours:
        return relation_of(self.n_samples)

    @property
    def sensitivity(self) -> int:
        """Largest change of the sum, in steps, when one record is changed."""
        positive, negative = self._parts
        one = max(positive, negative)
        return one if self.neighbours is Neighbours.ADD_REMOVE else 2 * one

    @property
    def scale(self) -> float:
        return self.measurement.scale

    @cached_property
    def sigma(self) -> float:
        noise = math.sqrt(2 * self.answers) * (self.scale / LEVELS) / self.expected
        sampled = 1 / math.sqrt(self.expected * self.prior.deviation)
        if self.prior.several:
            sampled = _PART * math.sqrt(declared_count(self.n_samples)) / self.expected
        return math.hypot(noise, sampled)

    @property
    def longest(self) -> float:
        """A bound on the length of an answer that noise exceeds with probability 1e-18."""
        return float(largest_count(self.n_samples) * LEVELS + 42 * self.scale)

    def guarantee(self) -> Guarantee:
        return row_promise(self.epsilon, self.n_samples, THEOREM, "the prior")

    def total(self, scores: Floats, y: Floats) -> int:
        """Return the sum of the records' parts, each a whole number of its own row alone."""
        if len(scores) != len(y):
            raise InvalidData("scores and labels must be of the same records.")
        deviation, rates = self.prior.deviation, self.prior.rates
        if rates is not None:
            parts = class_parts(scores, rates, deviation)
            own = np.rint(LEVELS * parts[np.arange(len(y)), y.astype(np.intp)])
            return int(own.astype(np.int64).sum())
        # Not a number, which no score is, would be no opinion.
        clipped = np.clip(np.nan_to_num(scores / deviation), -1.0, 1.0)
        positive, negative = self._parts
        parts = np.rint(np.where(y > 0, positive, -negative) * clipped)
        return int(parts.astype(np.int64).sum())

    @property
    def measurement(self) -> Point:
        """What is released: of scores and labels the sum of the records' parts."""

        def value(scores: Floats, y: Floats) -> tuple[NDArray[np.int64]]:
            return (np.array([self.total(scores, y)], dtype=np.int64),)

        return Point(promise=self.guarantee(), sensitivity=self.sensitivity, value=value)

    def belief(self, released: float) -> Belief:
        return believed(released / LEVELS / self.expected, self.sigma)

    def beliefs(self) -> list[Belief]:
        most = round(LARGEST_FACTOR * STEPS)
        return [Belief(k / STEPS, self.sigma) for k in range(-most, most + 1)]

    @property
    def before(self) -> Belief:
        return Belief(round(BELIEVED * STEPS) / STEPS, self.sigma)

    @property
    def _parts(self) -> tuple[int, int]:
        if self.prior.several:
            return LEVELS, LEVELS
        rate = self.prior.base_rate
        return round(LEVELS * (1 - rate)), round(LEVELS * rate)

    @property
    def expected(self) -> float:
        size, prior = declared_count(self.n_samples), self.prior
        if prior.several:
            return size * prior.strength
        return STEIN * size * prior.base_rate * (1 - prior.base_rate) * prior.deviation


def declared_prior(
    prior: ArrayLike | None,  # As estimators take it
    intercept: Floats | float,
    facts: PublicFacts,
    encoder: SchemaEncoder | None,  # Of the rows, if anything encodes them
    body: SchemaEncoder | None,  # The same, where noise is shaped like its rows
    *,
    data_norm: float = 1.0,  # Of a ball
) -> tuple[Prior | None, Floats | float]:
    """Return what is declared about columns, if anything is, and the log odds of the base rate."""
    level: Any = np.asarray(intercept, dtype=np.float64)[()]
    several, theirs = facts.n_classes > 2, False
    if np.any(level) and level.shape != ((facts.n_classes,) if several else ()):
        raise InvalidParameter(
            "prior_intercept must be one number, of more than two classes one for each."
        )
    if isinstance(prior, str):
        prior, rate = _experts(encoder, several)
        if not level and rate is not None:
            level, theirs = math.log(rate / (1 - rate)), True
    if prior is None or not np.any(prior):
        return None, level
    coef, shape = np.asarray(prior, dtype=np.float64), (facts.n_features,)
    if coef.shape != ((facts.n_classes, *shape) if several else shape):
        raise InvalidParameter(
            "prior must hold one finite number per column, of more than two classes for each."
        )
    rows: Any = {"data_norm": data_norm}
    if body is not None:  # the default but for where it starts
        rows = {"variance": LOG_ODDS, "opens": 0.0, "moments": score_moments(body, coef)}
    return Prior(coef, level, theirs=theirs, **rows), level


def _experts(encoder: SchemaEncoder | None, several: bool) -> tuple[Floats, float | None]:
    if several:
        raise InvalidParameter(
            'prior="experts" says which way one outcome goes; of more than two classes give '
            "coefficients, one row per class."
        )
    if encoder is None or not encoder.schema.has_signs:
        raise InvalidParameter(
            'prior="experts" needs schema=, a PublicSchema whose columns have a sign.'
        )
    outcome = encoder.schema.outcome
    return encoder.expert_prior(), None if outcome is None else outcome.base_rate


def rest_of(epsilon: float, spent: float) -> float:
    return at_most(minus(exact(epsilon), exact(spent)))


@dataclass(frozen=True, eq=False)
class CheckedPlan(ModelPlan):
    """A paid check of a prior, then the fit that its outcome calls for."""

    epsilon: float  #: Price of both
    check: PriorCheck  #: The check's noise and price
    #: From what is believed to the plan of the fit, which spends the rest: of epsilon, and of delta
    #: what the likely fit does, whatever is believed
    fit: Callable[[Belief], ModelPlan]
    sources: tuple[Source, ...] = ()  #: Released models that the prior was made from

    @property
    def likely(self) -> ModelPlan:
        return self.fit(self.check.before)

    @property
    def expected(self) -> ExpectedArea | None:
        """What its area is expected to be, if the check brings what is believed before."""
        return getattr(self.likely, "expected", None)

    @property
    def priced(self) -> Guarantee:
        # It is that of every outcome: :meth:`fit` refuses a fit that costs more than is left.
        return replace(self.likely.guarantee(), epsilon=self.epsilon, theorem=THEOREM)

    def facts(self) -> Facts:
        return self.likely.facts()  # but for what the check will show

    def release(self, data: LabelledTable, source: RandomSource) -> dict[str, Floats]:
        (((seen,),),) = source.draw(self.check.measurement, self._checked(data))
        fit = self.fit(self.check.belief(seen))
        return {"prior": np.array([float(seen)]), **fit.release(data, source)}

    def assemble(self, released: Mapping[str, Floats], names: Names) -> Model:
        numbers = dict(released)
        belief = self.check.belief(float(numbers.pop("prior")[0]))
        model = self.fit(belief).assemble(numbers, names)
        return replace(model, facts=replace(model.facts, prior=belief.facts(self.check.epsilon)))

    def bounds(self) -> dict[str, tuple[tuple[int, ...], float]]:
        found: dict[str, tuple[tuple[int, ...], float]] = {"prior": ((1,), self.check.longest)}
        for bounds in (self.fit(belief).bounds() for belief in self.check.beliefs()):
            found |= {name: max(one, found.get(name, one)) for name, one in bounds.items()}
        return found

    def terms(self, data: LabelledTable) -> list[Term]:
        return self.terms_at(data, self.check.before)

    def terms_at(self, data: LabelledTable, belief: Belief) -> list[Term]:
        own = Term("prior", self.check.measurement, self._checked(data), self.check)
        return [own, *self.fit(belief).terms(data)]

    def run_many(self, data: LabelledTable, source: RandomSource, count: int) -> Floats:
        (seen,) = source.draw(self.check.measurement, self._checked(data), count)
        beliefs = [self.check.belief(float(one)) for one in seen[:, 0]]
        runs = by_belief(beliefs, lambda one, n: self.fit(one).run_many(data, source, n))
        return np.hstack([seen.astype(np.float64), runs])

    @property
    def batched(self) -> bool:
        return self.likely.batched

    def later_mechanisms(self) -> tuple[Objective, ...]:
        return self.likely.later_mechanisms()

    def _checked(self, data: LabelledTable) -> tuple[Floats, Floats]:
        return self.check.prior.scores(data.X), np.asarray(data.labels, dtype=np.float64)


def by_belief(beliefs: Sequence[Belief], drawn: Callable[[Belief, int], Floats]) -> Floats:
    """Return one run per row, those that believe the same drawn together."""
    found: list[Floats] = [np.empty(0)] * len(beliefs)
    for belief in dict.fromkeys(beliefs):
        mine = [i for i, each in enumerate(beliefs) if each == belief]
        for i, row in zip(mine, drawn(belief, len(mine)), strict=True):
            found[i] = row
    return np.vstack(found)


def plan_near(
    prior: Prior,  # What is known
    # From what is left and a belief to the plan of the fit
    fit: Callable[[Allowance, Belief], ModelPlan],
    allowed: Allowance,  # Of check and fit
    sources: tuple[Source, ...] = (),  # Released models that the prior was made from
) -> CheckedPlan:
    check = prior.check_within(allowed.epsilon, allowed.count)
    left = rest_of(allowed.epsilon, check.epsilon)

    @cache
    def fitted(belief: Belief) -> ModelPlan:
        return fit(allowed.at(epsilon=left), belief)

    promise = replace(fitted(check.before).guarantee(), epsilon=allowed.epsilon)
    then = Then(check.measurement, fitted, promise)
    return CheckedPlan(allowed.epsilon, check, cache(then.after), sources)


def check_sources(
    sources: Sequence[Source], facts: PublicFacts, encoder: SchemaEncoder | None
) -> None:
    own = None if encoder is None else Encoder.of(encoder)
    for model in (source.model for source in sources):
        if facts.features is None or facts.classes is None:
            continue
        classes = facts.classes.tolist()
        if own is not None and model.encoder is not None:
            own.schema.require_same(model.encoder.schema)
        if model.features != tuple(facts.features):
            pairs = enumerate(zip_longest(model.features, facts.features))
            told = [f"column {j}: source {a!r}, target {b!r}" for j, (a, b) in pairs if a != b]
            raise SchemaMismatch("\n  ".join(["columns differ:", *told[:10]]))
        if list(model.classes) != classes:
            raise SchemaMismatch(
                f"source has classes {list(model.classes)}, the target declares {classes}."
            )
        if own is None:
            continue
        if model.encoder is None:
            raise SchemaMismatch(
                "source carries no encoder to compare with; ask for a release of a model that was "
                "fitted with schema=..."
            )
        if not own.same_encoding(model.encoder):
            raise SchemaMismatch("source encodes its rows in another way; rows and weights differ.")
    if any(len(source.model.classes) != facts.n_classes for source in sources):
        raise SchemaMismatch("source has another number of classes than the target.")


def form_of(sources: Sequence[Source]) -> Form:
    encoders = [source.model.encoder for source in sources]
    forms = {encoder.form for encoder in encoders if encoder is not None}
    return forms.pop() if len(forms) == 1 else "standardised"


def stated(fact: float | None, name: str) -> float:
    """Return a fact that a source must state to be started from."""
    if fact is None:
        raise InvalidRelease(f"source does not state its {name}; it cannot be started from.")
    return fact


def _precisions(sources: Sequence[Source], size: int, base_rate: float) -> Floats:
    """Return how precisely each source tells a weight: of the noise, and of its records."""
    found = []
    for source in sources:
        facts = source.model.facts
        if facts.sigma is not None:
            noise = facts.sigma**2
        elif facts.rho is not None:
            noise = (size + 1) / facts.rho**2
        else:
            # Noise of a capped loss at that price, for every party whose model is averaged.
            noise = (facts.parties or 1) * noise_variance(source.guarantee.epsilon, size, 0.5)
        records = stated(facts.n_samples, "n_samples")
        curvature = mean_curvature(base_rate)
        found.append(precision_of(records, size, noise=noise, curvature=curvature))
    return np.asarray(found)


def _kept(source: Source, precision: float) -> float:
    """Return the share of the log odds' variance that a model keeps; by its precision if untold."""
    facts, found = source.model.facts, LOG_ODDS * precision / (1 + LOG_ODDS * precision)
    area = ExpectedArea(found if facts.kept is None else facts.kept)
    if facts.prior is not None:
        trust = Belief(facts.prior.factor, facts.prior.sigma).trust
        area = area.near(LOG_ODDS * (1 - KNOWN * trust))
    return area.kept


def released_prior(
    sources: Sequence[Source],
    size: int,  # Number of weights, the intercept among them
    keep: float | None,  # How much of them is shrunk towards; None is a centre, with its own ridge
    body: SchemaEncoder | None,  # Of the rows, where noise is shaped like them
    **told: Any,  # What a prior knows of the rows in a ball
) -> tuple[Prior, float, Source]:
    models = [source.model for source in sources if isinstance(source.model, Linear)]
    intercepts = np.array([model.intercept for model in models])
    coefs = np.array([model.coef for model in models])

    def around(coef: Floats, intercept: Floats, variance: float = 0.0) -> Prior:
        rows = told if body is None else {"moments": score_moments(body, coef)}
        return Prior(coef, variance=variance, most=1.0, released=intercept, **rows).with_shares()

    rate = around(coefs.mean(axis=0), intercepts.mean(axis=0)).base_rate
    precise = _precisions(sources, size, rate)
    shares = (1.0 if keep is None else keep) * precise / precise.sum()
    kept, best = max(zip(map(_kept, sources, precise), sources, strict=True), key=lambda p: p[0])
    left = LOG_ODDS * (1 - kept + DRIFT)
    if keep is not None:
        left = variance_near(precise, missed=MISSED if len(coefs[0]) == 1 else 0.0)
    return around(np.tensordot(shares, coefs, 1), shares @ intercepts, left), kept, best


def encoded_by(model: M, encoder: Encoder) -> M:
    """Return the model of raw rows, with the link that follows from what their schema declares."""
    outcome, kept = encoder.schema.outcome, model.facts.kept
    rate = None if outcome is None else outcome.base_rate
    if kept is None or kept >= ENOUGH or rate is None or not isinstance(model, Linear):
        return replace(model, encoder=encoder)
    rows, coef = encoder.transformer(), model.coef
    coef = coef * rows.multipliers() if rows.weighted else coef
    mean, root = score_moments(rows, coef)[:, 0]
    link = Link.shifted(float(model.intercept[0] + mean), abs(float(root)), kept, rate)
    return replace(model, encoder=encoder, link=link)
