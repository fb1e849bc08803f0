"""An average near a prior: every party answers how far it holds, then releases near it.

Proof: docs/proofs/prior_check.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from confrere.arrays import Floats
from confrere.kernel.guarantee import Guarantee, Neighbours, Split
from confrere.kernel.streams import RandomSource
from confrere.mechanisms.hidden_size import HiddenSize, RowCount
from confrere.mechanisms.prior_check import THEOREM, Belief, PriorCheck
from confrere.model import PriorFacts
from confrere.plans.base_plan import Term
from confrere.plans.checked_plan import prior_facts, rest_of
from confrere.plans.collaborative_plan import Averaging
from confrere.plans.declared_priors import Prior
from confrere.plans.linear_plan import in_ball
from confrere.plans.party_rows import PartyRows, Sizes
from confrere.rows.frame import Frame

#: Part of epsilon that pays for the check. It must not depend on sizes: parties grant prices before
#: they know who else takes part. Answers of all parties are added, so little is enough.
SHARE = 0.05


class AroundAveraging:
    """What surrounds an average and asks for it: its rounds and the prices that do not change."""

    averaging: Averaging

    @property
    def rounds(self) -> int:
        """How often parties release weights."""
        return self.averaging.rounds

    @property
    def delta(self) -> float:
        """What the average spends of it; nothing else does."""
        return self.averaging.delta

    @property
    def count_epsilon(self) -> float | None:
        """Part of epsilon for counting records."""
        return self.averaging.count_epsilon


@dataclass(frozen=True, eq=False)
class CheckedAveraging(AroundAveraging):
    """Noised answers about a prior, added up, and then an average as near to it as they say.

    Parameters
    ----------
    averaging : Averaging
        What follows, at the whole price; columns weighted as if the prior were right.
    prior : Prior
        What is checked.
    """

    averaging: Averaging
    prior: Prior

    @property
    def frame(self) -> Frame:
        """The public coordinates that weights are returned in."""
        return in_ball(self.averaging.frame)

    @property
    def check_epsilon(self) -> float:
        """What the check spends."""
        return SHARE * self.averaging.epsilon

    def check(self, sizes: Sizes) -> PriorCheck:
        """Return the check of all parties together."""
        return self._check(sizes.total, sizes.neighbours, len(sizes.counts))

    def party_check(self, n_samples: int, neighbours: Neighbours) -> PriorCheck:
        """Return what one party of that size, or of what stands for it, answers."""
        return self._check(n_samples, neighbours, 1)

    def _check(self, n_samples: int, neighbours: Neighbours, answers: int) -> PriorCheck:
        hidden = neighbours is Neighbours.ADD_REMOVE
        count: RowCount = HiddenSize(n_samples) if hidden else n_samples
        return self.prior.check(self.check_epsilon, count, neighbours, answers)

    def after(self, belief: Belief) -> Averaging:
        """Return the average that a belief calls for, at what is left of the price."""
        whole = self.averaging
        frame = replace(self.frame, feature_scale=self.prior.scale_at(belief))
        return replace(
            whole,
            frame=frame,
            epsilon=rest_of(whole.epsilon, self.check_epsilon),
            prior=self.prior.point(frame, belief),
            variance=self.prior.variance_at(belief),
            base_rate=self.prior.base_rate,
        )

    def guarantee(self, sizes: Sizes) -> Guarantee:
        """Return what check and average promise together."""
        belief = self.check(sizes).before
        price = self.after(belief).guarantee(sizes)
        return replace(price, epsilon=self.averaging.epsilon, theorem=THEOREM)

    def run(self, parties: PartyRows, sizes: Sizes, source: RandomSource) -> Floats:
        """Return the average, in the coordinates of :attr:`frame`."""
        return self.run_checked(parties, sizes, source)[0]

    def run_checked(
        self, parties: PartyRows, sizes: Sizes, source: RandomSource
    ) -> tuple[Floats, PriorFacts]:
        """Return the average, and what the check has shown."""
        own = source.stream("prior", 0).apart(Split.BY_ORGANISATION)
        seen = sum(
            self.party_check(len(y), sizes.neighbours).run(
                self.prior.scores(X), y, source=next(own)
            )
            for X, y in parties.members()
        )
        check = self.check(sizes)
        belief = check.belief(seen)
        averaging = self.after(belief)
        weights = averaging.run(parties, sizes, source)
        return self.returned(in_ball(averaging.frame), weights), prior_facts(belief, check)

    def returned(self, frame: Frame, weights: Floats) -> Floats:
        """Return weights of other coordinates in those of :attr:`frame`."""
        return self.frame.weights(*frame.coefficients(weights))

    def terms(self, parties: PartyRows, sizes: Sizes) -> list[Term]:
        """Return every party's check, and the average at what is believed before it."""
        checks = [
            Term(
                f"prior, {name}",
                self.party_check(len(y), sizes.neighbours),
                (self.prior.scores(X), y),
            )
            for name, (X, y) in zip(sizes.counts, parties.members(), strict=True)
        ]
        before = self.check(sizes).before
        return [*checks, *self.after(before).terms(parties, sizes)]

    def run_many(
        self, parties: PartyRows, sizes: Sizes, source: RandomSource, count: int
    ) -> Floats:
        """Return every party's answer and weights, one run per row."""
        answers = np.hstack(
            [
                term.run_many(source, count)
                for term in self.terms(parties, sizes)[: len(sizes.counts)]
            ]
        )
        check = self.check(sizes)
        beliefs = [check.belief(float(one)) for one in answers.sum(axis=1)]
        runs: list[Any] = [None] * count
        for belief in dict.fromkeys(beliefs):
            mine = [i for i, each in enumerate(beliefs) if each == belief]
            terms = self.after(belief).terms(parties, sizes)
            drawn = np.hstack([term.run_many(source, len(mine)) for term in terms])
            for i, row in zip(mine, drawn, strict=True):
                runs[i] = row
        return np.hstack([answers, np.vstack(runs)])
