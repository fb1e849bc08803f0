"""What is known before any data: a prior, its paid check, and the fit that follows.

Proof: docs/proofs/prior_check.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from confrere.errors import InvalidParameter
from confrere.guarantee import Guarantee, Neighbours
from confrere.ledger.accounts import at_most, exact, minus
from confrere.maths.prior_ridge import DECLARED, UNKNOWN
from confrere.mechanisms.hidden_size import RowCount, declared_count
from confrere.mechanisms.noisy_minimiser import NoisyMinimiser
from confrere.mechanisms.prior_check import THEOREM, Belief, PriorCheck, check_share
from confrere.model import Facts, Model, PriorFacts
from confrere.noise.sources import RandomSource
from confrere.plans.base_plan import Floats, LabelledTable, ModelPlan, Names, Term
from confrere.rows.frame import Frame
from confrere.rows.row_source import as_source

#: Rows that are scored at a time.
_BLOCK = 1 << 16


@dataclass(frozen=True, eq=False)
class Prior:
    """What is declared, or was released by others, before any data are touched.

    Parameters
    ----------
    coef : (n_features,) array
        Log odds per unit of each column, for rows as given.
    intercept : float, default=0.0
        Log odds of the declared base rate.
    variance : float, default=0.2
        Of the log odds around the prior, if it is right.
    data_norm : float, default=1.0
        Declared bound on the rows' norm after ``feature_scale``.
    feature_scale : (n_features,) array, optional
        Public factors that bring columns to one scale, or weigh them.
    most : float, default=1.5
        Largest factor that a check may find.
    importance : (n_features,) array, optional
        Public factors that the rows were encoded with: taken back as far as the prior is not
        believed.
    """

    coef: Floats
    intercept: float = 0.0
    variance: float = DECLARED
    data_norm: float = 1.0
    feature_scale: Floats | None = None
    most: float = 1.5
    importance: Floats | None = None

    def __post_init__(self) -> None:
        coef = np.asarray(self.coef, dtype=np.float64)
        if coef.ndim != 1 or not np.all(np.isfinite(coef)):
            raise InvalidParameter("prior must hold one finite number per column.")
        object.__setattr__(self, "coef", coef)

    @property
    def base_rate(self) -> float:
        """Declared share of positive rows."""
        return float(1 / (1 + np.exp(-np.clip(self.intercept, -30, 30))))

    @property
    def deviation(self) -> float:
        """Standard deviation of the prior's log odds on rows whose norm is the bound."""
        weights = self.frame.weights(self.coef)
        return float(np.linalg.norm(weights)) / math.sqrt(len(self.coef))

    @property
    def frame(self) -> Frame:
        """The bounded rows that the check scores."""
        scale = self.feature_scale
        return Frame(len(self.coef), data_norm=self.data_norm, constant=0.0, feature_scale=scale)

    def scores(self, X: Any) -> Floats:
        """Return the prior's log odds of bounded rows, without its intercept.

        Column after column: a row's score does not depend on other rows, to the last bit. Rows are
        read in blocks, so there may be as many as a source holds.
        """
        source, weights = as_source(X), self.frame.weights(self.coef)
        scores = np.zeros(source.shape[0])
        for begin in range(0, len(scores), _BLOCK):
            part = slice(begin, min(begin + _BLOCK, len(scores)))
            rows = self.frame.rows(source.read(part))
            if sparse.issparse(rows):
                scores[part] = rows @ weights
                continue
            for j, weight in enumerate(weights):
                scores[part] += weight * rows[:, j]
        return scores

    def variance_at(self, belief: Belief) -> float:
        """Return the variance around the prior: all is open where it is not to be trusted."""
        return self.variance + (UNKNOWN - DECLARED) * (1 - belief.trust)

    def scale_at(self, belief: Belief) -> Floats | None:
        """Return the columns' factors: importances count as far as the prior is believed."""
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
        """Return what the prior is multiplied by."""
        return max(-self.most, min(self.most, belief.factor))


def declared_prior(
    coef: ArrayLike | None,
    intercept: float,
    data_norm: float,
    n_features: int,
    feature_scale: ArrayLike | None = None,
    importance: Floats | None = None,
) -> Prior | None:
    """Return what parameters declare about the columns; None if that is nothing."""
    if coef is None or not np.any(coef):
        return None
    given = np.asarray(coef, dtype=np.float64)
    if given.shape != (n_features,):
        raise InvalidParameter("prior must hold one finite number per column.")
    scale = None if feature_scale is None else np.asarray(feature_scale, dtype=np.float64)
    return Prior(
        given,
        float(intercept),
        data_norm=float(data_norm),
        feature_scale=scale,
        importance=importance,
    )


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


def split_epsilon(epsilon: float, prior: Prior, n_samples: float, answers: int = 1) -> float:
    """Return what the check spends."""
    share = check_share(
        epsilon,
        n_samples,
        base_rate=prior.base_rate,
        deviation=prior.deviation,
        answers=answers,
    )
    return share * epsilon


def rest_of(epsilon: float, spent: float) -> float:
    """Return what is left of epsilon, as ledgers add."""
    return at_most(minus(exact(epsilon), exact(spent)))


@dataclass(frozen=True, eq=False)
class CheckedPlan(ModelPlan):
    """A paid check of a prior, then the fit that its outcome calls for.

    Attributes
    ----------
    epsilon : float
        Price of both.
    prior : Prior
        What is checked.
    check : PriorCheck
        The check's noise and price.
    fit : callable
        From what is believed to the plan of the fit, which spends the rest.
    sources : tuple
        Released models that the prior was made from.
    """

    epsilon: float
    prior: Prior
    check: PriorCheck
    fit: Callable[[Belief], ModelPlan]
    sources: tuple[Any, ...] = ()

    @property
    def likely(self) -> ModelPlan:
        """The fit if the check brings what is believed before."""
        return self.fit(self.check.before)

    def guarantee(self) -> Guarantee:
        """Return the price of check and fit: releases of the same records add up."""
        return replace(self.likely.guarantee(), epsilon=self.epsilon, theorem=THEOREM)

    def detail(self) -> dict[str, Any]:
        """Return what the ledger notes."""
        check = {"epsilon": self.check.epsilon, "scale": self.check.scale}
        return {**self.likely.detail(), "prior check": check}

    def facts(self) -> Facts:
        """Return the public facts, but for what the check will show."""
        return self.likely.facts()

    def release(self, data: LabelledTable, source: RandomSource) -> dict[str, Floats]:
        """Return the noised sum of the check and the numbers of the fit."""
        seen = self.check.run(*self._checked(data), source=source)
        fit = self.fit(self.check.belief(seen))
        return {"prior": np.array([float(seen)]), **fit.release(data, source)}

    def assemble(self, released: Mapping[str, Floats], names: Names) -> Model:
        """Return the model of rows as given, with what the check has shown."""
        numbers = dict(released)
        belief = self.check.belief(float(numbers.pop("prior")[0]))
        model = self.fit(belief).assemble(numbers, names)
        return replace(model, facts=replace(model.facts, prior=prior_facts(belief, self.check)))

    def minimisers(self) -> dict[str, NoisyMinimiser]:
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
        return [Term("prior", self.check, self._checked(data)), *self.fit(belief).terms(data)]

    def run_many(self, data: LabelledTable, source: RandomSource, count: int) -> Floats:
        """Return the check's sum and the fit's numbers, one run per row."""
        seen = self.check.run_many(*self._checked(data), source=source, count=count)
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
        return self.prior.scores(data.X), data.signs


def prior_facts(belief: Belief, check: PriorCheck) -> PriorFacts:
    """Return what a card says about the prior."""
    return PriorFacts(
        factor=belief.factor,
        sigma=belief.sigma,
        epsilon=check.epsilon,
        verifiable=belief.verifiable,
    )


def plan_near(
    prior: Prior,
    fit: Callable[[float, Belief], ModelPlan],
    *,
    epsilon: float,
    n_samples: RowCount,
    neighbours: Neighbours = Neighbours.REPLACE_ONE,
    sources: tuple[Any, ...] = (),
) -> CheckedPlan:
    """Return the plan of a fit near a prior that is checked first.

    Parameters
    ----------
    prior : Prior
        What is known.
    fit : callable
        From epsilon and a belief to the plan of the fit.
    epsilon : float
        Price of check and fit.
    n_samples : int or HiddenSize
        Public number of rows, or what stands for it.
    neighbours : Neighbours
        The relation that the guarantee speaks of.
    sources : tuple
        Released models that the prior was made from.
    """
    spent = split_epsilon(epsilon, prior, declared_count(n_samples))
    left = rest_of(epsilon, spent)
    check = PriorCheck(
        epsilon=spent,
        n_samples=n_samples,
        base_rate=prior.base_rate,
        deviation=prior.deviation,
        neighbours=neighbours,
    )
    plans: dict[Belief, ModelPlan] = {}

    def fitted(belief: Belief) -> ModelPlan:
        if belief not in plans:
            plans[belief] = fit(left, belief)
        return plans[belief]

    return CheckedPlan(epsilon, prior, check, fitted, sources)
