"""A private choice among settings, planned from public facts: what it costs, then what it does."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from confrere.errors import CompositionError, InvalidData, InvalidParameter
from confrere.guarantee import Guarantee, Split, in_parallel, in_sequence, one_of, shares
from confrere.maths.partition import split_rows
from confrere.mechanisms.counts import PrivateCounts
from confrere.mechanisms.selection import (
    THEOREM,
    ErrorSelection,
    RandomStopping,
    Rule,
    brier_score,
)
from confrere.noise.sources import RandomSource
from confrere.plans.base_plan import LabelledTable, Plan, Term

Scoring = Literal["brier", "errors"]


class Candidate(Protocol):
    """One of the declared settings."""

    @property
    def settings(self) -> Mapping[str, Any]:
        """What is declared."""

    @property
    def name(self) -> str:
        """The settings as text, for the ledger."""

    def price(self, epsilon: float, n_rows: int) -> Guarantee:
        """Return what fitting it on so many rows costs; touches no data."""

    def fit(self, epsilon: float, data: LabelledTable, source: RandomSource) -> Any:
        """Return its released model, which has ``predict`` and ``predict_proba``."""


@dataclass(frozen=True, kw_only=True, eq=False)
class SelectionPlan(Plan[tuple[int, Any]]):
    """Fit candidates, score them on rows that they did not see, and choose one privately.

    Attributes
    ----------
    candidates : sequence of Candidate
        Declared before the data are seen.
    scoring : {"brier", "errors"}
        What is added up over held-out rows.
    parts : list of int arrays
        Disjoint rows; the held-out ones last.
    split : Split
        How they were made.
    total : Guarantee
        Price of all of it.
    """

    candidates: Sequence[Candidate]
    scoring: Scoring
    parts: list[NDArray[np.intp]]
    split: Split
    total: Guarantee

    def guarantee(self) -> Guarantee:
        """Return the price of the choice and of the final model together."""
        return self.total

    def detail(self) -> dict[str, Any]:
        """Return what the ledger notes."""
        return {
            "candidates": [candidate.name for candidate in self.candidates],
            "scoring": self.scoring,
            "rows": [len(part) for part in self.parts],
        }

    def terms(self, data: LabelledTable) -> list[Term]:  # noqa: ARG002
        """Refuse: which model is released is part of what is released."""
        raise InvalidParameter("a selection has no simple density; audit whole fits.")

    @property
    def batched(self) -> bool:
        """Candidates are fitted anew for every run."""
        return False

    def errors(self, model: Any, held_out: LabelledTable) -> int:
        """Return a model's score on held-out rows, the less the better."""
        if self.scoring == "errors":
            wrong = model.predict(held_out.X) != held_out.classes[held_out.codes]
            return int(np.count_nonzero(wrong))
        return brier_score(model.predict_proba(held_out.X), held_out.codes)


@dataclass(frozen=True, kw_only=True, eq=False)
class PartsPlan(SelectionPlan):
    """Every candidate on a part of its own, the choice on another, then perhaps a refit on all.

    Attributes
    ----------
    selection : ErrorSelection
        The choice among the candidates' errors.
    refit_epsilon : float or None
        What is kept for fitting the chosen candidate on all rows.
    """

    selection: ErrorSelection
    refit_epsilon: float | None

    def detail(self) -> dict[str, Any]:
        """Return what the ledger notes."""
        return super().detail() | {
            "strategy": "parts",
            "epsilon_of_parts": self.selection.epsilon,
            "epsilon_of_refit": self.refit_epsilon,
        }

    def run(self, data: LabelledTable, source: RandomSource) -> tuple[int, Any]:
        """Return the chosen candidate's position and its released model."""
        *own, held_out = self.parts
        epsilon = self.selection.epsilon
        apart = source.apart(self.split)
        models = [
            candidate.fit(epsilon, data.part(rows), next(apart))
            for candidate, rows in zip(self.candidates, own, strict=True)
        ]
        unseen = data.part(held_out)
        best = self.selection.run([self.errors(m, unseen) for m in models], source=next(apart))
        if self.refit_epsilon is None:
            return best, models[best]
        return best, self.candidates[best].fit(self.refit_epsilon, data, source)


@dataclass(frozen=True, kw_only=True, eq=False)
class StoppingPlan(SelectionPlan):
    """Candidates at random, a random number of times; the run with the fewest noisy errors wins.

    Attributes
    ----------
    counts : PrivateCounts
        Noise on a run's errors.
    stopping : RandomStopping
        Law of the number of runs, which is never released.
    one : Guarantee
        What a single run promises.
    """

    counts: PrivateCounts
    stopping: RandomStopping
    one: Guarantee

    def detail(self) -> dict[str, Any]:
        """Return what the ledger notes: the law of the number of runs, not the number."""
        return super().detail() | {
            "strategy": "random-stopping",
            "epsilon_of_a_run": self.counts.epsilon,
            "stopping_shape": self.stopping.shape,
            "expected_runs": self.stopping.expected,
        }

    def run(self, data: LabelledTable, source: RandomSource) -> tuple[int, Any]:
        """Return the winner's candidate and its released model; ties go to the earlier run."""
        fitted_on, held_out = (data.part(rows) for rows in self.parts)
        n_candidates = len(self.candidates)
        best: tuple[int, int, Any] | None = None
        runs, choices = source.repeated(self.total, self.one)
        for _ in range(self.stopping.draw(choices)):
            k = min(int(choices.uniforms(1)[0] * n_candidates), n_candidates - 1)
            own = runs.apart(self.split)
            model = self.candidates[k].fit(self.counts.epsilon, fitted_on, next(own))
            wrong = np.array([self.errors(model, held_out)])
            score = int(self.counts.run(wrong, source=next(own))[0])
            if best is None or score < best[0]:
                best = score, k, model
        assert best is not None
        return best[1], best[2]


def plan_parts(
    n_samples: int,
    candidates: Sequence[Candidate],
    *,
    scoring: Scoring,
    epsilon: float,
    held_out: float,
    refit_share: float,
    rule: Rule,
    split_seed: int | None,
) -> PartsPlan:
    """Return the plan of a choice on disjoint parts."""
    n_candidates = len(candidates)
    fractions = [(1 - held_out) / n_candidates] * n_candidates + [held_out]
    parts = _split(n_samples, fractions, split_seed)
    choice, refit = (
        shares(epsilon, [1 - refit_share, refit_share]) if refit_share else (epsilon, None)
    )
    prices = [
        candidate.price(choice, len(rows))
        for candidate, rows in zip(candidates, parts[:-1], strict=True)
    ]
    selection = ErrorSelection(epsilon=choice, rule=rule, neighbours=prices[0].neighbours)
    total = in_parallel([*prices, selection.guarantee()], split=_kind(split_seed), theorem=THEOREM)
    if refit is not None:
        refits = [candidate.price(refit, n_samples) for candidate in candidates]
        total = in_sequence([total, one_of(refits)], theorem=THEOREM)
    return PartsPlan(
        candidates=candidates,
        scoring=scoring,
        parts=parts,
        split=_kind(split_seed),
        total=total,
        selection=selection,
        refit_epsilon=refit,
    )


def plan_stopping(
    n_samples: int,
    candidates: Sequence[Candidate],
    *,
    scoring: Scoring,
    epsilon: float,
    held_out: float,
    stopping: RandomStopping,
    split_seed: int | None,
) -> StoppingPlan:
    """Return the plan of a choice by random stopping."""
    parts = _split(n_samples, [1 - held_out, held_out], split_seed)
    share = epsilon / stopping.factor
    while share * stopping.factor > epsilon:
        share = math.nextafter(share, 0.0)
    prices = [candidate.price(share, len(parts[0])) for candidate in candidates]
    counts = PrivateCounts(epsilon=share, sensitivity=1, neighbours=prices[0].neighbours)
    one = in_parallel([*prices, counts.guarantee()], split=_kind(split_seed), theorem=THEOREM)
    if not one.pure or one.epsilon > share:
        raise CompositionError("random stopping needs candidates that are epsilon-DP, pure.")
    unseen = "nobody observes how many candidates were tried, nor how long that took"
    total = replace(one, epsilon=epsilon, assumptions=(*one.assumptions, unseen))
    return StoppingPlan(
        candidates=candidates,
        scoring=scoring,
        parts=parts,
        split=_kind(split_seed),
        total=total,
        counts=counts,
        stopping=stopping,
        one=one,
    )


def _split(n_samples: int, fractions: Sequence[float], seed: int | None) -> list[NDArray[np.intp]]:
    parts = split_rows(n_samples, fractions, seed=seed)
    if any(len(part) == 0 for part in parts):
        raise InvalidData(
            f"n_samples is too small: {len(fractions)} disjoint parts need one sample each."
        )
    return parts


def _kind(seed: int | None) -> Split:
    return Split.BY_INDEX if seed is None else Split.SEEDED_PERMUTATION
