"""What a party may still spend: of all limits that somebody set, the strictest."""

from __future__ import annotations

import math
from dataclasses import dataclass

from confrere.errors import BudgetExceeded, UnknownAccount
from confrere.ledger import Ledger
from confrere.ledger.amounts import at_most, exact, minus
from confrere.privacy import Guarantee
from confrere.study.local import Local
from confrere.study.study import Party


@dataclass(frozen=True)
class Budget:
    """An account before a study spends.

    Attributes
    ----------
    spent : float
        What was charged to it so far.
    limit : float or None
        The strictest cap on all that is ever charged; None if nobody set one.
    limit_by : str
        Who set it: "study", "local policy" or "ledger".
    per_run : float or None
        What one run may spend.
    """

    spent: float
    limit: float | None
    limit_by: str
    per_run: float | None

    @property
    def left(self) -> float:
        """What can still be charged; infinite without a limit."""
        if self.limit is None:
            return math.inf
        return max(0.0, at_most(minus(exact(self.limit), exact(self.spent))))

    def check(self, account: str, price: Guarantee) -> None:
        """Refuse a price that a limit does not cover; nothing is spent."""
        if self.per_run is not None and price.epsilon > self.per_run:
            raise BudgetExceeded(account, price.epsilon, self.per_run, "epsilon per run")
        if price.epsilon > self.left:
            raise BudgetExceeded(account, price.epsilon, self.left)


def budget_of(party: Party, local: Local | None) -> Budget:
    """Return a party's budget; a ledger that is not there yet is not made."""
    caps: dict[str, float | None] = {"study": party.cap}
    spent = 0.0
    if local is not None:
        caps["local policy"] = local.policy.lifetime_epsilon
        if local.ledger_path.exists():
            spent, caps["ledger"] = _account(Ledger(local.ledger_path), party.account)
    limits = {name: cap for name, cap in caps.items() if cap is not None}
    by = min(limits, key=lambda name: limits[name]) if limits else ""
    per_run = None if local is None else local.policy.max_epsilon_per_run
    return Budget(spent, limits.get(by), by, per_run)


def open_account(party: Party, local: Local, price: Guarantee) -> Ledger:
    """Return the ledger with the party's account open, once every limit covers the price."""
    budget = budget_of(party, local)
    budget.check(party.account, price)
    ledger = Ledger(local.ledger_path)
    if party.account not in {account.name for account in ledger.accounts()}:
        ledger.open_account(party.account, epsilon=budget.limit)
    return ledger


def _account(ledger: Ledger, name: str) -> tuple[float, float | None]:
    try:
        spent = ledger.spent(name)
    except UnknownAccount:
        return 0.0, None
    return spent, next(one.epsilon for one in ledger.accounts() if one.name == name)
