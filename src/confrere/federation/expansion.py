"""Every party releases the coefficients of its expanded loss once; their sum is minimised (OFAA).

Proof: docs/proofs/functional_mechanism.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from confrere.federation.averaging import Alpha
from confrere.federation.coefficients import COEFFICIENTS, CoefficientRequest
from confrere.federation.federation import Federation
from confrere.federation.operation import Facts
from confrere.federation.outcome import Outcome, over_parties, receipts_in
from confrere.federation.sizes import Sizes, ask_sizes
from confrere.federation.stacked import stacked
from confrere.guarantee import Guarantee
from confrere.maths.calibration import automatic_ridge
from confrere.mechanisms.functional import unpack
from confrere.rows.frame import Frame

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Expansion:
    """What parties release, and the ridge that the sum is minimised with.

    Parameters
    ----------
    frame : Frame
        The public coordinates, in L2.
    epsilon : float
        What each party spends.
    alpha : float or "auto", default="auto"
        Ridge per record of all parties; ``"auto"`` is the larger of the public rule and the
        typical size of the noise in the curvature.
    prior : array, optional
        Public weights to shrink towards, in the frame's coordinates.
    linear_share : float, default=0.5
        Share of epsilon for the linear coefficients.
    """

    frame: Frame
    epsilon: float
    alpha: Alpha = "auto"
    prior: Floats | None = None
    linear_share: float = 0.5

    @property
    def request(self) -> CoefficientRequest:
        """What parties are asked."""
        return CoefficientRequest(
            frame=self.frame, epsilon=float(self.epsilon), linear_share=self.linear_share
        )

    def guarantee(self, sizes: Sizes) -> Guarantee:
        """Return what is promised, for parties of these public sizes."""
        facts = [Facts(n, self.frame.n_features) for n in sorted(set(sizes.counts.values()))]
        prices = [self.request.mechanism(f).guarantee() for f in facts]
        return over_parties(prices, len(sizes.counts))

    def ridge(self, sizes: Sizes) -> float:
        """Return the public ridge."""
        if self.alpha != "auto":
            return sizes.total * float(self.alpha)
        size = self.frame.size
        facts = Facts(max(sizes.counts.values()), self.frame.n_features)
        mechanism = self.request.mechanism(facts)
        # Noise of M has Frobenius norm about m/rate in m dimensions, spread over the entries; a
        # symmetric matrix of entries sigma has norm 2 sigma sqrt(d), and the curvature is 2M.
        dimension = size * (size + 1) / 2
        entry = dimension / mechanism.noises[1].rho / math.sqrt(size * (size + 1))
        noise = 4 * entry * math.sqrt(size * len(sizes.counts))
        return max(noise, automatic_ridge(self.epsilon * self.linear_share, sizes.total, size))


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
    answers = federation.gather(
        COEFFICIENTS.name,
        plan.request.to_payload(),
        to=list(sizes.counts),
        quorum=quorum,
        timeout=timeout,
        expect=lambda name: plan.request.expected(sizes.counts[name]),
    )
    size = plan.frame.size
    linear = stacked(answers, "linear", (size,)).sum(axis=0)
    packed = stacked(answers, "quadratic", (size * (size + 1) // 2,)).sum(axis=0)
    weights = minimise_quadratic(
        linear, unpack(packed, size), ridge=plan.ridge(sizes), prior=plan.prior
    )
    counts = {name: sizes.counts[name] for name in answers}
    return Outcome(plan.frame, weights, counts, receipts_in(answers))


def minimise_quadratic(
    linear: Floats, quadratic: Floats, *, ridge: float, prior: Floats | None = None
) -> Floats:
    """Minimise ``v.w + w'Mw + (L/2)||w - u||^2`` with M's negative eigenvalues set to zero."""
    centre = np.zeros_like(linear) if prior is None else prior
    eigenvalues, vectors = np.linalg.eigh((quadratic + quadratic.T) / 2)
    curvature = 2 * np.maximum(eigenvalues, 0.0) + ridge
    return np.asarray(vectors @ ((vectors.T @ (ridge * centre - linear)) / curvature))
