"""A prior's paid check, and the fit that follows.

Proof: docs/proofs/prior_check.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from confrere.arrays import Floats
from confrere.errors import CompositionError
from confrere.kernel.guarantee import Guarantee, at_most, exact, minus
from confrere.kernel.streams import RandomSource
from confrere.mechanisms.measurements import Act
from confrere.mechanisms.prior_check import THEOREM, Belief, PriorCheck, check_share
from confrere.methods.design import Allowance
from confrere.methods.plan import LabelledTable, ModelPlan, Names, Term
from confrere.methods.priors import Prior
from confrere.model import Facts, Model, PriorFacts


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
        From what is believed to the plan of the fit, which spends the rest: of epsilon, and of
        delta what the likely fit does, whatever is believed.
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
        """Return the price of check and fit: releases of the same records add up.

        It is that of every outcome: :meth:`fit` refuses a fit that costs more than the likely one.
        """
        return replace(self.likely.guarantee(), epsilon=self.epsilon, theorem=THEOREM)

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
        return [Term("prior", self.check, self._checked(data)), *self.fit(belief).terms(data)]

    def run_many(self, data: LabelledTable, source: RandomSource, count: int) -> Floats:
        """Return the check's sum and the fit's numbers, one run per row."""
        seen = self.check.sample(*self._checked(data), source=source, count=count)
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
    fit: Callable[[Allowance, Belief], ModelPlan],
    allowed: Allowance,
    sources: tuple[Any, ...] = (),
) -> CheckedPlan:
    """Return the plan of a fit near a prior that is checked first.

    Parameters
    ----------
    prior : Prior
        What is known.
    fit : callable
        From what is left and a belief to the plan of the fit.
    allowed : Allowance
        Of check and fit.
    sources : tuple
        Released models that the prior was made from.
    """
    spent = split_epsilon(allowed.epsilon, prior, allowed.records)
    left = rest_of(allowed.epsilon, spent)
    check = prior.check(spent, allowed.count, allowed.relation)
    plans: dict[Belief, ModelPlan] = {}

    def fitted(belief: Belief) -> ModelPlan:
        if belief not in plans:
            plan = fit(allowed.at(epsilon=left), belief)
            price = plan.guarantee()
            promised = price if belief == check.before else fitted(check.before).guarantee()
            if price.epsilon > left or price.delta > promised.delta:
                raise CompositionError("a fit after a check costs more than was promised.")
            plans[belief] = plan
        return plans[belief]

    return CheckedPlan(allowed.epsilon, prior, check, fitted, sources)
