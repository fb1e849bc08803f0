"""Every party releases weights, the coordinator averages them: once, or in rounds.

Proof: docs/proofs/averaging.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from confrere.federation.expected import Expected, Numbers
from confrere.federation.federation import Federation
from confrere.federation.outcome import Outcome, joined, receipts_in
from confrere.federation.payload import Payload
from confrere.federation.releasing import OBJECTIVE, OUTPUT, ReleaseRequest, longest_weights
from confrere.federation.sizes import ask_sizes
from confrere.federation.stacked import stacked
from confrere.plans.collaborative_plan import Averaging, Combine, combine_weights

Floats = NDArray[np.float64]


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
        asked = ReleaseRequest.of(plan.request(epsilon, sizes, centre))
        known = {n: _expected(plan, asked, n) for n in set(sizes.counts.values())}
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


def _expected(plan: Averaging, request: ReleaseRequest, n_samples: int) -> Expected:
    """Return what a party of that size may answer."""
    mechanism = plan.mechanism(request, n_samples)
    bound = {"weights": Numbers((plan.frame.size,), longest=longest_weights(mechanism))}
    return Expected(bound, mechanism.guarantee())


def combined(
    answers: Mapping[str, Payload], counts: Mapping[str, int], size: int, how: Combine
) -> Floats:
    """Return the parties' weights as one vector."""
    released = stacked(answers, "weights", (size,))
    return combine_weights(released, [counts[name] for name in answers], how)


def weighted_mean(answers: Mapping[str, Payload], counts: Mapping[str, int], size: int) -> Floats:
    """Return the mean of the released weights, each counted once per record."""
    return combined(answers, counts, size, "mean")
