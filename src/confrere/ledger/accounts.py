"""Accounts as people see them: caps, what was spent, what the owner did; and tables of them."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal, Self

from confrere.errors import BudgetExceeded
from confrere.kernel.guarantee import (
    Guarantee,
    Neighbours,
    Unit,
    at_least,
    at_most,
    check_epsilon,
    exact,
    minus,
)
from confrere.kernel.ledger import Balance, Charge, Pages, said_by
from confrere.views import Table, Word, amount, moment, price, share, shown, shown_down

if TYPE_CHECKING:
    from confrere.ledger.entries import Decision, Entry


@dataclass(frozen=True, slots=True)
class Change:
    """What the owner did to an account, for ever in the chain."""

    row: int
    time: str  #: When, in UTC
    kind: str
    #: ``epsilon``, ``delta``: the caps from then on, where they were set.
    epsilon: float | None
    delta: float | None
    reason: str | None


#: What an account has as it was opened, or as it was last raised.
_TERMS = ("name", "epsilon", "delta", "unit", "neighbours", "period")


@dataclass(frozen=True, slots=True)
class Account:
    """One budget and what became of it."""

    name: str
    epsilon: float | None  #: The cap, as last raised; None without one
    delta: float  #: The cap on the sum of deltas; means nothing without a cap on epsilon
    unit: Unit  #: With ``neighbours``: what the account counts
    neighbours: Neighbours
    #: ``spent``, ``left``: epsilon spent in all, and epsilon that can still be charged (infinite
    #: without a cap).
    spent: float
    left: float
    opened: str  #: When, in UTC
    frozen: str | None  #: Why nothing more may be charged
    history: tuple[Change, ...]  #: How it was opened, and every raise since
    #: Whether the caps are on a calendar year (in UTC), and ``left`` is what is left of this one.
    period: Literal["year"] | None = None
    counted: float = 0.0  #: Epsilon that counts against the cap: all that was spent, or this year's
    #: Mapping of int to float. Epsilon spent in each year in which something was.
    years: Mapping[int, float] = field(default_factory=dict)

    @classmethod
    def of(cls, log: Pages, name: str) -> Self:
        """Read the rows about an account."""
        balance = log.balance(name)
        rows, terms = list(map(log.row, log.changes[name])), balance.terms
        kinds = ("opened" if row.kind == "account" else row.kind for row in rows)
        history = tuple(
            Change(row.seq, row.time, kind, said.epsilon, said.delta, said.reason)
            for row, kind, said in zip(rows, kinds, map(said_by, rows), strict=True)
        )
        return cls(
            **{one: getattr(terms, one) for one in _TERMS},
            spent=at_least(balance.paid.epsilon),
            left=left_of(balance),
            opened=rows[0].time,
            frozen=balance.frozen,
            history=history,
            counted=at_least(balance.counted.epsilon),
            years=_years(log, name),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON, which has no infinity: ``left`` is then None."""
        values = asdict(self) | {"left": None if math.isinf(self.left) else self.left}
        return values | {"history": [asdict(change) for change in self.history]}


def left_of(balance: Balance) -> float:
    """Return the epsilon that can be charged; infinite without a cap, nothing once frozen."""
    if balance.frozen is not None or balance.caps is None:
        return math.inf if balance.frozen is None else 0.0
    return max(0.0, at_most(balance.caps.minus(balance.counted).epsilon))


def _years(log: Pages, account: str) -> dict[int, float]:
    """Return the epsilon spent in every year in which something was."""

    def year(row: int) -> int:
        return int(log.said(row).spent.year or log.row(row).time[:4])

    rows, found, start, last, before = log.charged(account), {}, 0, 0, Decimal(0)
    while start < len(rows):
        # As caps count them: a clock that is set back does not bring a year back.
        last = max(last, year(rows[start]))
        start = bisect_right(rows, last, lo=start, key=year)
        total = log.said(rows[start - 1]).spent.epsilon
        found[last], before = at_least(minus(total, before)), total
    return found


@dataclass(frozen=True, slots=True)
class Limit:
    """A cap on all that was ever spent on the same data, besides the account's own.

    ``by`` is one of :data:`confrere.errors.LIMITS`. ``over`` are other accounts of these data: a
    ledger of an older version has one for every name that studies gave them.
    """

    epsilon: float
    by: str
    over: tuple[str, ...] = ()

    def __call__(self, log: Pages, charge: Charge) -> None:
        """Refuse a price that does not fit beside what was spent."""
        left, price = exact(check_epsilon(self.epsilon)), charge.guarantee.epsilon
        for one in {charge.account, *self.over} & log.balances.keys():
            left = minus(left, log.balance(one).paid.epsilon)
        if exact(price) > left:
            raise BudgetExceeded(charge.account, price, max(0.0, at_most(left)), bound=self.by)


def account_table(accounts: Iterable[Account], title: str = "") -> Table:
    """Show every budget."""
    numbers = ("cap", "spent", "left")
    rows = [
        (
            one.name,
            f"{one.unit} ({one.neighbours})",
            share(one.counted, one.epsilon),
            amount(one.epsilon) + ("" if one.period is None else f" a {one.period}"),
            shown(one.spent) if one.spent else "0",
            amount(one.left) if one.frozen is None else Word("frozen", "bad"),
            ", ".join(f"{year}: {shown(spent)}" for year, spent in one.years.items()),
        )
        for one in accounts
    ]
    columns = ("account", "per", "of its cap", *numbers, "by year")
    return Table(columns, rows, numbers, title, pictures=("of its cap",))


def charge_table(entries: Iterable[Entry], title: str = "") -> Table:
    """Show every charge; delta only where there is one."""
    rows = [
        (
            one.row,
            moment(one.time),
            one.account,
            price(one.guarantee.epsilon, one.guarantee.delta),
            one.purpose,
            one.state if one.code is None else f"{one.state} ({one.code})",
            "seeded" if one.simulated else "system",
        )
        for one in entries
    ]
    columns = ("row", "when", "account", "epsilon", "what for", "ended", "noise")
    return Table(columns, rows, ("row", "epsilon"), title)


def together_table(accounts: Iterable[Account], together: Mapping[str, Guarantee | None]) -> Table:
    """Show what all charges of an account promise together, beside their sum."""
    numbers = ("sum", "together", "delta")
    rows = [
        (
            one.name,
            shown(one.spent),
            *(("nothing", "") if found is None else (shown(found.epsilon), shown(found.delta))),
        )
        for one in accounts
        for found in [together[one.name]]
    ]
    title = "Together, if each price was fixed without looking at earlier releases"
    return Table(("account", *numbers), rows, numbers, title)


def owner_table(
    accounts: Iterable[Account],
    resets: Iterable[Mapping[str, object]] = (),
    decisions: Iterable[Decision] = (),
) -> Table:
    """Show what owners did: to accounts, about studies, and to the witness."""
    rows: list[tuple[object, ...]] = [
        (
            change.row,
            moment(change.time),
            one.name,
            change.kind,
            "" if change.epsilon is None else f"epsilon {shown_down(change.epsilon)}",
            change.reason or "",
        )
        for one in accounts
        for change in one.history
    ]
    rows += [(d.row, moment(d.time), "", f"{d.study} {d}", "", d.reason) for d in decisions]
    rows += [
        (one["since"], moment(str(one["time"])), "", "witness reset", "", one["reason"])
        for one in resets
    ]
    columns = ("row", "when", "account", "what", "cap", "why")
    return Table(columns, rows, ("row",), "Owners' acts")
