"""Every party releases the coefficients of its expanded loss once; their sum is minimised (OFAA).

Proof: docs/proofs/functional_mechanism.md.
"""

from __future__ import annotations

from confrere.federation.coefficients import COEFFICIENTS, CoefficientRequest
from confrere.federation.federation import Federation
from confrere.federation.outcome import Outcome, receipts_in
from confrere.federation.sizes import ask_sizes
from confrere.federation.stacked import stacked
from confrere.plans.expansion_plan import Expansion


def expand(
    federation: Federation,
    plan: Expansion,
    *,
    quorum: float = 1.0,
    timeout: float | None = None,
) -> Outcome:
    """Run the protocol; whatever follows the parties' one answer is post-processing.

    Parameters
    ----------
    federation : Federation
        Whom to ask, and under which run.
    plan : Expansion
        What to ask.
    quorum, timeout
        As for :meth:`~confrere.federation.Federation.gather`.
    """
    sizes = ask_sizes(federation, quorum=quorum, timeout=timeout)
    asked = CoefficientRequest.of(plan)
    answers = federation.gather(
        COEFFICIENTS.name,
        asked.to_payload(),
        to=list(sizes.counts),
        quorum=quorum,
        timeout=timeout,
        expect=lambda name: asked.expected(sizes.counts[name]),
    )
    size = plan.frame.size
    linear = stacked(answers, "linear", (size,))
    packed = stacked(answers, "quadratic", (size * (size + 1) // 2,))
    weights = plan.combine(linear, packed, sizes)
    counts = {name: sizes.counts[name] for name in answers}
    return Outcome(plan.frame, weights, counts, receipts_in(answers))
