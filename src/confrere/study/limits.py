"""What a party may still spend: of all limits that somebody set, the strictest."""

from __future__ import annotations

import math
from dataclasses import dataclass

from confrere.errors import BudgetExceeded
from confrere.guarantee import Guarantee
from confrere.ledger import Account, Ledger
from confrere.ledger.amounts import at_most, exact, minus
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
    delta : float
        The cap on the sum of deltas, where epsilon has a limit.
    """

    spent: float
    limit: float | None
    limit_by: str
    per_run: float | None
    delta: float = 0.0

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
        if self.limit is not None and price.delta > self.delta:
            raise BudgetExceeded(account, price.delta, self.delta, "delta")


def budget_of(party: Party, local: Local | None) -> Budget:
    """Return a party's budget; a ledger that is not there yet is not made."""
    caps: dict[str, float | None] = {"study": party.cap}
    deltas = [] if party.cap is None else [party.cap_delta]
    spent = 0.0
    if local is not None:
        caps["local policy"] = None if local.policy is None else local.policy.lifetime_epsilon
        if local.ledger_path.exists():
            account = _account(Ledger(local.ledger_path), party.account)
            if account is not None:
                spent, caps["ledger"] = account.spent, account.epsilon
                deltas += [] if account.epsilon is None else [account.delta]
    limits = {name: cap for name, cap in caps.items() if cap is not None}
    by = min(limits, key=lambda name: limits[name]) if limits else ""
    policy = None if local is None else local.policy
    per_run = None if policy is None else policy.max_epsilon_per_run
    return Budget(spent, limits.get(by), by, per_run, min(deltas, default=party.cap_delta))


def open_account(party: Party, local: Local, price: Guarantee) -> Ledger:
    """Return the ledger with the party's account open, once every limit covers the price."""
    budget = budget_of(party, local)
    budget.check(party.account, price)
    ledger = Ledger(local.ledger_path)
    if party.account not in {account.name for account in ledger.accounts()}:
        delta = 0.0 if budget.limit is None else budget.delta
        ledger.open_account(
            party.account,
            epsilon=budget.limit,
            delta=delta,
            unit=price.unit,
            neighbours=price.neighbours,
        )
    return ledger


def _account(ledger: Ledger, name: str) -> Account | None:
    return next((one for one in ledger.accounts() if one.name == name), None)
