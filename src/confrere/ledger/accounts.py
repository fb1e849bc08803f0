"""Accounts: what one allows, what it has spent, and the one rule by which it covers a price.

Money of privacy is counted in exact decimals. A float stands for the decimal it prints as: ten
charges of ``0.1`` are ``1``, and fit a cap of 1. Sums are never rounded; only what is shown as a
float is, always to the careful side.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import TYPE_CHECKING, Any, Literal, Self

from confrere.errors import AccountFrozen, BudgetExceeded, CompositionError, InvalidParameter
from confrere.guarantee import (
    Guarantee,
    Neighbours,
    Unit,
    at_least,
    at_most,
    check_epsilon,
    exact,
    minus,
    plus,
)

if TYPE_CHECKING:
    from confrere.ledger.chain import Row


@dataclass(frozen=True, slots=True)
class Balance:
    """What an account allows and what it has spent so far.

    Where the cap is on a year, what was spent in earlier years does not count against it. A year
    is the calendar's, in UTC, and never an earlier one than that of the last charge: a clock that
    is set back gives nothing back.
    """

    account: str
    epsilon_cap: Decimal | None
    delta_cap: Decimal
    unit: Unit | None
    neighbours: Neighbours | None
    frozen: str | None = None
    epsilon_spent: Decimal = Decimal(0)
    delta_spent: Decimal = Decimal(0)
    period: Literal["year"] | None = None
    year: int = 0
    epsilon_earlier: Decimal = Decimal(0)
    delta_earlier: Decimal = Decimal(0)

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
            period=facts.get("period"),
        )

    def changed(self, kind: str, facts: Mapping[str, Any]) -> Self:
        """Take over what the owner's row says: another cap, no more charges, or what is counted."""
        if kind == "frozen":
            return replace(self, frozen=str(facts["reason"]))
        if kind == "declared":
            return self._declared(Unit(facts["unit"]), Neighbours(facts["neighbours"]))
        return self.raised(facts["epsilon"], facts["delta"])

    def raised(self, epsilon: float | None, delta: float | None) -> Self:
        """Let more be spent, where a cap is given."""
        if self.epsilon_cap is None:
            raise InvalidParameter(f"account {self.account!r} has no cap to raise.")
        caps = (
            self.epsilon_cap if epsilon is None else exact(epsilon),
            self.delta_cap if delta is None else exact(delta),
        )
        falls = caps[0] < self.epsilon_cap or caps[1] < self.delta_cap
        if falls or caps == (self.epsilon_cap, self.delta_cap):
            raise InvalidParameter(
                f"account {self.account!r} has the caps epsilon {at_most(self.epsilon_cap):g} and "
                f"delta {at_most(self.delta_cap):g}; a raise makes one of them larger and neither "
                "smaller. To spend less, freeze the account when it is enough."
            )
        return replace(self, epsilon_cap=caps[0], delta_cap=caps[1])

    def _declared(self, unit: Unit, neighbours: Neighbours) -> Self:
        if self.unit is not None:
            raise InvalidParameter(
                f"account {self.account!r} counts per {self.unit} ({self.neighbours}) already; "
                "that does not change."
            )
        return replace(self, unit=unit, neighbours=neighbours)

    def resumed(self, charge: Mapping[str, Any]) -> Self:
        """Take over the running totals from the facts of the account's last charge."""
        spent = charge["spent"]
        resumed = replace(
            self, epsilon_spent=Decimal(spent["epsilon"]), delta_spent=Decimal(spent["delta"])
        )
        if self.period is None:
            return resumed
        return replace(
            resumed,
            year=int(spent["year"]),
            epsilon_earlier=Decimal(spent["earlier"]["epsilon"]),
            delta_earlier=Decimal(spent["earlier"]["delta"]),
        )

    def at(self, time: str) -> Self:
        """Begin the year of a time, if it is a later one."""
        year = int(time[:4])
        if self.period is None or year <= self.year:
            return self
        return replace(
            self, year=year, epsilon_earlier=self.epsilon_spent, delta_earlier=self.delta_spent
        )

    def after(self, guarantee: Guarantee, time: str) -> Self:
        """Pay for one more release at a time, composed in sequence, or say why not."""
        return self.at(time)._paid(guarantee)

    def _paid(self, guarantee: Guarantee) -> Self:
        if self.frozen is not None:
            raise AccountFrozen(
                f"account {self.account!r} is frozen ({self.frozen}); nothing was spent."
            )
        self._check_composable(guarantee)
        epsilon = plus(self.epsilon_spent, exact(guarantee.epsilon))
        delta = plus(self.delta_spent, exact(guarantee.delta))
        if self.epsilon_cap is not None:
            if minus(epsilon, self.epsilon_earlier) > self.epsilon_cap:
                raise BudgetExceeded(self.account, guarantee.epsilon, self.left, bound=self._bound)
            if minus(delta, self.delta_earlier) > self.delta_cap:
                left = at_most(minus(self.delta_cap, minus(self.delta_spent, self.delta_earlier)))
                raise BudgetExceeded(
                    self.account, guarantee.delta, max(0.0, left), "delta", self._bound
                )
        return replace(self, epsilon_spent=epsilon, delta_spent=delta)

    def booked(self, guarantee: Guarantee, time: str) -> Self:
        """Take over what was spent in rows that are gone; nothing is refused: it was spent."""
        begun = self.at(time)
        return replace(
            begun,
            epsilon_spent=plus(begun.epsilon_spent, exact(guarantee.epsilon)),
            delta_spent=plus(begun.delta_spent, exact(guarantee.delta)),
        )

    def _check_composable(self, guarantee: Guarantee) -> None:
        if self.unit is None or self.neighbours is None:
            raise CompositionError(
                f"account {self.account!r} is of an older file and does not say what it counts: "
                "its owner says it with `confrere ledger open LEDGER "
                f"{self.account!r} --unit record --neighbours replace-one --reason ...`. Nothing "
                "was spent."
            )
        if self.unit is not guarantee.unit:
            raise CompositionError(
                f"account {self.account!r} counts per {self.unit}, the guarantee is per "
                f"{guarantee.unit}: the two do not add up. Nothing was spent."
            )
        if self.neighbours is not guarantee.neighbours:
            raise CompositionError(
                f"account {self.account!r} counts {self.neighbours} neighbours, the guarantee is "
                f"for {guarantee.neighbours}: the two do not add up. Nothing was spent."
            )

    @property
    def _bound(self) -> str:
        return "ledger" if self.period is None else "ledger, this year"

    @property
    def facts(self) -> dict[str, float | str | None]:
        """What the account allows now, as the row that opens it says it."""
        return {
            "epsilon": None if self.epsilon_cap is None else float(self.epsilon_cap),
            "delta": float(self.delta_cap),
            "unit": self.unit,
            "neighbours": self.neighbours,
            "period": self.period,
        }

    @property
    def totals(self) -> dict[str, Any]:
        """The running totals, as a charge's row keeps them."""
        totals: dict[str, Any] = {
            "epsilon": str(self.epsilon_spent),
            "delta": str(self.delta_spent),
        }
        if self.period is None:
            return totals
        earlier = {"epsilon": str(self.epsilon_earlier), "delta": str(self.delta_earlier)}
        return totals | {"year": self.year, "earlier": earlier}

    @property
    def spent(self) -> float:
        """Epsilon spent in all, never shown as less than it is."""
        return at_least(self.epsilon_spent)

    @property
    def counted(self) -> float:
        """Epsilon that counts against the cap: all of it, or this year's."""
        return at_least(minus(self.epsilon_spent, self.epsilon_earlier))

    @property
    def left(self) -> float:
        """Epsilon that can still be charged; infinite without a cap, nothing once frozen."""
        if self.frozen is not None:
            return 0.0
        if self.epsilon_cap is None:
            return math.inf
        spent = minus(self.epsilon_spent, self.epsilon_earlier)
        # What was booked may be more than the cap.
        return max(0.0, at_most(minus(self.epsilon_cap, spent)))


@dataclass(frozen=True, slots=True)
class Limit:
    """A cap on all that was ever spent on the same data, besides the account's own.

    Attributes
    ----------
    epsilon : float
    by : str
        Who set it: one of :data:`confrere.errors.LIMITS`.
    over : tuple of str
        The accounts of these data, where there are others than the one that pays: a ledger of an
        older version has one for every name that studies gave them.
    """

    epsilon: float
    by: str
    over: tuple[str, ...] = ()

    def check(self, account: str, spent: Sequence[Decimal], price: Guarantee) -> None:
        """Refuse a price that does not fit beside what was spent."""
        left = exact(check_epsilon(self.epsilon))
        for one in spent:
            left = minus(left, one)
        if exact(price.epsilon) > left:
            raise BudgetExceeded(account, price.epsilon, max(0.0, at_most(left)), bound=self.by)


@dataclass(frozen=True, slots=True)
class Change:
    """What the owner did to an account, for ever in the chain.

    Attributes
    ----------
    row : int
    time : str
        When, in UTC.
    kind : {"opened", "raised", "frozen", "declared"}
    epsilon, delta : float or None
        The caps from then on, where they were set.
    reason : str or None
    """

    row: int
    time: str
    kind: str
    epsilon: float | None
    delta: float | None
    reason: str | None


@dataclass(frozen=True, slots=True)
class Account:
    """One budget and what became of it.

    Attributes
    ----------
    name : str
    epsilon : float or None
        The cap, as last raised; None without one.
    delta : float
        The cap on the sum of deltas; means nothing without a cap on epsilon.
    unit, neighbours
        What the account counts; None only in files of the first format, until declared.
    spent, left : float
        Epsilon spent in all, and epsilon that can still be charged (infinite without a cap).
    period : "year" or None
        Whether the caps are on a calendar year (in UTC), and ``left`` is what is left of this one.
    counted : float
        Epsilon that counts against the cap: all that was spent, or this year's.
    years : mapping of int to float
        Epsilon spent in each year in which something was.
    opened : str
        When, in UTC.
    frozen : str or None
        Why nothing more may be charged.
    history : tuple of Change
        How it was opened, and every raise since.
    """

    name: str
    epsilon: float | None
    delta: float
    unit: Unit | None
    neighbours: Neighbours | None
    spent: float
    left: float
    opened: str
    frozen: str | None
    history: tuple[Change, ...]
    period: Literal["year"] | None = None
    counted: float = 0.0
    years: Mapping[int, float] = field(default_factory=dict)

    @classmethod
    def of(cls, rows: Sequence[Row], balance: Balance, years: Mapping[int, float]) -> Self:
        """Join the rows about an account with what it has spent."""
        history = tuple(
            Change(
                row=row.seq,
                time=row.time,
                kind="opened" if row.kind == "account" else str(row.kind),
                epsilon=(facts := row.facts).get("epsilon"),
                delta=facts.get("delta"),
                reason=facts.get("reason"),
            )
            for row in rows
        )
        cap = balance.epsilon_cap
        return cls(
            name=balance.account,
            epsilon=None if cap is None else float(cap),
            delta=float(balance.delta_cap),
            unit=balance.unit,
            neighbours=balance.neighbours,
            spent=balance.spent,
            left=balance.left,
            opened=rows[0].time,
            frozen=balance.frozen,
            history=history,
            period=balance.period,
            counted=balance.counted,
            years=dict(years),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON, which has no infinity: ``left`` is then None."""
        values = asdict(self) | {"left": None if math.isinf(self.left) else self.left}
        return values | {"history": [asdict(change) for change in self.history]}


def shown(value: float) -> str:
    """Return at most four significant digits, rounded up: a price is never shown as less."""
    return _digits(value, ROUND_CEILING)


def shown_down(value: float) -> str:
    """Return at most four significant digits, rounded down: for what is left to spend."""
    return _digits(value, ROUND_FLOOR)


def _digits(value: float, rounding: str) -> str:
    rounded = Context(prec=4, rounding=rounding).create_decimal(repr(float(value)))
    return f"{rounded.normalize():f}" if abs(rounded) < Decimal("1e9") else f"{rounded:.3e}"
