"""A private choice among settings, planned from public facts: what it costs, then what it does."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confrere.errors import CompositionError, InvalidData
from confrere.guarantee import Guarantee, Split, in_parallel, in_sequence, one_of, shares
from confrere.maths.partition import split_rows
from confrere.mechanisms.counts import PrivateCounts
from confrere.mechanisms.selection import THEOREM, ErrorSelection, RandomStopping, Rule
from confrere.noise.sources import RandomSource

#: Fits candidate ``k`` at a price on some rows: ``fit(k, epsilon, rows, source)``.
Fit = Callable[[int, float, NDArray[np.intp] | None, RandomSource], Any]
#: Counts a fitted model's errors on some rows.
Errors = Callable[[Any, NDArray[np.intp]], int]
#: What candidate ``k`` costs at an epsilon on a number of rows: ``price(k, epsilon, n_rows)``.
Price = Callable[[int, float, int], Guarantee]


@dataclass(frozen=True)
class PartsPlan:
    """Every candidate on a part of its own, the choice on another, then perhaps a refit on all.

    Attributes
    ----------
    parts : list of int arrays
        One per candidate, and the held-out one last.
    selection : ErrorSelection
        The choice among the candidates' errors.
    refit_epsilon : float or None
        What is kept for fitting the chosen candidate on all rows.
    price : Guarantee
        Of all of it.
    """

    parts: list[NDArray[np.intp]]
    selection: ErrorSelection
    refit_epsilon: float | None
    price: Guarantee

    def detail(self) -> dict[str, Any]:
        """Return what the ledger notes."""
        return {
            "method": "parts",
            "rows": [len(part) for part in self.parts],
            "epsilon_of_parts": self.selection.epsilon,
            "epsilon_of_refit": self.refit_epsilon,
        }

    def run(self, fit: Fit, errors: Errors, source: RandomSource) -> tuple[int, Any]:
        """Return the chosen candidate's position and its released model."""
        *own, held_out = self.parts
        epsilon = self.selection.epsilon
        models = [fit(k, epsilon, rows, source) for k, rows in enumerate(own)]
        best = self.selection.run([errors(model, held_out) for model in models], source=source)
        if self.refit_epsilon is None:
            return best, models[best]
        return best, fit(best, self.refit_epsilon, None, source)


@dataclass(frozen=True)
class StoppingPlan:
    """Candidates at random, a random number of times; the run with the fewest noisy errors wins.

    Attributes
    ----------
    parts : list of int arrays
        Rows that candidates are fitted on, and the held-out ones.
    counts : PrivateCounts
        Noise on a run's errors.
    stopping : RandomStopping
        Law of the number of runs, which is never told.
    n_candidates : int
        How many there are to draw from.
    price : Guarantee
        Of all of it.
    """

    parts: list[NDArray[np.intp]]
    counts: PrivateCounts
    stopping: RandomStopping
    n_candidates: int
    price: Guarantee

    def detail(self) -> dict[str, Any]:
        """Return what the ledger notes: the law of the number of runs, not the number."""
        return {
            "method": "random-stopping",
            "rows": [len(part) for part in self.parts],
            "epsilon_of_a_run": self.counts.epsilon,
            "eta": self.stopping.eta,
            "expected_runs": self.stopping.expected,
        }

    def run(self, fit: Fit, errors: Errors, source: RandomSource) -> tuple[int, Any]:
        """Return the winner's candidate and its released model; ties go to the earlier run."""
        fitted_on, held_out = self.parts
        best: tuple[int, int, Any] | None = None
        for _ in range(self.stopping.draw(source)):
            k = min(int(source.uniforms(1)[0] * self.n_candidates), self.n_candidates - 1)
            model = fit(k, self.counts.epsilon, fitted_on, source)
            wrong = np.array([errors(model, held_out)])
            score = int(self.counts.run(wrong, source=source)[0])
            if best is None or score < best[0]:
                best = score, k, model
        assert best is not None
        return best[1], best[2]


def plan_parts(
    n_samples: int,
    n_candidates: int,
    price: Price,
    *,
    epsilon: float,
    held_out: float,
    refit_share: float,
    rule: Rule,
    split_seed: int | None,
) -> PartsPlan:
    """Return the plan of a choice on disjoint parts."""
    fractions = [(1 - held_out) / n_candidates] * n_candidates + [held_out]
    parts = _split(n_samples, fractions, split_seed)
    choice, refit = (
        shares(epsilon, [1 - refit_share, refit_share]) if refit_share else (epsilon, None)
    )
    prices = [price(k, choice, len(rows)) for k, rows in enumerate(parts[:-1])]
    selection = ErrorSelection(epsilon=choice, rule=rule, neighbours=prices[0].neighbours)
    total = in_parallel([*prices, selection.guarantee()], split=_kind(split_seed), theorem=THEOREM)
    if refit is not None:
        refits = [price(k, refit, n_samples) for k in range(n_candidates)]
        total = in_sequence([total, one_of(refits)], theorem=THEOREM)
    return PartsPlan(parts, selection, refit, total)


def plan_stopping(
    n_samples: int,
    n_candidates: int,
    price: Price,
    *,
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
    prices = [price(k, share, len(parts[0])) for k in range(n_candidates)]
    counts = PrivateCounts(epsilon=share, sensitivity=1, neighbours=prices[0].neighbours)
    one = in_parallel([*prices, counts.guarantee()], split=_kind(split_seed), theorem=THEOREM)
    if not one.pure or one.epsilon > share:
        raise CompositionError("random stopping needs candidates that are epsilon-DP, pure.")
    unseen = "nobody observes how many candidates were tried, nor how long that took"
    total = replace(one, epsilon=epsilon, assumptions=(*one.assumptions, unseen))
    return StoppingPlan(parts, counts, stopping, n_candidates, total)


def candidate_names(candidates: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the candidates as text, for the ledger."""
    return [", ".join(f"{k}={v!r}" for k, v in sorted(each.items())) for each in candidates]


def _split(n_samples: int, fractions: Sequence[float], seed: int | None) -> list[NDArray[np.intp]]:
    parts = split_rows(n_samples, fractions, seed=seed)
    if any(len(part) == 0 for part in parts):
        raise InvalidData(
            f"n_samples = {n_samples} is too few for {len(fractions)} disjoint parts."
        )
    return parts


def _kind(seed: int | None) -> Split:
    return Split.BY_INDEX if seed is None else Split.SEEDED_PERMUTATION
