"""How many records a public model gets wrong at every party, counted with noise.

Proof: docs/proofs/private_evaluation.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from confrere.federation.counts import ERRORS, expected_count
from confrere.federation.federation import Federation
from confrere.federation.outcome import guarantee_of, receipts_in
from confrere.federation.payload import Payload
from confrere.federation.sizes import ask_sizes
from confrere.guarantee import Guarantee
from confrere.ledger import Receipt


@dataclass(frozen=True)
class Evaluation:
    """Noised counts of errors.

    Parameters
    ----------
    errors : mapping of str to int
        Per party; noise may take it below 0 or above the party's size.
    sizes : mapping of str to int
        Records per party.
    receipts : mapping of str to tuple of Receipt
        What each party paid.
    """

    errors: Mapping[str, int]
    sizes: Mapping[str, int]
    receipts: Mapping[str, tuple[Receipt, ...]]

    @property
    def error_rate(self) -> float:
        """Share of all records that the model gets wrong, clipped to [0, 1]."""
        rate = sum(self.errors.values()) / sum(self.sizes.values())
        return min(1.0, max(0.0, rate))

    @property
    def guarantee(self) -> Guarantee:
        """What a person in one party's data is promised."""
        return guarantee_of(self.receipts)


def evaluate(
    federation: Federation,
    coef: ArrayLike,
    intercept: float = 0.0,
    *,
    epsilon: float,
    step: int = 0,
    quorum: float = 1.0,
    timeout: float | None = None,
) -> Evaluation:
    """Have every party count the errors of a public model.

    Parameters
    ----------
    federation : Federation
        Whom to ask, and under which run.
    coef : array of shape (n_features,)
        Public coefficients for rows as encoded.
    intercept : float, default=0.0
    epsilon : float
        What each party spends.
    step : int, default=0
        Which evaluation of the run this is.
    quorum, timeout
        As for :meth:`~confrere.federation.Federation.gather`.
    """
    sizes = ask_sizes(federation, quorum=quorum, timeout=timeout)
    request = Payload(
        {"epsilon": float(epsilon), "intercept": float(intercept)},
        {"coef": np.asarray(coef, dtype=np.float64).ravel()},
    )
    answers = federation.gather(
        ERRORS.name,
        request,
        to=list(sizes.counts),
        step=step,
        quorum=quorum,
        timeout=timeout,
        expect=lambda name: expected_count(ERRORS, request, sizes.counts[name]),
    )
    counts = {name: int(answer.arrays["errors"]) for name, answer in answers.items()}
    return Evaluation(counts, {n: sizes.counts[n] for n in answers}, receipts_in(answers))
