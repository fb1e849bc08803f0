"""What is known before any data: of experts, or of models that others have released.

Proof: docs/proofs/prior_check.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from confrere.arrays import Floats
from confrere.data import SchemaEncoder
from confrere.data.body import BodyFrame
from confrere.data.frame import Frame
from confrere.errors import InvalidParameter
from confrere.kernel.guarantee import Guarantee, Neighbours, Then, at_most, exact, minus
from confrere.kernel.streams import RandomSource
from confrere.mechanisms.measurements import Act, RowCount
from confrere.methods.allowance import DECLARED, UNKNOWN, Allowance, Near, intercept_of, share_of
from confrere.methods.plan import LabelledTable, ModelPlan, Names, PublicFacts, Term
from confrere.methods.prior_check import THEOREM, Belief, PriorCheck, check_share, class_parts
from confrere.model import Facts, Model, PriorFacts

#: Rows that are scored at a time.
_BLOCK = 1 << 16

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
    data_norm: float = 1.0  #: Declared bound on the rows' norm after ``feature_scale``
    #: ``(n_features,)``: Public factors that bring columns to one scale, or weigh them
    feature_scale: Floats | None = None
    most: float = 1.5  #: Largest factor that a check may find
    #: ``(n_features,)``: Public factors that the rows were encoded with: taken back as far as the
    #: prior is not believed
    importance: Floats | None = None
    #: The intercepts of others' models: kept as they are, however far they are believed
    released: Any = None
    #: Of rows in a body: its declared facts imply how scores spread, and around what. By default
    #: rows are centred, and their norm is the bound.
    encoder: SchemaEncoder | None = None

    def __post_init__(self) -> None:
        coef = np.atleast_2d(np.asarray(self.coef, dtype=np.float64))
        if coef.ndim != 2 or not np.all(np.isfinite(coef)):
            raise InvalidParameter("prior must hold one finite number per column, and class.")
        object.__setattr__(self, "coef", coef)
        for name in ("intercept", "released"):
            if (given := getattr(self, name)) is not None:
                each = np.broadcast_to(np.asarray(given, dtype=np.float64), (len(coef),))
                object.__setattr__(self, name, each)

    @property
    def several(self) -> bool:
        """Whether there are more than two classes, with a score each."""
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
        return replace(self, intercept=float(np.clip(share_of(middle, self.deviation), -4, 4)))

    @cached_property
    def _moments(self) -> tuple[Floats, Floats]:
        """Means of the scores, and what they are of independent columns of deviation one."""
        if self.encoder is not None:
            return self.encoder.score_moments(self.coef)
        loads = np.array([self.frame.weights(each) for each in self.coef])
        return np.zeros(len(loads)), loads / math.sqrt(loads.shape[1])

    @property
    def deviation(self) -> float:
        """Standard deviation of the prior's log odds; of a class's above the mean of all."""
        shares, loads = np.ones(1), self._moments[1]
        if self.rates is not None:
            shares = np.array(self.rates)
            loads = loads - shares @ loads
        return math.sqrt(float(shares @ np.square(loads).sum(axis=1)))

    @cached_property
    def strength(self) -> float | None:
        """Of several classes the mean of a record's part in the check, if the prior holds.

        Steep scores have labels that are nearly sure, whose parts stop growing: by draws from a
        fixed stream, of public numbers alone. Of two it follows from rate and deviation.
        """
        if self.rates is None:
            return None
        loads = self._moments[1]
        scores = np.random.default_rng(0).normal(size=(_DRAWS, loads.shape[1])) @ loads.T
        shares = special.softmax(scores + np.log(self.rates), axis=1)
        parts = class_parts(scores, self.rates, self.deviation)
        return float((shares * parts).sum(axis=1).mean())

    @property
    def frame(self) -> Frame:
        """The bounded rows that the check scores: in a body they are no longer than one."""
        size = self.coef.shape[1]
        if self.encoder is not None:
            return Frame(size, constant=0.0)
        scale = self.feature_scale
        return Frame(size, data_norm=self.data_norm, constant=0.0, feature_scale=scale)

    def scores(self, X: Any) -> Floats:
        """Return log odds of bounded rows around their public mean; ``(n, K)`` of classes."""
        weights = np.array([self.frame.weights(each) for each in self.coef])
        scores = row_scores(self.frame, weights, X) - self._moments[0]
        return scores if self.several else np.asarray(scores[:, 0])

    def check(
        self, epsilon: float, count: RowCount, neighbours: Neighbours, answers: int = 1
    ) -> PriorCheck:
        """Return the paid check of it, on so many records as far as that is public."""
        return PriorCheck(
            epsilon=epsilon,
            n_samples=count,
            base_rate=self.base_rate,
            deviation=self.deviation,
            rates=self.rates,
            strength=self.strength or 0.0,
            neighbours=neighbours,
            answers=answers,
        )

    def variance_at(self, belief: Belief) -> float:
        """Return the variance around the prior: all is open where it is not to be trusted."""
        trust = 0.0 if self.several and belief.factor <= 0 else belief.trust
        return self.variance + (UNKNOWN - DECLARED) * (1 - trust)

    def near(self, belief: Belief) -> Near:
        """Return what a ridge should know of it."""
        return Near(
            variance=self.variance_at(belief),
            base_rate=self.base_rate,
            precise=self.released is not None and not self.several,
        )

    def scale_at(self, belief: Belief) -> Floats | None:
        """Return the columns' factors: importances count as far as experts are believed."""
        if self.released is not None:
            return self.feature_scale
        weighted = self.importance
        if weighted is None:
            return weights_at(self.feature_scale, belief.trust)
        trusted = weights_at(weighted, belief.trust)
        if trusted is None or trusted is weighted:
            return self.feature_scale
        factors = np.ones_like(weighted)
        np.divide(trusted, weighted, out=factors, where=weighted > 0)
        return factors if self.feature_scale is None else factors * self.feature_scale

    def factor_at(self, belief: Belief) -> float:
        """Return what the prior is multiplied by: turned round, several classes mean nothing."""
        return max(0.0 if self.several else -self.most, min(self.most, belief.factor))

    def intercept_at(self, belief: Belief) -> Floats:
        """Return the intercepts to start from: the believed prior then has the base rate."""
        if self.released is not None:
            return np.asarray(self.released)
        factor = self.factor_at(belief)
        spread = 0.0 if self.several else factor * self.deviation
        return np.asarray(intercept_of(1.0, spread) * self.intercept - factor * self._moments[0])

    def point(self, frame: Frame | BodyFrame, belief: Belief) -> Floats:
        """Return the believed prior as weights in a frame's coordinates: what a fit starts from."""
        pairs = zip(self.factor_at(belief) * self.coef, self.intercept_at(belief), strict=True)
        points = [frame.weights(coef, float(one)) for coef, one in pairs]
        return np.array(points) if self.several else points[0]


@dataclass(frozen=True, eq=False)
class DeclaredPrior:
    """Coefficients and intercept for rows as encoded, and the importances that are in these."""

    coef: ArrayLike | None  #: Log odds per unit of each column; None if nothing is declared
    intercept: Any  #: Log odds of the declared base rate; of more than two classes one number each
    importance: Floats | None = None  #: Public factors that the rows were encoded with

    def prior(
        self,
        facts: PublicFacts,
        data_norm: float,
        feature_scale: ArrayLike | None = None,
        *,
        encoder: SchemaEncoder | None = None,
    ) -> Prior | None:
        """Return it as something that can be checked; None if it says nothing about columns."""
        if self.coef is None or not np.any(self.coef):
            return None
        given = np.asarray(self.coef, dtype=np.float64)
        shape = (facts.n_features,)
        if given.shape != (shape if facts.n_classes == 2 else (facts.n_classes, *shape)):
            raise InvalidParameter(
                "prior must hold one finite number per column, of more than two classes for each."
            )
        scale = None if feature_scale is None else np.asarray(feature_scale, dtype=np.float64)
        return Prior(
            given,
            self.intercept,
            data_norm=float(data_norm),
            feature_scale=scale,
            importance=self.importance,
            encoder=encoder,
        )


def resolve_prior(
    prior: Any, intercept: ArrayLike, encoder: SchemaEncoder | None, n_classes: int = 2
) -> DeclaredPrior:
    """Return what ``prior`` and ``prior_intercept`` declare about rows of ``encoder``.

    Experts also know the base rate, unless an intercept is given. A declared prior
    is one already, from somebody who has the encoder: in a study only what it makes of experts
    crosses.
    """
    level: Any = np.asarray(intercept, dtype=np.float64)[()]
    if np.any(level) and level.shape != (() if n_classes == 2 else (n_classes,)):
        raise InvalidParameter(
            "prior_intercept must be one number, of more than two classes one for each."
        )
    if isinstance(prior, DeclaredPrior):
        return replace(prior, intercept=level)
    if not (isinstance(prior, str) and prior == "experts"):
        return DeclaredPrior(prior, level)
    if n_classes > 2:
        raise InvalidParameter(
            'prior="experts" says which way one outcome goes; of more than two classes give '
            "coefficients, one row per class."
        )
    if encoder is None or not encoder.schema.has_signs:
        raise InvalidParameter(
            'prior="experts" needs schema=, a PublicSchema whose columns have a sign.'
        )
    outcome = encoder.schema.outcome
    rate = None if outcome is None else outcome.base_rate
    if not level and rate is not None:
        level = math.log(rate / (1 - rate))
    weights = encoder.multipliers() if encoder.weighted else None
    return DeclaredPrior(encoder.expert_prior(), level, weights)


def weights_at(scale: Floats | None, trust: float) -> Floats | None:
    """Return column weights as far as they are trusted: all alike where nothing is.

    Their root mean square stays one, so that rows keep their length on average.
    """
    if scale is None or trust == 1:
        return scale
    largest = float(np.max(scale))
    if not largest > 0:
        return np.asarray(scale)
    powers = (scale / largest) ** trust
    return np.asarray(powers * float(np.sqrt(np.mean(scale**2) / np.mean(powers**2))))


def row_scores(frame: Frame, weights: Floats, X: Any) -> Floats:
    """Return ``(n, k)`` scores of bounded rows by ``(k, d)`` weights.

    Column after column: a row's score does not depend on other rows, to the last bit. Rows are
    read in blocks, so there may be as many as a source holds.
    """
    scores = np.zeros((X.shape[0], len(weights)))
    for begin in range(0, len(scores), _BLOCK):
        part = slice(begin, min(begin + _BLOCK, len(scores)))
        rows = frame.rows(X[part])
        if rows.sparse:
            scores[part] = rows @ weights.T
            continue
        for column, weight in zip(rows.written().T, weights.T, strict=True):
            scores[part] += column[:, None] * weight
    return scores


def split_epsilon(epsilon: float, prior: Prior, n_samples: float) -> float:
    """Return what the check spends."""
    share = check_share(
        epsilon,
        n_samples,
        base_rate=prior.base_rate,
        deviation=prior.deviation,
        strength=prior.strength,
    )
    return share * epsilon


def rest_of(epsilon: float, spent: float) -> float:
    """Return what is left of epsilon, as ledgers add."""
    return at_most(minus(exact(epsilon), exact(spent)))


@dataclass(frozen=True, eq=False)
class CheckedPlan(ModelPlan):
    """A paid check of a prior, then the fit that its outcome calls for."""

    epsilon: float  #: Price of both
    prior: Prior  #: What is checked
    check: PriorCheck  #: The check's noise and price
    #: From what is believed to the plan of the fit, which spends the rest: of epsilon, and of delta
    #: what the likely fit does, whatever is believed
    fit: Callable[[Belief], ModelPlan]
    sources: tuple[Any, ...] = ()  #: Released models that the prior was made from

    @property
    def likely(self) -> ModelPlan:
        """The fit if the check brings what is believed before."""
        return self.fit(self.check.before)

    def guarantee(self) -> Guarantee:
        """Return the price of check and fit: releases of the same records add up.

        It is that of every outcome: :meth:`fit` refuses a fit that costs more than is left.
        """
        return replace(self.likely.guarantee(), epsilon=self.epsilon, theorem=THEOREM)

    def facts(self) -> Facts:
        """Return the public facts, but for what the check will show."""
        return self.likely.facts()

    def release(self, data: LabelledTable, source: RandomSource) -> dict[str, Floats]:
        """Return the noised sum of the check and the numbers of the fit."""
        (((seen,),),) = source.draw(self.check.measurement, self._checked(data))
        fit = self.fit(self.check.belief(seen))
        return {"prior": np.array([float(seen)]), **fit.release(data, source)}

    def assemble(self, released: Mapping[str, Floats], names: Names) -> Model:
        """Return the model of rows as given, with what the check has shown."""
        numbers = dict(released)
        belief = self.check.belief(float(numbers.pop("prior")[0]))
        model = self.fit(belief).assemble(numbers, names)
        return replace(model, facts=replace(model.facts, prior=prior_facts(belief, self.check)))

    def minimisers(self) -> dict[str, Act]:
        """Return the acts of the likely fit."""
        return self.likely.minimisers()

    def bounds(self) -> dict[str, tuple[tuple[int, ...], float]]:
        """Return shapes and lengths over all fits that may follow."""
        found: dict[str, tuple[tuple[int, ...], float]] = {"prior": ((1,), self.check.longest)}
        for belief in self.check.beliefs():
            for name, (shape, longest) in self.fit(belief).bounds().items():
                known = found.get(name, (shape, 0.0))[1]
                found[name] = (shape, max(known, longest))
        return found

    def terms(self, data: LabelledTable) -> list[Term]:
        """Return the check, and the fit at what is believed before it."""
        return self.terms_at(data, self.check.before)

    def terms_at(self, data: LabelledTable, belief: Belief) -> list[Term]:
        """Return the check, and the fit after it at one of its :meth:`PriorCheck.beliefs`."""
        own = check_term("prior", self.check, self._checked(data))
        return [own, *self.fit(belief).terms(data)]

    def run_many(self, data: LabelledTable, source: RandomSource, count: int) -> Floats:
        """Return the check's sum and the fit's numbers, one run per row."""
        (seen,) = source.draw(self.check.measurement, self._checked(data), count)
        beliefs = [self.check.belief(float(one)) for one in seen[:, 0]]
        runs: list[Floats] = [np.empty(0)] * count
        for belief in dict.fromkeys(beliefs):
            mine = [i for i, each in enumerate(beliefs) if each == belief]
            drawn = self.fit(belief).run_many(data, source, len(mine))
            for i, row in zip(mine, drawn, strict=True):
                runs[i] = row
        return np.hstack([seen.astype(np.float64), np.vstack(runs)])

    @property
    def batched(self) -> bool:
        """Whether many runs share their passes over the rows."""
        return self.likely.batched

    def later_mechanisms(self) -> tuple[Any, ...]:
        """Return what the likely fit learns from what it released."""
        return self.likely.later_mechanisms()

    def _checked(self, data: LabelledTable) -> tuple[Floats, Floats]:
        return self.prior.scores(data.X), np.asarray(data.labels, dtype=np.float64)


def check_term(name: str, check: PriorCheck, rows: tuple[Floats, Floats]) -> Term:
    """Return a check as an auditor sees it."""
    return Term(name, check.measurement, rows, check)


def prior_facts(belief: Belief, check: PriorCheck) -> PriorFacts:
    """Return what a card says about the prior."""
    return PriorFacts(
        factor=belief.factor,
        sigma=belief.sigma,
        epsilon=check.epsilon,
        verifiable=belief.verifiable,
    )


def plan_near(
    prior: Prior,  # What is known
    # From what is left and a belief to the plan of the fit
    fit: Callable[[Allowance, Belief], ModelPlan],
    allowed: Allowance,  # Of check and fit
    sources: tuple[Any, ...] = (),  # Released models that the prior was made from
) -> CheckedPlan:
    """Return the plan of a fit near a prior that is checked first."""
    spent = split_epsilon(allowed.epsilon, prior, allowed.records)
    left = rest_of(allowed.epsilon, spent)
    check = prior.check(spent, allowed.count, allowed.relation)

    @cache
    def fitted(belief: Belief) -> ModelPlan:
        return fit(allowed.at(epsilon=left), belief)

    promise = replace(fitted(check.before).guarantee(), epsilon=allowed.epsilon)
    then = Then(check.measurement, fitted, promise)
    return CheckedPlan(allowed.epsilon, prior, check, cache(then.after), sources)
