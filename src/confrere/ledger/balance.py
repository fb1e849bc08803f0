"""Whether an account covers a price: the one rule that charging and auditing share."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Self

from confrere.errors import BudgetExceeded, CompositionError
from confrere.guarantee import Guarantee, Neighbours, Unit
from confrere.ledger.amounts import at_least, at_most, exact, minus, plus


@dataclass(frozen=True, slots=True)
class Balance:
    """What an account allows and what it has spent so far."""

    account: str
    epsilon_cap: Decimal | None
    delta_cap: Decimal
    unit: Unit | None
    neighbours: Neighbours | None
    epsilon_spent: Decimal = Decimal(0)
    delta_spent: Decimal = Decimal(0)

    @classmethod
    def opened(cls, facts: Mapping[str, Any]) -> Self:
        """Read the facts of an account's own row: nothing is spent yet."""
        cap, unit, neighbours = facts["epsilon"], facts["unit"], facts["neighbours"]
        return cls(
            account=facts["name"],
            epsilon_cap=None if cap is None else exact(cap),
            delta_cap=exact(facts["delta"]),
            unit=None if unit is None else Unit(unit),
            neighbours=None if neighbours is None else Neighbours(neighbours),
        )

    def resumed(self, charge: Mapping[str, Any]) -> Self:
        """Take over the running totals from the facts of the account's last charge."""
        guarantee = Guarantee.from_dict(charge["guarantee"])
        return replace(
            self,
            unit=guarantee.unit,
            neighbours=guarantee.neighbours,
            epsilon_spent=Decimal(charge["spent"]["epsilon"]),
            delta_spent=Decimal(charge["spent"]["delta"]),
        )

    def after(self, guarantee: Guarantee) -> Self:
        """Pay for one more release, composed in sequence, or say why not."""
        self._check_composable(guarantee)
        epsilon = plus(self.epsilon_spent, exact(guarantee.epsilon))
        delta = plus(self.delta_spent, exact(guarantee.delta))
        if self.epsilon_cap is not None:
            if epsilon > self.epsilon_cap:
                raise BudgetExceeded(self.account, guarantee.epsilon, self.left)
            if delta > self.delta_cap:
                left = at_most(minus(self.delta_cap, self.delta_spent))
                raise BudgetExceeded(self.account, guarantee.delta, left, "delta")
        return replace(
            self,
            unit=guarantee.unit,
            neighbours=guarantee.neighbours,
            epsilon_spent=epsilon,
            delta_spent=delta,
        )

    def _check_composable(self, guarantee: Guarantee) -> None:
        if self.unit not in (None, guarantee.unit):
            raise CompositionError(
                f"account {self.account!r} counts per {self.unit}, the guarantee is per "
                f"{guarantee.unit}: open another account for it. Nothing was spent."
            )
        if self.neighbours not in (None, guarantee.neighbours):
            raise CompositionError(
                f"account {self.account!r} counts {self.neighbours} neighbours, the guarantee is "
                f"for {guarantee.neighbours}: open another account for it. Nothing was spent."
            )

    @property
    def totals(self) -> dict[str, str]:
        """The running totals, as a charge's row keeps them."""
        return {"epsilon": str(self.epsilon_spent), "delta": str(self.delta_spent)}

    @property
    def spent(self) -> float:
        """Epsilon spent, never shown as less than it is."""
        return at_least(self.epsilon_spent)

    @property
    def left(self) -> float:
        """Epsilon that can still be charged; infinite without a cap."""
        if self.epsilon_cap is None:
            return math.inf
        return at_most(minus(self.epsilon_cap, self.epsilon_spent))
