"""Several organisations, one model: what each of them releases, and how releases are put together.

Proofs: docs/proofs/averaging.md, docs/proofs/output_perturbation.md and, for coefficients of the
expanded loss, docs/proofs/functional_mechanism.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np

from confrere.arrays import Floats
from confrere.errors import InvalidParameter
from confrere.kernel.guarantee import (
    Guarantee,
    Neighbours,
    at_most,
    check_epsilon,
    check_positive,
    exact,
    minus,
    shares,
)
from confrere.kernel.losses import loss_of
from confrere.kernel.streams import RandomSource
from confrere.maths.prior_ridge import free_ridge
from confrere.mechanisms.hidden_size import HiddenSize, RowCount
from confrere.mechanisms.objective import Objective, objective
from confrere.mechanisms.output_perturbation import OutputPerturbation
from confrere.plans.base_plan import Term
from confrere.plans.design import Allowance, Alpha, Near, ridge_for
from confrere.plans.linear_plan import Coordinates
from confrere.plans.party_rows import (
    Combine,
    PartyRows,
    Sizes,
    combine_weights,
    over_parties,
    run_parties,
)
from confrere.rows.body import BodyFrame

PartyMechanism = Objective | OutputPerturbation


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
        return objective(
            epsilon=self.epsilon,
            delta=self.delta,
            n_samples=self.rows_of(n_samples),
            norm=self.frame.bound,
            ridge=self.ridge_for(n_samples),
            loss=loss_of(self.n_classes, self.cap),
            neighbours=Neighbours(self.neighbours),
            prior_norm=0.0 if self.centre is None else float(np.linalg.norm(self.centre)),
        )

    def output(self, n_samples: int) -> OutputPerturbation:
        """Return the output perturbation of a party of that size."""
        if self.frame.norm != "l2" or self.centre is not None:
            raise InvalidParameter("output perturbation is in L2, without a prior.")
        return OutputPerturbation(
            epsilon=self.epsilon,
            n_samples=self.rows_of(n_samples),
            n_features=self.frame.size,
            ridge=self.ridge_for(n_samples),
            cap=self.cap,
            n_classes=self.n_classes,
            neighbours=Neighbours(self.neighbours),
            delta=self.delta,
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Averaging:
    """Every party releases weights, once or in rounds; their average is the model.

    Parameters
    ----------
    frame : Frame or BodyFrame
        The public coordinates; with ``norm="l1"`` the noise is Laplace's, and in a body's it is
        shaped like the rows, with the ridge that the body was made for.
    epsilon : float
        What each party spends in all.
    delta : float, default=0.0
        With one the noise is Gaussian; rounds divide it as they divide epsilon.
    n_classes : int, default=2
        More than two have the softmax loss, which has no cap and no prior.
    alpha : float or "auto", default="auto"
        Ridge per record of a party. ``"auto"`` is the public rule with N = the records of all
        parties together, since their average is what is used.
    cap : float, default=0.5
        Largest slope of the loss; 1 is the logistic loss.
    prior : array, optional
        Public weights to shrink towards, in the frame's coordinates.
    rounds : int, default=1
        With more than one, epsilon is divided equally, and what was averaged in a round is what
        parties shrink towards in the next.
    perturb : {"objective", "output"}, default="objective"
        Where noise enters.
    count_epsilon : float, optional
        Part of epsilon for counting records privately, under add-remove neighbours; by default
        sizes are declared and neighbours replace one record.
    variance : float, optional
        Of the log odds around ``prior``, where it is known: the automatic ridge follows from it,
        and from the curvature that ``base_rate`` implies.
    base_rate : float, default=0.5
        Declared share of positive rows.
    stop_below : float, default=0.0
        Stop before the last round once the average moves by less than this (the papers' eta): a
        decision on what was released, so it costs nothing, and what is left is not spent.
    combine : {"mean", "trimmed", "median"}, default="mean"
        What is made of the parties' weights: their mean by records; or, coordinate by coordinate
        and with one vote per party, the mean without the largest and smallest fifth (one at least
        of each), or the median. The last two bound what parties that lie can do, at the cost of
        what sizes tell.
    """

    frame: Coordinates
    epsilon: float
    delta: float = 0.0
    n_classes: int = 2
    alpha: Alpha = "auto"
    cap: float = 0.5
    prior: Floats | None = None
    rounds: int = 1
    perturb: Literal["objective", "output"] = "objective"
    count_epsilon: float | None = None
    combine: Combine = "mean"
    stop_below: float = 0.0
    variance: float | None = None
    base_rate: float = 0.5

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        if self.alpha != "auto":
            check_positive(self.alpha, "alpha")
        if isinstance(self.rounds, bool) or not 1 <= self.rounds <= 1000:
            raise InvalidParameter("rounds must be a whole number from 1 to 1000.")
        if self.perturb not in ("objective", "output"):
            raise InvalidParameter("perturb must be 'objective' or 'output'.")
        if self.perturb == "output" and (self.rounds > 1 or self.prior is not None):
            raise InvalidParameter(
                "output perturbation has neither rounds nor a prior; use perturb='objective'."
            )
        if not 0 <= self.stop_below < math.inf:
            raise InvalidParameter("stop_below must be a number, 0 or more.")
        if self.n_classes > 2 and (self.prior is not None or self.cap < 1):
            raise InvalidParameter("prior and loss='capped' are for two classes.")
        if self.combine not in get_args(Combine):
            raise InvalidParameter("combine must be 'mean', 'trimmed' or 'median'.")
        if isinstance(self.frame, BodyFrame) and self.perturb == "output":
            raise InvalidParameter("noise='schema' is in the objective; use 'ball'.")
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
    def shape(self) -> tuple[int, ...]:
        """Shape of the weights."""
        return (self.frame.size,) if self.n_classes == 2 else (self.n_classes, self.frame.size)

    @property
    def round_delta(self) -> float:
        """What each round spends of delta: no more, in decimals, than its part."""
        part = self.delta / self.rounds
        while exact(part) * self.rounds > exact(self.delta):
            part = math.nextafter(part, 0.0)
        return part

    def request(self, epsilon: float, sizes: Sizes, centre: Floats | None) -> WeightRequest:
        """Return what parties are asked in a round."""
        size, total = self.frame.size, sizes.total
        hidden = sizes.neighbours is Neighbours.ADD_REMOVE
        allowed = Allowance(
            epsilon=epsilon,
            delta=self.round_delta,
            loss=loss_of(self.n_classes, self.cap),
            count=HiddenSize(total) if hidden else total,
        )
        alpha = 0.0
        if self.alpha != "auto":
            alpha = float(self.alpha)
            ridge = free_ridge(allowed.budget)
        elif isinstance(self.frame, BodyFrame):
            ridge = self.frame.ridge
        else:
            # Laplace noise on d coordinates has the variance of L2 noise in two dimensions, and
            # rows of the L1 ball are shorter by sqrt(d): d^3 becomes 2 d^2.
            short = self.frame.norm == "l1"
            near = None
            if self.variance is not None and not short:
                near = Near(variance=self.variance, base_rate=self.base_rate)
            ridge = ridge_for(
                allowed, 2 if short else size, near=near, spread=size if short else None
            )
            if self.perturb == "output":
                # Noise on the minimiser is not damped by the data's curvature, which for unit
                # rows is n/(4d) per direction: a ridge below it would only let noise in.
                alpha = 1 / (4 * size)
        declared = 0
        if hidden:
            # A party's own size is not public: the average of the counted ones stands for it.
            declared = math.ceil(total / len(sizes.counts))
            ridge, alpha = max(ridge, alpha * total / len(sizes.counts)), 0.0
        return WeightRequest(
            frame=self.frame,
            epsilon=float(epsilon),
            ridge=ridge,
            alpha=alpha,
            cap=self.cap,
            n_classes=self.n_classes,
            delta=self.round_delta,
            neighbours=str(sizes.neighbours),
            declared=declared,
            centre=centre,
        )

    def mechanism(self, request: WeightRequest, n_samples: int) -> PartyMechanism:
        """Return what a party of that size runs in a round."""
        if self.perturb == "objective":
            return request.objective(n_samples)
        return request.output(n_samples)

    def guarantee(self, sizes: Sizes) -> Guarantee:
        """Return what all rounds promise together, for parties of these public sizes."""
        request = self.request(self.round_epsilons[0], sizes, self.prior)
        prices = [
            replace(self.mechanism(request, n).guarantee(), epsilon=self.epsilon, delta=self.delta)
            for n in sorted(set(sizes.counts.values()))
        ]
        return over_parties(prices, len(sizes.counts))

    def run(self, parties: PartyRows, sizes: Sizes, source: RandomSource) -> Floats:
        """Return the average of the last round, weighted by records."""
        centre = self.prior
        for step, epsilon in enumerate(self.round_epsilons):
            request = self.request(epsilon, sizes, centre)
            mechanisms = {n: self.mechanism(request, n) for n in parties.distinct_sizes}
            stream = source.stream(self.perturb, step)
            released = run_parties(mechanisms, parties, self.frame, source=stream, centre=centre)
            before, centre = centre, combine_weights(released, parties.sizes.tolist(), self.combine)
            if self.settled(step, before, centre):
                break
        assert centre is not None
        return centre

    def settled(self, step: int, before: Floats | None, after: Floats) -> bool:
        """Whether the average of a round is so near to the one before that it may be the last."""
        if step == 0 or before is None:
            return False
        return float(np.linalg.norm(after - before)) < self.stop_below

    def terms(self, parties: PartyRows, sizes: Sizes) -> list[Term]:
        """Return every party's mechanism and rows."""
        if self.rounds > 1:
            raise InvalidParameter(
                "rounds: releases that follow one another have no simple density."
            )
        request = self.request(self.round_epsilons[0], sizes, self.prior)
        named = zip(sizes.counts, parties.members(), strict=True)
        return [
            Term(name, self.mechanism(request, len(y)), *self._seen(X, y)) for name, (X, y) in named
        ]

    def _seen(self, X: Any, y: Floats) -> tuple[tuple[Any, Any], dict[str, Any]]:
        """Return what a party's mechanism is given, and the settings that it takes."""
        rows = self.frame.rows(X)
        if self.perturb == "output":
            return (rows, y), {}
        return ([rows], y), {"centres": [self.prior]}
