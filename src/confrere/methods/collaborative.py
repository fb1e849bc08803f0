"""Several organisations, one model: what each of them releases, and how releases are averaged.

Proofs: docs/proofs/averaging.md, docs/proofs/output_perturbation.md and, of a prior that parties
answer about first, docs/proofs/prior_check.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
from typing_extensions import override

from confrere.arrays import Floats
from confrere.errors import InvalidParameter
from confrere.kernel.guarantee import Guarantee, Neighbours, Split, at_most, exact, minus, shares
from confrere.kernel.losses import loss_of
from confrere.kernel.streams import RandomSource
from confrere.maths.prior_ridge import free_ridge
from confrere.mechanisms.measurements import Columns, HiddenSize, Objective, RowCount
from confrere.mechanisms.output_perturbation import OutputPerturbation
from confrere.mechanisms.prior_check import THEOREM, Belief, PriorCheck
from confrere.methods.checked import prior_facts, rest_of
from confrere.methods.design import SOLVER, Allowance, ridge_for
from confrere.methods.linear import Coordinates
from confrere.methods.party_rows import (
    Combine,
    PartyRows,
    Sizes,
    combine_weights,
    over_parties,
    run_parties,
)
from confrere.methods.plan import Term
from confrere.methods.priors import Prior
from confrere.methods.together import Collaboration, Combined
from confrere.rows.body import BodyFrame

PartyMechanism = Objective | OutputPerturbation

#: Part of epsilon that pays for a check of a prior. It must not depend on sizes: parties grant
#: prices before they know who else takes part. Answers of all are added, so little is enough.
CHECK_SHARE = 0.05


@dataclass(frozen=True, kw_only=True, eq=False)
class WeightRequest:
    """What a party is asked for when it is asked for weights.

    Parameters
    ----------
    frame : Frame or BodyFrame
        The public coordinates; noise is shaped like a body's rows.
    epsilon : float
        What one answer may spend.
    ridge : float
        Smallest ridge of a party's summed objective.
    alpha : float, default=0.0
        Ridge per record; a party of ``n`` records uses ``max(ridge, n alpha)``.
    cap : float, default=1.0
        Largest slope of the loss.
    n_classes : int, default=2
        More than two have the softmax loss.
    delta : float, default=0.0
        What one answer may spend of it; with one the noise is Gaussian.
    neighbours : str
        The relation that the answer's guarantee speaks of.
    declared : int, default=0
        Under add-remove neighbours: what stands for every party's number of records.
    centre : array, optional
        Public point to shrink towards, in the frame's coordinates.
    """

    frame: Coordinates
    epsilon: float
    ridge: float
    alpha: float = 0.0
    cap: float = 1.0
    n_classes: int = 2
    delta: float = 0.0
    neighbours: str = "replace-one"
    declared: int = 0
    centre: Floats | None = None

    def ridge_for(self, n_samples: int) -> float:
        """Return the ridge of a party of that size."""
        if self.alpha > 0 and self.neighbours == Neighbours.ADD_REMOVE:
            raise InvalidParameter("alpha: under add-remove neighbours a ridge must not follow n.")
        return max(self.ridge, n_samples * self.alpha)

    def rows_of(self, n_samples: int) -> RowCount:
        """Return a party's number of records, or under add-remove what stands for all of them."""
        if self.neighbours == Neighbours.ADD_REMOVE:
            return HiddenSize(self.declared)
        return n_samples

    def objective(self, n_samples: int) -> Objective:
        """Return the mechanism of a party of that size, which knows its price."""
        common = self._common(n_samples)
        return Objective(
            blocks=(Columns(self.frame.bound, common.pop("ridge")),),
            loss=loss_of(self.n_classes, self.cap),
            solver=SOLVER,
            **common,
        )

    def output(self, n_samples: int) -> OutputPerturbation:
        """Return the output perturbation of a party of that size."""
        return OutputPerturbation(
            n_features=self.frame.size,
            cap=self.cap,
            n_classes=self.n_classes,
            **self._common(n_samples),
        )

    def _common(self, n_samples: int) -> dict[str, Any]:
        return {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "n_samples": self.rows_of(n_samples),
            "ridge": self.ridge_for(n_samples),
            "neighbours": Neighbours(self.neighbours),
            "prior_norm": 0.0 if self.centre is None else float(np.linalg.norm(self.centre)),
        }


@dataclass(frozen=True, kw_only=True, eq=False)
class Averaging(Collaboration):
    """Every party releases weights, once or in rounds; their average is the model.

    Parameters
    ----------
    frame, epsilon, delta, n_classes, cap, prior, belief
        As for :class:`~confrere.methods.together.Collaboration`; with ``norm="l1"`` the noise is
        Laplace's, and in a body's it is shaped like the rows, with the ridge that the body was made
        for.
    alpha : float or "auto", default="auto"
        Ridge per record of a party. ``"auto"`` is the public rule with N = the records of all
        parties together, since their average is what is used.
    rounds : int, default=1
        With more than one, epsilon is divided equally, and what was averaged in a round is what
        parties shrink towards in the next.
    perturb : {"objective", "output"}, default="objective"
        Where noise enters.
    checked : bool, default=False
        Every party first answers how far the prior holds; the average is as near to it as the
        answers say together.
    count_epsilon : float, optional
        Part of epsilon for counting records privately, under add-remove neighbours; by default
        sizes are declared and neighbours replace one record.
    stop_below : float, default=0.0
        Stop before the last round once the average moves by less than this (the papers' eta): a
        decision on what was released, so it costs nothing, and what is left is not spent.
    combine : {"mean", "trimmed", "median"}, default="mean"
        What is made of the parties' weights: their mean by records; or, coordinate by coordinate
        and with one vote per party, the mean without the largest and smallest fifth (one at least
        of each), or the median. The last two bound what parties that lie can do, at the cost of
        what sizes tell.
    """

    perturb: Literal["objective", "output"] = "objective"
    checked: bool = False
    count_epsilon: float | None = None
    combine: Combine = "mean"
    stop_below: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.rounds, bool) or not 1 <= self.rounds <= 1000:
            raise InvalidParameter("rounds must be a whole number from 1 to 1000.")
        if self.perturb not in ("objective", "output"):
            raise InvalidParameter("perturb must be 'objective' or 'output'.")
        if not 0 <= self.stop_below < math.inf:
            raise InvalidParameter("stop_below must be a number, 0 or more.")
        if self.combine not in get_args(Combine):
            raise InvalidParameter("combine must be 'mean', 'trimmed' or 'median'.")
        if self.checked and not isinstance(self.prior, Prior):
            raise InvalidParameter("prior must say something of columns where it is checked.")
        if self.count_epsilon is not None and not 0 < self.count_epsilon < self.epsilon:
            raise InvalidParameter("count_epsilon must be a part of epsilon.")

    @property
    def round_epsilons(self) -> tuple[float, ...]:
        """What each round spends."""
        left = self.epsilon
        if self.count_epsilon is not None:
            left = at_most(minus(exact(self.epsilon), exact(self.count_epsilon)))
        parts = shares(left, [1.0] * self.rounds) if self.rounds > 1 else (left,)
        # Ledgers add the decimals that floats print as: eleven times 1/11 would be above one.
        while sum(map(exact, parts)) > exact(left):
            parts = tuple(math.nextafter(part, 0.0) for part in parts)
        return parts

    @property
    def round_delta(self) -> float:
        """What each round spends of delta: no more, in decimals, than its part."""
        part = self.delta / self.rounds
        while exact(part) * self.rounds > exact(self.delta):
            part = math.nextafter(part, 0.0)
        return part

    @override
    def allowed(self, sizes: Sizes) -> Allowance:
        return super().allowed(sizes).at(epsilon=self.round_epsilons[0], delta=self.round_delta)

    def request(self, epsilon: float, sizes: Sizes, centre: Floats | None) -> WeightRequest:
        """Return what parties are asked in a round."""
        frame, size = self.space, self.space.size
        allowed, alpha = self.allowed(sizes).at(epsilon=epsilon), 0.0
        # Laplace noise on d coordinates has the variance of L2 noise in two dimensions, and
        # rows of the L1 ball are shorter by sqrt(d): d^3 becomes 2 d^2.
        short = frame.norm == "l1"
        if self.alpha != "auto":
            alpha = float(self.alpha)
            ridge = free_ridge(allowed.budget)
        elif isinstance(frame, BodyFrame):
            ridge = frame.ridge
        else:
            near = None if short or self.perturb == "output" else self.near
            ridge = ridge_for(
                allowed, 2 if short else size, near=near, spread=size if short else None
            )
        if self.alpha == "auto" and self.perturb == "output":
            # Noise on the minimiser is not damped by the data's curvature, which for unit rows is
            # n/(4d) per direction: a ridge below it would only let noise in.
            alpha = 1 / (4 * size)
        if sizes.hidden:
            # A party's own size is not public: the average of the counted ones stands for it.
            ridge, alpha = max(ridge, alpha * sizes.total / len(sizes.counts)), 0.0
        return WeightRequest(
            frame=frame,
            epsilon=float(epsilon),
            ridge=ridge,
            alpha=alpha,
            cap=self.cap,
            n_classes=self.n_classes,
            delta=self.round_delta,
            neighbours=str(sizes.neighbours),
            declared=sizes.part if sizes.hidden else 0,
            centre=centre,
        )

    def mechanism(self, request: WeightRequest, n_samples: int) -> PartyMechanism:
        """Return what a party of that size runs in a round."""
        if self.perturb == "objective":
            return request.objective(n_samples)
        return request.output(n_samples)

    @override
    def guarantee(self, sizes: Sizes) -> Guarantee:
        if self.checked:
            price = self.after(self.check(sizes).before).guarantee(sizes)
            return replace(price, epsilon=self.epsilon, theorem=THEOREM)
        made = self.at(sizes)
        request = made.request(self.round_epsilons[0], sizes, made.centre)
        prices = [
            replace(made.mechanism(request, n).guarantee(), epsilon=self.epsilon, delta=self.delta)
            for n in sorted(set(sizes.counts.values()))
        ]
        return over_parties(prices, len(sizes.counts))

    @override
    def run(self, parties: PartyRows, sizes: Sizes, source: RandomSource) -> Combined:
        if self.checked:
            own = source.stream("prior", 0).apart(Split.BY_ORGANISATION)
            terms = self._checks(parties, sizes)
            seen = sum(term.mechanism.run(*term.data, source=next(own)) for term in terms)
            check = self.check(sizes)
            belief = check.belief(seen)
            found = self.after(belief).run(parties, sizes, source)
            return replace(found, prior=prior_facts(belief, check))
        made = self.at(sizes)
        centre = made.centre
        for step, epsilon in enumerate(self.round_epsilons):
            request = made.request(epsilon, sizes, centre)
            mechanisms = {n: self.mechanism(request, n) for n in parties.distinct_sizes}
            stream = source.stream(self.perturb, step)
            released = run_parties(mechanisms, parties, made.space, source=stream, centre=centre)
            before = centre
            centre = combine_weights(released, list(sizes.counts.values()), self.combine)
            if self.settled(step, before, centre):
                break
        assert centre is not None
        return Combined(made.space, centre)

    def settled(self, step: int, before: Floats | None, after: Floats) -> bool:
        """Whether the average of a round is so near to the one before that it may be the last."""
        if step == 0 or before is None:
            return False
        return float(np.linalg.norm(after - before)) < self.stop_below

    @override
    def terms(self, parties: PartyRows, sizes: Sizes) -> list[Term]:
        if self.checked:  # and the average at what is believed before
            after = self.after(self.check(sizes).before)
            return [*self._checks(parties, sizes), *after.terms(parties, sizes)]
        if self.rounds > 1:
            raise InvalidParameter(
                "rounds: releases that follow one another have no simple density."
            )
        made = self.at(sizes)
        request = made.request(self.round_epsilons[0], sizes, made.centre)
        named = zip(sizes.counts, parties.members(), strict=True)
        return [
            Term(name, made.mechanism(request, len(y)), *made._seen(X, y)) for name, (X, y) in named
        ]

    def _seen(self, X: Any, y: Floats) -> tuple[tuple[Any, Any], dict[str, Any]]:
        """Return what a party's mechanism is given, and the settings that it takes."""
        rows = self.space.rows(X)
        if self.perturb == "output":
            return (rows, y), {"centre": self.centre}
        return ([rows], y), {"centres": [self.centre]}

    # --- a prior that is checked ------------------------------------------------------------------

    @property
    def check_epsilon(self) -> float:
        """What a check spends."""
        return CHECK_SHARE * self.epsilon

    def check(self, sizes: Sizes) -> PriorCheck:
        """Return the check of all parties together."""
        return self._check(sizes.all_records, sizes, len(sizes.counts))

    def party_check(self, n_samples: int, sizes: Sizes) -> PriorCheck:
        """Return what one party of that size, or of what stands for it, answers."""
        return self._check(sizes.count(n_samples), sizes, 1)

    def _check(self, count: RowCount, sizes: Sizes, answers: int) -> PriorCheck:
        assert isinstance(self.prior, Prior)
        return self.prior.check(self.check_epsilon, count, sizes.neighbours, answers)

    def _checks(self, parties: PartyRows, sizes: Sizes) -> list[Term]:
        """Return every party's check."""
        assert isinstance(self.prior, Prior)
        return [
            Term(f"prior, {name}", self.party_check(len(y), sizes), (self.prior.scores(X), y))
            for name, (X, y) in zip(sizes.counts, parties.members(), strict=True)
        ]

    def after(self, belief: Belief) -> Averaging:
        """Return the average that a belief calls for, at what is left of the price."""
        left = rest_of(self.epsilon, self.check_epsilon)
        return replace(self, checked=False, belief=belief, epsilon=left)

    @override
    def run_many(
        self, parties: PartyRows, sizes: Sizes, source: RandomSource, count: int
    ) -> Floats:
        if not self.checked:
            return super().run_many(parties, sizes, source, count)
        answers = np.hstack([term.run_many(source, count) for term in self._checks(parties, sizes)])
        check = self.check(sizes)
        beliefs = [check.belief(float(one)) for one in answers.sum(axis=1)]
        runs: list[Any] = [None] * count
        for belief in dict.fromkeys(beliefs):
            mine = [i for i, each in enumerate(beliefs) if each == belief]
            drawn = self.after(belief).run_many(parties, sizes, source, len(mine))
            for i, row in zip(mine, drawn, strict=True):
                runs[i] = row
        return np.hstack([answers, np.vstack(runs)])
