"""Every party releases weights, the coordinator averages them: once, or in rounds.

Proof: docs/proofs/averaging.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from confrere.errors import InvalidParameter
from confrere.federation.expected import Expected, Numbers
from confrere.federation.federation import Federation
from confrere.federation.operation import Facts
from confrere.federation.outcome import Outcome, joined, over_parties, receipts_in
from confrere.federation.payload import Payload
from confrere.federation.releasing import OBJECTIVE, OUTPUT, ReleaseRequest, longest_weights
from confrere.federation.sizes import Sizes, ask_sizes
from confrere.federation.stacked import stacked
from confrere.guarantee import Guarantee, Neighbours, check_epsilon, shares
from confrere.ledger.amounts import at_most, exact, minus
from confrere.maths.calibration import automatic_ridge, free_ridge
from confrere.mechanisms.objective_perturbation import SOLVER_SHARE, Calibration
from confrere.rows.frame import Frame

Floats = NDArray[np.float64]
Alpha = float | Literal["auto"]
Combine = Literal["mean", "trimmed", "median"]

#: Share of the parties that a trimmed mean leaves out at either end.
_TRIMMED = 0.2


@dataclass(frozen=True, kw_only=True, eq=False)
class Averaging:
    """How parties release and how often.

    Parameters
    ----------
    frame : Frame
        The public coordinates; with ``norm="l1"`` the noise is Laplace's.
    epsilon : float
        What each party spends in all.
    alpha : float or "auto", default="auto"
        Ridge per record of a party. ``"auto"`` is the public rule with N = the records of all
        parties together, since their average is what is used.
    cap : float, default=0.5
        Largest slope of the loss; 1 is the logistic loss.
    calibration : {"tight", "printed"}
        Of the noise.
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
    combine : {"mean", "trimmed", "median"}, default="mean"
        What is made of the parties' weights: their mean by records; or, coordinate by coordinate
        and with one vote per party, the mean without the largest and smallest fifth (one at least
        of each), or the median. The last two bound what parties that lie can do, at the cost of
        what sizes tell.
    """

    frame: Frame
    epsilon: float
    alpha: Alpha = "auto"
    cap: float = 0.5
    calibration: Calibration = "tight"
    prior: Floats | None = None
    rounds: int = 1
    perturb: Literal["objective", "output"] = "objective"
    count_epsilon: float | None = None
    combine: Combine = "mean"

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        if self.alpha != "auto":
            check_epsilon(self.alpha, "alpha")
        if isinstance(self.rounds, bool) or not 1 <= self.rounds <= 1000:
            raise InvalidParameter("rounds must be a whole number from 1 to 1000.")
        if self.perturb not in ("objective", "output"):
            raise InvalidParameter("perturb must be 'objective' or 'output'.")
        if self.perturb == "output" and (self.rounds > 1 or self.prior is not None):
            raise InvalidParameter(
                "output perturbation has neither rounds nor a prior; use perturb='objective'."
            )
        if self.combine not in get_args(Combine):
            raise InvalidParameter("combine must be 'mean', 'trimmed' or 'median'.")
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

    def request(self, epsilon: float, sizes: Sizes, centre: Floats | None) -> ReleaseRequest:
        """Return what parties are asked in a round."""
        budget = epsilon * (1 - SOLVER_SHARE)
        alpha = 0.0
        if self.alpha != "auto":
            alpha = float(self.alpha)
            ridge = free_ridge(budget) if self.calibration == "tight" else 0.0
        elif self.frame.norm == "l1":
            # Laplace noise on d coordinates has the variance of L2 noise in two dimensions, and
            # rows of the L1 ball are shorter by sqrt(d): d^3 becomes 2 d^2.
            k = 0.3 if self.cap < 1 else 1.0
            ridge = max(free_ridge(budget), 2 * k * self.frame.size**2 / (sizes.total * budget**2))
        else:
            ridge = automatic_ridge(budget, sizes.total, self.frame.size, capped=self.cap < 1)
            if self.perturb == "output":
                # Noise on the minimiser is not damped by the data's curvature, which for unit
                # rows is n/(4d) per direction: a ridge below it would only let noise in.
                alpha = 1 / (4 * self.frame.size)
        declared = 0
        if sizes.neighbours is Neighbours.ADD_REMOVE:
            # A party's own size is not public: the average of the counted ones stands for it.
            declared = math.ceil(sizes.total / len(sizes.counts))
            ridge, alpha = max(ridge, alpha * sizes.total / len(sizes.counts)), 0.0
        return ReleaseRequest(
            frame=self.frame,
            epsilon=float(epsilon),
            ridge=ridge,
            alpha=alpha,
            cap=self.cap,
            calibration=self.calibration,
            neighbours=str(sizes.neighbours),
            declared=declared,
            centre=centre,
        )

    def expected(self, request: ReleaseRequest, n_samples: int) -> Expected:
        """Return what a party of that size may answer."""
        facts = Facts(n_samples, self.frame.n_features)
        objective = self.perturb == "objective"
        mechanism = request.objective(facts) if objective else request.output(facts)
        bound = {"weights": Numbers((self.frame.size,), longest=longest_weights(mechanism))}
        return Expected(bound, mechanism.guarantee())

    def guarantee(self, sizes: Sizes) -> Guarantee:
        """Return what all rounds promise together, for parties of these public sizes."""
        request = self.request(self.round_epsilons[0], sizes, self.prior)
        mechanism = request.objective if self.perturb == "objective" else request.output
        facts = [Facts(n, self.frame.n_features) for n in sorted(set(sizes.counts.values()))]
        prices = [replace(mechanism(f).guarantee(), epsilon=self.epsilon) for f in facts]
        return over_parties(prices, len(sizes.counts))


def average(
    federation: Federation,
    plan: Averaging,
    *,
    quorum: float = 1.0,
    timeout: float | None = None,
) -> Outcome:
    """Run the protocol.

    Parameters
    ----------
    federation : Federation
        Whom to ask, and under which run.
    plan : Averaging
        What to ask.
    quorum : float, default=1.0
        Share of the parties that must answer in every round.
    timeout : float, optional
        Seconds to wait for a round.

    Returns
    -------
    Outcome
        The average of the last round, weighted by records.
    """
    sizes = ask_sizes(federation, count_epsilon=plan.count_epsilon, quorum=quorum, timeout=timeout)
    operation = OBJECTIVE if plan.perturb == "objective" else OUTPUT
    names: Sequence[str] = list(sizes.counts)
    receipts = dict(sizes.receipts)
    centre = plan.prior
    for step, epsilon in enumerate(plan.round_epsilons):
        asked = plan.request(epsilon, sizes, centre)
        known = {n: plan.expected(asked, n) for n in set(sizes.counts.values())}
        answers = federation.gather(
            operation.name,
            asked.to_payload(),
            to=names,
            step=step,
            quorum=quorum,
            timeout=timeout,
            expect=lambda name, known=known: known[sizes.counts[name]],  # type: ignore[misc]
        )
        receipts = joined(receipts, receipts_in(answers))
        centre = combined(answers, sizes.counts, plan.frame.size, plan.combine)
    assert centre is not None
    return Outcome(plan.frame, centre, {n: sizes.counts[n] for n in answers}, receipts)


def combined(
    answers: Mapping[str, Payload], counts: Mapping[str, int], size: int, how: Combine
) -> Floats:
    """Return the parties' weights as one vector."""
    if how == "mean":
        return weighted_mean(answers, counts, size)
    released = np.sort(stacked(answers, "weights", (size,)), axis=0)
    cut = (len(released) - 1) // 2
    if how == "trimmed":
        cut = min(cut, max(1, int(_TRIMMED * len(released))))
    return _sum(released[cut : len(released) - cut]) / (len(released) - 2 * cut)


def weighted_mean(answers: Mapping[str, Payload], counts: Mapping[str, int], size: int) -> Floats:
    """Return the mean of the released weights, each counted once per record."""
    released = stacked(answers, "weights", (size,))
    shares_ = np.array([counts[name] for name in answers], dtype=np.float64)
    return _sum((shares_ / shares_.sum())[:, None] * released)


def _sum(rows: Floats) -> Floats:
    # One after the other: a party that adds up on another machine gets the same bits.
    return np.asarray(np.add.accumulate(rows, axis=0)[-1])
