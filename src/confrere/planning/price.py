"""What a fit would spend, and on whose account."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from confrere.errors import InvalidParameter
from confrere.kernel.guarantee import Guarantee
from confrere.ledger import Ledger, default_ledger


@dataclass(frozen=True, slots=True)
class FitPrice:
    """A price tag. Nothing was charged."""

    guarantee: Guarantee  #: What one ``fit`` would promise and cost
    account: str | None  #: Who would pay; None is the session's own account, without a cap
    left: float  #: Epsilon that the account still has; infinite without a cap
    affordable: bool  #: Whether the account covers it now

    def __str__(self) -> str:
        who = "the session's own account" if self.account is None else f"account {self.account!r}"
        verdict = "covered" if self.affordable else "not covered"
        return f"{self.guarantee}, paid by {who} ({self.left:g} left: {verdict})"


def price(
    estimator: Any,  # Its ``ledger`` and ``account`` say who would pay
    # ``n_samples``, ``n_features``: public sizes.
    n_samples: int,
    n_features: int,
) -> FitPrice:
    """Return what ``estimator.fit`` on data of these sizes would spend, without spending it."""
    if not hasattr(estimator, "price"):
        raise InvalidParameter("estimator must be a private classifier: it states a price.")
    guarantee: Guarantee = estimator.price(n_samples, n_features)
    ledger: Ledger = default_ledger() if estimator.ledger is None else estimator.ledger
    if ledger.ephemeral and estimator.account is None:
        return FitPrice(guarantee, None, float("inf"), True)
    account = ledger.account_for(estimator.account)
    return FitPrice(guarantee, account, ledger.left(account), ledger.affords(account, guarantee))
